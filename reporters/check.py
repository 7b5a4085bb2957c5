"""The optional check run: the report as its text, findings as annotations at the lines that they are about.

Limits of GitHub's API (github-action.md 1.7): title and annotation titles 255 characters, summary 65,535, an annotation's
message 64 KB. What GitHub shows of an annotation is plain text; what is invisible in it shows as its code point.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gate.domain.findings import Finding, Level
from gate.domain.forge import Annotation, CheckOutput, Conclusion
from gate.domain.report import GateReport, State
from gate.domain.rules import words_of
from reporters import comment
from reporters.catalogue import Speech
from reporters.headline import headline as headline_of
from reporters.markdown import cut, escape

MOST_ANNOTATIONS = 200
"""More make the page of a pull request unusable (reviewdog#1008); the rest is counted in the summary and is in the SARIF."""
SUMMARY_CHARACTERS = 65_535
MESSAGE_CHARACTERS = 4_000
"""At most 16,000 bytes: well below GitHub's 64 KB."""
TITLE_CHARACTERS = 255
_RESERVE = 512
_LEVELS: dict[Level, Literal["notice", "warning", "failure"]] = {
    Level.ERROR: "failure",
    Level.WARNING: "warning",
    Level.NOTICE: "notice",
}
_CONCLUSIONS: dict[State, Conclusion] = {
    State.SUCCESS: "success",
    State.FAILURE: "failure",
    State.ERROR: "failure",
    State.PENDING: "action_required",
}


def conclusion_of(state: State) -> Conclusion:
    """What a check run ends with. Only ``success`` is one that branch protection lets through: neutral would be another."""
    return _CONCLUSIONS[state]


def render(report: GateReport) -> CheckOutput:
    """A report as a check run: the comment's text, and an annotation for each finding about a file, the worst first."""
    findings = [*report.session_findings, *(item for skill in report.skills for item in skill.findings)]
    shown = annotations_of(findings)
    left = len({_identity(item) for item in findings if _has_place(item)}) - len(shown)
    text = comment.render(report, limit=SUMMARY_CHARACTERS - _RESERVE)
    if left > 0:
        text += f"\n{Speech(report.language).say('frame.more_findings', n=left)}\n"
    title = _title(headline_of(report, Speech(report.language)))
    return CheckOutput(title=title, summary=text, annotations=shown)


def render_note(headline: str, lines: Iterable[str] = ()) -> CheckOutput:
    """A check run without a report: why, and what to do. All of it may quote untrusted text."""
    said = "".join(f"- {escape(cut(line, 1_000))}\n" for line in list(lines)[:20] if line)
    return CheckOutput(title=_title(headline), summary=f"{escape(cut(headline, 300))}\n\n{said}")


def annotations_of(findings: Iterable[Finding]) -> tuple[Annotation, ...]:
    """Findings about files, each once, the worst first, as many as a page bears. One without a line stands at the first."""
    known: dict[tuple[str, ...], Finding] = {}
    for item in findings:
        if _has_place(item):
            known.setdefault(_identity(item), item)
    order = list(Level)
    worst = sorted(
        known.values(), key=lambda item: (not item.blocks, order.index(item.level), item.path, item.line or 0)
    )
    return tuple(map(_annotation, worst[:MOST_ANNOTATIONS]))


def _has_place(item: Finding) -> bool:
    return item.path not in ("", ".") and not item.path.startswith("/")


def _identity(item: Finding) -> tuple[str, ...]:
    return item.rule, item.path, str(item.line), item.message


def _annotation(item: Finding) -> Annotation:
    message = f"{item.message}. {item.remedy}" if item.remedy else item.message
    return Annotation(
        path=item.path,
        line=item.line or 1,
        level=_LEVELS[item.level],
        title=_title(words_of(item.rule).title),
        message=cut(message, MESSAGE_CHARACTERS) or "no words",
    )


def _title(text: str) -> str:
    return cut(text, TITLE_CHARACTERS) or "Skill Gate"
