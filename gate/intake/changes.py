"""From two commits to the skills that changed between them (cases/README.md A5, B 33, B 35).

A skill is a folder with a SKILL.md, in any spelling of case; its identity is its path. A SKILL.md below another skill
belongs to the outer skill. Any file in a skill folder changes the skill, and so does a file outside that a text or a link
of it leads to: agents follow ``../`` (cases/README.md A3: 455 of 13,373 skills do so).

Only what the differences touch is looked at: of head's tree, the places of its SKILL.md files.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import re
import urllib.parse
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gate.domain.findings import Finding, Level
from gate.domain.skill import (
    EXECUTABLE,
    JUDGING_FOLDERS,
    REGULAR,
    SUBMODULE,
    SYMLINK,
    ChangeKind,
    SkillChange,
    is_agent_visible,
)
from gate.intake.body import PROGRAMS
from gate.intake.mentions import Mentions
from gate.intake.notes import Notes, joined, short, shown
from gate.intake.outside import ENDS, Outside, candidates, changed_elsewhere
from gate.intake.shipped import Holdings, shipped
from gate.intake.skill import is_skill_md, name_of
from gate.intake.sources import CommitTree
from gate.intake.suite_places import is_suite_file
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
_LINKS = 10
"""Links to links that are followed."""
_LEADING = (".md", ".mdx", ".markdown", ".txt", ".rst", ".adoc", ".yaml", ".yml", ".toml", ".json", *PROGRAMS)
_NO_TEXT = (
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".webp",
    ".pdf",
    ".zip",
    ".docx",
    ".xlsx",
    ".pptx",
    ".woff",
    ".woff2",
    ".ttf",
    ".otf",
)
_AT_ONCE = 200
"""SKILL.md files in memory at the same time (the largest real one has 294 KB)."""


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
    base: Folders | None = None
    """None: nothing was compared."""
    linked: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Skill, as it is shown -> changed files outside of it that its texts or links lead to, as they are shown, sorted."""


def folders_in(tree: Holdings, mds: Collection[str], ignore: Sequence[str] = ()) -> tuple[Folders, frozenset[str]]:
    """(skill folders of a tree, those of them that only a link or a manifest makes live). ``mds``: paths of its SKILL.md files."""
    found = find_folders(mds, ignore)
    led_to = shipped(tree, found.ignored, lambda path: is_ignored(path, ignore))
    return (find_folders(mds, ignore, led_to) if led_to else found), led_to


def find_folders(paths: Iterable[str], ignore: Sequence[str] = (), live_too: Collection[str] = ()) -> Folders:
    """Skill folders of a tree, outer ones first. ``ignore``: glob patterns, see ``is_ignored``; ``live_too``: never ignored."""
    candidates = {posixpath.dirname(path) or "." for path in _only_skill_mds(paths)}
    live: set[str] = set()
    nested: dict[str, str] = {}
    ignored: set[str] = set()
    for folder in sorted(candidates, key=lambda item: (item != ".", item.count("/"), item)):
        outer = owner_of(joined(posixpath.dirname(folder) or ".", "x"), live) if folder != "." else None
        child = outer == "." and _CONTAINER in folder.split("/")[:-1]
        if outer is not None and not child and not _taken_out(folder, outer, ignore):
            nested[folder] = outer
        elif folder not in live_too and is_ignored(folder, ignore):
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
    ``patterns`` (the policy's ``ignore``) are matched from the root against the folder and those around it (``*`` within a name, ``**`` over
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


def _taken_out(folder: str, outer: str, patterns: Sequence[str]) -> bool:
    """Whether the policy makes a nested SKILL.md a skill of its own: ``!skills/a/children/*`` names it and not its outer one."""
    return any(
        pattern.startswith("!") and _glob(pattern[1:]).fullmatch(folder) and not _glob(pattern[1:]).fullmatch(outer)
        for pattern in patterns
    )


def _glob(pattern: str) -> re.Pattern[str]:
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/?|\*|\?)", pattern.strip().strip("/").removesuffix("/**"))
    parts = [signs.get(piece, re.escape(piece)) for piece in pieces]
    return re.compile("".join(parts) + "(?:/.*)?", re.DOTALL)


def changed_skills(
    repo: Repository, base: str, head: str, *, ignore: Sequence[str] = (), tree: CommitTree | None = None
) -> Changes:
    """The skills that differ between two commits. ``tree``: head's, where it was read already. Raises RepositoryError."""
    return _Comparison(repo, base, tree or CommitTree(repo, head), repo.changed_paths(base, head), ignore).result()


class _Comparison:
    def __init__(
        self,
        repo: Repository,
        base: str,
        tree: CommitTree,
        changed: Sequence[tuple[str, str, str | None]],
        ignore: Sequence[str],
    ) -> None:
        self._repo = repo
        self._base_commit = base
        self._tree = tree
        self._changed = changed
        self._mds = {path: (mode, blob) for path, mode, blob in tree.skill_mds()}
        # The base's SKILL.md files follow from head's and the differences: its tree need not be listed.
        appeared = {path for status, path, _ in changed if status in "ARC"}
        vanished = {path for status, path, _ in changed if status == "D"} | {
            old for status, _, old in changed if status == "R" and old is not None
        }
        self._head, self._led_to = folders_in(tree, self._mds, ignore)
        before = (set(self._mds) - appeared) | vanished
        self._base_tree = CommitTree(repo, base)
        self._base, _ = folders_in(self._base_tree, before, ignore)
        self._notes = Notes(".", "changes")

    def result(self) -> Changes:
        touched = self._touched()
        linked = self._linked(touched)
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
        for folder in sorted(self._head.live & self._base.live & (set(touched) | set(linked))):
            own, outside = touched.get(folder, set()), linked.get(folder, set())
            visible = bool(outside) or self._visible(folder, own)
            skills.append(_change(folder, ChangeKind.MODIFIED, own | outside, visible=visible))
        self._copies([folder for folder in added if folder not in renamed.values()])
        self._say(skills)
        raw = {shown(folder): folder for folder in {*added, *deleted, *touched, *linked} if shown(folder) != folder}
        return Changes(
            tuple(sorted(skills, key=lambda item: (item.path, item.kind))),
            self._notes.all(),
            self._head,
            raw,
            hidden,
            self._base,
            {shown(folder): tuple(sorted(map(shown, files))) for folder, files in linked.items()},
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
        self._handed_over(found)
        sides_of_all = {side for _, path, old in self._changed for side in (path, old) if side is not None}
        live = self._head.live | self._base.live
        suites = changed_elsewhere(
            sides_of_all, live, lambda: candidates(self._tree.ending(ENDS)), functools.cache(self._versions)
        )
        for judged, files in (*suites.items(), *self._estranged().items()):
            found.setdefault(judged, set()).update(files)
        return found

    def _estranged(self) -> dict[str, set[str]]:
        """Skill -> suites outside of it that are no longer its own, though neither they nor it changed: a skill that came
        nearer to them by its name, or around them by its place, has taken them."""
        found: dict[str, set[str]] = {}
        if self._head.live == self._base.live:
            return found
        after = set(candidates(self._tree.ending(ENDS)))
        before = set(after)
        for status, path, old in self._changed:
            before -= {path} if status in "ARC" else set()
            before |= set(candidates([old or path])) if status in "DR" else set()
        rooms_before, rooms_after = Outside(before, self._base.live), Outside(after, self._head.live)
        for folder in self._head.live & self._base.live:
            for room, _ in set(rooms_before.rooms(folder)) - set(rooms_after.rooms(folder)):
                lost = {path for path in before if path.startswith(f"{room}/")}
                found.setdefault(folder, set()).update(lost)
        return found

    def _versions(self, path: str) -> list[bytes]:
        """The contents of a path at base and at head."""
        return [data for tree in (self._base_tree, self._tree) if (data := tree.read(path)) is not None]

    def _handed_over(self, found: dict[str, set[str]]) -> None:
        """Files that did not change, but have come to or left a skill because one inside it came or went."""
        staying = self._head.live & self._base.live
        differs = {path for _, path, _ in self._changed}
        for folder in self._head.live ^ self._base.live:
            if not any(folder.startswith(f"{around}/") or around == "." for around in staying):
                continue
            for path, _, _ in self._tree.below(folder):
                owners = {owner_of(path, self._head.live), owner_of(path, self._base.live)}
                if path not in differs and len(owners) > 1:
                    for owner in staying & owners:
                        found.setdefault(owner, set()).add(path)

    def _linked(self, touched: Mapping[str, set[str]]) -> dict[str, set[str]]:
        """Skill folder -> changed files outside it that one of its texts or links leads to."""
        changed = {side for _, path, old in self._changed for side in (path, old) if side is not None}
        staying = self._head.live & self._base.live
        if not changed or not staying:
            return {}
        found: dict[str, set[str]] = {}
        for folder, target, whole in (*self._written(staying), *self._link_targets(staying)):
            outside = {
                path
                for path in _at_or_below(target, changed, folder, () if whole else self._head.live)
                if path not in touched.get(folder, ())
            }
            if outside:
                found.setdefault(folder, set()).update(outside)
        return found

    def _written(self, folders: Collection[str]) -> Iterator[tuple[str, str, bool]]:
        """(skill folder, path outside of it that a text of it names, False). What only the root's own SKILL.md can name is
        looked for in no other text: everything lies inside its folder."""
        owners: dict[str, set[tuple[str, str]]] = {}
        for folder in sorted(folders):
            entries = [(self._mds[path], path) for path in _skill_mds(self._mds_of(folder), folder)[:1]]
            if folder != ".":
                entries += [
                    ((mode, blob), path)
                    for path, mode, blob in self._tree.below(folder)
                    if _is_text(path, folder) and owner_of(path, self._head.live) == folder
                ]
            for (mode, blob), path in entries:
                if mode in (REGULAR, EXECUTABLE):
                    # A text names files from the skill's folder or from its own: agents try both.
                    owners.setdefault(blob, set()).update(
                        (folder, place) for place in (folder, posixpath.dirname(path) or ".")
                    )
        ordered = sorted(owners)
        for some in (ordered[at : at + _AT_ONCE] for at in range(0, len(ordered), _AT_ONCE)):
            for blob, data in self._repo.blobs(some).items():
                # Few lines lead upwards, and to look for two dots is far cheaper than to look for paths.
                upward = b"\n".join(line for line in data.split(b"\n") if b"../" in line) if b"../" in data else b""
                for folder, place in owners[blob]:
                    seen = data if folder == "." else upward
                    for target in (
                        outside_targets(seen.decode("utf-8", "surrogateescape"), folder, place) if seen else ()
                    ):
                        yield folder, target, False

    def _link_targets(self, folders: Collection[str]) -> Iterator[tuple[str, str, bool]]:
        """(skill folder, path outside of it that a symbolic link in it leads to, True). Links to links are followed."""
        links = dict(self._tree.links())
        for start in links:
            folder = owner_of(start, folders)
            if folder is None:
                continue
            path = start
            for _ in range(_LINKS):
                if path not in links:
                    break
                path = posixpath.normpath(posixpath.join(posixpath.dirname(path), links[path]))
                if path.startswith(("../", "/")) or path in ("..", "."):
                    break
                if owner_of(path, folders) != folder or path in folders:
                    yield folder, path, True

    def _copies(self, added: Sequence[str]) -> None:
        """A new skill whose SKILL.md stands elsewhere too, byte for byte."""
        for folder in added:
            own = _skill_mds(self._mds_of(folder), folder)[0]
            for path, (mode, blob) in self._mds.items():
                other = posixpath.dirname(path) or "."
                if other != folder and other in self._head.live & self._base.live and (mode, blob) == self._mds[own]:
                    self._notes.add(
                        Level.NOTICE, "copy", f"a copy of the skill {short(shown(other))}, which is still there; it is judged as "
                        "a new skill", path=own,
                    )  # fmt: skip
                    break

    def _mds_of(self, folder: str) -> list[str]:
        return self._by_folder.get(folder, [])

    @functools.cached_property
    def _by_folder(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self._mds:
            found.setdefault(posixpath.dirname(path) or ".", []).append(path)
        return found

    def _renames(self, deleted: Sequence[str], candidates: Sequence[str]) -> dict[str, str]:
        """Deleted folder -> where it went: same name, or half of its blobs, or git itself says so of SKILL.md."""
        if not deleted or not candidates:
            return {}
        before = {folder: {path: blob for path, mode, blob in self._repo.tree(self._base_commit, _under(folder))
                           if mode != SUBMODULE} for folder in deleted}  # fmt: skip
        after: dict[str, dict[str, str]] = {}
        for folder in candidates:
            entries = self._tree.below(folder)
            after[folder] = {
                path: blob for path, mode, blob in entries if mode != SUBMODULE and owner_of(path, candidates) == folder
            }
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
        """Whether something changed that an agent reads or that judges it; what is read by nobody on its own, like a
        README or a manifest, counts where a text of the skill names it, and where it can be run."""
        start = "" if folder == "." else f"{folder}/"
        names = [path.removeprefix(start) for path in files]
        if any(_counts(name) for name in names):
            return True
        entries = {
            path.removeprefix(start): (mode, blob)
            for path, mode, blob in self._tree.below(folder)
            if owner_of(path, self._head.live) == folder
        }
        if any(entries.get(name, ("", ""))[0] not in ("", REGULAR) for name in names):
            return True
        ids = {
            blob
            for name, (mode, blob) in entries.items()
            if mode in (REGULAR, EXECUTABLE) and is_agent_visible(name) and not name.lower().endswith(_NO_TEXT)
        }
        mentions = Mentions(self._repo.blobs(sorted(ids)).values())
        return any(mentions.of(name) for name in names)

    def _say(self, skills: Sequence[SkillChange]) -> None:
        """Ignored folders, submodules and links that changed: never passed over."""
        ignored: Counter[str] = Counter()
        links = []
        for status, path, old in self._changed:
            for side in (path, old):
                folder = owner_of(side, self._head.ignored | self._base.ignored) if side else None
                if folder is not None and owner_of(str(side), self._head.live | self._base.live) in (None, "."):
                    ignored[folder] += 1
            if status == "D" or owner_of(path, self._head.live) is not None:
                continue
            mode, blob = self._tree.entries().get(path, ("", ""))
            if mode == SUBMODULE:
                self._notes.add(
                    Level.NOTICE, "submodule", "a submodule changed; skills in it are not looked at", path=path
                )  # fmt: skip
            elif mode == SYMLINK:
                links.append((path, blob))
        led_to = [folder for folder in sorted(self._led_to) if folder in {change.path for change in skills}]
        if led_to:
            self._notes.notice(
                "shipped", f"on ignored paths, but a link or a manifest leads there, so they are live: {', '.join(short(one, 60) for one in led_to[:_LISTED])}",
            )  # fmt: skip
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
    if is_suite_file(name) or name.casefold().split("/", maxsplit=1)[0] in JUDGING_FOLDERS:
        return True
    return is_agent_visible(name) and not _is_passive(name)


def _is_passive(name: str) -> bool:
    return "/" not in name and _PASSIVE.fullmatch(name) is not None and _ends_as_prose(name)


def _ends_as_prose(name: str) -> bool:
    return "." not in name or name.lower().endswith((".md", ".mdx", ".markdown", ".txt", ".rst", ".adoc"))


def _is_text(path: str, folder: str) -> bool:
    """Whether a file of a skill is a text that leads an agent on, by its name."""
    name = path.removeprefix(f"{folder}/")
    lower = name.lower()
    return is_agent_visible(name) and ("." not in posixpath.basename(lower) or lower.endswith(_LEADING))


def outside_targets(text: str, folder: str, place: str | None = None) -> set[str]:
    """Repository-relative paths outside a skill folder that a text of it names, in links, code or prose, from ``place``
    (a folder; None: the skill's).

    For the root skill: everything that it names, as skills of their own lie inside its folder.
    """
    found = set()
    pattern = _NAMED if folder == "." else _UPWARD
    for written in {one or two for one, two in pattern.findall(text)}:
        for form in {written, urllib.parse.unquote(written, errors="surrogateescape")}:
            name = re.split(r"[#?]", form, maxsplit=1)[0].rstrip(".,;:!")
            target = posixpath.normpath(posixpath.join(folder if place is None else place, name))
            if (
                not target.startswith(("../", "/"))
                and target not in ("..", ".")
                and (folder == "." or not f"{target}/".startswith(f"{folder}/"))
            ):
                found.add(target)
    return found


_UPWARD = re.compile(r"<((?:[^\s<>]*/)?\.\./[^<>\n]*)>|((?:[^\s<>()\[\]\"'`|]*/)?\.\./[^\s<>()\[\]\"'`|]*)")
_NAMED = re.compile(r"<([^<>\n]*/[^<>\n]*)>|([^\s<>()\[\]\"'`|]*/[^\s<>()\[\]\"'`|]*)")


def _at_or_below(target: str, paths: Collection[str], folder: str, live: Collection[str]) -> list[str]:
    """The file, or what is below the folder; not what is below a skill (its name is no link to its files) or around us."""
    if target in paths:
        return [target]
    if target in live or folder == "." or folder.startswith(f"{target}/"):
        return []
    return [path for path in paths if path.startswith(f"{target}/")]


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
