"""A child process that answers one JSON line with one JSON line, and that is killed when it takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class ChildEndedError(Exception):
    """The child gave no answer: its time was over, or it broke. Another one starts with the next question."""


class Child:
    """Started by its first question. Not for several threads at once."""

    def __init__(self, worker: Path, flags: Sequence[str]) -> None:
        """``worker``: the script; ``flags``: of the interpreter, always with ``-I``: no environment, no current folder."""
        self._command = [sys.executable, *flags, str(worker)]
        self._process: subprocess.Popen[str] | None = None
        self._ended: subprocess.Popen[str] | None = None

    def ask(self, question: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        """The answer. Raises ChildEndedError where there is none in time; what the child had been told is then lost."""
        child = self._process or self._start()
        assert child.stdin is not None  # noqa: S101 - Popen was given pipes
        assert child.stdout is not None  # noqa: S101
        late = threading.Timer(deadline_s, child.kill)
        late.daemon = True
        late.start()
        try:
            child.stdin.write(json.dumps(question) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late.cancel()
        if not line.endswith("\n"):
            self.stop()
            raise ChildEndedError
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            encoding="utf-8",
        )
        return self._process

    def poll(self) -> int | None:
        """The exit code of the process that runs or ran last; None while it runs, or where there was none."""
        latest = self._process or self._ended
        return latest.poll() if latest else None

    def stop(self) -> None:
        """End it, if it runs."""
        child, self._process = self._process, None
        self._ended = child or self._ended
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        child.wait()
