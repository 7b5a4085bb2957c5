"""The pull request comment: one, found again by its marker, never over GitHub's limit, verdicts first.

Everything in a report may quote untrusted text (paths, reasons, findings), so every piece goes through ``escape`` or
``code``. What a phone shows first: the state, a line a skill with its verdict, the cost. Order of what is kept when room is
short: first line and marker, footer, the line of each skill, cost, what to do, figures of each skill, the session's notes,
then the details of each skill, the worst first, each cut with a count and a link to the whole report.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gate.domain.findings import Finding
from gate.domain.plan import COMPARED_ARMS
from gate.domain.report import ArmFigures, GateReport, SkillReport, TriageClass, Verdict
from reporters import words
from reporters.catalogue import Speech
from reporters.fixed import fixed_lines
from reporters.headline import headline
from reporters.markdown import COMMENT_LIMIT, code, cut, escape, fit, row, size, table_head

_PAGE = "report.html"
_PLAIN_URL = re.compile(r"https?://[^\s()<>\[\]{}\\`|\"'#]{1,600}")
_PLAIN_WORDS = re.compile(r"[A-Za-z0-9 ,:，第次运行]{1,60}")  # noqa: RUF001
_PLAIN_ANCHOR = re.compile(r"[A-Za-z0-9._/:-]{1,300}")
"""What can stand in a link's target as it is."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9._/]{1,100}")
_REASON_LIMITS = (280, 160, 90, 60, 40)
"""Characters of the first reason in a skill's line: the longest at which the lines of all skills take no more than a screen."""
_SCREEN = 1_000
"""Bytes that the lines of all skills may take before their reasons get shorter."""
_OVERVIEW_SHARE = 0.6
"""Share of the room that they may take at all."""
_TABLE_SHARE = 0.25


def marker(key: str = "") -> str:
    """The hidden line by which the comment is found again. ``key`` keeps several gates of one repository apart."""
    if key and not _PLAIN_KEY.fullmatch(key):
        key = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"<!-- skill-gate:report {key}-->" if not key else f"<!-- skill-gate:report {key} -->"


def render(report: GateReport, *, key: str = "", limit: int = COMMENT_LIMIT, run_url: str = "") -> str:
    """The whole comment as GitHub-flavoured Markdown, at most ``limit`` UTF-8 bytes (so never more characters).

    ``run_url``: the workflow run that keeps the bundle, where there is one. Told in the report's language.
    """
    return _Comment(report, Speech(report.language), run_url).render(key, limit)


@dataclass(frozen=True)
class _Section:
    """A titled part of the details: what comes before its lines, and the lines, which may be cut."""

    title: str
    lines: tuple[str, ...]
    before: tuple[str, ...] = ()
    name: str = ""
    """How the list of what is left out names it; empty: by its title."""


class _Comment:
    """One report on its way to Markdown."""

    def __init__(self, report: GateReport, speech: Speech, run_url: str) -> None:
        self._report = report
        self._speech = speech
        self._say = speech.say
        self._run_url = run_url if _PLAIN_URL.fullmatch(run_url) else ""
        self._report_url = report.report_url if _PLAIN_URL.fullmatch(report.report_url) else ""
        target = self._report_url or (f"{self._run_url}#artifacts" if self._run_url else "")
        self._page = f"[{_PAGE}]({target})" if target else _PAGE

    def render(self, key: str, limit: int) -> str:
        """All of it."""
        report = self._report
        title = self._say("headline.title", headline=escape(headline(report, self._speech)))
        head = f"## {title}\n{marker(key)}\n\n"
        about, footer = self._about(), self._footer()
        room = limit - size(head) - size(about) - size(footer)
        body, room = self._verdicts(room) if report.skills else ([], room)
        text = head + _joined(body) + about
        body, room = self._parts((self._what_to_do(),), [], room)
        table, room = self._figures(room) if report.skills else ([], room)
        body, room = self._parts((self._session(), self._fallbacks()), [*body, *table], room)
        usage = self._usage()
        taken = sum(size(line) + 1 for line in usage)
        if taken <= room // 3:
            body += usage
            room -= taken
        for position, skill in enumerate(report.skills):
            lines, taken = self._details(skill, room // (len(report.skills) - position))
            body += lines
            room -= taken
        return text + _joined(body) + footer

    def _parts(self, sections: Iterable[_Section], body: list[str], room: int) -> tuple[list[str], int]:
        for section in sections:
            lines, taken = self._fitted(section, room // 3) if section.lines else ([], 0)
            body = [*body, *lines]
            room -= taken
        return body, room

    # --- the first screen

    def _verdicts(self, room: int) -> tuple[list[str], int]:
        """One line a skill. Reasons shrink before a line goes; lines go only where even that is not enough."""
        skills = self._report.skills
        lines: list[str] = []
        for limit in _REASON_LIMITS:
            lines = [self._verdict_line(skill, limit) for skill in skills]
            taken = sum(size(line) + 1 for line in lines)
            if taken <= _SCREEN or (limit == _REASON_LIMITS[-1] and taken <= room * _OVERVIEW_SHARE):
                break
        else:
            lines = [self._verdict_line(skill, 0) for skill in skills]
        more = "- " + self._say("frame.more_skills", n="{count}", page=self._page)
        kept, taken = fit(lines, room - 1, more=more)
        return [*kept, ""], room - taken - 1

    def _verdict_line(self, skill: SkillReport, limit: int) -> str:
        line = f"- **{self._verdict(skill.verdict)}** {code(cut(skill.path, 90))}"
        if skill.release_grade:
            line += self._spaced(self._say("frame.grade", letter=escape(skill.release_grade)))
        if not limit or not skill.reasons:
            return line
        line += self._say("frame.reason", reason=escape(self._told(skill.reasons[0], limit)))
        rest = len(skill.reasons) - 1
        return line + (self._spaced(self._say("frame.more_reasons", n=rest)) if rest else "")

    def _spaced(self, text: str) -> str:
        return f" {text}" if self._speech.english else text

    def _about(self) -> str:
        report = self._report
        cost = escape(self._told(words.cost_line(report), 400))
        facts = self._say(
            "frame.facts",
            mode=report.mode.value,
            enforce=report.enforce.value,
            date=escape(report.run_date),
            commits=code(words.commits(report, self._speech)),
        )
        return (f"{self._say('frame.cost', cost=cost)}\n\n" if report.cost else "") + f"<sub>{facts}</sub>\n\n"

    def _what_to_do(self) -> _Section:
        return self._section("todo", [f"- {escape(cut(text, 400))}" for text in self._todo()])

    def _todo(self) -> Iterable[str]:
        paths = [skill.path for skill in self._report.skills]
        for text in self._report.what_to_do:
            # The longest path that fits: one may begin as another ends.
            path = max((path for path in paths if text.startswith(f"{path}: ")), key=len, default="")
            rest = text.removeprefix(f"{path}: ") if path else text
            told = self._speech.told(rest)
            yield self._say("frame.todo", path=path, text=told) if path else told

    def _figures(self, room: int) -> tuple[list[str], int]:
        """The table of the arms, a row a skill."""
        names = ["skill", *(arm.value for arm in COMPARED_ARMS), "lift"]
        start = [f"**{self._say('title.figures')}**", "", *self._head(*names)]
        end = ["", f"<sub>{self._say('frame.figures_legend')}</sub>", ""]
        fixed = sum(size(line) + 1 for line in (*start, *end))
        rows = [
            row(
                (
                    code(cut(skill.path, 90), in_table=True),
                    *(escape(words.arm_cell(skill, arm, self._speech)) for arm in COMPARED_ARMS),
                    escape(words.lift_cell(skill, self._speech)),
                )
            )
            for skill in self._report.skills
        ]
        more = row((self._say("frame.more_skills", n="{count}", page=self._page), *[""] * (len(names) - 1)))
        kept, taken = fit(rows, int(room * _TABLE_SHARE) - fixed, more=more)
        if not kept or kept[0] != rows[0]:
            return [], room
        return [*start, *kept, *end], room - taken - fixed

    # --- about the session

    def _session(self) -> _Section:
        notes = [f"- {escape(self._told(note, 400))}" for note in self._report.notes]
        findings = [f"- {self._finding(item, 600)}" for item in self._report.session_findings]
        return self._section("session", [*notes, *findings])

    def _fallbacks(self) -> _Section:
        total = words.fallback_total(self._report.fallbacks)
        if not self._report.fallbacks:
            return self._section("fallbacks", [self._say("frame.no_fallbacks")], n=total)
        lines = [f"- {escape(cut(words.fallback_words(item, self._speech), 200))}" for item in self._report.fallbacks]
        return self._section("fallbacks", [*lines, f"- {self._say('cell.others_zero')}"], n=total)

    def _usage(self) -> list[str]:
        report = self._report
        if not report.usage:
            return []
        rows = [row(escape(cell) for cell in words.usage_cells(use, self._speech)) for use in report.usage]
        title = self._say("frame.model_use", cost=escape(words.total_cost(report, self._speech)))
        head = self._head("role", "model", "calls", "failed", "tokens_in", "tokens_out", "cost")
        return [f"<details><summary>{title}</summary>", "", *head, *rows, "", "</details>", ""]

    def _footer(self) -> str:
        report, say = self._report, self._say
        cost = escape(words.total_cost(report, self._speech))
        models = self._speech.known(report.models)
        lines = [
            *self._where_evidence_is(),
            say("frame.models", models=escape(cut(models, 300)), cost=cost),
            say("frame.sandbox", sandbox=escape(cut(report.sandbox, 300))),
            say("frame.version", version=escape(report.gate_version), session=code(cut(report.session_id, 80))),
            say("frame.check_yourself", command=code(words.VERIFY_HINT)),
        ]
        return "\n<sub>" + (" " if self._speech.english else "").join(lines) + "</sub>\n"

    def _where_evidence_is(self) -> list[str]:
        if not any(skill.evidence for skill in self._report.skills) or self._report_url:
            return []
        kept = self._say("frame.kept_by_run", url=f"{self._run_url}#artifacts") if self._run_url else ""
        return [self._say("frame.evidence_at", anchor=code(_PAGE + "#…"), kept=kept)]

    # --- the details of a skill

    def _details(self, skill: SkillReport, room: int) -> tuple[list[str], int]:
        title = f"{self._verdict(skill.verdict)}{self._colon()}{escape(cut(skill.path, 120))}"
        start = [f"<details><summary>{title}</summary>", ""]
        end = ["</details>", ""]
        fixed = sum(size(line) + 1 for line in (*start, *end))
        room -= fixed
        body: list[str] = []
        left_out: list[str] = []
        taken = fixed
        reserve = 200 + len(self._page)  # for the line that names what was left out
        for section in self._sections(skill, room):
            lines, used = self._fitted(section, room - reserve)
            if not lines:
                left_out.append(section.name)
                continue
            body += lines
            room -= used
            taken += used
        if left_out:
            names = self._say("headline.names_comma").join(left_out)
            note = self._say("frame.left_out", page=self._page, names=names)
            if size(note) + 2 <= room:
                body += [note, ""]
                taken += size(note) + 2
        return ([*start, *body, *end], taken) if body else ([], 0)

    def _sections(self, skill: SkillReport, room: int) -> Iterable[_Section]:
        """The details of a skill, most important first. Empty ones are left out."""
        yield self._reasons(skill, room // 2)
        makers: Sequence[Callable[[SkillReport], _Section]] = (
            self._fixed, self._facts, self._arms, self._conditions, self._findings, self._cases, self._triage,
            self._suggestions, self._not_tested, self._contract, self._discussion, self._manifests, self._skill_fallbacks,
        )  # fmt: skip
        yield from (section for make in makers if (section := make(skill)).lines)

    def _reasons(self, skill: SkillReport, room: int) -> _Section:
        """The reasons at the greatest length at which they all fit into ``room``, else at the smallest."""
        lines: list[str] = []
        for limit in (900, 400, 200, 100):
            lines = [f"{number}. {escape(self._told(text, limit))}" for number, text in enumerate(skill.reasons, 1)]
            if sum(size(line) + 1 for line in lines) <= room:
                break
        return _Section(self._say(f"why.{skill.verdict.value}"), tuple(lines), name=self._say("column.reasons"))

    def _fixed(self, skill: SkillReport) -> _Section:
        lines = fixed_lines(self._report, skill, self._speech)
        return self._section("fixed", [f"- {escape(cut(line, 500))}" for line in lines])

    def _facts(self, skill: SkillReport) -> _Section:
        say, speech = self._say, self._speech
        change = words.change_words(skill, speech)
        facts = [
            say("cell.change_why", change=change, why=speech.told(skill.type_reason)) if skill.type_reason else change
        ]
        if skill.wording:
            facts.append(speech.told(skill.wording))
        if skill.source_rate.total:
            facts.append(say("cell.source_rate", share=words.share(skill.source_rate)))
        if skill.arms:
            facts.append(say("cell.lift", lift=speech.told(skill.lift)))
        if skill.quadrant:
            facts.append(speech.told(skill.quadrant))
        if skill.arms:
            facts.append(speech.told(skill.judge_health))
        facts += [speech.told(text) for text in (*words.history_lines(skill), *skill.notes)]
        return self._section("words", [f"- {escape(cut(text, 600))}" for text in facts])

    def _arms(self, skill: SkillReport) -> _Section:
        names = ("arm", "planned", "finished", "completed", "activated", "graded", "passed", "rate", "tokens", "cost")
        rows = [line for item in skill.arms for line in self._arm_rows(item, len(names))]
        return self._section("arms", rows, self._head(*names))

    def _arm_rows(self, item: ArmFigures, width: int) -> Iterable[str]:
        name = self._say(f"arm.{item.arm.value}")
        skipped = self._told(item.skipped or "", 200)
        if not item.planned:
            why = escape(skipped or self._say("cell.no_case"))
            yield row((name, self._say("cell.not_run_why", why=why), *[""] * (width - 2)))
            return
        counts = (item.planned, item.finished, item.completed, item.activated, item.graded)
        yield row(
            (
                name,
                *map(str, counts),
                words.share(item.assertions),
                words.spread(item),
                words.tokens(item.mean_tokens, self._speech),
                escape(words.dollars(item.cost_usd, self._speech)),
            )
        )
        if item.skipped:
            part = self._say("cell.in_part", arm=name)
            yield row((part, self._say("cell.skipped", why=escape(skipped)), *[""] * (width - 2)))

    def _conditions(self, skill: SkillReport) -> _Section:
        cells = [words.condition_cells(item, self._speech) for item in skill.conditions]
        rows = [row(escape(cut(cell, 200)) for cell in line) for line in cells]
        head = self._head("condition", "passed", "mean_rate", "cases", "runs", "lift_over_none")
        return self._section("conditions", rows, head)

    def _findings(self, skill: SkillReport) -> _Section:
        lines = [f"- {self._finding(item, 800)}" for item in skill.findings]
        return self._section("findings", lines, originals=True, n=len(lines))

    def _finding(self, item: Finding, limit: int) -> str:
        return self._say(
            "frame.at",
            level=self._speech.word(item.level.value),
            rule=code(cut(item.rule, 100)),
            place=code(cut(words.place(item), 160)),
            text=escape(cut(words.finding_text(item), limit)),
        )

    def _manifests(self, skill: SkillReport) -> _Section:
        lines = [
            "- "
            + self._say(
                "frame.manifest",
                kind=code(cut(item.kind, 60)),
                path=code(cut(item.path, 160)),
                text=escape(cut(words.manifest_words(item, self._speech), 400)),
            )
            for item in skill.manifests
        ]
        return self._section("manifests", lines, n=len(lines))

    def _cases(self, skill: SkillReport) -> _Section:
        names = (
            "case", "type", "result", "with_skill", "without_skill", "base_skill", "comparison", "notes", "spent", "evidence",
        )  # fmt: skip
        order = {False: 0, None: 1, True: 2}
        semicolon = self._say("headline.semicolon")
        rows = [
            row(
                (
                    escape(cut(words.case_title(case), 80)),
                    escape(case.type),
                    words.passed_word(case, self._speech),
                    words.share(case.with_skill),
                    words.share(case.without_skill),
                    words.share(case.base_skill),
                    escape(cut(words.comparison_word(case, self._speech), 240)),
                    escape(cut(semicolon.join(map(self._speech.told, case.reasons)), 300)),
                    escape(words.spent_words(case)),
                    code(cut(case.folder, 160), in_table=True),
                )
            )
            for case in sorted(skill.cases, key=lambda case: order[case.passed])
        ]
        return self._section("cases", rows, self._head(*names), n=len(rows))

    def _triage(self, skill: SkillReport) -> _Section:
        names = ("case", "assertion", "text", "rule", "with_skill", "without_skill", "base_skill", "class", "evidence")
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
                    self._evidence_link(*words.telling_place(skill, item, self._speech)),
                )
            )
            for item in sorted(skill.triage, key=lambda item: order[item.triage])
        ]
        legend = f"<sub>{self._say('frame.triage_legend')}</sub>"
        return self._section("assertions", rows, (legend, "", *self._head(*names)), n=len(rows))

    def _evidence_link(self, what: str, anchor: str) -> str:
        """A link to a line of the page where it is published, else the page's name of the line."""
        if not anchor:
            return ""
        if self._report_url and _PLAIN_ANCHOR.fullmatch(anchor):
            shown = what if _PLAIN_WORDS.fullmatch(what) else escape(what)
            return f"[{shown}]({self._report_url}#{anchor})"
        return code(f"{_PAGE}#{anchor}", in_table=True)

    def _suggestions(self, skill: SkillReport) -> _Section:
        lines = [f"- {escape(self._told(text, 500))}" for text in skill.suggestions]
        return self._section("suggestions", lines)

    def _contract(self, skill: SkillReport) -> _Section:
        lines = [f"- {escape(cut(text, 400))}" for text in words.contract_lines(skill, self._speech)]
        return self._section("contract", lines)

    def _discussion(self, skill: SkillReport) -> _Section:
        lines = [f"- {escape(cut(text, 900))}" for text in words.discussion_lines(skill, self._speech)]
        return self._section("discussion", lines, n=len(skill.discussions))

    def _not_tested(self, skill: SkillReport) -> _Section:
        measured = skill.verdict in (Verdict.PASS, Verdict.CONDITIONAL, Verdict.INCONCLUSIVE, Verdict.FAIL)
        lines = [f"- {escape(self._told(text, 400))}" for text in skill.not_tested] if measured else []
        return self._section("not_tested", lines)

    def _skill_fallbacks(self, skill: SkillReport) -> _Section:
        if not skill.arms:
            return self._section("own_fallbacks", [])
        lines = [f"- {escape(cut(words.fallback_words(item, self._speech), 200))}" for item in skill.fallbacks]
        return self._section("own_fallbacks", lines or [f"- {self._say('cell.none')}"])

    # --- parts

    def _told(self, text: str, limit: int) -> str:
        return self._speech.told(text, lambda whole: cut(whole, limit))

    def _verdict(self, verdict: Verdict) -> str:
        return self._say(f"verdict.{verdict.value}")

    def _colon(self) -> str:
        return ": " if self._speech.english else "："  # noqa: RUF001 - the colon of the language

    def _head(self, *names: str) -> list[str]:
        return table_head([self._say(f"column.{name}") for name in names])

    def _section(
        self, name: str, lines: Sequence[str], before: Sequence[str] = (), *, originals: bool = False, **facts: int
    ) -> _Section:
        title = self._say(f"title.{name}", **facts)
        short = re.split("[:：]", title)[0]  # noqa: RUF001 - the colon of either language
        if originals:
            title += self._say("frame.originals")
        return _Section(title, tuple(lines), tuple(before), short.lower())

    def _fitted(self, section: _Section, room: int) -> tuple[list[str], int]:
        """The part as far as it fits; nothing where not even one line does."""
        start = [f"**{section.title}**", "", *section.before]
        fixed = sum(size(line) + 1 for line in (*start, ""))
        more = self._say("frame.more_lines", n="{count}", page=self._page)
        kept, taken = fit(section.lines, room - fixed, more=row((more,)) if section.before else f"- {more}")
        if not kept or kept[0] != section.lines[0]:
            return [], 0  # a bare count of what is left out says less than its name in the list of what is left out
        return [*start, *kept, ""], taken + fixed


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


_TRIAGE_ORDER = (
    TriageClass.INVERTED,
    TriageClass.FLAKY,
    TriageClass.DEAD,
    TriageClass.DISCRIMINATING,
    TriageClass.SATURATED,
    TriageClass.UNDER_POWERED,
)
