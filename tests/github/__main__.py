"""``python -m tests.github``: fetch GitHub's OpenAPI description now, so that no test has to."""

from __future__ import annotations

import sys
import time

from tests.github.openapi import PACKAGE, ContractUnavailableError, slim_file
from tests.github.routes import PATHS

started = time.monotonic()
try:
    path = slim_file(PATHS)
except ContractUnavailableError as error:
    print(f"openapi: {error}", file=sys.stderr)
    raise SystemExit(3) from None
print(
    f"openapi: {PACKAGE} is ready ({path.stat().st_size // 1024} kB, {time.monotonic() - started:.1f} s)",
    file=sys.stderr,
)
