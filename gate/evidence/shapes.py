"""The JSON files that other people's viewers read: skill-creator's shapes, with SkillSentry's names beside them.

Our own values stand whole under the key ``skill_gate``; everything else in these files is derived from them, so that
``verify`` can make the same bytes again. Formats: origins 1.6, 2 and 8.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from gate.domain.base import NotRun, rounded, six_digits
from gate.domain.evidence import RunRecord
from gate.domain.judgement import CheckResult, CheckStatus, GradeStatus, Grading
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord, JudgedRun


def checks_file(checks: tuple[CheckResult, ...] | NotRun) -> dict[str, Any]:
    """checks.json of a run (SkillSentry's grading_script.json names in ``summary``)."""
    if isinstance(checks, NotRun):
        return {"skill_gate": checks.to_json()}
    passed = sum(check.status is CheckStatus.PASSED for check in checks)
    return {
        "skill_gate": {"checks": [check.to_json() for check in checks]},
        "summary": {"passed": passed, "total": len(checks), "pass_rate": _rate(passed, len(checks))},
    }


def read_checks(data: Any) -> tuple[CheckResult, ...] | NotRun:
    """The value inside a checks.json. Raises pydantic's ValidationError where it is none."""
    inner = data["skill_gate"]
    if "not_run" in inner:
        return NotRun.model_validate(inner)
    return tuple(CheckResult.model_validate(item) for item in inner["checks"])


def grading_file(
    record: RunRecord, checks: tuple[CheckResult, ...] | NotRun, grading: Grading | NotRun
) -> dict[str, Any]:
    """grading.json of a run: ``text``, ``passed``, ``evidence`` for every assertion; ungraded ones are ``passed: null``."""
    rows: list[dict[str, Any]] = [
        {
            "text": check.expected,
            "passed": check.status is CheckStatus.PASSED,
            "evidence": check.found,
            "precision": "exact_match",
            "method": "script",
            "evidence_source": check.block or "",
        }
        for check in (() if isinstance(checks, NotRun) else checks)
    ]
    for row in () if isinstance(grading, NotRun) else grading.rows:
        accepted = [quote for quote in row.quotes if quote.verdict.accepted]
        rows.append(
            {
                "text": row.text,
                "passed": None if row.status is GradeStatus.UNGRADED else row.status is GradeStatus.PASSED,
                "evidence": accepted[0].text if accepted else row.reason,
                "precision": row.precision,
                "method": row.method,
                "evidence_source": accepted[0].source if accepted else "",
            }
        )
    decided = [row for row in rows if row["passed"] is not None]
    passed = sum(bool(row["passed"]) for row in decided)
    exact = [row for row in decided if row["precision"] == "exact_match"]
    return {
        "eval_id": record.key.eval_id,
        "skill_type": record.skill_type.value,
        "expectations": rows,
        "summary": {
            "passed": passed,
            "failed": len(decided) - passed,
            "ungraded": len(rows) - len(decided),
            "total": len(rows),
            "pass_rate": _rate(passed, len(decided)),
            "authoritative_pass_rate": _rate(sum(bool(row["passed"]) for row in exact), len(exact)),
        },
        "execution_metrics": {
            "tool_calls": dict(record.metrics.tool_calls),
            "total_tool_calls": record.metrics.total_tool_calls,
            "total_steps": record.metrics.total_steps,
            "errors_encountered": record.metrics.errors_encountered,
            "output_chars": record.metrics.output_chars,
            "transcript_chars": record.metrics.transcript_chars,
        },
        "claims": [
            {"claim": claim.text, "type": claim.type, "verified": claim.verified == "true", "evidence": claim.actual}
            for claim in (() if isinstance(grading, NotRun) else grading.claims)
        ],
        "eval_feedback": {
            "suggestions": [
                {"reason": text} for text in (() if isinstance(grading, NotRun) else grading.eval_feedback)
            ],
            "overall": "",
        },
        "skill_gate": grading.to_json(),
    }


def read_grading(data: Any) -> Grading | NotRun:
    """The value inside a grading.json. Raises pydantic's ValidationError where it is none."""
    inner = data["skill_gate"]
    return NotRun.model_validate(inner) if "not_run" in inner else Grading.model_validate(inner)


def assertion_rate(run: JudgedRun) -> float | None:
    """Share of decided assertions that passed in a run; None where none was decided."""
    checks = run.judgement.checks
    grading = run.judgement.grading
    decided = [] if isinstance(checks, NotRun) else [check.status is CheckStatus.PASSED for check in checks]
    if not isinstance(grading, NotRun):
        decided += [row.status is GradeStatus.PASSED for row in grading.rows if row.status is not GradeStatus.UNGRADED]
    return sum(decided) / len(decided) if decided else None


def benchmark_file(
    skill_name: str, skill_path: str, model: str, run_date: str, cases: Sequence[CaseRecord]
) -> dict[str, Any]:
    """benchmark.json of a skill as skill-creator's viewer reads it: exact configuration names, deltas as signed strings."""
    runs = []
    by_arm: dict[str, list[tuple[float, int | None]]] = {}
    for case in cases:
        for run in case.runs:
            record = run.record
            rate = assertion_rate(run)
            if not record.scored or rate is None:
                continue
            by_arm.setdefault(record.key.arm.value, []).append((rate, record.metrics.total_tokens))
            runs.append(
                {
                    "eval_id": record.key.eval_id,
                    "eval_name": case.plan.case.name or record.key.eval_id,
                    "configuration": record.key.arm.value,
                    "run_number": record.key.run,
                    "result": {
                        "pass_rate": rate,
                        "tokens": record.metrics.total_tokens,
                        "tool_calls": record.metrics.total_tool_calls,
                        "errors": record.metrics.errors_encountered,
                    },
                }
            )
    summary: dict[str, Any] = {}
    for arm, figures in sorted(by_arm.items()):
        rates = [rate for rate, _ in figures]
        tokens = [float(count) for _, count in figures if count is not None]
        summary[arm] = {"pass_rate": _spread(rates), "tokens": _spread(tokens) if len(tokens) == len(rates) else None}
    pair = (summary.get(Arm.WITH_SKILL.value), summary.get(Arm.WITHOUT_SKILL.value))
    if pair[0] and pair[1]:
        summary["delta"] = {"pass_rate": f"{pair[0]['pass_rate']['mean'] - pair[1]['pass_rate']['mean']:+.2f}"}
    benchmark: dict[str, Any] = rounded(
        {
            "metadata": {
                "skill_name": skill_name,
                "skill_path": skill_path,
                "executor_model": model,
                "timestamp": run_date,
                "evals_run": sorted({case.plan.case.eval_id for case in cases}),
                "runs_per_configuration": max((len(figures) for figures in by_arm.values()), default=0),
            },
            "runs": runs,
            "run_summary": summary,
            "notes": [],
        }
    )
    return benchmark


def _rate(passed: int, total: int) -> float | None:
    return six_digits(passed / total) if total else None


def _spread(values: list[float]) -> dict[str, float | None] | None:
    if not values:
        return None
    return {
        "mean": statistics.fmean(values),
        # Sample deviation, unknown under two values (R61, K13).
        "stddev": statistics.stdev(values) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
    }
