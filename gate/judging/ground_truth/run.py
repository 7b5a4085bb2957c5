"""All checks of one run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gate.domain.checks import Check
from gate.domain.evidence import RunRecord, Verification
from gate.domain.judgement import CheckResult, CheckStatus
from gate.domain.suite import Case
from gate.errors import EvidenceError
from gate.evidence.bundle import load_blocks, load_output
from gate.judging.ground_truth import (
    args_field,
    command,
    file_contains,
    file_exists,
    json_field,
    response_contains,
    response_has_heading,
    response_matches,
    response_not_contains,
    response_not_matches,
    response_word_count,
    tool_call_count,
)
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.regex import RegexSearch
from gate.judging.ground_truth.values import NotCheckableError, clip

FOUND_LIMIT = 500
"""Characters of ``CheckResult.found``."""

EVALUATORS: dict[str, Callable[[Any, Facts], Answer]] = {
    "tool_call_count": tool_call_count.evaluate,
    "args_field": args_field.evaluate,
    "response_contains": response_contains.evaluate,
    "response_not_contains": response_not_contains.evaluate,
    "response_matches": response_matches.evaluate,
    "response_not_matches": response_not_matches.evaluate,
    "response_word_count": response_word_count.evaluate,
    "response_has_heading": response_has_heading.evaluate,
    "file_exists": file_exists.evaluate,
    "file_contains": file_contains.evaluate,
    "json_field": json_field.evaluate,
}
"""Kind -> evaluator. ``command`` alone looks at ``verification.json``, by its check's id."""


def check_run(case: Case, record: RunRecord, root: Path, verification: Verification | None) -> tuple[CheckResult, ...]:
    """Every check of a case over one run, in the order of the case.

    A pure function of the sealed bundle at ``root``: the same bundle gives the same results (a search that reaches its
    deadline, see ``regex``, is the one exception, and never a pass). Raises EvidenceError where the evidence is not the
    recorded one, or ``verification`` belongs to another run.
    """
    with RegexSearch() as regex:
        facts = Facts(
            case=case,
            record=record,
            verification=verification,
            load_file=lambda path: load_output(root, record, path),
            load_blocks=lambda: load_blocks(root, record),
            regex=regex,
        )
        return check_facts(facts)


def check_facts(facts: Facts) -> tuple[CheckResult, ...]:
    """As ``check_run``, over facts that are already at hand."""
    if facts.verification is not None and facts.verification.run_seal != facts.record.seal:
        raise EvidenceError(
            "The recorded command results belong to another run.",
            path=f"{facts.record.key.folder}/verification.json",
            remedy="Do not use this bundle: run the gate again.",
        )
    return tuple(_result(check, _checked(check, facts)) for check in facts.case.checks)


def _checked(check: Check, facts: Facts) -> Answer:
    record = facts.record
    void = record.contaminated or record.invalid
    if void or not record.outcome.agent_caused:
        why = void or f"the run ended as {record.outcome.value}: {record.reason}"
        return Answer(CheckStatus.INFRA, _expected(check, facts), why)
    answer = _evaluated(check, facts)
    if answer.status is CheckStatus.PASSED and not record.completed:
        # A run that died early did nothing forbidden, either. What it did wrong before stays wrong.
        why = f"the run did not complete ({record.outcome.value}), so this proves nothing: {answer.found}"
        return answer._replace(status=CheckStatus.NOT_RUN, found=why)
    return answer


def _evaluated(check: Check, facts: Facts) -> Answer:
    try:
        if check.parameters.kind == "command":
            results = facts.verification.commands if facts.verification else ()
            return command.evaluate(
                check.parameters, next((item for item in results if item.check_id == check.id), None)
            )
        return EVALUATORS[check.parameters.kind](check.parameters, facts)
    except NotCheckableError as error:
        return Answer(CheckStatus.NOT_RUN, _expected(check, facts), str(error))


def _expected(check: Check, facts: Facts) -> str:
    """What a check looks for where its evaluator could not say it."""
    values = check.parameters.model_dump(mode="json", exclude={"kind"}, exclude_none=True)
    said = ", ".join(f"{name}: {value}" for name, value in values.items())
    return check.description or f"{check.parameters.kind}: {said}"


def _result(check: Check, answer: Answer) -> CheckResult:
    return CheckResult(
        check_id=check.id,
        kind=check.parameters.kind,
        severity=check.severity,
        rule_ref=check.rule_ref,
        status=answer.status,
        expected=clip(answer.expected, FOUND_LIMIT),
        found=clip(answer.found, FOUND_LIMIT),
        block=answer.block,
    )
