"""What a bundle says about the session itself: session.json, plan.json, usage.json, skill.json."""

from __future__ import annotations

from typing import Any, NamedTuple

from gate.domain.findings import Finding, Level
from gate.domain.plan import (
    Plan,
)
from gate.domain.report import CaseUse, ModelUse
from gate.domain.skill import texts_of
from gate.evidence.assemble import (
    SkillFacts,
    skill_file,
)
from gate.evidence.bundle import Bundle
from gate.evidence.cache import Cache
from gate.evidence.redact import Redactor
from gate.pipeline.world import Trouble, World, redacted
from gate.settings import Settings


class Told(NamedTuple):
    """What usage.json says beside the plan."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    usage: tuple[ModelUse, ...]
    sandbox: str
    cases: tuple[CaseUse, ...] = ()


def plan_facts(plan: Plan) -> dict[str, Any]:
    """plan.json: the plan without the skills' contents, which skill.json holds."""
    data = plan.to_json()
    data["skills"] = [
        {
            "path": skill.change.path,
            "slug": skill.slug,
            "type": skill.type.value,
            "type_reason": skill.type_reason,
            "not_measured": skill.not_measured,
            "cases": [
                {
                    "eval_id": case.case.eval_id,
                    "origin": case.origin,
                    "blocked": case.blocked,
                    "arms": [arm.to_json() for arm in case.arms],
                    "compare": case.compare.not_run if case.compare else None,
                    "share": case.share.to_json() if case.share else None,
                }
                for case in skill.cases
            ],
        }
        for skill in plan.skills
    ]
    return data


def session_facts(settings: Settings, world: World) -> dict[str, Any]:
    """session.json: what a replay and ``verify`` need to know, and who decided what. No secret is in Settings."""
    return {
        "session_id": world.session_id,
        "seed": world.seed.hex,
        "judging_seed": world.cache.judging_seed if world.cache else None,
        "run_date": world.run_date,
        "models_text": world.models_text,
        "mode": settings.mode.value,
        "enforce": settings.enforce.value,
        "harness": settings.harness,
        "policy": settings.policy.to_json(),
        "exit_conditional": settings.exit_conditional,
        "override": settings.override.to_json() if settings.override is not None else None,
        "notes": list(world.notes),
        **({"guarded_lines": settings.to_json()["guarded_lines"]} if settings.guarded_lines else {}),
    }


def write_facts(bundle: Bundle, redactor: Redactor, plan: Plan, trouble: Trouble, told: Told) -> None:
    """The last files that the decision reads: the plan of each skill with what stopped it, and what was spent."""
    for skill in plan.skills:
        facts = SkillFacts(
            plan=skill,
            texts=texts_of(skill.head) if skill.head is not None and skill.not_measured is None else {},
            errors=tuple(sorted(trouble.errors.get(skill.slug, ()))),
            over_budget=trouble.over_budget.get(skill.slug),
            broken=tuple(sorted(trouble.broken.get(skill.slug, ()))),
        )
        bundle.write(skill_file(skill.slug), redacted(redactor, facts))
        manifests = {
            "manifests": [status.to_json() for status in skill.manifests],
            "findings": [finding.to_json() for finding in skill.manifest_findings],
            "preflight": [fact.to_json() for fact in skill.preflight],
        }
        bundle.write(f"skills/{skill.slug}/manifests.json", redactor.json(manifests))
    session = {
        "findings": [finding.to_json() for finding in told.findings],
        "usage": [use.to_json() for use in told.usage],
        "cases": [use.to_json() for use in told.cases],
        "sandbox": told.sandbox,
        "notes": [*told.notes, *plan.notes, *trouble.notes],
        "base_commit": plan.base_commit,
        "head_commit": plan.head_commit,
        "estimated_calls": plan.estimated_calls,
        "estimated_tokens": plan.estimated_tokens,
        "worst_calls": plan.worst_calls,
        "worst_tokens": plan.worst_tokens,
        "slugs": [skill.slug for skill in plan.skills],
    }
    bundle.write("usage.json", redactor.json(session))


def cache_findings(cache: Cache | None) -> list[Finding]:
    """Kept entries that come from elsewhere, each named: somebody put them there."""
    return [
        Finding(
            rule=f"cache/{problem.rule}",
            level=Level.WARNING,
            path=problem.path,
            message=problem.message,
            remedy="Nothing of it was used; remove the entry if it does not go away by itself.",
        )
        for problem in (cache.problems if cache is not None else ())
    ]
