"""J11: one change of twenty skills. How often is any of them blocked although none got worse?

``python -m tests.bench.many_skills [--small]``. Every skill keeps each case with the same chance on head, on base and
without the skill; a case that fails does so in most runs, never in all, so that only the tests over cases can block.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import cache
from random import Random

from gate.decision.look import Look
from gate.decision.remembered import remembering
from gate.decision.verdict import verdict_of, with_peers
from gate.domain.plan import Enforce, Mode
from gate.domain.report import CaseRecord, Verdict
from gate.settings import Thresholds
from gate.statistics import benjamini_hochberg, holm
from tests.bench._figures import figure, last_line, share, table
from tests.bench._trust import markdown_table, write_section
from tests.builders_records import RUN_DATE, case_record, check, skill_record

NAME = "many_skills"
SKILLS, CASES = 20, 12
KEPT = ["P", "P", "P", "P+"]
MISSED = ["F", "F", "P", "F+"]


@cache
def _case(number: int, head: bool, base: bool, none: bool) -> CaseRecord:
    words = [KEPT if kept else MISSED for kept in (head, base, none)]
    return case_record(str(number), checks=[check("c1", "should")], head=words[0], base=words[1], none=words[2])


def session(rate: float, rng: Random) -> list[Look]:
    """Twenty skills of which none got worse."""
    looks = []
    for _ in range(SKILLS):
        cases = [_case(n, rng.random() < rate, rng.random() < rate, rng.random() < rate) for n in range(CASES)]
        record = skill_record(*cases)
        looks.append(Look(record, Mode.FULL, Enforce.STANDARD, Thresholds(), "warn", False, (), RUN_DATE))
    return looks


def measure(rate: float, sessions: int, rng: Random) -> tuple[int, int]:
    """Sessions in which any skill fails: (each decided with the others, each decided alone)."""
    together = alone = 0
    for _ in range(sessions):
        with remembering():
            looks = session(rate, rng)
            alone += any(verdict_of(look)[0] is Verdict.FAIL for look in looks)
            together += any(verdict_of(look)[0] is Verdict.FAIL for look in with_peers(looks))
    return together, alone


def oracles(rng: Random, repeats: int) -> float:
    """Largest difference of Holm and BH to independent formulas over random p values."""
    from scipy.stats import false_discovery_control

    worst = 0.0
    for _ in range(repeats):
        values = [rng.random() ** 2 for _ in range(rng.randint(1, 40))]
        worst = max(
            worst,
            *(abs(a - b) for a, b in zip(benjamini_hochberg(values), false_discovery_control(values), strict=True)),
        )
        for index, value in enumerate(holm(values)):
            # Closed testing by Bonferroni: the largest k * p(j) over the p values not above this one.
            smaller = [p for p in values if p <= values[index]]
            expected = min(1.0, max(p * sum(other >= p for other in values) for p in smaller))
            worst = max(worst, abs(value - expected))
    return float(worst)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(arguments).small
    sessions, rng = (6 if small else 200), Random(11)
    rows, figures = [], []
    for rate in (0.8,) if small else (0.8, 0.9, 0.97):
        together, alone = measure(rate, sessions, rng)
        rows.append([f"each case kept in {rate:.0%}", f"{together / sessions:.3f}", f"{alone / sessions:.3f}"])
        figures.append(
            share(NAME, together, sessions, f"{SKILLS} skills, cases kept in {rate:.0%}: any false block", goal="<= 0.05", at_most=0.05, baseline_hits=alone)
        )  # fmt: skip
    difference = oracles(rng, 50 if small else 2000)
    figures.append(figure(NAME, difference, "largest difference of Holm and BH to independent formulas", n=2000, goal="<= 1e-9", ok=difference <= 1e-9))  # fmt: skip
    head = [f"{SKILLS} skills, {CASES} cases each", "any false block, Holm over all skills", "each skill by itself"]
    print(table(head, rows))
    if not small:
        write_section(
            NAME, "Many skills in one change (J11)", f"{sessions} sessions a row.\n\n{markdown_table(head, rows)}"
        )
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
