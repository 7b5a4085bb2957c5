"""The JSON Schema of the policy file, for editors: made from the value that its reader fills.

``python -m gate.intake.schema`` writes it into ``gate/schemas``; a test holds it to be current. It helps somebody who writes
the file; the reader decides, and it says more (dates, nearest keys). The suite's is in ``gate.intake.suite.schema``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gate.domain.base import pretty_json
from gate.settings import Policy

FILE = Path(__file__).resolve().parents[1] / "schemas" / "policy.schema.json"


def policy_schema() -> dict[str, Any]:
    """The schema of ``.github/skill-gate.yml`` (JSON Schema 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Policy.model_json_schema(mode="validation"),
        "title": "Skill Gate policy",
        "description": "Read from the base branch: .github/skill-gate.yml",
    }


def main() -> None:
    """Write it."""
    FILE.write_bytes(pretty_json(policy_schema()))


if __name__ == "__main__":
    main()
