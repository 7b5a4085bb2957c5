"""Bundles of finished jobs in an object store, each checked on its way out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator

from gate.errors import EvidenceError
from gate.protocols import Objects
from gate.service.bundles import Kept

_KEY = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_END = ".bundle"


class ObjectBundles:
    """A ``gate.service.bundles.BundleStore`` over any store of objects."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def put(self, key: str, content: Iterable[bytes]) -> Kept:
        """See ``BundleStore``."""
        facts = self._objects.put(_name(key), content)
        return Kept(facts.sha256, facts.size)

    def get(self, key: str) -> Iterator[bytes]:
        """See ``BundleStore``. Raises EvidenceError after the last piece where it is not what was put there: whoever
        reads must take nothing for whole before the end."""
        facts, pieces = self._objects.get(_name(key))

        def checked() -> Iterator[bytes]:
            digest = hashlib.sha256()
            for piece in pieces:
                digest.update(piece)
                yield piece
            if digest.hexdigest() != facts.sha256:
                raise EvidenceError("The bundle in the object store is not what was put there.", path=key)

        return checked()

    def remove(self, key: str) -> None:
        """See ``BundleStore``."""
        self._objects.remove(_name(key))

    def sweep(self, known: Collection[str]) -> list[str]:
        """Remove bundles that nobody knows of any more (a service was killed between two steps); returns their keys."""
        mine = [name.removesuffix(_END) for name in self._objects.names() if name.endswith(_END)]
        gone = sorted(key for key in mine if key not in known and _KEY.fullmatch(key))
        for key in gone:
            self._objects.remove(_name(key))
        return gone


def _name(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise LookupError(key)
    return f"{key}{_END}"
