"""Paths and writes inside a bundle: nothing leaves its folder, and no file is ever seen half written."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from gate.domain.base import sha256_hex
from gate.errors import EvidenceError, InfrastructureError

_PLAIN = frozenset("!#$&'()+,-.;=@[]^_`{}~ ")
_LONGEST_PART = 150
_LONGEST_PATH = 600
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.\d+\.\d+\.tmp")
_counter = itertools.count()


def inside(root: Path, relative: str) -> Path:
    """The path of a bundle file by its bundle-relative name (forward slashes).

    Raises EvidenceError for a name that leaves the bundle, is absolute or empty, or that passes through a link.
    """
    parts = relative.split("/")
    if not relative or "\0" in relative or any(part in ("", ".", "..") for part in parts):
        raise EvidenceError(f"{relative!r} is no path inside a bundle.", path=relative)
    path = root
    for part in parts:
        path /= part
        if path.is_symlink():
            raise EvidenceError(f"{relative} passes through a link, which a bundle must not hold.", path=relative)
    return path


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, making its folders. Raises InfrastructureError where the disk refuses."""
    temporary = path.with_name(f".{sha256_hex(os.fsencode(path.name))[:16]}.{os.getpid()}.{next(_counter)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InfrastructureError(
            f"{path.name} could not be written: {error.strerror}.",
            remedy="Free disk space or choose another output folder.",
        ) from error


def is_unfinished(name: str) -> bool:
    """Whether a file name is one that ``write_atomic`` uses until a file is whole."""
    return _UNFINISHED.fullmatch(name) is not None


def stored_name(path: str) -> str | None:
    """Where a collected file is kept below ``workspace/``; None for a path that is none (``..``, absolute, empty part).

    An agent may name its files as it likes; artifact stores and other systems refuse many names. Letters and digits of
    every script and plain punctuation stay; anything else (and a dot or space at the end of a part) becomes ``%XX`` by
    UTF-8 byte; what is too long becomes its start and its SHA-256. Different paths get different names.
    """
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts):
        return None
    stored = "/".join(_stored_part(part) for part in parts)
    if len(stored.encode()) > _LONGEST_PATH:
        return f"%long/{sha256_hex(path.encode('utf-8', 'surrogatepass'))}"
    return stored


def _stored_part(part: str) -> str:
    last = len(part) - 1
    stored = "".join(
        char if (char.isalnum() or char in _PLAIN) and not (index == last and char in ". ") else _percent(char)
        for index, char in enumerate(part)
    )
    if len(stored.encode()) <= _LONGEST_PART:
        return stored
    return f"{stored[:20]}%~{sha256_hex(part.encode('utf-8', 'surrogatepass'))}"


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
