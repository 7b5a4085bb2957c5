"""Archives into and out of a sandbox. What comes out was made by whoever is judged: every member is looked at, none extracted."""

from __future__ import annotations

import hashlib
import io
import tarfile
import unicodedata
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING

from gate.domain.sandbox import Collected, CollectedBlob
from gate.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gate.domain.sandbox import PutFile

SENTINEL_FOLDER = ".skill-gate"
SENTINEL = f"{SENTINEL_FOLDER}/sentinel"

MAX_PATH_BYTES = 1024
MAX_COMPONENT_BYTES = 255
MAX_DEPTH = 64
MAX_MEMBERS = 50_000
MAX_REFUSALS = 200
_CHUNK = 65_536
_END_BYTES = 1024  # an archive ends with two empty blocks
_FIXED_MTIME = 946_684_800  # 2000-01-01T00:00:00Z: the same archive every time, and a year that zip files can hold


def check_relative(path: str) -> str | None:
    """What is wrong with a path that must stay below the folder it is relative to, or None."""
    data = path.encode("utf-8", "surrogateescape")
    if not path or path.startswith("/"):
        return "is not relative"
    if any(ord(c) < 32 or ord(c) == 127 for c in path):
        return "holds control characters"
    if any("\ud800" <= c <= "\udfff" for c in path):
        return "is not UTF-8"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "holds an empty, '.' or '..' part"
    if len(data) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_COMPONENT_BYTES for part in parts):
        return "is too long"
    if len(parts) > MAX_DEPTH:
        return "is nested too deeply"
    return None


def pack(files: Sequence[PutFile], *, owner: int, under: str = "", sentinel: bytes = b"") -> bytes:
    """A tar of ``files`` and their folders, owned by uid and gid ``owner``; the same input gives the same bytes.

    ``under`` is a folder that everything is put below. With a ``sentinel`` it is the first archive of ``/work``: the home
    folder, and the sentinel in a folder of root's, which tools cannot empty, stand before the files. Raises SandboxError
    for a path that leaves its folder, and for two files of one path.
    """
    paths = [f"{under}/{item.path}" if under else item.path for item in files]
    for item, path in zip(files, paths, strict=True):
        problem = check_relative(path)
        if problem:
            raise SandboxError(f"The file {item.path!r} cannot be put into the sandbox: its path {problem}.")
    folders = {str(parent) for path in [*paths, f"{under}/x"] for parent in PurePosixPath(path).parents} - {".", "/"}
    twice = (
        [path for path in paths if paths.count(path) > 1 or path in folders]
        if len(set(paths) - folders) < len(paths)
        else []
    )
    if twice:
        raise SandboxError(f"Two of the files to put into the sandbox have one path: {twice[0]!r}.")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        if sentinel:
            _add_home(tar, sentinel, owner)
        for folder in sorted(folders):
            tar.addfile(_member(folder, owner, 0o755, tarfile.DIRTYPE))
        for item, path in zip(files, paths, strict=True):
            info = _member(path, owner, 0o755 if item.executable else 0o644, tarfile.REGTYPE)
            info.size = len(item.data)
            tar.addfile(info, io.BytesIO(item.data))
    return buffer.getvalue()


def _add_home(tar: tarfile.TarFile, sentinel: bytes, owner: int) -> None:
    tar.addfile(_member("home", owner, 0o700, tarfile.DIRTYPE))
    tar.addfile(_member(SENTINEL_FOLDER, 0, 0o755, tarfile.DIRTYPE))
    info = _member(SENTINEL, 0, 0o444, tarfile.REGTYPE)
    info.size = len(sentinel)
    tar.addfile(info, io.BytesIO(sentinel))


def _member(path: str, owner: int, mode: int, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.mtime = kind, mode, _FIXED_MTIME
    info.uid = info.gid = owner
    return info


class _Pieces(io.RawIOBase):
    """A readable file over the pieces of a response; stops at ``limit`` bytes, and says so."""

    def __init__(self, pieces: Iterator[bytes], limit: int) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")
        self._limit = limit
        self.taken = 0
        self.over_limit = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type] # typeshed names the buffer protocol differently per release
        while not self._rest:
            if self.taken >= self._limit:
                self.over_limit = True
                return 0
            piece = next(self._pieces, b"")
            if not piece:
                return 0
            self.taken += len(piece)
            self._rest = memoryview(piece)
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


@dataclass
class _Collector:
    max_bytes: int
    max_files: int
    quota_bytes: int
    files: list[CollectedBlob] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unlisted: int = 0
    without_content: int = 0
    kept_bytes: int = 0
    kept_files: int = 0
    sentinel: bytes | None = None
    names: set[str] = field(default_factory=set)

    def refuse(self, sentence: str) -> None:
        if len(self.refused) < MAX_REFUSALS:
            self.refused.append(sentence)
        else:
            self.unlisted += 1

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo, root: str) -> None:
        path = member.name.removeprefix("./")
        if path == root and member.isdir():
            return
        path = path.removeprefix(f"{root}/")
        if path == SENTINEL and member.isreg():
            self.sentinel = _read(tar, member, limit=_CHUNK)[0]
            return
        if path == SENTINEL_FOLDER and member.isdir():
            return
        shown = repr(path[:200])
        problem = check_relative(path)
        if problem:
            self.refuse(f"The path {shown} {problem}.")
        elif member.issym() or member.islnk():
            kind = "symbolic link" if member.issym() else "hard link"
            self.refuse(f"{shown} is a {kind} to {member.linkname[:200]!r}; links are not followed.")
        elif member.isdir():
            pass
        elif not member.isreg() or member.issparse():
            self.refuse(f"{shown} is neither a file nor a folder.")
        elif member.size > self.quota_bytes:
            self.refuse(f"{shown} claims {member.size:,} bytes, more than the workspace can hold; it was not read.")
        elif (folded := unicodedata.normalize("NFC", path).casefold()) in self.names:
            self.refuse(f"{shown} has the same name as another file where upper and lower case are one.")
        else:
            self.names.add(folded)
            self._take_file(tar, member, path)

    def _take_file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        fits = self.kept_files < self.max_files and self.kept_bytes + member.size <= self.max_bytes
        data, digest, size = _read(tar, member, limit=member.size if fits else 0)
        if size != member.size:
            raise SandboxError(f"The archive of the workspace ended in the middle of {path!r}.")
        if fits:
            self.kept_files += 1
            self.kept_bytes += size
        else:
            self.without_content += 1
        blob = CollectedBlob(
            path=path, size_bytes=size, sha256=digest, data=data if fits else None, executable=bool(member.mode & 0o111)
        )
        self.files.append(blob)

    def result(self) -> Collected:
        if self.without_content:
            self.refuse(
                f"Recorded without their content: {self.without_content:,} files; at most {self.max_files:,} files and"
                f" {self.max_bytes:,} bytes are kept."
            )
        refused = list(self.refused)
        if self.unlisted:
            refused.append(f"{self.unlisted:,} more entries were refused.")
        return Collected(files=tuple(sorted(self.files, key=lambda item: item.path)), refused=tuple(refused))


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo, *, limit: int) -> tuple[bytes, str, int]:
    """(the first ``limit`` bytes, SHA-256 of all, number of all)."""
    source: IO[bytes] | None = tar.extractfile(member)
    if source is None:
        return b"", hashlib.sha256().hexdigest(), 0
    kept, digest, size = bytearray(), hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        kept += chunk[: max(0, limit - len(kept))]
    return bytes(kept), digest.hexdigest(), size


def collect_members(
    pieces: Iterator[bytes], *, root: str, max_bytes: int, max_files: int, quota_bytes: int
) -> tuple[Collected, bytes | None]:
    """Read the archive of a workspace whose members lie below ``root``: (what was taken, content of the sentinel or None).

    Regular files only. A file over a cap is recorded with size and SHA-256 but without content. A member that claims more
    than ``quota_bytes``, or a stream of more than that and a quarter, ends the reading (real data cannot be that long; holes
    in sparse files can), and ``refused`` says what was not seen. Raises SandboxError for an archive that is cut off.
    """
    source = _Pieces(pieces, limit=quota_bytes + quota_bytes // 4 + MAX_MEMBERS * 1024)
    collector = _Collector(max_bytes=max_bytes, max_files=max_files, quota_bytes=quota_bytes)
    last, end = "", 0
    try:
        with io.BufferedReader(source) as reader, tarfile.open(fileobj=reader, mode="r|", errorlevel=2) as tar:
            for count, member in enumerate(_members(tar)):
                if count >= MAX_MEMBERS:
                    collector.refuse(
                        f"There are more than {MAX_MEMBERS:,} entries; what follows {last!r} was not read."
                    )
                    return collector.result(), collector.sentinel
                collector.take(tar, member, root)
                last = member.name.removeprefix(f"{root}/")
                if member.isreg() and member.size > quota_bytes:
                    collector.refuse(f"What follows {last[:200]!r} was not read.")
                    return collector.result(), collector.sentinel
            end = tar.offset
            while reader.read(_CHUNK):
                pass
    except (tarfile.TarError, SandboxError, EOFError) as error:
        if not source.over_limit:
            raise SandboxError(f"The archive of the workspace cannot be read: {error}") from error
    if source.over_limit:
        collector.refuse(
            f"The workspace claims more bytes than it can hold (sparse files); what follows {last[:200]!r} was not read."
        )
    elif source.taken < end + _END_BYTES:
        # A stream that was cut between two members looks whole to a reader of members.
        raise SandboxError("The archive of the workspace was cut off before its end.")
    return collector.result(), collector.sentinel


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while member := tar.next():
        # A stream is read once; what has been dealt with need not be remembered.
        tar.members = []  # type: ignore[attr-defined] # typeshed does not list it
        yield member
