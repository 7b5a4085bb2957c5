from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gate.domain.findings import Level
from gate.domain.manifest import ManifestState
from gate.intake.manifests.skills_lock import folder_hash
from tests.builders_manifests import (
    MD,
    SKILL,
    SKILL_FILES,
    Content,
    Tree,
    a_global_lock,
    a_schemapin,
    a_sigstore,
    a_statement,
    a_zip,
    data_of,
    report_of,
    skill_file,
)

VERIFIED, STALE, FAILED, SKIPPED = (
    ManifestState.VERIFIED,
    ManifestState.STALE,
    ManifestState.FAILED,
    ManifestState.SKIPPED,
)
Expected = tuple[ManifestState, list[tuple[str, str]]]
"""The state, and (rule without its family, last part of the path) of every finding."""


def files_of(skill: str = SKILL) -> Tree:
    return {f"{skill}/{path}": content for path, content in SKILL_FILES.items()}


def crlf(content: Content) -> Content:
    return data_of(content).replace(b"\n", b"\r\n")


# Each event takes a tree and does one thing to the skill's files.
def untouched(tree: Tree) -> None:
    """Nothing."""


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


def crlf_checkout(tree: Tree) -> None:
    for path in SKILL_FILES:
        tree[f"{SKILL}/{path}"] = crlf(tree[f"{SKILL}/{path}"])


def lock(**entry: Any) -> bytes:
    hashed = folder_hash([skill_file(path, content) for path, content in SKILL_FILES.items()])
    found = {"source": "o/r", "sourceType": "github", "computedHash": hashed, **entry}
    return json.dumps({"version": 1, "skills": {"pdf": found}}, indent=1).encode()


def index(**entry: Any) -> bytes:
    found = {
        "name": "pdf", "type": "skill-md", "description": "d", "url": "/.agents/skills/pdf/SKILL.md",
        "digest": f"sha256:{skill_file('SKILL.md', MD).sha256}", **entry,
    }  # fmt: skip
    schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
    return json.dumps({"$schema": schema, "skills": [found]}, indent=1).encode()


MANIFESTS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "oms-sig": (f"{SKILL}/skill.oms.sig", lambda: a_statement(SKILL_FILES)),
    "sigstore": (f"{SKILL}/SKILL.sigstore", lambda: a_sigstore(SKILL_FILES)),
    "schemapin": (f"{SKILL}/.schemapin.sig", lambda: a_schemapin(SKILL_FILES)),
    "skills-lock": ("skills-lock.json", lock),
    "global-lock": (".agents/.skill-lock.json", lambda: a_global_lock(SKILL_FILES)),
    "package": (
        ".agents/skills/pdf.skill",
        lambda: a_zip({f"pdf/{path}": content for path, content in SKILL_FILES.items()}),
    ),
}
WHOLE: Expected = (STALE, [("changed", "lock")])
MATRIX: dict[str, dict[Callable[[Tree], None], Expected]] = {
    "oms-sig": {
        untouched: (VERIFIED, []),
        one_byte: (STALE, [("changed", "x.py")]),
        added: (STALE, [("extra", "y.py")]),
        removed: (STALE, [("missing", "x.py")]),
        renamed: (STALE, [("renamed", "x.py")]),
        symlinked: (STALE, [("link", "x.py")]),
    },
    "sigstore": {
        untouched: (VERIFIED, []),
        one_byte: (STALE, [("changed", "SKILL.sigstore")]),
        added: (STALE, [("changed", "SKILL.sigstore")]),
        removed: (STALE, [("changed", "SKILL.sigstore")]),
        renamed: (STALE, [("changed", "SKILL.sigstore")]),
        symlinked: (STALE, [("changed", "SKILL.sigstore")]),
    },
    "schemapin": {
        untouched: (VERIFIED, []),
        one_byte: (STALE, [("changed", "x.py")]),
        added: (STALE, [("extra", "y.py")]),
        removed: (STALE, [("missing", "x.py")]),
        renamed: (STALE, [("extra", "z.py"), ("missing", "x.py")]),
        symlinked: (STALE, [("link", "x.py")]),
    },
    "skills-lock": {
        untouched: (VERIFIED, []),
        **dict.fromkeys((one_byte, added, removed, renamed, symlinked), (STALE, [("changed", "skills-lock.json")])),
    },
    "global-lock": {
        untouched: (VERIFIED, []),
        **dict.fromkeys((one_byte, added, removed, renamed, symlinked), (STALE, [("changed", ".skill-lock.json")])),
    },
    "package": {
        untouched: (VERIFIED, []),
        one_byte: (STALE, [("changed", "pdf.skill")]),
        added: (STALE, [("missing", "pdf.skill")]),
        removed: (STALE, [("extra", "pdf.skill")]),
        renamed: (STALE, [("missing", "pdf.skill"), ("extra", "pdf.skill")]),
        symlinked: (STALE, [("extra", "pdf.skill")]),
    },
}


def outcome(tree: Tree, kind: str, **others: Any) -> Expected:
    report = report_of(tree, **others)
    states = [item.state for item in report.statuses if item.kind == kind]
    assert len(states) == 1, report.statuses
    for item in report.findings:
        assert item.rule.startswith(f"manifest/{kind}/"), item
        assert item.remedy, item
    return states[0], [(item.rule.rpartition("/")[2], item.path.rpartition("/")[2]) for item in report.findings]


@pytest.mark.requirements("R219")
@pytest.mark.parametrize(
    ("kind", "event", "expected"),
    [(kind, event, expected) for kind, row in MATRIX.items() for event, expected in row.items()],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_each_change_of_a_skill_gives_the_finding_that_is_meant_for_it_and_no_other(
    kind: str, event: Callable[[Tree], None], expected: Expected
) -> None:
    place, make = MANIFESTS[kind]
    tree: Tree = {**files_of(), place: make()}
    event(tree)
    assert outcome(tree, kind) == expected


@pytest.mark.parametrize(
    ("kind", "place", "count"),
    [
        ("oms-sig", "", 3),
        ("schemapin", "", 3),
        ("skills-lock", "skills-lock.json", 1),
        ("global-lock", ".skill-lock.json", 1),
    ],
)
def test_line_ends_that_a_checkout_made_are_a_warning_and_committed_ones_make_a_manifest_stale(
    kind: str, place: str, count: int
) -> None:
    at, make = MANIFESTS[kind]
    tree: Tree = {**files_of(), at: make()}
    crlf_checkout(tree)
    state, findings = outcome(tree, kind, committed=False)
    assert (state, [rule for rule, _ in findings]) == (SKIPPED, ["line-ends"] * count)
    assert {item.level for item in report_of(tree, committed=False).findings} == {Level.WARNING}
    assert not place or findings[0][1] == place
    state, findings = outcome(tree, kind)
    assert state is STALE
    assert {rule for rule, _ in findings} == {"changed" if kind == "global-lock" else "line-ends"}
    assert {item.level for item in report_of(tree).findings} == {Level.ERROR}


@pytest.mark.parametrize(
    ("kind", "place", "content", "rule"),
    [
        ("skills-lock", "skills-lock.json", lock(computedHash=""), "hash-empty"),
        ("skills-lock", "skills-lock.json", lock(computedHash="AB" * 32), "hash"),
        ("global-lock", ".agents/.skill-lock.json", b'{"version": 3, "skills": {"pdf": {"skillFolderHash": ""}}}', "hash-empty"),
        ("global-lock", ".agents/.skill-lock.json", b'{"version": 3, "skills": {"pdf": {"skillFolderHash": "x"}}}', "hash"),
        ("well-known", ".well-known/agent-skills/index.json", index(digest=""), "digest-empty"),
        ("well-known", ".well-known/agent-skills/index.json", index(digest="md5:1"), "digest"),
        ("oms-sig", f"{SKILL}/skill.oms.sig", a_statement(SKILL_FILES, subject=[{"digest": {"sha256": ""}}]), "statement"),
        ("sigstore", f"{SKILL}/SKILL.sigstore", b'{"messageSignature": {"messageDigest": {"digest": ""}}}', "statement"),
        ("schemapin", f"{SKILL}/.schemapin.sig", b'{"file_manifest": {"SKILL.md": ""}, "skill_hash": ""}', "statement"),
    ],
)  # fmt: skip
def test_an_empty_or_malformed_hash_locks_nothing_and_is_an_error(
    kind: str, place: str, content: bytes, rule: str
) -> None:
    state, findings = outcome({**files_of(), place: content}, kind)
    assert (state, [item for item, _ in findings]) == (FAILED, [rule])


@pytest.mark.parametrize("kind", list(MANIFESTS))
def test_a_manifest_that_is_a_link_is_not_followed(kind: str) -> None:
    tree: Tree = {**files_of(), MANIFESTS[kind][0]: ("link", "../elsewhere.json")}
    state, findings = outcome(tree, kind)
    assert (state, [rule for rule, _ in findings]) == (FAILED, ["link"])


@pytest.mark.parametrize("kind", [kind for kind in MANIFESTS if kind != "package"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe{", b"../skills-lock.json", b"[]", b'{"a": 1, "a": 2}'])
def test_a_manifest_that_cannot_be_read_failed(kind: str, data: bytes) -> None:
    state, findings = outcome({**files_of(), MANIFESTS[kind][0]: data}, kind)
    assert state is FAILED
    assert [rule for rule, _ in findings] in (["json"], ["no-object"])


def test_a_skill_without_a_signature_is_unsigned_and_that_is_no_finding_unless_the_policy_asks_for_one() -> None:
    report = report_of(files_of())
    assert [(item.kind, item.path, item.state) for item in report.statuses] == [
        ("signature", SKILL, ManifestState.UNSIGNED)
    ]
    assert report.findings == ()
    asked = report_of(files_of(), require_signed=True)
    assert [(item.rule, item.level) for item in asked.findings] == [("manifest/signature/unsigned", Level.ERROR)]


def test_matching_digests_are_no_proof_of_a_signature_where_the_policy_asks_for_one() -> None:
    tree: Tree = {**files_of(), f"{SKILL}/skill.oms.sig": a_statement(SKILL_FILES)}
    status = report_of(tree).statuses[-1]
    assert (status.state, status.words) == (VERIFIED, "digests match")
    assert "signature itself was not checked" in status.reason
    assert [item.rule for item in report_of(tree, require_signed=True).findings] == ["manifest/signature/unproven"]
