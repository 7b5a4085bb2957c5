"""The matrix of manifests that name files and folders and hold no digest of them (or, the well-known index, of one)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gate.domain.manifest import ManifestState
from gate.intake.manifests.agent_plugin import SCHEMA
from tests.builders_manifests import MD, Tree, data_of, report_of, skill_file

SKILL = "p/skills/pdf"
VERIFIED, STALE, FAILED = ManifestState.VERIFIED, ManifestState.STALE, ManifestState.FAILED
Expected = tuple[ManifestState, list[str]]


def files_of() -> Tree:
    return {f"{SKILL}/SKILL.md": MD, f"{SKILL}/scripts/x.py": "print(1)\n", "p/skills/other/SKILL.md": MD}


def index(**entry: Any) -> str:
    found = {"name": "pdf", "type": "skill-md", "description": "d", "url": f"/{SKILL}/SKILL.md",
             "digest": f"sha256:{skill_file('SKILL.md', MD).sha256}", **entry}  # fmt: skip
    return json.dumps(
        {"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": [found]}, indent=1
    )


def market(source: Any = "./p") -> str:
    return json.dumps({"name": "m", "owner": {"name": "o"}, "plugins": [{"name": "docs", "source": source}]}, indent=1)


PLUGIN = json.dumps({"name": "docs", "version": "1.0.0", "description": "d", "skills": "./skills/"}, indent=1)
MANIFESTS = {
    "plugin-json": ("p/.claude-plugin/plugin.json", PLUGIN),
    "codex-plugin": ("p/.codex-plugin/plugin.json", PLUGIN),
    "agent-plugin": (
        "p/plugin.json",
        json.dumps({"$schema": SCHEMA, "name": "docs", "version": "1.0.0", "description": "d"}),
    ),
    "marketplace": (".claude-plugin/marketplace.json", market()),
    "well-known": (".well-known/agent-skills/index.json", index()),
}


def outcome(kind: str, tree: Tree, **others: Any) -> Expected:
    report = report_of(tree, SKILL, **others)
    (state,) = [item.state for item in report.statuses if item.kind == kind]
    for item in report.findings:
        assert item.rule.startswith(f"manifest/{kind}/"), item
        assert item.remedy, item
    return state, [item.rule.rpartition("/")[2] for item in report.findings]


def tree_of(kind: str) -> Tree:
    place, text = MANIFESTS[kind]
    return {**files_of(), place: text}


def one_byte(tree: Tree) -> None:
    tree[f"{SKILL}/scripts/x.py"] = "print(2)\n"


def added(tree: Tree) -> None:
    tree[f"{SKILL}/scripts/y.py"] = "print(3)\n"


def removed(tree: Tree) -> None:
    del tree[f"{SKILL}/scripts/x.py"]


def renamed(tree: Tree) -> None:
    tree[f"{SKILL}/scripts/z.py"] = tree.pop(f"{SKILL}/scripts/x.py")


def symlinked(tree: Tree) -> None:
    tree[f"{SKILL}/scripts/x.py"] = ("link", "../SKILL.md")


@pytest.mark.requirements("R219")
@pytest.mark.parametrize("kind", list(MANIFESTS))
@pytest.mark.parametrize("event", [None, one_byte, added, removed, renamed, symlinked])
def test_what_changes_inside_a_skill_is_no_matter_of_a_manifest_without_its_digest(
    kind: str, event: Callable[[Tree], None] | None
) -> None:
    tree = tree_of(kind)
    if event is not None:
        event(tree)
    assert outcome(kind, tree) == (VERIFIED, [])


@pytest.mark.parametrize("kind", list(MANIFESTS))
def test_line_ends_of_the_manifest_itself_are_nothing(kind: str) -> None:
    place, text = MANIFESTS[kind]
    assert outcome(kind, {**files_of(), place: data_of(text).replace(b"\n", b"\r\n")}) == (VERIFIED, [])


@pytest.mark.parametrize("kind", [kind for kind in MANIFESTS if kind != "agent-plugin"])
def test_a_manifest_that_is_a_link_or_cannot_be_read_failed(kind: str) -> None:
    """A bare plugin.json that is no JSON object could be any program's: test_plugins."""
    place, _ = MANIFESTS[kind]
    assert outcome(kind, {**files_of(), place: ("link", "../elsewhere.json")}) == (FAILED, ["link"])
    assert outcome(kind, {**files_of(), place: "{broken"}) == (FAILED, ["json"])


WELL_KNOWN: dict[str, tuple[dict[str, Any], Expected]] = {
    "one byte of the artefact": ({f"{SKILL}/SKILL.md": MD + "x"}, (STALE, ["changed"])),
    "a link in its place": ({f"{SKILL}/SKILL.md": ("link", "x.md")}, (STALE, ["link"])),
    "committed CRLF": ({f"{SKILL}/SKILL.md": data_of(MD).replace(b"\n", b"\r\n")}, (STALE, ["changed"])),
    "an empty digest": ({".well-known/agent-skills/index.json": index(digest="")}, (FAILED, ["digest-empty"])),
    "another place": ({".well-known/agent-skills/index.json": index(url=f"/{SKILL}/gone.md")}, (FAILED, ["missing"])),
}


@pytest.mark.parametrize("event", list(WELL_KNOWN))
def test_the_one_file_that_an_index_has_a_digest_of_is_held_to_it(event: str) -> None:
    change, expected = WELL_KNOWN[event]
    assert outcome("well-known", {**tree_of("well-known"), **change}) == expected


NAMED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a plugin's skills folder that is gone": ("plugin-json", {"skills": "./gone/"}, ["path-missing"]),
    "a plugin's path that leads out": ("plugin-json", {"skills": "../skills/"}, ["path-outside"]),
    "the same of another host": ("codex-plugin", {"skills": "./gone/"}, ["path-missing"]),
}


@pytest.mark.parametrize("event", list(NAMED))
def test_a_path_that_a_plugin_names_must_be_there_and_inside(event: str) -> None:
    kind, change, expected = NAMED[event]
    place, text = MANIFESTS[kind]
    state, rules = outcome(kind, {**files_of(), place: json.dumps({**json.loads(text), **change})})
    assert state is FAILED
    assert rules[: len(expected)] == expected
    assert set(rules) <= {*expected, "unreachable"}, "a skill that the plugin no longer loads may be said too"


SOURCES: dict[str, tuple[Any, ManifestState, list[str]]] = {
    "a folder that is gone": ("./gone", VERIFIED, ["source-missing"]),
    "a folder outside": ("../p", FAILED, ["source-outside"]),
    "a repository by its branch": ({"source": "github", "repo": "o/r"}, VERIFIED, ["unpinned"]),
    "a repository by its commit": ({"source": "github", "repo": "o/r", "sha": "a" * 40}, VERIFIED, []),
    "a package of any version": ({"source": "npm", "package": "p"}, VERIFIED, ["unpinned"]),
}


@pytest.mark.parametrize("event", list(SOURCES))
def test_a_source_of_a_marketplace_is_there_and_pinned(event: str) -> None:
    source, state, expected = SOURCES[event]
    place, _ = MANIFESTS["marketplace"]
    found = report_of({**files_of(), place: market(source)}, SKILL)
    assert [item.rule for item in found.findings] == [f"manifest/marketplace/{rule}" for rule in expected]
    assert [item.state for item in found.statuses if item.kind == "marketplace"] == [state]
