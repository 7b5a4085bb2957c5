from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gate.domain.numbers import counted
from gate.domain.skill import SkillFile
from gate.intake.manifests import check_manifests
from gate.intake.policy import parse_policy
from gate.intake.skill import parse_skill
from gate.intake.suite import read_suite, suite_removals
from gate.intake.yaml_text import parse_yaml, plain
from tests.builders_skill import a_file, a_skill

# Bytes that come close to what is read, so that the parsers get past their first line.
PIECES = st.sampled_from(
    [b"---\n", b"---", b"name: a\n", b"description: d\n", b"x: ", b"\n", b"- ", b"[", b"]", b"{", b"}", b": ", b"&a ", b"*a",
     b"<<: ", b"!!int ", b"'", b'"', b"|\n", b"\t", b"\0", b"\xff", b"\xef\xbb\xbf", b"2026-02-30", b"1:2:3", b"0o8", b"...",
     b"# h\n", b"```\n", b"%YAML 1.1\n", b"? ", b"\r\n", b"\r", "\u2028".encode(), "é".encode(), b"9" * 50, b".nan", b"\\ud800"]
)  # fmt: skip
NEARLY_YAML = st.lists(PIECES | st.binary(max_size=6), max_size=30).map(b"".join)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
CASE_KEYS = st.sampled_from(
    ["id", "prompt", "question", "query", "type", "risk", "files", "checks", "expectations", "assertions", "expected_behavior",
     "mcp_servers", "rubric", "criteria", "critical_params", "tools_required", "min_reply_length", "should_trigger",
     "skip_without_skill", "expected_output", "evals", "cases", "version", "name", "tools", "kind", "text", "severity"]
)  # fmt: skip
DOCUMENTS = st.recursive(
    VALUES | st.sampled_from(["response_contains", "tool_call_count", "must", "a", "semantic", "../x", "mock"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CASE_KEYS | st.text(max_size=5), inner, max_size=5),
    max_leaves=25,
)


def a_suite_file(path: str, data: bytes) -> SkillFile:
    return a_file(path).model_copy(update={"data": data, "size_bytes": len(data)})


@given(NEARLY_YAML | st.binary(max_size=200))
@example(b"---\nname: a\ndescription: d\nx: !!python/name:os.system\n---\n")
@example(b"---\nname: a\ndescription: d\nx: " + b"9" * 5000 + b"\n---\n")
@example(b"---\nname: a\ndescription: d\nx: 0x\n---\n")
@example(b"---\nname: a\ndescription: d\nx: !!int\n---\n")
@example(b"---\nname: a\ndescription: d\nx: !!bool maybe\n---\n")
@example(b"---\nname: a\ndescription: d\nx: !!timestamp soon\n---\n")
def test_any_bytes_give_a_skill_or_a_finding_that_blocks_and_no_exception(data: bytes) -> None:
    skill, findings = parse_skill("skills/a", (a_suite_file("SKILL.md", data),))
    assert (skill is None) == any(item.blocks for item in findings)
    if skill is not None:
        json.dumps(skill.to_json()).encode("utf-8")
        assert skill.name
        assert skill.description
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    for item in findings:
        assert item.message.encode("utf-8")
        assert item.line is None or 1 <= item.line <= lines + 1


@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=6))
@example({"<<": []})
@example({"<<": {"a": 1}})
def test_front_matter_written_by_another_program_is_read_back(keys: dict[str, Any]) -> None:
    try:
        text = yaml.safe_dump(keys, allow_unicode=True)
        expected = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeEncodeError):
        return
    parsed = parse_yaml(text)
    assert parsed.problems == ()
    assert parsed.root is not None
    assert plain(parsed.root) == expected


@given(NEARLY_YAML | st.binary(max_size=200) | DOCUMENTS.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_make_the_readers_of_suites_policies_and_manifests_raise(data: bytes) -> None:
    for path in ("evals/skill-gate.yaml", "evals/evals.json"):
        suite, findings = read_suite(a_skill(files=(a_suite_file(path, data),)))
        assert suite is None or suite.cases
        assert suite is not None or findings, "never silence"
        if suite is not None:
            json.dumps(suite.to_json()).encode("utf-8")
            assert all(case.checks or case.expectations for case in suite.cases)
            assert suite_removals(suite, suite) == ()
    parse_policy(data)
    check_manifests({".claude-plugin/plugin.json"}, lambda _: data, "skills/a")


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20).filter(str.strip),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
def test_every_expectation_of_a_file_is_in_the_suite_or_something_blocks(texts: list[str]) -> None:
    cases = [{"id": str(number), "prompt": "p", "expectations": texts} for number in range(2)]
    suite, findings = read_suite(a_skill(files=(a_suite_file("evals/evals.json", json.dumps(cases).encode()),)))
    assert suite is not None
    wanted = list(dict.fromkeys(text.strip() for text in texts))
    assert [[item.text for item in case.expectations] for case in suite.cases] == [wanted, wanted]
    assert not any(item.blocks for item in findings)
    assert suite_removals(suite, suite.model_copy(update={"cases": suite.cases[:1]})) == (
        f'Case "1" is removed (0 checks, {counted(len(wanted), "expectation")}).',
    )
