from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gate.domain.base import digest_of, pretty_json
from gate.errors import EvidenceError
from gate.evidence.seal import check_bundle, check_folder, seal_bundle, seal_folder
from tests.builders import a_run_key, write_run_folder

EVENTS = f"{a_run_key().folder}/events.jsonl"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    root = tmp_path / "bundle"
    write_run_folder(root, files={"events.jsonl": b"the agent's own", "a.txt": b"one"})
    (root / "report.json").write_bytes(pretty_json({"state": "success", "rate": 0.5}))
    seal_bundle(root, {"session_id": "s-1", "cost": 0.123456789}, b"key")
    return root


def test_an_untouched_bundle_has_no_problems(bundle: Path) -> None:
    assert check_bundle(bundle) == []
    assert check_bundle(bundle, b"key") == []


def test_the_manifest_names_every_file_and_the_end_of_every_record(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    files = {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()}
    assert {entry["path"] for entry in manifest["files"]} == files - {"manifest.json"}
    last = json.loads((bundle / EVENTS).read_text().splitlines()[-1])
    assert manifest["chains"] == {EVENTS: last["hash"]}
    assert manifest["facts"]["session_id"] == "s-1"


def changed(root: Path) -> None:
    path = root / "report.json"
    path.write_bytes(path.read_bytes().replace(b"success", b"failure"))


def link(root: Path) -> None:
    (root / "report.json").unlink()
    (root / "report.json").symlink_to(root / "manifest.json")


@pytest.mark.parametrize(
    ("tamper", "problems"),
    [
        (changed, ["report.json: changed (same size, other content)"]),
        (lambda root: (root / "report.json").write_bytes(b""), ["report.json: changed (0 bytes, sealed with 38)"]),
        (lambda root: (root / "report.json").unlink(), ["report.json: missing"]),
        (lambda root: (root / "skills/extra.txt").write_bytes(b""), ["skills/extra.txt: added after the seal"]),
        (
            lambda root: (root / "report.json").rename(root / "other.json"),
            ["other.json: added after the seal", "report.json: missing"],
        ),
        (
            lambda root: (root / "more").symlink_to("/etc"),
            ["more: a link or special file, which a bundle must not hold"],
        ),
        (link, ["report.json: a link or special file, which a bundle must not hold"]),
        (lambda root: os.mkfifo(root / "pipe"), ["pipe: a link or special file, which a bundle must not hold"]),
        (lambda root: (root / "a\nb").write_bytes(b""), ["a<U+000A>b: added after the seal"]),
        (lambda root: (root / "empty").mkdir(), []),
        (lambda root: (root / "manifest.json").unlink(), ["manifest.json: missing"]),
    ],
)
def test_every_change_names_its_file(bundle: Path, tamper: Callable[[Path], object], problems: list[str]) -> None:
    tamper(bundle)
    assert check_bundle(bundle) == problems


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b" ", b"  "),
        (b"s-1", b"s-2"),
        (b"0.123456", b"0.123457"),
        (b"\n", b"\r\n"),
        (b'"mac": "', b'"mac": "0'),
        (b"{", b"["),
    ],
)
def test_a_change_in_the_manifest_itself_is_named(bundle: Path, old: bytes, new: bytes) -> None:
    path = bundle / "manifest.json"
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    problems = check_bundle(bundle)
    assert problems
    assert all(problem.startswith("manifest.json: ") for problem in problems)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"files": [1], "chains": 3, "digest": "\\ud800"}',
        b'{"a": NaN}',
    ],
)
def test_a_manifest_that_is_none_is_a_problem_not_a_crash(bundle: Path, content: bytes) -> None:
    (bundle / "manifest.json").write_bytes(content)
    assert any(problem.startswith("manifest.json: ") for problem in check_bundle(bundle, b"key"))


def remade(root: Path, **changes: object) -> None:
    """The manifest as somebody without the key would make it anew."""
    manifest = json.loads((root / "manifest.json").read_bytes()) | changes
    del manifest["digest"]
    (root / "manifest.json").write_bytes(pretty_json({**manifest, "digest": digest_of(manifest)}))


def test_a_manifest_made_anew_without_the_key_does_not_carry_its_mac(bundle: Path) -> None:
    remade(bundle, facts={"session_id": "mine"})
    assert check_bundle(bundle) == []
    assert check_bundle(bundle, b"key") == [
        "manifest.json: it does not carry the MAC of this key (made elsewhere, or changed)"
    ]
    assert len(check_bundle(bundle, b"other key")) == 1


def test_a_manifest_made_anew_with_another_chain_head_is_found(bundle: Path) -> None:
    remade(bundle, chains={EVENTS: "0" * 64})
    assert check_bundle(bundle) == [f"{EVENTS}: its chain does not end where the manifest says"]


def test_a_manifest_made_anew_without_the_records_is_found(bundle: Path) -> None:
    remade(bundle, chains={})
    assert check_bundle(bundle) == ["manifest.json: its chain heads are not those of the records that it lists"]


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/./b", "nul\0", 7, "report.json"])
def test_a_manifest_cannot_list_a_path_twice_or_outside_the_bundle(bundle: Path, path: object) -> None:
    entry = {"path": path, "size_bytes": 1, "sha256": "0"}
    remade(bundle, files=[*json.loads((bundle / "manifest.json").read_bytes())["files"], entry])
    problems = check_bundle(bundle)
    assert problems
    assert all("manifest.json: it lists" in problem or "missing" in problem for problem in problems)


def test_a_broken_record_cannot_be_sealed(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"{}\n")
    with pytest.raises(EvidenceError, match=r"events\.jsonl, line 1"):
        seal_bundle(tmp_path, {})


@pytest.mark.parametrize("seal", [seal_folder, lambda root: seal_bundle(root, {})])
def test_a_link_cannot_be_sealed(tmp_path: Path, seal: Callable[[Path], str]) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(EvidenceError, match="link is a link or a special file"):
        seal(tmp_path)


def test_a_folder_is_sealed_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    seal_folder(tmp_path, {"more": 1})
    assert check_folder(tmp_path) == []
    with pytest.raises(EvidenceError, match="sealed already"):
        seal_folder(tmp_path)


def test_only_the_files_of_later_layers_may_join_a_sealed_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    seal_folder(tmp_path)
    (tmp_path / "grading.json").write_bytes(b"{}")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "grading.json").write_bytes(b"{}")
    assert check_folder(tmp_path) == ["workspace/grading.json: added after the seal"]


def test_a_folder_without_a_seal_has_a_problem(tmp_path: Path) -> None:
    assert check_folder(tmp_path) == ["seal.json: missing"]


def test_white_space_in_a_seal_is_a_change(tmp_path: Path) -> None:
    seal_folder(tmp_path)
    (tmp_path / "seal.json").write_bytes((tmp_path / "seal.json").read_bytes() + b"\n")
    assert check_folder(tmp_path) == ["seal.json: its bytes were changed (not written as the gate writes it)"]
