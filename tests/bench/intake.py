"""Reading 13,000 skills: parse, three profiles, evals, manifests, scan; how long, how much memory, and nothing lost.

``python -m tests.bench.intake [--small]``. The skills are made up after the counts over 13,373 real files
(cases/README.md A1-A6): sizes, styles of description, keys, files, links, broken front matter.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench._figures import figure, last_line, table
from tests.bench._peers import peer_python

ROOT = Path(__file__).resolve().parents[2]
FULL, SMALL = 13_000, 80
PEER_SAMPLE = 1_000
GOAL_MS, GOAL_RATIO, GOAL_MB = 1.2, 1.3, 64.0

WORDS = [
    "the",
    "report",
    "table",
    "column",
    "value",
    "check",
    "each",
    "input",
    "before",
    "output",
    "and",
    "keep",
    "a",
    "note",
    "of",
    "what",
    "was",
    "found",
    "when",
    "file",
    "is",
    "empty",
    "then",
    "ask",
    "user",
    "for",
    "missing",
    "part",
    "use",
    "short",
    "names",
    "write",
    "tests",
    "first",
    "never",
    "delete",
    "data",
    "without",
    "asking",
    "show",
    "result",
]
EXTRA_KEYS = (
    "version: 1.2.0",
    "author: someone",
    "tags: [a, b]",
    "dependencies: []",
    "triggers:\n  - do it",
    "category: tools",
)


def description(rng: random.Random, length: int) -> str:
    """A description in the styles that were counted: plain 41 %, block 31 %, quoted 27 %, and one that breaks YAML."""
    text = " ".join(rng.choice(WORDS) for _ in range(max(3, length // 6)))[:length].strip()
    style = rng.random()
    if style < 0.004:
        return f"description: {text}: standards and tests"
    if style < 0.41:
        return f"description: {text}"
    if style < 0.67:
        return f"description: |\n  {text}\n  {text[:40]}"
    if style < 0.72:
        return f"description: >-\n  {text}"
    return f'description: "{text}"' if style < 0.97 else f"description: '{text}'"


def body(rng: random.Random) -> str:
    """Markdown of a size around the counted ones (median 4.9 KB, 90 % under 15.8 KB, 99 % under 30 KB)."""
    size = min(120_000, int(rng.lognormvariate(8.45, 0.9)))
    parts = ["# Title\n"]
    length = 0
    while length < size:
        kind = rng.random()
        words = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(6, 40)))
        if kind < 0.12:
            part = f"\n## {words[:40]}\n\n"
        elif kind < 0.4:
            part = "".join(f"- **{word}** and `{word}`: {words[:50]}\n" for word in rng.sample(WORDS, 4))
        elif kind < 0.52:
            part = f"\n```python\n{words}\n```\n\n"
        elif kind < 0.58:
            part = f"\n| a | b |\n|---|---|\n| {words[:30]} | x |\n\n"
        elif kind < 0.6:
            part = "\n---\n\n"
        elif kind < 0.62:
            part = f"See [web](https://example.org/{rng.randrange(99)}) for more.\n"
        else:
            part = f"{words}.\n"
        parts.append(part)
        length += len(part)
    if rng.random() < 0.13:
        parts.append("Read [it](references/a.md) or [other](../shared/b.md).\n")
    return "".join(parts)


def a_skill(rng: random.Random, folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    length = min(1300, int(rng.lognormvariate(5.53, 0.6)))
    keys = [f"name: {name}", description(rng, length)]
    keys += rng.sample(EXTRA_KEYS, rng.randrange(1, 4)) if rng.random() < 0.57 else []
    keys += ["allowed-tools: Read, Bash(git:*, gh:*)"] if rng.random() < 0.26 else []
    keys += ["metadata:\n  owner: {team: a}\n  since: 2026-01-31"] if rng.random() < 0.18 else []
    front = "\n".join(keys)
    text = f"---\n{front}\n---\n{body(rng)}" if rng.random() > 0.013 else body(rng)
    if rng.random() < 0.005:
        text = "\ufeff" + text.replace("\n", "\r\n")
    (folder / "SKILL.md").write_text(text, "utf-8", newline="")
    if rng.random() < 0.57:
        for part in range(rng.choice([1, 1, 2, 4, 8])):
            place = (
                folder
                / rng.choice(["references", "scripts", "assets"])
                / f"{part}.{rng.choice(['md', 'py', 'sh', 'json'])}"
            )
            place.parent.mkdir(exist_ok=True)
            place.write_text(" ".join(rng.choice(WORDS) for _ in range(200)), "utf-8")
    if rng.random() < 0.05:
        (folder / "evals").mkdir()
        cases = [{"id": n, "prompt": "Do it.", "expectations": ["The answer names the total."]} for n in range(4)]
        (folder / "evals" / "evals.json").write_text(json.dumps({"skill_name": name, "evals": cases}), "utf-8")


def write_tree(root: Path, count: int) -> None:
    """``count`` skills in groups; every tenth group is a plugin with a manifest."""
    rng = random.Random(13)
    for number in range(count):
        group = root / f"plugins/p{number // 40}"
        a_skill(rng, group / "skills" / f"skill-{number}", f"skill-{number}")
        if number % 400 == 0:
            (group / ".claude-plugin").mkdir()
            manifest = {"name": f"p{number // 40}", "version": "1.0.0", "description": "d", "skills": "./skills/"}
            (group / ".claude-plugin" / "plugin.json").write_text(json.dumps(manifest), "utf-8")


def timed(do: Callable[[], int]) -> tuple[float, int]:
    started = time.process_time()
    count = do()
    return time.process_time() - started, count


def parse_all(root: Path) -> int:
    """Front matter, three profiles, suites and manifests of every skill."""
    from gate.intake.changes import find_folders
    from gate.intake.manifests import read_manifests
    from gate.intake.profiles import Profile, profile_findings
    from gate.intake.skill import parse_skill, read_front
    from gate.intake.sources import FolderTree
    from gate.intake.suite import read_suite

    tree = FolderTree(root)
    folders = find_folders(tree.paths())
    for folder in folders.live:
        files = tree.skill_files(folder)
        front = read_front(folder, files)
        skill, _ = parse_skill(folder, files, front=front)
        for profile in Profile:
            profile_findings(profile, folder, files, front=front)
        if skill is not None:
            read_suite(skill)
        read_manifests(tree.paths(), tree.read, folder, files=files, committed=False)
    return len(folders.live)


def check_all(root: Path) -> int:
    """Everything that ``skill-gate check`` does, with all profiles; no skill is kept."""
    from gate.intake.profiles import Profile
    from gate.intake.tree import each_in_folder

    return sum(1 for _ in each_in_folder(root, profiles=tuple(Profile)))


def markdown_all(root: Path) -> int:
    """What markdown-it alone needs for the same bodies."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt()
    count = 0
    for path in root.rglob("SKILL.md"):
        parser.parse(path.read_text("utf-8"))
        count += 1
    return count


def naive_losses(root: Path) -> int:
    """Skills that a reader loses which splits at ``---`` and takes one YAML error for the end."""
    import yaml

    lost = 0
    for path in root.rglob("SKILL.md"):
        try:
            values = yaml.safe_load(path.read_text("utf-8").split("---")[1])
            json.dumps(values)
            lost += not values["description"]
        except Exception:  # noqa: BLE001 - that is what is counted
            lost += 1
    return lost


def memory(root: Path) -> tuple[float, int]:
    """MB above the imported program while every skill is checked, in a process of its own; and how many there were."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.intake", "--memory", str(root)], cwd=ROOT, capture_output=True, check=True
    )
    value = json.loads(done.stdout)
    return value["mb"], value["skills"]


def print_memory(root: Path) -> None:
    import markdown_it  # noqa: F401 - the program as it is once everything is imported

    import gate.intake.tree  # noqa: F401

    with tempfile.TemporaryDirectory() as warm:
        write_tree(Path(warm) / "t", 3)
        check_all(Path(warm) / "t")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = check_all(root)
    print(json.dumps({"mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, "skills": count}))


PEERS = {
    "skills-ref 0.1.1": ("skills-ref", "skills-ref==0.1.1", "from skills_ref.validator import validate as check"),
    "skill-lab 0.7.0": (
        "skill-lab", "skill-lab==0.7.0",
        "from skill_lab.evaluators.static_evaluator import StaticEvaluator\ncheck = StaticEvaluator().evaluate",
    ),
}  # fmt: skip
_PEER = """
import json, sys, time
from pathlib import Path
{start}
folders = [path.parent for path in sorted(Path(sys.argv[1]).rglob("SKILL.md"))][:int(sys.argv[2])]
crashes, started = 0, time.process_time()
for folder in folders:
    try:
        check(folder)
    except Exception:
        crashes += 1
print(json.dumps([1000 * (time.process_time() - started) / len(folders), crashes, len(folders)]))
"""


def peers(root: Path, count: int) -> list[list[object]]:
    """Milliseconds a skill and crashes of every peer that can be had."""
    rows: list[list[object]] = []
    for name, (folder, *requirements, start) in PEERS.items():
        extra = ["click", "typer<0.20"] if folder == "skill-lab" else []
        python = peer_python(folder, *requirements, *extra)
        if isinstance(python, str):
            rows.append([name, python, "-", 0])
            continue
        command = [str(python), "-c", _PEER.format(start=start), str(root), str(count)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=900)
        if done.returncode:
            rows.append([name, "it fails: " + done.stderr.decode("utf-8", "replace").strip()[-80:], "-", 0])
        else:
            ms, crashes, checked = json.loads(done.stdout.splitlines()[-1])
            rows.append([name, f"{ms:.2f}", crashes, checked])
    return rows


def main(arguments: Sequence[str] = ()) -> int:
    """Measure and print. 2: could not measure."""
    if "--memory" in arguments:
        print_memory(Path(arguments[-1]))
        return 0
    small = "--small" in arguments
    count = SMALL if small else FULL
    with tempfile.TemporaryDirectory() as around:
        root = Path(around) / "skills"
        write_tree(root, count)
        try:
            check_all(root)  # a cold cache would be the disk's time
            parsed, found = timed(lambda: parse_all(root))
            checked, seen = timed(lambda: check_all(root))
            markdown, _ = timed(lambda: markdown_all(root))
            peak, kept = memory(root)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"could not measure: {error}", file=sys.stderr)
            return 2
        lost = naive_losses(root)
        beside = [] if small else peers(root, PEER_SAMPLE)
    per_skill, whole, plain = (1000 * seconds / count for seconds in (parsed, checked, markdown))
    print(f"{count} skills, milliseconds of one processor a skill")
    rows = [
        ["front matter, three profiles, evals, manifests", f"{per_skill:.2f}"],
        ["everything that check does", f"{whole:.2f}"],
        ["markdown-it alone, same files", f"{plain:.2f}"],
    ]
    print(table(["what", "ms"], rows))
    if beside:
        print(table(["peer", "ms", "crashes", "skills"], beside))
    missing = 3 * count - found - seen - kept
    reference = next(
        (float(str(row[1])) for row in beside if str(row[0]).startswith("skills-ref") and row[2] != "-"), None
    )
    print(
        last_line(
            [
                figure("intake", per_skill, "ms a skill: front matter, three profiles, evals, manifests (baseline: skills-ref)",
                       n=count, baseline=reference, goal=f"<= {GOAL_MS}", ok=per_skill <= GOAL_MS),
                figure("intake", whole, "ms a skill, all included (baseline: markdown-it's own parse)", n=count, baseline=plain,
                       goal=f"ratio <= {GOAL_RATIO}", ok=whole <= GOAL_RATIO * plain),
                figure("intake", peak, "MB above the imported program", n=count, goal=f"<= {GOAL_MB:g}", ok=peak <= GOAL_MB),
                figure("intake", missing, "skills lost (baseline: by a reader that splits at ---)", n=count, baseline=lost,
                       goal="0", ok=missing == 0),
            ]
        )
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
