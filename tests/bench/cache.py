"""What a second push pays for: a pull request that changes only SKILL.md, and one that changes nothing, with and without cache.

``python -m tests.bench.cache [--small]``. Counted at the scripted model server; agents and judges are scripted, so tokens are
those of short answers, in both columns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gate.cli import main as run_command
from gate.wiring import bind
from tests.bench._figures import figure, going, last_line, table
from tests.bench.cost import CASES, TYPES, agent, repository
from tests.fakes.sandbox import ScriptedSandbox
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import git, make_repository
from tests.unit.execution.world import shell

NAME = "cache"
FEWER = 0.40


class Paid(NamedTuple):
    """What one push cost."""

    calls: int
    tokens: int
    containers: int
    verdict: str


def pushes(kind: str, cases: Sequence[str], *, keep: bool) -> tuple[Paid, Paid, Paid]:
    """A first push, one in which only SKILL.md differs, and one in which nothing does."""
    main, change = repository(kind, cases)
    (skill_md,) = change
    with tempfile.TemporaryDirectory() as name, ScriptedServer(scenario(agent=agent)) as server:
        folder = Path(name)
        where = make_repository(folder / "repository", main, change)
        done = [_push(folder, where, server, 1, keep=keep)]
        text = (where / skill_md).read_text(encoding="utf-8")
        (where / skill_md).write_text(text.replace("Never round.", "Never round a sum."), encoding="utf-8")
        git(where, "commit", "--quiet", "--all", "--message", "another push")
        done += [_push(folder, where, server, number, keep=keep) for number in (2, 3)]
    first, second, third = done
    return first, second, third


def _push(folder: Path, repository_folder: Path, server: ScriptedServer, number: int, *, keep: bool) -> Paid:
    going(NAME, f"push {number} of 3, {'with' if keep else 'without'} a cache")
    out = folder / f"bundle-{number}"
    before = len(server.requests)
    with ScriptedSandbox(shell()) as sandbox:
        app = bind({"OPENAI_API_KEY": "key"}, threading.Event())
        run_command(
            replace(app, make_sandbox=lambda: sandbox, say=lambda text: None, abort=lambda: None),
            [
                "run", "--repository", str(repository_folder), "--base", "main", "--out", str(out), "--jobs", "2",
                "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge",
                *(("--cache", str(folder / "cache")) if keep else ("--no-cache",)),
            ],
        )  # fmt: skip
        boxes = len(sandbox.boxes)
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    tokens = sum(use["known_input_tokens"] + use["known_output_tokens"] for use in report["usage"])
    return Paid(len(server.requests) - before, tokens, boxes, report["skills"][0]["verdict"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(arguments).small
    rows, figures = [], []
    for kind in TYPES[:1] if small else TYPES:
        cases = CASES[:2] if small else CASES
        kept, plain = pushes(kind, cases, keep=True), pushes(kind, cases, keep=False)
        if not plain[1].tokens or kept[1].verdict != plain[1].verdict:
            print(f"{kind}: not measured: the verdicts differ ({kept[1].verdict}, {plain[1].verdict})")
            return 2
        for what, with_cache, without in (("SKILL.md changed", kept[1], plain[1]), ("unchanged", kept[2], plain[2])):
            rows.append(
                [kind, what, f"{with_cache.calls} / {without.calls}", f"{with_cache.tokens:,} / {without.tokens:,}",
                 f"{with_cache.containers} / {without.containers}"]
            )  # fmt: skip
        share = kept[1].tokens / plain[1].tokens
        figures.append(
            figure(NAME, kept[1].tokens, f"tokens of a push in which only SKILL.md changed, {kind}", n=len(cases),
                   goal=f"ratio <= {1 - FEWER}", ok=share <= 1 - FEWER, baseline=float(plain[1].tokens))
        )  # fmt: skip
        free = kept[2].calls + kept[2].containers
        figures.append(
            figure(NAME, free, f"model calls and containers of an unchanged skill, {kind}", n=len(cases), goal="0",
                   ok=free == 0, baseline=float(plain[2].calls + plain[2].containers))
        )  # fmt: skip
    print(table(["skill type", "second push", "calls with / without cache", "tokens", "run containers"], rows))
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
