"""A model that says what a test wrote down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gate.domain.chat import ChatReply, ChatRequest, Finish, TokenUsage, ToolUse
from gate.errors import ModelError
from tests.scripted.scenarios import current_test

Step = str | ChatReply | ModelError
Script = Callable[[ChatRequest], Step] | Iterable[Step]

USAGE = TokenUsage(input_tokens=100, output_tokens=10)


def say(text: str, *, finish: Finish = Finish.STOP, usage: TokenUsage | None = USAGE, **more: Any) -> ChatReply:
    """A reply in words."""
    return ChatReply(text=text, finish=finish, usage=usage, **{"model": "scripted-1", **more})


def use(name: str, arguments: Mapping[str, Any] | str | None = None, *, text: str = "", id: str = "") -> ChatReply:  # noqa: A002
    """A reply that calls one tool; text as ``arguments`` stands for arguments that are not a JSON object."""
    raw = arguments if isinstance(arguments, str) else ""
    call = ToolUse(
        id=id or f"use-{name}",
        name=name,
        arguments=None if isinstance(arguments, str) else dict(arguments or {}),
        raw_arguments=raw,
    )
    return ChatReply(text=text, tool_uses=(call,), finish=Finish.TOOL_USE, usage=USAGE, model="scripted-1")


class ScriptedChat:
    """A ChatModel with a queue of steps, or a function that decides each one. Thread-safe.

    A text is a plain reply, a ModelError is raised, a ChatReply is given as it is. A queue is for calls one after the
    other; for parallel calls take a function of the request. An empty queue is an AssertionError that names the test.
    """

    def __init__(
        self, script: Script = (), *, name: str = "scripted:scripted-1", family: str = "scripted", usage: bool = True
    ) -> None:
        """``usage`` False: plain replies carry no usage, as from some servers."""
        self.name = name
        self.family = family
        self._decide = script if callable(script) else None
        self._queue = [] if callable(script) else list(script)
        self._usage = USAGE if usage else None
        self._lock = threading.Lock()
        self._requests: list[ChatRequest] = []
        self._used = 0

    @property
    def requests(self) -> list[ChatRequest]:
        """What was asked so far, in order of arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def remaining(self) -> int:
        """Steps that nobody asked for."""
        with self._lock:
            return len(self._queue) - self._used

    def complete(self, request: ChatRequest) -> ChatReply:
        """The next step."""
        with self._lock:
            self._requests.append(request)
        step = self._decide(request) if self._decide is not None else self._next(request)
        if isinstance(step, ModelError):
            raise step
        return say(step, usage=self._usage) if isinstance(step, str) else step

    def _next(self, request: ChatRequest) -> Step:
        with self._lock:
            if self._used == len(self._queue):
                raise AssertionError(
                    f"{current_test()}: {self.name} has {len(self._queue)} step(s), and {request.label} asks for one more"
                )
            self._used += 1
            return self._queue[self._used - 1]
