# ruff: noqa: RUF001 - the signs of Chinese
from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gate.domain.findings import Finding, Level
from gate.domain.plan import Enforce
from gate.domain.report import GateReport, Language, Override, State
from reporters import comment, status, summary
from reporters.catalogue import ENGLISH, Message, Speech, messages, pieces, sentences, slots
from reporters.headline import told_headline
from tests.builders_records import decide
from tests.builders_report import conditional, failing, passing, quiet_report, report_of, sample_report

ZH = Speech(Language.ZH)
ALL = [*messages().values(), *(message for part in sentences().values() for message in part)]


class MarkdownFile(SingleFileSnapshotExtension):
    file_extension = "md"
    _file_extension = "md"
    _write_mode = WriteMode.TEXT


def in_chinese(report: GateReport) -> GateReport:
    return report.model_copy(update={"language": Language.ZH})


@pytest.mark.parametrize("message", ALL, ids=lambda message: message.id)
def test_every_message_is_there_in_every_language_with_the_same_facts(message: Message) -> None:
    assert set(message.by_language) == set(Language)
    english, chinese = message.by_language[Language.EN], message.by_language[Language.ZH]
    assert chinese
    assert slots(english) == slots(chinese)
    assert "|" not in re.sub(r"\{[^}]*\}", "", chinese), "no word in the number of a count"


def test_the_files_of_messages_are_sorted_into_parts_and_shipped() -> None:
    folder = resources.files("reporters").joinpath("messages")
    assert {item.name for item in folder.iterdir()} >= {"own.toml", "said.toml"}
    assert set(sentences()) == {"around", "part", "sentence", "last"}


@pytest.mark.parametrize("report", [sample_report(), report_of([decide(passing())]), quiet_report()])
def test_the_comment_in_chinese_holds_the_same_figures_paths_and_quotes(report: GateReport) -> None:
    english, chinese = comment.render(report), comment.render(in_chinese(report))
    assert facts_of(english) == facts_of(chinese)
    assert english != chinese


def facts_of(text: str) -> set[str]:
    """Numbers, code spans and names of files of a comment."""
    shown = html.unescape(text).replace("\u200b", "")
    found = set(re.findall(r"\d+\.\d+|\d+/\d+|p = \d\.\d+|`[^`\n]+`|\b[\w-]+\.(?:md|csv|json)\b", shown))
    return found - {"`--draft`"}


def test_the_comment_in_chinese(snapshot: SnapshotAssertion) -> None:
    assert comment.render(in_chinese(sample_report())) == snapshot.use_extension(MarkdownFile)


def test_what_has_no_chinese_is_marked_as_the_original() -> None:
    report = sample_report().model_copy(update={"notes": ("something new that no table knows", "a draft")})
    text = comment.render(in_chinese(report))
    assert "- something new that no table knows（原文）\n" in text
    assert "- 草稿\n" in text
    assert "（原文）" not in comment.render(report)
    long = sample_report().model_copy(update={"notes": ("a sentence that no table knows, " * 40,)})
    assert re.search(r"^- a sentence .*…（原文）$", comment.render(in_chinese(long)), re.MULTILINE)


def test_of_a_usual_report_nothing_but_findings_and_own_notes_stays_english() -> None:
    text = comment.render(in_chinese(sample_report().model_copy(update={"notes": ()})))
    of_the_builders = (
        "does not answer",
        "no tool and no program file",
        "the case is atomic",
        "the run did not finish",
        "skipped in this mode",
        "has no base",
    )
    lines = re.findall(r"^.*（原文）.*$", text, re.MULTILINE)
    left = [line for line in lines if not any(known in html.unescape(line) for known in of_the_builders)]
    assert left == []


@pytest.mark.parametrize("report", [
    sample_report(), sample_report(enforce=Enforce.ADVISORY), sample_report(enforce=Enforce.STRICT), quiet_report(),
    report_of([decide(passing())]), report_of([decide(conditional())]),
    report_of([decide(passing()).model_copy(update={"path": f"skills/报告-{n}"}) for n in range(40)]),
    report_of([decide(failing()).model_copy(update={"path": f"skills/{'x' * 60}-{n}"}) for n in range(40)]),
])  # fmt: skip
def test_the_headline_is_told_from_the_same_facts_in_every_language(report: GateReport) -> None:
    assert told_headline(report, ENGLISH) == report.headline
    told = told_headline(report, ZH)
    assert len(told) <= 140
    counts = re.findall(r"\b(\d+) (?=[a-z]+)(?!more)", re.sub(r"\([^)]*\)", "", report.headline))
    assert all(count in told for count in counts)


def test_a_headline_of_a_session_that_did_not_see_everything_and_one_set_aside() -> None:
    hidden = Finding(rule="session/x", level=Level.ERROR, path="", message="the list was cut", blocks=True)
    report = report_of([decide(passing())])
    cut = report.model_copy(update={"session_findings": (hidden,), "state": State.ERROR})
    assert told_headline(cut, ENGLISH) == "error: the list was cut; 1 passes"
    failed = report_of([decide(failing())])
    aside = Override(login="octocat", permission="admin", head_commit="9" * 40)
    done = failed.model_copy(update={"override": aside, "state": State.SUCCESS})
    assert told_headline(done, ENGLISH) == f"overridden by octocat, was {failed.headline}"
    assert told_headline(done, ZH) == "已由 octocat 放行，原为 失败：1 个不通过（skills/csv-cleaner）"


def test_status_and_summary_speak_the_reports_language() -> None:
    report = in_chinese(sample_report())
    assert status.describe(report).startswith("失败：1 个不通过（skills/csv-cleaner），")
    assert status.moment("running", "zh") == "进行中：正在评判技能"
    assert set(status.running_words()) == {status.RUNNING, "进行中：正在评判技能"}
    assert summary.render(report, ["x"]).startswith("## Skill Gate：失败：")
    assert "**关于本次作业**" in summary.render(report, ["x"])
    assert summary.render_note("错误", ["a draft"], language="zh") == "## Skill Gate：错误\n\n- 草稿\n"


HOSTILE = (
    # What is a count and what is a quotation could be read in two ways: shown as it was written.
    'eval 1: must check c1 "x" failed in all 9 with_skill runs (runs 1, 2): y "z" failed in all 2 with_skill runs (runs 1, 2): w',
    "no case can run",
    "3 cases x 2 runs, 3 of 3 cases passed; a drop under 0.57 would not be seen; 9 cases",
)


def test_the_end_of_a_quotation_never_takes_the_place_of_what_was_found() -> None:
    """The words behind it may be a provider's or an agent's."""
    told = ZH.told("run 1 with_skill: infra_error: no answer: the run ended as completed")
    assert "infra_error: no answer" in told


@pytest.mark.parametrize("text", HOSTILE)
def test_a_sentence_that_can_be_read_in_two_ways_or_in_none_is_left_as_it_is(text: str) -> None:
    assert ZH.told(text) == f"{text}（原文）"


def test_a_sentence_is_told_with_its_facts_unchanged() -> None:
    text = (
        'eval 1: must check c1 "{n:#} [a|b]" failed in all 2 with_skill runs (runs 1, 2): no quote supports it in run 2'
    )
    told = ZH.told(text)
    assert (
        told
        == 'eval 1：must 检查 c1 "{n:#} [a|b]" 在全部 2 次使用技能的运行中失败（第 1, 2 次运行）：no quote supports it（第 2 次运行）'
    )
    assert ENGLISH.told(text) == text
    assert len(ZH.told("x" * 10_000)) == len("x" * 10_000 + "（原文）")


def test_a_number_takes_its_word() -> None:
    assert ENGLISH.say("count.fail", n=1) == "1 fails"
    assert ENGLISH.say("count.fail", n=2) == "2 fail"
    assert ZH.say("count.fail", n=2) == "2 个不通过"
    with pytest.raises(KeyError):
        ENGLISH.say("count.fail")
    with pytest.raises(KeyError):
        ENGLISH.say("no.such")


DECISION = Path(__file__).parents[3] / "gate"


def test_every_sentence_is_one_that_the_decision_still_says() -> None:
    """A sentence that was reworded there would stay English here: its fixed words must stand in the source."""
    source = "\n".join(_texts_of(DECISION))
    missing = [
        (message.id, words)
        for part in sentences().values()
        for message in part
        for piece in pieces(message.by_language[Language.EN])
        if isinstance(piece, str)
        for words in _fixed_words(piece)
        if words not in source and not (message.id in COMPOSED and all(word in source for word in words.split()))
    ]
    assert missing == []


COMPOSED = {
    "sentence.charge_only", "sentence.forbidden", "sentence.also_holm_over", "sentence.fewer", "sentence.fewer_suite",
    "sentence.duel_lost", "sentence.duel_behind", "sentence.quadrant_high", "sentence.quadrant_low", "sentence.no_reply",
    "sentence.detail_unstable", "sentence.detail_split", "sentence.detail_addresses", "sentence.do_fork",
    "sentence.do_dependabot", "sentence.do_draft", "sentence.do_over_budget",
}  # fmt: skip
"""Sentences that the decision puts together from more than one text."""


def _texts_of(folder: Path) -> Iterator[str]:
    """Every text in the code of a folder, a sentence with facts as its fixed parts."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _fixed_words(piece: str) -> list[str]:
    """Parts of a template that one text of the source must have: what stands between names, numbers and signs."""
    parts = re.split(r"[;:,()\[\]\"]|\b\d+\b|with_skill|without_skill|base_skill|suite-removal|\bB$", piece)
    return [words.strip() for words in parts if len(words.strip()) > 8]
