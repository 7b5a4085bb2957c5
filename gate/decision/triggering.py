"""Whether agents open the skill when they should: precision and recall over its trigger queries, each with its counts.

A query counts as opening where the skill was opened in more than half of its completed runs. Both rates are over distinct
queries, never over runs: a query that was asked three times is one query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gate.decision.figures import activation
from gate.decision.remembered import remembered
from gate.decision.triage import shorten, usable_runs
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord, Share, TriggerFigures
from gate.domain.skill import Skill

NEAR_WORDS = 2
"""Words that a query must share with the skill's name and description to be a near miss."""
_WORD = re.compile(r"\w{4,}")
_SHOWN = 120


def is_trigger(case: CaseRecord) -> bool:
    """Whether a case is a trigger query."""
    return case.plan.case.trigger is not None


def ordinary(cases: Iterable[CaseRecord]) -> tuple[CaseRecord, ...]:
    """The cases in which work is asked for."""
    return tuple(case for case in cases if not is_trigger(case))


@remembered
def opened(case: CaseRecord, arm: Arm = Arm.WITH_SKILL) -> bool | None:
    """Whether the skill was opened in more than half of an arm's completed runs; None without one, and for a draw."""
    runs = [run for run in usable_runs(case, arm) if run.record.completed]
    count = sum(run.record.metrics.activated for run in runs)
    return None if not runs or 2 * count == len(runs) else 2 * count > len(runs)


def trigger_figures(cases: Sequence[CaseRecord], skill: Skill | None) -> TriggerFigures | None:
    """The figures of a skill's trigger queries; None where it has none.

    Where no query opened the skill, and no other run that was offered it did either, the harness is what failed: then
    there is a reason in ``harness_failure`` and no rate at all ("0 everywhere" is no result).
    """
    queries = [case for case in cases if is_trigger(case) and case.plan.blocked is None]
    if not queries:
        return None
    told = [(case, opened(case)) for case in queries]
    yes = [(case, was) for case, was in told if case.plan.case.trigger and was is not None]
    no = [(case, was) for case, was in told if not case.plan.case.trigger and was is not None]
    hits, alarms = sum(was for _, was in yes), sum(was for _, was in no)
    near = [(case, was) for case, was in no if _is_near(case.plan.case.prompt, skill)]
    offered = [case for case in ordinary(cases) if case.plan.case.mode == "offered"]
    failure = None
    if yes and not hits and not alarms and not activation(offered).passed:
        failure = (
            f"none of {len(yes)} queries that should open the skill did, and no other run opened it either: that is what a "
            "broken set-up looks like, so it is no figure of the skill"
        )
    nothing = Share(passed=0, total=0)
    return TriggerFigures(
        asked=len(queries),
        answered=len(yes) + len(no),
        recall=Share(passed=hits, total=len(yes)) if failure is None else nothing,
        precision=Share(passed=hits, total=hits + alarms),
        left_alone=Share(passed=len(no) - alarms, total=len(no)) if failure is None else nothing,
        near_misses=Share(passed=sum(not was for _, was in near), total=len(near)) if failure is None else nothing,
        missed=tuple(_shown(case) for case, was in yes if not was) if failure is None else (),
        false_alarms=tuple(_shown(case) for case, was in no if was),
        harness_failure=failure,
    )


def _shown(case: CaseRecord) -> str:
    return shorten(case.plan.case.prompt, _SHOWN)


def _is_near(query: str, skill: Skill | None) -> bool:
    if skill is None:
        return False
    own = set(_WORD.findall(f"{skill.name} {skill.description}".casefold()))
    return len(own & set(_WORD.findall(query.casefold()))) >= NEAR_WORDS


def trigger_words(found: TriggerFigures) -> str:
    """The figures in one sentence without a full stop."""
    if found.harness_failure is not None:
        return f"trigger queries: {found.harness_failure}"
    parts = [_counted("recall", found.recall), _counted("precision", found.precision)]
    if found.near_misses.total:
        parts.append(f"{found.near_misses.passed} of {found.near_misses.total} near misses left alone")
    if not found.left_alone.total:
        parts.append("no query that should leave it alone, so nothing is known about being opened too often")
    silent = found.asked - found.answered
    if silent:
        parts.append(f"{silent} without a clear answer")
    return f"trigger queries: {', '.join(parts)}"


def _counted(name: str, share: Share) -> str:
    return f"{name} {share.passed}/{share.total}" if share.total else f"{name} unknown"


def trigger_reasons(found: TriggerFigures | None, threshold: float) -> list[str]:
    """What about its trigger queries keeps a skill from a pass: a rate under the threshold, or none at all."""
    if found is None:
        return []
    if found.harness_failure is not None:
        return [trigger_words(found)]
    reasons = []
    if found.recall.rate is not None and found.recall.rate < threshold:
        reasons.append(
            f"the skill is not opened when it should be: recall {found.recall.passed}/{found.recall.total}, under "
            f"{threshold:.2f}; missed: {_listed(found.missed)}"
        )
    if found.precision.rate is not None and found.precision.rate < threshold:
        reasons.append(
            f"the skill is opened when it should not be: precision {found.precision.passed}/{found.precision.total}, under "
            f"{threshold:.2f}; opened for: {_listed(found.false_alarms)}"
        )
    return reasons


def _listed(queries: Sequence[str], limit: int = 3) -> str:
    more = len(queries) - limit
    return "; ".join(f'"{query}"' for query in queries[:limit]) + (f" and {more} more" if more > 0 else "")
