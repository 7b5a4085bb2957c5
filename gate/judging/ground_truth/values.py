"""Typed equality, dotted paths, computed expected values, strict JSON, and words for people."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable
from typing import Any


class NotCheckableError(Exception):
    """A check cannot be answered, for a reason of the run's or the suite's own: it becomes ``not_run``.

    The message is a sentence without a full stop.
    """


REPORTED = (
    "how calls ended was reported by a program in the sandbox and is no evidence; check a file or the answer, "
    "or run the case with the built-in loop"
)
"""Why no check may rest on the result of a ``reported`` call (DESIGN.md 3: such a result is tier 2, and nobody confirms it)."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# Own table instead of strftime: the result must not hang on the machine's locale or C library.
_DIRECTIVES: dict[str, Callable[[dt.date], str]] = {
    "%": lambda day: "%",
    "Y": lambda day: f"{day.year:04d}",
    "y": lambda day: f"{day.year % 100:02d}",
    "m": lambda day: f"{day.month:02d}",
    "-m": lambda day: str(day.month),
    "d": lambda day: f"{day.day:02d}",
    "-d": lambda day: str(day.day),
    "j": lambda day: f"{day.timetuple().tm_yday:03d}",
    "B": lambda day: _MONTHS[day.month - 1],
    "b": lambda day: _MONTHS[day.month - 1][:3],
    "A": lambda day: _DAYS[day.weekday()],
    "a": lambda day: _DAYS[day.weekday()][:3],
    "G": lambda day: f"{day.isocalendar().year:04d}",
    "V": lambda day: f"{day.isocalendar().week:02d}",
    "u": lambda day: str(day.isoweekday()),
    "F": lambda day: day.isoformat(),
}
_COMPUTED = re.compile(r"\{\{\s*run_date\s*(?::([^{}]*))?\}\}")
_DIRECTIVE = re.compile(r"%(-?.)?", re.DOTALL)


def computed(value: Any, run_date: str, *, quote: Callable[[str], str] = str) -> Any:
    """``value`` with every ``{{run_date:FORMAT}}`` in its texts replaced by the recorded run date (K26).

    ``{{run_date}}`` alone is the ISO date; FORMAT knows the directives of ``_DIRECTIVES``. ``quote`` is applied to what
    is put in (``re.escape`` for patterns). Raises NotCheckableError for a directive that it does not know.
    """
    if isinstance(value, str):
        if "run_date" not in value:
            return value
        day = dt.date.fromisoformat(run_date)
        return _COMPUTED.sub(lambda found: quote(_formatted(day, found.group(1))), value)
    if isinstance(value, dict):
        return {key: computed(item, run_date, quote=quote) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [computed(item, run_date, quote=quote) for item in value]
    return value


def _formatted(day: dt.date, form: str | None) -> str:
    def one(found: re.Match[str]) -> str:
        name = found.group(1) or ""
        if name not in _DIRECTIVES:
            raise NotCheckableError(f"%{name} is no known part of a run_date format")
        return _DIRECTIVES[name](day)

    return day.isoformat() if form is None else _DIRECTIVE.sub(one, form)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal with their types.

    ``true`` is not ``1``, ``"10"`` is not ``10``; ``1`` and ``1.0`` are one number, as JSON has one number type.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool) and one == other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


_STEP = re.compile(r"""\.?(?P<name>[^.\[\]"]+) | \[(?P<index>\d+)\] | \[(?P<quoted>"(?:[^"\\]|\\.)*")\]""", re.VERBOSE)
_MISSING = object()


def path_steps(path: str) -> list[str | int]:
    """The steps of a dotted path: ``user.id``, ``items[0].id``, ``["a.b"].c``; ``$.`` in front is allowed.

    Raises NotCheckableError for a path that is not one.
    """
    rest = path.removeprefix("$").removeprefix(".") if path.startswith("$") else path
    steps: list[str | int] = []
    position = 0
    while position < len(rest):
        found = _STEP.match(rest, position)
        # A name needs a dot in front of it unless it is the first step; a first step has none.
        if found is None or (found.group("name") is not None and (rest[position] == ".") != (position > 0)):
            raise NotCheckableError(f"{clip(path)} is not a field path such as user.id or items[0].id")
        if found.group("index") is not None:
            steps.append(int(found.group("index")))
        else:
            steps.append(json.loads(found.group("quoted")) if found.group("quoted") else found.group("name"))
        position = found.end()
    if not steps:
        raise NotCheckableError(f"{clip(path)} is not a field path such as user.id or items[0].id")
    return steps


def at(value: Any, steps: list[str | int]) -> tuple[bool, Any]:
    """(found, value) at a path. A name steps into objects only, a number into lists only."""
    for step in steps:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list | tuple) and step < len(value) else _MISSING
        else:
            value = value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
        if value is _MISSING:
            return False, None
    return True, value


def strict_json(text: str) -> Any:
    """One JSON value. Raises ValueError, as a clause, for anything else: two values, duplicate keys, NaN, infinities."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)
        if len(value) != len(items):
            twice = next(key for index, (key, _) in enumerate(items) if key in dict(items[:index]))
            raise ValueError(f"the key {clip(twice)} stands twice in one object")
        return value

    def number(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{clip(text, 40)} is no finite number")
        return value

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=number, parse_float=number)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def shown(value: Any) -> str:
    """A JSON value for people, with its type visible: text in quotes."""
    return clip(json.dumps(value, ensure_ascii=False, default=str), 160)


_SURROGATE = re.compile("[\ud800-\udfff]")


def storable(text: str) -> str:
    """Text as it reads back from a bundle: a lone surrogate, which no file can hold, is U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def clip(text: str, limit: int = 120) -> str:
    """Text on one line, at most ``limit`` characters, cut in the middle; ``storable``."""
    text = " ".join(storable(text).split())
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3 - 1]}…{text[len(text) - limit // 3 :]}"
