"""``python -m tests.github``: fetch GitHub's OpenAPI description and its examples of webhooks now, so that no test has to.

``--cached``: only say by the exit code whether it is here already. Exit: 0 it is here, 1 it is not, 3 it cannot be had.
"""

from __future__ import annotations

import sys
import time

from tests.github import webhooks
from tests.github.openapi import PACKAGE, ContractUnavailableError, is_here, slim_file
from tests.github.routes import PATHS


def main(arguments: list[str]) -> int:
    """The exit code."""
    if arguments == ["--cached"]:
        return 0 if is_here(PATHS) and webhooks.is_here() else 1
    started = time.monotonic()
    try:
        path = slim_file(PATHS)
        webhooks.payloads_file()
    except ContractUnavailableError as error:
        print(f"openapi: {error}", file=sys.stderr)
        return 3
    size, seconds = path.stat().st_size // 1024, time.monotonic() - started
    print(f"openapi: {PACKAGE} and {webhooks.PACKAGE} are ready ({size} kB, {seconds:.1f} s)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
