"""The base of every value, canonical JSON, and rounding."""

from __future__ import annotations

import hashlib
import json
import math
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with text keys."""


class Value(BaseModel):
    """A frozen value. Unknown fields are errors; equal contents are equal values.

    What checks a kind's fields is built when the first value of the kind is made: most sessions make few of the kinds.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64", defer_build=True
    )

    def to_json(self) -> dict[str, Any]:
        """The JSON form (``mode="json"``): what goes into a bundle file."""
        return self.model_dump(mode="json")


class FallbackCount(Value):
    """One kind of fallback (DESIGN.md 9) and how often it happened."""

    kind: str
    """Such as ``reply_fenced``, ``quote_rejected:not_found``, ``run_retried``, ``position_unstable``."""
    role: str = ""
    count: int = Field(ge=1)


class NotRun(Value):
    """A stage that did not run, as a value, so that no reader can take its absence for a result."""

    not_run: str
    """Why, as a sentence without a full stop. Never empty."""
    fallbacks: tuple[FallbackCount, ...] = ()
    """What was tried before it was given up."""


class Severity(StrEnum):
    """How much an assertion counts. ``must`` can fail a skill, ``should`` makes it conditional, ``info`` only informs."""

    MUST = "must"
    SHOULD = "should"
    INFO = "info"


def six_digits(number: float) -> float:
    """``number`` rounded to six significant digits (DESIGN.md 4: what every report number is rounded to).

    Raises ValueError for NaN and infinities: they must never reach a report.
    """
    if not math.isfinite(number):
        raise ValueError("a report number must be finite")
    return float(f"{number:.6g}")


def rounded(value: Json) -> Json:
    """Plain JSON with every number that is no whole one rounded to six significant digits: for reports, never for facts
    that something is derived from again.
    """
    if isinstance(value, float):
        return six_digits(value)
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: keys sorted, no white space, UTF-8, numbers as they are.

    ``value`` is a Value or plain JSON. Equal values give equal bytes on every machine. Raises ValueError for NaN.
    """
    return _encoded(value, separators=(",", ":"))


def pretty_json(value: Any) -> bytes:
    """As canonical_json, but indented for people and ending in a line feed: the form of bundle files."""
    return _encoded(value, indent=1) + b"\n"


def _encoded(value: Any, **layout: Any) -> bytes:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, **layout)
    # Lone surrogates can arrive inside JSON escapes of foreign text; they have no UTF-8 form, so they stay escaped.
    return text.encode("utf-8", "backslashreplace")


def sha256_hex(data: bytes) -> str:
    """Lower-case hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """SHA-256 over the canonical JSON of a value."""
    return sha256_hex(canonical_json(value))
