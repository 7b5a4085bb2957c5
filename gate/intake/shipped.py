"""Skills on paths that are ignored by their names, which hosts load all the same.

``templates/a/SKILL.md`` is no live skill, until ``skills/a`` is a link to it or a plugin's manifest names it: then agents get
it like any other, and it is judged like any other. Links are read and never followed; manifests only where they lie.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Protocol

MANIFESTS = ("plugin.json", "marketplace.json")
MAX_BYTES = 1024 * 1024
MAX_TEXTS = 20_000
"""In one manifest."""


class Holdings(Protocol):
    """What is asked of a version."""

    def links(self) -> list[tuple[str, str]]:
        """(path, target as it is written) of every symbolic link."""

    def named(self, name: str) -> list[str]:
        """Every path with this file name, in any case."""

    def read(self, path: str) -> bytes | None:
        """Content of a plain file; None for anything else."""


def shipped(tree: Holdings, ignored: Collection[str], is_ignored: Callable[[str], bool]) -> frozenset[str]:
    """Those of the ``ignored`` folders that a link or a manifest, itself not on an ignored path, leads to."""
    if not ignored:
        return frozenset()
    around: dict[str, list[str]] = {}
    for folder in ignored:
        place = folder
        while place:
            around.setdefault(place, []).append(folder)
            place = posixpath.dirname(place)
    ways = ((path, _resolved(posixpath.dirname(path), target)) for path, target in tree.links())
    found = set()
    for seen, target in (*ways, *_named_by_manifests(tree, is_ignored)):
        for folder in around.get(target, ()):
            if not is_ignored(seen + folder[len(target) :]):
                found.add(folder)
    return frozenset(found)


def _named_by_manifests(tree: Holdings, is_ignored: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """(any path that is not ignored, a path that a manifest names, counted from each folder that hosts count from)."""
    for name in MANIFESTS:
        for path in tree.named(name):
            folder = posixpath.dirname(path)
            data = None if is_ignored(folder or ".") else tree.read(path)
            if data is None or len(data) > MAX_BYTES:
                continue
            bases = {folder, posixpath.dirname(folder), posixpath.dirname(posixpath.dirname(folder)), ""}
            for text in _texts(data):
                for base in bases:
                    yield "shipped", _resolved(base, text)


def _texts(data: bytes) -> Iterable[str]:
    try:
        waiting: list[Any] = [json.loads(data)]
    except (ValueError, RecursionError):
        return
    left = MAX_TEXTS
    while waiting and left:
        value = waiting.pop()
        left -= 1
        if isinstance(value, str) and len(value) <= 1000:
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _resolved(base: str, written: str) -> str:
    """A path from the root; empty where it leads out or to the root itself."""
    place = posixpath.normpath(posixpath.join(base, written.replace("\\", "/"))) if written.strip() else "."
    return "" if place == "." or place.startswith(("/", "../")) or place == ".." else place
