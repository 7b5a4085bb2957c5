"""One made-up example a dialect, and what became of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gate.domain.checks import Command, ResponseContains
from gate.domain.findings import Level
from gate.domain.skill import SkillFile
from gate.intake.suite import DIALECTS, Reading, read_evals
from gate.intake.suite.explain import explain
from tests.builders_skill import a_file, a_skill

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "suites"
EXAMPLES = sorted(path.name for path in ASSETS.iterdir())


def example(name: str) -> Reading:
    """The evals of a skill ``skills/sums`` that holds the files of an example."""
    folder = ASSETS / name
    files = tuple(
        a_file(path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )
    return read_evals(a_skill(files=files))


def written(reading: Reading) -> str:
    """What people read of it."""
    lines = explain("skills/sums", reading.suite, reading.triggers, reading.sources)
    for item in reading.findings:
        lines.append(f"{item.level.value} {item.rule} {item.path}:{item.line or ''}: {item.message}")
        if item.remedy:
            lines.append(f"  what to do: {item.remedy}")
    return "\n".join(lines)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_dialect_becomes_a_suite_that_people_can_check(name: str, snapshot: SnapshotAssertion) -> None:
    assert written(example(name)) == snapshot


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "refusals"])
def test_an_example_is_understood_whole(name: str) -> None:
    reading = example(name)
    assert not [item for item in reading.findings if item.level in (Level.ERROR, Level.WARNING)], reading.findings
    assert not [item for item in reading.findings if item.rule in ("suite/not-read", "suite/unknown-keys")]
    if name == "settings-of-others":
        assert [item.rule for item in reading.findings] == ["suite/not-a-suite"]
    else:
        assert reading.suite or reading.triggers


def test_every_dialect_has_an_example() -> None:
    read = {source.dialect for name in EXAMPLES for source in example(name).sources}
    families = {"skill-creator", "agentskills", "skillsentry", "nvidia", "acceptance"}
    assert families <= read
    assert {dialect.name for dialect in DIALECTS} - {"evals", "waza-task"} <= read


def test_the_cases_of_an_example_have_ids_that_stay_when_its_files_are_read_again() -> None:
    for name in EXAMPLES:
        one, two = example(name), example(name)
        assert one == two


def test_nothing_of_a_refused_suite_vanishes_in_silence() -> None:
    reading = example("refusals")
    said = "\n".join(item.message for item in reading.findings)
    for case in ("several-turns", "unknown-grader", "typo", "bad-pattern", "no-fixture", "setup", "nothing"):
        assert f'case "{case}"' in said, case
    assert all(item.line for item in reading.findings if item.rule == "suite/invalid")
    blocking = [item for item in reading.findings if item.blocks]
    assert [item.message.split(":")[0] for item in blocking] == [
        'case "unknown-grader"', 'case "unknown-grader"', 'case "typo"', 'case "bad-pattern"',
    ]  # fmt: skip
    assert reading.suite is None


def test_a_conversation_of_texts_is_run_and_one_of_anything_else_costs_only_its_own_case() -> None:
    suite = example("vally").suite
    assert suite is not None
    case = next(item for item in suite.cases if item.eval_id == "talks-it-over")
    assert (case.prompt, case.turns) == ("I have a file of numbers.", ("Use the defaults.", "Yes, write sum.txt."))
    text = "stimuli:\n- {name: a, prompt: p, graders: [{type: completed}]}\n"
    for turns in ("[{prompt: x}, {prompt: y}]", "[]", "x", "[1]", str(["t"] * 22), "[x]\n  prompt: y"):
        more = f"- name: b\n  turns: {turns}\n  graders: [{{type: completed}}]\n"
        reading = read_evals(a_skill(files=files_of(("evals/eval.yaml", text + more))))
        assert reading.suite is not None, turns
        assert [item.eval_id for item in reading.suite.cases] == ["a"]
        assert [(item.rule, item.blocks) for item in reading.findings] == [("suite/case-not-run", False)], turns
        assert 'case "b"' in reading.findings[0].message


NAMED_ONLY = {
    "agent-exam": ("evals/suites/s/tasks/a.yaml", "{kind: execute, prompt: p, assertions: [{file_exists: out.txt}]}"),
    "agent-skill-evals": (
        "evals/eval.yaml",
        "skill_id: s\neval_suite_version: 1\ncases: [{id: a, task: {user_prompt: p}}]",
    ),
    "skill-evals": ("evals/sums.yaml", "scorers: []\ncases: [{id: a, prompt: p, scorers: [{name: contains}]}]"),
    "skill-qa": ("evals/cases/a.yaml", "case_id: a\ninput: {prompt: p}\nexpect: {must_contain: [x]}"),
    "upskill": ("evals/cases/u.json", '{"input": "p", "context": {}, "expected": {"contains": "x"}}'),
    "skillroll": ("evals/a.eval.md", "```skillroll\n```\n## Input\nHi\n"),
    "promptfoo": (
        "promptfooconfig.yaml",
        "prompts: [p]\nproviders: [q]\ntests: [{assert: [{type: contains, value: y}]}]",
    ),
}


@pytest.mark.parametrize("tool", list(NAMED_ONLY))
def test_a_suite_of_a_tool_that_nothing_reads_is_named_with_what_to_do_and_blocks_nothing(tool: str) -> None:
    path, text = NAMED_ONLY[tool]
    reading = read_evals(a_skill(files=files_of((path, text))))
    (finding,) = reading.findings
    assert (finding.rule, finding.level, finding.blocks) == ("suite/other-tool", Level.WARNING, False)
    assert finding.path == f"skills/sums/{path}"
    assert f"a suite of {tool}," in finding.message
    assert "evals/skill-gate.yaml" in finding.remedy
    assert reading.suite is None


def test_where_our_own_place_holds_another_tools_suite_it_is_a_mistake() -> None:
    reading = read_evals(a_skill(files=files_of(("evals/evals.json", '{"prompts": [], "providers": [], "tests": []}'))))
    assert [(item.rule, item.blocks) for item in reading.findings] == [("suite/not-understood", True)]


def test_evals_that_lie_where_none_are_looked_for_are_not_the_same_as_no_evals() -> None:
    text = '{"evals": [{"id": 1, "prompt": "p", "expectations": ["x"]}]}'
    (finding,) = read_evals(a_skill(files=files_of(("evals/nightly/set.json", text)))).findings
    assert (finding.rule, finding.level) == ("suite/none-found", Level.WARNING)
    assert "evals/nightly/set.json" in finding.message
    assert read_evals(a_skill(files=files_of(("evals/notes.md", "x")))).findings == ()
    found = read_evals(a_skill(files=files_of(("evals/evals.json", text), ("evals/nightly/set.json", text))))
    assert found.suite is not None
    assert found.findings == ()


def test_a_task_without_its_own_case_is_not_read_twice() -> None:
    reading = example("waza")
    assert reading.suite is not None
    assert [case.eval_id for case in reading.suite.cases] == ["adds-001", "stays-001"]
    assert [source.path for source in reading.sources] == ["skills/sums/evals/eval.yaml"]


def test_a_grader_script_goes_into_the_check_and_never_to_the_agent() -> None:
    suite = example("skillgrade").suite
    assert suite is not None
    case = suite.cases[0]
    assert [item.path for item in case.files] == ["numbers.txt"]
    oracle = case.checks[0].parameters
    assert oracle.kind == "oracle_command"
    assert "test -f sum.txt" in oracle.files["grader.sh"]


def files_of(*pairs: tuple[str, str]) -> tuple[SkillFile, ...]:
    return tuple(a_file(path, text) for path, text in pairs)


def test_a_pattern_of_tasks_that_matches_nothing_is_an_error() -> None:
    text = "skill: sums\ntasks: ['tasks/*.yaml']\n"
    reading = read_evals(a_skill(files=files_of(("evals/eval.yaml", text))))
    assert reading.suite is None
    assert [(item.blocks, "no task file matches" in item.message) for item in reading.findings] == [(True, True)]


def test_a_file_that_a_case_hands_to_the_agent_is_data_and_no_suite() -> None:
    case = '{"evals": [{"id": 1, "prompt": "Fix it.", "files": ["broken.json"], "expectations": ["e"]}]}'
    data = '[{"prompt": "p", "expectations": ["x"]}]'
    reading = read_evals(a_skill(files=files_of(("evals/evals.json", case), ("evals/broken.json", data))))
    assert reading.suite is not None
    assert [item.eval_id for item in reading.suite.cases] == ["1"]


def test_cases_of_all_files_are_united_and_equal_ones_count_once() -> None:
    one = '{"evals": [{"id": "a", "prompt": "p", "expectations": ["e"]}]}'
    two = "stimuli: [{name: b, prompt: q, graders: [{type: completed}]}]"
    reading = read_evals(
        a_skill(files=files_of(("evals/evals.json", one), ("evals.json", one), ("evals/x.eval.yaml", two)))
    )
    assert reading.suite is not None
    assert [case.eval_id for case in reading.suite.cases] == ["a", "b"]
    assert [source.cases for source in reading.suite.sources] == [("a",), (), ("b",)]
    assert reading.findings == ()


def test_a_link_among_the_evals_is_named_and_not_followed() -> None:
    reading = read_evals(a_skill(files=(a_file("evals/more.yaml", "/etc/passwd", "120000"),)))
    assert [(item.rule, item.blocks) for item in reading.findings] == [("suite/link", False)]


def test_exact_checks_of_other_tools_keep_their_meaning() -> None:
    suite = example("dotnet-scenarios").suite
    assert suite is not None
    contains, _, made, pattern, *_ = (check.parameters for check in suite.cases[0].checks)
    assert isinstance(contains, ResponseContains)
    assert contains.ignore_case
    assert made.kind == "file_exists"
    assert pattern.kind == "command", "a file that the case brings would satisfy it there, but not our file_exists"
    brought = "scenarios: [{name: a, prompt: p, setup: {files: [{path: x.txt, content: x}]}, assertions: [{type: file_exists, path: x.txt}]}]"
    reading = read_evals(a_skill(files=files_of(("eval.yaml", brought))))
    assert reading.suite is not None
    parameters = reading.suite.cases[0].checks[0].parameters
    assert isinstance(parameters, Command)
    assert parameters.run == "test -e x.txt"


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("evals/evals.json", "[" + ",".join(['{"prompt": "p"}'] * 5_001) + "]", "at most 5000"),
        ("evals/evals.json", '[{"prompt": "p", "expectations": [' + ",".join(['"e"'] * 2_001) + "]}]", "at most 2000"),
        ("eval.yaml", "scenarios: [{name: n, prompt: p, rubric: [" + "r, " * 2_001 + "]}]", "at most 2000"),
        ("evals/x.cases.md", "# " + "#" * 300_000 + "x\n" + "\n" * 300_000, "no case"),
        ("evals/evals.json", "{" + ",".join(f'"k{n}": [1]' for n in range(30_000)) + "}", "not understood"),
    ],
)
def test_a_suite_that_is_too_large_is_refused_before_it_costs_time(path: str, text: str, words: str) -> None:
    reading = read_evals(a_skill(files=(a_file(path, text),)))
    assert reading.suite is None
    assert words in reading.findings[-1].message


def test_many_cases_without_ids_and_with_one_prompt_all_get_their_own() -> None:
    text = "[" + ",".join(f'{{"prompt": "p", "expectations": ["e{n}"]}}' for n in range(2_000)) + "]"
    suite = read_evals(a_skill(files=(a_file("evals/evals.json", text),))).suite
    assert suite is not None
    assert len({case.eval_id for case in suite.cases}) == 2_000
    assert [case.eval_id for case in suite.cases[:2]] == ["case-148de9c5", "case-148de9c5-2"]
