"""What intake hands on: the skills that a change touches, read at head and base, with everything found on the way."""

from __future__ import annotations

from dataclasses import dataclass

from gate.domain.base import Value
from gate.domain.findings import Finding
from gate.domain.manifest import ManifestStatus
from gate.domain.preflight import PreflightFact
from gate.domain.skill import Skill, SkillChange
from gate.domain.suite import Suite


class SkillIntake(Value):
    """One skill as it was read. Which version each part is from: DESIGN.md 3, "Which version decides what"."""

    change: SkillChange
    slug: str
    head: Skill | None
    """At head; None for a deleted skill and for one that cannot be parsed (then a finding blocks)."""
    base: Skill | None
    """At the merge base; None where there is none or it cannot be parsed (a finding says so)."""
    suite: Suite | None
    """At head."""
    base_suite: Suite | None = None
    """The suite of record: at the tip of the base branch, else at the merge base."""
    findings: tuple[Finding, ...] = ()
    """About SKILL.md, the suite and the change."""
    manifest_findings: tuple[Finding, ...] = ()
    manifests: tuple[ManifestStatus, ...] = ()
    """One a manifest that concerns this skill; one of kind ``signature`` where it has none."""
    preflight: tuple[PreflightFact, ...] = ()
    """What it needs that a sandbox may not have, declared ones first."""
    base_preflight: tuple[PreflightFact, ...] = ()
    """The same of the base version."""
    suite_removals: tuple[str, ...] = ()
    """What judged this skill at the base and no longer does, as sentences; each needs a waiver in the base policy."""

    @property
    def invalid(self) -> bool:
        """True where a finding alone makes the skill ``invalid``."""
        return any(item.blocks for item in self.findings)


@dataclass(frozen=True)
class Intake:
    """Everything read for one session. It is handed on and never written, so nothing has to be built that checks it: of a
    change that touches no skill that would be the largest part.
    """

    base_commit: str | None
    """The merge base: what head is compared with. None: nothing to compare with, every skill counts as new."""
    base_tip: str | None
    """The tip of the base branch: policy and suite of record come from it."""
    head_commit: str
    skills: tuple[SkillIntake, ...]
    """Sorted by path."""
    findings: tuple[Finding, ...] = ()
    """About the session: policy, ignored paths, links, a dirty folder."""
