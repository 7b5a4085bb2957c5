"""The result as a badge: the JSON that badge services read from an address (schema version 1 of Shields' endpoint badge)."""

from __future__ import annotations

from collections import Counter

from gate.domain.base import pretty_json
from gate.domain.report import GateReport, State, Verdict

_COLOURS = {State.SUCCESS: "brightgreen", State.FAILURE: "red", State.ERROR: "lightgrey", State.PENDING: "yellow"}


def render(report: GateReport) -> str:
    """Counts by verdict, the worst first; the colour is the gate's state. Holds no text of a pull request."""
    counts = Counter(skill.verdict for skill in report.skills)
    order = sorted(counts, key=lambda verdict: (verdict in (Verdict.PASS, Verdict.CONDITIONAL), verdict.value))
    message = (
        ", ".join(f"{counts[verdict]} {verdict.value.replace('_', ' ')}" for verdict in order) or "nothing to judge"
    )
    badge = {"schemaVersion": 1, "label": "skill gate", "message": message, "color": _COLOURS[report.state]}
    return pretty_json({**badge, "isError": report.state is State.ERROR}).decode("utf-8")
