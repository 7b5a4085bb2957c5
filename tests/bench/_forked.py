"""The command line in forks of a process that has imported everything: a session that can be killed costs no start of Python.

Sandboxes are in memory, everything else is the program. ``python -m tests.bench._forked`` reads one JSON object a line
(``arguments``, ``log``), forks, prints the child's process id, and when the child has ended its return code as ``waitpid``
tells it (negative: the signal). One at a time.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.story import gate_environment

KEY = "key"
"""What the journal of every such session is authenticated by."""


class Forks:
    """Sessions one after the other. A context manager."""

    def __enter__(self) -> Self:
        """Start the process that forks."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=gate_environment(),
        )
        self._line()  # it says when it is ready
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def run(self, arguments: Sequence[str], log: Path, *, kill_after: float | None = None) -> int:
        """One command to its end, or to its SIGKILL after so many seconds; its return code, negative for a signal."""
        assert self._process.stdin is not None
        print(json.dumps({"arguments": list(arguments), "log": str(log)}), file=self._process.stdin, flush=True)
        pid = int(self._line())
        if kill_after is not None:
            time.sleep(kill_after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that forks has ended")
        return line


def _child(given: dict[str, Any]) -> int:
    from gate.cli import main as run_command
    from gate.wiring import bind
    from tests.fakes.sandbox import ScriptedSandbox
    from tests.unit.execution.world import shell

    log = os.open(given["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    with ScriptedSandbox(shell()) as sandbox:
        app = bind({"OPENAI_API_KEY": KEY, "HOME": "/nonexistent"}, threading.Event())
        return run_command(replace(app, make_sandbox=lambda: sandbox), given["arguments"])


def _modules(log: str) -> Path:
    return Path(f"{log}.modules")


def main() -> None:
    """Fork until standard input ends."""
    from gate.evidence.cache import code_digest

    code_digest()
    print("ready", flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 3
            try:
                code = _child(given)
                _modules(given["log"]).write_text("\n".join(sys.modules), encoding="utf-8")
            except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(pid, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code == 0:  # what it had to import, later ones need not
            for name in _modules(given["log"]).read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        print(code, flush=True)


if __name__ == "__main__":
    main()
