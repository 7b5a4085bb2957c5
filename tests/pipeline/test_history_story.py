"""What earlier sessions recorded of a skill: the trend, and mode ``regression``, through the command line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gate.audit.verify import verify_bundle
from gate.cli import main as run_command
from gate.wiring import bind
from reporters import render
from tests.fakes.sandbox import ScriptedSandbox
from tests.report_linter import lint
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import git, make_repository
from tests.unit.execution.world import shell

# The scripted agent reads SKILL.md and answers with its headings.
SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# {title}\n\nAdd them.\n"
PATH = "skills/sums/SKILL.md"
SUITE = "skills/sums/evals/skill-gate.yaml"


def case(number: int, *, tag: str | None = "golden", severity: str = "must") -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": f"case-{number}",
        "prompt": f"What is {number} and 2?",
        "checks": [
            {"id": "named", "kind": "response_contains", "keyword": "Sums", "severity": severity},
            {"id": "read", "kind": "tool_call_count", "tool": "bash", "min": 1},  # no null agent calls a tool
        ],
    }
    return found if tag is None else {**found, "tag": tag}


@dataclass
class Session:
    """One run of the command."""

    report: dict[str, Any]
    bundle: Path
    log: list[str]
    code: int
    runs: int

    @property
    def skill(self) -> dict[str, Any]:
        (found,) = self.report["skills"]
        return dict(found)

    @property
    def verdict(self) -> str:
        return str(self.skill["verdict"])

    def history(self) -> list[dict[str, Any]]:
        (path,) = self.bundle.glob("skills/*/history.json")
        return list(json.loads(path.read_text()))

    @property
    def reason(self) -> str:
        return str(self.skill["reasons"][0])


@dataclass
class Desk:
    """A repository with a main branch, one model server and one cache over several sessions."""

    folder: Path
    server: ScriptedServer
    cases: list[dict[str, Any]] = field(default_factory=lambda: [case(number) for number in (1, 2)])
    sessions: int = 0

    def __post_init__(self) -> None:
        self.repository = make_repository(
            self.folder / "repository",
            {PATH: SKILL.format(title="Sums"), SUITE: json.dumps({"version": 1, "cases": self.cases})},
            {},
        )
        git(self.repository, "switch", "--quiet", "main")

    def branch(self, name: str, files: Mapping[str, str]) -> None:
        git(self.repository, "switch", "--quiet", "--create", name)
        self.commit(files)

    def commit(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.repository / path).write_text(text, encoding="utf-8")
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "--quiet", "--allow-empty", "--message", "change")

    def run(self, *options: str, mode: str, key: str = "key", verify: bool = False) -> Session:
        self.sessions += 1
        out = self.folder / f"bundle-{self.sessions}"
        log: list[str] = []
        with ScriptedSandbox(shell()) as sandbox:
            app = bind({"OPENAI_API_KEY": key}, threading.Event())
            code = run_command(
                replace(app, make_sandbox=lambda: sandbox, say=log.append, abort=lambda: None),
                [
                    "run", "skills/sums", "--repository", str(self.repository), "--base", "main", "--mode", mode,
                    "--out", str(out), "--jobs", "2", "--cache", str(self.folder / "cache"),
                    "--model", f"openai@{self.server.openai_url}:agent",
                    "--judge-model", f"openai@{self.server.openai_url}:judge", *options,
                ],
            )  # fmt: skip
            runs = len(sandbox.boxes)
        if not (out / "report.json").exists():
            pytest.fail(f"exit {code}: {log}")
        if verify:
            assert verify_bundle(out, render).problems == ()
        return Session(json.loads((out / "report.json").read_text()), out, log, code, runs)

    def sharded(
        self, *, mode: str, key: str | None = "key", cache: str = "cache", again: Path | None = None
    ) -> Session:
        """The same in two shards on machines that keep nothing, merged where the cache is; a second time to ``again``."""
        self.sessions += 1
        log: list[str] = []
        plan, out = self.folder / f"plan-{self.sessions}.json", self.folder / f"bundle-{self.sessions}"
        parts = [self.folder / f"part-{self.sessions}-{number}" for number in (1, 2)]
        with ScriptedSandbox(shell()) as sandbox:

            def command(*arguments: object) -> int:
                app = bind({"OPENAI_API_KEY": key} if key else {}, threading.Event())
                app = replace(app, make_sandbox=lambda: sandbox, say=log.append, abort=lambda: None)
                return run_command(app, list(map(str, arguments)))

            command(
                "plan", "skills/sums", "--repository", self.repository, "--base", "main", "--mode", mode, "--out", plan,
                "--shards", "2", "--model", f"openai@{self.server.openai_url}:agent",
                "--judge-model", f"openai@{self.server.openai_url}:judge",
            )  # fmt: skip
            for number, part in enumerate(parts, 1):
                command("run", "--plan", plan, "--shard", f"{number}/2", "--out", part, "--no-cache")
            code = command("merge", *parts, "--plan", plan, "--out", out, "--cache", self.folder / cache)
            if again is not None:
                command("merge", *parts, "--plan", plan, "--out", again, "--cache", self.folder / cache)
            runs = len(sandbox.boxes)
        if not (out / "report.json").exists():
            pytest.fail(f"exit {code}: {log}")
        assert verify_bundle(out, render).problems == ()
        return Session(json.loads((out / "report.json").read_text()), out, log, code, runs)


@contextmanager
def desk(folder: Path, **given: Any) -> Iterator[Desk]:
    with ScriptedServer(scenario()) as server:
        yield Desk(folder, server, **given)


def test_a_session_leaves_a_history_in_the_source_s_shape_with_its_own_facts(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        first, second = here.run(mode="full"), here.run(mode="smoke", verify=True)
    assert first.skill["history"] is None
    assert len(first.history()) == 1
    entries = second.history()
    assert [entry["mode"] for entry in entries] == ["full", "smoke"]
    entry = entries[0]
    assert (entry["eval_count"], entry["exact_pass_rate"], entry["semantic_pass_rate"]) == (2, 1.0, None)
    assert (entry["verdict"], entry["overall_pass_rate"]) == ("S", 1.0)
    assert entry["git_sha"] == git(here.repository, "rev-parse", "main")[:8]
    assert entry["skill_gate"]["on_default"] is True
    assert entry["skill_gate"]["cases"][0]["assertions"]["check named"] == {"passed": 3, "failed": 0, "runs": 3}
    assert "default branch, last 1 of 1: pass 2/2" in second.skill["history"]["words"]
    assert "history: default branch, last 1 of 1: pass 2/2" in (second.bundle / "report.md").read_text()
    assert "Earlier session" in (second.bundle / "report.html").read_text()


def test_regression_passes_where_golden_cases_are_as_the_default_branch_recorded_them(tmp_path: Path) -> None:
    with desk(tmp_path, cases=[case(1), case(2), case(3, tag=None)]) as here:
        here.run(mode="standard")
        here.branch("change", {PATH: SKILL.format(title="Sums") + "\nSpeak up.\n"})
        session = here.run(mode="regression", verify=True)
    assert session.verdict == "pass", session.skill["reasons"]
    assert "held against the baseline of" in session.reason
    assert session.runs == 4  # two golden cases, two runs each
    assert "mode regression runs 2 of 3 cases, those with tag: golden" in " ".join(session.report["notes"])
    assert len(session.skill["history"]["baseline"]) == 2
    assert lint((session.bundle / "report.md").read_text()) == []
    # What a case cost is counted over all roles, beside what it might cost.
    costs = [
        (case["eval_id"], case["spent"]["calls"], case["share"]["model_calls"] > 2) for case in session.skill["cases"]
    ]
    assert [(eval_id, shared) for eval_id, _, shared in costs] == [("case-1", True), ("case-2", True)]
    total = sum(use["calls"] for use in session.report["usage"])
    assert sum(calls for _, calls, _ in costs) == total - 2  # the first answer of each model is no case's
    assert session.code == 0


def test_a_session_in_shards_is_remembered_and_held_against_what_is(tmp_path: Path) -> None:
    """Also where the machines of the shards have no cache: the one that merges knows what was."""
    with desk(tmp_path) as here:
        first = here.sharded(mode="standard")
        here.branch("change", {PATH: SKILL.format(title="Sums") + "\nSpeak up.\n"})
        same = here.sharded(mode="regression", again=tmp_path / "again")
        here.commit({PATH: SKILL.format(title="Other")})
        worse, whole = here.sharded(mode="regression"), here.run(mode="regression")
        values = {path.name for path in (tmp_path / "cache").glob("values/*/*/*.json")}
    assert (tmp_path / "again/report.json").read_bytes() == (same.bundle / "report.json").read_bytes()
    (entry,) = first.history()
    assert (entry["mode"], entry["skill_gate"]["on_default"]) == ("standard", True)
    assert first.skill["history"] is None
    assert same.verdict == "pass", same.skill["reasons"]
    assert "held against the baseline of" in same.reason
    assert (worse.verdict, whole.verdict) == ("fail", "fail"), worse.skill["reasons"]
    words = "default branch, last 1 of 1: pass 2/2"
    assert "other sessions here" not in same.skill["history"]["words"]
    assert all(words in session.skill["history"]["words"] for session in (same, worse, whole))
    assert "other sessions here, last 2 of 2: pass 2/2" in whole.skill["history"]["words"]
    assert [item["skill_gate"]["on_default"] for item in whole.history()] == [True, False, False, False]
    assert len(values) == 1  # one scope


def test_a_merge_believes_no_history_that_its_key_did_not_sign_and_without_a_key_it_keeps_none(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        here.sharded(mode="standard")
        for path in (tmp_path / "cache").glob("values/*/*/*.json"):
            path.write_text(path.read_text().replace('"verdict": "S"', '"verdict": "A"'))
        forged = here.sharded(mode="regression")
        unkeyed = here.sharded(mode="standard", key=None, cache="other")
        assert not (tmp_path / "other").exists()
    assert forged.verdict == "inconclusive"
    assert "no session on the default branch was recorded" in forged.reason
    assert "cache/forged" in {finding["rule"] for finding in forged.report["session_findings"]}
    assert any("nothing is added to the history" in line for line in unkeyed.log)


@pytest.mark.requirements("R143")
def test_regression_fails_where_what_the_baseline_held_is_gone(tmp_path: Path) -> None:
    """A ``should`` check: in no other way than by the baseline could it fail a skill."""
    with desk(tmp_path, cases=[case(number, severity="should") for number in (1, 2)]) as here:
        here.run(mode="standard")
        here.branch("change", {PATH: SKILL.format(title="Other")})
        session = here.run(mode="regression", verify=True)
    assert session.verdict == "fail", session.skill["reasons"]
    assert "it passed in all 2 runs of the recorded baseline" in session.reason
    assert session.code == 1


def test_regression_without_a_baseline_says_so_and_what_to_run_and_passes_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        session = here.run(mode="regression")
        assert session.verdict == "inconclusive"
        assert "no recorded baseline for any of the 2 golden cases" in session.reason
        assert "no session on the default branch was recorded" in session.reason
        assert "run skill-gate run skills/sums --mode full on the default branch" in session.reason
        here.run(mode="standard")
        assert here.run(mode="regression").verdict == "pass"


def test_a_regression_run_is_no_baseline_for_the_next_one(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        for _ in range(2):
            assert here.run(mode="regression").verdict == "inconclusive"


def test_what_another_model_or_key_recorded_is_no_baseline(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        here.run(mode="standard")
        another = here.run("--model", f"openai@{here.server.openai_url}:another", mode="regression")
        stranger = here.run(mode="regression", key="somebody else's")
        for path in (tmp_path / "cache").glob("values/*/*/*.json"):
            path.write_text(path.read_text().replace('"verdict": "S"', '"verdict": "A"'))
        forged = here.run(mode="regression")
    for session, why in (
        (another, "another with loop"),
        (stranger, "no session on the default branch was recorded"),
        (forged, "no session on the default branch was recorded"),
    ):
        assert session.verdict == "inconclusive", session.skill["reasons"]
        assert "no recorded baseline" in session.reason
        assert why in session.reason
    for session in (stranger, forged):
        assert "cache/forged" in {finding["rule"] for finding in session.report["session_findings"]}


def test_a_branch_s_own_session_is_no_baseline(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        here.branch("change", {PATH: SKILL.format(title="Sums") + "\nSpeak up.\n"})
        assert here.run(mode="standard").verdict == "pass"
        session = here.run(mode="regression")
    assert session.verdict == "inconclusive"
    assert "other sessions here, last 1 of 1: pass 2/2" in session.skill["history"]["words"]


def test_a_golden_case_that_is_new_is_compared_with_nothing_and_said(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        here.run(mode="standard")
        more = [*here.cases, case(3)]
        here.branch("change", {SUITE: json.dumps({"version": 1, "cases": more})})
        session = here.run(mode="regression")
    assert session.verdict == "conditional"
    assert "1 of 3 golden cases have no recorded baseline (eval case-3)" in session.reason


def test_without_golden_cases_regression_runs_nothing_and_says_why(tmp_path: Path) -> None:
    with desk(tmp_path, cases=[case(1, tag=None)]) as here:
        session = here.run(mode="regression")
    assert session.verdict == "blocked"
    assert "no case of this suite has it" in session.reason
    assert session.runs == 0


def test_golden_cases_that_a_null_agent_passes_are_invalid_whatever_the_cases_beside_them_ask(tmp_path: Path) -> None:
    weak = case(1)
    weak["checks"] = weak["checks"][:1]  # whoever prints SKILL.md
    with desk(tmp_path, cases=[weak, case(2, tag=None)]) as here:
        full, golden = here.run(mode="full"), here.run(mode="regression")
    assert full.verdict == "pass", full.skill["reasons"]
    assert (golden.verdict, golden.runs) == ("invalid", 0)
    assert "suite/null-agent-passes" in golden.reason


def test_a_cache_that_takes_nothing_costs_no_session_its_verdict(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache" / "values").write_text("no folder")
        found = here.run(mode="standard")
    assert (found.verdict, found.code) == ("pass", 0), found.log
    assert any("could not be kept" in line for line in found.log)
