"""What the service says while it works: one event a line, as JSON or as text, without secrets."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

FORMATS = ("text", "json")


class Log:
    """Writes events. Thread-safe.

    Every text goes through ``clean``, which takes known secrets out; line ends inside are escaped, so that what a session
    or a stranger says can be no line of its own.
    """

    def __init__(self, write: Callable[[str], None], clean: Callable[[str], str], form: str = "text") -> None:
        """``form``: one of ``FORMATS``."""
        self._write = write
        self._clean = clean
        self._json = form == "json"
        self._lock = threading.Lock()

    def __call__(self, event: str, *, exc_info: BaseException | None = None, **facts: Any) -> None:
        """One event. ``exc_info``: its traceback goes along."""
        if exc_info is not None:
            facts["traceback"] = "".join(traceback.format_exception(exc_info))[-8000:]
        line = self._as_json(event, facts) if self._json else self._as_text(event, facts)
        with self._lock:
            self._write(line)

    def _as_json(self, event: str, facts: dict[str, Any]) -> str:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        kept = {key: self._clean(value) if isinstance(value, str) else value for key, value in facts.items()}
        return json.dumps({"at": at, "event": event, **kept}, default=str)

    def _as_text(self, event: str, facts: dict[str, Any]) -> str:
        told = {key: value for key, value in facts.items() if value not in (None, "")}
        text = str(told.pop("text", ""))
        rest = " ".join(f"{key}={value}" for key, value in told.items())
        line = " ".join(part for part in (event, rest and f"({rest})") if part)
        line = f"{line}: {text}" if text else line
        return self._clean(line).replace("\r", "\\r").replace("\n", "\\n")


def to_stderr(text: str) -> None:
    """A line at once."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is where a service's log goes
