"""The one interface that every reader of suites keeps: a document goes in, a Read comes out, problems become notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gate.domain.base import Json
from gate.domain.skill import Skill, SkillFile
from gate.domain.suite import Case, TriggerCase
from gate.intake.notes import Notes, joined
from gate.intake.yaml_text import Node, plain


class Read(NamedTuple):
    """What a dialect made of a file."""

    dialect: str
    cases: tuple[Case, ...]
    without_id: frozenset[str]
    """Ids that the file did not give."""
    triggers: tuple[TriggerCase, ...] = ()
    generated: bool = False
    """The file says that a program made it and that nobody has taken it over yet."""


@dataclass(frozen=True)
class Source:
    """A suite file that was parsed, with everything that it may refer to."""

    file: SkillFile
    skill: Skill
    """The skill; for a file outside its folder a copy whose ``path`` and ``files`` are those of the folder around the file."""
    notes: Notes
    root: Node
    """The document. A JSON text knows the lines of its outermost entries and of the items of outermost lists."""
    used: set[str] = field(default_factory=set)
    """Paths (relative to ``skill.path``) of further files that were read as a part of this one."""
    siblings: Mapping[str, Node] = field(default_factory=dict)
    """Every other document of the folder that could be parsed, by path: for formats that spread over files."""
    own: Skill | None = None
    """The skill itself, where ``skill`` is a folder elsewhere."""
    name: str = ""
    """Folder name of the skill that is judged."""

    @property
    def path(self) -> str:
        """Repository-relative path of the file."""
        return joined(self.skill.path, self.file.path)

    @property
    def value(self) -> Json:
        """The document as plain JSON."""
        return plain(self.root)

    def outer(self) -> frozenset[str]:
        """Keys of the outermost mapping; empty where it is none."""
        return frozenset(self.root.value) if self.root.is_map else frozenset()

    def first(self, key: str) -> frozenset[str]:
        """Keys of the first mapping in the list under a key (of the outermost list where the key is empty)."""
        found = self.root if not key else (self.root.value.get(key) if self.root.is_map else None)
        if found is None or not found.is_list:
            return frozenset()
        return next((frozenset(item.value) for item in found.value if item.is_map), frozenset())


class Dialect(NamedTuple):
    """A format. The first whose ``claims`` is true reads the file."""

    name: str
    claims: Callable[[Source], bool]
    """By the shape of the document (and, where shapes are poor, the file's name). Never raises."""
    read: Callable[[Source], Read]
    """Every case that can be run; everything that is wrong becomes a finding in ``source.notes``. Never raises."""
