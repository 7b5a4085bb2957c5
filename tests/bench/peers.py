"""Policies of other tools on the same sabotages: same runs, same judge, same seeds, only the decision differs.

``_policies`` holds the policies and says in which tools each was seen; nothing else of these tools is compared by them. A
policy that stops everything has no false pass either: so what it does with changes that mean nothing stands beside it, also
where agents miss a rule now and then. Where a tool can be installed, it is also run itself, on some of the same changes and
cases, with the same scripted agent behind the same server: wall time, calls of the model and what it says, beside a whole
session of the gate.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from gate.statistics import clopper_pearson
from tests.bench._figures import figure, last_line, table
from tests.bench._policies import POLICIES, WHO
from tests.bench._proof import versions_and_rows
from tests.bench._sabotage import FULL, RARE, SMALL, Came, further, measured
from tests.bench._trust import markdown_table, write_section

OURS = "Skill Gate, verdict pass"
GREEN = "Skill Gate, green under standard"
"""``inconclusive`` and ``conditional`` are green there, in words of their own; a policy knows yes and no only."""
OWN = {OURS: lambda item: item.verdict == "pass", GREEN: lambda item: item.green}
HEAD = ["decides by", "false passes", "of sabotages", "share", "95 % interval", "neutral let pass", "times ours"]
HEAD_TOOLS = ["tool", "change", "says", "wall s", "calls of the model"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few changes, for shape only; no tool is installed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    corpus, _, results = measured(SMALL if options.small else FULL, 1 if options.small else options.jobs)
    rows = _rows(results)
    print(table(HEAD, rows))
    figures = [_figure(name, results, "all cases that can test a rule do") for name in POLICIES]
    if not options.small:
        around = dict(further(corpus, options.jobs))
        few = around.pop(RARE)
        head, worlds = _worlds(around)
        print(f"{RARE}:\n{table(HEAD, _rows(few))}\n{table(head, worlds)}")
        figures += [_figure(name, few, RARE) for name in POLICIES]
        notes, tools = versions_and_rows(corpus)
        print("\n".join([*([table(HEAD_TOOLS, tools)] if tools else []), *notes]))
        write_section(
            "peers",
            "Policies of other tools on the same sabotages",
            _text([rows, _rows(few)], head, worlds, notes, tools),
        )
    print(last_line(figures))
    return 0


def _passes(name: str, results: Sequence[Came], *kinds: str) -> list[bool]:
    own = [item for item in results if item.kind in kinds]
    return [OWN[name](item) if name in OWN else item.passes[name] for item in own]


def _wrong(name: str, results: Sequence[Came]) -> list[bool]:
    """Per sabotage that the suite covers, whether it is let through."""
    return _passes(name, results, "check", "expectation")


def _rows(results: Sequence[Came]) -> list[list[str]]:
    return [_row(name, results) for name in (*OWN, *POLICIES)]


def _row(name: str, results: Sequence[Came]) -> list[str]:
    wrong, right = _wrong(name, results), _passes(name, results, "neutral")
    low, high = clopper_pearson(sum(wrong), len(wrong))
    return [
        name, str(sum(wrong)), str(len(wrong)), f"{sum(wrong) / len(wrong):.1%}", f"{low:.1%} to {high:.1%}",
        _share(right), "" if name in OWN else _times(sum(wrong), sum(_wrong(OURS, results))),
    ]  # fmt: skip


def _times(theirs: int, ours: int) -> str:
    if ours:
        return f"{theirs / ours:.1f}"
    return f"ours: 0, theirs: {theirs}"


def _share(passed: Sequence[bool]) -> str:
    return f"{sum(passed) / len(passed):.1%}" if passed else "-"


def _worlds(around: Mapping[str, Sequence[Came]]) -> tuple[list[str], list[list[str]]]:
    """(head, rows) of what is let pass where the agent or the judge is worse."""
    head = ["decides by"]
    for world, found in around.items():
        sabotages, neutral = _wrong(OURS, found), _passes(OURS, found, "neutral")
        head += [f"{world}: sabotages ({len(sabotages)})", f"neutral ({len(neutral)})"]
    rows = [
        [
            name,
            *(
                _share(part)
                for found in around.values()
                for part in (_wrong(name, found), _passes(name, found, "neutral"))
            ),
        ]
        for name in (*OWN, *POLICIES)
    ]
    return head, rows


def _figure(name: str, results: Sequence[Came], where: str) -> dict[str, object]:
    wrong, ours = _wrong(name, results), sum(_wrong(OURS, results))
    n, right = len(wrong), _passes(name, results, "neutral")
    return figure(
        "peers", ours / n, f"false passes, {where}; baseline: {name} (lets {_share(right)} of neutral pass)", n=n,
        goal="<= 0.1 x baseline", ok=0 < sum(wrong) >= 10 * ours, baseline=sum(wrong) / n, bound=clopper_pearson(ours, n),
    )  # fmt: skip


def _text(
    rows: list[list[list[str]]], head: list[str], worlds: list[list[str]], notes: list[str], tools: list[list[str]]
) -> str:
    who = "\n".join(f"- *{name}*: {tool}" for name, tool in WHO.items())
    parts = [
        (
            "The changes and runs of the section on sabotaged skills (J6, J7), decided on by policies as other tools have them. "
            '"False pass": a sabotage that a check or an expectation of the suite covers, and that is let through. The judge of this '
            "table never errs, so that rules about evidence change nothing in it. A policy that stops whatever is not perfect has "
            "few false passes too; what it costs shows where agents are not perfect, in the third table. In these suites every case "
            "that can test a rule does, so that a broken rule fails in most cases:"
        ),
        markdown_table(HEAD, rows[0]),
        f"The same where {RARE}, as authors write them who think of one thing at a time:",
        markdown_table(HEAD, rows[1]),
        (
            "What is let pass where the agent misses rules that it has read, and where the judge errs (half of what it passes "
            "wrongly has a real line for a quote, half a made-up one):"
        ),
        markdown_table(head, worlds),
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
