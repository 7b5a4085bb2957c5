"""One version's files as manifests see them: what is there, what is a folder, and JSON documents read once."""

from __future__ import annotations

import bisect
import functools
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gate.domain.base import Json
from gate.domain.findings import Finding, Level
from gate.domain.manifest import ManifestScope, ManifestState, ManifestStatus
from gate.domain.skill import SkillFile
from gate.intake.json_text import Lines, decoded, parse_json
from gate.intake.notes import Notes, joined, shown
from gate.settings import SigningTrust

Read = Callable[[str], bytes | None]
MAX_MANIFEST_BYTES = 8 * 1024 * 1024
"""A marketplace with 1,500 entries has under 1 MB."""


_LINK_TEXT = re.compile(r"[\w./@ -]*/[\w./@ -]+\s?")


class Document(NamedTuple):
    """A JSON manifest. ``value`` and ``lines`` mean nothing where there are findings."""

    value: Json
    lines: dict[str, int]
    findings: tuple[Finding, ...]
    text: str = ""


class Checked(NamedTuple):
    """What one kind has to say about one skill."""

    statuses: tuple[ManifestStatus, ...] = ()
    findings: tuple[Finding, ...] = ()


def together(results: Iterable[Checked]) -> Checked:
    """Several results as one."""
    every = list(results)
    return Checked(
        tuple(item for one in every for item in one.statuses), tuple(item for one in every for item in one.findings)
    )


class Index:
    """The files of one version, for many skills."""

    def __init__(self, paths: Collection[str], read: Read) -> None:
        self.paths = paths
        self.read = read
        self._documents: dict[tuple[str, str], Document] = {}
        self.memory: dict[Any, Any] = {}
        """What a kind has found out about a whole manifest and needs for each skill in it."""

    @functools.cached_property
    def _sorted(self) -> list[str]:
        """Made when a manifest first names a folder: most versions of most trees have none, and 100,000 paths."""
        return sorted(self.paths)

    def has_file(self, path: str) -> bool:
        """Whether there is an entry (a link too) at a path."""
        return path in self.paths

    def has_folder(self, path: str) -> bool:
        """Whether anything lies below a path."""
        if path in ("", "."):
            return True
        at = bisect.bisect_left(self._sorted, f"{path}/")
        return at < len(self._sorted) and self._sorted[at].startswith(f"{path}/")

    def exists(self, path: str) -> bool:
        """A file or a folder."""
        return self.has_file(path) or self.has_folder(path)

    def below(self, folder: str) -> Iterator[str]:
        """Every entry below a folder."""
        start = "" if folder in ("", ".") else f"{folder}/"
        at = bisect.bisect_left(self._sorted, start)
        while at < len(self._sorted) and self._sorted[at].startswith(start):
            yield self._sorted[at]
            at += 1

    def nearest(self, skill_path: str, *places: str) -> tuple[str, str] | None:
        """(folder, place) of the nearest manifest around a skill, its own folder first; None: there is none."""
        for folder in ancestors(skill_path):
            for place in places:
                if joined(folder, place) in self.paths:
                    return folder, place
        return None

    def document(self, path: str, family: str) -> Document:
        """A JSON object, read once. Its findings: ``link``, ``size``, ``json`` or ``no-object`` of the family."""
        key = (path, family)
        if key not in self._documents:
            self._documents[key] = self._read_document(path, family)
        return self._documents[key]

    def _read_document(self, path: str, family: str) -> Document:
        notes = Notes(path, family)
        data = self.read(path)
        if data is None:
            notes.add(Level.ERROR, "link", "this is a link; links are never followed", remedy="Commit a plain file.")
            return Document(None, {}, notes.all())
        if len(data) > MAX_MANIFEST_BYTES:
            notes.add(Level.ERROR, "size", f"this has {len(data)} bytes; at most {MAX_MANIFEST_BYTES} are read")
            return Document(None, {}, notes.all())
        text, problem = decoded(data)
        parsed = parse_json(text) if problem is None else None
        for item in (problem,) if problem else parsed.problems if parsed else ():
            message, remedy = item.message, item.remedy or "Write it again, or remove it."
            if _LINK_TEXT.fullmatch(text):
                message = "this holds a path and no JSON: a link that was committed or checked out as text"
                remedy = "Commit the file that the path leads to."
            notes.add(Level.ERROR, "json", message, line=item.line, column=item.column, remedy=remedy)
        if notes.items or parsed is None:
            return Document(None, {}, notes.all(), text)
        if not isinstance(parsed.value, dict):
            notes.add(
                Level.ERROR, "no-object", "an object was expected", line=1, remedy="Write it again, or remove it."
            )
            return Document(None, {}, notes.all(), text)
        return Document(parsed.value, Lines(text).of_keys(), (), text)


@dataclass(frozen=True)
class Ground:
    """What every kind is given: the version's files, the skill, and what may be trusted."""

    index: Index
    skill_path: str
    """As the tree spells it."""
    files: tuple[SkillFile, ...] | None
    """The skill's own files with their contents; None: not known, then no digest can be compared."""
    committed: bool
    """True for Git blobs. In a folder on disk line ends may be a checkout's."""
    trust: SigningTrust
    require_signed: bool = False


def ancestors(folder: str) -> Iterator[str]:
    """A folder and everything around it, up to ``.``."""
    while True:
        yield folder
        if folder == ".":
            return
        folder = posixpath.dirname(folder) or "."


def status(
    kind: str,
    path: str,
    state: ManifestState,
    *,
    scope: ManifestScope = ManifestScope.FORM,
    reason: str = "",
    files: int = 0,
) -> ManifestStatus:
    """A status with a path that can be stored."""
    return ManifestStatus(kind=kind, path=shown(path), state=state, scope=scope, reason=reason, files=files)


def by_form(kind: str, path: str, findings: tuple[Finding, ...]) -> Checked:
    """A manifest that has nothing but its form: failed with an error, else verified."""
    wrong = [item for item in findings if item.level is Level.ERROR]
    state = ManifestState.FAILED if wrong else ManifestState.VERIFIED
    return Checked((status(kind, path, state, reason=wrong[0].message if wrong else ""),), findings)


def text_of(value: Mapping[str, Json], key: str) -> str | None:
    """A text under a key; None for anything else."""
    found = value.get(key)
    return found if isinstance(found, str) else None
