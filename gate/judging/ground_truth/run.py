"""All checks of one run."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gate.domain.base import Severity
from gate.domain.checks import Check, shown_parameters
from gate.domain.evidence import CommandResult, RunRecord, Timing, Verification
from gate.domain.judgement import CheckResult, CheckStatus
from gate.domain.suite import Case
from gate.errors import EvidenceError
from gate.evidence.bundle import Bundle, load_blocks, load_events, load_output
from gate.judging.ground_truth import (
    args_field,
    args_matches,
    command,
    command_not_ran,
    command_ran,
    csv_cell,
    file_absent,
    file_contains,
    file_exists,
    file_golden,
    file_not_contains,
    file_unchanged,
    files_changed_only,
    json_field,
    json_matches,
    json_schema,
    oracle_command,
    produced_code,
    response_contains,
    response_contains_all,
    response_contains_any,
    response_contains_none,
    response_equals,
    response_has_heading,
    response_headings,
    response_language,
    response_links,
    response_matches,
    response_no_placeholders,
    response_not_contains,
    response_not_matches,
    response_word_count,
    run_budget,
    skill_opened,
    tool_call_count,
    tool_call_forbidden,
    tool_call_order,
    tool_call_repeats,
    tool_call_status,
    tool_result_contains,
)
from gate.judging.ground_truth.facts import Answer, Facts
from gate.judging.ground_truth.regex import RegexSearch
from gate.judging.ground_truth.schemas import SchemaValidator
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
    "args_matches": args_matches.evaluate,
    "command_not_ran": command_not_ran.evaluate,
    "command_ran": command_ran.evaluate,
    "csv_cell": csv_cell.evaluate,
    "file_absent": file_absent.evaluate,
    "file_golden": file_golden.evaluate,
    "file_not_contains": file_not_contains.evaluate,
    "file_unchanged": file_unchanged.evaluate,
    "files_changed_only": files_changed_only.evaluate,
    "json_matches": json_matches.evaluate,
    "json_schema": json_schema.evaluate,
    "produced_code": produced_code.evaluate,
    "response_contains_all": response_contains_all.evaluate,
    "response_contains_any": response_contains_any.evaluate,
    "response_contains_none": response_contains_none.evaluate,
    "response_equals": response_equals.evaluate,
    "response_headings": response_headings.evaluate,
    "response_language": response_language.evaluate,
    "response_links": response_links.evaluate,
    "response_no_placeholders": response_no_placeholders.evaluate,
    "run_budget": run_budget.evaluate,
    "skill_opened": skill_opened.evaluate,
    "tool_call_forbidden": tool_call_forbidden.evaluate,
    "tool_call_order": tool_call_order.evaluate,
    "tool_call_repeats": tool_call_repeats.evaluate,
    "tool_call_status": tool_call_status.evaluate,
    "tool_result_contains": tool_result_contains.evaluate,
}
"""Kind -> evaluator of facts."""

RECORDED: dict[str, Callable[[Any, CommandResult | None], Answer]] = {
    "command": command.evaluate,
    "oracle_command": oracle_command.evaluate,
}
"""Kind -> evaluator of what ``verification.json`` has under the check's id."""


def check_run(case: Case, record: RunRecord, root: Path, verification: Verification | None) -> tuple[CheckResult, ...]:
    """Every check of a case that is asked of the run's arm, in the order of the case.

    A pure function of the sealed bundle at ``root``: the same bundle gives the same results (a search that reaches its
    deadline, see ``regex``, is the one exception, and never a pass). Raises EvidenceError where the evidence is not the
    recorded one, or ``verification`` belongs to another run.
    """
    folder = record.key.folder
    with RegexSearch() as regex, contextlib.closing(SchemaValidator()) as schemas:
        events = functools.cache(lambda: load_events(root, folder))
        facts = Facts(
            case=case,
            record=record,
            verification=verification,
            load_file=lambda path: load_output(root, record, path),
            load_blocks=lambda: load_blocks(root, record, events()),
            regex=regex,
            load_events=events,
            load_timing=lambda: Bundle(root).read(f"{folder}/timing.json", Timing),
            schemas=schemas,
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
    arm = facts.record.key.arm.value
    asked = [check for check in facts.case.checks if check.applies_to(arm)]
    return tuple(_result(check, _checked(check, facts), facts.record.run_date) for check in asked)


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
        if check.parameters.kind in RECORDED:
            return RECORDED[check.parameters.kind](check.parameters, _recorded(check, facts))
        return EVALUATORS[check.parameters.kind](check.parameters, facts)
    except NotCheckableError as error:
        return Answer(CheckStatus.NOT_RUN, _expected(check, facts), str(error))


def _recorded(check: Check, facts: Facts) -> CommandResult | None:
    """What was executed for a check. None: nobody did, though the run completed."""
    if facts.verification is None:
        if not facts.record.completed:
            # Nothing is executed over what a dead run left: the run's own doing, not the engine's.
            raise NotCheckableError(f"nothing was executed, since the run ended as {facts.record.outcome.value}")
        return None
    return next((item for item in facts.verification.commands if item.check_id == check.id), None)


def _expected(check: Check, facts: Facts) -> str:
    """What a check looks for where its evaluator could not say it."""
    values = shown_parameters(check.parameters, exclude_none=True)
    said = ", ".join(f"{name}: {value}" for name, value in values.items())
    return check.description or f"{check.parameters.kind}: {said}"


def _result(check: Check, answer: Answer, run_date: str) -> CheckResult:
    severity, found = check.severity, answer.found
    issue = check.known_issue
    if issue is not None and answer.status in (CheckStatus.FAILED, CheckStatus.NOT_RUN):
        # ISO dates compare as texts. An excused failure stays a failure; it only informs.
        if run_date <= issue.expires:
            severity = Severity.INFO
            found = f"known issue until {issue.expires} ({clip(issue.reason, 120)}): {found}"
        else:
            found = f"{found} (the known issue expired on {issue.expires})"
    return CheckResult(
        check_id=check.id,
        kind=check.parameters.kind,
        severity=severity,
        rule_ref=check.rule_ref,
        status=answer.status,
        expected=clip(answer.expected, FOUND_LIMIT),
        found=clip(found, FOUND_LIMIT),
        block=answer.block,
    )
