"""Policies of other tools on the same sabotages: same runs, same judge, same seeds, only the decision differs.

``_policies`` holds the policies and says which tools were seen to decide like that; nothing else of these tools is compared
by them. Where a tool can be installed, it is also run itself, on some of the same changes and cases, with the same scripted
agent behind the same server: wall time, calls of the model and what it says, beside a whole session of the gate.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from gate.statistics import clopper_pearson
from tests.bench._figures import figure, last_line, table
from tests.bench._policies import POLICIES, WHO
from tests.bench._proof import versions_and_rows
from tests.bench._sabotage import FULL, SMALL, Came, measured
from tests.bench._trust import markdown_table, write_section

HEAD = ["decides by", "false passes", "of sabotages", "share", "95 % interval", "neutral let pass", "times ours"]
HEAD_TOOLS = ["tool", "change", "says", "wall s", "calls of the model"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few changes, for shape only; no tool is installed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    corpus, _, results = measured(SMALL if options.small else FULL, 1 if options.small else options.jobs)
    sabotages = [item for item in results if item.kind in ("check", "expectation")]
    neutral = [item for item in results if item.kind == "neutral"]
    rows = [
        _row(
            "Skill Gate",
            [item.verdict == "pass" for item in sabotages],
            [item.verdict == "pass" for item in neutral],
            None,
        )
    ]
    ours = _false_passes(sabotages)
    rows += [
        _row(name, [item.passes[name] for item in sabotages], [item.passes[name] for item in neutral], ours)
        for name in POLICIES
    ]
    print(table(HEAD, rows))
    figures = [_figure(name, sabotages, ours) for name in POLICIES]
    if not options.small:
        notes, tools = versions_and_rows(corpus)
        print(table(HEAD_TOOLS, tools) if tools else "\n".join(notes))
        write_section("peers", "Policies of other tools on the same sabotages", _text(rows, notes, tools))
    print(last_line(figures))
    return 0


def _false_passes(sabotages: Sequence[Came]) -> int:
    return sum(item.verdict == "pass" for item in sabotages)


def _row(name: str, wrong: list[bool], right: list[bool], ours: int | None) -> list[str]:
    low, high = clopper_pearson(sum(wrong), len(wrong))
    times = "" if ours is None else f"{sum(wrong) / ours:.1f}" if ours else f"> {sum(wrong)}" if sum(wrong) else "1"
    return [
        name, str(sum(wrong)), str(len(wrong)), f"{sum(wrong) / len(wrong):.1%}", f"{low:.1%} to {high:.1%}",
        f"{sum(right) / len(right):.1%}" if right else "-", times,
    ]  # fmt: skip


def _figure(name: str, sabotages: Sequence[Came], ours: int) -> dict[str, object]:
    theirs = sum(item.passes[name] for item in sabotages)
    n = len(sabotages)
    return figure(
        "peers", ours / n, f"false passes; baseline: {name}", n=n, goal="<= 0.1 x baseline", ok=ours * 10 <= theirs,
        baseline=theirs / n, bound=clopper_pearson(ours, n),
    )  # fmt: skip


def _text(rows: list[list[str]], notes: list[str], tools: list[list[str]]) -> str:
    who = "\n".join(f"- *{name}*: {tool}" for name, tool in WHO.items())
    parts = [
        (
            'The changes and runs of the table above (J6, J7), decided on by policies as other tools have them. "False pass": a '
            "sabotage that a check or an expectation of the suite covers, and that is let through. A policy that also stops what "
            'means nothing has a low share in the column "neutral let pass".'
        ),
        markdown_table(HEAD, rows),
        f"Seen in:\n\n{who}",
    ]
    if tools:
        parts += [
            "The tools themselves, on some of the same changes with the same scripted agent:",
            markdown_table(HEAD_TOOLS, tools),
        ]
    parts += [f"- {note}" for note in notes]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
