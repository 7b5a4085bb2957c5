"""Answers kept for the length of one decision, so that nine rules do not count the same runs nine times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from gate.domain.report import CaseRecord

P = ParamSpec("P")
R = TypeVar("R")

_kept: ContextVar[dict[tuple[Any, ...], tuple[Any, Any]] | None] = ContextVar("kept", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Within this block every ``remembered`` function computes an answer once. A block inside a block is the same block;
    after the outermost one nothing is kept."""
    if _kept.get() is not None:
        yield
        return
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """A pure function of frozen values whose answers ``remembering`` keeps.

    Arguments are told apart by identity, which costs nothing, unlike comparing whole records. What is kept holds its
    arguments, so no identity can be given to another object while it is kept. Outside of a block the function is called.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        kept = _kept.get()
        if kept is None:
            return function(*args, **kwargs)
        key: tuple[Any, ...] = (function, *map(id, args))
        if kwargs:
            key = (*key, *((name, id(value)) for name, value in sorted(kwargs.items())))
        found = kept.get(key)
        if found is None:
            found = kept[key] = ((args, kwargs), function(*args, **kwargs))
        answer: R = found[1]
        return answer

    return call


def remembered_of_runs(function: Callable[Concatenate[CaseRecord, P], R]) -> Callable[Concatenate[CaseRecord, P], R]:
    """The same for a function of a case that looks at its plan and its runs only, never at Layer 3 or at what is missing:
    cases that share both have one answer. Further arguments by position, told apart by identity."""

    @wraps(function)
    def call(case: CaseRecord, /, *args: P.args, **kwargs: P.kwargs) -> R:
        kept = _kept.get()
        if kept is None:
            return function(case, *args, **kwargs)
        key: tuple[Any, ...] = (function, id(case.plan), id(case.runs), *map(id, args))
        if kwargs:
            key = (*key, *((name, id(value)) for name, value in sorted(kwargs.items())))
        found = kept.get(key)
        if found is None:
            held = (case.plan, case.runs, args, kwargs)
            found = kept[key] = (held, function(case, *args, **kwargs))
        answer: R = found[1]
        return answer

    return call
