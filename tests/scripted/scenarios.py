"""Scenarios: who decides what the scripted model answers, and the helpers that put them together.

Wherever a helper takes a *step*, it takes an answer (a reply or a fault), given every time, or a scenario of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping

from tests.scripted.faults import Answer, Fault
from tests.scripted.values import Reply, Request

Scenario = Callable[[Request], Answer]
Step = Answer | Scenario
Predicate = Callable[[Request], bool]


class ScenarioError(AssertionError):
    """A scenario has no answer: the test did not expect this call. The server reports it when it stops."""


def current_test() -> str:
    """Return the name of the running test, or words for its absence."""
    return os.environ.get("PYTEST_CURRENT_TEST", "no test").rpartition(" (")[0] or "no test"


def as_scenario(step: Step) -> Scenario:
    """Return ``step`` itself if it is a scenario, else one that always gives this answer."""
    if callable(step):
        return step
    answer = step
    return lambda request: answer


class Script:
    """A queue: the first call gets the first step, and so on, in order of arrival.

    For calls that come one after the other. Calls in parallel have no order that a test could rely on: take ``turns``
    or ``by_role``, which look at the request. A step that is a scenario answers one call.

    Raises:
        ScenarioError: Called once more than there are steps.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        """Queue ``steps``."""
        self._steps = tuple(steps)
        self._used = 0
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int:
        """How many steps nobody asked for: a test that expects all calls asserts that it is 0."""
        with self._lock:
            return len(self._steps) - self._used

    def __call__(self, request: Request) -> Answer:
        """Answer with the next step."""
        with self._lock:
            if self._used == len(self._steps):
                raise ScenarioError(
                    f"the script of {current_test()} has {len(self._steps)} step(s), and call {request.index} asks for "
                    f"one more: {request.dialect} {request.model}, turn {request.turn}, last {request.last.role} "
                    f"message {request.last.text[:120]!r}"
                )
            step = self._steps[self._used]
            self._used += 1
        return as_scenario(step)(request)


def by_role(routes: Mapping[str | Predicate, Step], *, default: Step | None = None) -> Scenario:
    """Return a scenario that hands each call to the one route it belongs to.

    A text as key stands for calls whose system text contains it; a predicate is asked.

    Raises (when called):
        ScenarioError: No route takes the call and there is no default, or more than one takes it: a test that leaves
            open who answers would pass by chance.
    """
    table = [(key, as_scenario(step)) for key, step in routes.items()]
    otherwise = None if default is None else as_scenario(default)

    def route(request: Request) -> Answer:
        takers = [
            (key, answer) for key, answer in table if (key in request.system if isinstance(key, str) else key(request))
        ]
        if len(takers) > 1:
            names = ", ".join(key if isinstance(key, str) else getattr(key, "__name__", "?") for key, _ in takers)
            raise ScenarioError(f"call {request.index} of {current_test()} belongs to more than one route: {names}")
        if takers:
            return takers[0][1](request)
        if otherwise is not None:
            return otherwise(request)
        raise ScenarioError(
            f"call {request.index} of {current_test()} belongs to no route; its system text begins "
            f"{request.system[:120]!r}"
        )

    return route


def turns(*steps: Step) -> Scenario:
    """Return a scenario for a tool loop: the step is chosen by how many replies the conversation already holds.

    It keeps no count, so any number of conversations may run it in parallel, and a call that is sent again gets the
    same answer again.

    Raises (when called):
        ScenarioError: The conversation has more turns than there are steps.
    """
    table = [as_scenario(step) for step in steps]

    def turn(request: Request) -> Answer:
        if request.turn >= len(table):
            raise ScenarioError(
                f"call {request.index} of {current_test()} is turn {request.turn} of its conversation; "
                f"there are steps for {len(table)}"
            )
        return table[request.turn](request)

    return turn


def first(n: int, fault: Fault, *, then: Step) -> Scenario:
    """Return a scenario that answers its first ``n`` calls with ``fault`` and every later one with ``then``."""
    return _switch(n, fault, then)


def after(n: int, fault: Fault, *, before: Step = Reply("ok")) -> Scenario:  # noqa: B008 - a frozen value
    """Return a scenario that answers its first ``n`` calls with ``before`` and every later one with ``fault``."""
    return _switch(n, before, fault)


def _switch(n: int, early: Step, late: Step) -> Scenario:
    early_scenario, late_scenario = as_scenario(early), as_scenario(late)
    lock = threading.Lock()
    calls = 0

    def switch(request: Request) -> Answer:
        nonlocal calls
        with lock:
            calls += 1
            is_early = calls <= n
        return (early_scenario if is_early else late_scenario)(request)

    return switch
