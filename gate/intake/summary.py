"""What a check has seen, counted by kind: every file of every skill falls into one of them."""

from __future__ import annotations

import posixpath
from collections import Counter

from gate.domain.manifest import ManifestState
from gate.domain.skill import JUDGING_FOLDERS, SUBMODULE, SYMLINK, Skill, SkillFile
from gate.intake.notes import joined
from gate.intake.suite_places import is_suite_file
from gate.intake.tree import CheckedSkill

_SCRIPTS = (".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".ps1", ".pl", ".php", ".go", ".r", ".lua")
_DOCUMENTS = (".md", ".mdx", ".txt", ".rst", ".pdf", ".docx", ".html")
_DATA = (".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv", ".tsv", ".xml", ".xsd", ".ini")
_SIGNATURES = ("skill.oms.sig", "skill.sigstore")


class Summary:
    """Counts over skills that are seen one at a time."""

    def __init__(self) -> None:
        self._files: Counter[str] = Counter()
        self._suites: Counter[str] = Counter()
        self._manifests: Counter[str] = Counter()
        self._seen: set[tuple[str, str]] = set()
        self._unreadable = 0
        self.unsigned = 0
        """Skills without any signature."""

    def add(self, skill: CheckedSkill) -> None:
        """One more. A manifest that several skills share is counted once a state."""
        if skill.skill is not None:
            suites = {source.path for source in skill.sources}
            self._files.update(_kind(item, skill.skill, suites) for item in skill.skill.files)
        elif not skill.orphan:
            self._unreadable += 1
        self._suites.update(source.dialect for source in skill.sources)
        for item in skill.manifests:
            if item.state is ManifestState.UNSIGNED:
                self.unsigned += 1
            elif (item.path, item.state.value) not in self._seen:
                self._seen.add((item.path, item.state.value))
                self._manifests[f"{item.kind} {item.words}"] += 1

    def lines(self) -> list[str]:
        """For people; trusted text only."""
        lines = [f"files by kind: {_counts(self._files)}"]
        if self._unreadable:
            lines.append(
                f"skills whose files were not looked at, because SKILL.md cannot be read or is ignored: {self._unreadable}"
            )
        lines.append(f"eval files by dialect: {_counts(self._suites)}")
        unsigned = {"skills without a signature": self.unsigned} if self.unsigned else {}
        lines.append(f"manifests by kind: {_counts(Counter({**self._manifests, **unsigned}))}")
        return lines


def _counts(counter: Counter[str]) -> str:
    return (
        ", ".join(f"{name} {count}" for name, count in sorted(counter.items(), key=lambda item: (-item[1], item[0])))
        or "none"
    )


def _kind(file: SkillFile, skill: Skill, suites: set[str]) -> str:
    name = posixpath.basename(file.path).lower()
    if file.path == skill.skill_md:
        return "SKILL.md"
    if file.mode in (SYMLINK, SUBMODULE):
        return "link" if file.mode == SYMLINK else "submodule"
    if joined(skill.path, file.path) in suites:
        return "eval file"
    if is_suite_file(file.path) or file.path.split("/", maxsplit=1)[0] in JUDGING_FOLDERS:
        return "file beside evals"
    if name in _SIGNATURES:
        return "signature"
    for kind, ends in (("script", _SCRIPTS), ("document", _DOCUMENTS), ("data", _DATA)):
        if name.endswith(ends):
            return kind
    return "other"
