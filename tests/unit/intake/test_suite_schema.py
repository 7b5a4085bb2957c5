from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gate.domain.base import pretty_json
from gate.domain.checks import CHECK_KINDS
from gate.intake.suite import read_suite
from gate.intake.suite.schema import suite_schema
from gate.intake.yaml_text import parse_yaml, plain
from tests.builders_skill import a_file, a_skill

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "gate" / "schemas" / "suite.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(FILE.read_text(encoding="utf-8")))


def blocked(document: Any) -> bool:
    _, findings = read_suite(a_skill(files=(a_file("evals/skill-gate.yaml", yaml.safe_dump(document)),)))
    return any(item.blocks for item in findings)


def a_document(**case: Any) -> dict[str, Any]:
    return {"version": 1, "cases": [{"prompt": "p", **case}]}


def a_check(**check: Any) -> dict[str, Any]:
    return a_document(checks=[check])


def test_the_schema_in_the_package_is_the_one_that_the_models_make() -> None:
    assert FILE.read_bytes() == pretty_json(suite_schema()), (
        "run: python -m gate.intake.suite.schema > gate/schemas/suite.schema.json"
    )


def test_it_is_a_schema_and_knows_every_check_kind() -> None:
    schema = suite_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    kinds = [item["properties"]["kind"]["const"] for item in schema["$defs"]["Check"]["oneOf"]]
    assert kinds == list(CHECK_KINDS)


@pytest.mark.parametrize(
    "path", [*(ROOT / "examples").rglob("skill-gate.y*ml"), *(ROOT / "tests" / "assets").rglob("skill-gate.y*ml")]
)
def test_our_own_suites_are_valid(path: Path) -> None:
    root = parse_yaml(path.read_text(encoding="utf-8")).root
    assert root is not None
    assert [error.message for error in VALIDATOR.iter_errors(plain(root))] == []


@pytest.mark.parametrize(
    "document",
    [
        a_document(expectations=["e", {"id": "x", "text": "t", "severity": "must", "precision": "existence"}]),
        a_document(id=7, name="n", type="e2e", risk="low", tag="golden", skip_without_skill=True, expectations=["e"]),
        a_document(files={"a": "text", "b": {"text": "x", "executable": True}}, expectations=["e"]),
        a_check(kind="response_contains", keyword="x", severity="info", rule_ref="R1", arms=["with_skill"]),
        a_check(kind="args_field", tool="t", field="a.b", expected=[1, {"x": None}], which=2),
        a_check(kind="json_field", path="response", field="x", expected=None),
        a_check(kind="run_budget", max_tokens=3),
        a_document(
            expectations=["e"],
            mcp_servers=[
                {
                    "name": "t",
                    "tools": [{"name": "s", "responses": [{"when": {"q": {"regex": "a"}}, "text": "x", "times": 1}]}],
                }
            ],
        ),
    ],
)
def test_what_the_reader_takes_the_schema_takes(document: Any) -> None:
    assert not blocked(document)
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize(
    "document",
    [
        {"version": 2, "cases": []},
        {"cases": []},
        {"version": 1},
        {"version": 1, "cases": [], "colour": 1},
        {"version": 1, "cases": [{"expectations": ["e"]}]},
        a_document(expectation=["e"]),
        a_document(type="happy"),
        a_document(risk="P0", expectations=["e"]),
        a_document(expectations=[""]),
        a_document(expectations=[{"txt": "x"}]),
        a_document(files={"a": {"text": "x", "from": "y"}}, expectations=["e"]),
        a_check(kind="response_contain", keyword="x"),
        a_check(kind="response_contains"),
        a_check(kind="response_contains", keyword=3),
        a_check(kind="response_contains", keyword="x", ignore_kase=True),
        a_check(kind="tool_call_count", tool="t", min=-1),
        a_check(kind="file_exists", path="x", severity="fatal"),
        a_check(kind="file_exists", path="x", arms=["other"]),
        a_check(kind="file_exists", path="x", known_issue={"reason": "r"}),
        a_document(expectations=["e"], mcp_servers=[{"name": "a b", "tools": [{"name": "t"}]}]),
        a_document(expectations=["e"], mcp_servers=[{"name": "a", "tools": [{"name": "t", "responses": [{}]}]}]),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses_too(document: Any) -> None:
    assert list(VALIDATOR.iter_errors(document))
    assert blocked(document)
