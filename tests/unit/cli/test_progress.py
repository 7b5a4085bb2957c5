from __future__ import annotations

import io

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from gate.cli.progress import LiveProgress, PlainProgress, QuietProgress, progress_of
from gate.llm.ledger import Spend


def spend(**changes: object) -> Spend:
    known: dict[str, object] = {
        "calls": 381, "failed_calls": 0, "input_tokens": 1_120_345, "output_tokens": 20_000, "cost_usd": 0.42,
        "known_input_tokens": 1_120_345, "known_output_tokens": 20_000, "known_cost_usd": 0.42,
    }  # fmt: skip
    return Spend.model_validate({**known, **changes})


class Screen:
    """A live progress with a clock and an account of its own, and what it said."""

    def __init__(self, spent: Spend) -> None:
        self.said: list[str] = []
        self.seconds = 0.0
        self.console = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=True)
        self.progress = LiveProgress(self.said.append, lambda: spent, lambda: self.seconds, self.console)

    def begin(self) -> None:
        self.progress.expect(cases=12, runs=48, calls=900)
        self.progress.step("running", 48)
        for number in range(20):
            arm = ("with_skill", "without_skill", "base_skill")[number % 3]
            self.progress.run_done(f"a-skill/case-{number}/run-1/{arm}", "timeout" if number == 7 else "completed")
        self.seconds = 200

    def shown(self) -> str:
        self.progress.close()
        console = Console(file=io.StringIO(), width=80, color_system=None)
        console.print(self.progress.lines())
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()


@pytest.mark.parametrize(
    ("spent", "name"),
    [
        (spend(), "all known"),
        (spend(cost_usd=None, known_cost_usd=0.0), "price unknown"),
        (spend(cost_usd=None, input_tokens=None), "some usage unknown"),
        (spend(calls=3), "too early to say how long"),
        (spend(calls=901), "more calls than were guessed"),
    ],
)
def test_a_terminal_of_80_columns_shows_cases_arms_tokens_cost_and_time(
    spent: Spend, name: str, snapshot: SnapshotAssertion
) -> None:
    screen = Screen(spent)
    screen.begin()
    shown = screen.shown()
    assert all(len(line) <= 80 for line in shown.splitlines()), name
    assert shown == snapshot


def test_only_runs_that_did_not_complete_scroll_by_on_a_terminal() -> None:
    screen = Screen(spend())
    screen.begin()
    screen.progress.close()
    screen.progress.run_done("a-skill/case-8/run-1/with_skill", "cancelled")  # who has stopped it knows
    assert screen.said == ["a-skill/case-7/run-1/without_skill: timeout"]


def test_what_is_said_is_broken_between_words_on_a_terminal() -> None:
    screen = Screen(spend())
    screen.progress.say(
        "caps.usd_per_skill: $2 for 36 cases of skills-sums-7ce74503, whose runs will cost about $3.10."
    )
    assert screen.said == [
        "caps.usd_per_skill: $2 for 36 cases of skills-sums-7ce74503, whose runs will",
        "    cost about $3.10.",
    ]


def test_a_step_after_the_runs_counts_for_itself_and_further_runs_raise_the_total() -> None:
    screen = Screen(spend())
    screen.begin()
    screen.progress.step("judging", 20)
    screen.progress.step_done()
    screen.progress.run_done("a-skill/case-1/run-1/with_skill", "completed")
    assert "1/20" in screen.shown()
    screen.progress.step("running", 40)
    assert "21 of 61 runs" in screen.shown()


def test_the_terminal_is_left_as_it_was() -> None:
    screen = Screen(spend())
    screen.begin()
    screen.progress.close()
    screen.progress.close()
    assert isinstance(screen.console.file, io.StringIO)
    written = screen.console.file.getvalue()
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1


def test_where_nobody_watches_there_are_plain_lines() -> None:
    said: list[str] = []
    progress = progress_of(said.append, interactive=False, quiet=False, spent=spend, now=lambda: 0.0)
    assert type(progress) is PlainProgress
    progress.expect(cases=1, runs=2, calls=9)
    progress.step("running", 2)
    progress.run_done("a/b/run-1/with_skill", "completed")
    progress.step("judging", 2)
    progress.step_done()
    progress.step("comparing", 0)
    progress.close()
    assert said == ["planned: 1 case, 2 runs", "run 1: a/b/run-1/with_skill: completed", "judging: 2"]


def test_quiet_says_nothing_also_on_a_terminal() -> None:
    said: list[str] = []
    progress = progress_of(said.append, interactive=True, quiet=True, spent=spend, now=lambda: 0.0)
    assert type(progress) is QuietProgress
    progress.say("x")
    progress.expect(cases=1, runs=2, calls=9)
    progress.run_done("a/b/run-1/with_skill", "completed")
    progress.close()
    assert said == []
