"""Which instructions of a skill its suite does not guard: every mutant is judged by a session of the gate like any change.

The mutated file is put over the repository in memory, as a change on top of the commit that is asked about; nothing in
the session knows of it. A mutant that the gate calls worse than the unchanged skill is killed, else it survived: no case
noticed that the instruction was gone or different (judging.md 8.2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

from gate.audit.mutants import Mutant
from gate.domain.base import Value, sha256_hex
from gate.domain.findings import Finding, Level
from gate.domain.plan import NotMeasuredCause
from gate.domain.report import SkillReport, Verdict
from gate.domain.skill import SkillFile
from gate.protocols import Repository
from gate.statistics import clopper_pearson

Fate = Literal["killed", "survived", "unknown"]
_RANK = {
    Verdict.PASS: 0,
    Verdict.CONDITIONAL: 1,
    Verdict.INCONCLUSIVE: 2,
    Verdict.FAIL: 3,
    Verdict.INVALID: 3,
}
"""How bad a verdict is; the others say nothing about a mutant."""
_NO_CASE = ("the pair is contaminated: ", "the judge's batch is void: ", "suite/null-agent-passes: ")
"""Reasons of ``invalid`` that are nobody's finding about the mutant."""
USABLE = (Verdict.PASS, Verdict.CONDITIONAL)
"""What the unchanged skill must be: against a red suite nothing can be killed."""


class MutantResult(Value):
    """What became of one mutant."""

    id: str
    operator: str
    harmful: bool
    file: str
    """Of the skill folder."""
    line: int
    """1-based line of SKILL.md."""
    rule: str
    """Untrusted text."""
    fate: Fate
    verdict: str = ""
    reason: str = ""
    """The first reason of the verdict, or why nothing is known; untrusted text."""


class OperatorScore(Value):
    """Mutants of one operator. ``interval``: exact 95 % interval of killed / (killed + survived)."""

    operator: str
    harmful: bool
    killed: int
    survived: int
    unknown: int
    score: float | None
    """killed / (killed + survived); None where nothing is known. For a neutral operator: the share of false alarms."""
    interval: tuple[float, float] | None


class MutationReport(Value):
    """mutation.json: all that is known of one skill."""

    schema_version: Literal[1] = 1
    skill: str
    """Repository-relative folder."""
    skill_md: str
    skill_md_sha256: str
    """Of the unchanged SKILL.md: lines are those of this text."""
    commit: str
    unchanged: str
    """The verdict of the unchanged skill."""
    mutants: tuple[MutantResult, ...]
    scores: tuple[OperatorScore, ...]
    not_run: int = 0
    """Mutants that were left out: over budget, or not drawn."""
    calls: int = 0
    """Calls of models, all sessions together."""
    cost_usd: float = 0.0
    """As far as prices are known."""

    @property
    def score(self) -> float | None:
        """Killed of the harmful mutants whose fate is known."""
        known = [item for item in self.mutants if item.harmful and item.fate != "unknown"]
        return sum(item.fate == "killed" for item in known) / len(known) if known else None


class MutatedRepository:
    """A repository with one file of one commit replaced: ``head`` names the commit on top, everything else is as it was."""

    def __init__(self, inner: Repository, commit: str, path: str, data: bytes, *, head: str = "HEAD") -> None:
        """``path`` is a file of ``commit``; ``head`` is what the session calls its head."""
        self._inner = inner
        self._below = commit
        self._path = path
        self._data = data
        self._head = head
        self._blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        self._commit = hashlib.sha1(
            f"{commit}\0{path}\0{self._blob}".encode("utf-8", "surrogateescape"), usedforsecurity=False
        ).hexdigest()

    @property
    def location(self) -> str:
        return self._inner.location

    @property
    def root(self) -> Path:
        return self._inner.root

    def resolve(self, revision: str) -> str:
        return self._commit if revision in (self._head, self._commit) else self._inner.resolve(revision)

    def merge_base(self, one: str, other: str) -> str:
        return self._inner.merge_base(self._real(one), self._real(other))

    def default_branch(self) -> str | None:
        return self._inner.default_branch()

    def default_base(self) -> str | None:
        return self._below

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str, str | None]]:
        found = self._inner.changed_paths(self._real(base), self._real(head))
        if self._is_mine(head) == self._is_mine(base) or any(path == self._path for _, path, _ in found):
            return found
        return sorted([*found, ("M", self._path, None)], key=lambda item: item[1])

    def tree(self, commit: str, under: str = "") -> list[tuple[str, str, str]]:
        return [self._entry(commit, *entry) for entry in self._inner.tree(self._real(commit), under)]

    def paths(self, commit: str) -> Mapping[str, tuple[str, str]]:
        known = self._inner.paths(self._real(commit))
        if not self._is_mine(commit):
            return known
        return {**known, self._path: (known[self._path][0], self._blob)}

    def find(self, commit: str, name: str) -> list[tuple[str, str, str]]:
        return [self._entry(commit, *entry) for entry in self._inner.find(self._real(commit), name)]

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        mine = {self._blob: self._data} if self._blob in ids else {}
        return {**self._inner.blobs([item for item in ids if item != self._blob]), **mine}

    def read_skill_files(self, commit: str, folder: str) -> tuple[SkillFile, ...]:
        files = self._inner.read_skill_files(self._real(commit), folder)
        if not self._is_mine(commit):
            return files
        below = "" if folder == "." else f"{folder}/"
        return tuple(
            item.model_copy(
                update={"data": self._data, "sha256": sha256_hex(self._data), "size_bytes": len(self._data)}
            )
            if f"{below}{item.path}" == self._path
            else item
            for item in files
        )

    def links(self, commit: str) -> list[tuple[str, str]]:
        return self._inner.links(self._real(commit))

    def ending(self, commit: str, ends: tuple[str, ...]) -> list[str]:
        return self._inner.ending(self._real(commit), ends)

    def is_dirty(self, under: Sequence[str] = ()) -> bool:
        del under
        return False  # the commit is what is mutated; the working tree is nobody's business here

    def checked_out_from(self) -> str:
        return self._inner.checked_out_from()

    def remarks(self) -> tuple[Finding, ...]:
        return self._inner.remarks()

    def _is_mine(self, commit: str) -> bool:
        return commit in (self._head, self._commit)

    def _real(self, commit: str) -> str:
        return self._below if self._is_mine(commit) else commit

    def _entry(self, commit: str, path: str, mode: str, blob: str) -> tuple[str, str, str]:
        return path, mode, self._blob if self._is_mine(commit) and path == self._path else blob


def drawn(mutants: Sequence[Mutant], most: int, seed: str) -> tuple[Mutant, ...]:
    """At most ``most`` mutants, in turn from every operator, which ones by the seed; in the order of the file again."""
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_operator.setdefault(mutant.operator, []).append(mutant)
    for name, group in by_operator.items():
        Random(f"{seed}/{name}").shuffle(group)  # noqa: S311 - which rules are looked at is no secret
    taken: list[Mutant] = []
    while len(taken) < most and any(by_operator.values()):
        for group in by_operator.values():
            if group and len(taken) < most:
                taken.append(group.pop())
    kept = {mutant.id for mutant in taken}
    return tuple(mutant for mutant in mutants if mutant.id in kept)


def fate_of(unchanged: Verdict, skill: SkillReport) -> Fate:
    """Killed: the gate calls the mutant worse than the unchanged skill, or no agent opened it any more."""
    if skill.verdict is Verdict.NOT_MEASURED and skill.not_measured_cause is NotMeasuredCause.NOT_OPENED:
        return "killed"
    if skill.verdict not in _RANK or _nobody_looked(skill):
        return "unknown"
    return "killed" if _RANK[skill.verdict] > _RANK[unchanged] else "survived"


def _nobody_looked(skill: SkillReport) -> bool:
    """Whether a mutant is invalid for what its session met, not for what it says: no case noticed anything."""
    return skill.verdict is Verdict.INVALID and all(
        any(words in reason for words in _NO_CASE) for reason in skill.reasons
    )


def result_of(mutant: Mutant, unchanged: Verdict, skill: SkillReport) -> MutantResult:
    """A mutant that a session has judged."""
    return MutantResult(
        **_about(mutant),
        fate=fate_of(unchanged, skill),
        verdict=skill.verdict.value,
        reason=skill.reasons[0] if skill.reasons else "",
    )


def unknown(mutant: Mutant, why: str) -> MutantResult:
    """A mutant about which nothing is known."""
    return MutantResult(**_about(mutant), fate="unknown", reason=why)


def _about(mutant: Mutant) -> dict[str, Any]:
    return {
        "id": mutant.id,
        "operator": mutant.operator,
        "harmful": mutant.harmful,
        "file": mutant.path,
        "line": mutant.line,
        "rule": mutant.rule,
    }


def scores_of(results: Iterable[MutantResult]) -> tuple[OperatorScore, ...]:
    """One score an operator, in the order in which the operators come up."""
    groups: dict[str, list[MutantResult]] = {}
    for item in results:
        groups.setdefault(item.operator, []).append(item)
    scores = []
    for name, group in groups.items():
        fates = [item.fate for item in group]
        killed, survived = fates.count("killed"), fates.count("survived")
        known = killed + survived
        scores.append(
            OperatorScore(
                operator=name,
                harmful=group[0].harmful,
                killed=killed,
                survived=survived,
                unknown=fates.count("unknown"),
                score=killed / known if known else None,
                interval=clopper_pearson(killed, known) if known else None,
            )
        )
    return tuple(scores)


def killed_lines(report: MutationReport) -> tuple[int, ...]:
    """Lines of SKILL.md of which a harmful mutant was killed: some case guards them, whatever it says of itself."""
    lines = {
        item.line for item in report.mutants if item.harmful and item.fate == "killed" and item.file == report.skill_md
    }
    return tuple(sorted(lines))


def findings_of(report: MutationReport) -> tuple[Finding, ...]:
    """A notice a line whose harmful mutants survived, and a warning a neutral mutant that was killed."""
    path = f"{report.skill}/{report.skill_md}" if report.skill != "." else report.skill_md
    survived: dict[int, list[MutantResult]] = {}
    for item in report.mutants:
        if item.harmful and item.fate == "survived":
            survived.setdefault(item.line, []).append(item)
    found = [
        Finding(
            rule="mutation/survived",
            level=Level.NOTICE,
            path=path,
            line=line,
            message=f"no case noticed {_changes(items)} of this instruction: {_short(items[0].rule)}",
            remedy="Add a check or an expectation that fails without it, or remove the instruction.",
        )
        for line, items in sorted(survived.items())
    ]
    found += [
        Finding(
            rule="mutation/false-alarm",
            level=Level.WARNING,
            path=path,
            line=item.line,
            message=f"a change that means nothing ({item.operator}) made the suite worse: {item.verdict}",
            remedy="Look at the reason in mutation.json: the suite is flaky, or it tests words and not work.",
        )
        for item in report.mutants
        if not item.harmful and item.fate == "killed"
    ]
    return tuple(found)


def _changes(items: Sequence[MutantResult]) -> str:
    names = [item.operator for item in items]
    return f"{len(names)} changes ({', '.join(names)})" if len(names) > 1 else f"the change {names[0]}"


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"
