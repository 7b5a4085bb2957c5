"""The JSON Schema of the policy file, for editors: made from the value that its reader fills.

``python -m gate.intake.schema`` writes it into ``gate/schemas``; a test holds it to be current. It helps somebody who writes
the file; the reader decides, and it says more (dates, nearest keys). The suite's is in ``gate.intake.suite.schema``.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

from gate import settings
from gate.domain.base import pretty_json
from gate.settings import Policy

FILE = Path(__file__).resolve().parents[1] / "schemas" / "policy.schema.json"


def policy_schema() -> dict[str, Any]:
    """The schema of ``.github/skill-gate.yml`` (JSON Schema 2020-12). Editors show the descriptions of its keys."""
    schema = Policy.model_json_schema(mode="validation")
    told = attribute_texts(settings)
    for name, part in {"Policy": schema, **schema["$defs"]}.items():
        for key, value in part.get("properties", {}).items():
            if text := told.get((name, key)):
                value["description"] = text
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Skill Gate policy",
        "description": "Read from the base branch: .github/skill-gate.yml",
    }


def attribute_texts(module: ModuleType) -> dict[tuple[str, str], str]:
    """(class, attribute) -> the text that stands below the attribute in a module's source, in one line."""
    tree = ast.parse(inspect.getsource(module))
    return {
        (item.name, key.target.id): " ".join(text.value.value.replace("``", "`").split())
        for item in tree.body
        if isinstance(item, ast.ClassDef)
        for key, text in itertools.pairwise(item.body)
        if isinstance(key, ast.AnnAssign)
        and isinstance(key.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def main() -> None:
    """Write it."""
    FILE.write_bytes(pretty_json(policy_schema()))


if __name__ == "__main__":
    main()
