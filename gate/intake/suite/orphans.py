"""Suites that belong to no skill: in no skill's folder and tied to none by name. Nobody is judged by them, so they are said."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator

from gate.domain.findings import Finding, Level
from gate.domain.numbers import counted
from gate.domain.skill import Skill, SkillFile, slug_of, tree_digest
from gate.intake.notes import Notes, shown
from gate.intake.suite import Reading, read_evals
from gate.intake.suite_places import is_suite_name

MAX_ORPHANS = 200


def orphans(
    paths: Iterable[str], owned: Collection[str], tied: Collection[str], files: Callable[[str], tuple[SkillFile, ...]]
) -> Iterator[tuple[str, Reading]]:
    """(folder, what its evals hold) of every suite that is of no skill, sorted; at most ``MAX_ORPHANS``.

    ``owned``: folders with a SKILL.md of any kind; ``tied``: folders with evals that belong to a skill by name. What would
    block a skill is an error here that blocks nothing.
    """
    if "." in owned:
        return
    rooms = {posixpath.dirname(path) for path in paths if is_suite_name(path) and not _is_forge_settings(path)}
    free = sorted(room for room in rooms if room and not _inside(room, owned) and not _inside(room, tied))
    for room in free[:MAX_ORPHANS]:
        parent = (
            posixpath.dirname(room) if posixpath.basename(room).lower() in ("evals", "eval", "evaluations") else room
        )
        reading = read_evals(_nobody(parent), (_nobody(parent, room, files(room)),))
        if reading.sources or reading.findings:
            notes = Notes(room, "suite")
            notes.notice(
                "no-skill",
                "these evals are in no skill's folder and tied to none by name, so nothing is judged by them; they hold "
                f"{counted(len(reading.suite.cases) if reading.suite else 0, 'case')} and "
                f"{counted(len(reading.triggers), 'trigger case')}",
                remedy="Put them into the skill's folder, or into a folder of its name below tests/ or evals/.",
            )
            yield room, reading._replace(findings=(*notes.items, *(_harmless(item) for item in reading.findings)))


def _is_forge_settings(path: str) -> bool:
    """Whether a file is below ``.github``, where policy and workflows have names like suites; ``.github/skills`` holds skills."""
    parts = path.split("/")[:-1]
    return any(part == ".github" and parts[at : at + 1] != ["skills"] for at, part in enumerate(parts, 1))


def _inside(folder: str, others: Collection[str]) -> bool:
    parts = folder.split("/")
    return any("/".join(parts[:end]) in others for end in range(1, len(parts) + 1))


def _harmless(finding: Finding) -> Finding:
    return finding.model_copy(update={"blocks": False}) if finding.level is Level.ERROR else finding


def _nobody(owner: str, room: str = "", files: tuple[SkillFile, ...] = ()) -> Skill:
    name = shown(posixpath.basename(owner) or "none")
    path = shown(room or owner or ".")
    return Skill(
        path=path,
        slug=slug_of(path),
        skill_md="SKILL.md",
        name=name,
        description="",
        body="",
        files=files,
        tree_sha256=tree_digest(files),
    )
