from __future__ import annotations

import pytest

from gate.decision.state import HEADLINE_LIMIT, decide_gate, skill_state, summarise
from gate.domain.base import FallbackCount
from gate.domain.plan import Enforce, NotMeasuredCause
from gate.domain.report import Share, SkillReport, State, Verdict
from tests.builders_report import plan_of, quiet_report, sample_report

SUCCESS, FAILURE, ERROR, PENDING = State.SUCCESS, State.FAILURE, State.ERROR, State.PENDING


def report(
    verdict: Verdict,
    path: str = "skills/a",
    *,
    cause: NotMeasuredCause | None = None,
    caused: bool = False,
    fallbacks: tuple[FallbackCount, ...] = (),
) -> SkillReport:
    nothing = Share(passed=0, total=0)
    return SkillReport(
        path=path,
        slug=path.replace("/", "-"),
        name="a",
        change="modified",
        type="text_generation",
        type_reason="",
        verdict=verdict,
        reasons=("because",),
        wording="",
        authoritative=nothing,
        source_rate=nothing,
        not_measured_cause=cause,
        caused_by_change=caused,
        fallbacks=fallbacks,
    )


@pytest.mark.parametrize(
    ("verdict", "advisory", "standard", "strict"),
    [
        (Verdict.PASS, SUCCESS, SUCCESS, SUCCESS),
        (Verdict.CONDITIONAL, SUCCESS, SUCCESS, FAILURE),
        (Verdict.INCONCLUSIVE, SUCCESS, SUCCESS, FAILURE),
        (Verdict.NO_EVALS, SUCCESS, SUCCESS, FAILURE),
        (Verdict.BLOCKED, SUCCESS, SUCCESS, FAILURE),
        (Verdict.FAIL, SUCCESS, FAILURE, FAILURE),
        (Verdict.INVALID, SUCCESS, FAILURE, FAILURE),
        (Verdict.ERROR, SUCCESS, ERROR, ERROR),
    ],
)
def test_each_verdict_has_the_state_of_the_table(
    verdict: Verdict, advisory: State, standard: State, strict: State
) -> None:
    one = report(verdict)
    assert [skill_state(one, enforce) for enforce in Enforce] == [advisory, standard, strict]


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        (NotMeasuredCause.FORK, PENDING),
        (NotMeasuredCause.DEPENDABOT, PENDING),
        (NotMeasuredCause.DRAFT, PENDING),
        (NotMeasuredCause.OVER_BUDGET, PENDING),
        (NotMeasuredCause.NO_KEY, FAILURE),
        (NotMeasuredCause.NOT_OPENED, FAILURE),
        (NotMeasuredCause.NO_AGENT_FILE, SUCCESS),
        (NotMeasuredCause.DELETED, SUCCESS),
        (None, FAILURE),
    ],
)
def test_what_was_not_measured_has_the_state_of_its_cause(cause: NotMeasuredCause | None, state: State) -> None:
    one = report(Verdict.NOT_MEASURED, cause=cause)
    assert [skill_state(one, enforce) for enforce in Enforce] == [SUCCESS, state, FAILURE]


@pytest.mark.parametrize("verdict", [Verdict.NO_EVALS, Verdict.BLOCKED])
def test_a_head_that_cannot_run_where_base_could_fails(verdict: Verdict) -> None:
    assert skill_state(report(verdict, caused=True), Enforce.STANDARD) is FAILURE


@pytest.mark.parametrize(
    ("verdicts", "state", "code"),
    [
        ((Verdict.PASS, Verdict.FAIL, Verdict.ERROR), FAILURE, 1),
        ((Verdict.PASS, Verdict.ERROR), ERROR, 3),
        ((Verdict.PASS, Verdict.INCONCLUSIVE), SUCCESS, 0),
        ((Verdict.PASS,), SUCCESS, 0),
        ((), SUCCESS, 0),
    ],
)
def test_the_worst_state_decides_and_an_error_never_hides_a_failure(
    verdicts: tuple[Verdict, ...], state: State, code: int
) -> None:
    skills = [report(verdict, f"skills/{number}") for number, verdict in enumerate(verdicts)]
    decided = decide_gate(skills, enforce=Enforce.STANDARD)
    assert (decided.state, decided.exit_code) == (state, code)


def test_pending_comes_after_error_and_before_success_and_exits_0() -> None:
    draft = report(Verdict.NOT_MEASURED, cause=NotMeasuredCause.DRAFT)
    assert decide_gate([draft, report(Verdict.PASS)], enforce=Enforce.STANDARD)[:2] == (PENDING, 0)
    assert decide_gate([draft, report(Verdict.ERROR)], enforce=Enforce.STANDARD)[:2] == (ERROR, 3)
    assert decide_gate([draft], enforce=Enforce.STANDARD).what_to_do == (
        "skills/a: waits for ready for review: a draft gets the static layers only",
    )


def test_the_headline_names_both_where_one_skill_fails_and_another_could_not_be_judged() -> None:
    skills = [report(Verdict.ERROR, "skills/b"), report(Verdict.FAIL, "skills/a")]
    headline = decide_gate(skills, enforce=Enforce.STANDARD).headline
    assert headline == "failure: 1 fails (skills/a), 1 could not be judged (skills/b)"


def test_nothing_to_evaluate_is_a_success_that_says_so() -> None:
    assert decide_gate([], enforce=Enforce.STANDARD) == (
        SUCCESS,
        0,
        "success: nothing to evaluate, no skill changed",
        (),
    )
    assert quiet_report().exit_code == 0


def test_an_inconclusive_success_starts_with_that_word_and_advisory_with_its_own() -> None:
    skills = [report(Verdict.INCONCLUSIVE), report(Verdict.PASS, "skills/b")]
    assert decide_gate(skills, enforce=Enforce.STANDARD).headline.startswith(
        "inconclusive: 1 is inconclusive (skills/a)"
    )
    advisory = decide_gate([report(Verdict.FAIL)], enforce=Enforce.ADVISORY)
    assert advisory[:3] == (SUCCESS, 0, "advisory: 1 fails (skills/a)")


def test_exit_conditional_changes_the_exit_code_and_nothing_else() -> None:
    for verdict in (Verdict.CONDITIONAL, Verdict.INCONCLUSIVE):
        plain = decide_gate([report(verdict)], enforce=Enforce.STANDARD)
        asked = decide_gate([report(verdict)], enforce=Enforce.STANDARD, exit_conditional=1)
        assert (plain.exit_code, asked.exit_code) == (0, 1)
        assert asked._replace(exit_code=0) == plain
    assert decide_gate([report(Verdict.PASS)], enforce=Enforce.STANDARD, exit_conditional=1).exit_code == 0
    assert decide_gate([report(Verdict.ERROR)], enforce=Enforce.STANDARD, exit_conditional=1).exit_code == 3


def test_a_session_error_is_an_error_even_where_every_skill_passes() -> None:
    decided = decide_gate([report(Verdict.PASS)], enforce=Enforce.STANDARD, session_errors=["The engine went away."])
    assert decided == (
        ERROR,
        3,
        "error: The engine went away.; 1 passes",
        ("The engine went away.",),
    )
    assert decide_gate([], enforce=Enforce.STANDARD, session_errors=["The engine went away."]).exit_code == 3


@pytest.mark.parametrize("count", [1, 3, 60, 2000])
def test_a_headline_fits_a_status_description_and_counts_every_verdict(count: int) -> None:
    skills = [
        report(verdict, f"skills/{'很长的名字' * 9}😀\n\u202e{number}")
        for number in range(count)
        for verdict in Verdict
    ]
    headline = decide_gate(skills, enforce=Enforce.STANDARD).headline
    assert len(headline) <= HEADLINE_LIMIT
    assert all(char.isprintable() and ord(char) <= 0xFFFF for char in headline)
    assert headline.startswith(f"failure: {count} fail")


def test_a_report_lists_the_worst_skill_first_and_sums_fallbacks() -> None:
    fenced = FallbackCount(kind="reply_fenced", role="grader", count=2)
    skills = [
        report(Verdict.PASS, "skills/z", fallbacks=(fenced,)),
        report(Verdict.FAIL, "skills/b", fallbacks=(fenced,)),
        report(Verdict.FAIL, "skills/a"),
    ]
    whole = summarise(
        plan_of(),
        skills,
        gate_version="1",
        models="m",
        sandbox="s",
        session_fallbacks=[FallbackCount(kind="sandbox_other", count=1)],
    )
    assert [skill.path for skill in whole.skills] == ["skills/a", "skills/b", "skills/z"]
    assert whole.fallbacks == (
        FallbackCount(kind="reply_fenced", role="grader", count=4),
        FallbackCount(kind="sandbox_other", count=1),
    )
    assert (whole.state, whole.exit_code, whole.run_date) == (FAILURE, 1, "2026-03-01")


def test_every_verdict_but_a_pass_says_what_to_do() -> None:
    sample = sample_report()
    for skill in sample.skills:
        told = any(line.startswith(f"{skill.path}: ") for line in sample.what_to_do)
        assert told is (skill.verdict is not Verdict.PASS)
