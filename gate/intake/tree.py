"""A static check of whatever lies in a folder or a commit: ``skill-gate check``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import Field

from gate.domain.base import Value
from gate.domain.findings import Finding
from gate.domain.manifest import ManifestStatus
from gate.domain.preflight import PreflightFact
from gate.domain.skill import Skill, SkillFacts, SkillFile
from gate.domain.suite import Suite, SuiteSource, TriggerCase
from gate.intake.body import check_body, facts_of
from gate.intake.changes import Folders, folders_in, owner_of
from gate.intake.manifests import read_manifests
from gate.intake.notes import Notes, joined, shown
from gate.intake.outside import Outside
from gate.intake.preflight import preflight_facts
from gate.intake.profiles import Profile, profile_findings
from gate.intake.skill import parse_skill, read_front
from gate.intake.sources import CommitTree, FolderTree, Tree
from gate.intake.suite import read_evals
from gate.intake.suite.orphans import orphans as ownerless


class CheckedSkill(Value):
    """A skill as ``skill-gate check`` sees it."""

    path: str
    name: str | None = None
    cases: int = 0
    """Eval cases that can be run."""
    findings: tuple[Finding, ...]
    """About SKILL.md, the suite, the static scan, nested SKILL.md files and the manifests."""
    manifests: tuple[ManifestStatus, ...] = ()
    """One a manifest that concerns the skill."""
    preflight: tuple[PreflightFact, ...] = ()
    """What it needs that a sandbox may not have."""
    facts: SkillFacts | None = None
    """What can be counted in it."""
    skill: Skill | None = Field(default=None, exclude=True, repr=False)
    """None where a finding about SKILL.md blocks, and for a folder on an ignored path."""
    suite: Suite | None = Field(default=None, exclude=True, repr=False)
    triggers: tuple[TriggerCase, ...] = Field(default=(), exclude=True, repr=False)
    """Also where there is no suite, because nothing else is in its files."""
    sources: tuple[SuiteSource, ...] = Field(default=(), exclude=True, repr=False)
    orphan: bool = Field(default=False, exclude=True)
    """No skill at all, but evals that belong to none."""


def check_folder(
    folder: str | Path, *, ignore: Sequence[str] = (), profiles: Sequence[Profile] = (), orphans: bool = False
) -> tuple[CheckedSkill, ...]:
    """Every skill of ``each_in_folder``, at once in memory."""
    return tuple(each_in_folder(folder, ignore=ignore, profiles=profiles, orphans=orphans))


def each_in_folder(
    folder: str | Path, *, ignore: Sequence[str] = (), profiles: Sequence[Profile] = (), orphans: bool = False
) -> Iterator[CheckedSkill]:
    """``each_skill`` over a folder on disk; paths start with the folder as it was named.

    Raises ConfigurationError where it is no folder or holds too many files.
    """
    start = str(folder).rstrip("/") or "/"
    for item in each_skill(FolderTree(folder), ignore=ignore, profiles=profiles, orphans=orphans):
        yield item if start == "." else _below(start, item)


def _below(start: str, item: CheckedSkill) -> CheckedSkill:
    findings = tuple(found.model_copy(update={"path": _joined(shown(start), found.path)}) for found in item.findings)
    manifests = tuple(one.model_copy(update={"path": _joined(shown(start), one.path)}) for one in item.manifests)
    return item.model_copy(update={"path": _joined(start, item.path), "findings": findings, "manifests": manifests})


def _joined(start: str, path: str) -> str:
    return start if path == "." else f"{start}/{path}"


def check_tree(tree: Tree, *, ignore: Sequence[str] = (), profiles: Sequence[Profile] = ()) -> tuple[CheckedSkill, ...]:
    """Every skill of ``each_skill``, at once in memory."""
    return tuple(each_skill(tree, ignore=ignore, profiles=profiles))


def each_skill(
    tree: Tree, *, ignore: Sequence[str] = (), profiles: Sequence[Profile] = (), orphans: bool = False
) -> Iterator[CheckedSkill]:
    """Parse and check every skill of a tree, sorted by path, one at a time: who keeps none needs memory for one.

    No content makes it raise; what the tree raises it does. Each SKILL.md is an entry of its own, or is named in a finding
    of the skill that it is nested in. ``profiles``: validators whose word is wanted beside the gate's own. ``orphans``: at
    the end an entry too, an ``orphan``, for each folder with evals that are of no skill.
    """
    folders, _ = folders_in(tree, [path for path in tree.paths() if path[-8:].casefold() == "skill.md"], ignore)
    outside = Outside(tree.paths(), folders.live)
    for folder in sorted(folders.live | folders.ignored, key=shown):
        if folder in folders.live:
            yield check_skill(tree, folder, folders, profiles=profiles, outside=outside)
        else:
            notes = Notes(joined(folder, "SKILL.md"), "skill-md")
            notes.notice(
                "ignored",
                "this is on a path that holds no live skills (backups, templates, tests, translations, or ignored by the policy)",
                remedy="Check the folder by its own path to read it all the same.",
            )
            yield CheckedSkill(path=shown(folder), findings=notes.all())
    if not orphans:
        return
    owned = {*folders.live, *folders.nested, *folders.ignored}
    tied = {room for folder in folders.live for room, _ in outside.rooms(folder)}
    for room, evals in ownerless(tree.paths(), owned, tied, tree.skill_files):
        yield CheckedSkill(
            path=shown(room),
            findings=evals.findings,
            orphan=True,
            suite=evals.suite,
            triggers=evals.triggers,
            sources=evals.sources,
        )


def check_skill(
    tree: Tree, folder: str, folders: Folders, *, profiles: Sequence[Profile] = (), outside: Outside | None = None
) -> CheckedSkill:
    """Parse and check one skill folder. ``outside``: evals elsewhere in the tree that are tied to skills by name."""
    from gate.intake.scan import scan_skill

    path = shown(folder)
    whole = tree.skill_files(folder)
    files = own_files(whole, folder, folders)
    name = tree.name if folder == "." else None
    front = read_front(path, files)
    skill, found = parse_skill(path, files, folder_name=name, front=front)
    facts = facts_of(skill) if skill is not None else None
    body = check_body(skill, facts) if skill is not None else ()
    said = [item for one in profiles for item in profile_findings(one, path, files, folder_name=name, front=front)]
    elsewhere = outside.of(folder, skill, tree.skill_files) if outside is not None and skill is not None else ()
    evals = read_evals(skill, elsewhere) if skill is not None else None
    committed = isinstance(tree, CommitTree)
    # A signature is over the folder, with every skill in it.
    manifests = read_manifests(tree.paths(), tree.read, folder, files=whole, committed=committed)
    scanned = scan_skill(skill) if skill is not None else ()
    return CheckedSkill(
        path=path,
        name=skill.name if skill else None,
        cases=len(evals.suite.cases) if evals and evals.suite else 0,
        findings=(
            *found,
            *body,
            *(evals.findings if evals else ()),
            *scanned,
            *said,
            *nested_findings(folder, folders),
            *manifests.findings,
        ),
        manifests=manifests.statuses,
        preflight=preflight_facts(skill) if skill is not None else (),
        facts=facts,
        skill=skill,
        suite=evals.suite if evals else None,
        triggers=evals.triggers if evals else (),
        sources=evals.sources if evals else (),
    )


def own_files(files: tuple[SkillFile, ...], folder: str, folders: Folders) -> tuple[SkillFile, ...]:
    """The files of a skill: without those of skills of their own inside it, and of a root skill ``.github`` and the like."""
    if folder != ".":
        start = f"{folder}/"
        inner = tuple(f"{shown(one.removeprefix(start))}/" for one in folders.live if one.startswith(start))
        return tuple(item for item in files if not item.path.startswith(inner)) if inner else files
    return tuple(item for item in files if owner_of(item.path, folders.live) == ".")


def nested_findings(folder: str, folders: Folders) -> tuple[Finding, ...]:
    """A notice for each SKILL.md that belongs to the skill around it."""
    notes = Notes(joined(folder, "SKILL.md"), "skill-md")
    for inner in sorted(item for item, outer in folders.nested.items() if outer == folder):
        notes.notice(
            "nested", f"{shown(inner)} has a SKILL.md too; it belongs to this skill and is not judged by itself"
        )
    return notes.all()
