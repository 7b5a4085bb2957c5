from __future__ import annotations

import json
from typing import Any

import pytest

from gate.domain.findings import Level
from gate.domain.manifest import ManifestState
from gate.intake.manifests.marketplace import HOMES
from tests.builders_manifests import MD, Tree, report_of

SKILL = "plugins/docs/skills/pdf"
BASE: Tree = {
    f"{SKILL}/SKILL.md": MD,
    "plugins/docs/.claude-plugin/plugin.json": '{"name": "docs", "version": "1.0.0"}',
    "plugins/other/skills/x/SKILL.md": MD,
}
SHA = "a" * 40


def market(*plugins: Any, home: str = HOMES[0], **more: Any) -> Tree:
    value = {"name": "m", "owner": {"name": "o"}, "plugins": list(plugins), **more}
    return {**BASE, home: json.dumps(value)}


def entry(**changes: Any) -> dict[str, Any]:
    found = {"name": "docs", "source": "./plugins/docs", "version": "1.0.0", **changes}
    return {key: value for key, value in found.items() if value is not None}


def rules(tree: Tree) -> list[tuple[str, Level]]:
    found = [item for item in report_of(tree, SKILL).findings if item.rule.startswith("manifest/marketplace/")]
    assert len(found) == len(report_of(tree, SKILL).findings), report_of(tree, SKILL).findings
    return [(item.rule.removeprefix("manifest/marketplace/"), item.level) for item in found]


@pytest.mark.parametrize("home", HOMES)
def test_local_sources_are_counted_from_the_folder_that_holds_the_home(home: str) -> None:
    report = report_of(market(entry(), home=home), SKILL)
    status = next(item for item in report.statuses if item.kind == "marketplace")
    assert (status.state, status.reason, report.findings) == (ManifestState.VERIFIED, "", ())


@pytest.mark.parametrize("home", HOMES)
def test_a_plugin_root_is_where_short_sources_start(home: str) -> None:
    assert rules(market(entry(source="docs"), home=home, metadata={"pluginRoot": "./plugins"})) == []
    assert rules(market(entry(source="docs"), home=home)) == [("source-missing", Level.WARNING)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"source": "github", "repo": "o/r", "sha": SHA}, []),
        ({"source": "github", "repo": "o/r"}, [("unpinned", Level.WARNING)]),
        ({"source": "github", "repo": "o/r", "ref": "main"}, [("unpinned", Level.WARNING)]),
        ({"source": "url", "url": "https://x.test/r.git", "ref": SHA}, []),
        ({"source": "git-subdir", "url": "https://x.test/r.git", "path": "p"}, [("unpinned", Level.WARNING)]),
        ({"source": "npm", "package": "@o/p", "version": "1.2.3"}, []),
        ({"source": "npm", "package": "@o/p", "version": "^1"}, [("unpinned", Level.WARNING)]),
        ({"source": "archive", "url": "https://x.test/a.zip", "sha256": "b" * 64}, []),
        ({"source": "archive", "url": "https://x.test/a.zip"}, [("unpinned", Level.WARNING)]),
        ({"source": "github"}, [("source", Level.ERROR)]),
        ({"source": "ftp", "url": "x"}, [("source-kind", Level.WARNING)]),
        ({"source": "local", "path": "./plugins/docs"}, [("name-differs", Level.WARNING)]),
        ("./plugins/none", [("source-missing", Level.WARNING)]),
        ("../docs", [("source-outside", Level.ERROR)]),
        ("/plugins/docs", [("source-form", Level.ERROR)]),
        ("C:\\docs", [("source-form", Level.ERROR)]),
        ("", [("source", Level.ERROR)]),
        (None, [("source", Level.ERROR)]),
        (3, [("source", Level.ERROR)]),
    ],
)
def test_each_source_gives_the_finding_that_is_meant_for_it(source: Any, expected: list[tuple[str, Level]]) -> None:
    assert rules(market(entry(), entry(name="two", source=source))) == expected


@pytest.mark.parametrize(
    ("skills", "expected"),
    [
        ("./skills/pdf", []),
        (["./skills/pdf", "./skills"], []),
        ("./skills/none", [("skill-missing", Level.WARNING)]),
        (["./skills/pdf", "../x"], [("skill-outside", Level.ERROR)]),
        ([3], [("skills", Level.ERROR)]),
        ({"a": 1}, [("skills", Level.ERROR)]),
    ],
)
def test_skills_of_an_entry_are_a_text_or_a_list_and_a_text_is_one_path(skills: Any, expected: Any) -> None:
    assert rules(market(entry(skills=skills))) == expected


@pytest.mark.parametrize(
    ("change", "rule"), [({"version": "2.0.0"}, "version-differs"), ({"name": "documents"}, "name-differs")]
)
def test_a_name_or_version_that_differs_from_the_plugins_own_is_a_warning(change: dict[str, str], rule: str) -> None:
    assert rules(market(entry(**change))) == [(rule, Level.WARNING)]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ({"owner": {"name": "o"}, "plugins": []}, "name"),
        ({"name": "m", "owner": {"email": "e"}, "plugins": []}, "owner"),
        ({"name": "m", "owner": {"name": "o"}}, "plugins"),
        ({"name": "m", "owner": {"name": "o"}, "plugins": {}}, "plugins"),
        ({"name": "m", "owner": {"name": "o"}, "plugins": ["docs"]}, "entry"),
        ({"name": "m", "owner": {"name": "o"}, "plugins": [{"source": "./plugins/docs"}]}, "entry-name"),
        ({"name": "m", "owner": {"name": "o"}, "plugins": [entry(), entry()]}, "duplicate"),
    ],
)
def test_a_marketplace_that_hosts_cannot_load_failed(value: dict[str, Any], rule: str) -> None:
    tree: Tree = {**BASE, HOMES[0]: json.dumps(value)}
    assert rules(tree) == [(rule, Level.ERROR)]
    statuses = report_of(tree, SKILL).statuses
    assert next(item.state for item in statuses if item.kind == "marketplace") is ManifestState.FAILED


def test_a_marketplace_without_this_skill_says_so() -> None:
    statuses = report_of(market(entry(name="other", source="./plugins/other", version=None)), SKILL).statuses
    assert next(item.reason for item in statuses if item.kind == "marketplace") == "no entry ships this skill"


@pytest.mark.parametrize("change", ["one byte", "added", "removed", "renamed", "symlinked", "crlf"])
def test_what_changes_inside_a_plugin_is_no_matter_of_the_marketplace(change: str) -> None:
    tree = market(entry())
    place = f"{SKILL}/a.md"
    tree[place] = "x\n"
    if change == "added":
        tree[f"{SKILL}/b.md"] = "y"
    elif change in ("removed", "renamed"):
        content = tree.pop(place)
        tree |= {f"{SKILL}/c.md": content} if change == "renamed" else {}
    else:
        changed: Tree = {"one byte": "y\n", "symlinked": ("link", "SKILL.md"), "crlf": "x\r\n"}
        tree[place] = changed[change]
    assert rules(tree) == []


def test_a_plugin_folder_that_is_removed_or_a_link_is_found() -> None:
    tree = market(entry(), entry(name="other", source="./plugins/other"))
    del tree["plugins/other/skills/x/SKILL.md"]
    assert rules(tree) == [("source-missing", Level.WARNING)]
    assert rules({**tree, "plugins/other": ("link", "docs")}) == [("source-file", Level.WARNING)]
