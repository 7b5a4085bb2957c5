"""The job's summary page: the whole report as Markdown within the runner's limit, counted in bytes, verdicts first."""

from __future__ import annotations

from collections.abc import Sequence

from gate.domain.report import GateReport
from reporters import comment
from reporters.markdown import cut, escape, fit, size

SUMMARY_LIMIT = 1_048_576
"""The runner drops a summary beyond 1 MiB a step, with an error beside the job (github-action.md 1.12)."""
_RESERVE = 2_048
_MIN_ROOM = 4_096


def render(report: GateReport, notes: Sequence[str] = (), *, limit: int = SUMMARY_LIMIT) -> str:
    """The summary in at most ``limit`` bytes (at least 8,192).

    First the headline and one line for each skill, as many as fit with a count of the others; then the details, the worst
    skill first. What had no room is counted at the end. ``notes``: about this job (what could not be written, where the
    files are); they may quote untrusted text.
    """
    about, taken = _notes(notes, min(limit // 4, 65_536))
    room = max(limit - taken - _RESERVE, _MIN_ROOM)
    text = comment.render(report, limit=room)
    # Untrusted text is escaped, so only the report's own markup can begin a line like this.
    shown = text.count("\n<details><summary>") - text.count("\n<details><summary>Model use: ")
    missing = len(report.skills) - shown
    if missing > 0:
        text += f"\nThe details of {missing} of {len(report.skills)} skills had no room here; report.html has them.\n"
    return text + about


def render_note(headline: str, lines: Sequence[str], notes: Sequence[str] = ()) -> str:
    """The summary of a job that judged nothing: why, and what to do. All of it may quote untrusted text."""
    said, _ = fit([f"- {escape(cut(line, 1_000))}" for line in lines if line], 65_536)
    about, _ = _notes(notes, 65_536)
    body = "".join(f"{line}\n" for line in said)
    return f"## Skill Gate: {escape(cut(headline, 300))}\n\n{body}{about}"


def _notes(notes: Sequence[str], room: int) -> tuple[str, int]:
    if not notes:
        return "", 0
    lines, _ = fit([f"- {escape(cut(note, 1_000))}" for note in notes], room, more="- {count} more")
    text = "\n**About this job**\n\n" + "".join(f"{line}\n" for line in lines)
    return text, size(text)
