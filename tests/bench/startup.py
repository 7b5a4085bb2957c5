"""From the start of the process to the decision where there is nothing to evaluate: most pull requests change no skill.

``python -m tests.bench.startup [--small]``. Whole processes of ``python entrypoint.py run`` in a repository whose change touches no skill,
one after the other, in turns with the baseline: the same with every provider's and engine's library imported at the start,
as a program does that imports where it stands. Printed beside it: the interpreter alone, and which heavy libraries the path
loaded (none may be).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench._figures import figure, last_line, table
from tests.bench._performance import write_table
from tests.story import gate_environment, make_repository

NAME = "startup"
GOAL_S = 0.5
ABOUT = (__doc__ or "").split("``. ", 1)[1]
ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("docker", "openai", "anthropic", "github", "scipy", "numpy", "dbos", "sqlalchemy", "starlette", "jsonschema")
"""Top-level modules that only a session with runs, models or GitHub needs."""
_EAGER = "anthropic, docker, github, jsonschema, openai, scipy.stats"
_MODULES = "import json, sys\nfrom gate.wiring import main\ncode = main(sys.argv[1:])\nprint(json.dumps([code, sorted(sys.modules)]))\n"


def arguments_for(folder: Path, number: int = 0) -> list[str]:
    """The command line: a change without a skill, judged into a new folder."""
    repository = folder / "repository"
    if not repository.exists():
        make_repository(repository, {"README.md": "text"}, {"notes.txt": "text"})
    return ["run", "--repository", str(repository), "--base", "main", "--out", str(folder / f"out-{number}")]


def heavy_modules(folder: Path) -> list[str]:
    """Which of ``HEAVY`` a whole run with nothing to evaluate has loaded. Raises RuntimeError where it is no success."""
    code, loaded = json.loads(_started(["-c", _MODULES, *arguments_for(folder, -1)])[1])
    if code != 0:
        raise RuntimeError(f"nothing to evaluate ended with {code}")
    return [name for name in HEAVY if name in loaded]


def _started(command: Sequence[str]) -> tuple[float, str]:
    """(seconds from the start of a process to its end, what it printed). Raises CalledProcessError."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=gate_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return time.perf_counter() - began, done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    count = 2 if parser.parse_args(arguments).small else 25
    eager = f"import {_EAGER}\nimport sys\nfrom gate.wiring import main\nsys.exit(main(sys.argv[1:]))\n"
    ours, naive, bare = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            heavy = heavy_modules(folder)
            for number in range(count):
                ours.append(_started(["entrypoint.py", *arguments_for(folder, number)])[0])
                naive.append(_started(["-c", eager, *arguments_for(folder, count + number)])[0])
                bare.append(_started(["-c", "pass"])[0])
        except (subprocess.SubprocessError, RuntimeError) as error:
            print(f"not measured: {error} {getattr(error, 'stderr', '') or ''}")
            return 2
    own, other = statistics.median(ours), statistics.median(naive)
    rows = [
        ["nothing to evaluate, start to decision", f"{1000 * own:.0f}", f"{1000 * max(ours):.0f}"],
        ["the same, all libraries imported", f"{1000 * other:.0f}", f"{1000 * max(naive):.0f}"],
        ["interpreter alone", f"{1000 * statistics.median(bare):.0f}", f"{1000 * max(bare):.0f}"],
    ]
    head = [f"process, {count} times", "median ms", "longest ms"]
    print(table(head, rows))
    print(f"heavy libraries loaded: {', '.join(heavy) or 'none'}")
    if count > 2:
        text = f"{ABOUT}\n\nHeavy libraries loaded: {', '.join(heavy) or 'none'}. Goal: at most {GOAL_S} s."
        write_table(NAME, "What a change without a skill costs", text, head, rows)
    ok = own <= GOAL_S and not heavy
    print(last_line([figure(NAME, own, "s from process start to decision", n=count, goal=f"<= {GOAL_S} s, no heavy library", ok=ok, baseline=other)]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
