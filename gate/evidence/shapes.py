"""The JSON files that other people's viewers read: skill-creator's shapes, with SkillSentry's names beside them.

Our own values stand whole under the key ``skill_gate``; everything else in these files is derived from them, so that
``verify`` can make the same bytes again. Formats: origins 1.6, 2 and 8.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from gate.domain.base import NotRun, rounded, six_digits
from gate.domain.evidence import RunRecord
from gate.domain.judgement import CheckResult, CheckStatus, GradeStatus, Grading
from gate.domain.plan import Arm
from gate.domain.report import CaseRecord, GateReport, JudgedRun, Share, SkillReport


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


def _decided(run: JudgedRun) -> list[bool]:
    """Whether each assertion of a run passed that was decided: checks, then expectations."""
    checks, grading = run.judgement.checks, run.judgement.grading
    decided = [] if isinstance(checks, NotRun) else [check.status is CheckStatus.PASSED for check in checks]
    if not isinstance(grading, NotRun):
        decided += [row.status is GradeStatus.PASSED for row in grading.rows if row.status is not GradeStatus.UNGRADED]
    return decided


def assertion_rate(run: JudgedRun) -> float | None:
    """Share of decided assertions that passed in a run; None where none was decided."""
    decided = _decided(run)
    return sum(decided) / len(decided) if decided else None


def benchmark_file(
    skill_name: str, skill_path: str, cases: Sequence[CaseRecord], timing: Callable[[str], float | None]
) -> dict[str, Any]:
    """benchmark.json of a skill as skill-creator's viewer reads it: exact configuration names, deltas as signed strings.

    ``timing``: seconds of a run by its folder, None where nobody knows. ``cases`` hold one run at least.
    """
    runs = []
    by_arm: dict[str, list[dict[str, Any]]] = {}
    records = [run.record for case in cases for run in case.runs]
    for case in cases:
        for run in case.runs:
            record = run.record
            if not record.scored or assertion_rate(run) is None:
                continue
            result = _result(run, timing(record.key.folder))
            by_arm.setdefault(record.key.arm.value, []).append(result)
            graded = grading_file(record, run.judgement.checks, run.judgement.grading)
            runs.append(
                {
                    "eval_id": record.key.eval_id,
                    "eval_name": case.plan.case.name or record.key.eval_id,
                    "configuration": record.key.arm.value,
                    "run_number": record.key.run,
                    "result": result,
                    "expectations": [
                        {key: row[key] for key in ("text", "passed", "evidence")} for row in graded["expectations"]
                    ],
                    "notes": [],
                }
            )
    summary: dict[str, Any] = {
        arm: {name: _spread([item[name] for item in results]) for name in ("pass_rate", "time_seconds", "tokens")}
        for arm, results in sorted(by_arm.items())
    }
    with_skill, without = (summary.get(arm.value) for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL))
    if with_skill and without:
        summary["delta"] = {
            name: f"{with_skill[name]['mean'] - without[name]['mean']:+{form}}"
            for name, form in (("pass_rate", ".2f"), ("time_seconds", ".1f"), ("tokens", ".0f"))
            if with_skill[name] and without[name]
        }
    gradings = [run.judgement.grading for case in cases for run in case.runs]
    judges = sorted({item.model for item in gradings if not isinstance(item, NotRun) and item.model})
    benchmark: dict[str, Any] = rounded(
        {
            "metadata": {
                "skill_name": skill_name,
                "skill_path": skill_path,
                "executor_model": records[0].model,
                "analyzer_model": ", ".join(judges),
                "timestamp": records[0].run_date,
                "evals_run": sorted({case.plan.case.eval_id for case in cases}),
                "runs_per_configuration": max((len(results) for results in by_arm.values()), default=0),
            },
            "runs": runs,
            "run_summary": summary,
            "notes": [],
        }
    )
    return benchmark


def _result(run: JudgedRun, seconds: float | None) -> dict[str, Any]:
    verdicts = _decided(run)
    return {
        "pass_rate": assertion_rate(run),
        "passed": sum(verdicts),
        "failed": len(verdicts) - sum(verdicts),
        "total": len(verdicts),
        "time_seconds": seconds,
        "tokens": run.record.metrics.total_tokens,
        "tool_calls": run.record.metrics.total_tool_calls,
        "errors": run.record.metrics.errors_encountered,
    }


def benchmark_page(benchmark: dict[str, Any]) -> str:
    """benchmark.md: the summary of a benchmark.json for people, in the table that skill-creator's own script writes.

    Names are untrusted: they stand in code, and what could end it is taken out.
    """
    told, summary = benchmark["metadata"], benchmark["run_summary"]
    arms = [arm for arm in (Arm.WITH_SKILL.value, Arm.WITHOUT_SKILL.value, Arm.BASE_SKILL.value) if arm in summary]
    delta = summary.get("delta", {})
    rows = [
        [title, *(_mean(summary[arm][name]) for arm in arms), delta.get(name, "unknown")]
        for name, title in (("pass_rate", "Pass rate"), ("time_seconds", "Time in seconds"), ("tokens", "Tokens"))
    ]
    facts = (
        f"Model: {_code(told['executor_model'])}. Date: {told['timestamp']}. Cases: {len(told['evals_run'])}, at most "
        f"{told['runs_per_configuration']} runs of an arm. Mean, and sample standard deviation from two runs on."
    )
    lines = [f"# Benchmark of {_code(told['skill_name'])}", "", facts, ""]
    head = ["", *arms, "with minus without"]
    lines += [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def _mean(spread: dict[str, float | None] | None) -> str:
    if spread is None:
        return "unknown"
    deviation = "" if spread["stddev"] is None else f" ± {spread['stddev']:.2f}"
    return f"{spread['mean']:.2f}{deviation}"


def _code(text: str) -> str:
    kept = "".join(sign if sign.isprintable() and sign not in "`|" else " " for sign in text)
    return f"`{' '.join(kept.split()) or 'unnamed'}`"


def eval_result_file(skill: SkillReport, report: GateReport, threshold: float) -> dict[str, Any]:
    """eval_result.json of a skill, as SkillSentry's CI writes it; None is unknown. Everything else is in gate-result.json."""
    exact = [item.with_skill for item in skill.triage if item.kind == "check"]
    semantic = [item.with_skill for item in skill.triage if item.kind == "expectation"]
    result: dict[str, Any] = rounded(
        {
            "skill": skill.path,
            "mode": report.mode.value,
            "threshold": threshold,
            "verdict": skill.verdict.value.upper(),
            "reasons": list(skill.reasons),
            "summary": {
                "exact_pass_rate": _pooled(exact),
                "semantic_pass_rate": _pooled(semantic),
                "overall_pass_rate": _pooled([*exact, *semantic]),
                "avg_delta": skill.lift_delta,
                "eval_count": len(skill.cases),
                "failed_evals": [case.eval_id for case in skill.cases if case.passed is False],
                "exact_total": sum(item.total for item in exact),
                "exact_passed": sum(item.passed for item in exact),
            },
            "evaluated_at": report.run_date,
        }
    )
    return result


def _pooled(shares: Sequence[Share]) -> float | None:
    return _rate(sum(item.passed for item in shares), sum(item.total for item in shares))


def _rate(passed: int, total: int) -> float | None:
    return six_digits(passed / total) if total else None


def _spread(values: Sequence[float | None]) -> dict[str, float | None] | None:
    """None where one value is unknown: a mean over the others would be of other runs."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return {
        "mean": statistics.fmean(known),
        # Sample deviation, unknown under two values (R61, K13).
        "stddev": statistics.stdev(known) if len(known) > 1 else None,
        "min": min(known),
        "max": max(known),
    }
