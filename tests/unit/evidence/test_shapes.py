"""The files that other people's viewers read: skill-creator's benchmark.json and benchmark.md, SkillSentry's eval_result.json."""

from __future__ import annotations

from typing import Any

from gate.domain.report import CaseRecord
from gate.evidence.shapes import benchmark_file, benchmark_page, eval_result_file
from tests.builders_records import case_record, check, decide, expectation, skill_record
from tests.builders_report import report_of


def cases() -> tuple[CaseRecord, ...]:
    return (
        case_record("1", checks=[check("c1")], expectations=[expectation("e1")], head=["PP", "PF"], none=["FP"]),
        case_record("2", checks=[check("c1")], head=["F", "F"], none=["F"]),
    )


def benchmark(**seconds: float | None) -> dict[str, Any]:
    known = seconds.get("known", 2.0)
    return benchmark_file(
        "my `skill` | 名", "skills/x", cases(), lambda folder: known if "with_skill" in folder else 1.5
    )


def test_the_benchmark_has_what_the_viewer_reads() -> None:
    found = benchmark()
    assert set(found) == {"metadata", "runs", "run_summary", "notes"}
    first = found["runs"][0]
    assert set(first) == {"eval_id", "eval_name", "configuration", "run_number", "result", "expectations", "notes"}
    assert {run["configuration"] for run in found["runs"]} == {"with_skill", "without_skill"}
    assert first["result"].keys() >= {
        "pass_rate",
        "passed",
        "failed",
        "total",
        "time_seconds",
        "tokens",
        "tool_calls",
        "errors",
    }
    assert first["result"]["passed"] + first["result"]["failed"] == first["result"]["total"] == 2
    assert [set(row) for row in first["expectations"]] == [{"text", "passed", "evidence"}] * 2
    assert found["run_summary"]["with_skill"]["pass_rate"]["mean"] == (1 + 0.5 + 0 + 0) / 4
    assert found["run_summary"]["delta"]["pass_rate"] == "+0.12"
    assert found["run_summary"]["delta"]["time_seconds"] == "+0.5"
    assert found["metadata"]["runs_per_configuration"] == 4


def test_a_time_that_nobody_knows_is_no_zero_and_has_no_mean() -> None:
    found = benchmark(known=None)
    assert found["run_summary"]["with_skill"]["time_seconds"] is None
    assert "time_seconds" not in found["run_summary"]["delta"]
    row = next(line for line in benchmark_page(found).splitlines() if line.startswith("| Time"))
    assert row.split("|")[2].strip() == "unknown"


def test_a_name_cannot_break_out_of_the_page() -> None:
    page = benchmark_page(benchmark())
    assert page.splitlines()[0] == "# Benchmark of `my skill 名`"
    assert all(line.count("|") == 5 for line in page.splitlines() if line.startswith("|"))


def test_the_result_has_the_names_of_skillsentry_and_counts_beside_rates() -> None:
    skill = decide(skill_record(*cases()))
    found = eval_result_file(skill, report_of([skill]), 0.8)
    assert set(found) == {"skill", "mode", "threshold", "verdict", "reasons", "summary", "evaluated_at"}
    assert found["verdict"] == skill.verdict.value.upper()
    summary = found["summary"]
    assert summary["eval_count"] == 2
    assert (summary["exact_passed"], summary["exact_total"]) == (2, 4)
    assert summary["exact_pass_rate"] == 0.5
    assert summary["semantic_pass_rate"] == 0.5
    assert "2" in summary["failed_evals"]


def test_rates_of_nothing_are_unknown() -> None:
    only_checks = case_record("1", checks=[check("c1")], head=["P", "P"], none=["P"])
    skill = decide(skill_record(only_checks))
    assert eval_result_file(skill, report_of([skill]), 0.8)["summary"]["semantic_pass_rate"] is None
