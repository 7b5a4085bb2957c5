"""The benches of sabotage and of other policies: a few changes, for shape only."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.bench import peers, sabotage
from tests.bench._figures import last_figures
from tests.bench._sabotage import CLEAN, FULL, SEED, SMALL, Size, came, picked
from tests.bench._taught import taught


def test_nobody_sees_the_operator_and_the_same_seed_gives_the_same_corpus() -> None:
    size = Size(skills=1, sabotages=1, neutral=1, clean=1, untested=1)
    first, second = picked(size), picked(size)
    assert first == second
    names = {item.operator for item in first[0]}
    assert len(names) >= 12
    assert not any(name in item.text for item in first[0] for name in names if "-" in name)


def test_where_few_cases_test_a_rule_it_is_the_same_skill_and_no_case_is_empty() -> None:
    for number in range(4):
        skill, dense = taught(SEED, number, rare=True), taught(SEED, number)
        assert skill.text == dense.text
        tested = Counter(item.rule for case in skill.cases for item in case.assertions if item.rule != "table")
        assert set(tested) == {item.rule for case in dense.cases for item in case.assertions} - {"table"}
        assert all(1 <= count <= 4 for count in tested.values()), tested
        assert all(case.assertions for case in skill.cases)


def test_the_corpus_can_be_read_as_patches(tmp_path: Path) -> None:
    assert sabotage.main(["--patches", str(tmp_path)]) == 0
    patches = list(tmp_path.glob("*/*.patch"))
    assert len(patches) == len(picked(FULL)[0]) >= 600
    changed = [path for path in patches if CLEAN not in path.stem.replace("-", " ")]
    assert len(changed) >= 600
    assert all(path.read_text("utf-8").startswith("diff --git a/skills/") for path in changed)


def test_changes_that_break_a_rule_are_caught_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, nothing = picked(SMALL)
    few = [item for item in corpus if item.skill == 0 and item.operator in ("delete-rule", "weaken", "comment", "typo")]
    results = came(few)
    assert {item.kind for item in results} >= {"neutral"}
    for item in results:
        assert (item.verdict == "pass") == (item.kind == "neutral"), item
    for module in (sabotage, peers):
        monkeypatch.setattr(module, "measured", lambda size, jobs: (few, nothing, results))
        assert module.main(["--small"]) == 0
        figures = last_figures(capsys)
        assert {item["bench"] for item in figures} == {module.__name__.rpartition(".")[2]}
