"""``python -m tests.scripted --port 0 --scenario module:name``: the scripted model as a process of its own."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from tests.scripted.scenarios import Step
from tests.scripted.server import ScriptedServer, ScriptedServerError


def load(spec: str) -> Step:
    """Return the scenario, or the answer, that ``module:name`` stands for.

    Raises:
        ValueError: There is nothing of that name.
    """
    module_name, _, path = spec.partition(":")
    if not module_name or not path:
        raise ValueError(f"{spec!r} is not of the form module:name")
    found: Any
    try:
        found = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{spec!r}: {error}") from error
    step: Step = found
    return step


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the address, serve until SIGTERM or SIGINT, and return 1 if anything went wrong meanwhile, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.scripted", description=__doc__)
    parser.add_argument("--scenario", required=True, metavar="MODULE:NAME", help="a scenario, or one answer for all")
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free one")
    parser.add_argument("--save", metavar="FILE", help="write what was sent to this file at the end")
    parser.add_argument("--lenient-turns", action="store_true", help="roles need not alternate (command-line agents)")
    parser.add_argument("--allow-protocol-errors", action="store_true", help="do not fail because of them")
    options = parser.parse_args(arguments)
    try:
        scenario = load(options.scenario)
    except ValueError as error:
        parser.error(str(error))
    told_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_stop.set())
    server = ScriptedServer(
        scenario,
        port=options.port,
        strict_turns=not options.lenient_turns,
        allow_protocol_errors=options.allow_protocol_errors,
    )
    server.start()
    print(server.url, flush=True)
    told_to_stop.wait()
    server.stop()
    if options.save:
        server.save(options.save)
    try:
        server.check()
    except ScriptedServerError as findings:
        print(findings, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
