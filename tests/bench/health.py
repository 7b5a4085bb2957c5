"""J19: what the controls say about a judge, and whether it is right; in English and in Chinese (J21).

A judge of known TPR and TNR answers the controls and the expectations of recorded runs. Measured: whether the rate that is
corrected for its errors covers the true one; whether a judge that lets three false statements in four pass is noticed
within five runs; whether a batch in which a false control passed is ever counted. The naive variants: the rate that the
judge gives, with its own exact interval; a gate without controls.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from gate.domain.chat import ChatRequest
from gate.domain.judgement import GradeStatus, Grading
from gate.domain.seeding import SessionSeed
from gate.judging.grader import grade_run
from gate.statistics import clopper_pearson, corrected_rate
from tests.bench._figures import figure, last_line, share, table
from tests.builders_judging import Call, a_run, expecting, graded, judged_by, lines_of, row, rows_of

RESPONSES = {"en": "All done, and the total is 1250.", "zh": "已经全部完成，合计为 1250 元整。"}  # noqa: RUF001
TEXTS = {"en": "The answer explains why the order was refused.", "zh": "回答解释了订单被拒绝的原因。"}
FLAGGED_WITHIN = 5
GRID = tuple(itertools.product((0.1, 0.5, 0.8, 0.95), (0.8, 0.96, 1.0), (0.6, 0.9, 1.0), (20, 100)))
CONTROLS = (20, 40)
"""Known-true and known-false ones, as ten cases of two runs give."""


def coverage(draws: int, seed: int) -> tuple[list[float], list[float], int, int]:
    """(coverage of the corrected rate by place of the grid, of the naive one, refused, drawn)."""
    rng = random.Random(seed)
    corrected, naive = [], []
    refused = 0
    for theta, tpr, tnr, runs in GRID:
        passing = theta * tpr + (1 - theta) * (1 - tnr)
        hits = naive_hits = counted = 0
        for _ in range(draws):
            passed = _binomial(rng, runs, passing)
            found = corrected_rate(
                passed,
                runs,
                true_passed=_binomial(rng, CONTROLS[0], tpr),
                true_asked=CONTROLS[0],
                false_failed=_binomial(rng, CONTROLS[1], tnr),
                false_asked=CONTROLS[1],
            )
            if found is None:
                refused += 1
                continue
            counted += 1
            hits += found.low - 1e-12 <= theta <= found.high + 1e-12
            low, high = clopper_pearson(passed, runs)
            naive_hits += low <= theta <= high
        corrected.append(hits / counted)
        naive.append(naive_hits / counted)
    return corrected, naive, refused, draws * len(GRID)


def _binomial(rng: random.Random, count: int, p: float) -> int:
    return sum(rng.random() < p for _ in range(count))


def lenient(rng: random.Random, tpr: float, tnr: float, said: list[bool]) -> Callable[[ChatRequest], str]:
    """A judge that passes what is true with one chance and what is false with another; it quotes what is there.

    ``said`` gets what it says of the expectation, question by question.
    """

    def reply(request: ChatRequest) -> str:
        rows = []
        for item in rows_of(request):
            wrong = item.is_false_control or item.text in TEXTS.values()
            passes = rng.random() < ((1 - tnr) if wrong else tpr)
            if item.text in TEXTS.values():
                said.append(passes)
            rows.append(row(item.id, "pass" if passes else "fail", lines_of(request)[0]))
        return graded(rows)

    return reply


def noticed(folder: Path, language: str, judges: int, rng: random.Random) -> tuple[int, int, int]:
    """(judges noticed within five runs, false passes that count, false passes of a gate without controls)."""
    record = a_run(folder, response=RESPONSES[language], calls=[Call("bash", {"command": "python3 total.py"}, "1250")])
    case = expecting(TEXTS[language])
    flagged = counted = naive = 0
    for _ in range(judges):
        seen = False
        for _ in range(FLAGGED_WITHIN):
            seed = SessionSeed(f"{rng.getrandbits(256):064x}")
            said: list[bool] = []
            models, ledger, _ = judged_by(lenient(rng, 0.96, 0.25, said))
            grading = grade_run(case, record, None, root=folder, models=models, ledger=ledger, seed=seed)
            seen = seen or any(item.voided for item in grading.controls)
            passed = grading.rows[0].status is GradeStatus.PASSED
            counted += passed and _fooled(grading)
            naive += said[0]
        flagged += seen
    return flagged, counted, naive


def _fooled(grading: Grading) -> bool:
    """Whether a false control passed in a batch that counts."""
    return any(not item.known and item.model_said is True and not item.voided for item in grading.controls)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few draws, for the shape only")
    small = parser.parse_args(arguments).small
    draws, judges = (10, 5) if small else (500, 100)
    corrected, naive, refused, drawn = coverage(draws, 20260131)
    mean, mean_naive = sum(corrected) / len(corrected), sum(naive) / len(naive)
    rng = random.Random(20260131)
    with tempfile.TemporaryDirectory() as folder:
        found = {language: noticed(Path(folder) / language, language, judges, rng) for language in RESPONSES}
    weakest = sorted(zip(corrected, naive, GRID, strict=True))[:8]
    print(
        table(
            ["true rate, TPR, TNR, runs", "covered", "naive"],
            [[str(where), f"{one:.3f}", f"{two:.3f}"] for one, two, where in weakest],
        )
    )
    print(
        f"\nrefused, because TPR + TNR - 1 is under .3: {refused} of {drawn}; lowest coverage: {min(corrected):.3f}\n"
    )
    print(
        table(
            ["language", "judges noticed", "counted with a fooled control"],
            [[name, f"{a}/{judges}", b] for name, (a, b, _) in found.items()],
        )
    )
    figures = [
        figure(
            "health",
            mean,
            "mean coverage of the corrected rate's 95 % interval",
            n=drawn - refused,
            goal=">= 0.94",
            ok=mean >= 0.94,
            baseline=mean_naive,
        ),
        *(
            figure(
                "health",
                flagged / judges,
                f"TNR .25 judges noticed within {FLAGGED_WITHIN} runs, {name}",
                n=judges,
                goal=">= 0.95",
                ok=flagged / judges >= 0.95,
                baseline=0.0,
                bound=clopper_pearson(flagged, judges),
            )
            for name, (flagged, _, _) in found.items()
        ),
        share(
            "health",
            sum(item[1] for item in found.values()),
            judges * FLAGGED_WITHIN * 2,
            "passes in a batch with a fooled control",
            goal="0",
            at_most=0,
            baseline_hits=sum(item[2] for item in found.values()),
        ),
    ]
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
