"""Whether ``verify`` derives the same bytes on every Python that is there: 3.11 and newer.

    python -m tests.versions BUNDLE            # on the interpreters that have the gate's dependencies already
    python -m tests.versions BUNDLE --install  # make a virtual environment for each of the others first

Interpreters are looked for on PATH and below ~/.pyenv/versions; ``SKILL_GATE_PYTHONS`` (paths, separated by ``:``) names
further ones. Each of them runs the gate's own ``verify``, which compares every derived byte with the bundle's: the one that
made it and all that verify it then agree. Prints a line for each; ends with 1 where one disagrees.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".versions"
NAMES = tuple(f"python3.{minor}" for minor in range(11, 16))
_ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3]); import pydantic, click, scipy, yaml, markdown_it"


class Interpreter(NamedTuple):
    """One Python."""

    path: Path
    version: str
    ready: bool
    """Whether the gate's dependencies can be imported."""


def interpreters() -> list[Interpreter]:
    """One interpreter for each minor version from 3.11 on, ready ones first; this process's own is among them."""
    found: dict[str, Interpreter] = {}
    for path in _candidates():
        done = subprocess.run([path, "-I", "-c", _ASK], capture_output=True, text=True, timeout=60, check=False)
        version = done.stdout.strip()
        if not re.fullmatch(r"3\.(1[1-9]|[2-9]\d)\.\d+", version):
            continue
        minor = version.rpartition(".")[0]
        one = Interpreter(path, version, done.returncode == 0)
        if minor not in found or (one.ready and not found[minor].ready):
            found[minor] = one
    return sorted(found.values(), key=lambda one: [int(part) for part in one.version.split(".")])


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    yield from (Path(item) for item in os.environ.get("SKILL_GATE_PYTHONS", "").split(":") if item)
    yield from sorted(ENVIRONMENTS.glob("*/bin/python"))
    yield from (Path(path) for name in NAMES if (path := shutil.which(name)) is not None)
    yield from sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python3"))


def install(one: Interpreter) -> Interpreter:
    """A virtual environment with what requirements.txt locks, below ``.versions``."""
    place = ENVIRONMENTS / one.version
    subprocess.run([one.path, "-m", "venv", place], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "--require-hashes", "--requirement", str(ROOT / "requirements.txt")], check=True)
    return Interpreter(place / "bin" / "python", one.version, ready=True)


def verified(one: Interpreter, bundle: Path) -> subprocess.CompletedProcess[str]:
    """``skill-gate verify`` on an interpreter: exit code 0 where it derives the bundle's bytes."""
    return subprocess.run(
        [one.path, ROOT / "entrypoint.py", "verify", bundle], capture_output=True, text=True, timeout=300, check=False
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--install", action="store_true", help="make virtual environments where they are missing")
    asked = parser.parse_args(arguments)
    worst = 0
    for one in interpreters():
        ready = install(one) if asked.install and not one.ready else one
        if not ready.ready:
            print(f"{one.version}: {one.path} has not the gate's dependencies; see --install")
            continue
        done = verified(ready, asked.bundle)
        said = (done.stdout.strip() or done.stderr.strip()).splitlines() or ["nothing"]
        print(f"{one.version}: exit code {done.returncode}: {said[-1]}")
        worst = max(worst, int(done.returncode != 0))
    return worst


if __name__ == "__main__":
    sys.exit(main())
