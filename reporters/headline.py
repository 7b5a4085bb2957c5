"""The report's first line in every language, made from the report's facts; in English it is the decision's own line."""

from __future__ import annotations

from collections.abc import Sequence

from gate.domain.forge import DESCRIPTION_CHARACTERS
from gate.domain.plan import Enforce
from gate.domain.report import STATE_ORDER, VERDICT_ORDER, GateReport, State, Verdict
from reporters.catalogue import Speech


def headline(report: GateReport, speech: Speech) -> str:
    """One line of at most 140 characters: the state, the counts of all verdicts, and the names of the worst skills as far
    as they fit. May hold paths of a pull request: untrusted."""
    return report.headline if speech.english else told_headline(report, speech)


def told_headline(report: GateReport, speech: Speech) -> str:
    """The line as ``speech`` tells it from the report's facts."""
    if report.override is None:
        return _line(report, speech, report.state)
    states = [skill.state for skill in report.skills]
    states += [State.ERROR for item in report.session_findings if item.blocks]
    was = next((item for item in STATE_ORDER if item in states), State.SUCCESS)
    line = _line(report, speech, was)
    return _cut(speech.say("headline.overridden", login=plain(report.override.login), headline=line))


def _line(report: GateReport, speech: Speech, state: State) -> str:
    lead = speech.say(f"state.{_lead(report, state)}")
    groups = [
        (verdict, [plain(skill.path) for skill in report.skills if skill.verdict is verdict])
        for verdict in VERDICT_ORDER
    ]
    groups = [(verdict, paths) for verdict, paths in groups if paths]
    errors = [item.message for item in report.session_findings if item.blocks]
    if errors:
        counts = [_group(verdict, paths, 0, speech) for verdict, paths in groups]
        told = speech.say("headline.semicolon").join((plain(errors[0]), *counts))
        return _cut(speech.say("headline.line", lead=lead, counts=told))
    if not groups:
        return speech.say("headline.line", lead=lead, counts=speech.say("headline.nothing"))
    text = ""
    for named in (3, 2, 1, 0):
        for with_names in range(len(groups), 0, -1):
            told = speech.say("headline.comma").join(
                _group(verdict, paths, named if index < with_names else 0, speech)
                for index, (verdict, paths) in enumerate(groups)
            )
            text = speech.say("headline.line", lead=lead, counts=told)
            if len(text) <= DESCRIPTION_CHARACTERS:
                return text
    return _cut(text)


def _lead(report: GateReport, state: State) -> str:
    if report.enforce is Enforce.ADVISORY:
        return "advisory"
    if state is State.SUCCESS and any(skill.verdict is Verdict.INCONCLUSIVE for skill in report.skills):
        return "inconclusive"
    return state.value


def _group(verdict: Verdict, paths: Sequence[str], named: int, speech: Speech) -> str:
    count = speech.say(f"count.{verdict.value}", n=len(paths))
    if not named or verdict is Verdict.PASS:
        return count
    names = speech.say("headline.names_comma").join(paths[:named])
    if len(paths) <= named:
        return speech.say("headline.named", count=count, names=names)
    return speech.say("headline.named_more", count=count, names=names, more=len(paths) - named)


def plain(text: str) -> str:
    """Untrusted text for one line: printable, nothing beyond U+FFFF, which GitHub refuses in a status."""
    return "".join(char if char.isprintable() and ord(char) <= 0xFFFF else "?" for char in text)


def _cut(text: str) -> str:
    return text if len(text) <= DESCRIPTION_CHARACTERS else text[: DESCRIPTION_CHARACTERS - 1] + "…"
