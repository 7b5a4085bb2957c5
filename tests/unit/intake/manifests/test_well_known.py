from __future__ import annotations

import json
from typing import Any

import pytest

from gate.domain.base import sha256_hex
from gate.domain.manifest import ManifestState
from tests.builders_manifests import MD, Tree, a_tar, a_zip, data_of, report_of

ROOT = ".well-known/agent-skills"
SKILL = f"{ROOT}/pdf"
SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"


def site(artefact: bytes = MD.encode(), place: str = f"{SKILL}/SKILL.md", **entry: Any) -> Tree:
    found = {
        "name": "pdf", "type": "skill-md", "description": "d", "url": f"/{place}",
        "digest": f"sha256:{sha256_hex(artefact)}", **entry,
    }  # fmt: skip
    index = json.dumps({"$schema": SCHEMA, "skills": [found]}, indent=1)
    return {f"{SKILL}/SKILL.md": MD, place: artefact, f"{ROOT}/index.json": index}


def found(tree: Tree, *, committed: bool = True, skill: str = SKILL) -> tuple[list[ManifestState], list[str]]:
    report = report_of(tree, skill, committed=committed)
    rules = [item.rule.removeprefix("manifest/well-known/") for item in report.findings]
    return [item.state for item in report.statuses if item.kind == "well-known"], rules


OK: tuple[list[ManifestState], list[str]] = ([ManifestState.VERIFIED], [])


@pytest.mark.parametrize("url", [f"/{SKILL}/SKILL.md", "pdf/SKILL.md", f"https://x.test/{SKILL}/SKILL.md?v=1"])
def test_an_artefact_is_found_where_the_site_would_serve_it(url: str) -> None:
    assert found(site(url=url)) == OK


def test_every_change_of_an_artefact_is_found() -> None:
    tree = site()
    place = f"{SKILL}/SKILL.md"
    assert found({**tree, place: MD + "x"}) == ([ManifestState.STALE], ["changed"])
    assert found({**tree, f"{SKILL}/y.md": "y"}) == OK, "only the artefact itself has a digest"
    assert found({**tree, place: ("link", "x.md")}) == ([ManifestState.STALE], ["link"])
    moved = {path: content for path, content in tree.items() if path != place} | {f"{SKILL}/skill.md": MD}
    assert found(moved) == ([ManifestState.FAILED], ["missing"])
    crlf: Tree = {**tree, place: data_of(MD).replace(b"\n", b"\r\n")}
    assert found(crlf) == ([ManifestState.STALE], ["changed"])
    assert found(crlf, committed=False) == ([ManifestState.VERIFIED], ["line-ends"])


def test_an_artefact_of_another_host_is_skipped_with_a_reason() -> None:
    tree = site(url="https://elsewhere.test/pdf/SKILL.md")
    report = report_of(tree, SKILL)
    assert found(tree) == ([ManifestState.SKIPPED], [])
    assert "not in this repository" in report.statuses[0].reason


@pytest.mark.parametrize("pack", [a_zip, a_tar])
def test_an_archive_has_its_skill_md_at_the_root_and_nothing_that_leads_out(pack: Any) -> None:
    for files, expected in (
        ({"SKILL.md": MD, "a/b.md": "x"}, OK),
        ({"pdf/SKILL.md": MD}, ([ManifestState.FAILED], ["archive-root"])),
        ({"SKILL.md": MD, "../x": "y"}, ([ManifestState.FAILED], ["archive"])),
    ):
        assert found(site(pack(files), f"{ROOT}/pdf.pack", type="archive")) == expected


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"type": "folder"}, "type"),
        ({"name": "PDF tools", "url": f"/{SKILL}/SKILL.md"}, "name"),
        ({"digest": None}, "digest"),
    ],
)
def test_an_entry_that_agents_cannot_use_failed(change: dict[str, Any], rule: str) -> None:
    assert found(site(**change)) == ([ManifestState.FAILED], [rule])


def test_another_schema_is_a_warning() -> None:
    tree = site()
    tree[f"{ROOT}/index.json"] = data_of(tree[f"{ROOT}/index.json"]).replace(b"0.2.0", b"0.3.0")
    assert found(tree) == ([ManifestState.VERIFIED], ["schema"])


def test_the_older_index_lists_files_and_each_must_be_there() -> None:
    root = ".well-known/skills"
    skill = f"{root}/pdf"

    def tree(*files: Any) -> Tree:
        return {
            f"{skill}/SKILL.md": MD,
            f"{root}/index.json": json.dumps({"skills": [{"name": "pdf", "files": files}]}),
        }

    assert found(tree("SKILL.md"), skill=skill) == OK
    assert found(tree("SKILL.md", "a.md"), skill=skill) == ([ManifestState.FAILED], ["missing"])
    assert found(tree("../x"), skill=skill) == ([ManifestState.FAILED], ["path-outside"])
    assert found({f"{skill}/SKILL.md": MD, f"{root}/index.json": "{}"}, skill=skill) == (
        [ManifestState.FAILED],
        ["shape"],
    )
