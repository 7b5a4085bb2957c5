"""Validating JSON under an author's JSON Schema, with a bound on time and without a network.

A schema can hold regular expressions and recursions that never end, so it is evaluated in a child process that is killed
at a deadline; a validation that reaches it is ``not_run``, never a pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gate.judging.ground_truth.child import Child, ChildEndedError

DEADLINE_S = 10.0
"""For one validation."""
FIRST_S = 30.0
"""More for the first, which starts the interpreter and loads the library."""
_WORKER = Path(__file__).with_name("schema_worker.py")


class SchemaError(Exception):
    """A validation that gave no answer. The message is a clause: invalid schema, unknown reference, or deadline."""


class SchemaValidator:
    """Validates values, one child process for all of them; to be closed. Not for several threads at once."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._child = Child(_WORKER, ("-I",))
        self._started = False

    def problems(self, value: Any, schema: dict[str, Any] | bool) -> list[str]:
        """What makes a JSON value invalid, at most five clauses, each with its place; empty where it is valid.

        Raises SchemaError.
        """
        deadline = self._deadline_s + (0 if self._started else FIRST_S)
        try:
            answer = self._child.ask({"schema": schema, "value": value}, deadline)
        except ChildEndedError:
            self._started = False
            raise SchemaError(
                f"the validation did not end within {self._deadline_s:g} s: simplify the schema"
            ) from None
        self._started = True
        if "error" in answer:
            raise SchemaError(str(answer["error"]))
        return [str(problem) for problem in answer["problems"]]

    def close(self) -> None:
        """End the child process."""
        self._child.stop()
        self._started = False
