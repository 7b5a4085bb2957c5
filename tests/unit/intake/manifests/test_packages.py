from __future__ import annotations

import pytest

from gate.domain.manifest import ManifestState
from tests.builders_manifests import SKILL_FILES, Tree, a_tar, a_zip, report_of

SKILL = "skills/pdf"
FILES: Tree = {f"{SKILL}/{path}": content for path, content in SKILL_FILES.items()}


def found(place: str, data: bytes) -> tuple[list[ManifestState], list[str]]:
    report = report_of({**FILES, place: data}, SKILL)
    rules = [item.rule.removeprefix("manifest/package/") for item in report.findings]
    return [item.state for item in report.statuses if item.kind == "package"], rules


@pytest.mark.parametrize("place", ["skills/pdf.skill", "skills/dist/pdf.zip", "dist/pdf.skill", "skills/pdf/pdf.skill"])
def test_a_packed_skill_is_compared_with_its_folder_wherever_packages_lie(place: str) -> None:
    assert found(place, a_zip(SKILL_FILES)) == ([ManifestState.VERIFIED], [])
    assert found(place, a_zip({f"pdf/{path}": item for path, item in SKILL_FILES.items()})) == (
        [ManifestState.VERIFIED],
        [],
    )
    assert found(place, a_zip({**SKILL_FILES, "SKILL.md": "old"})) == ([ManifestState.STALE], ["changed"])


def test_a_tar_is_read_too_and_evals_need_not_be_packed() -> None:
    tree: Tree = {**FILES, f"{SKILL}/evals/evals.json": "[]", "skills/pdf.tar.gz": a_tar(SKILL_FILES)}
    report = report_of(tree, SKILL)
    assert ([item.state for item in report.statuses if item.kind == "package"], report.findings) == (
        [ManifestState.VERIFIED],
        (),
    )


def test_a_package_that_could_do_harm_or_is_none_is_refused_with_the_reason() -> None:
    assert found("skills/pdf.skill", a_zip({**SKILL_FILES, "../../x": "y"})) == ([ManifestState.FAILED], ["refused"])
    assert found("skills/pdf.skill", b"no zip") == ([ManifestState.FAILED], ["refused"])
    assert found("skills/pdf.skill", a_zip({"README.md": "x"})) == ([ManifestState.FAILED], ["no-skill-md"])


def test_files_that_only_look_like_manifests_are_named_as_not_checked() -> None:
    report = report_of({**FILES, f"{SKILL}/_meta.json": "{", f"{SKILL}/skillwarden.lock": "x"}, SKILL)
    assert [(item.path, item.state) for item in report.statuses if item.kind == "relative"] == [
        (f"{SKILL}/skillwarden.lock", ManifestState.SKIPPED),
        (f"{SKILL}/_meta.json", ManifestState.SKIPPED),
    ]
    assert report.findings == ()
