"""Trigger queries as cases: one short run each, which ends as soon as it is known whether the agent opens the skill.

A query is asked with the skill offered as hosts offer it, by name and description. Its one exact check is ``skill_opened``.
"""

from __future__ import annotations

from gate.domain.base import Severity, sha256_hex
from gate.domain.checks import Check, SkillOpened
from gate.domain.plan import Limits
from gate.domain.skill import Skill
from gate.domain.suite import Case, CaseType, Suite, TriggerCase

MOST_QUERIES = 40
"""Of a suite, in a session. The largest sets that were seen hold some hundred, and each query is a run in a sandbox."""
LIMITS = Limits(steps=4, seconds=60, command_seconds=30)
"""One turn is the rule: agents open a skill first or not at all. Those that look around before get three more."""
CHECK_ID = "opened"


def trigger_cases(
    suite: Suite | None, *, draw: str, most: int = MOST_QUERIES, but: frozenset[str] = frozenset()
) -> tuple[tuple[Case, ...], int]:
    """(cases of a suite's trigger queries, how many queries were left out).

    A query that is there twice with the same answer is one; where there are more than ``most``, a sample is drawn, half of
    it queries that should open the skill as far as there are enough. ``draw`` (the session's id, which nobody knows who
    writes queries) decides which: nobody moves a bad query out of sight by its place, or by others with luckier digests.
    ``but``: digests of queries that are asked already, which have no part in it.
    """
    if suite is None:
        return (), 0
    unique = {(item.query.strip(), item.should_trigger): item for item in reversed(suite.triggers)}
    queries = sorted(
        (item for item in unique.values() if digest_of_query(item) not in but),
        key=lambda item: sha256_hex(f"{draw}\0{digest_of_query(item)}".encode("utf-8", "surrogatepass")),
    )
    positive = [item for item in queries if item.should_trigger]
    kept = _sample(positive, [item for item in queries if not item.should_trigger], most)
    taken = {case.eval_id for case in suite.cases}
    cases = []
    for item in suite.triggers:
        if item in kept:
            kept.remove(item)
            cases.append(_case(item, taken))
    return tuple(cases), len(queries) - len(cases)


def _sample(positive: list[TriggerCase], negative: list[TriggerCase], most: int) -> list[TriggerCase]:
    half = most // 2
    few = min(len(negative), half) if len(negative) < len(positive) else most - min(len(positive), half)
    return [*positive[: most - few], *negative[:few]]


def _case(item: TriggerCase, taken: set[str]) -> Case:
    stem = item.id if item.id.startswith("trigger") else f"trigger-{item.id}"
    eval_id, number = stem, 2
    while eval_id in taken:
        eval_id, number = f"{stem}-{number}", number + 1
    taken.add(eval_id)
    check = Check(
        id=CHECK_ID,
        severity=Severity.SHOULD,
        description=f"the skill is {'opened' if item.should_trigger else 'left alone'}",
        parameters=SkillOpened(opened=item.should_trigger),
    )
    case = Case(
        eval_id=eval_id,
        prompt=item.query,
        type=CaseType.ATOMIC if item.should_trigger else CaseType.NEGATIVE,
        checks=(check,),
        trigger=item.should_trigger,
        line=item.line,
    )
    return case.model_copy(update={"digest": trigger_digest(case)})


def trigger_digest(case: Case) -> str:
    """What makes two trigger queries the same: the query and what it should do."""
    return _digest(case.prompt, bool(case.trigger))


def digest_of_query(item: TriggerCase) -> str:
    """As ``trigger_digest``, of a query that is no case."""
    return _digest(item.query, item.should_trigger)


def _digest(query: str, should: bool) -> str:
    return sha256_hex(f"{should}\0{query.strip()}".encode("utf-8", "surrogatepass"))


def same_listing(one: Skill, other: Skill) -> bool:
    """Whether two versions of a skill look the same to an agent that has opened neither."""
    return (one.name, one.description) == (other.name, other.description)
