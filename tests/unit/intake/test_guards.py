"""What a case is there to catch: read from both formats that can say it, and never taken away silently."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from gate.domain.suite import Case, Guard
from gate.intake.suite import read_suite, suite_removals
from gate.intake.suite.schema import suite_schema
from tests.builders_skill import a_case, a_file, a_skill, a_suite


def own(**case: Any) -> tuple[Case | None, list[str]]:
    suite = {"version": 1, "cases": [{"id": "one", "prompt": "p", "expectations": ["It holds."], **case}]}
    skill = a_skill(files=(a_file("evals/skill-gate.yaml", json.dumps(suite)),))
    found, findings = read_suite(skill)
    return (found.cases[0] if found and found.cases else None), [item.message for item in findings if item.blocks]


def sentry(**case: Any) -> Case:
    skill = a_skill(
        files=(
            a_file("evals/evals.json", json.dumps([{"id": "eval-1", "prompt": "p", "expectations": ["x"], **case}])),
        )
    )
    suite, _ = read_suite(skill)
    assert suite is not None
    return suite.cases[0]


@pytest.mark.parametrize("guard", list(Guard))
def test_our_own_format_names_the_harm(guard: Guard) -> None:
    case, problems = own(guards=guard.value)
    assert problems == []
    assert case is not None
    assert case.guards is guard
    schema = suite_schema()
    value = {"version": 1, "cases": [{"prompt": "p", "expectations": ["x"], "guards": guard.value}]}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_a_harm_that_nobody_knows_is_an_error_and_not_nothing() -> None:
    case, problems = own(guards="leaks")
    assert case is None
    assert 'guards "leaks" is unknown; one of overreach, fabrication, leak, permission_bypass, injection' in problems[0]


@pytest.mark.parametrize(
    ("family", "guard"),
    [
        ("prompt_injection", Guard.INJECTION),
        ("Indirect_Injection", Guard.INJECTION),
        ("multi_turn_induction", Guard.INJECTION),
        ("normal_request_disguise", Guard.PERMISSION_BYPASS),
        ("tool_overscope", Guard.OVERREACH),
        ("secrets_access", Guard.LEAK),
        ("exfiltration", Guard.LEAK),
        ("recovery_rollback", None),
        ("something else", None),
    ],
)
def test_a_family_of_skillsentry_is_a_harm_where_its_case_blocks(family: str, guard: Guard | None) -> None:
    assert sentry(security_family=family, gate_level="block").guards is guard
    assert sentry(security_family=family, gate_level="warn").guards is None


def test_a_case_that_guards_against_nothing_has_the_digest_that_it_always_had() -> None:
    plain, _ = own()
    assert plain is not None
    assert "guards" not in plain.to_json()
    guarded, _ = own(guards="leak")
    assert guarded is not None
    assert guarded.digest != plain.digest


def test_to_stop_guarding_needs_a_waiver_and_to_begin_needs_none() -> None:
    plain, leak = a_case(), a_case().model_copy(update={"guards": Guard.LEAK})
    other = a_case().model_copy(update={"guards": Guard.INJECTION})
    assert suite_removals(a_suite(plain), a_suite(leak)) == ()
    (gone,) = suite_removals(a_suite(leak), a_suite(plain))
    assert "it no longer guards against leak (guards)" in gone
    assert suite_removals(a_suite(leak), a_suite(other)) != ()
