from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reporters
from gate.domain.findings import Finding, Level
from gate.domain.rules import FAMILIES, RULES, words_of
from reporters import sarif
from tests.builders_report import sample_report
from tests.sarif_schema import ESSENTIALS, standard_schema


def a_finding(**changes: Any) -> Finding:
    values = {
        "rule": "skill-md/yaml",
        "level": Level.ERROR,
        "path": "skills/a/SKILL.md",
        "message": "m",
        "line": 3,
        "column": 7,
    }
    return Finding(**{**values, **changes})


def run_of(*findings: Finding) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(sarif.render_findings(findings, version="1.2.3"))
    assert list(jsonschema.Draft7Validator(ESSENTIALS).iter_errors(log)) == []
    run: dict[str, Any] = log["runs"][0]
    return run


def test_a_finding_is_a_result_with_its_place_its_rule_and_help() -> None:
    run = run_of(a_finding(remedy="Put it in quotes.", blocks=True))
    result = run["results"][0]
    assert (result["ruleId"], result["level"], result["properties"]["blocks"]) == ("skill-md/yaml", "error", True)
    assert result["message"]["text"] == "m. Put it in quotes."
    place = result["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 3, "startColumn": 7}
    assert place["artifactLocation"] == {"uri": "skills/a/SKILL.md", "uriBaseId": "%SRCROOT%"}
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert (rule["id"], rule["name"]) == ("skill-md/yaml", "SkillMdYaml")
    assert "quotes" in rule["help"]["text"]
    assert run["tool"]["driver"]["version"] == "1.2.3"


def test_columns_count_characters_as_the_reader_of_skill_md_does() -> None:
    assert run_of(a_finding())["columnKind"] == "unicodeCodePoints"


def test_levels_have_their_names_and_the_worst_come_first() -> None:
    levels = (Level.NOTICE, Level.ERROR, Level.WARNING)
    run = run_of(
        *[a_finding(level=level, rule=f"x/{level}") for level in levels], a_finding(rule="x/b", blocks=True, path="z")
    )
    assert [result["level"] for result in run["results"]] == ["error", "error", "warning", "note"]
    assert run["results"][0]["ruleId"] == "x/b"


def test_a_finding_without_a_line_stands_at_the_first() -> None:
    assert run_of(a_finding(line=None))["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_what_is_about_the_session_is_a_notification_and_no_result() -> None:
    run = run_of(a_finding(path=".", rule="session/dirty", line=None))
    assert run["results"] == []
    assert run["invocations"][0]["toolExecutionNotifications"][0]["descriptor"] == {"id": "session/dirty"}


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("技能/求和/SKILL.md", "%E6%8A%80%E8%83%BD/%E6%B1%82%E5%92%8C/SKILL.md"),
        ("a b/c#d?e:f%.md", "a%20b/c%23d%3Fe%3Af%25.md"),
        ("s/caf\\xe9/x", "s/caf%5Cxe9/x"),
    ],
)
def test_paths_are_addresses_that_name_the_same_file(path: str, uri: str) -> None:
    assert (
        run_of(a_finding(path=path))["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
    )


def test_a_path_outside_the_folder_is_an_address_of_its_own() -> None:
    place = run_of(a_finding(path="/tmp/a b"))["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "file:///tmp/a%20b"}


def test_text_of_a_skill_makes_no_link() -> None:
    text = run_of(a_finding(message="see [here](https://evil.example) \\[x]"))["results"][0]["message"]["text"]
    assert text == "see \\[here\\](https://evil.example) \\\\\\[x\\]"


def test_equal_findings_are_one_and_the_same_finding_keeps_its_fingerprint_when_it_moves() -> None:
    run = run_of(a_finding(), a_finding(), a_finding(line=9), a_finding(message="other"))
    prints = [result["partialFingerprints"]["skillGate/v1"] for result in run["results"]]
    assert len(prints) == 3
    assert len(set(prints)) == 2


def test_what_is_over_the_limit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MAX_RESULTS", 2)
    run = run_of(*[a_finding(message=str(number)) for number in range(5)])
    assert len(run["results"]) == 2
    assert "3 more" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


def test_a_report_renders_all_findings_of_its_skills_and_its_session() -> None:
    sample = sample_report()
    own = a_finding(path=".github/skill-gate.yml", rule="policy/own")
    skills = [sample.skills[0].model_copy(update={"findings": (a_finding(),)})]
    report = sample.model_copy(update={"skills": tuple(skills), "session_findings": (own,)})
    log = json.loads(reporters.render(report, "sarif"))
    assert {result["ruleId"] for result in log["runs"][0]["results"]} == {"skill-md/yaml", "policy/own"}


TEXT = st.text(max_size=30)
FINDINGS = st.builds(
    Finding,
    rule=st.sampled_from(["skill-md/yaml", "suite/x", "a/b/c-d", "x"]) | TEXT.filter(bool),
    level=st.sampled_from(Level),
    path=TEXT,
    message=TEXT.map(lambda text: text or "m"),
    line=st.none() | st.integers(1, 10**6),
    column=st.none() | st.integers(1, 10**6),
    remedy=TEXT,
    blocks=st.booleans(),
)


@given(st.lists(FINDINGS, max_size=6))
@settings(max_examples=40)
def test_any_findings_make_a_log_that_is_valid_by_the_schema_of_the_standard(findings: list[Finding]) -> None:
    schema = standard_schema()
    run_of(*findings)
    if isinstance(schema, str):
        pytest.skip(f"{schema}; the log was held to the essentials only")
    log = json.loads(sarif.render_findings(findings, version="1"))
    kind = jsonschema.validators.validator_for(schema)
    assert [error.message for error in kind(schema).iter_errors(log)] == []


def literal_rules(module: Path) -> Iterator[str]:
    """Rule ids that a module's source writes out, with the family of the Notes around them where that is one literal."""
    tree = ast.parse(module.read_text("utf-8"))
    families = {
        str(call.args[1].value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Notes"
        and len(call.args) > 1 and isinstance(call.args[1], ast.Constant) and isinstance(call.args[1].value, str)
    }  # fmt: skip
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if call.func.attr not in ("block", "warn", "notice", "add") or not call.args:
            continue
        word = call.args[1] if call.func.attr == "add" and len(call.args) > 1 else call.args[0]
        if isinstance(word, ast.Constant) and isinstance(word.value, str) and len(families) == 1:
            yield f"{next(iter(families))}/{word.value}"


def test_every_rule_about_skills_and_changes_has_words_of_its_own() -> None:
    intake = Path(sarif.__file__).resolve().parents[1] / "gate" / "intake"
    modules = ("skill.py", "body.py", "changes.py", "folding.py", "tree.py")
    found = {rule for name in modules for rule in literal_rules(intake / name)}
    assert len(found) > 30
    assert found - RULES.keys() == set()


def test_every_family_has_words_and_a_rule_without_an_entry_uses_them() -> None:
    assert {rule.partition("/")[0] for rule in RULES} <= FAMILIES.keys()
    assert words_of("suite/could-be-exact").title == "Could be exact"
    assert words_of("suite/could-be-exact").help == FAMILIES["suite"]
    assert all(words.title and not words.title.endswith(".") and words.help for words in RULES.values())
