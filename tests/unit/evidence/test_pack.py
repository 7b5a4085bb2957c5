from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate.domain.base import digest_of, pretty_json, sha256_hex
from gate.errors import EvidenceError
from gate.evidence.pack import MAGIC, digest_in, digest_of_stream, pack, read_one, unpack
from gate.evidence.seal import check_bundle, seal_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    root = tmp_path / "bundle"
    (root / "skills/a b").mkdir(parents=True)
    (root / "report.json").write_bytes(b"{}\n")
    (root / "skills/a b/é.txt").write_bytes(b"\r\n" * 700_000)
    (root / "empty").write_bytes(b"")
    seal_bundle(root, {})
    return root


def _packed(manifest: dict[str, Any], content: bytes) -> bytes:
    raw = pretty_json({**manifest, "digest": digest_of(manifest)})
    return MAGIC + len(raw).to_bytes(8, "big") + raw + content


def _listing(path: object, content: bytes = b"x", **changes: Any) -> dict[str, Any]:
    entry = {"path": path, "size_bytes": len(content), "sha256": sha256_hex(content), **changes}
    return {"schema_version": 1, "files": [entry], "chains": {}, "facts": {}}


def test_what_is_unpacked_is_the_bundle_byte_for_byte(bundle: Path, tmp_path: Path) -> None:
    digest = unpack(pack(bundle), tmp_path / "other")
    assert digest == digest_in(bundle)
    assert check_bundle(tmp_path / "other") == []
    assert (tmp_path / "other/skills/a b/é.txt").read_bytes() == b"\r\n" * 700_000


def test_pieces_of_any_length_are_the_same_stream(bundle: Path, tmp_path: Path) -> None:
    (bundle / "skills/a b/é.txt").unlink()
    (bundle / "manifest.json").unlink()
    seal_bundle(bundle, {})

    def crumbs() -> Iterator[bytes]:
        for byte in b"".join(pack(bundle)):
            yield b""
            yield bytes([byte])

    assert unpack(crumbs(), tmp_path / "other") == digest_in(bundle)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "", ".", "a//b", "a\0b", "manifest.json", 7, None])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, path: object) -> None:
    with pytest.raises(EvidenceError):
        unpack([_packed(_listing(path), b"x")], tmp_path / "in/other")
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "in/x").exists()


def test_every_change_on_the_way_is_seen(bundle: Path, tmp_path: Path) -> None:
    (bundle / "skills/a b/é.txt").unlink()
    (bundle / "manifest.json").unlink()
    seal_bundle(bundle, {})
    whole = b"".join(pack(bundle))
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        with pytest.raises(EvidenceError):
            unpack([changed], tmp_path / f"other-{at}")
    for cut in range(len(whole)):
        with pytest.raises(EvidenceError):
            unpack([whole[:cut]], tmp_path / f"cut-{cut}")
    with pytest.raises(EvidenceError, match="goes on"):
        unpack([whole, b"x"], tmp_path / "longer")


def test_more_than_is_allowed_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="more than 5 bytes"):
        unpack([_packed(_listing("x", b"123456"), b"123456")], tmp_path / "other", max_bytes=5)
    with pytest.raises(EvidenceError, match="manifest is said"):
        unpack([MAGIC + b"\x7f" * 8], tmp_path / "huge")
    with pytest.raises(EvidenceError, match="damaged list"):
        unpack([_packed(_listing("x", size_bytes=-1), b"")], tmp_path / "negative")


def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    entry = _listing("x")
    entry["files"] *= 2
    with pytest.raises((EvidenceError, Exception)) as error:
        unpack([_packed(entry, b"xx")], tmp_path / "other")
    assert "written" in str(error.value)


def test_only_an_empty_folder_is_filled(bundle: Path) -> None:
    with pytest.raises(EvidenceError, match="not empty"):
        unpack(pack(bundle), bundle)


def test_a_bundle_that_lacks_what_it_lists_is_not_sent_whole(bundle: Path) -> None:
    (bundle / "report.json").write_bytes(b"{")
    with pytest.raises(EvidenceError, match="shorter"):
        list(pack(bundle))
    (bundle / "report.json").unlink()
    with pytest.raises(EvidenceError, match="cannot be read"):
        list(pack(bundle))
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["digest"] == digest_in(bundle)


def test_one_file_is_read_without_what_comes_after_it(bundle: Path) -> None:
    taken = 0

    def counted() -> Iterator[bytes]:
        nonlocal taken
        for piece in pack(bundle):
            taken += len(piece)
            yield piece

    assert digest_of_stream(counted()) == digest_in(bundle)
    assert taken < 10_000
    assert read_one(counted(), "report.json", max_bytes=100) == b"{}\n"
    assert taken < 20_000
    for name, most in (("nothing.json", 100), ("skills/a b/é.txt", 100), ("manifest.json", 10**9)):
        with pytest.raises(LookupError):
            read_one(pack(bundle), name, max_bytes=most)
    (bundle / "report.json").write_bytes(b"[]\n")
    with pytest.raises(EvidenceError, match="not what the bundle"):
        read_one(pack(bundle), "report.json", max_bytes=100)
    for stream in ([], [b"x" * 100], [MAGIC + bytes(7) + b"\x02[]"]):
        with pytest.raises(EvidenceError):
            digest_of_stream(stream)


@pytest.mark.parametrize("entry", [{"path": "\ud800"}, {"path": "a", "size_bytes": float("nan")}])
def test_a_manifest_with_values_that_none_of_ours_has_is_damaged(tmp_path: Path, entry: dict[str, object]) -> None:
    listed = {"path": "a", "size_bytes": 0, "sha256": sha256_hex(b""), **entry}
    raw = json.dumps({"files": [listed], "digest": "0" * 64}).encode()
    with pytest.raises(EvidenceError):
        unpack([MAGIC + len(raw).to_bytes(8, "big") + raw], tmp_path / "into")
