"""What a second push pays for, and what nobody may slip into the cache, through the command line."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gate.audit.verify import verify_bundle
from gate.cli import main as run_command
from gate.evidence.cache import Cache, CacheScope, derive_key
from gate.wiring import bind
from reporters import render
from tests.fakes.sandbox import ScriptedSandbox
from tests.scripted.demo import LOCATION
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import git, make_repository
from tests.unit.execution.world import shell

SKILL = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd {word}.\n"
PATH = "skills/sums/SKILL.md"
SUITE = "skills/sums/evals/skill-gate.yaml"
CASES: list[dict[str, Any]] = [
    {
        "id": f"case-{number}",
        "prompt": f"What is {number} and 2?",
        "checks": [{"id": "named", "kind": "response_contains", "keyword": "the part Sums"}],
        "expectations": [{"id": "e0", "text": 'The answer holds the word "Sums".'}],
    }
    for number in (1, 2, 3)
]


@dataclass
class Push:
    """One session of the command."""

    report: dict[str, Any]
    calls: int
    tokens: int
    boxes: int
    bundle: Path
    log: list[str]

    @property
    def verdict(self) -> str:
        return str(self.report["skills"][0]["verdict"])

    def reused(self) -> int:
        counts = self.report["skills"][0]["fallbacks"]
        return sum(item["count"] for item in counts if item["kind"] == "run_reused")


class Desk:
    """A repository, one model server and one cache over several pushes."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.server = server
        self.repository = make_repository(
            folder / "repository",
            {PATH: SKILL.format(word="up"), SUITE: json.dumps({"version": 1, "cases": CASES})},
            {PATH: SKILL.format(word="them up")},
        )
        self.pushes = 0

    def change(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.repository / path).parent.mkdir(parents=True, exist_ok=True)
            (self.repository / path).write_text(text, encoding="utf-8")
        git(self.repository, "add", "--all")
        git(self.repository, "commit", "--quiet", "--allow-empty", "--message", "push")

    def push(self, *options: str, image: str = "", **environ: str) -> Push:
        self.pushes += 1
        out = self.folder / f"bundle-{self.pushes}"
        log: list[str] = []
        before = len(self.server.requests)
        with ScriptedSandbox(shell()) as sandbox:
            if image:
                sandbox.images["skill-gate-sandbox:dev"] = image
            app = bind({"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key", **environ}, threading.Event())
            code = run_command(
                replace(app, make_sandbox=lambda: sandbox, say=log.append, abort=lambda: None),
                [
                    "run", "--repository", str(self.repository), "--base", "main", "--out", str(out), "--jobs", "2",
                    "--model", f"openai@{self.server.openai_url}:agent",
                    "--judge-model", f"openai@{self.server.openai_url}:judge", "--cache", str(self.cache), *options,
                ],
            )  # fmt: skip
            boxes = len(sandbox.boxes)
        if not (out / "report.json").exists():
            pytest.fail(f"exit {code}: {log}")
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        tokens = sum(use["known_input_tokens"] + use["known_output_tokens"] for use in report["usage"])
        result = verify_bundle(out, render)
        assert result.problems == ()
        return Push(report, len(self.server.requests) - before, tokens, boxes, out, log)


@contextmanager
def desk(folder: Path) -> Iterator[Desk]:
    with ScriptedServer(scenario()) as server:
        yield Desk(folder, server)


def test_an_unchanged_skill_costs_no_model_call_and_no_container(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        first, second = here.push(), here.push()
        assert first.calls > 0
        assert first.boxes > 0
        assert (second.calls, second.boxes, second.tokens) == (0, 0, 0)
        assert second.verdict == first.verdict
        assert second.reused() == first.boxes
        assert first.reused() == 0


def test_a_change_of_the_skill_alone_keeps_the_runs_that_do_not_read_it(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        first = here.push()
        here.change({PATH: SKILL.format(word="everything up")})
        second = here.push()
        runs = [json.loads(path.read_text()) for path in sorted(second.bundle.glob("skills/*/*/*/*/run.json"))]
        reused = {path.parent.name for path in second.bundle.glob("skills/*/*/*/*/reuse.json")}
        assert reused == {"without_skill", "base_skill"}
        assert len(runs) == first.boxes
        assert second.tokens < 0.7 * first.tokens


@pytest.mark.parametrize("part", ["prompt", "fixture", "limit of the model", "image"])
def test_what_a_run_depends_on_makes_a_new_run(tmp_path: Path, part: str) -> None:
    with desk(tmp_path) as here:
        first = here.push()
        cases = json.loads(json.dumps(CASES))
        options: tuple[str, ...] = ()
        image = ""
        if part == "prompt":
            for case in cases:
                case["prompt"] += " Please."
        elif part == "fixture":
            for case in cases:
                case["files"] = {"a.txt": "1\n"}
        elif part == "limit of the model":
            options = ("--model", f"openai@{here.server.openai_url}:another")
        else:
            image = "sha256:" + "e" * 64
        here.change({SUITE: json.dumps({"version": 1, "cases": cases})})
        second = here.push(*options, image=image)
        with_runs = list(second.bundle.glob("skills/*/*/*/with_skill/reuse.json"))
        assert with_runs == []
        assert second.boxes >= first.boxes


def test_a_further_expectation_is_judged_anew_over_the_runs_that_are_there(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        here.push()
        cases = json.loads(json.dumps(CASES))
        for case in cases:
            case["expectations"].append({"id": "e1", "text": 'The answer names the part "Sums".'})
        here.change({SUITE: json.dumps({"version": 1, "cases": cases})})
        second = here.push()
        assert second.calls > 0


def test_without_the_cache_nothing_is_used_and_nothing_kept(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        (tmp_path / "cache").mkdir()
        first = here.push()
        shutil.rmtree(here.cache)
        log = tmp_path / "other"
        assert first.calls
        before = len(here.server.requests)
        with ScriptedSandbox(shell()) as sandbox:
            app = bind({"OPENAI_API_KEY": "key"}, threading.Event())
            run_command(
                replace(app, make_sandbox=lambda: sandbox, say=lambda text: None, abort=lambda: None),
                [
                    "run", "--repository", str(here.repository), "--base", "main", "--out", str(log), "--no-cache",
                    "--model", f"openai@{here.server.openai_url}:agent",
                    "--judge-model", f"openai@{here.server.openai_url}:judge",
                ],
            )  # fmt: skip
        assert len(here.server.requests) - before == first.calls
        assert not here.cache.exists()


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("runs/*/*/*/entry.json"))


def rules(push: Push) -> set[str]:
    return {finding["rule"] for finding in push.report["session_findings"]}


def test_a_forged_answer_in_the_cache_is_a_miss_and_a_finding(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        first = here.push()
        for path in here.cache.glob("runs/*/*/*/run/outputs/response.md"):
            path.write_text("Sums, of course.\n")
        second = here.push()
        assert second.boxes == first.boxes
        assert rules(second) >= {"cache/forged"}


def test_an_entry_with_another_key_is_a_miss_and_a_finding(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        first = here.push()
        second = here.push(SKILL_GATE_CACHE_KEY="somebody else's")
        assert second.boxes == first.boxes
        assert rules(second) >= {"cache/forged"}


def test_an_entry_of_another_pull_request_is_a_miss_and_a_finding(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        first = here.push()
        for path in [*here.cache.glob("runs/*/*/*"), *here.cache.glob("values/*/*/*")]:
            name = path.name.replace("local", "pull-8")
            path.rename(path.with_name(name))
        second = here.push()
        assert second.boxes == first.boxes
        assert rules(second) >= {"cache/foreign"}


def test_a_forged_reply_is_a_miss(tmp_path: Path) -> None:
    with desk(tmp_path) as here:
        here.push()
        for path in here.cache.glob("values/*/*/*.json"):
            entry = json.loads(path.read_text())
            entry["value"]["text"] = "{}"
            path.write_text(json.dumps(entry))
        second = here.push()
        assert second.boxes == 0
        assert second.calls > 0
        assert rules(second) >= {"cache/forged"}


def test_old_entries_do_not_serve(tmp_path: Path) -> None:
    scope = CacheScope(repository="1", name="default")
    kept = Cache(tmp_path, derive_key("secret"), scope, today="2026-01-01")
    from gate.domain.chat import ChatReply, Finish

    kept.keep_value("reply", "a" * 64, ChatReply(text="x", finish=Finish.STOP), "label")
    for today, found in (("2026-01-31", True), ("2026-02-01", False), ("2025-12-31", False)):
        later = Cache(tmp_path, derive_key("secret"), scope, today=today)
        assert (later.take_value("reply", "a" * 64, ChatReply) is not None) is found
        assert later.problems == ()


def test_the_default_branch_serves_pull_requests_and_not_the_other_way_round(tmp_path: Path) -> None:
    from gate.domain.chat import ChatReply, Finish

    def view(name: str) -> Cache:
        return Cache(tmp_path, derive_key("secret"), CacheScope(repository="1", name=name), today="2026-01-01")

    view("default").keep_value("reply", "a" * 64, ChatReply(text="x", finish=Finish.STOP), "label")
    view("pull/7").keep_value("reply", "b" * 64, ChatReply(text="x", finish=Finish.STOP), "label")
    assert view("pull/7").take_value("reply", "a" * 64, ChatReply) is not None
    for name in ("default", "pull/8"):
        other = view(name)
        assert other.take_value("reply", "b" * 64, ChatReply) is None
        assert [problem.rule for problem in other.problems] == ["foreign"]


def test_what_an_agent_says_before_it_has_read_its_skill_is_not_drawn_anew(tmp_path: Path) -> None:
    """A push that changes the text of SKILL.md asks the same first question; another description asks another one."""

    def turns(server: ScriptedServer, push: Push) -> tuple[int, int]:
        """(first, later) questions of agents that are offered a skill."""
        asked = [request for request in server.requests[-push.calls :] if LOCATION.search(request.system)]
        return sum(request.turn == 0 for request in asked), sum(request.turn > 0 for request in asked)

    with desk(tmp_path) as here:
        assert turns(here.server, here.push()) == (9, 9), "three cases, two runs with the skill and one with its base"
        here.change({PATH: SKILL.format(word="all of them up")})
        text = here.push()
        assert turns(here.server, text) == (0, 6), "what follows is asked anew, in a sandbox of now"
        (executor,) = [use for use in text.report["usage"] if use["role"] == "executor"]
        assert executor["remembered_calls"] == 6
        events = [
            line for path in text.bundle.rglob("with_skill/events.jsonl") for line in path.read_text().splitlines()
        ]
        assert sum('"remembered":true' in line for line in events) == 6, "the record says so"
        here.change({PATH: SKILL.format(word="all of them up").replace("Adds numbers", "Sums numbers")})
        assert turns(here.server, here.push()) == (6, 6)
