"""From the files of a bundle to the values that the decision is made from.

The pipeline decides on what it reads back here, and so does ``verify``: a decision rests on files, never on memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from gate.domain.base import NotRun, Value
from gate.domain.contract import SkillContract
from gate.domain.discussion import Discussion
from gate.domain.judgement import Analysis, CaseComparison, Comparison, RunJudgement, Unblinding
from gate.domain.plan import Arm, CasePlan, RunKey, SkillPlan, case_folder
from gate.domain.report import CaseRecord, JudgedRun, SkillRecord
from gate.domain.skill import with_texts
from gate.errors import EvidenceError
from gate.evidence.bundle import Bundle, load_run
from gate.evidence.cache import Reused
from gate.evidence.seal import REUSE
from gate.evidence.shapes import read_checks, read_grading

V = TypeVar("V", bound=Value)

PURPOSES = ("planned", "fill", "confirm")
NOT_JUDGED = NotRun(not_run="this layer was not reached")


def skill_file(slug: str) -> str:
    """Bundle-relative path of a skill's skill.json."""
    return f"skills/{slug}/skill.json"


class SkillFacts(Value):
    """skill.json: the plan of a skill and what stopped it."""

    plan: SkillPlan
    texts: dict[str, str] = Field(default_factory=dict)
    """What the head's files say (``texts_of``), so that blindness and citations can be looked up again."""
    errors: tuple[str, ...] = ()
    over_budget: str | None = None
    broken: tuple[str, ...] = ()
    """Evidence that was given and is not what was sealed: shards that a merge refused."""


def read_value(root: Path, relative: str, kind: type[V]) -> V | NotRun:
    """A value or the NotRun in its place; a missing file is a NotRun that says so. Raises EvidenceError."""
    bundle = Bundle(root)
    if not bundle.exists(relative):
        return NOT_JUDGED
    data = bundle.read_json(relative)
    if isinstance(data, dict) and "not_run" in data:
        return bundle.read(relative, NotRun)
    return bundle.read(relative, kind)


def read_skill_record(root: Path, slug: str) -> SkillRecord:
    """Everything about one skill. Raises EvidenceError where skill.json is missing or wrong; a run whose seal is
    broken is left out and named in ``broken_seals``.
    """
    facts = Bundle(root).read(skill_file(slug), SkillFacts)
    broken: list[str] = []
    plan = facts.plan
    if plan.head is not None and facts.texts:
        plan = plan.model_copy(update={"head": with_texts(plan.head, facts.texts)})
    cases = tuple(read_case_record(root, plan, case, broken) for case in plan.cases)
    return SkillRecord(
        plan=plan,
        cases=cases,
        over_budget=facts.over_budget,
        errors=facts.errors,
        broken_seals=(*facts.broken, *broken),
        contract=_contract(root, slug),
    )


def contract_file(slug: str) -> str:
    """Bundle-relative path of a skill's contract.json."""
    return f"skills/{slug}/contract.json"


def _contract(root: Path, slug: str) -> SkillContract | NotRun | None:
    """None where the session made none."""
    path = contract_file(slug)
    return read_value(root, path, SkillContract) if Bundle(root).exists(path) else None


def read_case_record(root: Path, skill: SkillPlan, case: CasePlan, broken: list[str]) -> CaseRecord:
    """One case with its runs in the order (purpose, run, arm); seals that do not hold are appended to ``broken``."""
    runs = []
    for key in run_keys(root, skill, case):
        try:
            record = load_run(root, key.folder)
        except EvidenceError as error:
            broken.append(f"{key.folder}: {error.message}")
            continue
        if record.key != key:
            broken.append(f"{key.folder}: its record is of another run")
            continue
        judgement = _judgement(root, key)
        discussion = read_value(root, f"{key.folder}/discussion.json", Discussion)
        runs.append(JudgedRun(record=record, judgement=judgement, reused=_reused(root, key), discussion=discussion))
    order = list(Arm)
    runs.sort(key=lambda run: (PURPOSES.index(run.record.purpose), run.record.key.run, order.index(run.record.key.arm)))
    missing = tuple(
        f"{run.record.key.arm.value} run {run.record.key.run}: {run.record.outcome.value}: {run.record.reason}"
        for run in runs
        if not run.record.outcome.agent_caused
    )
    layer3 = _layer3(root, skill, case)
    if (problem := broken_comparison(layer3, case.case.eval_id)) is not None:
        broken.append(f"{case_folder(skill.slug, case.case.eval_id)}/comparison.json: {problem}")
    return CaseRecord(plan=case, runs=tuple(runs), layer3=layer3, missing=missing)


def broken_comparison(layer3: CaseComparison, eval_id: str) -> str | None:
    """What does not hold of a case's comparison and its opening; None where all does."""
    comparison, opened = layer3.comparison, layer3.unblinding
    if not isinstance(comparison, Comparison):
        return "labels were opened without a comparison" if opened is not None else None
    if not comparison.intact:
        return "it was changed after it was sealed"
    if comparison.eval_id != eval_id:
        return f"it is of the case {comparison.eval_id!r}"
    if opened is not None and not opened.fits(comparison):
        return "what was opened is not what was sealed"
    return None


def _reused(root: Path, key: RunKey) -> str | None:
    """The day an earlier session made this run on; None where this one did."""
    path = f"{key.folder}/{REUSE}"
    return Bundle(root).read(path, Reused).kept_on if Bundle(root).exists(path) else None


def run_keys(root: Path, skill: SkillPlan, case: CasePlan) -> list[RunKey]:
    """The runs that lie in the bundle for a case, by run number and arm."""
    folder = root / case_folder(skill.slug, case.case.eval_id)
    keys: list[RunKey] = []
    for run_folder in sorted(folder.glob("run-*")) if folder.is_dir() else []:
        number = run_folder.name.removeprefix("run-")
        if number.isdecimal() and int(number) >= 1:
            keys.extend(
                RunKey(
                    skill_path=skill.change.path,
                    slug=skill.slug,
                    eval_id=case.case.eval_id,
                    run=int(number),
                    arm=arm,
                )
                for arm in Arm
                if (run_folder / arm.value).is_dir()
            )
    return sorted(keys, key=lambda key: (key.run, list(Arm).index(key.arm)))


def _judgement(root: Path, key: RunKey) -> RunJudgement:
    bundle = Bundle(root)
    checks_path, grading_path = f"{key.folder}/checks.json", f"{key.folder}/grading.json"
    try:
        return RunJudgement(
            checks=read_checks(bundle.read_json(checks_path)) if bundle.exists(checks_path) else NOT_JUDGED,
            grading=read_grading(bundle.read_json(grading_path)) if bundle.exists(grading_path) else NOT_JUDGED,
        )
    except (ValidationError, KeyError, TypeError) as error:
        raise EvidenceError(
            f"{key.folder}: checks.json or grading.json is not what it should be: {error}.", path=grading_path
        ) from None


def _layer3(root: Path, skill: SkillPlan, case: CasePlan) -> CaseComparison:
    folder = case_folder(skill.slug, case.case.eval_id)
    unblinding = read_value(root, f"{folder}/unblinding.json", Unblinding)
    return CaseComparison(
        comparison=read_value(root, f"{folder}/comparison.json", Comparison),
        unblinding=None if isinstance(unblinding, NotRun) else unblinding,
        analysis=read_value(root, f"{folder}/analysis.json", Analysis),
    )
