"""The bytes of a verdict: what two sessions over the same things, with the same seed, must say alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gate.domain.base import canonical_json

CLOCK = frozenset({"mean_seconds"})
"""Keys of report.json and gate-result.json that a clock fills."""
SPENT = frozenset({"usage", "cost", "spent"})
"""Keys of report.json that say what was spent: a session that was killed with calls under way has spent more, and says so."""
_SHARE = "the discussion took"
"""How the note on the tokens of a discussion begins."""


def verdict_bytes(bundle: Path) -> dict[str, bytes]:
    """report.json and every gate-result.json, without ``CLOCK`` and ``SPENT``; every other byte of their values is there."""
    files = [bundle / "report.json", *bundle.glob("skills/*/gate-result.json")]
    return {
        path.relative_to(bundle).as_posix(): canonical_json(_without(json.loads(path.read_bytes()))) for path in files
    }


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(item) for name, item in value.items() if name not in CLOCK | SPENT}
    if isinstance(value, list):
        return [_without(item) for item in value if not (isinstance(item, str) and _SHARE in item)]
    return value


def calls_said(bundle: Path) -> int:
    """How many model calls the report says were made."""
    return sum(use["calls"] for use in json.loads((bundle / "report.json").read_bytes())["usage"])
