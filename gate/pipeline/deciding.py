"""The decision as a pure function of a bundle's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate import __version__
from gate.decision.appeals import token_share
from gate.decision.look import Look
from gate.decision.state import summarise
from gate.decision.verdict import decide_skills
from gate.domain.base import rounded
from gate.domain.findings import Finding
from gate.domain.plan import (
    Enforce,
    Mode,
    Plan,
)
from gate.domain.report import GateReport, ModelUse, Override, SkillRecord
from gate.errors import EvidenceError
from gate.evidence.assemble import (
    read_skill_record,
)
from gate.evidence.bundle import Bundle
from gate.evidence.cited import ROWS, ROWS_OF_A_SKILL, cited_evidence
from gate.evidence.shapes import benchmark_file
from gate.settings import Policy


def decide(root: Path) -> GateReport:
    """The decision as a pure function of a bundle's files: what the gate says, and what ``verify`` derives again.

    Raises EvidenceError where a file is missing or is not what it should be.
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
        records = [read_skill_record(root, slug) for slug in facts["slugs"]]
        skills = decide_skills([_look(record, plan, policy) for record in records])
        # After the decision, which looks at no text: the lines that people can look up.
        room = max(ROWS_OF_A_SKILL, ROWS // max(1, len(records)))
        shown = {record.plan.slug: cited_evidence(root, record.cases, room) for record in records}
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
        report = report.model_copy(update={"report_url": _report_url(policy, plan)})
        return GateReport.model_validate(rounded(report.to_json()))
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"The bundle's session facts cannot be read: {error}.", path="session.json") from None


def _report_url(policy: Policy, plan: Plan) -> str:
    """The policy's address of report.html with this session's facts in it; both are plain names."""
    url = policy.report_url or ""
    return url.replace("{session}", plan.session_id).replace("{head}", plan.head_commit or "")


def _look(record: SkillRecord, plan: Plan, policy: Policy) -> Look:
    own = policy.for_skill(record.plan.change.path)
    return Look(
        record=record,
        mode=plan.mode,
        enforce=plan.enforce,
        thresholds=own.thresholds,
        manifest_errors=own.manifest_errors,
        require_layer3=own.require_layer3,
        waivers=policy.waivers,
        calibration=policy.calibration,
        run_date=plan.run_date,
    )


def write_benchmarks(root: Path, bundle: Bundle, slugs: Sequence[str]) -> None:
    """benchmark.json of every skill that was measured."""
    for slug in slugs:
        record = read_skill_record(root, slug)
        runs = [run.record for case in record.cases for run in case.runs]
        if record.plan.head is not None and runs:
            bundle.write(
                f"skills/{slug}/benchmark.json",
                benchmark_file(
                    record.plan.head.name, record.plan.change.path, runs[0].model, runs[0].run_date, record.cases
                ),
            )
