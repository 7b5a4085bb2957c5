"""J6, J7: skills that were sabotaged in one instruction, and the same skills changed in ways that mean nothing.

Every change is judged as a pull request by the gate's own layers (``_judged``): intake, planning, recorded runs, exact
checks, grader with quotes and controls, fill, confirm, decision. No model: an agent that takes its rules from the text of
SKILL.md (``_follower``), a suite made from right answers (``_taught``), a judge that looks up what an expectation names.
What counts as a sabotage is decided without the gate (``_sabotage``). The mean-threshold gate sees the same runs.

Some changes go through the whole pipeline with boxes in memory besides: both ways must say the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gate.audit.operators import OPERATORS
from gate.statistics import clopper_pearson
from tests.bench._figures import figure, last_line, table
from tests.bench._judged import literal_judge, whole_session
from tests.bench._sabotage import CLEAN, FULL, MISS, SEED, SMALL, Came, Picked, further, measured, picked
from tests.bench._taught import taught
from tests.bench._trust import markdown_table, write_section

MEAN = "mean >= .8"
HEAD = [
    "change",
    "n",
    "not passed",
    "share",
    "95 % interval",
    "fail",
    "inconcl.",
    "cond.",
    "invalid",
    "green std",
    "mean gate lets pass",
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few changes, for shape only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--patches", type=Path, metavar="DIR", help="only write the corpus: a patch a change")
    options = parser.parse_args(arguments)
    if options.patches is not None:
        return _write_patches(options.patches)
    size = SMALL if options.small else FULL
    corpus, nothing, results = measured(size, 1 if options.small else options.jobs)
    rows = _rows(results)
    print(table(HEAD, rows))
    for item in results:
        if (item.kind == "check" and item.verdict == "pass") or (item.kind == "neutral" and item.verdict == "fail"):
            print(f"skill {item.skill} {item.operator} ({item.kind}): {item.verdict}: {item.reason[:200]}")
    agree, asked = _agreement(corpus, results, 1 if options.small else 5)
    print(f"whole sessions: {agree} of {asked} say the same")
    further = [] if options.small else _further(corpus, options.jobs)
    figures = _figures(results, agree, asked)
    if not options.small:
        write_section(
            "sabotage",
            "Sabotaged skills and changes that mean nothing (J6, J7)",
            _text(results, nothing, rows, further, agree, asked),
        )
    print(last_line(figures))
    return 0


def _write_patches(folder: Path) -> int:
    for number, item in enumerate(picked(FULL)[0]):
        place = folder / item.kind / f"{number:03d}-skill-{item.skill}-{item.operator.replace(' ', '-')}.patch"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(item.patch, "utf-8")
    return 0


def _rows(results: Sequence[Came]) -> list[list[str]]:
    rows = []
    for operator in OPERATORS:
        own = [item for item in results if item.operator == operator.name and item.kind != "untested"]
        if own:
            rows.append(_row(operator.name, own))
    rows.append(_row(CLEAN, [item for item in results if item.operator == CLEAN]))
    for name, kinds in (
        ("sabotage, a check covers it", ("check",)),
        ("sabotage, only an expectation does", ("expectation",)),
        ("sabotage, all", ("check", "expectation")),
        ("sabotage that no case tests", ("untested",)),
        ("neutral, all", ("neutral",)),
    ):
        rows.append(_row(name, [item for item in results if item.kind in kinds]))
    return rows


def _row(name: str, own: Sequence[Came]) -> list[str]:
    if not own:
        return [name, "0", *["-"] * (len(HEAD) - 2)]
    counts = Counter(item.verdict for item in own)
    caught = len(own) - counts["pass"]
    low, high = clopper_pearson(caught, len(own))
    mean = sum(item.passes[MEAN] for item in own) / len(own)
    green = sum(item.green for item in own) / len(own)
    shares = [f"{counts[name] / len(own):.1%}" for name in ("fail", "inconclusive", "conditional", "invalid")]
    return [
        name, str(len(own)), str(caught), f"{caught / len(own):.1%}", f"{low:.1%} to {high:.1%}", *shares, f"{green:.1%}",
        f"{mean:.1%}",
    ]  # fmt: skip


def _agreement(corpus: Sequence[Picked], results: Sequence[Came], most: int) -> tuple[int, int]:
    """How many of some changes get the same verdict from the whole pipeline, with the same luck."""
    seen: Counter[int] = Counter()
    numbered: list[tuple[Picked, Came, str]] = []
    by_skill: dict[int, list[Came]] = {}
    for result in results:
        by_skill.setdefault(result.skill, []).append(result)
    for item in corpus:
        at = seen[item.skill]
        seen[item.skill] += 1
        numbered.append((item, by_skill[item.skill][at], f"{SEED}/{item.skill}/{at}"))
    step = max(1, len(numbered) // most)
    agree = asked = 0
    for item, result, seed in numbered[::step][:most]:
        whole = whole_session(taught(SEED, item.skill), item.path, item.text, seed=seed, miss=MISS, judge=literal_judge)
        asked += 1
        agree += whole.verdict.value == result.verdict
        if whole.verdict.value != result.verdict:
            print(
                f"whole session differs: skill {item.skill} {item.operator}: {whole.verdict.value} ({whole.reason[:160]}), not {result.verdict}"
            )
    return agree, asked


def _further(corpus: Sequence[Picked], jobs: int) -> list[list[str]]:
    """The same with agents that miss more and with a lenient judge, on some changes."""
    rows = []
    for name, found in further(corpus, jobs).items():
        for kind, kinds in (("sabotage", ("check", "expectation")), ("neutral", ("neutral",))):
            rows.append(_row(f"{name}: {kind}", [item for item in found if item.kind in kinds]))
    return rows


def _figures(results: Sequence[Came], agree: int, asked: int) -> list[dict[str, object]]:
    sabotages = [item for item in results if item.kind in ("check", "expectation")]
    checked = [item for item in results if item.kind == "check"]
    neutral = [item for item in results if item.kind == "neutral"]
    caught = sum(item.verdict != "pass" for item in sabotages)
    sure = sum(item.verdict != "pass" for item in checked)
    failed = sum(item.verdict == "fail" for item in neutral)
    open_ = sum(item.verdict == "inconclusive" for item in neutral)
    mean = sum(not item.passes[MEAN] for item in sabotages) / len(sabotages)
    mean_checked = sum(not item.passes[MEAN] for item in checked) / len(checked)
    return [
        figure("sabotage", caught / len(sabotages), "share of sabotages not passed (J6)", n=len(sabotages), goal=">= 0.95",
               ok=caught >= 0.95 * len(sabotages), baseline=mean, bound=clopper_pearson(caught, len(sabotages))),
        figure("sabotage", sure / len(checked), "of those that a check covers (J6)", n=len(checked), goal="1.0",
               ok=sure == len(checked), baseline=mean_checked, bound=clopper_pearson(sure, len(checked))),
        figure("sabotage", failed / len(neutral), "share of neutral changes FAIL (J7)", n=len(neutral), goal="<= 0.01",
               ok=failed <= 0.01 * len(neutral), bound=clopper_pearson(failed, len(neutral))),
        figure("sabotage", open_ / len(neutral), "share of neutral changes INCONCLUSIVE (J7)", n=len(neutral), goal="<= 0.10",
               ok=open_ <= 0.1 * len(neutral), bound=clopper_pearson(open_, len(neutral))),
        figure("sabotage", agree / asked, "whole sessions with the same verdict", n=asked, goal="1.0", ok=agree == asked),
    ]  # fmt: skip


def _text(
    results: Sequence[Came],
    nothing: Counter[str],
    rows: list[list[str]],
    further: list[list[str]],
    agree: int,
    asked: int,
) -> str:
    skills = len({item.skill for item in results})
    operators = len({item.operator for item in results if item.kind in ("check", "expectation")})
    return (
        f"{skills} skills made from a seed, each with 10 cases; one instruction changed at a time by {operators} harmful and "
        f"{sum(not item.harmful for item in OPERATORS)} neutral operators of `skill-gate mutate`. An agent that reads its rules "
        f"from SKILL.md (`tests/bench/_follower.py`) does the work; it misses each rule in {MISS:.2%} of its runs, keeps a "
        "suggestion in 40 %, and has habits of its own. A change counts as a sabotage where an agent without any luck does other "
        "work by it *and* some assertion of the suite no longer holds; the gate is not asked. "
        f"{sum(nothing.values())} mutants that change no work at all are left out. Rules that no case tests are the row "
        '"no case tests": no gate can see them, and `skill-gate mutate` names them. "Not passed" is every verdict but `pass`. '
        f"{agree} of {asked} changes that went through the whole pipeline too got the same verdict. Patches of the corpus: "
        "`python -m tests.bench.sabotage --patches DIR`.\n\n"
        + markdown_table(HEAD, rows)
        + (
            "\n\nWith suites that test each rule in a few cases only; with worse agents, on every twelfth change; and with a worse "
            "judge, where only an expectation sees the change:\n\n" + markdown_table(HEAD, further)
            if further
            else ""
        )
    )


if __name__ == "__main__":
    sys.exit(main())
