from __future__ import annotations

import json
from typing import Any

import pytest

from gate.domain.findings import Finding, Level
from gate.intake.manifests import check_manifests

GOOD: dict[str, Any] = {"name": "tools", "version": "1.2.3", "author": {"name": "A"}}
TREE = (
    "p/.claude-plugin/plugin.json",
    "p/skills/a/SKILL.md",
    "p/commands/x.md",
    "p/hooks.json",
    "other/y.md",
    "q/b/SKILL.md",
)


def found(content: Any, skill: str = "p/skills/a") -> tuple[Finding, ...]:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return check_manifests(frozenset(TREE), {"p/.claude-plugin/plugin.json": data}.get, skill)


def rules(content: Any, skill: str = "p/skills/a") -> list[str]:
    return [item.rule.removeprefix("manifest/plugin-json/") for item in found(content, skill)]


@pytest.mark.requirements("R219")
def test_a_good_manifest_has_no_finding() -> None:
    full = {
        **GOOD,
        "author": "A", "description": "d", "homepage": "h", "repository": {"url": "u"}, "license": "MIT", "keywords": ["k"],
        "skills": "./skills/", "commands": ["./commands/x.md"], "hooks": "./hooks.json", "mcpServers": {"s": {"command": "x"}},
    }  # fmt: skip
    assert found(GOOD) == ()
    assert found(full) == ()


def test_a_skill_that_no_plugin_owns_has_no_finding() -> None:
    assert found(b"broken", "q/b") == ()


def test_the_nearest_manifest_upwards_owns_the_skill() -> None:
    tree = {"p/.claude-plugin/plugin.json", ".claude-plugin/plugin.json", "p/skills/a/SKILL.md", "skills/b/SKILL.md"}
    contents = {"p/.claude-plugin/plugin.json": b"{", ".claude-plugin/plugin.json": b'{"name": "x"}'}
    assert [item.path for item in check_manifests(tree, contents.get, "p/skills/a")] == ["p/.claude-plugin/plugin.json"]
    assert check_manifests(tree, contents.get, "skills/b") == ()


@pytest.mark.parametrize(
    ("change", "rule", "level"),
    [
        ({"name": None}, "name", Level.ERROR),
        ({"name": 3}, "name", Level.ERROR),
        ({"name": "My Tools"}, "name-form", Level.WARNING),
        ({"version": 1}, "version", Level.ERROR),
        ({"version": "1.2"}, "version-form", Level.WARNING),
        ({"version": "01.2.3"}, "version-form", Level.WARNING),
        ({"author": {"email": "a@example.org"}}, "author", Level.ERROR),
        ({"author": ["A"]}, "author", Level.ERROR),
        ({"homepage": 3}, "type", Level.WARNING),
        ({"repository": []}, "type", Level.WARNING),
        ({"keywords": "k"}, "type", Level.WARNING),
        ({"commands": "commands/x.md"}, "path-form", Level.ERROR),
        ({"commands": "/commands/x.md"}, "path-form", Level.ERROR),
        ({"commands": ".\\commands\\x.md"}, "path-form", Level.ERROR),
        ({"commands": "./../other/y.md"}, "path-outside", Level.ERROR),
        ({"commands": ["./commands/x.md", "./gone"]}, "path-missing", Level.ERROR),
        ({"commands": "./comm"}, "path-missing", Level.ERROR),
        ({"commands": {"x": 1}}, "path-type", Level.ERROR),
        ({"agents": [3]}, "path-type", Level.ERROR),
        ({"skils": "./skills"}, "unknown-key", Level.WARNING),
        ({"category": "docs"}, "unknown-key", Level.WARNING),
    ],
)
def test_each_broken_rule_is_one_finding(change: dict[str, Any], rule: str, level: Level) -> None:
    content = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    findings = found(content)
    assert [(item.rule, item.level) for item in findings] == [(f"manifest/plugin-json/{rule}", level)]
    assert findings[0].path == "p/.claude-plugin/plugin.json"
    assert not findings[0].blocks, "the policy decides whether manifest errors block"


def test_semantic_versions_with_parts_are_good() -> None:
    assert [rules({**GOOD, "version": version}) for version in ("1.0.0-rc.1+build.5", "0.0.1", "10.20.30")] == [
        [],
        [],
        [],
    ]


def test_a_skill_that_the_plugin_does_not_load_is_said() -> None:
    tree = {"p/.claude-plugin/plugin.json", "p/skills/group/a/SKILL.md", "p/extra/b/SKILL.md"}

    def at(skill: str, skills: Any) -> list[str]:
        content = json.dumps({**GOOD, **({"skills": skills} if skills else {})}).encode()
        return [
            item.rule.rpartition("/")[2]
            for item in check_manifests(tree, {"p/.claude-plugin/plugin.json": content}.get, skill)
        ]

    assert at("p/skills/group/a", None) == ["unreachable"]
    assert at("p/skills/group/a", "./skills/group") == []
    assert at("p/extra/b", ["./extra/b"]) == []
    assert at("p/extra/b", "./extra/") == []
    assert at("p", None) == []


def test_findings_name_the_line_of_their_key() -> None:
    text = b'{\n  "name": "tools",\n  "version": 7,\n  "commands": [\n    "./gone"\n  ]\n}'
    assert [item.line for item in found(text)] == [3, 4]


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b'{"name": "x",}', 1, "not JSON"),
        (b'{"name": "x",\n "name": "y"}', 2, "twice"),
        (b"[]", 1, "an object was expected"),
        (b"\xff\xfe{", 1, "UTF-16"),
        (b'{"name": "\xe9"}', 1, "UTF-8"),
        (b"", 1, "not JSON"),
    ],
)
def test_what_is_no_json_object_is_a_finding_with_its_line(data: bytes, line: int, words: str) -> None:
    findings = found(data)
    assert [(item.level, item.line) for item in findings] == [(Level.ERROR, line)]
    assert words in findings[0].message


def test_a_manifest_that_is_a_link_is_not_followed() -> None:
    findings = check_manifests(frozenset(TREE), lambda _: None, "p/skills/a")
    assert [item.rule for item in findings] == ["manifest/plugin-json/link"]
