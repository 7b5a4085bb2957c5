"""J18: no agent that does no work passes a suite that the gate calls valid; suites that are weak on purpose are caught.

Two ways, one bench. The control, as every session takes it: the nine null agents over the demo's suites, over the suites of
the corpus where it is there, and over suites that are weak by construction. And the whole gate from end to end: sessions in
which a null agent runs the cases of the suites that the control calls valid, with an honest judge and with one that passes
everything. Beside it the naive variant: the mean rate of single checks over .8, without a control.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.judgement import CheckStatus
from gate.domain.skill import Skill
from gate.domain.suite import Case, Suite
from gate.execution.null_agents import NULL_AGENTS, NullAgent, NullStage
from gate.intake.tree import each_in_folder
from gate.judging.ground_truth.trivial import without_a_run
from gate.pipeline.null_controls import null_results, only_judged
from tests.bench import _trust
from tests.bench._figures import last_line, share, table
from tests.in_process import gate
from tests.scripted.demo import LOCATION
from tests.scripted.judges import LINE, ROW, grader
from tests.scripted.values import Reply, Request

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo" / "main"
CORPUS = ROOT.parent / "shared" / "corpus"
DAY = "2026-01-31"
_FILES = 12
"""Planted files that a session's agent writes: the first of them, one call each."""


class Tried(NamedTuple):
    """One suite."""

    name: str
    suite: Suite
    skill: Skill | None

    @property
    def stage(self) -> NullStage:
        return NullStage(self.suite, self.skill)


SKILL = (
    "---\nname: totals\ndescription: Adds amounts by region. Use when somebody asks for totals.\n---\n# Totals\n\n"
    "- Read orders.csv and add the amounts by region.\n- Never touch orders.csv.\n- End with the words Kind regards.\n"
)
ORDERS = "order,region,amount\n1,north,10.50\n2,north,4.25\n"
WEAK: dict[str, list[dict[str, Any]]] = {
    "touches nothing": [{"kind": "file_unchanged", "path": "orders.csv"}],
    "changes nothing else": [{"kind": "files_changed_only", "paths": ["totals.json"]}],
    "no such file": [{"kind": "file_absent", "path": "secrets.txt"}],
    "calls no tool": [{"kind": "tool_call_forbidden", "tools": ["send_email"]}],
    "few calls": [{"kind": "tool_call_count", "tool": "bash", "max": 9}],
    "says nothing bad": [{"kind": "response_not_contains", "pattern": "sorry"}],
    "short": [{"kind": "response_word_count", "max": 200}],
    "cheap": [{"kind": "run_budget", "max_tokens": 100_000}],
    "repeats no call": [{"kind": "tool_call_repeats", "max": 1}],
    "opened": [{"kind": "skill_opened", "opened": True}],
    "fixture holds": [{"kind": "file_contains", "path": "orders.csv", "text": "north"}],
    "a word of the prompt": [{"kind": "response_contains", "keyword": "orders.csv"}],
    "a word of the fixture": [{"kind": "response_contains", "keyword": "10.50"}],
    "a word of the skill": [{"kind": "response_contains", "keyword": "Kind regards"}],
    "one of the skill's words": [{"kind": "response_contains_any", "texts": ["Kind regards", "Yours"]}],
    "all of the skill's words": [{"kind": "response_contains_all", "texts": ["Kind", "regards"]}],
    "any heading": [{"kind": "response_headings", "headings": ["## Summary", "## Next steps"]}],
    "no placeholder": [{"kind": "response_no_placeholders"}],
    "links resolve": [{"kind": "response_links"}],
    "English": [{"kind": "response_language", "language": "en"}],
    "some file is there": [{"kind": "file_exists", "path": "expected.txt"}],
    "claims success": [{"kind": "response_matches", "pattern": "(?i)pass|done|complete"}],
}


def weak_suites() -> Iterator[tuple[str, str]]:
    """(name, skill-gate.yaml) of suites that a null agent passes by construction."""
    for name, checks in WEAK.items():
        cases = [
            {"id": f"case-{number}", "prompt": f"Add up orders.csv, try {number}.", "files": {"orders.csv": ORDERS}, "checks": checks}
            for number in (1, 2)
        ]  # fmt: skip
        yield name, json.dumps({"version": 1, "cases": cases})


def read(folder: Path, prefix: str = "") -> list[Tried]:
    """Every suite below a folder that has a case."""
    return [
        Tried(f"{prefix}{item.path}", item.suite, item.skill)
        for item in each_in_folder(folder)
        if item.suite is not None and item.suite.cases
    ]


def made(folder: Path) -> list[Tried]:
    """The weak suites, read as any suite is."""
    for name, text in weak_suites():
        place = folder / name.replace(" ", "-").replace("'", "")
        (place / "evals").mkdir(parents=True)
        (place / "SKILL.md").write_text(SKILL.replace("name: totals", f"name: {place.name.casefold()}"), "utf-8")
        (place / "evals" / "skill-gate.yaml").write_text(text, "utf-8")
    return read(folder)


def naive_passes(tried: Tried, agent: NullAgent) -> bool:
    """Whether the mean rate of single checks is at least .8."""
    results = [
        item
        for case in tried.suite.cases
        for act in [agent.act(case, tried.stage)]
        for item in without_a_run(case, run_date=DAY, response=act.response, files=act.files, opened=True)
    ]
    passed = sum(item.status is CheckStatus.PASSED for item in results)
    return bool(results) and passed >= 0.8 * len(results)


def lenient(request: Request) -> Reply:
    """A judge that passes every row but the controls it could know by their form, and quotes whatever stands there."""
    text = request.messages[0].text
    lines = [(place, line) for place, line in LINE.findall(text) if len(line.strip()) >= 8]
    rows = [
        {"id": row_id, "quotes": [{"source": lines[0][0], "text": lines[0][1]}] if lines else [], "reason": "fine", "verdict": "pass"}
        for row_id, _, _ in ROW.findall(text)
    ]  # fmt: skip
    return Reply.of_json({"rows": rows, "claims": [], "eval_feedback": []})


def executor(agent: NullAgent, tried: Tried) -> Any:
    """The null agent as the model of a session: it opens the skill, plants its files, answers."""
    by_prompt = {case.request: case for case in tried.suite.cases}

    def step(request: Request) -> Reply:
        location = LOCATION.search(request.system)
        results = [result for message in request.messages for result in message.tool_results]
        if location and not results:
            return Reply.calling("bash", {"command": f"cat {location[1]}"})
        case = _asked(by_prompt, request)
        act = agent.act(case, tried.stage)
        files = list(act.files.items())[:_FILES]
        done = len(results) - bool(location)
        if done < len(files):
            path, data = files[done]
            return Reply.calling("write_file", {"path": path, "content": data.decode()})
        return Reply(act.response)

    return step


def _asked(by_prompt: dict[str, Case], request: Request) -> Case:
    text = next(message.text for message in request.messages if message.role == "user")
    return next(case for prompt, case in by_prompt.items() if prompt.strip() in text)


def verdict(folder: Path, tried: Tried, agent: NullAgent, judge: Any) -> str:
    """What a whole session says of a skill whose cases this agent ran."""
    assert tried.skill is not None
    path = f"skills/{tried.skill.name}"
    main = {f"{path}/{file.path}": file.data.decode("utf-8") for file in tried.skill.files if file.is_regular}
    change = {f"{path}/SKILL.md": f"{main[f'{path}/SKILL.md']}\nOne more line.\n"}
    ran = gate(folder, main, change, steps={"agent": executor(agent, tried), "judge": judge})
    return str(ran.skill["verdict"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="two agents end to end, for the shape only")
    small = parser.parse_args(arguments).small
    with tempfile.TemporaryDirectory(prefix="nulls-") as place:
        weak = made(Path(place) / "weak")
        suites = read(DEMO) + (read(CORPUS) if CORPUS.is_dir() and not small else [])
        results = {tried.name: null_results(tried.stage, run_date=DAY) for tried in suites + weak}
        caught = [tried for tried in weak if any(item.passes for item in results[tried.name])]
        valid = [tried for tried in suites if not any(item.passes for item in results[tried.name])]
        unknown = sum(item.verdict is None for tried in suites for item in results[tried.name])
        judged = sum(only_judged(tried.stage) for tried in suites)
        naive = sum(any(naive_passes(tried, agent) for agent in NULL_AGENTS) for tried in weak)
        sessions = passed = 0
        agents = NULL_AGENTS[:1] if small else NULL_AGENTS
        for tried in [item for item in valid if item.name.startswith(str(DEMO))][: 1 if small else None]:
            for agent in agents:
                for judge in (grader, lenient)[: 1 if small else None]:
                    sessions += 1
                    passed += verdict(Path(place) / f"session-{sessions}", tried, agent, judge) == "pass"
    by_agent = {
        agent.name: sum(item.passes for tried in weak for item in results[tried.name] if item.agent == agent.name)
        for agent in NULL_AGENTS
    }
    print(table(["null agent", "weak suites passed"], [[name, count] for name, count in by_agent.items()]))
    print(
        f"suites: {len(suites)}, valid: {len(valid)}, only a grader decides: {judged}, unknown without engine: {unknown}"
    )
    pairs = len(NULL_AGENTS) * len(valid)
    figures = [
        share("null_agents", passed, sessions, "whole sessions passed by a null agent", goal="0", at_most=0.0),
        share("null_agents", len(suites) - len(valid), len(suites), "suites of demo and corpus called invalid", goal="each with a cause", at_most=1.0),
        share("null_agents", len(weak) - len(caught), len(weak), "weak suites not caught", goal="0", at_most=0.0, baseline_hits=naive),
    ]  # fmt: skip
    if not small:
        text = (
            f"{len(valid)} of {len(suites)} suites of the demo and the corpus are valid by the control ({pairs} pairs of suite and "
            f"agent, none passes; in {judged} suites only a grader decides, which no control can know); whole sessions run by null "
            f"agents, with an honest judge and one that passes everything: {passed} of {sessions} pass. Of {len(weak)} suites that are "
            f"weak on purpose {len(caught)} are caught; without a control, by a mean rate of .8, {naive} would pass.\n\n"
        ) + _trust.markdown_table(
            ["null agent", "weak suites that it passes"], [[name, str(count)] for name, count in by_agent.items()]
        )
        _trust.write_section("null_agents", "Agents that do no work (J18)", text)
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
