"""The benches beside other tools: their policies on made-up runs, and the tool itself played by a stand-in."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gate.domain.plan import Arm, Enforce
from gate.domain.report import State, Verdict
from tests.bench import _peers, _proof, peers, sabotage
from tests.bench._figures import last_figures
from tests.bench._judged import Judged, Row, Seen
from tests.bench._naive import Fuzzy
from tests.bench._policies import POLICIES, STRICT, WHO
from tests.bench._sabotage import AROUND, RARE, SEED, Came, Picked
from tests.bench._taught import broken_by, taught

STAND_IN = '''"""Speaks like the tool: the same command line, the same loop over an OpenAI-compatible server, the same kind of file."""
import json, pathlib, shutil, sys, tempfile, urllib.request

place = pathlib.Path(sys.argv[2])
option = dict(zip(sys.argv[3::1], sys.argv[4::1]))
config = json.loads((place / "evals.yaml").read_text())
assert (sys.argv[1], option["--min-lift"], config["trials"]) == ("run", "0", int(option["--trials"]))
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]
URL = config["runner_options"]["base_url"] + "/chat/completions"


def act(name, given, box):
    if name == "read_file":
        return (box / given["path"]).read_text()
    (box / given["path"]).parent.mkdir(parents=True, exist_ok=True)
    (box / given["path"]).write_text(given["content"])
    return "wrote it"


def run(case, skill):
    box = pathlib.Path(tempfile.mkdtemp())
    shutil.copytree(place / case["fixtures"], box, dirs_exist_ok=True)
    system = "You are an agent." + (f'\\n\\n<skill name="s">\\n{skill.strip()}\\n</skill>\\n' if skill else "")
    messages = [{"role": "system", "content": system}, {"role": "user", "content": case["prompt"]}]
    for _ in range(9):
        body = json.dumps({"model": config["model"], "messages": messages, "tools": TOOLS}).encode()
        asked = urllib.request.Request(URL, body, {"Authorization": "Bearer x", "Content-Type": "application/json"})
        message = json.load(urllib.request.urlopen(asked))["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            given = json.loads(call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": act(call["function"]["name"], given, box)})
    answer = messages[-1]["content"]
    met = {
        "contains": lambda item: item["value"] in answer,
        "not_contains": lambda item: item["value"] not in answer,
        "file_exists": lambda item: (box / item["path"]).exists(),
    }
    return all(met[item["type"]](item) for item in case["assert"])


rates = [
    sum(run(case, text) for case in config["cases"]) / len(config["cases"])
    for text in ((place / "SKILL.md").read_text(), "")
]
pathlib.Path(option["--output"]).write_text(json.dumps({"lift": rates[0] - rates[1], "verdict": "no clear effect"}))
sys.exit(rates[0] - rates[1] < 0)
'''


def run_of(
    number: int, *said: bool, arm: Arm = Arm.WITH_SKILL, case: str = "one", quotes: tuple[str, ...] = ()
) -> Seen:
    rows = tuple(Row(case, f"e{at}", False, value, quotes) for at, value in enumerate(said))
    return Seen(arm, number, rows, "order 4711 was shipped to Ines\nStatus: 10")


def decided(*runs: Seen) -> dict[str, bool]:
    judged = Judged(Verdict.PASS, dict.fromkeys(Enforce, State.SUCCESS), "", runs, (), 0)
    return {name: policy(judged, "seed") for name, policy in POLICIES.items()}


def test_every_policy_says_where_it_was_seen_and_none_passes_where_nothing_ran() -> None:
    assert set(WHO) == set(POLICIES)
    assert set(STRICT) < set(POLICIES)
    assert not any(decided().values())


def test_policies_decide_as_their_names_say() -> None:
    perfect = decided(*(run_of(number, True, True, quotes=("Status: 10",)) for number in (1, 2)))
    assert all(perfect.values())
    # One assertion of six fails in every run: what a changed rule does.
    broken = decided(*(run_of(number, False, *[True] * 5, quotes=("Status: 10",)) for number in (1, 2)))
    assert {name for name, passed in broken.items() if not passed} == {"one run, .8 of cases", *STRICT}
    # Without the skill it is the same: not less is enough for some.
    lost = decided(run_of(1, False), run_of(1, True, arm=Arm.WITHOUT_SKILL))
    assert not lost["no fewer clean runs than without"]
    # One case of two is broken.
    uneven = decided(run_of(1, *[True] * 8, quotes=("Status: 10",)), run_of(1, False, False, case="two"))
    assert not uneven["mean >= .8 in every case"]


def test_evidence_is_asked_for_by_some_policies_and_a_forged_number_is_likely_enough_for_likeness() -> None:
    forged = decided(run_of(1, True, quotes=("order 4711 was shipped to Inez",)))
    assert forged["mean >= .8, fuzzy quotes"]
    invented = decided(run_of(1, True, quotes=("the parcel came back on Monday",)))
    assert invented["mean >= .8, some evidence"]
    assert not invented["mean >= .8, fuzzy quotes"]
    silent = decided(run_of(1, True))
    assert silent["mean >= .8"]
    assert not silent["mean >= .8, some evidence"]
    assert Fuzzy("a b c").likeness("a b c") == 100


def came(kind: str, verdict: str, *, passes: bool) -> Came:
    green = verdict in ("pass", "conditional", "inconclusive")
    return Came(0, "weaken", kind, verdict, green, verdict == "pass", 20, "", dict.fromkeys(POLICIES, passes))


def test_the_table_says_where_the_goal_is_not_met(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def figures(results: list[Came]) -> list[dict[str, object]]:
        monkeypatch.setattr(peers, "measured", lambda size, jobs: ([], None, results))
        assert peers.main(["--small"]) == 0
        found: list[dict[str, object]] = last_figures(capsys)
        return found

    neutral = came("neutral", "pass", passes=True)
    ten = [*(came("check", "fail", passes=True) for _ in range(9)), came("check", "pass", passes=True), neutral]
    assert all(item["ok"] for item in figures(ten))
    nine = [*ten[1:]]
    assert not any(item["ok"] for item in figures(nine)), "ten times fewer is not shown"
    nobody = [came("check", "fail", passes=False), neutral]
    assert not any(item["ok"] for item in figures(nobody)), (
        "where no policy is wrong there is nothing to be better than"
    )


def test_at_full_size_every_table_stands_in_the_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [came("check", "fail", passes=True), came("expectation", "conditional", passes=True)]
    results += [came("neutral", "inconclusive", passes=True)]
    around = {RARE: results, **{world.name: results for world in AROUND}}
    written: dict[str, str] = {}
    for module in (peers, sabotage):
        monkeypatch.setattr(module, "measured", lambda size, jobs: ([], Counter(), results))
        monkeypatch.setattr(module, "further", lambda corpus, jobs: around)
        monkeypatch.setattr(module, "write_section", lambda name, title, text: written.update({name: text}))
    monkeypatch.setattr(
        peers, "versions_and_rows", lambda corpus: (["as it is"], [["tool", "weaken", "passes", "1", "2"]])
    )
    monkeypatch.setattr(sabotage, "_agreement", lambda corpus, found, most: (5, 5))
    assert peers.main([]) == 0
    figures = last_figures(capsys)
    assert len(figures) == 2 * len(POLICIES)
    assert sabotage.main([]) == 0
    for name in (peers.OURS, peers.GREEN, *POLICIES):
        assert written["peers"].count(f"\n| {name} |") == 3, "both kinds of suites, and the worse worlds"
    assert "| tool | weaken | passes | 1 | 2 |" in written["peers"]
    assert all(f"*{name}*: {tool}" in written["peers"] for name, tool in WHO.items())
    for world in around:
        assert f"| {world}: neutral |" in written["sabotage"]


def test_a_tool_that_is_there_is_run_on_the_same_change_with_the_same_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "skillproof.py").write_text(STAND_IN, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(_proof, "peer_python", lambda *_: Path(sys.executable))
    session = Judged(Verdict.FAIL, {}, "", (), (), 99)
    monkeypatch.setattr(_proof, "whole_session", lambda *_, **__: session)  # the bench of sabotage runs real ones
    number = next(at for at in range(50) if "count.py" not in taught(SEED, at).text and broken(at))
    skill = taught(SEED, number)
    changes = [
        Picked(number, "delete-rule", "check", "SKILL.md", broken(number), ""),
        Picked(number, "comment", "neutral", "SKILL.md", f"{skill.text}\n<!-- nothing -->\n", ""),
    ]
    notes, rows = _proof.versions_and_rows(changes)
    assert "skillproof is 0.1.0" in notes[0]
    ours, theirs, ours_neutral, theirs_neutral = ([name, says, calls] for name, _, says, _, calls in rows)
    assert ours == ours_neutral == ["Skill Gate", "fail", "99"]
    assert theirs_neutral[1] == 'passes, lift +100%, "no clear effect"', "the agent does all that the skill says"
    assert theirs[1].startswith("passes, lift +"), "a rule less is no loss against no skill at all"
    assert theirs[1] != theirs_neutral[1]
    assert all(int(row[2]) > 20 for row in (theirs, theirs_neutral))


def broken(number: int) -> str:
    """The skill without one rule that some, and not all, of its cases show; empty where there is none."""
    skill = taught(SEED, number)
    for line in skill.text.splitlines(keepends=True):
        text = skill.text.replace(line, "")
        if line.startswith("- ") and "status" in line and broken_by(skill, text) == "check":
            return text
    return ""


def test_a_tool_that_cannot_be_installed_is_missing_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(_peers, "FOLDER", tmp_path)
    monkeypatch.setattr(subprocess, "run", fails)
    assert _proof.versions_and_rows([]) == (
        ["skillproof cannot be installed here (CalledProcessError); only policies are compared."],
        [],
    )
    assert list(tmp_path.iterdir()) == []
