"""The JSON Schemas of a bundle's files (DESIGN.md 5): made from the values that the gate itself reads them with.

``python -m gate.evidence.schema`` writes them into ``gate/schemas``; a test holds them to be current. A file whose stage did
not run holds ``not_run`` with the reason instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from gate.domain.base import NotRun, pretty_json
from gate.domain.contract import SkillContract
from gate.domain.discussion import Discussion
from gate.domain.evidence import Event, Metrics, RunRecord, Timing, Verification
from gate.domain.findings import Finding
from gate.domain.history import HistoryEntry, Past
from gate.domain.judgement import Analysis, CheckResult, Comparison, Grading, Unblinding
from gate.domain.manifest import ManifestStatus
from gate.domain.preflight import PreflightFact
from gate.domain.report import CaseUse, GateReport, ModelUse, SkillReport
from gate.evidence.assemble import SkillFacts
from gate.settings import Policy

FOLDER = Path(__file__).resolve().parents[1] / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
# What a run's record has beside run.json: the events, metrics.json and the seal say it.
_DERIVED = frozenset({"calls", "response", "metrics", "chain_head", "seal"})
_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_RATE: dict[str, Any] = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_MAYBE: dict[str, Any] = {"type": ["string", "null"]}
_SHA: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def schema_name(file_name: str) -> str:
    """The schema of a bundle's file, by the file's own name: ``report.json`` -> ``report.schema.json``."""
    return f"{file_name.rsplit('.', 1)[0]}.schema.json"


def bundle_schemas() -> dict[str, dict[str, Any]]:
    """File name -> JSON Schema (2020-12). ``events.jsonl`` and ``gateway.jsonl``: of each line."""
    made = {
        "report.json": _of(GateReport),
        "gate-result.json": _of(SkillReport),
        "skill.json": _of(SkillFacts),
        "past.json": _of(Past),
        "history.json": _of(list[HistoryEntry]),
        "contract.json": _of(SkillContract | NotRun),
        "comparison.json": _of(Comparison | NotRun),
        "unblinding.json": _of(Unblinding),
        "analysis.json": _of(Analysis | NotRun),
        "verification.json": _of(Verification),
        "discussion.json": _of(Discussion | NotRun),
        "metrics.json": _of(Metrics),
        "timing.json": _of(Timing),
        "run.json": _without(_of(RunRecord), _DERIVED),
        "events.jsonl": _of(Event),
        "gateway.jsonl": _of(Event),
        "session.json": _object(
            {
                "session_id": _TEXT,
                "seed": _SHA,
                "run_date": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
                "models_text": _TEXT,
                "mode": _TEXT,
                "enforce": _TEXT,
                "policy": _of(Policy),
                "exit_conditional": {"enum": [0, 1]},
                "notes": _list(_TEXT),
            }
        ),
        "plan.json": _object(
            {
                "session_id": _TEXT,
                "mode": _TEXT,
                "enforce": _TEXT,
                "run_date": _TEXT,
                "base_commit": _MAYBE,
                "head_commit": _MAYBE,
                "estimated_calls": _COUNT,
                "estimated_tokens": _COUNT,
                "skills": _list(_PLANNED_SKILL),
            }
        ),
        "usage.json": _object(
            {
                "usage": _list(_of(ModelUse)),
                "cases": _list(_of(CaseUse)),
                "findings": _list(_of(Finding)),
                "notes": _list(_TEXT),
                "sandbox": _TEXT,
                "slugs": _list(_TEXT),
                "base_commit": _MAYBE,
                "head_commit": _MAYBE,
                "estimated_calls": _COUNT,
                "estimated_tokens": _COUNT,
            }
        ),
        "manifests.json": _object(
            {
                "manifests": _list(_of(ManifestStatus)),
                "findings": _list(_of(Finding)),
                "preflight": _list(_of(PreflightFact)),
            }
        ),
        "checks.json": _object({"skill_gate": {"anyOf": [_object({"checks": _list(_of(CheckResult))}), _of(NotRun)]}}),
        "grading.json": _GRADING | {"properties": {**_GRADING["properties"], "skill_gate": _of(Grading | NotRun)}},
        "benchmark.json": _object(
            {
                "metadata": _object({"skill_name": _TEXT, "skill_path": _TEXT, "timestamp": _TEXT}),
                "runs": _list(_object({"eval_id": _TEXT, "configuration": _TEXT, "run_number": _COUNT})),
                "run_summary": {"type": "object"},
                "notes": _list(_TEXT),
            }
        ),
        "eval_result.json": _object(
            {
                "skill": _TEXT,
                "mode": _TEXT,
                "threshold": {"type": "number"},
                "verdict": _TEXT,
                "reasons": _list(_TEXT),
                "summary": _object({"eval_count": _COUNT, "exact_total": _COUNT, "exact_passed": _COUNT}),
                "evaluated_at": _TEXT,
            }
        ),
        "seal.json": _object({"files": _list(_SEALED), "chain_head": _SHA, "events": _COUNT}),
        "manifest.json": _object(
            {
                "schema_version": {"const": 1},
                "files": _list(_SEALED),
                "chains": {"type": "object", "additionalProperties": _SHA},
                "facts": {"type": "object"},
                "digest": _SHA,
            }
        ),
    }
    return {
        name: _hoisted({"$schema": DRAFT, **schema, "title": f"Skill Gate {name}"}) for name, schema in made.items()
    }


def _of(kind: Any) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema(mode="validation")


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object with at least these keys; files for other people's viewers and facts for replays grow by further ones."""
    return {"type": "object", "properties": dict(properties), "required": sorted(properties)}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


def _without(schema: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    kept = {name: value for name, value in schema["properties"].items() if name not in names}
    return {**schema, "properties": kept, "required": [name for name in schema["required"] if name not in names]}


def _hoisted(schema: dict[str, Any]) -> dict[str, Any]:
    """Definitions of parts moved to the root, which is where references look for them."""
    found: dict[str, Any] = {}

    def without_definitions(value: Any) -> Any:
        if isinstance(value, dict):
            for name, definition in value.get("$defs", {}).items():
                found[name] = without_definitions(definition)
            return {key: without_definitions(item) for key, item in value.items() if key != "$defs"}
        return [without_definitions(item) for item in value] if isinstance(value, list) else value

    plain = without_definitions(schema)
    return {**plain, "$defs": dict(sorted(found.items()))} if found else plain


_SEALED = _object({"path": _TEXT, "size_bytes": _COUNT, "sha256": _SHA})
_PLANNED_SKILL = _object(
    {"path": _TEXT, "slug": _TEXT, "type": _TEXT, "cases": _list(_object({"eval_id": _TEXT, "arms": _list({})}))}
)
_GRADING = _object(
    {
        "eval_id": _TEXT,
        "skill_type": _TEXT,
        "expectations": _list(
            _object({"text": _TEXT, "passed": {"type": ["boolean", "null"]}, "evidence": _TEXT, "method": _TEXT})
        ),
        "summary": _object({"passed": _COUNT, "failed": _COUNT, "total": _COUNT, "pass_rate": _RATE}),
        "execution_metrics": {"type": "object"},
        "claims": _list(_object({"claim": _TEXT, "type": _TEXT, "verified": {"type": "boolean"}})),
        "eval_feedback": {"type": "object"},
        "skill_gate": {},
    }
)


def main() -> None:
    """Write them."""
    for name, schema in bundle_schemas().items():
        (FOLDER / schema_name(name)).write_bytes(pretty_json(schema))


if __name__ == "__main__":
    main()
