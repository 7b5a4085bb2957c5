"""A child process that reads one archive: what is in it, or why it must not be unpacked.

Run as a script, it imports nothing of the gate, reads the archive from standard input and answers with one JSON line:
``{"kind": …, "files": [[path, size, sha256, executable], …], "refusals": [words, …]}``. Nothing is ever written.
Limits (entries, bytes, ratio) hold while reading: what an archive says about itself is not believed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import posixpath
import re
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

MAX_ENTRIES = 10_000
MAX_BYTES = 100 * 1024 * 1024
"""Unpacked, all together (cases A4: no real skill has more than 48 MB)."""
MAX_RATIO = 200
"""Unpacked to packed, of one entry above ``RATIO_FROM``."""
RATIO_FROM = 1024 * 1024
MAX_REFUSALS = 10
_CHUNK = 64 * 1024
_DRIVE = re.compile(r"[A-Za-z]:")
_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    NotImplementedError, RuntimeError, OverflowError, struct.error, MemoryError, RecursionError, AttributeError, KeyError,
    TypeError, IndexError,
)  # fmt: skip
"""What the standard library raises for archives that are no archives."""


class RefusedError(Exception):
    """Reading stops here."""


def inspect(data: bytes) -> dict[str, Any]:
    """What is in an archive. Never raises for any bytes."""
    reader = _Reader()
    kind = kind_of(data)
    try:
        if kind == "zip":
            reader.zip(data)
        elif kind == "tar.gz":
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                reader.tar(_Capped(stream.read, len(data)))
        elif kind == "tar":
            reader.tar(_Capped(io.BytesIO(data).read, len(data)))
        else:
            reader.refuse("it is no zip and no tar.gz")
    except RefusedError as error:
        reader.refuse(str(error))
    except _BROKEN as error:
        reader.refuse(f"it cannot be read: {' '.join(str(error).split())[:120] or type(error).__name__}")
    files = [] if reader.refusals else sorted(reader.files)
    return {"kind": kind, "files": files, "refusals": reader.refusals[:MAX_REFUSALS]}


def kind_of(data: bytes) -> str:
    """``zip``, ``tar.gz``, ``tar`` or nothing, by content."""
    if data[:4] in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"):
        return "zip"
    if data[:2] == b"\x1f\x8b":
        return "tar.gz"
    return "tar" if data[257:262] == b"ustar" else ""


class _Capped:
    """A stream that refuses to give more than the limits."""

    def __init__(self, read: Callable[[int], bytes], packed: int) -> None:
        self._read = read
        self._packed = packed
        self._given = 0

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes. Raises RefusedError over a limit."""
        # A tar may claim a header of any size: no more than what is allowed at all is asked for.
        data = self._read(min(size, MAX_BYTES + 1) if size >= 0 else MAX_BYTES + 1)
        self._given += len(data)
        check_size(self._given, self._packed)
        return data


def check_size(given: int, packed: int) -> None:
    """Raises RefusedError for what unpacks to too much."""
    if given > MAX_BYTES:
        raise RefusedError(f"it unpacks to more than {MAX_BYTES} bytes (a bomb)")
    if given > RATIO_FROM and given > MAX_RATIO * max(packed, 1):
        raise RefusedError(f"it unpacks to more than {MAX_RATIO} times its size (a bomb)")


class _Reader:
    def __init__(self) -> None:
        self.files: list[tuple[str, int, str, bool]] = []
        self.refusals: list[str] = []
        self._seen: set[str] = set()

    def refuse(self, words: str) -> None:
        """One reason; reading goes on, so that the others are found too."""
        if words not in self.refusals:
            self.refusals.append(words)

    def name(self, raw: str) -> str | None:
        """A safe path in the archive; None where there is none (then it is refused)."""
        shown = raw.encode("utf-8", "backslashreplace").decode()[:120]
        if not raw or "\0" in raw:
            self.refuse("an entry has no name")
        elif raw.startswith("/") or _DRIVE.match(raw):
            self.refuse(f'"{shown}" is an absolute path')
        elif "\\" in raw:
            self.refuse(f'"{shown}" has a backslash, which some systems take for a folder')
        elif ".." in raw.split("/"):
            self.refuse(f'"{shown}" leads out of the folder it is unpacked in')
        else:
            clean = posixpath.normpath(raw)
            if clean.casefold() in self._seen:
                self.refuse(f'"{shown}" is there twice, or differs from another entry by upper and lower case only')
            self._seen.add(clean.casefold())
            return clean
        return None

    def zip(self, data: bytes) -> None:
        """All entries of a zip."""
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise RefusedError(f"it has more than {MAX_ENTRIES} entries")
            total = 0
            for entry in entries:
                mode = entry.external_attr >> 16
                # zipfile cuts a name at a NUL; what was written counts.
                if entry.orig_filename != entry.filename and "\0" in entry.orig_filename:
                    self.refuse("an entry has a NUL in its name")
                    continue
                path = self.name(entry.orig_filename.rstrip("/") if entry.is_dir() else entry.orig_filename)
                kind = stat.S_IFMT(mode)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    self.refuse(f'"{path or entry.filename[:120]}" is {_what(kind)}')
                    continue
                if entry.flag_bits & 0x1:
                    self.refuse(f'"{path or entry.filename[:120]}" is encrypted')
                    continue
                if path is None or entry.is_dir():
                    continue
                with archive.open(entry) as stream:
                    size, digest = self._digest(stream, total, entry.compress_size)
                total += size
                self.files.append((path, size, digest, bool(mode & stat.S_IXUSR)))

    def tar(self, capped: _Capped) -> None:
        """All entries of a tar, read once from front to back."""
        with tarfile.open(fileobj=capped, mode="r|") as archive:  # type: ignore[call-overload] # it has read(), which is all that is used
            count = 0
            for entry in archive:
                count += 1
                if count > MAX_ENTRIES:
                    raise RefusedError(f"it has more than {MAX_ENTRIES} entries")
                if entry.name in (".", "./", "") and entry.isdir():
                    continue
                path = self.name(entry.name.rstrip("/") if entry.isdir() else entry.name)
                if entry.issym() or entry.islnk():
                    self.refuse(f'"{path or entry.name[:120]}" is a link')
                elif entry.isdir():
                    continue
                elif not entry.isreg() or entry.issparse():
                    self.refuse(f'"{path or entry.name[:120]}" is a device, a pipe or a sparse file')
                elif entry.size > MAX_BYTES:
                    raise RefusedError(f"it unpacks to more than {MAX_BYTES} bytes (a bomb)")
                elif path is not None:
                    stream = archive.extractfile(entry)
                    if stream is None:
                        self.refuse(f'"{path}" has no content')
                        continue
                    size, digest = self._digest(stream, 0, MAX_BYTES)
                    if size != entry.size:
                        raise RefusedError(f'"{path}" ends before its end')
                    self.files.append((path, size, digest, bool(entry.mode & stat.S_IXUSR)))

    def _digest(self, stream: IO[bytes], before: int, packed: int) -> tuple[int, str]:
        whole = hashlib.sha256()
        size = 0
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            whole.update(chunk)
            check_size(size, packed)
            check_size(before + size, before + size)
        return size, whole.hexdigest()


def _what(kind: int) -> str:
    return "a link" if kind == stat.S_IFLNK else "a device, a pipe or a socket"


def serve() -> None:
    """Answer about what is on standard input."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # the parent's clock still ends it
    sys.stdout.write(json.dumps(inspect(sys.stdin.buffer.read())))


if __name__ == "__main__":
    serve()
