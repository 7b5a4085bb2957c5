from __future__ import annotations

from typing import Any

import pytest
import yaml

from gate.domain.preflight import Need, PreflightFact, blocked_reason
from gate.intake.preflight import preflight_facts
from gate.intake.skill import parse_skill
from tests.builders_manifests import skill_file


def facts(body: str = "Text.\n", **front: Any) -> tuple[PreflightFact, ...]:
    text = f"---\n{yaml.safe_dump({'name': 'a', 'description': 'd', **front})}---\n{body}"
    skill, problems = parse_skill("skills/a", (skill_file("SKILL.md", text),))
    assert skill is not None, problems
    return preflight_facts(skill)


def short(found: tuple[PreflightFact, ...]) -> list[tuple[Need, str, bool]]:
    return [(item.need, item.name, item.declared) for item in found]


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ({"metadata": {"openclaw": {"requires": {"env": ["A_KEY"], "bins": ["ffmpeg"]}}}},
         [(Need.KEY, "A_KEY", True), (Need.PROGRAM, "ffmpeg", True)]),
        ({"requires": {"network": True}}, [(Need.NETWORK, "", True)]),
        ({"requires": {"network": False}}, []),
        ({"metadata": {"requires": {"env": "A_KEY, B_KEY"}}}, [(Need.KEY, "A_KEY", True), (Need.KEY, "B_KEY", True)]),
        ({"requires": {"mcp": {"github": {}}}}, [(Need.MCP_SERVER, "github", True)]),
        ({"allowed-tools": "mcp__github__get_issue, Read"}, [(Need.MCP_SERVER, "github", True)]),
        ({"allowed-tools": "WebFetch, Read"}, [(Need.NETWORK, "", False)]),
        ({"compatibility": "Requires internet access"}, []),
        ({"requires": ["x"]}, []),
        ({"requires": {"env": [3, None, "not a name!"]}}, []),
        ({"metadata": None}, []),
    ],
)  # fmt: skip
def test_needs_are_declared_in_the_front_matter_only(front: dict[str, Any], expected: Any) -> None:
    assert short(facts(**front)) == expected


def test_hints_in_the_text_are_facts_with_their_line_and_never_block() -> None:
    found = facts("Set OPENAI_API_KEY.\n\n```bash\npip install pandas\ncurl https://api.test/v1\n```\n")
    assert [(item.need, item.name, item.declared, item.source) for item in found] == [
        (Need.KEY, "OPENAI_API_KEY", False, "SKILL.md:5"),
        (Need.NETWORK, "", False, "SKILL.md:9"),
        (Need.PROGRAM, "pandas", False, "SKILL.md:8"),
    ]
    assert blocked_reason(found) is None


def test_a_declared_key_or_network_blocks_with_a_reason_and_a_program_does_not() -> None:
    declared = facts(requires={"env": ["A_KEY"], "bins": ["ffmpeg"]})
    assert blocked_reason(declared) == (
        "the skill declares that it needs the key A_KEY, and no key enters a sandbox (front matter: requires.env)"
    )
    assert blocked_reason(facts(requires={"bins": ["ffmpeg"]})) is None
    assert "a sandbox has none" in str(blocked_reason(facts(requires={"network": True})))


def test_what_the_base_policy_says_is_stood_in_for_does_not_block() -> None:
    declared = facts(requires={"env": ["A_KEY"], "network": True})
    assert blocked_reason(declared, ("A_KEY",)) is not None
    assert blocked_reason(declared, ("A_KEY", "network")) is None


def test_a_need_is_said_once_and_a_declaration_wins() -> None:
    found = facts("OPENAI_API_KEY and OPENAI_API_KEY\n", requires={"env": ["OPENAI_API_KEY"]})
    assert short(found) == [(Need.KEY, "OPENAI_API_KEY", True)]


def test_a_long_text_gives_a_bounded_number_of_hints() -> None:
    assert len(facts("".join(f"pip install p{number}\n" for number in range(500)))) == 8
