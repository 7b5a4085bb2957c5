"""From the start of the process to the decision where there is nothing to evaluate: most pull requests change no skill.

``python -m tests.bench.startup [--small]``. Whole processes of ``skill-gate run`` in a repository whose change touches no skill,
one after the other, started as the image starts them: an isolated interpreter (``-I``) with the gate and its libraries on the path,
and with bytecode, which an earlier process left here and the build leaves there. What a development install adds to the start of
every interpreter (a hook that finds the editable package, 20 to 30 ms) is not in the image and is left out (``-S``).
Measured is the time from before the process is made until ``report.json`` is written, which holds the decision (by the file's
time stamp, so from outside; kernels stamp files by a clock that may be 4 ms behind), and until the process has ended, with every
form of the report rendered and the bundle sealed; and the processor time of the whole, its git commands included, which says more
where other programs keep the machine busy. In turns with it: the same with every provider's and engine's library and
every module of the gate and its reporters imported at the start, as a program does that imports where it stands, and the
interpreter alone. Printed beside it: which heavy libraries, and which rooms of the gate that only runs need, the path
loaded (none may be).
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench._figures import figure, last_line, table
from tests.bench._performance import write_table
from tests.story import gate_environment, make_repository

NAME = "startup"
GOAL_S = 0.5
ABOUT = (__doc__ or "").split("``. ", 1)[1]
ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    # Libraries that only a session with runs, models or GitHub needs.
    "docker", "openai", "anthropic", "github", "scipy", "numpy", "dbos", "sqlalchemy", "starlette", "jsonschema", "matplotlib",
    # What runs, asks, judges or serves; and what reads a skill.
    "gate.execution", "gate.judging", "gate.service", "gate.audit", "gate.pipeline.measuring", "gate.pipeline.contracting",
    "gate.pipeline.null_session", "gate.planning.contract", "gate.intake.suite", "gate.intake.manifests", "gate.intake.scan",
    "gate.cli.action", "gate.cli.serve", "gate.cli.desk", "gate.cli.doctor", "gate.cli.mutate",
)  # fmt: skip
"""Modules that no start needs before it knows that there is something to do."""
_EAGER = """
import importlib, pkgutil, sys
import anthropic, docker, github, jsonschema, openai, scipy.stats
import gate, reporters
for package in (gate, reporters):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if "_worker" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
from gate.wiring import main
sys.exit(main(sys.argv[1:]))
"""
_OWN = "import sys\nfrom gate.wiring import main\nsys.exit(main(sys.argv[1:]))\n"
"""What entrypoint.py says."""
_MODULES = "import json, sys\nfrom gate.wiring import main\ncode = main(sys.argv[1:])\nprint(json.dumps([code, sorted(sys.modules)]))\n"
_ON_THE_PATH = f"import sys\nsys.path[:0] = {[str(ROOT), sysconfig.get_path('purelib')]!r}\n"


class Taken(NamedTuple):
    """What one process took, in seconds from before it was made."""

    decided: float
    """Until report.json was written; of a process that writes none, until its end."""
    ended: float
    processor: float
    """Used by it and by what it started."""


def out_of(folder: Path, number: int) -> Path:
    """Where the bundle of a process goes."""
    return folder / f"out-{number}"


def arguments_for(folder: Path, number: int = 0) -> list[str]:
    """The command line: a change without a skill, judged into a new folder."""
    repository = folder / "repository"
    if not repository.exists():
        make_repository(repository, {"README.md": "text"}, {"notes.txt": "text"})
    return ["run", "--repository", str(repository), "--base", "main", "--out", str(out_of(folder, number))]


def heavy_modules(folder: Path) -> list[str]:
    """Which of ``HEAVY`` a whole run with nothing to evaluate has loaded. Raises RuntimeError where it is no success."""
    code, loaded = json.loads(_started(_MODULES, arguments_for(folder, -1)))
    if code != 0:
        raise RuntimeError(f"nothing to evaluate ended with {code}")
    return [name for name in HEAVY if name in loaded]


def _started(code: str, arguments: Sequence[str] = ()) -> str:
    """What a process printed. Bytecode is kept where the interpreter keeps it: -I hears of no variable that forbids it.

    Raises CalledProcessError.
    """
    command = [sys.executable, "-I", "-S", "-c", _ON_THE_PATH + code, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=gate_environment(), capture_output=True, text=True, check=True, timeout=120
    ).stdout


def _taken(code: str, arguments: Sequence[str] = (), out: Path | None = None) -> Taken:
    """How long a process took; ``out``: the bundle folder that it writes. Raises CalledProcessError, OSError."""
    before, began, clock = _used(), time.perf_counter(), time.time_ns()
    _started(code, arguments)
    ended = time.perf_counter() - began
    decided = ended if out is None else ((out / "report.json").stat().st_mtime_ns - clock) / 1e9
    return Taken(decided, ended, _used() - before)


def _used() -> float:
    """Processor seconds of every process that was waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    count = 1 if parser.parse_args(arguments).small else 25
    ours: list[Taken] = []
    naive: list[Taken] = []
    bare: list[Taken] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            heavy = heavy_modules(folder)  # leaves the bytecode too
            if count > 1:
                _started(_EAGER, arguments_for(folder, -2))
            for number in range(0, 2 * count, 2):
                ours.append(_taken(_OWN, arguments_for(folder, number), out_of(folder, number)))
                naive.append(_taken(_EAGER, arguments_for(folder, number + 1), out_of(folder, number + 1)))
                bare.append(_taken("pass"))
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            print(f"not measured: {error} {getattr(error, 'stderr', '') or ''}")
            return 2
    own, other = (statistics.median(item.decided for item in kept) for kept in (ours, naive))
    rows = [
        _row("nothing to evaluate, start to decision", [item.decided for item in ours]),
        _row("nothing to evaluate, to the end of the process", [item.ended for item in ours]),
        _row("  of it processor time", [item.processor for item in ours]),
        _row("everything imported at the start, to decision", [item.decided for item in naive]),
        _row("  processor time to its end", [item.processor for item in naive]),
        _row("interpreter alone", [item.ended for item in bare]),
    ]
    head = [f"process, {count} times", "median ms", "shortest ms", "longest ms"]
    print(table(head, rows))
    print(f"loaded of what a start must not load: {', '.join(heavy) or 'nothing'}")
    if count > 1:
        text = f"{ABOUT}\n\nLoaded of what a start must not load: {', '.join(heavy) or 'nothing'}. Goal: at most {GOAL_S} s to the decision."
        write_table(NAME, "What a change without a skill costs", text, head, rows)
    ok = own <= GOAL_S and not heavy
    print(last_line([figure(NAME, own, "s from process start to decision", n=count, goal=f"<= {GOAL_S} s, no heavy library", ok=ok, baseline=other)]))  # fmt: skip
    return 0


def _row(what: str, seconds: Sequence[float]) -> list[str]:
    return [what, *(f"{1000 * value:.0f}" for value in (statistics.median(seconds), min(seconds), max(seconds)))]


if __name__ == "__main__":
    raise SystemExit(main())
