"""Evals that lie outside a skill's folder and are tied to it by folder name alone (cases/README.md A6).

| where | whose |
|---|---|
| `tests/…/<skill>/`, `evals/…/<skill>/` (also `test`, `eval`, `evaluations`) at any depth | the skill whose folder has that name |
| `<plugin>/evals/`, `<plugin>/eval/` beside `<plugin>/skills/` | the plugin's only skill, or the one of the plugin's name |
| the same beside several skills | of each file the skill that its own line `skill:` names |

Where several skills of a repository have the same folder name, the one whose path shares most with the evals' path is meant.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable

from gate.domain.skill import Skill, SkillFile
from gate.intake.notes import shown
from gate.intake.suite_places import is_suite_place

MAX_ROOMS = 20
"""Folders a skill; nobody has more."""

ROOTS = frozenset(("evals", "eval", "evaluations", "tests", "test"))
_ROOT = re.compile(r"(?:^|/)(?:evals?|evaluations|tests?)/", re.IGNORECASE)
_CASES = ("cases", "tasks", "scenarios")
ENDS = (".yaml", ".yml", ".json", ".jsonl", ".csv", ".cases.md")
_SKILL_LINE = rb"""(?m)^[ \t]*"?skill(?:_name)?"?[ \t]*:[ \t]*["']?%s["']?[ \t]*,?[ \t]*(?:#.*)?\r?$"""


def candidates(paths: Iterable[str]) -> list[str]:
    """The paths that could be evals outside a skill; of most trees, few."""
    # The cheap question first: trees have 100,000 paths.
    return [path for path in paths if path.endswith(ENDS) and _ROOT.search(path)]


def changed_elsewhere(
    changed: Iterable[str],
    live: Collection[str],
    everything: Callable[[], Iterable[str]],
    versions: Callable[[str], Iterable[bytes]],
) -> dict[str, set[str]]:
    """Skill folder -> changed files outside it that judge it: who changes what judges a skill changes the skill.

    Of a folder with evals that is tied to the skill by name these are the suites, and the data that one of them names: the
    file, or a folder around it. Where several skills share the folder: the suites that name this one, and their data.

    ``everything``: the paths of head that could be evals (those of base are among ``changed``, or there too); ``versions``:
    the contents of a path at base and at head. Both are only called where something near evals changed.
    """
    near = [path for path in changed if _ROOT.search(path)]
    found: dict[str, set[str]] = {}
    if not near or "." in live:
        return found
    known = {*everything(), *candidates(near)}
    outside = Outside(known, live)
    for folder in live:
        for room, shared in outside.rooms(folder):
            touched = {path.removeprefix(f"{room}/") for path in near if path.startswith(f"{room}/")}
            if not touched:
                continue
            line = _names(folder)
            places = [path for path in sorted(known) if path.startswith(f"{room}/")]
            suites = {
                name: texts
                for name in (path.removeprefix(f"{room}/") for path in places)
                if is_suite_place(name)
                and (texts := list(versions(f"{room}/{name}")))
                and (not shared or any(map(line.search, texts)))
            }
            said = b"\n".join(text for texts in suites.values() for text in texts)
            for name in touched:
                parts = [part.encode("utf-8", "surrogateescape") for part in name.split("/")]
                if name in suites or (not is_suite_place(name) and any(part in said for part in parts)):
                    found.setdefault(folder, set()).add(f"{room}/{name}")
    return found


def _names(folder: str) -> re.Pattern[bytes]:
    """A line that says whose evals a file holds."""
    return re.compile(_SKILL_LINE % re.escape(posixpath.basename(folder)).encode("utf-8", "surrogateescape"))


class Outside:
    """Which folders with evals belong to which skill of one tree."""

    def __init__(self, paths: Iterable[str], live: Collection[str]) -> None:
        """``live``: the skill folders of the tree."""
        self._live = live
        self._names: dict[str, list[str]] = {}
        for folder in live:
            self._names.setdefault(posixpath.basename(folder).lower(), []).append(folder)
        self._rooms: dict[str, set[tuple[str, bool]]] = {}
        if "." in live:  # everything in the repository is the root skill's
            return
        for path in candidates(paths):
            self._place(path)

    def rooms(self, folder: str) -> tuple[tuple[str, bool], ...]:
        """(folder with evals, whether several skills share it) of a skill folder, sorted."""
        return tuple(sorted(self._rooms.get(folder, ()))[:MAX_ROOMS])

    def of(self, folder: str, skill: Skill, files: Callable[[str], tuple[SkillFile, ...]]) -> tuple[Skill, ...]:
        """What ``read_suite`` takes as ``outside``. ``files``: every entry below a folder, paths relative to it."""
        found = []
        for room, shared in self.rooms(folder):
            entries = files(room)
            if shared:
                line = _names(folder)
                entries = tuple(item for item in entries if not _is_document(item) or line.search(item.data))
            if entries:
                found.append(skill.model_copy(update={"path": shown(room), "files": entries}))
        return tuple(found)

    def _place(self, path: str) -> None:
        parts = path.split("/")[:-1]
        start = next((index for index, part in enumerate(parts) if part.lower() in ROOTS), None)
        if start is None or self._owned(parts):
            return
        for end in range(len(parts) - 1, start, -1):
            named = self._names.get(parts[end].lower())
            if named:
                for folder in self._meant(named, parts):
                    self._rooms.setdefault(folder, set()).add(("/".join(parts[: end + 1]), False))
                return
        if parts[start].lower().startswith("eval") and start:
            self._beside("/".join(parts[:start]), "/".join(parts[: start + 1]))

    def _owned(self, parts: list[str]) -> bool:
        return any("/".join(parts[:end]) in self._live for end in range(1, len(parts) + 1))

    def _meant(self, folders: list[str], parts: list[str]) -> list[str]:
        words = {part.lower() for part in parts}
        shares = {folder: len(words & {part.lower() for part in folder.split("/")}) for folder in folders}
        best = max(shares.values())
        return [folder for folder, share in shares.items() if share == best]

    def _beside(self, plugin: str, room: str) -> None:
        skills = [folder for folder in self._live if folder.startswith(f"{plugin}/skills/")]
        same = [folder for folder in skills if posixpath.basename(folder) == posixpath.basename(plugin)]
        for folder in same or skills:
            self._rooms.setdefault(folder, set()).add((room, not same and len(skills) > 1))


def _is_document(file: SkillFile) -> bool:
    return file.path.lower().endswith(ENDS)
