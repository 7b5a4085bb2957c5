"""The decision as a pure function of a bundle's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gate import __version__
from gate.decision.appeals import token_share
from gate.decision.history import entry_of, with_baseline
from gate.decision.look import Look
from gate.decision.state import summarise
from gate.decision.verdict import decide_skills
from gate.domain.base import pretty_json, rounded
from gate.domain.findings import Finding
from gate.domain.history import HistoryEntry, Past
from gate.domain.plan import (
    Enforce,
    Mode,
    Plan,
    case_label,
)
from gate.domain.report import CaseUse, GateReport, ModelUse, Override, SkillRecord, SkillReport
from gate.errors import EvidenceError
from gate.evidence.assemble import (
    read_skill_record,
)
from gate.evidence.bundle import Bundle
from gate.evidence.cited import ANSWERS_CHARACTERS, ROWS, ROWS_OF_A_SKILL, cited_evidence
from gate.evidence.shapes import benchmark_file, benchmark_page, eval_result_file
from gate.pipeline.past import p95_ms, read_past, seconds
from gate.settings import Policy


class Decided(NamedTuple):
    """What a bundle's files come to."""

    report: GateReport
    entries: dict[str, HistoryEntry | None]
    """By slug of every skill that has a past: what this session adds to it."""
    shapes: dict[str, bytes]
    """The files that other programs' viewers read, by their path in the bundle: of every skill eval_result.json, and
    benchmark.json and benchmark.md where it was run."""


def decide(root: Path) -> GateReport:
    """The decision as a pure function of a bundle's files: what the gate says, and what ``verify`` derives again.

    Raises EvidenceError where a file is missing or is not what it should be.
    """
    return decided(root).report


def decided(root: Path, read: Mapping[str, SkillRecord] | None = None) -> Decided:
    """``decide``, and what else follows from the same records.

    ``read``: records, by slug, that the caller has read from these very files a moment ago, so that a large bundle is
    read once.
    """
    bundle = Bundle(root)
    session: Any = bundle.read_json("session.json")
    facts: Any = bundle.read_json("usage.json")
    try:
        policy = Policy.model_validate(session["policy"])
        plan = Plan(
            session_id=session["session_id"],
            mode=Mode(session["mode"]),
            enforce=Enforce(session["enforce"]),
            run_date=session["run_date"],
            base_commit=facts["base_commit"],
            head_commit=facts["head_commit"],
            skills=(),
            estimated_calls=facts["estimated_calls"],
            estimated_tokens=facts["estimated_tokens"],
            worst_calls=facts.get("worst_calls", 0),
            worst_tokens=facts.get("worst_tokens", 0),
        )
        used = [ModelUse.model_validate(item) for item in facts["usage"]]
        known = read or {}
        records = [known[slug] if slug in known else read_skill_record(root, slug) for slug in facts["slugs"]]
        pasts = {record.plan.slug: read_past(bundle, record.plan.slug) for record in records}
        guarded = session.get("guarded_lines", {})
        looks = [
            replace(
                _look(record, plan, policy, pasts[record.plan.slug]),
                guarded=tuple(guarded.get(record.plan.change.path, ())),
            )
            for record in records
        ]
        skills = decide_skills(looks)
        entries = {
            look.record.plan.slug: entry_of(
                look,
                skill,
                past,
                session_id=plan.session_id,
                commit=plan.head_commit,
                p95_ms=p95_ms(bundle, look.record),
            )
            for look, skill in zip(looks, skills, strict=True)
            if (past := pasts[look.record.plan.slug]) is not None
        }
        spent = {item["case"]: CaseUse.model_validate(item) for item in facts.get("cases", ())}
        skills = [_with_costs(skill, look.record, spent) for skill, look in zip(skills, looks, strict=True)]
        # After the decision, which looks at no text: the lines that people can look up.
        room = max(ROWS_OF_A_SKILL, ROWS // max(1, len(records)))
        answers = ANSWERS_CHARACTERS // max(1, len(records))
        shown = {record.plan.slug: cited_evidence(root, record.cases, room, answers) for record in records}
        skills = [skill.model_copy(update={"evidence": shown[skill.slug]}) for skill in skills]
        findings = [Finding.model_validate(item) for item in facts["findings"]]
        report = summarise(
            plan,
            skills,
            gate_version=__version__,
            models=session["models_text"],
            sandbox=facts["sandbox"],
            usage=used,
            session_findings=findings,
            # The session did not see everything that it should have: what it did see says nothing about the rest.
            session_errors=[item.message for item in findings if item.blocks],
            notes=[*facts["notes"], *([share] if (share := token_share(used)) else [])],
            exit_conditional=session["exit_conditional"],
            override=Override.model_validate(override) if (override := session.get("override")) else None,
            kept=session.get("judging_seed") is not None,
        )
        report = report.model_copy(update={"report_url": _report_url(policy, plan), "language": policy.language})
        report = GateReport.model_validate(rounded(report.to_json()))
        return Decided(report, entries, _shapes(bundle, policy, report, records))
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"The bundle's session facts cannot be read: {error}.", path="session.json") from None


def _with_costs(skill: SkillReport, record: SkillRecord, spent: Mapping[str, CaseUse]) -> SkillReport:
    """The report with what each case cost, and might."""
    shares = {case.plan.case.eval_id: case.plan.share for case in record.cases}
    cases = tuple(
        case.model_copy(
            update={"spent": spent.get(case_label(skill.slug, case.eval_id)), "share": shares.get(case.eval_id)}
        )
        for case in skill.cases
    )
    return skill.model_copy(update={"cases": cases})


def _report_url(policy: Policy, plan: Plan) -> str:
    """The policy's address of report.html with this session's facts in it; both are plain names."""
    url = policy.report_url or ""
    return url.replace("{session}", plan.session_id).replace("{head}", plan.head_commit or "")


def _look(record: SkillRecord, plan: Plan, policy: Policy, past: Past | None) -> Look:
    own = policy.for_skill(record.plan.change.path)
    return Look(
        record=with_baseline(record, past, mode=plan.mode, run_date=plan.run_date),
        mode=plan.mode,
        enforce=plan.enforce,
        thresholds=own.thresholds,
        manifest_errors=own.manifest_errors,
        require_layer3=own.require_layer3,
        waivers=policy.waivers,
        calibration=policy.calibration,
        run_date=plan.run_date,
        past=past,
    )


def _shapes(bundle: Bundle, policy: Policy, report: GateReport, records: Sequence[SkillRecord]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    record_of = {record.plan.slug: record for record in records}
    for skill in report.skills:
        folder, record = f"skills/{skill.slug}", record_of[skill.slug]
        result = eval_result_file(skill, report, policy.for_skill(skill.path).thresholds.threshold)
        files[f"{folder}/eval_result.json"] = pretty_json(result)
        if record.plan.head is not None and any(case.runs for case in record.cases):
            benchmark = benchmark_file(
                record.plan.head.name, skill.path, record.cases, lambda run: seconds(bundle, run)
            )
            files[f"{folder}/benchmark.json"] = pretty_json(benchmark)
            files[f"{folder}/benchmark.md"] = benchmark_page(benchmark).encode()
    return files
