"""A bundle as one stream of bytes, and back. No archive format: the manifest says what follows, byte for byte.

Layout: the magic line, the manifest's length as eight bytes (big-endian), the manifest, then the content of every file in
the manifest's order. Names, sizes and digests are those that the manifest's own digest covers, so nothing that is not
sealed is ever interpreted: there are no links, modes, devices, owners or compressed entries that could be more than they say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gate.domain.base import digest_of
from gate.errors import EvidenceError, InfrastructureError
from gate.evidence.files import inside
from gate.evidence.seal import MANIFEST

MAGIC = b"skill-gate bundle 1\n"
MEDIA_TYPE = "application/vnd.skill-gate.bundle"
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MAX_BYTES = 2 * 1024 * 1024 * 1024
"""Of all files together. A session keeps at most 500 MB of what agents make (DESIGN.md 4); the records come on top."""
MAX_FILES = 500_000
_CHUNK = 1 << 20


def pack(root: Path) -> Iterator[bytes]:
    """A sealed bundle as a stream. Raises EvidenceError where there is no manifest or a file is not there."""
    manifest = _bytes_of(root, MANIFEST)
    yield MAGIC + len(manifest).to_bytes(8, "big") + manifest
    for path, size, _ in _files(_parsed(manifest)):
        try:
            with inside(root, path).open("rb") as file:
                left = size
                while left and (data := file.read(min(left, _CHUNK))):
                    left -= len(data)
                    yield data
        except OSError as error:
            raise EvidenceError(f"{path!r} cannot be read: {error.strerror}.", path=path) from None
        if left:
            raise EvidenceError(f"{path!r} is shorter than it was sealed.", path=path)


def unpack(stream: Iterable[bytes], into: Path, *, max_bytes: int = MAX_BYTES) -> str:
    """Write a packed bundle into a folder that is empty or not there; returns the manifest's digest.

    Every file is checked against the manifest while it is written, the manifest against its own digest; that it is by
    somebody who is trusted is for the caller to check. Raises EvidenceError for a stream that is no bundle, is damaged,
    ends early, goes on, or holds more than ``max_bytes``; InfrastructureError where the disk refuses.
    """
    if into.exists() and any(into.iterdir()):
        raise EvidenceError(f"{into.name} is not empty; a bundle is put into a folder of its own.", path=into.name)
    source = _Source(stream)
    raw = _manifest(source)
    manifest = _parsed(raw)
    digest = manifest.pop("digest", None)
    if not isinstance(digest, str) or digest != _digest_of(manifest):
        raise EvidenceError("The bundle's manifest was changed: its own digest is another.", path=MANIFEST)
    files = _files(manifest)
    if sum(size for _, size, _ in files) > max_bytes:
        raise EvidenceError(f"The bundle holds more than {max_bytes} bytes.")
    try:
        into.mkdir(parents=True, exist_ok=True)
        for path, size, sha256 in files:
            _write(source, inside(into, path), path, size, sha256)
        (into / MANIFEST).write_bytes(raw)
    except OSError as error:
        raise InfrastructureError(
            f"The bundle could not be written: {error.strerror or error}.", remedy="Free disk space."
        ) from None
    if source.more():
        raise EvidenceError("What came goes on after the bundle's end.")
    return digest


def _digest_of(manifest: dict[str, Any]) -> str:
    """Empty for values that no manifest of ours has: half a character, a number that is none."""
    try:
        return digest_of(manifest)
    except (ValueError, RecursionError):
        return ""


def digest_of_stream(stream: Iterable[bytes]) -> str:
    """The digest that a packed bundle's manifest carries; nothing else is read. Raises EvidenceError."""
    found = _parsed(_manifest(_Source(stream))).get("digest")
    if not isinstance(found, str):
        raise EvidenceError(f"{MANIFEST} carries no digest.", path=MANIFEST)
    return found


def read_one(stream: Iterable[bytes], name: str, *, max_bytes: int) -> bytes:
    """One file of a packed bundle; what comes after it is not read. Raises LookupError where it is not in there or is
    larger than ``max_bytes``, EvidenceError where it is not what the manifest says."""
    source = _Source(stream)
    for path, size, sha256 in _files(_parsed(_manifest(source))):
        if path != name:
            for _ in source.pieces(size):
                pass
            continue
        if size > max_bytes:
            break
        data = source.exactly(size)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise EvidenceError(f"{path!r} is not what the bundle's manifest says.", path=path)
        return data
    raise LookupError(name)


def _write(source: _Source, place: Path, path: str, size: int, sha256: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    with place.open("xb") as file:
        for data in source.pieces(size):
            found.update(data)
            file.write(data)
    if found.hexdigest() != sha256:
        raise EvidenceError(f"{path!r} is not what the bundle's manifest says.", path=path)


def digest_in(root: Path) -> str:
    """The digest that a bundle's manifest carries. Raises EvidenceError."""
    found = _parsed(_bytes_of(root, MANIFEST)).get("digest")
    if not isinstance(found, str):
        raise EvidenceError(f"{MANIFEST} carries no digest.", path=MANIFEST)
    return found


def _manifest(source: _Source) -> bytes:
    """What every packed bundle begins with."""
    if source.exactly(len(MAGIC)) != MAGIC:
        raise EvidenceError("What came is no bundle.")
    length = int.from_bytes(source.exactly(8), "big")
    if length > MAX_MANIFEST_BYTES:
        raise EvidenceError(f"The bundle's manifest is said to have {length} bytes.", path=MANIFEST)
    return source.exactly(length)


def _bytes_of(root: Path, name: str) -> bytes:
    try:
        return inside(root, name).read_bytes()
    except OSError as error:
        raise EvidenceError(f"{name} cannot be read: {error.strerror}.", path=name) from None


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise EvidenceError("The bundle's manifest is no JSON object.", path=MANIFEST)
    return value


def _files(manifest: dict[str, Any]) -> list[tuple[str, int, str]]:
    """(path, size, SHA-256), in order. Raises EvidenceError for a list that is none."""
    listed = manifest.get("files")
    wrong = EvidenceError("The bundle's manifest has a damaged list of files.", path=MANIFEST)
    if not isinstance(listed, list) or len(listed) > MAX_FILES:
        raise wrong
    found = []
    for entry in listed:
        if not isinstance(entry, dict) or set(entry) != {"path", "size_bytes", "sha256"}:
            raise wrong
        path, size, sha256 = entry["path"], entry["size_bytes"], entry["sha256"]
        sized = isinstance(size, int) and not isinstance(size, bool) and size >= 0
        if not isinstance(path, str) or path == MANIFEST or not sized or not isinstance(sha256, str):
            raise wrong
        found.append((path, size, sha256))
    return found


class _Source:
    """A stream of pieces of any length, read to measure."""

    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = iter(stream)
        self._held = b""

    def pieces(self, size: int) -> Iterator[bytes]:
        """Exactly ``size`` bytes. Raises EvidenceError where the stream ends before."""
        while size:
            if not self._held:
                self._held = next(self._stream, b"") or self._next()
            data, self._held = self._held[:size], self._held[size:]
            size -= len(data)
            yield data

    def exactly(self, size: int) -> bytes:
        """So many bytes, in one."""
        return b"".join(self.pieces(size))

    def more(self) -> bool:
        """Whether anything is left."""
        return bool(self._held) or any(self._stream)

    def _next(self) -> bytes:
        for data in self._stream:
            if data:
                return data
        raise EvidenceError("The bundle ends before its end.")
