"""What sessions recorded of a skill, commit by commit: ``history.json`` in SkillSentry's shape, with the gate's own facts.

Only what a session read from its cache under a MAC gets into these values (``gate.evidence.history``); a file of this form
from anywhere else is nobody's history.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gate.domain.base import Value
from gate.domain.plan import Enforce, Mode

Letter = Literal["S", "A", "B", "C", "D", "FAIL", "ERROR"]


class Tallied(Value):
    """One assertion over the runs with the skill, those of the confirm stage left out."""

    passed: int = Field(ge=0)
    failed: int = Field(ge=0)
    runs: int = Field(ge=0)
    """All usable runs that it was asked of: a missing verdict never shrinks a total."""


class RecordedCase(Value):
    """One case as a session recorded it: what a later session's runs of the same case can be held against."""

    eval_id: str
    key: str
    """``case_key``: the case's digest, and that of the plan that its agent was told, where there was one."""
    passed: bool | None
    """Whether the case passed (Decision 6) over its usable runs with the skill, those of the confirm stage left out."""
    runs: int = Field(ge=0)
    """How many these were."""
    assertions: dict[str, Tallied] = Field(default_factory=dict)
    """``check <id>`` or ``expectation <id>`` -> over these runs."""


class HistoryFacts(Value):
    """What the gate knows of a session beside the source's figures."""

    path: str
    """The skill's folder; untrusted."""
    verdict: str
    """Of ``Verdict``."""
    passed: int = Field(ge=0)
    """Cases passed, of ``total`` that completed: the authoritative rate."""
    total: int = Field(ge=0)
    enforce: Enforce
    on_default: bool
    """Whether what was judged was the default branch itself: only that is a baseline."""
    model: str
    harness: str
    judge: str
    """Of the grader."""
    cases: tuple[RecordedCase, ...] | None = None
    """None: the entry is an old one, of which the figures alone are kept."""


class HistoryEntry(Value):
    """One session in history.json. The names before ``skill_gate`` are SkillSentry's (``update_history.py``); None is unknown."""

    run_at: str
    """The run date, ISO."""
    session: str
    mode: Mode
    skill_hash: str | None
    """First 8 hex digits of the digest of the skill's tree."""
    eval_count: int = Field(ge=0)
    exact_pass_rate: float | None
    """Over exact checks of the runs with the skill; so the next two, over expectations and over both."""
    semantic_pass_rate: float | None
    overall_pass_rate: float | None
    avg_delta: float | None
    """The lift over running without the skill."""
    p95_ms: int | None
    """95th percentile of the run times, milliseconds."""
    verdict: Letter
    """The source's letter: FAIL where the gate says no, ERROR where it could not say."""
    git_sha: str | None
    """First 8 hex digits of the judged commit."""
    note: str = ""
    skill_gate: HistoryFacts


class History(Value):
    """What is kept of one skill in one scope of a cache, oldest first."""

    path: str
    scope: str
    entries: tuple[HistoryEntry, ...]


class Past(Value):
    """past.json: what a session knew of a skill's earlier sessions before it began, and what it is itself to be told apart by."""

    model: str
    """Of the executor, as named; so the next two."""
    harness: str
    judge: str
    on_default: bool
    kept: bool
    """Whether the session could read what earlier ones kept: there was a cache, and a key that authenticates it."""
    default: tuple[HistoryEntry, ...] = ()
    """Sessions on the default branch, oldest first."""
    own: tuple[HistoryEntry, ...] = ()
    """Other sessions of this session's own scope: earlier pushes of this pull request, or of this machine."""


class Baseline(Value):
    """What a case is held against in mode ``regression``, and who recorded it."""

    date: str
    """The run date of that session, ISO."""
    commit: str | None
    mode: Mode
    case: RecordedCase


class HistoryPoint(Value):
    """One earlier session in the report."""

    date: str
    commit: str | None
    mode: Mode
    verdict: str
    passed: int
    total: int
    on_default: bool


class SkillHistory(Value):
    """What earlier sessions said of a skill, in the report."""

    points: tuple[HistoryPoint, ...]
    """The last ones of the default branch, then of this change itself; oldest first in each."""
    words: str
    """One line."""
    baseline: tuple[str, ...] = ()
    """Mode ``regression``: what each case was held against, as sentences."""
