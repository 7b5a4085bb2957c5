"""Layer 3 through the command line: a real repository, scripted models over HTTP, sandboxes in memory."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.audit.verify import verify_bundle
from gate.cli import main as run_command
from gate.domain.judgement import Analysis, Comparison, Unblinding
from gate.domain.seeding import SessionSeed
from gate.evidence.seal import seal_bundle
from gate.pipeline import decide
from gate.wiring import bind
from tests.fakes.sandbox import ScriptedSandbox
from tests.in_process import Ran, gate
from tests.scripted.faults import Answer, HttpError
from tests.scripted.generic import reader, scenario
from tests.scripted.judges import LINE
from tests.scripted.server import ScriptedServer
from tests.scripted.values import Reply, Request
from tests.story import make_repository
from tests.unit.execution.world import shell

RULE = "- Always name the total in the first line."
SKILL = (
    "---\nname: sums-of-orders\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\n{rule}\n"
)
SECRET = "sk-ant-REDACTED"


def evals(*types: str) -> str:
    cases = [
        {
            "id": number,
            "type": kind,
            "prompt": f"What is {number} and 2?",
            "expectations": ['The answer contains "About".'],
        }
        for number, kind in enumerate(types, 1)
    ]
    return json.dumps({"skill_name": "sums-of-orders", "evals": cases})


def session(
    tmp_path: Path,
    *types: str,
    mode: str = "full",
    policy: str = "",
    steps: Mapping[str, Any] | None = None,
    **more: Any,
) -> Ran:
    main = {"skills/sums/SKILL.md": SKILL.format(rule="Add."), "skills/sums/evals/evals.json": evals(*types)}
    if policy:
        main[".github/skill-gate.yml"] = policy
    change = {"skills/sums/SKILL.md": SKILL.format(rule=f"Add.\n{RULE}")}
    return gate(tmp_path, main, change, options=("--mode", mode), steps=steps, **more)


def folder(ran: Ran, eval_id: str = "1") -> Path:
    (found,) = ran.bundle.glob(f"skills/*/eval-{eval_id}")
    return found


def compares(better: str, *, score: int = 5) -> Any:
    """A comparator that likes the output with a word, and shows it."""

    def reply(request: Request) -> Answer:
        text = request.messages[0].text
        first, second = text.rsplit("\n\n# The second output\n", 1)
        shown = {"first": first.rsplit("\n\n# The first output\n", 1)[1], "second": second}
        names = ("correctness", "completeness", "accuracy", "organization", "formatting", "usability")
        quotes = []
        for side, section in shown.items():
            source, line = next(found for found in LINE.findall(section) if len(found[1].strip()) >= 8)
            quotes += [{"criterion": name, "output": side, "source": source, "text": line} for name in names]
        marks = {side: dict.fromkeys(names, score if better in section else 2) for side, section in shown.items()}
        return Reply.of_json({"reasoning": "The first output is fuller.", "quotes": quotes, **marks})

    return reply


@pytest.mark.requirements(
    "R13", "R50", "R60", "R67", "R68", "R93", "R109", "R110", "R117", "R118", "R119", "R120", "R121", "R129", "R130", "R132"
)  # fmt: skip
def test_a_full_session_compares_blind_seals_opens_and_explains(tmp_path: Path) -> None:
    ran = session(tmp_path, "happy_path", steps={"compare": compares("It has the part")})
    where = folder(ran)
    comparison = Comparison.model_validate_json((where / "comparison.json").read_text())
    opened = Unblinding.model_validate_json((where / "unblinding.json").read_text())
    analysis = Analysis.model_validate_json((where / "analysis.json").read_text())
    assert comparison.intact
    assert len(comparison.pairs) == 3
    assert opened.fits(comparison)
    assert opened.winner_is_with_skill is True
    assert analysis.comparison_summary is not None
    assert analysis.comparison_summary.winner_is_with_skill is True
    (cause,) = analysis.winner_strengths
    assert cause.citation is not None
    assert (cause.citation.path, cause.citation.text) == ("skills/sums/SKILL.md", RULE)
    lines = SKILL.format(rule=f"Add.\n{RULE}").split("\n")
    assert lines[cause.citation.line - 1] == RULE
    findings = [item for item in ran.skill["findings"] if item["rule"].startswith("analyzer/")]
    assert [(item["path"], item["line"], item["level"]) for item in findings] == [
        ("skills/sums/SKILL.md", cause.citation.line, "notice")
    ]
    assert "won 1 : lost 0 : TIE 0; too few cases to tell" in ran.comment
    assert "Three conditions" in ran.comment
    assert "self-generated skill | not measured" in ran.comment
    assert "10.0 with, 4.0 without, of 10; 3 pairs of runs, both orders" in (ran.bundle / "report.html").read_text()
    assert verify(ran) == []


def verify(ran: Ran) -> list[str]:
    from reporters import render

    return list(verify_bundle(ran.bundle, render).problems)


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("comparison.json", {"reasoning": "B is better."}, "changed after it was sealed"),
        ("unblinding.json", {"outcome": "baseline_wins", "winner_is_with_skill": False}, "is not what was sealed"),
        ("unblinding.json", {"with_skill": "turned"}, "is not what was sealed"),
    ],
)
def test_a_sealed_comparison_that_was_tampered_with_makes_the_skill_invalid(
    tmp_path: Path, file: str, change: dict[str, Any], words: str
) -> None:
    ran = session(tmp_path, "happy_path", steps={"compare": compares("It has the part")})
    path = folder(ran) / file
    data = json.loads(path.read_text())
    if change.get("with_skill") == "turned":
        change = {"with_skill": "B" if data["with_skill"] == "A" else "A"}
    path.write_text(json.dumps({**data, **change}))
    assert any("comparison.json" in problem or "unblinding.json" in problem for problem in verify(ran))
    (skill,) = decide(ran.bundle).skills
    assert skill.verdict.value == "invalid"
    assert any(words in reason for reason in skill.reasons)


def test_a_forger_who_seals_everything_anew_is_found_by_the_seed_and_the_record(tmp_path: Path) -> None:
    ran = session(tmp_path, "happy_path", steps={"compare": compares("It has the part")})
    where = folder(ran)
    comparison = Comparison.model_validate_json((where / "comparison.json").read_text())
    opened = Unblinding.model_validate_json((where / "unblinding.json").read_text())
    turned = opened.model_copy(
        update={
            "with_skill": "B" if opened.with_skill == "A" else "A",
            "outcome": "baseline_wins",
            "winner_is_with_skill": False,
        }
    )
    (where / "unblinding.json").write_text(json.dumps(turned.model_dump(mode="json", warnings=False)))
    manifest = json.loads((ran.bundle / "manifest.json").read_text())
    seal_bundle(ran.bundle, manifest.get("session", {}))
    assert any("does not follow from the session's seed" in problem for problem in verify(ran))
    # A quote that was never there, under a fresh seal.
    pair = comparison.pairs[0]
    passage = pair.orders[0].quotes[0].model_copy(update={"text": "words that nobody wrote"})
    order = pair.orders[0].model_copy(update={"quotes": (passage, *pair.orders[0].quotes[1:])})
    forged = comparison.model_copy(
        update={"pairs": (pair.model_copy(update={"orders": (order, pair.orders[1])}), *comparison.pairs[1:])}
    )
    forged = forged.model_copy(update={"sealed": forged.seal})
    (where / "comparison.json").write_text(forged.model_dump_json())
    (where / "unblinding.json").write_text(
        opened.model_copy(update={"comparison_sealed": forged.sealed}).model_dump_json()
    )
    seal_bundle(ran.bundle, manifest.get("session", {}))
    assert any("a quote is not what its output gives" in problem for problem in verify(ran))


@pytest.mark.requirements("R46", "R107", "R108", "R112", "R115", "R116")
def test_what_is_not_compared_is_a_file_that_says_why(tmp_path: Path) -> None:
    ran = session(tmp_path, "happy_path", "edge_case", mode="standard")
    assert json.loads((folder(ran, "2") / "comparison.json").read_text())["not_run"].startswith(
        "only happy_path and e2e"
    )
    assert not (folder(ran, "2") / "unblinding.json").exists()
    pairs = json.loads((folder(ran) / "comparison.json").read_text())["pairs"]
    assert len(pairs) == 1
    smoke = session(tmp_path / "smoke", "happy_path", mode="smoke", policy="enforce: strict\n")
    assert json.loads((folder(smoke) / "comparison.json").read_text())["not_run"] == "mode smoke has no comparison"
    assert smoke.code == 1
    assert any("Layer 3 is required and did not run" in reason for reason in smoke.skill["reasons"])


def test_a_provider_that_never_answers_one_order_leaves_no_half_comparison(tmp_path: Path) -> None:
    asked: list[str] = []

    def reply(request: Request) -> Answer:
        asked.append(request.messages[0].text)
        return HttpError(400, "this input is not taken") if len(asked) > 1 else compares("It has the part")(request)

    ran = session(tmp_path, "happy_path", mode="standard", steps={"compare": reply})
    stored = json.loads((folder(ran) / "comparison.json").read_text())
    assert set(stored) <= {"not_run", "fallbacks"}
    assert "this input is not taken" in stored["not_run"]
    assert json.loads((folder(ran) / "analysis.json").read_text())["not_run"].startswith("no comparison:")
    assert ran.skill["won"] == ran.skill["lost"] == ran.skill["tied"] == 0
    assert any("no blind comparison for eval 1" in line for line in ran.skill["not_tested"])


def test_a_secret_in_the_comparators_words_breaks_no_seal(tmp_path: Path) -> None:
    def reply(request: Request) -> Answer:
        answer = compares("It has the part")(request)
        data = json.loads(answer.text)
        return Reply.of_json({**data, "reasoning": f"The first output leaks {SECRET}."})

    keys = {"ANTHROPIC_API_KEY": SECRET}
    ran = session(tmp_path, "happy_path", mode="standard", steps={"compare": reply}, environ=keys)
    text = (folder(ran) / "comparison.json").read_text()
    assert SECRET not in text
    assert Comparison.model_validate_json(text).intact
    assert verify(ran) == []


def test_nothing_that_the_comparator_is_sent_names_the_skill_or_an_arm(tmp_path: Path) -> None:
    sent: list[str] = []

    def agent(request: Request) -> Answer:
        answer = reader(request)
        if isinstance(answer, Reply) and not answer.tool_calls and any(m.tool_results for m in request.messages):
            return Reply(f"{answer.text}\nI used the sums-of-orders skill: with the skill, SKILL.md says so.")
        return answer

    def reply(request: Request) -> Answer:
        sent.append("\n".join([request.system, *(message.text for message in request.messages)]))
        return compares("It has the part")(request)  # type: ignore[no-any-return]

    ran = session(tmp_path, "happy_path", mode="standard", steps={"agent": agent, "compare": reply})
    assert len(sent) == 2
    for text in sent:
        assert not re.search(r"sums.of.orders|skill\.md|with.{0,5}skill|/skills", text, re.IGNORECASE)
    kinds = {item["kind"] for item in ran.skill["fallbacks"]}
    assert "blindness_risk" in kinds
    assert "blindness risk" in ran.comment
    assert verify(ran) == []


def test_verify_through_the_command_line_agrees(tmp_path: Path) -> None:
    ran = session(tmp_path, "happy_path", mode="standard")
    assert run_command(replace(bind({}, threading.Event()), say=lambda text: None), ["verify", str(ran.bundle)]) == 0
    assert SessionSeed("5" * 64).hex == json.loads((ran.bundle / "session.json").read_text())["seed"]


def test_a_second_comparator_that_the_policy_names_is_asked_as_well_and_has_to_agree(tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked: list[str] = []

    def compare(request: Request) -> Answer:
        asked.append(request.model)
        return compares("It has the part" if request.model == "judge" else "About", score=5)(request)  # type: ignore[no-any-return]

    with ScriptedServer(scenario(compare=compare)) as server, ScriptedSandbox(shell()) as box:
        repository = make_repository(
            tmp_path / "repository",
            {
                "skills/sums/SKILL.md": SKILL.format(rule="Add."),
                "skills/sums/evals/evals.json": evals("happy_path"),
                ".github/skill-gate.yml": f"models:\n  second_comparator: anthropic@{server.url}:other\n",
            },
            {"skills/sums/SKILL.md": SKILL.format(rule=f"Add.\n{RULE}")},
        )
        app = bind({"ANTHROPIC_API_KEY": "key-1234567", "OPENAI_API_KEY": "key-7654321"}, threading.Event())
        run_command(
            replace(app, make_sandbox=lambda: box, say=lambda text: None, abort=lambda: None),
            ["run", "--repository", str(repository), "--base", "main", "--out", str(out),
             "--model", f"openai@{server.openai_url}:agent", "--judge-model", f"openai@{server.openai_url}:judge"],
        )  # fmt: skip
    (path,) = out.glob("skills/*/eval-1/comparison.json")
    comparison = Comparison.model_validate_json(path.read_text())
    assert sorted(asked) == ["judge", "judge", "other", "other"]
    assert (comparison.model, comparison.second_model) == ("judge", "other")
    assert comparison.winner == "TIE"
    assert comparison.pairs[0].split
    (skill,) = json.loads((out / "report.json").read_text())["skills"]
    assert "judges of two families split in 1" in skill["cases"][0]["comparison_detail"]


def test_case_23_a_comparator_that_prefers_a_seat_decides_nothing_and_is_named(tmp_path: Path) -> None:
    """One call in one order would have let the seat decide; asked both ways it gives a TIE that says why."""

    def seat(request: Request) -> Answer:
        names = ("correctness", "completeness", "accuracy", "organization", "formatting", "usability")
        marks = {"first": dict.fromkeys(names, 4), "second": dict.fromkeys(names, 3)}
        return Reply.of_json({"reasoning": "The first output is better.", "quotes": [], **marks})

    ran = session(tmp_path, "happy_path", "e2e", mode="standard", steps={"compare": seat})
    for eval_id in ("1", "2"):
        comparison = Comparison.model_validate_json((folder(ran, eval_id) / "comparison.json").read_text())
        (pair,) = comparison.pairs
        assert [order.winner for order in pair.orders] == ["A", "B"]
        assert (pair.winner, pair.position_unstable, comparison.winner) == ("TIE", True, "TIE")
    assert (ran.skill["won"], ran.skill["lost"], ran.skill["tied"]) == (0, 0, 2)
    assert {item["kind"]: item["count"] for item in ran.skill["fallbacks"]}["position_unstable"] == 2
    assert ran.comment.count("position&#95;unstable in 1") + ran.comment.count("position_unstable in 1") == 2
    assert "no observable gain on this case" in ran.comment
