"""The corpus of changed skills and what becomes of each: shared by ``sabotage`` and ``peers``.

Operators are those of ``skill-gate mutate``. A harmful mutant is a sabotage where an agent that keeps every rule does other
work by its text, and the suite has an assertion that no longer holds then (``_taught.broken_by``, which asks nothing of the
gate). Mutants that break nothing are left out, as in every mutation test, and mutants of rules that no case tests are
counted apart. What is drawn depends on the seed and on the operators only.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from gate.audit.mutants import Mutant
from gate.audit.operators import OPERATORS, mutants_of
from gate.domain.base import sha256_hex
from gate.domain.plan import Enforce
from gate.domain.report import State
from tests.bench._judged import Judging, judged, lenient_judge, literal_judge
from tests.bench._policies import POLICIES
from tests.bench._taught import Taught, broken_by, taught
from tests.bench._trust import ROOT, code_digest

SEED = "sabotage 1"
MISS = 0.0005
"""How often an agent with a good text misses one rule: that of ``gate.audit.simulate.World``."""
CLEAN = "clean run again"


@dataclass(frozen=True)
class Size:
    """How much is done."""

    skills: int
    sabotages: int
    """Of an operator, at most."""
    neutral: int
    clean: int
    untested: int


FULL = Size(skills=60, sabotages=23, neutral=35, clean=40, untested=20)
FEW_CASES = Size(skills=60, sabotages=12, neutral=12, clean=12, untested=0)
SMALL = Size(skills=4, sabotages=1, neutral=1, clean=1, untested=1)


@dataclass(frozen=True)
class Picked:
    """One changed skill. Neither the agent nor the gate sees more of it than ``path`` and ``text``."""

    skill: int
    operator: str
    kind: str
    """``check``, ``expectation``, ``untested`` or ``neutral``."""
    path: str
    text: str
    patch: str
    rare: bool = False
    """Whether a rule is tested by few of the skill's cases (``taught``)."""


@dataclass(frozen=True)
class Came:
    """What became of it."""

    skill: int
    operator: str
    kind: str
    verdict: str
    green: bool
    """Under ``standard``."""
    strict: bool
    runs: int
    reason: str
    passes: dict[str, bool]
    """Policy of another tool -> whether it lets the change pass."""


def measured(size: Size, jobs: int) -> tuple[list[Picked], Counter[str], list[Came]]:
    """The corpus, mutants that break nothing, and what became of each; what another bench found by the same code is kept."""
    corpus, nothing = picked(size)
    if size != FULL:
        return corpus, nothing, came(corpus, jobs=jobs)
    return corpus, nothing, _kept("sabotage", lambda: came(corpus, jobs=jobs))


@dataclass(frozen=True)
class Around:
    """Where some of the changes are judged once more: with worse agents, or with a worse judge."""

    name: str
    miss: float
    true_fail: float
    """How often the judge fails what does not hold."""


AROUND = (
    Around("agent misses a rule in 1 % of runs", 0.01, 1.0),
    Around("agent misses a rule in 5 % of runs", 0.05, 1.0),
    Around("judge passes 40 % of what does not hold", MISS, 0.6),
)


RARE = "1 to 3 of 10 cases test a rule"


def further(corpus: Sequence[Picked], jobs: int) -> dict[str, list[Came]]:
    """By name of ``AROUND``, what became of some changes of the full corpus; kept as those of ``measured`` are.

    Of every twelfth change; where the judge errs, of sabotages that only an expectation sees: it has no say in others. And
    under ``RARE`` a corpus of its own.
    """
    neutral = [item for item in corpus if item.kind == "neutral"]
    judged_ones = [item for item in corpus if item.kind == "expectation"]
    few = picked(FEW_CASES, rare=True)[0]
    found = {RARE: _kept("sabotage-few", lambda: came(few, jobs=jobs))}
    for number, world in enumerate(AROUND):
        some = corpus[::12] if world.true_fail == 1 else [*judged_ones[::2], *neutral[::12]]
        found[world.name] = _kept(
            f"sabotage-{number}", partial(came, some, miss=world.miss, true_fail=world.true_fail, jobs=jobs)
        )
    return found


def _kept(name: str, made: Callable[[], list[Came]]) -> list[Came]:
    """What another bench found by the same code, else what is made now."""
    own = [
        Path(__file__).with_name(f"_{part}.py")
        for part in ("follower", "taught", "judged", "naive", "policies", "sabotage")
    ]
    key = sha256_hex(repr((code_digest(), [sha256_hex(path.read_bytes()) for path in own])).encode())[:16]
    kept = ROOT / ".cache" / f"{name}-{key}.json"
    if kept.is_file():
        return [Came(**item) for item in json.loads(kept.read_text("utf-8"))]
    results = made()
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps([asdict(item) for item in results]), "utf-8")
    return results


def picked(size: Size, seed: str = SEED, *, rare: bool = False) -> tuple[list[Picked], Counter[str]]:
    """The corpus, and how many mutants of each operator break nothing at all."""
    taken: Counter[tuple[str, str]] = Counter()
    nothing: Counter[str] = Counter()
    found: list[Picked] = []
    for number in range(size.skills):
        skill = taught(seed, number, rare=rare)
        groups: dict[str, list[Mutant]] = defaultdict(list)
        for mutant in mutants_of(skill.skill):
            groups[mutant.operator].append(mutant)
        for operator in OPERATORS:
            own = groups[operator.name]
            Random(f"{seed}/{number}/{operator.name}").shuffle(own)
            here: Counter[str] = Counter()
            most = size.sabotages if operator.harmful else size.neutral
            if taken[operator.name, "sabotage" if operator.harmful else "neutral"] >= most:
                continue
            for mutant in own:
                kind = _kind(skill, mutant)
                if kind == "nothing":
                    nothing[operator.name] += 1
                    continue
                counted = "sabotage" if kind in ("check", "expectation") else kind
                most = {"sabotage": size.sabotages, "neutral": size.neutral}.get(counted, size.untested)
                room = taken["", "untested"] if counted == "untested" else taken[operator.name, counted]
                if here[kind] or room >= most:
                    continue  # one of a kind from each skill, so that many skills are in it
                here[kind] += 1
                taken["" if counted == "untested" else operator.name, counted] += 1
                found.append(
                    Picked(number, operator.name, kind, mutant.path, mutant.after, mutant.patch(skill.folder), rare)
                )
        if taken["", "clean"] < size.clean:
            taken["", "clean"] += 1
            found.append(Picked(number, CLEAN, "neutral", "SKILL.md", skill.text, "", rare))
    return found, nothing


def _kind(skill: Taught, mutant: Mutant) -> str:
    if not mutant.harmful:
        return "neutral"  # by what was done to the text; whether an agent minds is what is measured
    if mutant.operator == "corrupt-front-matter":
        return "check"  # no agent can open it
    if mutant.path != "SKILL.md":
        return broken_by(skill, skill.text, mutant.after)
    return broken_by(skill, mutant.after)


def came(
    corpus: Sequence[Picked], *, seed: str = SEED, miss: float = MISS, true_fail: float = 1.0, jobs: int = 1
) -> list[Came]:
    """Judge every change. ``true_fail``: how often the judge fails what does not hold; 1: a judge that never errs."""
    groups: dict[int, list[Picked]] = defaultdict(list)
    for item in corpus:
        groups[item.skill].append(item)
    work = [(group, seed, miss, true_fail) for group in groups.values()]
    if jobs == 1:
        return _gathered(map(_group, work), len(corpus))
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return _gathered(pool.imap(_group, work), len(corpus))


def _gathered(groups: Iterable[list[Came]], total: int) -> list[Came]:
    found: list[Came] = []
    begin = time.monotonic()
    for group in groups:
        found += group
        took = time.monotonic() - begin
        left = took / len(found) * (total - len(found)) / 60
        print(
            f"{len(found)} of {total} changes judged in {took:.0f} s, about {left:.0f} min left",
            file=sys.stderr,
            flush=True,
        )
    return found


def _group(work: tuple[list[Picked], str, float, float]) -> list[Came]:
    group, seed, miss, true_fail = work
    skill = taught(seed, group[0].skill, rare=group[0].rare)
    judge = literal_judge if true_fail == 1 else lenient_judge(seed, true_fail)
    found = []
    with Judging(skill, judge, noisy=true_fail < 1) as judging:
        for at, item in enumerate(group):
            # The number in the corpus, not the operator: luck must not know what was done.
            own = f"{seed}/{item.skill}/{at}"
            result = judged(judging, item.path, item.text, seed=own, miss=miss)
            found.append(
                Came(
                    skill=item.skill,
                    operator=item.operator,
                    kind=item.kind,
                    verdict=result.verdict.value,
                    green=result.states[Enforce.STANDARD] is State.SUCCESS,
                    strict=result.states[Enforce.STRICT] is State.SUCCESS,
                    runs=len(result.runs),
                    reason=result.reason,
                    passes={name: policy(result, own) for name, policy in POLICIES.items()},
                )
            )
    return found
