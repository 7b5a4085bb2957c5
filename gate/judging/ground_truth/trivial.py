"""Checks that prove nothing: they pass before anybody has done anything (DESIGN.md 4, Layer 2a; judging.md 8.3).

No engine and no model: the checks of a case are evaluated over a run that never was. Checks of executed commands have no
answer here and are left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gate.domain.base import Severity, sha256_hex
from gate.domain.chat import TokenUsage
from gate.domain.evidence import CollectedFile, Metrics, Outcome, RunRecord, ToolCall
from gate.domain.findings import Finding, Level
from gate.domain.judgement import CheckResult, CheckStatus
from gate.domain.plan import Arm, RunKey
from gate.domain.skill import SkillType
from gate.domain.suite import Case, Suite
from gate.judging.ground_truth.facts import Facts
from gate.judging.ground_truth.regex import RegexSearch
from gate.judging.ground_truth.run import check_facts
from gate.judging.ground_truth.schemas import SchemaValidator

NULL_RESPONSES = (None, "Done.")
"""What agents say that do nothing."""


class CaseTrivia(NamedTuple):
    """What an agent that does nothing achieves in a case."""

    eval_id: str
    trivial: tuple[str, ...]
    """Ids of checks that pass on the untouched fixture without a response."""
    null_agent: str | None
    """The response with which an agent that does nothing passes the whole case (empty: none at all); None: it fails."""


def without_a_run(
    case: Case,
    *,
    run_date: str,
    response: str | None = None,
    files: Mapping[str, bytes] | None = None,
    calls: Sequence[ToolCall] = (),
    opened: bool = False,
) -> tuple[CheckResult, ...]:
    """Every check of a case over a run that is made up: the fixture, with ``files`` written over it; ``opened``: the skill was.

    With the response, the files and the calls of a reference solution, what does not pass is wrong with the check. Without
    them it is the agent that does nothing, and what passes is trivial. What needs an engine is ``infra``.
    """
    before = {item.path: item.data for item in case.files}
    after = {**before, **(files or {})}
    record = RunRecord(
        key=RunKey(skill_path=".", slug="none", eval_id=case.eval_id, run=1, arm=Arm.WITH_SKILL),
        purpose="planned",
        skill_type=SkillType.TEXT_GENERATION,
        outcome=Outcome.COMPLETED,
        reason="",
        calls=tuple(calls),
        response=response,
        files=tuple(_collected(path, data, before.get(path)) for path, data in sorted(after.items())),
        metrics=Metrics(
            total_tool_calls=len(calls), input_tokens=0, output_tokens=0, total_tokens=0, cost_usd=0, activated=opened
        ),
        usage=TokenUsage(),
        model="",
        image="",
        run_date=run_date,
        chain_head="",
        seal="",
    )
    with RegexSearch() as regex, contextlib.closing(SchemaValidator()) as schemas:
        facts = Facts(
            case=case,
            record=record,
            verification=None,
            load_file=after.get,
            load_blocks=tuple,
            regex=regex,
            schemas=schemas,
        )
        return check_facts(facts)


def trivia(case: Case, *, run_date: str) -> CaseTrivia:
    """What passes for an agent that does nothing. Info checks decide nothing, so they are never what a case rests on."""
    silent = without_a_run(case, run_date=run_date)
    trivial = tuple(item.check_id for item in silent if item.status is CheckStatus.PASSED)
    null_agent = None
    # A grader has to find evidence for an expectation, and there is none: an expectation that counts stops a null agent.
    if not any(item.severity is not Severity.INFO for item in case.expectations):
        for response in NULL_RESPONSES:
            results = silent if response is None else without_a_run(case, run_date=run_date, response=response)
            counting = [item for item in results if item.severity is not Severity.INFO]
            if counting and all(item.status is CheckStatus.PASSED for item in counting):
                null_agent = response or ""
                break
    return CaseTrivia(case.eval_id, trivial, null_agent)


ABSENCE = ("not", "none", "absent", "forbidden", "unchanged", "only")
"""Words in the names of check kinds that ask for nothing to be there: guards, which an idle agent rightly passes."""


def idle_passes(case: Case, *, run_date: str) -> tuple[str, ...]:
    """Ids of the checks that ask for something and are passed by an agent that does nothing, or only says that it is done."""
    asking = {item.id for item in case.checks if not set(item.parameters.kind.split("_")) & set(ABSENCE)}
    passed = {
        item.check_id
        for response in NULL_RESPONSES
        for item in without_a_run(case, run_date=run_date, response=response)
        if item.status is CheckStatus.PASSED
    }
    return tuple(item.id for item in case.checks if item.id in passed & asking)


def suite_trivia(suite: Suite, *, run_date: str, below: str = ".") -> tuple[Finding, ...]:
    """Findings about a suite: a warning for each case that a null agent passes, a notice for each other trivial check.

    ``below``: the folder, as it was named, that the suite's paths are relative to.
    """
    findings = []
    start = "" if below == "." else f"{below.rstrip('/')}/"
    path_of = {case_id: source.path for source in suite.sources for case_id in source.cases}
    for case in suite.cases:
        found = trivia(case, run_date=run_date)
        path = start + path_of.get(case.eval_id, suite.path)
        if found.null_agent is not None:
            said = f'answers "{found.null_agent}"' if found.null_agent else "answers nothing"
            findings.append(
                Finding(
                    rule="suite/idle-agent-passes",
                    level=Level.WARNING,
                    path=path,
                    line=case.line,
                    message=f'case "{case.eval_id}": an agent that does nothing and {said} passes every check of it',
                    remedy="Add a check that only finished work can pass.",
                )
            )
        elif found.trivial:
            kinds = {check.id: check.parameters.kind for check in case.checks}
            names = ", ".join(f"{name} ({kinds[name]})" for name in found.trivial)
            findings.append(
                Finding(
                    rule="suite/trivial-check",
                    level=Level.NOTICE,
                    path=path,
                    line=case.line,
                    message=f'case "{case.eval_id}": trivial on the untouched fixture, without a response: {names}',
                    remedy="Such a check can only guard against harm; it shows nothing that the skill achieves.",
                )
            )
    return tuple(findings)


def _collected(path: str, data: bytes, before: bytes | None) -> CollectedFile:
    fixture = "new" if before is None else "unchanged" if before == data else "changed"
    return CollectedFile.model_validate(
        {"path": path, "size_bytes": len(data), "sha256": sha256_hex(data), "kept": True, "fixture": fixture}
    )
