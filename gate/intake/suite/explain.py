"""What a suite became, in words: ``skill-gate check --explain-suite``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from gate.domain.base import Json
from gate.domain.checks import Check, shown_parameters
from gate.domain.suite import Case, Suite, SuiteSource, TriggerCase
from gate.intake.notes import short
from gate.intake.suite.lint import as_yaml, could_be_exact

_INDENT = "  "


def explain(
    path: str, suite: Suite | None, triggers: Sequence[TriggerCase] = (), sources: Sequence[SuiteSource] = ()
) -> list[str]:
    """Lines for people: every file, every case, what each check and expectation is. Holds untrusted text.

    ``triggers`` and ``sources`` of a skill whose suite is None because nothing of it can be run.
    """
    cases = suite.cases if suite else ()
    triggers = suite.triggers if suite else triggers
    counts = (
        _count(len(cases), "case"),
        _count(sum(len(case.checks) for case in cases), "exact check"),
        f"{_count(sum(len(case.expectations) for case in cases), 'expectation')} for the grader",
        f"{len(triggers)} trigger {'query' if len(triggers) == 1 else 'queries'}",
    )
    lines = [f"{path}: {', '.join(counts)}"]
    by_id = {case.eval_id: case for case in cases}
    placed: set[str] = set()
    for source in suite.sources if suite else sources:
        lines.append(f"{_INDENT}{source.path} ({source.dialect})")
        for name in source.cases:
            placed.add(name)
            lines += _case(by_id[name])
        lines += _triggers(item for item in triggers if item.path == source.path)
    for case in cases:
        if case.eval_id not in placed:
            lines += _case(case)
    return lines


def _case(case: Case) -> list[str]:
    about = [
        case.type.value,
        *([f"risk {case.risk}"] if case.risk != "normal" else []),
        *([f"guards against {case.guards.value}"] if case.guards is not None else []),
        *([case.tag] if case.tag else []),
    ]
    place = f", line {case.line}" if case.line else ""
    title = f"case {case.eval_id} ({', '.join(about)}{place})"
    lines = [f"{_INDENT * 2}{title}: {short(case.name or case.prompt, 100)}"]
    lines += [f"{_INDENT * 3}then the user says: {short(text, 100)}" for text in case.turns]
    lines += [f"{_INDENT * 3}file {item.path} ({len(item.data)} bytes)" for item in case.files]
    lines += [
        f"{_INDENT * 3}{'real' if server.mode == 'real' else 'mock'} server {server.name}: {', '.join(tool.name for tool in server.tools)}"
        for server in case.mcp_servers
    ]
    if case.skip_without_skill:
        lines.append(f"{_INDENT * 3}no run without the skill{f': {case.skip_reason}' if case.skip_reason else ''}")
    lines += [f"{_INDENT * 3}{_check(item)}" for item in case.checks]
    for item in case.expectations:
        precision = "" if item.precision == "semantic" else f", {item.precision}"
        lines.append(f"{_INDENT * 3}expectation {item.id} ({item.severity.value}{precision}): {short(item.text, 160)}")
        exact = could_be_exact(item.text)
        if exact is not None:
            lines.append(f"{_INDENT * 4}could be exact: {as_yaml(exact)}")
    return lines


def _check(check: Check) -> str:
    values = shown_parameters(check.parameters, exclude_defaults=True)
    words = ", ".join(f"{key} {_value(value)}" for key, value in values.items())
    more = f"; {check.description}" if check.description else ""
    return f"check {check.id} ({check.severity.value}): {check.parameters.kind} {words}{short(more, 80)}".rstrip()


def _value(value: Json) -> str:
    return short(json.dumps(value, ensure_ascii=False), 200)


def _triggers(triggers: Iterable[TriggerCase]) -> list[str]:
    return [
        f"{_INDENT * 2}trigger {item.id}: should {'' if item.should_trigger else 'not '}open the skill: {short(item.query, 100)}"
        for item in triggers
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
