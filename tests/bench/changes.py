"""Which skills changed, in a repository of 100,000 files and 2,000 commits: right, and how long the whole command takes.

``python -m tests.bench.changes [--small]``. The command is ``skill-gate run`` without a model, so that everything but the
runs themselves is in it. What is compared with it is the same command over the same changed skills in a repository that
holds nothing else: what is left is the price of the repository's size.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench._figures import figure, last_line, table
from tests.bench._peers import peer_python

ROOT = Path(__file__).resolve().parents[2]
GOAL_S = 0.3
GROUPS = 40


class Size(NamedTuple):
    """Of the generated repository, and how often each thing is timed."""

    files: int
    commits: int
    skills: int
    rounds: int


FULL = Size(100_000, 2_000, 511, 5)
SMALL = Size(1_000, 10, 45, 1)

PLAIN = tuple(f"skills/group-{number}/skill-{number}" for number in (3, 7, 11))
NESTED = "skills/group-3/nested/deep-3"
NOT_ASCII = "skills/group-1/été-技能"
LINKS = "skills/group-2/skill-2"
SHARED = "skills/shared/common.md"


def skill_md(number: object, more: str = "") -> str:
    return (
        f"---\nname: skill-{number}\ndescription: Does {number}. Use for {number}.\n---\n# Skill {number}\n{more}\n"
        + ("Follow the steps.\n" * 100)
    )


def base_files(size: Size, *, everything: bool) -> dict[str, str]:
    """The first commit; without ``everything`` only what the changes of the bench touch."""
    files = {"README.md": "1\n", SHARED: "one\n"}
    for number in range(size.skills):
        folder = f"skills/group-{number % GROUPS}/skill-{number}"
        if not everything and folder not in (*PLAIN, LINKS, "skills/group-4/skill-4", "skills/group-5/skill-5"):
            continue
        more = "See [the common rules](../../shared/common.md)." if folder == LINKS else ""
        files[f"{folder}/SKILL.md"] = skill_md(number, more)
        for part in range(5):
            files[f"{folder}/references/r{part}.md"] = f"{number} {part}\n"
        files[f"{folder}/scripts/x.py"] = f"print({number})\n"
    for folder in (NESTED, NOT_ASCII):
        files[f"{folder}/SKILL.md"] = skill_md(folder)
        files[f"{folder}/references/é.md"] = "1\n"
    number = 0
    while everything and len(files) < size.files:
        files[f"src/pkg-{number % 200}/mod-{number // 200 % 50}/file-{number}.py"] = f"x = {number}\n"
        number += 1
    return files


def changes_of(files: Mapping[str, str]) -> dict[str, tuple[dict[str, str | None], set[tuple[str, str]]]]:
    """Name -> (path -> new content or None, what is right: (kind, path))."""
    moved = {path: text for path, text in files.items() if path.startswith("skills/group-4/skill-4/")}
    renamed: dict[str, str | None] = dict.fromkeys(moved)
    renamed |= {path.replace("skill-4/", "renamed-4/", 1): text for path, text in moved.items()}
    gone = dict.fromkeys(path for path in files if path.startswith("skills/group-5/skill-5/"))
    plain: dict[str, str | None] = {"README.md": "2\n"}
    for folder, name in zip(PLAIN, ("SKILL.md", "references/r1.md", "scripts/x.py"), strict=True):
        plain[f"{folder}/{name}"] = files[f"{folder}/{name}"] + "more\n"
    return {
        "plain": (plain, {("modified", folder) for folder in PLAIN}),
        "hard": (
            {"README.md": "2\n", f"{NESTED}/references/é.md": "2\n", f"{NOT_ASCII}/references/é.md": "2\n", **renamed},
            {("renamed", "skills/group-4/renamed-4"), ("modified", NESTED), ("modified", NOT_ASCII)},
        ),
        "deleted": ({**gone}, {("deleted", "skills/group-5/skill-5")}),
        "linked": ({SHARED: "two\n"}, {("modified", LINKS)}),
    }


def write_repository(folder: Path, size: Size, *, everything: bool) -> dict[str, set[tuple[str, str]]]:
    """The repository, with a branch for each change on top of main's last commit."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    files = base_files(size, everything=everything)
    parts: list[bytes] = []

    def commit(branch: str, changed: Mapping[str, str | None], start: str = "") -> None:
        parts.append(
            f"commit refs/heads/{branch}\ncommitter A <a@example.org> {1_700_000_000 + len(parts)} +0000\ndata 0\n".encode()
        )
        if start:
            parts.append(f"from {start}\n".encode())
        for path, text in changed.items():
            if text is None:
                parts.append(f"D {path}\n".encode())
            else:
                data = text.encode()
                parts.append(f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n")

    commit("main", files)
    for number in range(size.commits - 1 if everything else 1):
        commit("main", {f"src/pkg-{number % 200}/mod-{number // 200 % 50}/file-{number}.py": f"y = {number}\n"})
    right = {}
    for name, (changed, expected) in changes_of(files).items():
        commit(name, changed, "refs/heads/main")
        right[name] = expected
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input=b"".join(parts), check=True)
    return right


def gate(folder: Path, branch: str) -> tuple[float, float, set[tuple[str, str]]]:
    """Seconds of the whole command by the clock and of processors (git's too), and what it found."""
    subprocess.run(["git", "-C", str(folder), "checkout", "-q", "-f", branch], check=True, capture_output=True)
    environ = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_TOKEN"))}
    with tempfile.TemporaryDirectory() as out:
        started, used = time.perf_counter(), _children_cpu()
        done = subprocess.run(
            [sys.executable, str(ROOT / "entrypoint.py"), "run", "--base", "main", "--out", f"{out}/bundle"],
            cwd=folder, capture_output=True, check=False, env={**environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        seconds, used = time.perf_counter() - started, _children_cpu() - used
        report = Path(out, "bundle", "report.json")
        if not report.is_file():
            raise RuntimeError(done.stderr.decode("utf-8", "replace")[-2000:])
        skills = json.loads(report.read_text("utf-8"))["skills"]
    return seconds, used, {(skill["change"], skill["path"]) for skill in skills}


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def naive(folder: Path, branch: str) -> set[str]:
    """What four lines of shell would find: names as git prints them, and the folder above that holds a SKILL.md."""

    def run(*arguments: str) -> list[str]:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, check=True, text=True
        ).stdout.splitlines()

    skills = {
        path.rpartition("/")[0] for path in run("ls-tree", "-r", "--name-only", branch) if path.endswith("SKILL.md")
    }
    return {
        skill
        for path in run("diff", "--name-only", f"main...{branch}")
        for skill in skills
        if path.startswith(f"{skill}/")
    }


def peers(folder: Path, expected: Mapping[str, set[tuple[str, str]]]) -> list[list[object]]:
    """Rows of the peers that can be had: whole command, skills found of those there are."""
    rows: list[list[object]] = []
    asked = {
        "skill-guard 0.9.0": (
            peer_python("skill-guard", "skill-guard==0.9.0"),
            [
                "-m",
                "skill_guard",
                "check",
                "skills",
                "--changed",
                "--base-ref",
                "main",
                "--head-ref",
                "HEAD",
                "--format",
                "json",
            ],
        ),
        "skillseal 0.27.1": (
            peer_python("skillseal", "skillseal==0.27.1"),
            ["-m", "skillseal", "check", "skills", "--changed", "--base-ref", "main", "--format", "json"],
        ),
    }
    for name, (python, arguments) in asked.items():
        if isinstance(python, str):
            rows.append([name, "-", "-", python])
            continue
        script = python.parent / name.partition(" ")[0]
        command = [str(script), *arguments[2:]] if script.is_file() else [str(python), *arguments]
        for branch in ("plain", "hard"):
            subprocess.run(["git", "-C", str(folder), "checkout", "-q", "-f", branch], check=True, capture_output=True)
            started = time.perf_counter()
            try:
                done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
            except subprocess.TimeoutExpired:
                rows.append([name, branch, "-", "stopped after 120 s"])
                continue
            seconds = time.perf_counter() - started
            text = json.dumps(done.stdout.decode("utf-8", "replace"), ensure_ascii=False)
            found = sum(Path(path).name in text for _, path in expected[branch])
            rows.append([name, branch, f"{seconds:.2f}", f"{found} of {len(expected[branch])}"])
    return rows


def main(arguments: Sequence[str] = ()) -> int:
    """Measure and print. 2: could not measure."""
    small = "--small" in arguments
    size = SMALL if small else FULL
    with tempfile.TemporaryDirectory() as around:
        big, tiny = Path(around, "big"), Path(around, "tiny")
        try:
            expected = write_repository(big, size, everything=True)
            write_repository(tiny, size, everything=False)
            rows: list[list[object]] = []
            wrong = missed = 0
            extra = []
            most = 0.0
            for name in ("hard", "linked") if small else tuple(expected):
                right = expected[name]
                times: dict[str, list[float]] = {"big": [], "tiny": []}
                used: dict[str, list[float]] = {"big": [], "tiny": []}
                found: set[tuple[str, str]] = set()
                for _ in range(size.rounds):
                    for label, folder in (("big", big), ("tiny", tiny)):
                        seconds, processors, found_now = gate(folder, name)
                        times[label].append(seconds)
                        used[label].append(processors)
                        found = found_now if label == "big" else found
                wrong += found != right
                missed += len({path for _, path in right} ^ naive(big, name))
                price = statistics.median(times["big"]) - statistics.median(times["tiny"])
                extra.append(price)
                busy = statistics.median(used["big"]) - statistics.median(used["tiny"])
                most = max(most, busy)
                medians = [f"{statistics.median(times[label]):.2f}" for label in ("big", "tiny")]
                rows.append(
                    [
                        name,
                        *medians,
                        f"{price:.2f}",
                        f"{busy:.2f}",
                        "right" if found == right else f"WRONG: {sorted(found ^ right)}",
                    ]
                )
            beside = [] if small else peers(big, expected)
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            print(f"could not measure: {error}", file=sys.stderr)
            return 2
    print(
        f"{size.files} files, {size.commits} commits, {size.skills} skills; median of {size.rounds}, seconds of the whole command"
    )
    print(table(["change", "here", "in a repository of its own", "price of the size", "of processors", "found"], rows))
    if beside:
        print(table(["peer", "change", "s", "found"], beside))
    total = sum(len(expected[str(row[0])]) for row in rows)
    print(
        last_line(
            [
                figure("changes", max(extra), "s, worst median above the same in a small repository", n=size.rounds * len(rows),
                       goal=f"<= {GOAL_S} s + process start", ok=max(extra) <= GOAL_S),
                figure("changes", most, "s of processors, worst median above the same in a small repository", n=size.rounds * len(rows),
                       goal="shown: does not depend on what else runs", ok=True),
                figure("changes", wrong, "changes with a wrong set of skills (baseline: skills that name-only diffs get wrong)",
                       n=total, baseline=missed, goal="0", ok=wrong == 0),
            ]
        )
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
