"""``skill-gate run`` in this process: a real repository, a scripted model over HTTP, sandboxes in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gate.cli import main as run_command
from gate.wiring import bind
from tests.fakes.sandbox import Program, ScriptedSandbox
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import make_repository
from tests.unit.execution.world import shell


@dataclass(frozen=True)
class Ran:
    """What one session left behind."""

    code: int
    report: dict[str, Any]
    comment: str
    log: tuple[str, ...]
    calls: int
    """Requests that reached the model server."""
    bundle: Path

    @property
    def skill(self) -> dict[str, Any]:
        """The only skill of the report."""
        (skill,) = self.report["skills"]
        found: dict[str, Any] = skill
        return found


def gate(
    folder: Path,
    main: Mapping[str, str],
    change: Mapping[str, str | None],
    *,
    options: Sequence[str] = (),
    program: Program | None = None,
    environ: Mapping[str, str] | None = None,
    seed: str = "5" * 64,
    steps: Mapping[str, Any] | None = None,
) -> Ran:
    """Run the command over a repository whose branch ``change`` stands on ``main``. ``steps``: agent, judge, compare, others."""
    repository = make_repository(folder / "repository", main, change)
    out = folder / "bundle"
    log: list[str] = []
    with ScriptedServer(scenario(**dict(steps or {}))) as server, ScriptedSandbox(program or shell()) as sandbox:
        app = bind({"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key", **(environ or {})}, threading.Event())
        code = run_command(
            replace(app, make_sandbox=lambda: sandbox, say=log.append, abort=lambda: None),
            [
                "run", "--repository", str(repository), "--base", "main", "--out", str(out), "--seed", seed, "--jobs", "2",
                "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge", *options,
            ],
        )  # fmt: skip
        calls = len(server.requests)
    for name in ("report.json", "report.md"):
        if not (out / name).is_file():
            raise AssertionError(f"there is no {name}; exit code {code}:\n" + "\n".join(log))
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return Ran(code, report, (out / "report.md").read_text(encoding="utf-8"), tuple(log), calls, out)
