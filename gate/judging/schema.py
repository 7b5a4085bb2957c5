"""What every judge's reply must be: exactly the asked fields, with exactly the asked types."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Reply(BaseModel):
    """Base of reply shapes. Strict: the text "false" is no boolean, "5" and 5.0 are no whole numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _whole(value: Any) -> Any:
    if type(value) is not int:
        raise ValueError("this must be a whole number, written without quotes and without a point")
    return value


WHOLE = BeforeValidator(_whole)
"""Beside a ``Literal`` of whole numbers, which alone takes true for 1 and 5.0 for 5."""
