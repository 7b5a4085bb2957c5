"""Bundles of finished jobs in an object store, each checked on its way out."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator

from gate.errors import EvidenceError
from gate.protocols import Objects
from gate.service.bundles import END, Kept, is_key, name_of


class ObjectBundles:
    """A ``gate.service.bundles.BundleStore`` over any store of objects."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def put(self, key: str, content: Iterable[bytes]) -> Kept:
        """See ``BundleStore``."""
        facts = self._objects.put(name_of(key), content)
        return Kept(facts.sha256, facts.size)

    def get(self, key: str) -> Iterator[bytes]:
        """See ``BundleStore``. Raises EvidenceError after the last piece where it is not what was put there: whoever
        reads must take nothing for whole before the end."""
        facts, pieces = self._objects.get(name_of(key))

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
        self._objects.remove(name_of(key))

    def sweep(self, known: Collection[str]) -> list[str]:
        """Remove bundles that nobody knows of any more (a service was killed between two steps); returns their keys."""
        mine = [name.removesuffix(END) for name in self._objects.names() if name.endswith(END)]
        gone = sorted(key for key in mine if key not in known and is_key(key))
        for key in gone:
            self._objects.remove(name_of(key))
        return gone
