"""The demonstration: a small Git repository, a branch that changes its skills, and the gate run on it end to end.

    python examples/demo/run_demo.py [--out DIR] [--record-from MODEL --record-to DIR] [skill-gate options …]

``main/`` is the state of the main branch, ``branch/`` holds what the branch overwrites: it improves ``csv-totals``,
breaks ``release-notes`` and leaves ``ticket-triage``. Without a model key the models are scripted: their wire traffic
was recorded beforehand and is replayed through the real clients, the sandboxes are real. With ANTHROPIC_API_KEY,
OPENAI_API_KEY or ``--model …`` the same demonstration asks real models.

Exits 0 where the gate said what the demonstration is about (exit code 1: one skill is broken), 1 on anything else.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKILLS = ("skills/csv-totals", "skills/release-notes", "skills/ticket-triage")
RECORDING = HERE / "recording"


def make_repository(folder: Path) -> None:
    """A repository with a ``main`` and a ``feature`` branch; the same commits on every machine."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    fixed = {
        "GIT_AUTHOR_NAME": "Demo",
        "GIT_AUTHOR_EMAIL": "demo@example.invalid",
        "GIT_COMMITTER_NAME": "Demo",
        "GIT_COMMITTER_EMAIL": "demo@example.invalid",
        "GIT_AUTHOR_DATE": "2026-01-05T09:00:00+0000",
        "GIT_COMMITTER_DATE": "2026-01-05T09:00:00+0000",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "core.autocrlf=false", *arguments], cwd=folder, check=True, env={**os.environ, **fixed}
        )

    git("init", "--quiet", "--initial-branch=main")
    _copy(HERE / "main", folder)
    git("add", "--all")
    git("commit", "--quiet", "--message", "Three skills")
    git("switch", "--quiet", "--create", "feature")
    _copy(HERE / "branch", folder)
    git("add", "--all")
    git("commit", "--quiet", "--message", "Say what was left out; shorter release notes")


def _copy(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_file():
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
            # The mode is part of a skill's identity; a checkout's umask must not change it.
            place.chmod(0o644)


def arguments(repository: Path, out: Path, extra: list[str]) -> list[str]:
    """The gate's command line for the demonstration."""
    chosen = [
        "run",
        "--repository",
        str(repository),
        *SKILLS,
        "--base",
        "main",
        "--mode",
        "standard",
        "--out",
        str(out),
    ]
    live = os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("OPENAI_API_KEY") or "--model" in extra
    if not live:
        chosen += ["--model", f"replay:{RECORDING}"]
    return chosen + extra


def first_screen(comment: str) -> str:
    """What the comment shows before anything is unfolded, without its markup for machines."""
    shown = comment.partition("<details>")[0]
    lines = [html.unescape(re.sub(r"<!--.*?-->|</?sub>", "", line)).rstrip() for line in shown.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main(extra: list[str]) -> int:
    """Make the repository, run the gate, say where the results are."""
    work = Path(os.environ.get("SKILL_GATE_DEMO", Path.cwd() / ".demo"))
    repository, out = work / "repository", work / "result"
    make_repository(repository)
    shutil.rmtree(out, ignore_errors=True)
    gate = [sys.executable, str(HERE.parents[1] / "entrypoint.py")]
    code = subprocess.run([*gate, *arguments(repository, out, extra)], check=False).returncode
    comment = out / "report.md"
    if comment.exists():
        print(first_screen(comment.read_text(encoding="utf-8")))
    print(f"report.html  {out / 'report.html'}")
    print(f"report.md    {comment}")
    print(f"bundle       {out}")
    if code != 1 or not comment.exists():
        print(
            f"The gate ended with exit code {code}. The demonstration expects 1, since one of its skills is broken.",
            file=sys.stderr,
        )
        return 1
    print("The gate said no (exit code 1), as it should: the branch breaks the skill release-notes.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
