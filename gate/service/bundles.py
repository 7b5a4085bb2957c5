"""Where the bundles of finished jobs are: packed (``gate.evidence.pack``), under a key each.

On disk here. Another store keeps to ``BundleStore``, and ``Store.keep_bundle`` remembers key, digest and size.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

END = ".bundle"
_CHUNK = 1 << 20
_KEY = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


class Kept(NamedTuple):
    """What was put into the store."""

    sha256: str
    size: int


class BundleStore(Protocol):
    """Bytes by key. Thread-safe. Every method raises InfrastructureError where the store cannot be reached."""

    def put(self, key: str, content: Iterable[bytes]) -> Kept:
        """Keep the whole content, or nothing of it; what was there under this key is replaced."""

    def get(self, key: str) -> Iterator[bytes]:
        """The content in pieces. Raises LookupError before the first one where there is none."""

    def remove(self, key: str) -> None:
        """Nothing is there afterwards."""


def is_key(text: str) -> bool:
    """Whether a text can be the key of a bundle."""
    return _KEY.fullmatch(text) is not None


def name_of(key: str) -> str:
    """The name under which a store holds a bundle. Raises LookupError for what is no key."""
    if not is_key(key):
        raise LookupError(key)
    return f"{key}{END}"


class FolderBundles:
    """A BundleStore in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, content: Iterable[bytes]) -> Kept:
        """See ``BundleStore``."""
        self._folder.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        handle, name = tempfile.mkstemp(prefix=".", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                for piece in content:
                    file.write(piece)
                    digest.update(piece)
                    size += len(piece)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._place(key))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return Kept(digest.hexdigest(), size)

    def get(self, key: str) -> Iterator[bytes]:
        """See ``BundleStore``."""
        try:
            file = self._place(key).open("rb")
        except OSError:
            raise LookupError(key) from None

        def pieces() -> Iterator[bytes]:
            with file:
                while piece := file.read(_CHUNK):
                    yield piece

        return pieces()

    def remove(self, key: str) -> None:
        """See ``BundleStore``."""
        self._place(key).unlink(missing_ok=True)

    def _place(self, key: str) -> Path:
        return self._folder / name_of(key)
