"""Findings as SARIF 2.1.0, for code scanning and for editors (OASIS SARIF 2.1.0, plus what GitHub asks of it).

Findings about a file are results; findings about the session are notifications of the tool. Everything that a finding
quotes is untrusted: it stands in plain text messages only, with the sign that starts a link escaped.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import urllib.parse
from collections.abc import Sequence
from typing import Any

from gate.domain.findings import Finding, Level
from gate.domain.report import GateReport
from gate.domain.rules import words_of

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MAX_RESULTS = 25_000
"""GitHub refuses a run with more."""
_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTICE: "note"}
_ORDER = list(Level)


def render(report: GateReport) -> str:
    """Every finding of a report."""
    findings = [*report.session_findings, *(item for skill in report.skills for item in skill.findings)]
    return render_findings(findings, version=report.gate_version)


def render_findings(findings: Sequence[Finding], *, version: str) -> str:
    """Findings as one SARIF log with one run; equal findings once, the worst first. Ends in a line feed."""
    known = list(dict.fromkeys(findings))
    about_files = sorted((item for item in known if item.path not in ("", ".")), key=_by_weight)
    kept = about_files[:MAX_RESULTS]
    rules = sorted({item.rule for item in kept})
    places = {rule: position for position, rule in enumerate(rules)}
    notifications = [_notification(item) for item in known if item.path in ("", ".")]
    if len(about_files) > len(kept):
        left = len(about_files) - len(kept)
        notifications.append({"level": "warning", "message": {"text": f"{left} more findings are not listed here."}})
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Skill Gate",
                        "version": version,
                        "rules": [_rule(rule, kept) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
                "results": [_result(item, places[item.rule]) for item in kept],
            }
        ],
    }
    return json.dumps(log, indent=1, ensure_ascii=True) + "\n"


def _by_weight(item: Finding) -> tuple[bool, int, str, int, int, str]:
    return not item.blocks, _ORDER.index(item.level), item.path, item.line or 0, item.column or 0, item.rule


def _rule(rule: str, findings: Sequence[Finding]) -> dict[str, Any]:
    words = words_of(rule)
    worst = min((item.level for item in findings if item.rule == rule), key=_ORDER.index)
    return {
        "id": rule,
        "name": "".join(part[:1].upper() + part[1:] for part in rule.replace("/", "-").split("-")),
        "shortDescription": {"text": words.title},
        "fullDescription": {"text": f"{words.title}."},
        "help": {"text": words.help},
        "defaultConfiguration": {"level": _LEVELS[worst]},
        "properties": {"tags": [rule.partition("/")[0]]},
    }


def _result(item: Finding, position: int) -> dict[str, Any]:
    # GitHub asks for a line; a finding about the file as a whole stands at its first.
    region: dict[str, Any] = {"startLine": item.line or 1}
    if item.line and item.column:
        region["startColumn"] = item.column
    identity = json.dumps([item.rule, item.path, item.message])
    return {
        "ruleId": item.rule,
        "ruleIndex": position,
        "level": _LEVELS[item.level],
        "message": {"text": _text(item)},
        "locations": [{"physicalLocation": {"artifactLocation": _place(item.path), "region": region}}],
        "partialFingerprints": {"skillGate/v1": hashlib.sha256(identity.encode("ascii")).hexdigest()},
        "properties": {"blocks": item.blocks},
    }


def _notification(item: Finding) -> dict[str, Any]:
    return {"descriptor": {"id": item.rule}, "level": _LEVELS[item.level], "message": {"text": _text(item)}}


def _text(item: Finding) -> str:
    text = f"{item.message}. {item.remedy}" if item.remedy else item.message
    # In SARIF [text](target) is a link in plain text too (section 3.11.6).
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _place(path: str) -> dict[str, str]:
    quoted = urllib.parse.quote(path.encode("utf-8", "backslashreplace"), safe="/")
    if posixpath.isabs(path):
        return {"uri": f"file://{quoted}"}
    return {"uri": quoted, "uriBaseId": "%SRCROOT%"}
