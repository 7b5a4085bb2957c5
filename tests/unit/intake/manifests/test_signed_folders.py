from __future__ import annotations

from pathlib import Path

import pytest

from gate.domain.findings import Level
from gate.domain.manifest import ManifestScope, ManifestState
from gate.intake.manifests import ManifestReport, read_manifests
from gate.intake.sources import CommitTree, FolderTree
from tests.builders_manifests import SKILL, SKILL_FILES, Tree, a_bundle, a_statement, report_of
from tests.fakes.repository import FakeRepository

SIGNED = ("amc-setup-calibration-stack", "mcore-linting-and-formatting", "mcore-split-pr")


def real(shared_dir: Path, name: str) -> ManifestReport:
    tree = FolderTree(shared_dir / "corpus" / "NVIDIA__skills")
    folder = f"skills/{name}"
    return read_manifests(tree.paths(), tree.read, folder, files=tree.skill_files(folder))


@pytest.mark.requirements("R219")
def test_of_three_really_signed_skills_two_match_and_one_is_stale_with_the_changed_file_named(shared_dir: Path) -> None:
    reports = {name: real(shared_dir, name) for name in SIGNED}
    states = {name: [item for item in report.statuses if item.kind == "oms-sig"] for name, report in reports.items()}
    assert {name: [item.words for item in found] for name, found in states.items()} == {
        "amc-setup-calibration-stack": ["stale"],
        "mcore-linting-and-formatting": ["digests match"],
        "mcore-split-pr": ["digests match"],
    }
    assert [item.files for found in states.values() for item in found] == [4, 4, 4]
    findings = [item for report in reports.values() for item in report.findings if "/oms-sig/" in item.rule]
    assert [(item.rule, item.level, item.path) for item in findings] == [
        ("manifest/oms-sig/changed", Level.ERROR, "skills/amc-setup-calibration-stack/SKILL.md")
    ]
    assert "re-signed" in findings[0].remedy


def test_each_of_their_files_is_missed_when_it_changes_or_goes_and_noticed_when_one_comes(shared_dir: Path) -> None:
    tree = FolderTree(shared_dir / "corpus" / "NVIDIA__skills" / "skills" / "mcore-split-pr")
    base: Tree = {f"s/{item.path}": item.data for item in tree.skill_files(".")}
    for path in [path for path in base if not path.endswith("skill.oms.sig")]:
        for changes, rule in (({path: b"x"}, "changed"), ({f"{path}.new": b"x"}, "extra")):
            found = report_of({**base, **changes}, "s").findings
            assert [(item.rule, item.path) for item in found] == [(f"manifest/oms-sig/{rule}", next(iter(changes)))]
        found = report_of({other: data for other, data in base.items() if other != path}, "s").findings
        assert [(item.rule, item.path) for item in found] == [("manifest/oms-sig/missing", path)]


def test_changed_extra_and_missing_files_are_three_findings_of_one_skill() -> None:
    tree: Tree = {f"{SKILL}/{path}": content for path, content in SKILL_FILES.items()}
    tree |= {f"{SKILL}/skill.oms.sig": a_statement(SKILL_FILES), f"{SKILL}/SKILL.md": "---\nname: other\n---\n"}
    tree |= {f"{SKILL}/scripts/y.py": "print(2)\n"}
    del tree[f"{SKILL}/scripts/x.py"]
    assert [(item.rule.rpartition("/")[2], item.path) for item in report_of(tree).findings] == [
        ("changed", f"{SKILL}/SKILL.md"),
        ("extra", f"{SKILL}/scripts/y.py"),
        ("missing", f"{SKILL}/scripts/x.py"),
    ]


def test_blobs_are_hashed_and_not_a_checkout_with_other_line_ends(tmp_path: Path) -> None:
    files = {f"{SKILL}/{path}": str(content) for path, content in SKILL_FILES.items()}
    repo = FakeRepository()
    commit = repo.commit({**files, f"{SKILL}/skill.oms.sig": a_statement(SKILL_FILES)}, branch="main")
    for path, content in files.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.replace("\n", "\r\n").encode())
    (tmp_path / SKILL / "skill.oms.sig").write_bytes(a_statement(SKILL_FILES))
    committed, checkout = CommitTree(repo, commit), FolderTree(tmp_path)
    blobs = read_manifests(committed.paths(), committed.read, SKILL, files=committed.skill_files(SKILL))
    disk = read_manifests(checkout.paths(), checkout.read, SKILL, files=checkout.skill_files(SKILL), committed=False)
    assert [item.state for item in blobs.statuses] == [ManifestState.VERIFIED]
    assert blobs.findings == ()
    assert [item.state for item in disk.statuses] == [ManifestState.SKIPPED]
    assert {item.rule for item in disk.findings} == {"manifest/oms-sig/line-ends"}


@pytest.mark.parametrize(
    ("bundle", "state", "rule", "words"),
    [
        (b"{}", ManifestState.FAILED, "statement", "no signed statement"),
        (a_bundle(b"no json"), ManifestState.FAILED, "statement", "no JSON object"),
        (a_statement(SKILL_FILES, predicateType="x"), ManifestState.SKIPPED, None, 'of type "x"'),
        (
            a_statement(SKILL_FILES, subject=[{"digest": {"sha256": "0" * 64}}]),
            ManifestState.FAILED,
            "statement",
            "contradicts itself",
        ),
        (
            a_statement(SKILL_FILES, predicate={"resources": [], "serialization": {"method": "shards"}}),
            ManifestState.SKIPPED,
            None,
            "sha256 over files is known",
        ),
    ],
)
def test_a_bundle_that_says_nothing_usable_is_never_taken_for_a_signature(
    bundle: bytes, state: ManifestState, rule: str | None, words: str
) -> None:
    tree: Tree = {f"{SKILL}/{path}": content for path, content in SKILL_FILES.items()}
    report = report_of({**tree, f"{SKILL}/skill.oms.sig": bundle})
    assert [(item.state, item.scope) for item in report.statuses] == [(state, ManifestScope.FORM)]
    assert words in report.statuses[0].reason
    assert [item.rule for item in report.findings] == ([f"manifest/oms-sig/{rule}"] if rule else [])


def test_what_a_signature_leaves_out_is_said() -> None:
    import base64
    import json

    bundle = json.loads(a_statement({"SKILL.md": SKILL_FILES["SKILL.md"]}))
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    statement["predicate"]["serialization"]["ignore_paths"] = [".git", "scripts", "references"]
    tree: Tree = {f"{SKILL}/{path}": content for path, content in SKILL_FILES.items()}
    report = report_of({**tree, f"{SKILL}/skill.oms.sig": a_bundle(json.dumps(statement).encode())})
    assert [item.state for item in report.statuses] == [ManifestState.VERIFIED]
    assert [(item.rule, item.level) for item in report.findings] == [("manifest/oms-sig/ignored", Level.WARNING)]
    assert "references, scripts" in report.findings[0].message
