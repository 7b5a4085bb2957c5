from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gate.domain.base import pretty_json
from gate.evidence.schema import FOLDER, bundle_schemas, schema_name
from tests.in_process import Ran, gate

SKILL = """---
name: notes
description: Writes notes. Use when somebody asks for notes.
---
# Notes

- Every note starts with the word Note.
{extra}
"""
SUITE = """version: 1
cases:
  - id: one
    prompt: Write a note about the train.
    risk: high
    checks:
      - kind: response_contains
        keyword: About
    expectations:
      - The answer contains the word "About".
"""
POLICY = "contract: 'on'\n"


@pytest.mark.parametrize("name", bundle_schemas())
def test_the_schema_in_the_package_is_current(name: str) -> None:
    """Made anew by ``python -m gate.evidence.schema``."""
    schema = bundle_schemas()[name]
    assert (FOLDER / schema_name(name)).read_bytes() == pretty_json(schema)
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    main = {
        "skills/notes/SKILL.md": SKILL.format(extra=""),
        "skills/notes/evals/skill-gate.yaml": SUITE,
        ".github/skill-gate.yml": POLICY,
    }
    change = {"skills/notes/SKILL.md": SKILL.format(extra="- At most ten words.")}
    return gate(tmp_path_factory.mktemp("schemas"), main, change, options=["--mode", "full"])


def validated(root: Path) -> dict[str, int]:
    """How many files of each name of a bundle fit their schema; the first that does not is an error."""
    counts: dict[str, int] = {}
    for name, schema in bundle_schemas().items():
        validator = jsonschema.Draft202012Validator(schema)
        for path in root.rglob(name):
            if "workspace" in path.relative_to(root).parts:
                continue
            text = path.read_text(encoding="utf-8")
            for item in [json.loads(line) for line in text.splitlines()] if name.endswith("l") else [json.loads(text)]:
                validator.validate(item)
            counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.requirements("R226")
def test_every_json_file_of_a_bundle_has_a_schema_and_fits_it(ran: Ran) -> None:
    counts = validated(ran.bundle)
    own = {path.name for path in ran.bundle.rglob("*.json*") if "workspace" not in path.relative_to(ran.bundle).parts}
    assert own - set(counts) <= {"badge.json"}
    assert counts["discussion.json"] == counts["grading.json"] == 9
    assert counts["contract.json"] == 1


def test_a_file_that_says_something_else_does_not_fit(ran: Ran) -> None:
    schema = bundle_schemas()["discussion.json"]
    stored = json.loads(next(ran.bundle.rglob("with_skill/discussion.json")).read_text())
    jsonschema.validate(stored, schema)
    for change in ({"overall": "high"}, {"discussion_grade": "B+"}, {"verdict": "pass"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**stored, **change}, schema)
