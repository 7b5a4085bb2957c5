"""The pull request comment: one, found again by its marker, never over GitHub's limit, verdicts first.

Everything in a report may quote untrusted text (paths, reasons, findings), so every piece goes through ``escape`` or
``code``. Order of what is kept when room is short: first line and marker, footer, one row per skill, what to do, then the
details of each skill, the worst first, each cut with a count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gate.domain.plan import COMPARED_ARMS
from gate.domain.report import GateReport, SkillReport, TriageClass, Verdict
from reporters import words
from reporters.markdown import COMMENT_LIMIT, code, cut, escape, fit, row, size, table_head

_PAGE = "report.html"
_PLAIN_URL = re.compile(r"https?://[^\s()<>\[\]\\`|\"'#]{1,600}")
_PLAIN_WORDS = re.compile(r"[A-Za-z0-9 ,:]{1,60}")
_PLAIN_ANCHOR = re.compile(r"[A-Za-z0-9._/:-]{1,300}")
"""What can stand in a link's target as it is."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9._/]{1,100}")
_REASON_LIMITS = (360, 200, 110, 60)
"""Characters of the first reason in the overview: the longest that lets every skill keep its row."""
_OVERVIEW_SHARE = 0.6
"""Share of the room that the overview may take before its reasons get shorter."""


def marker(key: str = "") -> str:
    """The hidden line by which the comment is found again. ``key`` keeps several gates of one repository apart."""
    if key and not _PLAIN_KEY.fullmatch(key):
        key = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"<!-- skill-gate:report {key}-->" if not key else f"<!-- skill-gate:report {key} -->"


def render(report: GateReport, *, key: str = "", limit: int = COMMENT_LIMIT, run_url: str = "") -> str:
    """The whole comment as GitHub-flavoured Markdown, at most ``limit`` UTF-8 bytes (so never more characters).

    ``run_url``: the workflow run that keeps the bundle, where there is one.
    """
    head = _head(report, key)
    footer = _footer(report, run_url)
    room = limit - size(head) - size(footer)
    body: list[str] = []
    if report.skills:
        overview, taken = _overview(report, room)
        body += overview
        room -= taken
    for section in (_what_to_do(report), _session(report), _fallbacks(report)):
        lines, taken = section.fitted(room // 3) if section.lines else ([], 0)
        body += lines
        room -= taken
    usage = _usage(report)
    taken = sum(size(line) + 1 for line in usage)
    if taken <= room // 3:
        body += usage
        room -= taken
    for position, skill in enumerate(report.skills):
        text, taken = _details(skill, room // (len(report.skills) - position), report.report_url)
        body += text
        room -= taken
    return head + "".join(f"{line}\n" for line in body) + footer


def _head(report: GateReport, key: str) -> str:
    facts = (
        f"mode {report.mode.value}, enforcement {report.enforce.value}, run date {escape(report.run_date)}, "
        f"{code(words.commits(report))}"
    )
    cost = f"Cost: {escape(cut(words.cost_line(report), 400))}\n\n" if report.cost else ""
    return f"## Skill Gate: {escape(report.headline)}\n{marker(key)}\n\n{facts}\n\n{cost}"


def _footer(report: GateReport, run_url: str) -> str:
    lines = [
        *_where_evidence_is(report, run_url),
        f"models: {escape(cut(report.models, 300))}; cost {words.total_cost(report)}.",
        f"Sandbox: {escape(cut(report.sandbox, 300))}.",
        f"Skill Gate {escape(report.gate_version)}, session {code(cut(report.session_id, 80))}.",
        f"Check it yourself: {code(words.VERIFY_HINT)} on the bundle finds every seal, quote, sum and verdict again.",
    ]
    return "\n<sub>" + " ".join(lines) + "</sub>\n"


def _where_evidence_is(report: GateReport, run_url: str) -> list[str]:
    if not any(skill.evidence for skill in report.skills) or report.report_url:
        return []
    kept = f", an artifact of [this run]({run_url}#artifacts)" if _PLAIN_URL.fullmatch(run_url) else ""
    return [f"Evidence: {code(_PAGE + '#…')} names a line of the page in the bundle{kept}."]


def _overview(report: GateReport, room: int) -> tuple[list[str], int]:
    """One row per skill. Reasons shrink before a row goes; rows go only where even that is not enough."""
    names = ("Skill", "Verdict", "With skill", "Without", "Base version", "Lift", "Why")
    before = table_head(names)
    after = ["", f"<sub>{words.FIGURES_LEGEND}</sub>", ""]
    fixed = sum(size(line) + 1 for line in (*before, *after))
    rows: list[str] = []
    for reason_limit in _REASON_LIMITS:
        rows = [_overview_row(skill, reason_limit) for skill in report.skills]
        if sum(size(line) + 1 for line in rows) + fixed <= room * _OVERVIEW_SHARE:
            break
    rows, taken = fit(rows, room - fixed, more=row(("{count} more skills in report.html", *[""] * 6)))
    return [*before, *rows, *after], taken + fixed


def _overview_row(skill: SkillReport, reason_limit: int) -> str:
    verdict = f"**{words.VERDICT_NAMES[skill.verdict]}**"
    if skill.release_grade:
        verdict += f" (grade {escape(skill.release_grade)})"
    why = cut(skill.reasons[0], reason_limit) if skill.reasons else ""
    more = f" (+{len(skill.reasons) - 1} more)" if len(skill.reasons) > 1 else ""
    cells = (
        code(cut(skill.path, 90), in_table=True),
        verdict,
        *(escape(words.arm_cell(skill, arm)) for arm in COMPARED_ARMS),
        escape(words.lift_cell(skill)),
        escape(why) + more,
    )
    return row(cells)


def _what_to_do(report: GateReport) -> _Section:
    return _Section("What to do", tuple(f"- {escape(cut(text, 400))}" for text in report.what_to_do))


def _session(report: GateReport) -> _Section:
    notes = [f"- {escape(cut(note, 400))}" for note in report.notes]
    findings = [
        f"- {item.level.value} {code(cut(item.rule, 100))} at {code(cut(words.place(item), 160))}: "
        f"{escape(cut(words.finding_text(item), 600))}"
        for item in report.session_findings
    ]
    return _Section("About this session", (*notes, *findings))


def _fallbacks(report: GateReport) -> _Section:
    if not report.fallbacks:
        return _Section("Fallbacks: 0", (f"{words.NO_FALLBACKS}",))
    lines = [f"- {escape(cut(words.fallback_words(item), 200))}" for item in report.fallbacks]
    return _Section(f"Fallbacks: {words.fallback_total(report.fallbacks)}", (*lines, "- every other kind: 0"))


def _usage(report: GateReport) -> list[str]:
    if not report.usage:
        return []
    names = ("Role", "Model", "Calls", "Failed", "Tokens in", "Tokens out", "Cost")
    rows = [row(escape(cell) for cell in words.usage_cells(use)) for use in report.usage]
    title = f"<details><summary>Model use: {words.total_cost(report)}</summary>"
    return [title, "", *table_head(names), *rows, "", "</details>", ""]


@dataclass(frozen=True)
class _Section:
    """A titled part of the details: what comes before its lines, and the lines, which may be cut."""

    title: str
    lines: tuple[str, ...]
    before: tuple[str, ...] = ()

    def fitted(self, room: int) -> tuple[list[str], int]:
        """The part as far as it fits; nothing where not even one line does."""
        start = [f"**{self.title}**", "", *self.before]
        fixed = sum(size(line) + 1 for line in (*start, ""))
        more = row(("{count} more in report.html",)) if self.before else "- {count} more in report.html"
        kept, taken = fit(self.lines, room - fixed, more=more)
        if not kept or kept[0] != self.lines[0]:
            return [], 0  # a bare count of what is left out says less than its name in the list of what is left out
        return [*start, *kept, ""], taken + fixed


def _details(skill: SkillReport, room: int, report_url: str) -> tuple[list[str], int]:
    title = f"{words.VERDICT_NAMES[skill.verdict]}: {escape(cut(skill.path, 120))}"
    start = [f"<details><summary>{title}</summary>", ""]
    end = ["</details>", ""]
    fixed = sum(size(line) + 1 for line in (*start, *end))
    room -= fixed
    body: list[str] = []
    left_out: list[str] = []
    taken = fixed
    reserve = 120  # for the line that names what was left out
    for section in _sections(skill, room, report_url):
        lines, used = section.fitted(room - reserve)
        if not lines:
            left_out.append(section.title.split(":", 1)[0].lower())
            continue
        body += lines
        room -= used
        taken += used
    if left_out:
        note = f"Left out for room, see report.html: {', '.join(left_out)}."
        if size(note) + 2 <= room:
            body += [note, ""]
            taken += size(note) + 2
    return ([*start, *body, *end], taken) if body else ([], 0)


def _sections(skill: SkillReport, room: int, report_url: str) -> Iterable[_Section]:
    """The details of a skill, most important first. Empty ones are left out."""
    yield _reasons(skill, room // 2)
    makers: Sequence[Callable[[SkillReport], _Section]] = (
        _facts, _arms, _conditions, _findings, _cases, lambda skill: _triage(skill, report_url), _suggestions, _not_tested,
        _contract, _discussion, _manifests, _skill_fallbacks,
    )  # fmt: skip
    yield from (section for make in makers if (section := make(skill)).lines)


def _reasons(skill: SkillReport, room: int) -> _Section:
    """The reasons at the greatest length at which they all fit into ``room``, else at the smallest."""
    lines: tuple[str, ...] = ()
    for limit in (900, 400, 200, 100):
        lines = tuple(f"{number}. {escape(cut(text, limit))}" for number, text in enumerate(skill.reasons, 1))
        if sum(size(line) + 1 for line in lines) <= room:
            break
    return _Section(f"Why {words.VERDICT_NAMES[skill.verdict].lower()}", lines)


def _facts(skill: SkillReport) -> _Section:
    facts = [f"{words.change_words(skill)} ({skill.type_reason})" if skill.type_reason else words.change_words(skill)]
    if skill.wording:
        facts.append(skill.wording)
    if skill.source_rate.total:
        facts.append(f"rate over single assertions (gives the letter only): {words.share(skill.source_rate)}")
    if skill.arms:
        facts.append(f"lift: {skill.lift}")
    if skill.quadrant:
        facts.append(skill.quadrant)
    if skill.arms:
        facts.append(skill.judge_health)
    facts += skill.notes
    return _Section("Figures in words", tuple(f"- {escape(cut(text, 600))}" for text in facts))


def _arms(skill: SkillReport) -> _Section:
    names = (
        "Arm",
        "Planned",
        "Finished",
        "Completed",
        "Activated",
        "Graded",
        "Passed",
        "Rate per run",
        "Tokens",
        "Cost",
    )
    rows = []
    for item in skill.arms:
        if not item.planned:
            rows.append(
                row((words.ARM_NAMES[item.arm], f"not run: {escape(cut(item.skipped or 'no case can run', 200))}"))
            )
            continue
        counts = (item.planned, item.finished, item.completed, item.activated, item.graded)
        cells = (
            words.ARM_NAMES[item.arm],
            *map(str, counts),
            words.share(item.assertions),
            words.spread(item),
            words.tokens(item.mean_tokens),
            words.dollars(item.cost_usd),
        )
        rows.append(row(cells))
        if item.skipped:
            rows.append(row((f"{words.ARM_NAMES[item.arm]}, in part", f"skipped: {escape(cut(item.skipped, 200))}")))
    return _Section("Arms", tuple(rows), tuple(table_head(names)))


def _conditions(skill: SkillReport) -> _Section:
    rows = [row(escape(cut(cell, 200)) for cell in words.condition_cells(item)) for item in skill.conditions]
    return _Section("Three conditions", tuple(rows), tuple(table_head(words.CONDITION_COLUMNS)))


def _findings(skill: SkillReport) -> _Section:
    def line(position: int) -> str:
        item = skill.findings[position]
        rule, at = code(cut(item.rule, 100)), code(cut(words.place(item), 160))
        return f"- {item.level.value} {rule} at {at}: {escape(cut(words.finding_text(item), 800))}"

    return _Section(f"Findings: {len(skill.findings)}", tuple(map(line, range(len(skill.findings)))))


def _manifests(skill: SkillReport) -> _Section:
    lines = tuple(
        f"- {code(cut(item.kind, 60))} at {code(cut(item.path, 160))}: {escape(cut(words.manifest_words(item), 400))}"
        for item in skill.manifests
    )
    return _Section(f"Manifests: {len(lines)}", lines)


def _cases(skill: SkillReport) -> _Section:
    names = ("Case", "Type", "Result", "With skill", "Without", "Base version", "Blind comparison", "Notes", "Evidence")
    order = {False: 0, None: 1, True: 2}
    rows = [
        row(
            (
                escape(cut(words.case_title(case), 80)),
                escape(case.type),
                words.passed_word(case),
                words.share(case.with_skill),
                words.share(case.without_skill),
                words.share(case.base_skill),
                escape(cut(words.comparison_word(case), 240)),
                escape(cut("; ".join(case.reasons), 300)),
                code(cut(case.folder, 160), in_table=True),
            )
        )
        for case in sorted(skill.cases, key=lambda case: order[case.passed])
    ]
    return _Section(f"Cases: {len(skill.cases)}", tuple(rows), tuple(table_head(names)))


def _triage(skill: SkillReport, report_url: str) -> _Section:
    names = ("Case", "Assertion", "Text", "Rule", "With skill", "Without", "Base version", "Class", "Evidence")
    order = {kind: index for index, kind in enumerate(_TRIAGE_ORDER)}
    rows = [
        row(
            (
                escape(cut(item.eval_id, 60)),
                escape(cut(words.assertion_title(item), 80)),
                escape(cut(item.text, 160)),
                escape(cut(item.rule_ref or "", 80)),
                words.share(item.with_skill),
                words.share(item.without_skill),
                words.share(item.base_skill),
                item.triage.value,
                _evidence_link(*words.telling_place(skill, item), report_url),
            )
        )
        for item in sorted(skill.triage, key=lambda item: order[item.triage])
    ]
    legend = f"<sub>{words.TRIAGE_LEGEND}</sub>"
    return _Section(f"Assertions: {len(skill.triage)}", tuple(rows), (legend, "", *table_head(names)))


def _evidence_link(what: str, anchor: str, report_url: str) -> str:
    """A link to a line of the page where it is published, else the page's name of the line."""
    if not anchor:
        return ""
    if _PLAIN_URL.fullmatch(report_url) and _PLAIN_ANCHOR.fullmatch(anchor):
        return f"[{what if _PLAIN_WORDS.fullmatch(what) else escape(what)}]({report_url}#{anchor})"
    return code(f"{_PAGE}#{anchor}", in_table=True)


_TRIAGE_ORDER = (
    TriageClass.INVERTED,
    TriageClass.FLAKY,
    TriageClass.DEAD,
    TriageClass.DISCRIMINATING,
    TriageClass.SATURATED,
    TriageClass.UNDER_POWERED,
)


def _suggestions(skill: SkillReport) -> _Section:
    return _Section("Suggestions", tuple(f"- {escape(cut(text, 500))}" for text in skill.suggestions))


def _contract(skill: SkillReport) -> _Section:
    lines = tuple(f"- {escape(cut(text, 400))}" for text in words.contract_lines(skill))
    return _Section("Contract before the runs", lines)


def _discussion(skill: SkillReport) -> _Section:
    lines = tuple(f"- {escape(cut(text, 900))}" for text in words.discussion_lines(skill))
    return _Section(f"Discussion after the runs (moves no verdict): {len(skill.discussions)}", lines)


def _not_tested(skill: SkillReport) -> _Section:
    measured = skill.verdict in (Verdict.PASS, Verdict.CONDITIONAL, Verdict.INCONCLUSIVE, Verdict.FAIL)
    return _Section("Not tested", tuple(f"- {escape(cut(text, 400))}" for text in skill.not_tested) if measured else ())


def _skill_fallbacks(skill: SkillReport) -> _Section:
    if not skill.arms:
        return _Section("Fallbacks", ())
    lines = [f"- {escape(cut(words.fallback_words(item), 200))}" for item in skill.fallbacks]
    return _Section("Fallbacks", tuple(lines) or ("- none",))
