"""J16: whether ``verify`` finds any single changed byte of a bundle, and how fast it derives 50 MB anew.

Bundles are made by the production code (scripted models, sandboxes in memory). A tamper changes, removes or inserts one byte
of one file, anywhere; it counts as found where ``verify`` names that file. Beside it stands the naive variant: every file is
there with its size, and what should be JSON is JSON. A second table is about somebody who seals the bundle anew after the
change: then only what is derived again can tell, and who made the bundle is a question for a signature.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.audit.verify import verify_bundle
from gate.domain.base import digest_of, pretty_json, sha256_hex
from gate.evidence.seal import MANIFEST, SEAL, seal_bundle
from gate.wiring import bind
from reporters import plots
from tests.bench import _trust
from tests.bench._figures import figure, last_line, share, table
from tests.fakes.sandbox import Command, Ran, ScriptedBox
from tests.in_process import gate
from tests.scripted.demo import LOCATION
from tests.scripted.values import Reply, Request
from tests.story import gate_environment
from tests.unit.execution.world import shell

SEED = 20260131
SECONDS_GOAL = 2.0
ENTRYPOINT = Path(__file__).resolve().parents[2] / "entrypoint.py"
TEXT = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# {title}\n\nAdd the numbers {word}.\n"
_DUMP = "dump "


def suite(cases: int, *, expectations: bool = True) -> str:
    found = [
        {
            "id": f"case-{number}",
            "prompt": f"What is {number} and 2?",
            "checks": [{"kind": "response_contains", "keyword": "the part"}],
            "expectations": ['The answer holds the word "part".'] if expectations else [],
        }
        for number in range(cases)
    ]
    return json.dumps({"version": 1, "cases": found})


def small_bundle(folder: Path, cases: int = 2) -> Path:
    """A session of a few runs with checks, grades and comparisons."""
    main = {
        "skills/sums/SKILL.md": TEXT.format(title="Sums", word="up"),
        "skills/sums/evals/skill-gate.yaml": suite(cases),
    }
    change = {"skills/sums/SKILL.md": TEXT.format(title="Sums", word="one by one")}
    return gate(folder, main, change).bundle


def large_bundle(folder: Path, megabytes: int) -> Path:
    """A session whose records and files have about this size: half of it collected files, half what tools printed."""
    steps = 10
    runs = 4
    printed = min(240_000, megabytes * 1_000_000 // 4 // runs // steps)  # stands in events and in the transcript
    made = megabytes * 1_000_000 // 2 // runs

    def program(box: ScriptedBox, command: Command) -> Ran | bytes | str:
        line = command.argv[2] if command.argv[:2] == ("bash", "-c") else ""
        if not line.startswith(_DUMP):
            return shell()(box, command)
        number = int(line.removeprefix(_DUMP))
        if number == 1:
            box.write("made.bin", random.Random(made).randbytes(made))
        rows = (f"{number},{at},value {at * 37 % 1009} of the orders in this table\n" for at in range(1_000_000))
        text, size = [], 0
        for row in rows:
            size += len(row)
            if size > printed:
                break
            text.append(row)
        return "".join(text)

    def agent(request: Request) -> Reply:
        location = LOCATION.search(request.system)
        results = [result.text for message in request.messages for result in message.tool_results]
        if len(results) == 0 and location:
            return Reply.calling("bash", {"command": f"cat {location[1]}"})
        done = len(results) - (1 if location else 0)
        if done < steps:
            return Reply.calling("bash", {"command": f"{_DUMP}{done + 1}"})
        return Reply("It has the part Sums.")

    main = {
        "skills/sums/SKILL.md": TEXT.format(title="Sums", word="up"),
        "skills/sums/evals/skill-gate.yaml": suite(1, expectations=False),
    }
    change = {"skills/sums/SKILL.md": TEXT.format(title="Sums", word="one by one")}
    return gate(folder, main, change, program=program, steps={"agent": agent}).bundle


class Tamper(NamedTuple):
    """One change of one byte."""

    path: str
    how: str
    data: bytes


def tampers(root: Path, count: int) -> list[tuple[str, str, int, int]]:
    """(path, how, offset, byte): half of the files evenly, half by their size."""
    rng = random.Random(SEED)
    files = {
        path.relative_to(root).as_posix(): path.stat().st_size for path in sorted(root.rglob("*")) if path.is_file()
    }
    full = {name: size for name, size in files.items() if size}
    names, sizes = list(full), list(full.values())
    chosen = []
    for number in range(count):
        (name,) = rng.choices(names, sizes if number % 2 else None)
        how = ("changed", "removed", "inserted")[number % 3]
        chosen.append((name, how, rng.randrange(full[name]), rng.randrange(1, 256)))
    return chosen


def tampered(data: bytes, how: str, offset: int, byte: int) -> bytes:
    """The data with one byte changed, removed or inserted; never the data itself."""
    if how == "changed":
        return data[:offset] + bytes([data[offset] ^ byte]) + data[offset + 1 :]
    if how == "removed":
        return data[:offset] + data[offset + 1 :]
    return data[:offset] + bytes([byte]) + data[offset:]


def naive_finds(root: Path, sizes: dict[str, int]) -> bool:
    """Whether the naive variant sees that something is not as it was."""
    for name, size in sizes.items():
        path = root / name
        if not path.is_file() or path.stat().st_size != size:
            return True
        if name.endswith(".json"):
            try:
                json.loads(path.read_bytes())
            except ValueError:
                return True
    return False


class Hunt(NamedTuple):
    """What became of all tampers."""

    n: int
    found: int
    named: int
    naive: int
    by_how: Counter[str]
    missed: tuple[str, ...]


def hunt(root: Path, count: int, render: Callable[..., str]) -> Hunt:
    """Every tamper by itself, undone after it was looked for."""
    sizes = {path.relative_to(root).as_posix(): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    found = named = naive = 0
    by_how: Counter[str] = Counter()
    missed = []
    for name, how, offset, byte in tampers(root, count):
        path = root / name
        before = path.read_bytes()
        path.write_bytes(tampered(before, how, offset, byte))
        problems = verify_bundle(root, render).problems
        naive += naive_finds(root, sizes)
        path.write_bytes(before)
        found += bool(problems)
        ok = any(name in problem for problem in problems)
        named += ok
        by_how[how] += ok
        if sum(by_how.values()) % 1000 == 999:
            print(f"{sum(by_how.values()) + 1} tampers found", file=sys.stderr, flush=True)
        if not ok:
            missed.append(f"{name} {how} at {offset}")
    return Hunt(count, found, named, naive, by_how, tuple(missed))


def reseal(root: Path, name: str) -> None:
    """Seal the bundle anew, as somebody would who has the program: the run's seal, then the manifest."""
    for seal in root.rglob(SEAL):
        content = json.loads(seal.read_bytes())
        for item in content["files"]:
            if (seal.parent / item["path"]) == root / name:
                data = (root / name).read_bytes()
                item |= {"size_bytes": len(data), "sha256": sha256_hex(data)}
                seal.write_bytes(pretty_json(content))
    facts = json.loads((root / MANIFEST).read_bytes())["facts"]
    (root / MANIFEST).unlink()
    seal_bundle(root, facts)


def resealed(root: Path, count: int, render: Callable[..., str]) -> dict[str, tuple[int, int]]:
    """By kind of file: how many changed bytes that were sealed anew are found all the same, of how many."""
    kept = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    counts: dict[str, list[int]] = {}
    for name, how, offset, byte in tampers(root, count * 3):
        if name == MANIFEST or name.endswith(SEAL) or sum(total for _, total in counts.values()) >= count:
            continue
        (root / name).write_bytes(tampered(kept[root / name], how, offset, byte))
        try:
            reseal(root, name)
            found = bool(verify_bundle(root, render).problems)
        except Exception:  # noqa: BLE001 - what cannot be sealed anew cannot be passed off, either
            found = True
        entry = counts.setdefault(name.rsplit("/", 1)[-1], [0, 0])
        entry[0] += found
        entry[1] += 1
        for path, data in kept.items():
            if not path.is_file() or path.read_bytes() != data:
                path.write_bytes(data)
    return {name: (hits, total) for name, (hits, total) in sorted(counts.items())}


class Took(NamedTuple):
    """Seconds, each of the fastest of some tries."""

    wall: float
    """Of ``verify_bundle`` in a process that has loaded its libraries."""
    processor: float
    """The same, without what other programs took meanwhile."""
    command: float | None
    """Processor seconds of the whole command ``skill-gate verify``, from the start of its process; None: not run."""
    megabytes: float


def timed(root: Path, render: Callable[..., str], *, tries: int, commands: bool) -> Took:
    """How long an untouched bundle takes; ``commands``: also by the whole command."""
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) / 1e6
    walls, processors, whole = [], [], []
    for _ in range(tries):
        for remembered in (plots._dots, plots._bars):
            remembered.cache_clear()  # as in a process that has drawn nothing yet
        began, begun = time.perf_counter(), time.process_time()
        result = verify_bundle(root, render)
        walls.append(time.perf_counter() - began)
        processors.append(time.process_time() - begun)
        if result.problems:
            raise RuntimeError(f"the untouched bundle does not verify: {result.problems[0]}")
        if not commands:
            continue
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, str(ENTRYPOINT), "verify", str(root)],
            check=True,
            capture_output=True,
            env=gate_environment(),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Took(min(walls), min(processors), min(whole, default=None), size)


def derived(root: Path, render: Callable[..., str]) -> str:
    """The digest of everything that ``verify`` derives, for comparing interpreters."""
    if problems := verify_bundle(root, render).problems:
        raise RuntimeError(problems[0])
    return digest_of(json.loads((root / "report.json").read_bytes()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="300 tampers, for the shape only")
    small = parser.parse_args(arguments).small
    render = bind({}).render
    with tempfile.TemporaryDirectory(prefix="tamper-") as place:
        root = small_bundle(Path(place) / "small", 1 if small else 2)
        found = hunt(root, 300 if small else 10_000, render)
        print("tampers done", file=sys.stderr, flush=True)
        again = resealed(root, 2 if small else 300, render)
        big = large_bundle(Path(place) / "large", 1 if small else 50)
        took = timed(big, render, tries=1 if small else 3, commands=not small)
    rows = [[how, str(count), str(found.n // 3)] for how, count in sorted(found.by_how.items())]
    print(table(["one byte", "found and named", "of about"], rows))
    for text in found.missed[:5]:
        print(f"missed: {text}")
    print(table(["sealed anew: file", "found", "of"], [[name, *count] for name, count in again.items()]))
    whole = "" if took.command is None else f"; the whole command takes {took.command:.2f} s of one"
    print(f"{took.megabytes:.0f} MB verified in {took.wall:.2f} s, {took.processor:.2f} s of a processor{whole}")
    hits, total = sum(hit for hit, _ in again.values()), sum(count for _, count in again.values())
    figures: list[dict[str, Any]] = [
        share(
            "tamper", found.n - found.named, found.n, "single-byte tampers not found and named", goal="0", at_most=0.0,
            baseline_hits=found.n - found.naive,
        ),
        figure(
            "tamper", took.wall, f"s to verify {took.megabytes:.0f} MB", n=1, goal=f"<= {SECONDS_GOAL:g} s at 50 MB",
            ok=took.wall <= SECONDS_GOAL,
        ),
        figure(
            "tamper", took.processor, f"processor s to verify {took.megabytes:.0f} MB", n=1,
            goal=f"<= {SECONDS_GOAL:g} s at 50 MB", ok=took.processor <= SECONDS_GOAL,
        ),
        share("tamper", total - hits, total, "sealed anew and not found (needs a signature)", goal="none", at_most=1.0),
    ]  # fmt: skip
    if not small:
        said = (
            f"{found.n:,} bytes changed, removed or inserted, one at a time, in the bundle of a small session: "
            f"{found.named:,} found with the file named; sizes and JSON alone find {found.naive:,}. A bundle of "
            f"{took.megabytes:.0f} MB is derived anew in {took.wall:.2f} s ({took.processor:.2f} s of a processor); the whole "
            f"command, which loads its libraries first, takes {took.command:.2f} s of a processor.\n\n"
            "Somebody who has the program can seal a bundle anew after the change. What is derived again still tells; what "
            "nothing is derived from (a made file, the name of a model) needs a signature: `skill-gate verify --statement`.\n\n"
        )
        text = said + _trust.markdown_table(
            ["sealed anew, file", "found", "of"], [[name, str(hit), str(count)] for name, (hit, count) in again.items()]
        )
        _trust.write_section("tamper", "One changed byte of a bundle (J16)", text)
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
