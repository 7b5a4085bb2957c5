"""The last line of a bench: its figures as JSON, one object or a list (DESIGN.md 10)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gate.statistics import clopper_pearson

if TYPE_CHECKING:
    import pytest


def figure(
    bench: str,
    value: float,
    unit: str,
    *,
    n: int,
    goal: str,
    ok: bool,
    baseline: float | None = None,
    bound: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """One figure in the shape that every bench prints. ``ratio`` is the figure over the baseline, where that is not 0."""
    return {
        "bench": bench,
        "figure": value,
        "unit": unit,
        "baseline": baseline,
        "ratio": value / baseline if baseline else None,
        "bound": list(bound) if bound else None,
        "n": n,
        "goal": goal,
        "ok": ok,
    }


def share(
    bench: str, hits: int, n: int, unit: str, *, goal: str, at_most: float, baseline_hits: int | None = None
) -> dict[str, Any]:
    """A share of ``n`` with its exact 95 % interval; ok where the share itself is at most ``at_most``."""
    return figure(
        bench,
        hits / n,
        unit,
        n=n,
        goal=goal,
        ok=hits / n <= at_most,
        baseline=None if baseline_hits is None else baseline_hits / n,
        bound=clopper_pearson(hits, n),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned by spaces; the first to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def last_line(figures: Sequence[dict[str, Any]]) -> str:
    """The line that machines read."""
    return json.dumps(figures[0] if len(figures) == 1 else list(figures), ensure_ascii=False)


def last_figures(capsys: pytest.CaptureFixture[str]) -> Any:
    """What a bench that a test ran printed last. All that it printed is printed again: a figure that is wrong is explained by
    what stood before it."""
    said = capsys.readouterr().out
    print(said)
    return json.loads(said.splitlines()[-1])


def going(bench: str, text: str) -> None:
    """How far a bench is, for whoever waits: on standard error, where no figure is."""
    print(f"{time.strftime('%H:%M:%S')} {bench}: {text}", file=sys.stderr, flush=True)
