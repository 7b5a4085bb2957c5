"""A static check of whatever lies in a folder or a commit: ``skill-gate check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from gate.domain.base import Value
from gate.domain.findings import Finding
from gate.domain.skill import Skill, SkillFile
from gate.domain.suite import Suite
from gate.intake.changes import Folders, find_folders, owner_of
from gate.intake.manifests import check_manifests
from gate.intake.notes import Notes, joined, shown
from gate.intake.skill import parse_skill
from gate.intake.sources import FolderTree, Tree
from gate.intake.suite import read_suite


class CheckedSkill(Value):
    """A skill as ``skill-gate check`` sees it."""

    path: str
    name: str | None = None
    cases: int = 0
    """Eval cases that can be run."""
    findings: tuple[Finding, ...]
    """About SKILL.md, the suite, nested SKILL.md files and the manifests."""
    skill: Skill | None = Field(default=None, exclude=True, repr=False)
    """None where a finding about SKILL.md blocks, and for a folder on an ignored path."""
    suite: Suite | None = Field(default=None, exclude=True, repr=False)


def check_folder(folder: str | Path, *, ignore: Sequence[str] = ()) -> tuple[CheckedSkill, ...]:
    """``check_tree`` over a folder on disk; paths start with the folder as it was named.

    Raises ConfigurationError where it is no folder or holds too many files.
    """
    start = str(folder).rstrip("/") or "/"
    checked = check_tree(FolderTree(folder), ignore=ignore)
    if start == ".":
        return checked
    return tuple(
        item.model_copy(
            update={
                "path": start if item.path == "." else f"{start}/{item.path}",
                "findings": tuple(
                    found.model_copy(
                        update={"path": shown(start) if found.path == "." else f"{shown(start)}/{found.path}"}
                    )
                    for found in item.findings
                ),
            }
        )
        for item in checked
    )


def check_tree(tree: Tree, *, ignore: Sequence[str] = ()) -> tuple[CheckedSkill, ...]:
    """Parse and check every skill of a tree, sorted by path. No content makes it raise; what the tree raises it does.

    Each SKILL.md is an entry of its own, or is named in a finding of the skill that it is nested in.
    """
    folders = find_folders(tree.paths(), ignore)
    checked = [check_skill(tree, folder, folders) for folder in folders.live]
    for folder in folders.ignored:
        notes = Notes(joined(folder, "SKILL.md"), "skill-md")
        notes.notice(
            "ignored",
            "this is on a path that holds no live skills (backups, templates, tests, translations, or ignored by the policy)",
            remedy="Check the folder by its own path to read it all the same.",
        )
        checked.append(CheckedSkill(path=shown(folder), findings=notes.all()))
    return tuple(sorted(checked, key=lambda item: item.path))


def check_skill(tree: Tree, folder: str, folders: Folders) -> CheckedSkill:
    """Parse and check one skill folder."""
    path = shown(folder)
    files = own_files(tree.skill_files(folder), folder, folders)
    skill, found = parse_skill(path, files, folder_name=tree.name if folder == "." else None)
    suite, suite_findings = read_suite(skill) if skill is not None else (None, ())
    manifests = check_manifests(tree.paths(), tree.read, folder)
    return CheckedSkill(
        path=path,
        name=skill.name if skill else None,
        cases=len(suite.cases) if suite else 0,
        findings=(*found, *suite_findings, *nested_findings(folder, folders), *manifests),
        skill=skill,
        suite=suite,
    )


def own_files(files: tuple[SkillFile, ...], folder: str, folders: Folders) -> tuple[SkillFile, ...]:
    """The files of a skill. Only a root skill has others in its folder: skills of their own, and ``.github`` and the like."""
    if folder != ".":
        return files
    return tuple(item for item in files if owner_of(item.path, folders.live) == ".")


def nested_findings(folder: str, folders: Folders) -> tuple[Finding, ...]:
    """A notice for each SKILL.md that belongs to the skill around it."""
    notes = Notes(joined(folder, "SKILL.md"), "skill-md")
    for inner in sorted(item for item, outer in folders.nested.items() if outer == folder):
        notes.notice(
            "nested", f"{shown(inner)} has a SKILL.md too; it belongs to this skill and is not judged by itself"
        )
    return notes.all()
