"""What the rules of the decision look at: one skill's record with the settings that it is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from gate.decision import figures
from gate.decision.triage import weighty
from gate.decision.triggering import ordinary, trigger_figures
from gate.domain.history import Past
from gate.domain.plan import Enforce, Mode
from gate.domain.report import CaseRecord, Share, SkillRecord, TriggerFigures
from gate.settings import JudgeCalibration, Thresholds, Waiver


class Tests(NamedTuple):
    """The p values of a skill's blocking tests. With those of the other skills of a session they are the families over
    which Holm's correction keeps any false block of the session at .05 each (judging.md 5.4)."""

    signs: tuple[float, ...]
    """Head against base and against no skill, then how often it is opened: the larger one of before and after the confirm
    runs."""
    bounds: tuple[float, ...]
    """The rate is at least the threshold: over all head cases that were measured, and over those that base has too."""
    base: float | None = None
    """That of ``signs`` which is against base; None where there was no base to compare with."""
    least: tuple[float, ...] = ()
    """The smallest p that each of ``signs`` could have had, by the number of its untied cases."""
    bounds_least: tuple[float, ...] = ()
    """The same of ``bounds``."""


# Without generated equality: a look is remembered by what it is, and comparing whole records takes long.
@dataclass(frozen=True, eq=False)
class Look:
    """Everything that the rules look at. Cases are in one order, whatever order they came in."""

    record: SkillRecord
    mode: Mode
    enforce: Enforce
    thresholds: Thresholds
    manifest_errors: Literal["warn", "block"]
    require_layer3: bool
    waivers: tuple[Waiver, ...]
    run_date: str
    calibration: tuple[JudgeCalibration, ...] = ()
    """What the base policy knows of judges."""
    peers: tuple[Tests, ...] = ()
    """The tests of the other skills of the session, in any order."""
    past: Past | None = None
    """What earlier sessions recorded; None: nothing is known of them."""
    guarded: tuple[int, ...] = ()
    """Lines of SKILL.md of which a mutant was killed (``skill-gate mutate``); no verdict looks at it."""

    @cached_property
    def cases(self) -> tuple[CaseRecord, ...]:
        """Every case, in an order that no file order changes."""
        return figures.in_order(self.record.cases)

    @cached_property
    def runnable(self) -> tuple[CaseRecord, ...]:
        """Cases that are not blocked."""
        return tuple(case for case in self.cases if case.plan.blocked is None)

    @cached_property
    def head_cases(self) -> tuple[CaseRecord, ...]:
        """Cases of the head suite that can run and say something."""
        return figures.head_suite(self.cases)

    @cached_property
    def known_cases(self) -> tuple[CaseRecord, ...]:
        """Of these, the ones that base has too: what head brings along cannot outweigh them."""
        return known_of(self.head_cases)

    @cached_property
    def work(self) -> tuple[CaseRecord, ...]:
        """Cases in which arms are compared by what they do: trigger queries only where there is nothing else."""
        asked = ordinary(self.runnable)
        return self.runnable if len(asked) in (0, len(self.runnable)) else asked

    @cached_property
    def known_work(self) -> tuple[CaseRecord, ...]:
        """Of these, the ones of the base suite, head's version of it or not."""
        return known_of(self.work)

    @cached_property
    def openings(self) -> tuple[CaseRecord, ...]:
        """Cases that say whether the skill is opened, where they are not all there is to compare (``work``)."""
        if self.work is self.runnable and not ordinary(self.runnable):
            return ()
        return tuple(case for case in self.runnable if case.plan.case.mode != "loaded")

    @cached_property
    def known_openings(self) -> tuple[CaseRecord, ...]:
        """Of these, the ones of the base suite."""
        return known_of(self.openings)

    @cached_property
    def rate(self) -> Share:
        """The authoritative rate."""
        return figures.authoritative(self.cases)

    @cached_property
    def source_rate(self) -> Share:
        """The source's rate, for the letter only."""
        return figures.source_rate(self.head_cases)

    @cached_property
    def lift(self) -> figures.Lift | None:
        """With against without; None where it could not be computed."""
        return figures.lift_of(self.head_cases)

    @cached_property
    def duel(self) -> figures.Duel:
        """Layer 3 over the suite."""
        return figures.duel_of(self.runnable)

    @cached_property
    def triggers(self) -> TriggerFigures | None:
        """The figures of the trigger queries; None where there are none."""
        return trigger_figures(self.cases, self.record.plan.head)

    @cached_property
    def activation(self) -> Share:
        """With-runs that opened the skill, of those that were to decide about it: in which work was asked for, else the
        trigger queries that should open it."""
        work = ordinary(self.runnable)
        return figures.activation(work or [case for case in self.runnable if case.plan.case.trigger])

    @cached_property
    def health(self) -> figures.JudgeHealth:
        """What the controls say about the judge."""
        return figures.judge_health(self.cases)

    @cached_property
    def stored(self) -> tuple[JudgeCalibration, ...] | None:
        """The stored calibration of every model that graded here, by name; None where one of them has none, or none graded."""
        graded = {item.model for item in figures.gradings(self.cases) if item.rows}
        known = {item.model: item for item in self.calibration}
        return tuple(known[name] for name in sorted(graded)) if graded and graded <= set(known) else None

    @property
    def judge_sentence(self) -> str:
        """For the report: what the controls of this session say of the judge, and what is known from before."""
        if not self.needs_judge:
            return "no judge needed: every counted assertion is an exact check"
        before = [figures.stored_sentence(item) for item in self.stored or ()]
        if before and not self.health.answered:
            return "; ".join(["no control was answered in this session", *before])
        return "; ".join([self.health.sentence, *before])

    @cached_property
    def needs_judge(self) -> bool:
        """Whether any expectation counts."""
        return any(item.kind == "expectation" for case in self.runnable for item in weighty(case))

    def waived(self, rule: str) -> Waiver | None:
        """The waiver that accepts a rule for this skill on the run date; an expired or undated one counts for nothing."""
        return next(
            (
                item
                for item in sorted(self.waivers, key=lambda item: (item.expires, item.owner), reverse=True)
                if item.accepts(rule, self.record.plan.change.path, self.run_date)
            ),
            None,
        )


def known_of(cases: tuple[CaseRecord, ...]) -> tuple[CaseRecord, ...]:
    """The cases that do not come with head; the same tuple where that is all of them."""
    known = tuple(case for case in cases if case.plan.origin != "head")
    return cases if len(known) == len(cases) else known
