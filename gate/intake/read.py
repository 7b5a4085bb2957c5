"""A session: two commits in, every skill that they are about out."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gate.domain.intake import Intake, SkillIntake
from gate.domain.skill import ChangeKind, SkillChange
from gate.errors import ConfigurationError
from gate.intake.changes import Changes, changed_skills, folders_in
from gate.intake.notes import Notes, short, shown
from gate.intake.outside import ROOTS
from gate.intake.policy import policy_change
from gate.intake.skill import is_skill_md
from gate.intake.sources import CommitTree
from gate.protocols import Repository
from gate.settings import Settings


def read_session(repo: Repository, settings: Settings) -> Intake:
    """Everything about the skills that a session is for.

    ``settings.paths`` are skill folders (or folders that hold some, or a SKILL.md), unchanged ones too; none: what
    changed between the merge base and head. Ignored are the built-in paths and the patterns of ``settings.policy`` (which
    ``read_policy`` has read from the base branch); a folder that is asked for is never ignored.

    Raises RepositoryError (unknown revision, shallow clone), and ConfigurationError for a path without a skill and where
    there is neither a path nor a base.
    """
    notes = Notes(".", "session")
    head = repo.resolve(settings.head)
    tip = repo.resolve(settings.base) if settings.base else repo.default_branch()
    base = tip if tip is None or settings.exact_base else repo.merge_base(tip, head)
    if base is None and not settings.paths:
        raise ConfigurationError(
            f"No base to compare {settings.head} with is known in {repo.location}: there is no default branch.",
            remedy="Name one with --base, or name the skill folders to judge.",
        )
    ignore = settings.policy.ignore
    tree = CommitTree(repo, head)
    if base is None:
        notes.notice("no-base", "no base commit is known, so every skill counts as new", remedy="Name one with --base.")
        folders, _ = folders_in(tree, [path for path, _, _ in tree.skill_mds()], ignore)
        changes = Changes((), (), folders, {}, {})
    else:
        changes = changed_skills(repo, base, head, ignore=ignore, tree=tree)
        if base == head and not settings.paths:
            notes.notice(
                "base-is-head", "base and head are the same commit: nothing changed", remedy="Name another --base."
            )
    wanted = _asked(settings.paths, changes, base is not None) if settings.paths else changes.skills
    with ThreadPoolExecutor(max_workers=1) as meanwhile:  # git alone looks at the files, while the skills are read
        dirty = meanwhile.submit(repo.is_dirty, _rooms(changes)) if settings.head == "HEAD" else None
        skills: tuple[SkillIntake, ...] = ()
        if wanted:
            from gate.intake.skill_reader import SkillReader  # every dialect and pattern: most changes touch no skill

            reader = SkillReader(repo, tree, base, tip, changes, settings=settings, head=head)
            skills = tuple(reader.read(change) for change in wanted)
    if dirty is not None and dirty.result():
        notes.notice("dirty", "there are uncommitted changes; commits are judged, so they are not looked at")
    return Intake(
        base_commit=base,
        base_tip=tip,
        head_commit=head,
        skills=skills,
        findings=(
            *settings.input_findings,
            *notes.all(),
            *policy_change(repo, tip, head),
            *(() if settings.paths else changes.findings),
            *repo.remarks(),
        ),
    )


def _rooms(changes: Changes) -> tuple[str, ...]:
    """The outermost folders that hold skills or what judges them: whatever is edited elsewhere in a tree is no skill's."""
    folders = {folder.split("/", maxsplit=1)[0] for folder in (*changes.head.live, *changes.head.ignored)}
    return (".",) if not folders or "." in folders else tuple(sorted({*folders, ".github", *ROOTS}))


def _asked(paths: Sequence[str], changes: Changes, has_base: bool) -> tuple[SkillChange, ...]:
    """What is known about the folders that were asked for. Raises ConfigurationError for one without a skill."""
    known = {item.path: item for item in changes.skills}
    everything = changes.head.live | changes.head.ignored | set(changes.head.nested)
    found: dict[str, SkillChange] = {}
    for path in paths:
        folder = posixpath.normpath(path.strip()) if path.strip() else "."
        if is_skill_md(posixpath.basename(folder)):
            folder = posixpath.dirname(folder) or "."
        below = {item for item in changes.head.live if folder == "." or item.startswith(f"{folder}/")}
        gone = {item.path for item in changes.skills if item.kind is ChangeKind.DELETED}
        picked = {folder} if folder in everything else below
        picked |= {item for item in gone if folder in (item, ".") or item.startswith(f"{folder}/")}
        if not picked:
            raise ConfigurationError(
                f'There is no SKILL.md in or below "{short(path)}" at the head commit.',
                remedy="Name a skill folder relative to the repository's root, and commit it.",
            )
        for item in picked:
            fresh = SkillChange(path=shown(item), kind=ChangeKind.UNCHANGED if has_base else ChangeKind.ADDED)
            found[shown(item)] = known.get(shown(item), fresh)
    return tuple(found[path] for path in sorted(found))
