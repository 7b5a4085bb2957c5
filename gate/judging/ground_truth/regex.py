"""Searching with an author's regular expression, with a bound on time and input.

Python's ``re`` has no time limit and holds the interpreter while it backtracks, so a pattern such as ``(a+)+$`` from a
pull request could stop the gate. Refusing patterns by their shape would refuse harmless ones too (a wrong red), so every
search with a repetition happens in a child process that is killed at a deadline. The deadline is far above what any
ordinary search needs; a search that reaches it is ``not_run``, never a pass.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import TracebackType
from typing import Self

DEADLINE_S = 5.0
"""For one search."""
TEXT_LIMIT = 20_000_000
"""Characters of a text that is searched: the cap on everything that a run may leave behind."""
_WORKER = Path(__file__).with_name("regex_worker.py")
_BRANCHES = re.compile(r"[*+?{|]")


class RegexError(Exception):
    """A search that gave no answer. The message is a clause: invalid pattern, text too long, or deadline."""


class RegexSearch:
    """Searches texts; a context manager, so that its child process ends with it. Not for several threads at once."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._child: subprocess.Popen[str] | None = None
        self._sent: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def search(self, pattern: str, text: str, *, ignore_case: bool = False) -> tuple[int, int] | None:
        """Where a pattern is first found (``re.search``, no flags but IGNORECASE if asked), or None.

        Raises RegexError for an invalid pattern, a text over TEXT_LIMIT, and a search that did not end in time.
        """
        if len(text) > TEXT_LIMIT:
            raise RegexError(f"the text has {len(text)} characters, more than the {TEXT_LIMIT} that are searched")
        flags = re.IGNORECASE if ignore_case else 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a FutureWarning about set syntax is the author's concern, not ours
                compiled = re.compile(pattern, flags)
        except (re.error, RecursionError, OverflowError) as error:
            raise RegexError(f"the pattern is not a regular expression: {error}") from None
        if not _BRANCHES.search(pattern):  # one way to match at each place: linear
            found = compiled.search(text)
            return found.span() if found else None
        return self._ask(pattern, int(flags), text)

    def _ask(self, pattern: str, flags: int, text: str) -> tuple[int, int] | None:
        name = self._sent.get(text)
        if name is None:
            name = str(len(self._sent))
            self._exchange({"text": name, "value": text})
            self._sent[text] = name
        answer = self._exchange({"search": pattern, "flags": flags, "in": name})
        if "error" in answer:
            raise RegexError(f"the search failed: {answer['error']}")
        span = answer["span"]
        return (int(span[0]), int(span[1])) if span else None

    def _exchange(self, command: dict[str, object]) -> dict[str, list[int] | None]:
        child = self._child or self._start()
        assert child.stdin is not None  # noqa: S101 - Popen was given pipes
        assert child.stdout is not None  # noqa: S101
        # A text may be long: its way to the child must not eat the time of the search, nor be unbounded.
        late = threading.Timer(self._deadline_s + (60 if "text" in command else 0), child.kill)
        late.daemon = True
        late.start()
        try:
            child.stdin.write(json.dumps(command) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late.cancel()
        if not line.endswith("\n"):
            self._stop()
            raise RegexError(f"the search did not end within {self._deadline_s:g} s: simplify the pattern")
        answer: dict[str, list[int] | None] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[str]:
        # -I and -S: no site packages, no environment variables, no current folder on the path.
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            encoding="utf-8",
        )
        return self._child

    def _stop(self) -> None:
        child, self._child, self._sent = self._child, None, {}
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
