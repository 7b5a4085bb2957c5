from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.domain.base import sha256_hex
from gate.intake import archive_worker
from gate.intake.archives import ArchiveFile, inspect_archive
from tests.builders_manifests import Content, a_tar, a_zip

FILES: dict[str, Content] = {"SKILL.md": "text", "scripts/x.py": "print(1)"}


def a_zip_entry(name: str, mode: int = 0, data: bytes = b"x") -> bytes:
    def add(archive: zipfile.ZipFile) -> None:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        archive.writestr(entry, data)

    return a_zip({}, add)


def a_tar_entry(kind: bytes, name: str = "x", target: str = "") -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return a_tar(FILES, entry)


def refusals(data: bytes) -> str:
    found = archive_worker.inspect(data)
    assert not (found["refusals"] and found["files"]), "nothing of a refused archive may be used"
    return "; ".join(found["refusals"])


@pytest.mark.parametrize(
    ("kind", "data"), [("zip", a_zip(FILES)), ("tar.gz", a_tar(FILES)), ("tar", a_tar(FILES, mode="w"))]
)
def test_what_is_in_an_archive_is_told_by_path_size_and_digest(kind: str, data: bytes) -> None:
    archive = inspect_archive(data)
    assert (archive.kind, archive.refusals) == (kind, ())
    assert archive.files == (
        ArchiveFile("SKILL.md", 4, sha256_hex(b"text"), executable=False),
        ArchiveFile("scripts/x.py", 8, sha256_hex(b"print(1)"), executable=False),
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../x", "leads out"),
        ("a/../../x", "leads out"),
        ("a/../x", "leads out"),
        ("/etc/passwd", "absolute"),
        ("C:/x", "absolute"),
        ("a\\..\\x", "backslash"),
        ("..", "leads out"),
    ],
)
def test_a_path_that_leads_out_of_the_folder_is_refused_in_every_kind(name: str, words: str) -> None:
    assert words in refusals(a_zip({**FILES, name: "x"}))
    assert words in refusals(a_tar({**FILES, name: "x"}))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (a_zip_entry("x", 0o120777, b"/etc/passwd"), "a link"),
        (a_zip_entry("x", 0o020666), "a device"),
        (a_zip_entry("x", 0o010666), "a pipe"),
        (a_tar_entry(tarfile.SYMTYPE, target="/etc/passwd"), "a link"),
        (a_tar_entry(tarfile.LNKTYPE, target="SKILL.md"), "a link"),
        (a_tar_entry(tarfile.CHRTYPE), "a device"),
        (a_tar_entry(tarfile.BLKTYPE), "a device"),
        (a_tar_entry(tarfile.FIFOTYPE), "a pipe"),
        (a_zip({"a": "x", "A": "y"}), "twice"),
        (a_tar({"a/b": "x", "a/./b": "y"}), "twice"),
        (b"", "no zip and no tar.gz"),
        (b"#!/bin/sh\n", "no zip and no tar.gz"),
        (a_zip(FILES)[:-30], "cannot be read"),
        (a_tar(FILES)[:60], "cannot be read"),
    ],
    # The bytes of an archive hold the time at which it was made: no name of a test that two processes agree on.
    ids=lambda value: value if isinstance(value, str) else "archive",
)
def test_links_devices_doubles_and_broken_archives_are_refused_with_the_reason(data: bytes, words: str) -> None:
    assert words in refusals(data)


def test_a_name_with_a_nul_is_not_cut_into_a_harmless_one() -> None:
    good = a_zip({"evil.txtZ.md": "x"})
    assert refusals(good) == ""
    assert "NUL" in refusals(good.replace(b"evil.txtZ.md", b"evil.txt\0.md"))


def test_an_encrypted_entry_is_refused() -> None:
    data = bytearray(a_zip({"a": "x"}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in refusals(bytes(data))


@pytest.mark.parametrize("pack", [a_zip, a_tar])
def test_a_bomb_is_refused_before_it_is_unpacked(pack: object) -> None:
    flat = pack({"SKILL.md": b"0" * (8 * 1024 * 1024)})  # type: ignore[operator] # one of two functions
    assert len(flat) < 20_000
    assert "a bomb" in refusals(flat)


def test_too_many_entries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_worker, "MAX_ENTRIES", 3)
    many: dict[str, Content] = {f"f{number}": "x" for number in range(4)}
    assert "more than 3 entries" in refusals(a_zip(many))
    assert "more than 3 entries" in refusals(a_tar(many))


def test_the_whole_may_not_be_larger_than_the_limit_even_in_small_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_worker, "MAX_BYTES", 1000)
    import random

    noise = random.Random(1).randbytes(400)
    small: dict[str, Content] = {f"f{number}": noise for number in range(3)}
    assert "more than 1000 bytes" in refusals(a_zip(small))
    assert "more than 1000 bytes" in refusals(a_tar(small))


def test_a_size_that_an_archive_claims_is_not_believed() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        entry = tarfile.TarInfo("x")
        entry.size = 10
        archive.addfile(entry, io.BytesIO(b"0123456789"))
    huge = bytearray(stream.getvalue()[:1024])
    huge[124:136] = b"77777777777\0"
    header = huge[:148] + b" " * 8 + huge[156:512]
    huge[148:156] = b"%06o\0 " % sum(header)
    assert "a bomb" in refusals(bytes(huge))
    truncated = bytearray(stream.getvalue()[:516])
    assert "cannot be read" in refusals(bytes(truncated))


def test_reading_leaves_nothing_on_the_disk_and_sees_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    assert inspect_archive(a_zip(FILES)).refusals == ()
    assert [item.name for item in tmp_path.iterdir()] == ["json.py"]


def test_an_archive_that_takes_too_long_is_refused() -> None:
    assert "could not be read within" in inspect_archive(a_zip(FILES), deadline_s=0.000001).refusals[0]


SEEDS = [a_zip(FILES), a_tar(FILES), a_tar(FILES, mode="w"), a_tar_entry(tarfile.SYMTYPE), a_zip_entry("../x")]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 255)), max_size=8),
    st.integers(0, 1500),
)
def test_no_bytes_make_the_reader_raise(seed: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(seed)
    for place, value in changes:
        data[place % len(data)] = value
    found = archive_worker.inspect(bytes(data[: max(1, len(data) - cut)] if cut % 3 == 0 else data))
    for path, *_ in found["files"]:
        assert not path.startswith("/")
        assert ".." not in path.split("/")
