"""A seal notices every change, and nothing else."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gate.evidence.seal import check_bundle, check_folder, seal_bundle, seal_folder
from tests.builders import a_run_key, write_run_folder

# Changes are undone within each example, so the folder may be shared between them.
shared_folder = settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sealed") / "bundle"
    write_run_folder(root, files={"a.txt": b"one", "报告.md": "总计".encode(), "blob": bytes(range(256))})
    (root / "report.json").write_bytes(b'{"state": "success"}\n')
    (root / "empty.txt").write_bytes(b"")
    seal_bundle(root, {"session_id": "s", "cost": 0.1234567, "ok": True, "none": None, "text": "差 \ud800 é"}, b"key")
    return root


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.mark.requirements("R226")
@shared_folder
@given(st.data())
def test_any_byte_that_changes_names_its_file(bundle: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path in files_of(bundle) if path.stat().st_size]))
    before = path.read_bytes()
    position = data.draw(st.integers(0, len(before) - 1))
    changed = bytearray(before)
    changed[position] ^= data.draw(st.integers(1, 255))
    try:
        path.write_bytes(bytes(changed))
        problems = check_bundle(bundle)
    finally:
        path.write_bytes(before)
    assert problems
    assert all(problem.startswith(f"{path.relative_to(bundle)}: ") for problem in problems)


def test_every_single_byte_of_the_manifest_counts(bundle: Path) -> None:
    path = bundle / "manifest.json"
    before = path.read_bytes()
    dice = random.Random(7)
    try:
        for position in range(len(before)):
            changed = bytearray(before)
            changed[position] ^= dice.randrange(1, 256)
            path.write_bytes(bytes(changed))
            assert any(problem.startswith("manifest.json: ") for problem in check_bundle(bundle)), position
    finally:
        path.write_bytes(before)


@shared_folder
@given(st.data())
def test_a_file_removed_renamed_cut_or_added_is_named(bundle: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path in files_of(bundle) if path.name != "manifest.json"]))
    how = data.draw(st.sampled_from(["removed", "renamed", "cut", "longer", "added", "swapped for a link"]))
    other = path.with_name(f"{path.name}.new")
    before = path.read_bytes()
    try:
        if how == "removed":
            path.unlink()
        elif how == "renamed":
            path.rename(other)
        elif how == "cut":
            path.write_bytes(before[:-1] if before else b"x")
        elif how == "longer":
            path.write_bytes(before + b"\n")
        elif how == "added":
            other.write_bytes(before)
        else:
            path.rename(other)
            path.symlink_to(other)
        problems = check_bundle(bundle)
    finally:
        other.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(before)
    named = other if how == "added" else path
    assert any(problem.startswith(f"{named.relative_to(bundle)}: ") for problem in problems)
    assert check_bundle(bundle) == []


@shared_folder
@given(st.data())
def test_any_byte_of_a_runs_sealed_files_counts(bundle: Path, data: st.DataObject) -> None:
    folder = bundle / a_run_key().folder
    path = data.draw(
        st.sampled_from([path for path in files_of(folder) if path.name != "seal.json" and path.stat().st_size])
    )
    before = path.read_bytes()
    changed = bytearray(before)
    changed[data.draw(st.integers(0, len(before) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        path.write_bytes(bytes(changed))
        problems = check_folder(folder)
    finally:
        path.write_bytes(before)
    assert problems == [f"{path.relative_to(folder)}: changed (same size, other content)"]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.from_regex(r"[a-c]{1,2}(/[d-f]{1,2}){0,2}", fullmatch=True), st.binary(max_size=20), max_size=6)
)
def test_what_was_just_sealed_is_intact(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    root = tmp_path_factory.mktemp("any")
    for name, content in files.items():
        if any(other.startswith(f"{name}/") for other in files):
            continue  # a folder
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    seal_folder(root)
    assert check_folder(root) == []
    digest = seal_bundle(root, {"files": len(files)})
    assert check_bundle(root) == []
    assert digest in (root / "manifest.json").read_text()
    shutil.rmtree(root)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_as_a_manifest_are_a_problem_and_no_crash(bundle: Path, content: bytes) -> None:
    path = bundle / "manifest.json"
    before = path.read_bytes()
    try:
        path.write_bytes(content)
        assert check_bundle(bundle, b"key")
    finally:
        path.write_bytes(before)
