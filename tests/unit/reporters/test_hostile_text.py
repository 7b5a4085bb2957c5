"""Hostile text through every place of a report and out of every channel: it stays text. A naive renderer is shown beside."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count

import pytest

from gate.cli.terminal import visible
from gate.domain.base import Severity
from gate.domain.findings import Finding, Level
from gate.domain.forge import DESCRIPTION_CHARACTERS
from gate.domain.manifest import ManifestState, ManifestStatus
from gate.domain.plan import Arm
from gate.domain.report import (
    AssertionTriage,
    CaseReport,
    GateReport,
    GradedRow,
    Language,
    RunEvidence,
    SkillReport,
    State,
)
from reporters import check, commands, comment, html, junit, outputs, sarif, status, summary
from tests.builders_records import decide
from tests.builders_report import failing, report_of
from tests.hostile_text import TEXTS, UNSHOWN, entries_of, of_log, of_markdown, of_page, places

ROOM = 50_000_000
RUN = "https://github.com/octo/repo/actions/runs/1"


@cache
def _model() -> SkillReport:
    return decide(failing())


def _hostile_skill(texts: Sequence[str], number: int) -> SkillReport:
    """A skill whose reasons, cases, assertions, findings, manifests, evidence and notes say all of these texts, and whose
    path, name and single words say one of them each."""
    model = _model()
    at = [texts[index % len(texts)] for index in range(6)]

    def case(text: str) -> CaseReport:
        return model.cases[0].model_copy(
            update={
                "eval_id": text, "name": text, "reasons": (text, f"blocked: {text}"), "comparison": f"not run: {text}",
                "comparison_detail": text, "analysis": (text,), "folder": f"skills/{text}",
            }
        )  # fmt: skip

    def row(text: str) -> GradedRow:
        known = GradedRow(
            number=0, kind="check", id="c1", severity=Severity.MUST, text="t", status="failed", reason="r"
        )
        return known.model_copy(update={"id": text, "text": text, "reason": text})

    def finding(text: str) -> Finding:
        known = Finding(rule="scan/secret", level=Level.ERROR, path="p", message="m", line=3)
        return known.model_copy(update={"path": text or "p", "message": text, "remedy": text})

    def manifest(text: str) -> ManifestStatus:
        known = ManifestStatus(path="p", kind="plugin", state=ManifestState.FAILED, reason="r")
        return known.model_copy(update={"path": text, "kind": text, "reason": text})

    def assertion(text: str) -> AssertionTriage:
        return model.triage[0].model_copy(
            update={"eval_id": text, "assertion_id": text, "text": text, "rule_ref": text}
        )

    evidence = RunEvidence(eval_id="1", arm=Arm.WITH_SKILL, run=1, folder="skills/x", rows=())
    evidence = evidence.model_copy(
        update={"eval_id": at[0], "folder": f"skills/{number}/{at[1]}", "rows": tuple(map(row, texts)), "answer": at[2]}
    )
    return model.model_copy(
        update={
            "path": f"{number}/{at[0]}", "slug": f"s{number}", "name": at[1],
            "reasons": tuple(reason for text in texts for reason in (
                f"eval 1: {text}", f"no case can run: {text}", text,
                f'eval {text}: must check {text} "{text}" failed in all 2 with_skill runs (runs 1, 2): expected {text}',
            )),
            "type_reason": at[2], "suggestions": (*texts, *(f"{text} [{text}]" for text in texts)), "notes": tuple(texts),
            "not_tested": tuple(texts), "cases": tuple(map(case, texts)), "triage": tuple(map(assertion, texts)),
            "findings": tuple(map(finding, texts)), "evidence": (evidence,), "manifests": tuple(map(manifest, texts)),
            "undiscussed": tuple(texts), "judge_health": at[3], "quadrant": at[4], "wording": at[5],
        }
    )  # fmt: skip


@cache
def hostile(language: Language = Language.EN, texts: tuple[str, ...] = TEXTS) -> GateReport:
    """Every text in every place."""
    report = report_of([_hostile_skill(texts[at : at + 6], at) for at in range(0, len(texts), 6)])
    use = report.usage[0].model_copy(update={"model": " ".join(texts[:40])})
    return report.model_copy(
        update={
            "notes": texts, "what_to_do": tuple(f"{skill.path}: {skill.name}" for skill in report.skills), "usage": (use,),
            "models": " ".join(texts[40:90]), "sandbox": " ".join(texts[90:140]), "language": language,
            "session_findings": tuple(item for skill in report.skills for item in skill.findings),
        }
    )  # fmt: skip


def naive_comment(report: GateReport) -> str:
    """What a template without escaping writes."""
    rows = "".join(f"| {skill.path} | {skill.reasons[0]} |\n" for skill in report.skills)
    return f"<!-- skill-gate:report -->\n\n| Skill | Why |\n| --- | --- |\n{rows}\n" + "".join(
        f"- {note}\n" for note in report.notes
    )


def test_the_corpus_is_large_and_holds_every_kind() -> None:
    assert len(TEXTS) >= 300
    assert len(set(TEXTS)) == len(TEXTS)


@pytest.mark.parametrize(("language", "texts"), [(Language.EN, TEXTS), (Language.ZH, TEXTS[::3])], ids=["en", "zh"])
def test_a_comment_holds_nothing_but_text(language: Language, texts: tuple[str, ...]) -> None:
    report = hostile(language, texts)
    text = comment.render(report, limit=ROOM, run_url=RUN)
    assert of_markdown(text) == []
    opened = re.findall(r"^<details><summary>", text, re.MULTILINE)
    assert len(opened) == len(re.findall(r"^</details>$", text, re.MULTILINE))
    assert len(opened) == len(report.skills) + 1, "each skill and the use of models"


def test_the_same_texts_come_through_a_renderer_without_escaping() -> None:
    naive = of_markdown(naive_comment(hostile()))
    kinds = {hit.split(" ")[0] for hit in naive}
    assert len(naive) > 200
    assert kinds >= {"element", "attribute", "mention", "reference", "link", "emoji", "row", "math", "unseen"}


def test_a_skill_of_any_path_keeps_its_line_and_its_row() -> None:
    bare = _model().model_copy(
        update={"arms": (), "conditions": (), "cases": (), "triage": (), "findings": (), "reasons": ("r",)}
    )
    report = report_of([bare.model_copy(update={"path": f"{n}/{text}"}) for n, text in enumerate(TEXTS)])
    text = comment.render(report, limit=ROOM)
    assert of_markdown(text) == []
    lines = [line for line in text.split("\n") if line.startswith("- **FAIL** `")]
    rows = [line for line in text.split("\n") if re.match(r"\| `+ ?\d+/", line)]
    assert len(lines) == len(rows) == len(TEXTS)


def test_a_text_cut_anywhere_is_still_text() -> None:
    report = hostile()
    for limit in (6_000, 20_000):
        shown = comment.render(report, limit=limit)
        assert len(shown.encode()) <= limit
        assert of_markdown(shown) == []


@pytest.mark.parametrize(("language", "first"), [(Language.EN, 1), (Language.ZH, 2)], ids=["en", "zh"])
def test_a_summary_and_a_check_run_hold_nothing_but_text(language: Language, first: int) -> None:
    report = hostile(language, TEXTS[first::4])
    assert of_markdown(summary.render(report, TEXTS)) == []
    note = summary.render_note(TEXTS[0], TEXTS, TEXTS, language=language.value)
    assert of_markdown(note, markers=0) == []
    shown = check.render(report)
    assert of_markdown(shown.summary) == []
    assert of_markdown(check.render_note(TEXTS[3], TEXTS).summary, markers=0) == []
    for item in shown.annotations:
        assert not UNSHOWN.search(item.message + item.title)


LOG: dict[str, Callable[[str], Sequence[str]]] = {
    "log": commands.harmless,
    "terminal": lambda text: [visible(text)],
    "a message about a failure": lambda text: commands.harmless(f"error: {text}"),
}


@pytest.mark.parametrize("channel", list(LOG))
def test_no_line_of_a_log_is_a_command(channel: str) -> None:
    assert of_log([line for text in TEXTS for line in LOG[channel](text)]) == []
    naive = of_log([line for text in TEXTS for line in re.split("\r\n|\n|\r", text)])
    assert len(naive) > 30


def test_an_annotation_is_one_command_and_its_text_is_data() -> None:
    for text in TEXTS:
        line = commands.annotation("error", text)
        assert re.fullmatch(r"::error title=Skill Gate::[^\r\n\x0b\x0c\x85\u2028\u2029]*", line), text
    assert sum("\n" in f"::error::{text}" for text in TEXTS) > 5


def test_outputs_have_exactly_the_declared_keys() -> None:
    number = count()
    for text in TEXTS:
        report = hostile().model_copy(update={"skills": (_hostile_skill([text], 0),), "headline": text})
        values = outputs.outputs(
            report,
            state=State.FAILURE,
            exit_code=1,
            headline=text,
            report_path=text,
            bundle_path=text,
            comment_url=text,
        )
        written = commands.entries(values, lambda size: f"{next(number):0{2 * size}x}")
        assert set(entries_of(written)) == set(outputs.KEYS), text
        assert entries_of(written)["verdict"] == "fail"
    naive = 0
    for text in TEXTS:
        try:
            naive += set(entries_of(f"verdict=fail\nheadline<<EOF\n{text}\nEOF\n")) != {"verdict", "headline"}
        except ValueError:
            naive += 1
    assert naive > 3


def test_a_status_is_one_short_plain_line() -> None:
    for text in TEXTS:
        report = hostile().model_copy(update={"headline": text, "skills": (_hostile_skill([text], 0),)})
        for language in Language:
            for line in (
                status.describe(report.model_copy(update={"language": language})),
                status.describe_failure(text, language.value),
            ):
                assert len(line) <= DESCRIPTION_CHARACTERS
                assert all(ord(char) <= 0xFFFF and not 0xD800 <= ord(char) <= 0xDFFF for char in line)
                assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", line)


def test_a_file_of_findings_holds_no_link_that_a_text_chose() -> None:
    log = json.loads(sarif.render(hostile(texts=places(TEXTS))))
    messages = [item["message"]["text"] for item in log["runs"][0]["results"]]
    assert len(messages) >= 300
    assert [text for text in messages if re.search(r"(?<!\\)(?:\\\\)*\[[^\]]*(?<!\\)\]\(", text)] == []
    assert sum(bool(re.search(r"\[[^\]]*\]\(", text)) for text in TEXTS) > 3


def test_junit_is_xml_with_no_element_that_a_text_chose() -> None:
    root = ET.fromstring(junit.render(hostile(texts=places(TEXTS))))
    assert {item.tag for item in root.iter()} <= {
        "testsuites", "testsuite", "testcase", "failure", "error", "skipped", "properties", "property", "system-out", "system-err",
    }  # fmt: skip


def test_the_page_holds_nothing_but_text() -> None:
    report = hostile(texts=places(TEXTS)[::2])
    few = report.model_copy(update={"skills": tuple(skill.model_copy(update={"arms": ()}) for skill in report.skills)})
    assert of_page(html.render(few)) == []
    assert len(of_page("".join(f"<td>{text}</td>" for text in TEXTS))) > 20
