from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from gate.domain.report import ContractReport, DiscussionReport, GateReport, Share, SignedTask, SkillReport
from reporters import comment, html, words
from tests.builders_records import decide
from tests.builders_report import passing, report_of

EVIL = "<script>alert(1)</script> | `x` @everyone [link](http://evil.example) <!-- "


def a_skill() -> SkillReport:
    return decide(passing())


def a_report(skill: SkillReport) -> GateReport:
    return report_of([skill])


def a_discussion(**changes: Any) -> DiscussionReport:
    scores = {
        "task_completion": 0.9, "truthfulness": 0.9, "tool_accuracy": 0.7, "output_quality": 0.9, "error_recovery": 0.8,
        "efficiency": 0.6,
    }  # fmt: skip
    return DiscussionReport(
        **{
            "eval_id": "orders",
            "run": 1,
            "folder": "skills/csv-1/eval-orders/run-1/with_skill",
            "grade": "B",
            "score_path": (0.82, 0.83, 0.83),
            "scores": scores,
            "by_rule": ("error_recovery",),
            "moved": ("efficiency 0.5 to 0.6 in round 1, defender: Closing times were missing.",),
            "rounds": 2,
            "accepted_rounds": 1,
            "end_reason": "no_new_evidence",
            "seed_end": "score_converged in round 1",
            "void_objections": 1,
            "cave_index": 0,
            "criteria": Share(passed=3, total=4),
            "criteria_source": "contract",
            **changes,
        }
    )


LOST = a_discussion(
    run=2, grade=None, score_path=(None, None), scores={}, by_rule=(), moved=(), rounds=1, accepted_rounds=0, end_reason="lost",
    seed_end="", degraded="round 1 is void: the defender gave no valid reply",
)  # fmt: skip
CONTRACT = ContractReport(
    drafted=True,
    tasks=(
        SignedTask(eval_id="blog", score_path=(0.7, 0.88), approved=True, forced=False, disagreements=1),
        SignedTask(eval_id="dashboard", score_path=(0.6, 0.72, 0.78), approved=False, forced=True),
        SignedTask(
            eval_id="api", score_path=(None,), approved=False, forced=True, degraded="round 1: the server is down"
        ),
    ),
    refused=('page: any answer meets "It works."',),
)


def the_skill(**changes: Any) -> SkillReport:
    more = {"discussions": (a_discussion(), LOST), "undiscussed": ("1 run: simple (R215)",), "contract": CONTRACT}
    return a_skill().model_copy(update={**more, **changes})


def lines_about(text: str, start: str) -> str:
    """A section of a comment, up to the next title."""
    section = text.partition(f"**{start}")[2]
    return f"**{start}" + section.partition("\n\n**")[0].partition("\n</details>")[0]


def test_the_sections_of_a_comment(snapshot: SnapshotAssertion) -> None:
    text = comment.render(a_report(the_skill()))
    assert lines_about(text, "Contract before the runs") == snapshot(name="contract")
    assert lines_about(text, "Discussion after the runs") == snapshot(name="discussion")


def test_the_section_of_the_page(snapshot: SnapshotAssertion) -> None:
    text = html.render(a_report(the_skill()))
    section = text.partition("<summary>Discussion after the runs")[2].partition("</details>")[0]
    assert section == snapshot


@pytest.mark.requirements("R215")
def test_what_was_forced_lost_or_skipped_is_never_left_out_in_silence() -> None:
    text = comment.render(a_report(the_skill()))
    for word in ("FORCED", "DEGRADED", "not discussed: 1 run: simple", "round 1: the server is down"):
        assert word in text
    page = html.render(a_report(the_skill()))
    for word in ("FORCED", "DEGRADED", "simple (R215)"):
        assert word in page


def test_without_contract_and_discussion_there_is_no_section() -> None:
    text = comment.render(a_report(a_skill()))
    assert "Contract before" not in text
    assert "Discussion after" not in text
    assert "Discussion after" not in html.render(a_report(a_skill()))


def test_untrusted_words_of_models_are_text() -> None:
    evil = a_discussion(eval_id=EVIL, moved=(EVIL,), degraded=EVIL)
    contract = ContractReport(
        tasks=(SignedTask(eval_id=EVIL, score_path=(0.9,), approved=True, forced=False, degraded=EVIL),),
        missing=(EVIL,),
    )
    text = comment.render(a_report(the_skill(discussions=(evil,), contract=contract)))
    assert "<script>" not in text
    assert "<!-- " not in text.replace("<!-- skill-gate", "")
    page = html.render(a_report(the_skill(discussions=(evil,), contract=contract)))
    assert page.count("<script>") == 1, "the page's own"


def test_an_end_that_was_intended_is_no_fallback() -> None:
    from gate.domain.base import FallbackCount

    ends = [
        FallbackCount(kind=f"discussion_end:{name}", role="evaluator", count=1) for name in ("no_new_evidence", "lost")
    ]
    assert words.fallback_total(ends) == 1


def test_each_row_of_the_overview_has_a_cell_a_column() -> None:
    page = html.render(a_report(a_skill()))
    table = page.partition('<h2 id="overview">')[2].partition("</table>")[0]
    head, _, body = table.partition("</thead>")
    row = body.partition("<tr ")[2].partition("</tr>")[0]
    assert head.count("<th ") == row.count("<th ") + row.count("<td") == 7
