"""The trend and the baseline of mode ``regression``, as a pure function of what was recorded."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.decision.history import BASELINE_DAYS, case_key, entry_of, history_of, with_baseline
from gate.decision.look import Look
from gate.decision.verdict import decide_skills
from gate.domain.history import HistoryEntry, Past
from gate.domain.plan import Enforce, Mode
from gate.domain.report import CaseRecord, SkillRecord, SkillReport, Verdict
from gate.settings import Thresholds
from tests.builders_records import RUN_DATE, case_record, check, expectation, skill_record


def look(record: SkillRecord, mode: Mode = Mode.REGRESSION, past: Past | None = None) -> Look:
    bare = Look(record, mode, Enforce.STANDARD, Thresholds(), "warn", False, (), RUN_DATE, past=past)
    return Look(
        with_baseline(bare.record, past, mode=mode, run_date=RUN_DATE),
        mode, Enforce.STANDARD, Thresholds(), "warn", False, (), RUN_DATE, past=past,
    )  # fmt: skip


def past(*entries: HistoryEntry, judge: str = "judge", kept: bool = True, model: str = "model") -> Past:
    return Past(model=model, harness="loop", judge=judge, on_default=True, kept=kept, default=entries)


def recorded(record: SkillRecord, mode: Mode = Mode.FULL, *, days: int = 1) -> HistoryEntry:
    """What a session on the default branch leaves of this record, so many days ago."""
    then = (dt.date.fromisoformat(RUN_DATE) - dt.timedelta(days=days)).isoformat()
    own = Look(record, mode, Enforce.STANDARD, Thresholds(), "warn", False, (), then, past=past())
    (report,) = decide_skills([own])
    entry = entry_of(own, report, past(), session_id="s", commit="c" * 40, p95_ms=1200)
    assert entry is not None
    return entry


def decide(record: SkillRecord, before: Past | None) -> SkillReport:
    (report,) = decide_skills([look(record, past=before)])
    return report


def work(*heads: str, severity: str = "must", kind: str = "check") -> SkillRecord:
    """One case an argument, with the words of its runs with the skill."""
    cases: list[CaseRecord] = []
    for number, words in enumerate(heads):
        one = [check("c1", severity)] if kind == "check" else []
        other = [expectation("e1", severity)] if kind == "expectation" else []
        cases.append(case_record(str(number), checks=one, expectations=other, head=words.split()))
    return skill_record(*cases)


GOOD = ("P P P",) * 6


def test_what_is_as_it_was_passes_and_names_its_baseline() -> None:
    report = decide(work(*["P P"] * 6), past(recorded(work(*GOOD))))
    assert report.verdict is Verdict.PASS
    assert "held against the baseline of 2026-02-28 in 6 cases" in report.reasons[0]
    assert report.history is not None
    assert report.history.baseline[0] == "eval 0 passed over 3 runs on 2026-02-28 at cccccccc, mode full"
    assert report.history.words == "default branch, last 1 of 1: pass 6/6 (2026-02-28, full); now pass 6/6"


def test_an_assertion_that_the_baseline_held_and_head_never_does_fails_once_confirmed() -> None:
    before = past(recorded(work(*GOOD, severity="should")))
    unconfirmed = decide(work(*["P P"] * 5, "F F F", severity="should"), before)
    confirmed = decide(work(*["P P"] * 5, "F F F F+", severity="should"), before)
    assert (unconfirmed.verdict, confirmed.verdict) == (Verdict.INCONCLUSIVE, Verdict.FAIL)
    assert "it passed in all 3 runs of the recorded baseline" in confirmed.reasons[0]


@pytest.mark.parametrize(("lost", "verdict"), [(5, Verdict.FAIL), (3, Verdict.INCONCLUSIVE)])
def test_head_worse_than_recorded_over_cases_is_the_exact_sign_test(lost: int, verdict: Verdict) -> None:
    """Mixed runs, so that no single assertion is a flip: 5 to 0 has p = 1/32, 3 to 0 has 1/8."""
    heads = ["P F F F+"] * lost + ["P P"] * 20
    report = decide(work(*heads, severity="should"), past(recorded(work(*["P P P"] * len(heads), severity="should"))))
    assert report.verdict is verdict
    assert any(
        "worse than the recorded baseline" in reason or "than the recorded baseline" in reason
        for reason in report.reasons
    )


def test_without_the_baseline_the_same_head_is_inconclusive_and_says_what_to_run() -> None:
    for before in (None, past(), past(kept=False)):
        report = decide(work(*["P P"] * 6), before)
        assert report.verdict is Verdict.INCONCLUSIVE
        assert "there is no recorded baseline for any of the 6 golden cases" in report.reasons[0]
        assert "--mode full on the default branch" in report.reasons[0]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (recorded(work(*GOOD), Mode.SMOKE), "no standard or full session"),
        (recorded(work(*GOOD), Mode.REGRESSION), "no standard or full session"),
        (recorded(work(*GOOD), days=BASELINE_DAYS + 1), "is older than 30 days"),
        (recorded(work(*["P"] * 6), Mode.STANDARD), "with 2 runs each"),
    ],
)
def test_what_is_too_old_too_small_or_of_another_mode_is_no_baseline(entry: HistoryEntry, why: str) -> None:
    report = decide(work(*["P P"] * 6), past(entry))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert why in report.reasons[0]


def test_another_model_is_named_beside_this_one() -> None:
    report = decide(work(*["P P"] * 6), past(recorded(work(*GOOD)), model="newer"))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "is of model with loop, this session of newer with loop" in report.reasons[0]


def test_the_opinions_of_another_judge_are_no_baseline_but_its_exact_checks_are() -> None:
    for kind, verdict in (("check", Verdict.PASS), ("expectation", Verdict.INCONCLUSIVE)):
        before = past(recorded(work(*GOOD, kind=kind)), judge="another judge")
        assert decide(work(*["P P"] * 6, kind=kind), before).verdict is verdict


def test_the_last_session_is_the_baseline_and_the_confirming_runs_are_no_part_of_it() -> None:
    older, newer = recorded(work(*GOOD), days=9), recorded(work(*["F F F F+"] * 6), days=2)
    assert newer.skill_gate.cases is not None
    assert newer.skill_gate.cases[0].runs == 3
    report = decide(work(*["P P"] * 6), past(older, newer))
    assert report.history is not None
    assert report.history.baseline[0].startswith("eval 0 failed over 3 runs")


def test_an_entry_has_the_source_s_names_and_unknown_is_null() -> None:
    entry = recorded(work("P P P", "F F F"))
    assert (entry.exact_pass_rate, entry.semantic_pass_rate, entry.overall_pass_rate) == (0.5, None, 0.5)
    assert (entry.eval_count, entry.avg_delta, entry.p95_ms, entry.git_sha) == (2, None, 1200, "cccccccc")
    assert entry.verdict == "D"
    assert recorded(work("P P P")).verdict == "S"


def test_a_plan_that_the_agents_were_told_makes_another_case() -> None:
    case = work("P P").cases[0].plan.case
    assert case_key(case) == "digest-0"
    assert case_key(case.model_copy(update={"plan": ("Search", "Verify")})).startswith("digest-0+")
    assert case_key(case.model_copy(update={"digest": ""})) == ""


def test_other_modes_look_at_no_baseline() -> None:
    before = past(recorded(work(*GOOD)))
    (with_past,) = decide_skills([look(work(*["F F F"] * 6), Mode.STANDARD, before)])
    (without,) = decide_skills([look(work(*["F F F"] * 6), Mode.STANDARD)])
    assert (with_past.verdict, with_past.reasons) == (without.verdict, without.reasons)
    assert history_of(look(work("P P"), Mode.STANDARD, past()), Verdict.PASS) is None


WORDS = st.lists(st.sampled_from(["P P", "P F P", "P F F", "F F F", "F F F F+", "F P F F+"]), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(WORDS, st.data())
def test_no_evidence_never_passes_and_a_better_past_never_makes_head_better(
    heads: list[str], data: st.DataObject
) -> None:
    """Without a baseline nothing passes; what was recorded as passing instead of failing can only count against head."""
    order = {Verdict.FAIL: 0, Verdict.INCONCLUSIVE: 1, Verdict.CONDITIONAL: 2, Verdict.PASS: 3}
    worse = data.draw(st.lists(st.sampled_from(["P P P", "P F F", "F F F"]), min_size=len(heads), max_size=len(heads)))
    at = data.draw(st.integers(0, len(heads) - 1))
    better = [*worse[:at], "P P P", *worse[at + 1 :]]
    assert decide(work(*heads), past()).verdict is not Verdict.PASS
    one, other = (decide(work(*heads), past(recorded(work(*words)))).verdict for words in (worse, better))
    assert order[other] <= order[one]
