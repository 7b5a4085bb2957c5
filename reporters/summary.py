"""The job's summary page: the whole report as Markdown within the runner's limit, counted in bytes, verdicts first."""

from __future__ import annotations

from collections.abc import Sequence

from gate.domain.report import GateReport, Language
from reporters import comment
from reporters.catalogue import Speech
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
    speech = Speech(report.language)
    about, taken = _notes(notes, min(limit // 4, 65_536), speech)
    room = max(limit - taken - _RESERVE, _MIN_ROOM)
    text = comment.render(report, limit=room)
    # Untrusted text is escaped, so only the report's own markup can begin a line like this.
    use = speech.say("frame.model_use", cost="")
    shown = text.count("\n<details><summary>") - text.count(f"\n<details><summary>{use}")
    missing = len(report.skills) - shown
    if missing > 0:
        facts = {"missing": missing, "all": len(report.skills), "page": "report.html"}
        text += f"\n{speech.say('frame.details_left_out', **facts)}\n"
    return text + about


def render_note(headline: str, lines: Sequence[str], notes: Sequence[str] = (), *, language: str = "en") -> str:
    """The summary of a job that judged nothing: why, and what to do. All of it may quote untrusted text."""
    speech = Speech(Language(language))
    said, _ = fit([f"- {escape(cut(speech.told(line), 1_000))}" for line in lines if line], 65_536)
    about, _ = _notes(notes, 65_536, speech)
    body = "".join(f"{line}\n" for line in said)
    return f"## {speech.say('headline.title', headline=escape(cut(headline, 300)))}\n\n{body}{about}"


def _notes(notes: Sequence[str], room: int, speech: Speech) -> tuple[str, int]:
    if not notes:
        return "", 0
    lines, _ = fit([f"- {escape(cut(note, 1_000))}" for note in notes], room, more="- {count} more")
    text = f"\n**{speech.say('frame.about_job')}**\n\n" + "".join(f"{line}\n" for line in lines)
    return text, size(text)
