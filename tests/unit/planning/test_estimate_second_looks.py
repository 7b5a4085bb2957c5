"""The estimate knows every question that grading asks (R139)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from gate.domain.chat import ChatRequest, Role
from gate.domain.plan import Mode
from gate.judging.grader import ROWS_PER_QUESTION, grade_run
from gate.llm.ledger import Ledger
from gate.llm.roles import Models
from gate.planning.modes import RULES
from gate.planning.plan import _GRADED_TOGETHER, _grading_calls
from gate.settings import Caps, Policy, Settings
from tests.builders_judging import SEED, a_run, answer_one, expecting, graded, row, rows_of
from tests.fakes.chat import ScriptedChat

LINES = [f"This is line number {number} of it." for number in range(1, 41)]


def test_the_batches_are_those_of_the_grader() -> None:
    assert _GRADED_TOGETHER == ROWS_PER_QUESTION


@pytest.mark.requirements("R139")
@pytest.mark.parametrize("expectations", [0, 1, 15, 16, 31])
@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.FULL])
@pytest.mark.parametrize("second", ["off", "auto", "on"])
def test_an_honest_judge_of_an_ordinary_run_is_asked_as_often_as_was_estimated(
    tmp_path: Path, expectations: int, mode: Mode, second: Literal["off", "auto", "on"]
) -> None:
    texts = [
        f"The answer has a line with the number {number}, the {number}th." for number in range(1, expectations + 1)
    ]

    def honest(request: ChatRequest) -> str:
        rows = []
        for item in rows_of(request):
            if item.text in texts:
                number = texts.index(item.text) + 1
                rows.append(row(item.id, "pass", (f"B001:{number}", LINES[number - 1])))
            elif any(text in item.text for text in texts):
                rows.append(row(item.id, "fail"))
            else:
                rows.append(answer_one(item, request, {}))
        return graded(rows)

    first, other = ScriptedChat(honest), ScriptedChat(honest, name="other:judge-2", family="another")
    case = expecting(*texts)
    grade_run(
        case,
        a_run(tmp_path, response="\n".join(LINES)),
        None,
        root=tmp_path,
        models=Models(lambda role: other if role is Role.SECOND_GRADER else first),
        ledger=Ledger(Caps(), lambda model, usage: 0.0),
        seed=SEED,
        second_judge=second,
        spot_checks=RULES[mode].twins,
    )
    settings = Settings(repository=".", mode=mode, policy=Policy(second_judge=second))
    asked = len(first.requests) + len(other.requests)
    assert asked == _grading_calls(expectations, settings, worst=False)
    assert asked <= _grading_calls(expectations, settings, worst=True)
