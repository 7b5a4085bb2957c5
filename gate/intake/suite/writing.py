"""Cases as ``evals/skill-gate.yaml``: what ``gate.intake.suite.skill_gate_yaml`` reads back as the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from gate.domain.base import Severity
from gate.domain.checks import Check
from gate.domain.suite import Case, CaseType, Expectation


class _Dumper(yaml.SafeDumper):
    """Texts over several lines as blocks, list items under their key's indent."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists in mappings."""
        del indentless
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    block = "\n" in value and not any(line != line.rstrip() for line in value.split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if block else None)


_Dumper.add_representer(str, _text)


def suite_text(cases: Sequence[Case], *, generated: bool, comments: Sequence[str] = ()) -> str:
    """The file. ``comments`` stand at its head, one a line.

    For cases with text files, checks and expectations; MCP servers and files that are no text are not written.
    """
    data: dict[str, Any] = {"version": 1}
    if generated:
        data["generated"] = True
    data["cases"] = [_case(case) for case in cases]
    head = "".join(f"# {line}\n" if line else "#\n" for line in comments)
    return head + yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def _case(case: Case) -> dict[str, Any]:
    data: dict[str, Any] = {"id": case.eval_id}
    if case.name:
        data["name"] = case.name
    data["prompt"] = case.prompt
    if case.type is not CaseType.HAPPY_PATH:
        data["type"] = case.type.value
    if case.risk != "normal":
        data["risk"] = case.risk
    if case.files:
        data["files"] = {item.path: item.data.decode("utf-8", "replace") for item in case.files}
    if case.checks:
        data["checks"] = [_check(item) for item in case.checks]
    if case.expectations:
        data["expectations"] = [_expectation(item) for item in case.expectations]
    return data


def _check(check: Check) -> dict[str, Any]:
    data = {name: value for name, value in check.parameters.to_json().items() if value not in (None, [], {})}
    if check.severity is not Severity.MUST:
        data["severity"] = check.severity.value
    if check.rule_ref:
        data["rule_ref"] = check.rule_ref
    return data


def _expectation(item: Expectation) -> Any:
    data: dict[str, Any] = {"text": item.text}
    if item.severity is not Severity.SHOULD:
        data["severity"] = item.severity.value
    if item.rule_ref:
        data["rule_ref"] = item.rule_ref
    return item.text if len(data) == 1 else data
