"""From two commits to the skills that changed between them (cases/README.md A5, B 33, B 35).

A skill is a folder with a SKILL.md, in any spelling of case; its identity is its path. A SKILL.md below another skill
belongs to the outer skill. Any file in a skill folder changes the skill.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gate.domain.findings import Finding, Level
from gate.domain.skill import (
    JUDGING_FOLDERS,
    SUBMODULE,
    SYMLINK,
    ChangeKind,
    SkillChange,
    is_agent_visible,
)
from gate.intake.notes import Notes, joined, short, shown
from gate.intake.skill import is_skill_md, name_of
from gate.intake.sources import CommitTree
from gate.intake.suite import is_suite_file
from gate.protocols import Repository

RENAME_SHARE = 0.5
"""Equal blobs that make a moved folder the same skill (DESIGN.md 3)."""

_NOT_LIVE = {
    "backup", "backups", "template", "templates", "test", "tests", "testdata", "__tests__", "fixture", "fixtures",
    "__fixtures__", "node_modules",
}  # fmt: skip
_LANGUAGE = re.compile(
    r"(ar|bn|cs|da|de|el|es|fa|fi|fr|he|hi|hu|id|it|ja|ko|ms|nb|nl|no|pl|pt|ro|ru|sv|ta|th|tr|uk|vi|zh)([-_]\w+)?",
    re.IGNORECASE,
)
_PASSIVE = re.compile(r"(licen[cs]e|copying|notice|readme)([-._].*)?", re.IGNORECASE)
_CONTAINER = "skills"
"""Below a folder of this name a SKILL.md is a skill of its own, also where the repository's root is one too."""
_LISTED = 10


class Folders(NamedTuple):
    """The SKILL.md folders of one tree."""

    live: frozenset[str]
    nested: Mapping[str, str]
    """Folder -> the outer skill that it belongs to."""
    ignored: frozenset[str]


class Changes(NamedTuple):
    """What a change does to skills."""

    skills: tuple[SkillChange, ...]
    """Sorted by path."""
    findings: tuple[Finding, ...]
    head: Folders
    raw: Mapping[str, str]
    """Path as it is shown -> path as Git has it, where they differ (names that are no UTF-8)."""
    hidden: Mapping[str, str]
    """Deleted skill -> the sentence that says where it went, where it still is in the tree but is no live skill."""


def find_folders(paths: Iterable[str], ignore: Sequence[str] = ()) -> Folders:
    """Skill folders of a tree, outer ones first. ``ignore``: glob patterns, see ``is_ignored``."""
    candidates = {posixpath.dirname(path) or "." for path in _only_skill_mds(paths)}
    live: set[str] = set()
    nested: dict[str, str] = {}
    ignored: set[str] = set()
    for folder in sorted(candidates, key=lambda item: (item != ".", item.count("/"), item)):
        outer = owner_of(joined(posixpath.dirname(folder) or ".", "x"), live) if folder != "." else None
        if outer is not None and not (outer == "." and _CONTAINER in folder.split("/")[:-1]):
            nested[folder] = outer
        elif is_ignored(folder, ignore):
            ignored.add(folder)
        else:
            live.add(folder)
    return Folders(frozenset(live), nested, frozenset(ignored))


def _only_skill_mds(paths: Iterable[str]) -> list[str]:
    # Most of 100,000 paths end otherwise: the cheap question first.
    return [path for path in paths if path[-8:].casefold() == "skill.md" and is_skill_md(posixpath.basename(path))]


def owner_of(path: str, folders: Collection[str]) -> str | None:
    """The nearest of ``folders`` that a file lies in. A root skill does not own top-level folders that start with a dot."""
    folder = posixpath.dirname(path)
    while folder:
        if folder in folders:
            return folder
        folder = posixpath.dirname(folder)
    return "." if "." in folders and not (path.startswith(".") and "/" in path) else None


def is_ignored(folder: str, patterns: Sequence[str] = ()) -> bool:
    """Whether a folder holds no live skill.

    Built in: below ``backups/``, ``templates/``, ``tests/``, ``fixtures/`` and the like, and translations (``docs/ja/``).
    ``patterns`` are matched from the root against the folder and those around it (``*`` within a name, ``**`` over
    names); one that starts with ``!`` takes folders back in; the last that matches decides.
    """
    around = folder.split("/")[:-1]
    result = any(part.lower() in _NOT_LIVE for part in around) or any(
        one.lower() == "docs" and _LANGUAGE.fullmatch(two) for one, two in itertools.pairwise(around)
    )
    for pattern in patterns:
        if _glob(pattern.removeprefix("!")).fullmatch(folder):
            result = not pattern.startswith("!")
    return result


def _glob(pattern: str) -> re.Pattern[str]:
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/?|\*|\?)", pattern.strip().strip("/").removesuffix("/**"))
    parts = [signs.get(piece, re.escape(piece)) for piece in pieces]
    return re.compile("".join(parts) + "(?:/.*)?", re.DOTALL)


def changed_skills(
    repo: Repository, base: str, head: str, *, ignore: Sequence[str] = (), tree: CommitTree | None = None
) -> Changes:
    """The skills that differ between two commits. ``tree``: head's, where it was read already. Raises RepositoryError."""
    entries = (tree or CommitTree(repo, head)).entries()
    return _Comparison(repo, base, entries, repo.changed_paths(base, head), ignore).result()


class _Comparison:
    def __init__(
        self,
        repo: Repository,
        base: str,
        tree: Mapping[str, tuple[str, str]],
        changed: Sequence[tuple[str, str, str | None]],
        ignore: Sequence[str],
    ) -> None:
        self._repo = repo
        self._base_commit = base
        self._tree = tree
        self._changed = changed
        # The base's paths follow from head's and the differences: its whole tree need not be listed.
        appeared = {path for status, path, _ in changed if status in "ARC"}
        vanished = {path for status, path, _ in changed if status == "D"} | {
            old for status, _, old in changed if status == "R" and old is not None
        }
        self._head = find_folders(tree, ignore)
        self._base = find_folders((set(_only_skill_mds(tree)) - appeared) | vanished, ignore)
        self._notes = Notes(".", "changes")

    def result(self) -> Changes:
        touched = self._touched()
        added = sorted(self._head.live - self._base.live)
        deleted = sorted(self._base.live - self._head.live)
        candidates = added + sorted(self._head.ignored - self._base.ignored)
        # A skill that still stands where it was (inside a new outer one, say) has not moved.
        gone = [folder for folder in deleted if folder not in self._head.nested and folder not in self._head.ignored]
        renamed = self._renames(gone, candidates)
        hidden = self._hidden(deleted, renamed)
        skills: list[SkillChange] = []
        for folder in added:
            old = next((one for one, two in renamed.items() if two == folder), None)
            kind = ChangeKind.RENAMED if old is not None else ChangeKind.ADDED
            files = touched.get(folder, set()) | (touched.get(old, set()) if old else set())
            skills.append(_change(folder, kind, files, old=old))
        skills += [
            _change(folder, ChangeKind.DELETED, touched.get(folder, set()))
            for folder in deleted
            if renamed.get(folder) not in self._head.live
        ]
        for folder in sorted(self._head.live & self._base.live & set(touched)):
            skills.append(
                _change(folder, ChangeKind.MODIFIED, touched[folder], visible=self._visible(folder, touched[folder]))
            )
        self._say()
        raw = {shown(folder): folder for folder in {*added, *deleted, *touched} if shown(folder) != folder}
        return Changes(
            tuple(sorted(skills, key=lambda item: (item.path, item.kind))), self._notes.all(), self._head, raw, hidden
        )

    def _touched(self) -> dict[str, set[str]]:
        """Skill folder -> changed files of it, of both sides."""
        found: dict[str, set[str]] = {}
        for status, path, old in self._changed:
            sides = []
            if status != "D":
                sides.append((owner_of(path, self._head.live), path))
            if status in "DMT":
                sides.append((owner_of(path, self._base.live), path))
            if status == "R" and old is not None:
                sides.append((owner_of(old, self._base.live), old))
            for folder, file in sides:
                if folder is not None:
                    found.setdefault(folder, set()).add(file)
        return found

    def _renames(self, deleted: Sequence[str], candidates: Sequence[str]) -> dict[str, str]:
        """Deleted folder -> where it went: same name, or half of its blobs, or git itself says so of SKILL.md."""
        if not deleted or not candidates:
            return {}
        before = {folder: {path: blob for path, mode, blob in self._repo.tree(self._base_commit, _under(folder))
                           if mode != SUBMODULE} for folder in deleted}  # fmt: skip
        after: dict[str, dict[str, str]] = {folder: {} for folder in candidates}
        for path, (mode, blob) in self._tree.items():
            folder = owner_of(path, after)
            if folder is not None and mode != SUBMODULE:
                after[folder][path] = blob
        names = self._names({**before, **after})
        by_git = {(old, path) for status, path, old in self._changed if status == "R" and old is not None}
        scored = []
        for old in deleted:
            for new in candidates:
                share = _share(before[old].values(), after[new].values())
                same_name = names.get(old) is not None and names.get(old) == names.get(new)
                moved = any(
                    (one, two) in by_git for one in _skill_mds(before[old], old) for two in _skill_mds(after[new], new)
                )
                if same_name or moved or share >= RENAME_SHARE:
                    scored.append((-share, not same_name, not moved, old, new))
        found: dict[str, str] = {}
        for _, _, _, old, new in sorted(scored):
            if old not in found and new not in found.values():
                found[old] = new
        return found

    def _names(self, folders: Mapping[str, Mapping[str, str]]) -> dict[str, str | None]:
        wanted = {folder: files[path] for folder, files in folders.items() for path in _skill_mds(files, folder)[:1]}
        contents = self._repo.blobs(sorted(set(wanted.values())))
        return {folder: name_of(contents[blob]) for folder, blob in wanted.items()}

    def _hidden(self, deleted: Sequence[str], renamed: Mapping[str, str]) -> dict[str, str]:
        found = {}
        for folder in deleted:
            if renamed.get(folder) in self._head.ignored:
                found[shown(folder)] = f"The skill moves under an ignored path ({shown(renamed[folder])})."
            elif folder in self._head.nested:
                found[shown(folder)] = (
                    f"The skill is now inside the skill {shown(self._head.nested[folder])} and no longer judged."
                )
            elif folder in self._head.ignored:
                found[shown(folder)] = "The skill is now on an ignored path."
        return found

    def _visible(self, folder: str, files: Iterable[str]) -> bool:
        """Whether something changed that an agent reads or that judges it; a README counts where SKILL.md names it."""
        names = [path if folder == "." else path.removeprefix(f"{folder}/") for path in files]
        if any(_counts(name) for name in names):
            return True
        passive = [name for name in names if _is_passive(name)]
        if not passive:
            return False
        ids = [self._tree[path][1] for path in _skill_mds(self._tree, folder)[:1]]
        text = b"".join(self._repo.blobs(ids).values()).decode("utf-8", "replace")
        return any(name in text for name in passive)

    def _say(self) -> None:
        """Ignored folders, submodules and links that changed: never passed over."""
        ignored: Counter[str] = Counter()
        links = []
        for status, path, old in self._changed:
            for side in (path, old):
                folder = owner_of(side, self._head.ignored | self._base.ignored) if side else None
                if folder is not None and owner_of(str(side), self._head.live | self._base.live) in (None, "."):
                    ignored[folder] += 1
            mode, blob = self._tree.get(path, ("", "")) if status != "D" else ("", "")
            if owner_of(path, self._head.live) is None and mode == SUBMODULE:
                self._notes.add(
                    Level.NOTICE, "submodule", "a submodule changed; skills in it are not looked at", path=path
                )  # fmt: skip
            elif owner_of(path, self._head.live) is None and mode == SYMLINK:
                links.append((path, blob))
        if ignored:
            names = ", ".join(short(shown(folder), 60) for folder in sorted(ignored)[:_LISTED])
            more = f" and {len(ignored) - _LISTED} more" if len(ignored) > _LISTED else ""
            self._notes.notice(
                "ignored", f"{len(ignored)} changed folders with a SKILL.md are on ignored paths: {names}{more}",
                remedy="Name a folder as PATH to judge it, or take it back in with ignore: ['!folder'] in the policy.",
            )  # fmt: skip
        targets = self._repo.blobs([blob for _, blob in links]) if links else {}
        for path, blob in links:
            target = posixpath.normpath(
                posixpath.join(posixpath.dirname(path), targets[blob].decode("utf-8", "surrogateescape"))
            )
            if target in self._head.live:
                self._notes.add(
                    Level.NOTICE, "link", f"a link to the skill {short(shown(target))}; links are not followed, the skill is judged at "
                    "its own place", path=path,
                )  # fmt: skip


def _change(
    folder: str, kind: ChangeKind, files: Iterable[str], *, old: str | None = None, visible: bool = True
) -> SkillChange:
    return SkillChange(
        path=shown(folder),
        kind=kind,
        old_path=shown(old) if old is not None else None,
        changed_files=tuple(sorted(shown(path) for path in files)),
        agent_visible=visible,
    )


def _counts(name: str) -> bool:
    if is_suite_file(name) or name.split("/", maxsplit=1)[0] in JUDGING_FOLDERS:
        return True
    return is_agent_visible(name) and not _is_passive(name)


def _is_passive(name: str) -> bool:
    return "/" not in name and _PASSIVE.fullmatch(name) is not None


def _share(old: Iterable[str], new: Iterable[str]) -> float:
    """Equal blobs of the larger side."""
    one, two = Counter(old), Counter(new)
    total = max(sum(one.values()), sum(two.values()))
    return sum((one & two).values()) / total if total else 0.0


def _skill_mds(paths: Iterable[str], folder: str) -> list[str]:
    """Paths of the SKILL.md of a folder, the usual spelling first."""
    found = [
        path for path in paths if (posixpath.dirname(path) or ".") == folder and is_skill_md(posixpath.basename(path))
    ]
    return sorted(found, key=lambda path: (posixpath.basename(path) != "SKILL.md", path))


def _under(folder: str) -> str:
    return "" if folder == "." else folder
