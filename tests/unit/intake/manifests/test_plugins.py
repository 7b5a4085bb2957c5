from __future__ import annotations

import json
from typing import Any

import pytest

from gate.domain.findings import Level
from gate.domain.manifest import ManifestState
from gate.intake.manifests.agent_plugin import SCHEMA
from gate.intake.manifests.host_plugins import HOSTS
from tests.builders_manifests import MD, Tree, report_of

SKILL = "p/skills/pdf"
BASE: Tree = {f"{SKILL}/SKILL.md": MD, "p/commands/x.md": "x"}
NAMED = {kind: place for kind, place in HOSTS.items() if kind != "bare-plugin"}


def found(tree: Tree, kind: str, skill: str = SKILL) -> tuple[list[ManifestState], list[str]]:
    report = report_of(tree, skill)
    for item in report.findings:
        assert item.rule.startswith(f"manifest/{kind}/"), item
    return [item.state for item in report.statuses if item.kind == kind], [
        item.rule.removeprefix(f"manifest/{kind}/") for item in report.findings
    ]


@pytest.mark.parametrize(("kind", "place"), list(HOSTS.items()))
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, None),
        ({"version": 1}, "version"),
        ({"name": ""}, "name"),
        ({"skills": "./none"}, "path-missing"),
        ({"skills": ["./skills", "../x"]}, "path-outside"),
        ({"commands": "./commands/y.md"}, "path-missing"),
        ({"unheard-of": {"a": 1}}, None),
        ({"mcpServers": "${CLAUDE_PLUGIN_ROOT}/mcp.json"}, None),
    ],
)
def test_manifests_of_other_hosts_are_held_to_what_all_hosts_share(
    kind: str, place: str, change: dict[str, Any], rule: str | None
) -> None:
    value = {"name": "docs", "version": "1.0.0", "skills": "./skills/", **change}
    states, rules = found({**BASE, f"p/{place}": json.dumps(value)}, kind)
    assert (states, rules) == ([ManifestState.FAILED if rule else ManifestState.VERIFIED], [rule] if rule else [])


@pytest.mark.parametrize(("kind", "place"), list(NAMED.items()))
def test_only_the_nearest_manifest_of_a_host_counts(kind: str, place: str) -> None:
    tree: Tree = {**BASE, place: "{broken", f"p/{place}": '{"name": "docs"}'}
    assert found(tree, kind) == ([ManifestState.VERIFIED], [])
    assert found({**BASE, f"q/{place}": "{broken"}, kind) == ([], [])


def test_a_plugin_json_of_some_other_program_is_not_touched() -> None:
    assert found({**BASE, "p/plugin.json": '{"name": "webpack-thing", "entry": 3}'}, "bare-plugin") == ([], [])
    assert found({**BASE, "plugin.json": "{{ template }}"}, "bare-plugin") == ([], [])
    assert found({**BASE, "p/plugin.json": "{broken"}, "bare-plugin") == ([ManifestState.FAILED], ["json"])


def agent(mcp: Any = None, **changes: Any) -> Tree:
    value = {"$schema": SCHEMA, "name": "docs.pdf-tools", "version": "1.0.0", **changes}
    tree: Tree = {**BASE, "p/plugin.json": json.dumps({key: item for key, item in value.items() if item is not None})}
    return tree if mcp is None else {**tree, "p/mcp.json": json.dumps({"mcpServers": {"s": mcp}})}


@pytest.mark.parametrize(
    ("change", "rule", "level"),
    [
        ({}, None, None),
        ({"name": "Docs"}, "name", Level.ERROR),
        ({"name": "a--b"}, "name", Level.ERROR),
        ({"name": "a..b"}, "name", Level.ERROR),
        ({"name": "-a"}, "name", Level.ERROR),
        ({"name": "a" * 65}, "name", Level.ERROR),
        ({"name": None}, "name", Level.ERROR),
        ({"version": 1}, "type", Level.ERROR),
        ({"repository": {"url": "u"}}, "type", Level.ERROR),
        ({"author": "A"}, "author", Level.ERROR),
        ({"author": {"name": "A", "phone": "1"}}, "author", Level.ERROR),
        ({"author": {"name": "A", "url": "u"}}, None, None),
        ({"keywords": "k"}, "type", Level.ERROR),
        ({"extensions": {"com.example": {}}}, None, None),
        ({"extensions": {"example": {}}}, "extensions", Level.ERROR),
        ({"extensions": {"com.example": 3}}, "extensions", Level.ERROR),
        ({"skills": "./skills"}, "unknown-key", Level.WARNING),
        ({"$schema": SCHEMA.replace("1.0.0", "1.1.0")}, "schema", Level.WARNING),
    ],
)
def test_an_agent_plugin_is_held_to_its_specification(
    change: dict[str, Any], rule: str | None, level: Level | None
) -> None:
    report = report_of(agent(**change), SKILL)
    assert [(item.rule, item.level) for item in report.findings] == (
        [(f"manifest/agent-plugin/{rule}", level)] if rule else []
    )
    state = ManifestState.FAILED if level is Level.ERROR else ManifestState.VERIFIED
    assert [item.state for item in report.statuses if item.kind == "agent-plugin"] == [state]


@pytest.mark.parametrize(
    ("server", "rule"),
    [
        ({"command": "node", "args": ["x"]}, None),
        ({"type": "stdio", "command": "./commands/x.md"}, None),
        ({"type": "http", "url": "https://x.test"}, "transport"),
        ({"type": "sse", "url": "https://x.test"}, None),
        ({"type": "streamable-http", "url": "x"}, "url"),
        ({"command": "./commands/none"}, "path-missing"),
        ({"command": "./../x"}, "path-outside"),
        ({"command": "/usr/bin/node"}, "command"),
        ({"command": 3}, "command"),
        ({"command": "node", "env": {"PLUGIN_ROOT": "x"}}, "env"),
        ({"command": "node", "env": []}, "env"),
        (3, "server"),
    ],
)
def test_the_servers_of_an_agent_plugin_are_held_to_its_specification(server: Any, rule: str | None) -> None:
    states, rules = found(agent(mcp=server), "agent-plugin-mcp")
    assert (states, rules) == ([ManifestState.FAILED if rule else ManifestState.VERIFIED], [rule] if rule else [])


def test_a_skill_that_an_agent_plugin_does_not_load_is_said() -> None:
    deep = "p/skills/group/pdf"
    states, rules = found({**agent(), f"{deep}/SKILL.md": MD}, "agent-plugin", deep)
    assert (states, rules) == ([ManifestState.VERIFIED], ["unreachable"])


def test_a_server_file_of_another_host_is_not_read_as_the_agent_plugins() -> None:
    assert found({**agent(), "p/.mcp.json": "{broken"}, "agent-plugin") == ([ManifestState.VERIFIED], [])
