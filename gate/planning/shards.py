"""A plan cut into shards for a job matrix: all arms and runs of a case stay together, the longest cases go first."""

from __future__ import annotations

import re
from typing import NamedTuple

from gate.domain.plan import Plan, SkillPlan
from gate.errors import ConfigurationError

MOST_SHARDS = 256
"""GitHub starts at most as many jobs of one matrix."""
_SHARD = re.compile(r"([1-9]\d{0,2})/([1-9]\d{0,2})")


class Shard(NamedTuple):
    """One part of a plan, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def parse_shard(text: str) -> Shard:
    """``2/4`` as a Shard. Raises ConfigurationError."""
    found = _SHARD.fullmatch(text)
    if found is None or not int(found[1]) <= int(found[2]) <= MOST_SHARDS:
        raise ConfigurationError(
            f"{text!r} is no shard.", remedy=f"Write NUMBER/COUNT, such as 2/4; at most {MOST_SHARDS} shards."
        )
    return Shard(int(found[1]), int(found[2]))


class Unit(NamedTuple):
    """A case that runs: what no shard divides."""

    slug: str
    eval_id: str


def units(plan: Plan) -> list[tuple[int, Unit]]:
    """(weight, case) of every case that runs, heaviest first; the weight is the number of model turns that it may take."""
    found = []
    for skill in plan.skills:
        if skill.not_measured is None:
            for case in skill.cases:
                weight = sum(arm.runs * arm.limits.steps for arm in case.arms)
                if weight:
                    found.append((weight, Unit(skill.slug, case.case.eval_id)))
    return sorted(found, key=lambda item: (-item[0], item[1]))


def shards(plan: Plan, count: int) -> list[frozenset[Unit]]:
    """``count`` sets of cases, by the greedy rule for parallel machines (Graham 1969): the next heaviest goes where least is.

    The same plan always gives the same shards. Raises ConfigurationError for more shards than cases, or than GitHub starts.
    """
    heaviest = units(plan)
    if not 1 <= count <= min(MOST_SHARDS, max(1, len(heaviest))):
        raise ConfigurationError(
            f"{len(heaviest)} case{'' if len(heaviest) == 1 else 's'} cannot be cut into {count} shards.",
            remedy=f"Ask for 1 to {min(MOST_SHARDS, max(1, len(heaviest)))} shards.",
        )
    loads = [0] * count
    chosen: list[set[Unit]] = [set() for _ in range(count)]
    for weight, unit in heaviest:
        least = min(range(count), key=lambda index: (loads[index], index))
        loads[least] += weight
        chosen[least].add(unit)
    return [frozenset(unit_set) for unit_set in chosen]


def part_of(plan: Plan, shard: Shard) -> Plan:
    """The plan with the cases of one shard only; every skill stays, so that all shards speak of the same session."""
    own = shards(plan, shard.of)[shard.number - 1]

    def cut(skill: SkillPlan) -> SkillPlan:
        cases = tuple(case for case in skill.cases if Unit(skill.slug, case.case.eval_id) in own)
        return skill.model_copy(update={"cases": cases})

    return plan.model_copy(update={"skills": tuple(cut(skill) for skill in plan.skills)})
