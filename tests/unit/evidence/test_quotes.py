# ruff: noqa: RUF001 - full-width and look-alike characters are what these tests are about
from __future__ import annotations

import json
import time
import unicodedata

import pytest

from gate.domain.evidence import Block, Tier
from gate.domain.judgement import QuoteVerdict as Q
from gate.evidence.quotes import MAXIMUM_GAP, QuoteIndex, check_quote, nearest
from gate.llm.prompting import Fence
from tests.builders import a_block, some_blocks

BOTH = frozenset({1, 2})

SAVE = 'Tool: saveDoc\nArgs: {"docStatus":"10","type":"差旅费"}\nStatus: success\nReturn:\n{"code":"200","body":"a1b2c3d4"}'
RESPONSE = (
    "The draft was saved under a1b2c3d4.\nIt was never submitted to the manager.\n总金额为 1250 元，已保存为草稿。"
)
NOTE = "I believe that everything went perfectly well."
BLOCKS = (
    a_block(SAVE, number=1),
    a_block(RESPONSE, number=2, tier=Tier.OUTPUT),
    a_block(NOTE, number=3, tier=Tier.NOTES),
)


def verdict(text: str, source: str = "B001", allowed: frozenset[int] = BOTH) -> Q:
    return check_quote(text, source, BLOCKS, allowed_tiers=allowed).verdict


@pytest.mark.requirements("R37", "R41")
def test_an_exact_quote_is_found_with_its_place() -> None:
    quote = check_quote('"code":"200"', "B001", BLOCKS, allowed_tiers=BOTH)
    assert quote.verdict is Q.EXACT
    assert (quote.tier, quote.line) == (1, 5)
    assert quote.start is not None
    assert SAVE[quote.start : quote.end] == '"code":"200"'
    assert quote.expanded == '{"code":"200","body":"a1b2c3d4"}'
    assert quote.invisible == 0


def test_expanded_evidence_is_whole_lines_so_that_a_cut_negation_shows() -> None:
    quote = check_quote("submitted to the manager", "B002", BLOCKS, allowed_tiers=BOTH)
    assert quote.expanded == "It was never submitted to the manager."


def test_expanded_evidence_of_a_quote_over_lines_is_all_of_them() -> None:
    quote = check_quote("a1b2c3d4.\nIt was never", "B002", BLOCKS, allowed_tiers=BOTH)
    assert (quote.line, quote.expanded) == (1, "\n".join(RESPONSE.split("\n")[:2]))


def test_a_very_long_line_is_not_expanded_to_all_that_it_holds() -> None:
    text = "7" * 50_000 + '"total": 1250' + "8" * 50_000
    quote = check_quote('"total": 1250', "B001", [a_block(text)], allowed_tiers=BOTH)
    assert quote.verdict is Q.EXACT
    assert len(quote.expanded) < 3_000
    assert '"total": 1250' in quote.expanded


HONEST = {
    "carriage returns": ("one line\r\nand another one", "one line\nand another one", Q.NORMALISED),
    "more spaces": ("total:  \t 1250 euros", "total: 1250 euros", Q.NORMALISED),
    "no-break space": ("total:\u00a01250\u202feuros", "total: 1250 euros", Q.NORMALISED),
    "ideographic space": ("总计：\u30001250 元整", "总计： 1250 元整", Q.NORMALISED),
    "decomposed": (unicodedata.normalize("NFD", "déjà vu à Köln"), "déjà vu à Köln", Q.NORMALISED),
    "composed": ("déjà vu à Köln", unicodedata.normalize("NFD", "déjà vu à Köln"), Q.NORMALISED),
    "hangul": (unicodedata.normalize("NFD", "저장되었습니다"), "저장되었습니다", Q.NORMALISED),
    "full width": ("文件（Ａ１２３）已保存", "文件(A123)已保存", Q.NORMALISED),
    "full-width quote": ("file (A123) is saved", "file （Ａ１２３） is saved", Q.NORMALISED),
    "curly quotes": ("it\u2019s \u201cdone\u201d now", 'it\'s "done" now', Q.NORMALISED),
    "dashes": ("pages 3\u20135 \u2014 all read", "pages 3-5 - all read", Q.NORMALISED),
    "ellipsis character": ("wait\u2026 it is done", "wait... it is done", Q.NORMALISED),
    "soft hyphen": ("docu\u00admentation", "documentation", Q.NORMALISED),
    "control picture": ("\x1b[31mError 17\x1b[0m", "\u241b[31mError 17", Q.NORMALISED),
    "plain brackets": ("\u27e6begin of data\u27e7", "[begin of data]", Q.NORMALISED),
    "line separator as shown": ("one\u2028line\x85more", "one[U+2028]line[U+0085]more", Q.NORMALISED),
    "control as shown": ("value \x91kept\x92 here", "value [U+0091]kept[U+0092] here", Q.NORMALISED),
    "control token as shown": ("<|im_start|>log [INST] a [/INST]", "< |im_start|>log [ INST] a [ /INST]", Q.NORMALISED),
    "escaped quotes": (r'{"msg":"say \"hello\" now"}', 'say "hello" now', Q.UNESCAPED),
    "escaped letters": (r'{"type":"\u5dee\u65c5\u8d39\u7528"}', "差旅费用", Q.UNESCAPED),
    "escaped line feed": (r'{"text":"first row\nsecond row"}', "first row\nsecond row", Q.UNESCAPED),
    "escaped emoji": (r"status \ud83d\ude00 is fine", "status 😀 is fine", Q.UNESCAPED),
    "escaped once more": ('{"docStatus":"10"}', r"{\"docStatus\":\"10\"}", Q.UNESCAPED),
    "quote escaped to ASCII": ("已保存为草稿了", json.dumps("已保存为草稿了")[1:-1], Q.UNESCAPED),
    "escaped and spaced": (r'{"m":"say  \"hello\"  now"}', 'say "hello" now', Q.UNESCAPED),
}


def test_whatever_a_judge_is_shown_can_be_quoted() -> None:
    record = "a\x00b\x1b[0m c\u2028d\x85e\u2029f\x91g <|im_start|>h [INST]i[/INST] <<SYS>>j</s> \u27e6begin\u27e7 k\u200bl\ufeffm \U000e0041n"
    shown = Fence("5e" * 8).escape(record)
    assert shown != record
    assert check_quote(shown, "B001", [a_block(record)], allowed_tiers=BOTH).verdict is Q.NORMALISED


@pytest.mark.parametrize("name", list(HONEST))
def test_an_honest_quote_in_other_clothes_is_found(name: str) -> None:
    record, text, expected = HONEST[name]
    before, after = "something before\n", "\nsomething after"
    quote = check_quote(text, "B001", [a_block(f"{before}{record}{after}")], allowed_tiers=BOTH)
    assert quote.verdict is expected
    assert quote.start is not None
    assert quote.end is not None
    assert len(before) <= quote.start < quote.end <= len(before) + len(record)
    assert quote.expanded.replace("\r", "") in record.replace("\r", "")


FORGED = {
    "digit": '"docStatus":"20"',
    "status code": '"code":"500"',
    "letter": '"body":"a1b2c3d5"',
    "homoglyph": '"docSt\u0430tus":"10"',
    "other case": '"DOCSTATUS":"10"',
    "superscript": '"docStatus":"1\u2070"',
    "mathematical digits": '"docStatus":"\U0001d7cf\U0001d7ce"',
    "arabic digits": '"docStatus":"\u0661\u0660"',
    "word added": '"docStatus" is "10"',
    "splice": '"docStatus":"200"',
    "other order": '"type":"差旅费","docStatus":"10"',
    "spaces gone": "Status:success\nReturn",
    "space inside": '"doc Status":"10"',
    "combining mark": '"docStatus":"10\u0338"',
}


@pytest.mark.parametrize("name", list(FORGED))
def test_a_forged_quote_is_not_found(name: str) -> None:
    assert verdict(FORGED[name]) is Q.NOT_FOUND


def test_invisible_characters_are_passed_over_but_reported() -> None:
    quote = check_quote('"docSta\u200btus":"1\u20600"', "B001", BLOCKS, allowed_tiers=BOTH)
    assert (quote.verdict, quote.invisible) == (Q.NORMALISED, 2)
    hidden = check_quote("the total is 1250", "B001", [a_block("the total is 1\u202e25\u202c0")], allowed_tiers=BOTH)
    assert (hidden.verdict, hidden.invisible) == (Q.NORMALISED, 2)


def test_invisible_characters_do_not_make_a_quote_long_enough() -> None:
    assert verdict('"10"\u200b\u200b\u200b\u200b\u200b\u200b') is Q.TOO_SHORT
    assert verdict(r"\u0022\u0031\u0030\u0022") is Q.TOO_SHORT


@pytest.mark.parametrize(
    ("text", "enough"), [("差旅费", False), ("已保存为", True), ("success", False), ("Status: success", True)]
)
def test_a_quote_has_eight_characters_or_four_of_cjk(text: str, enough: bool) -> None:
    assert (verdict(text, "B001" if "s" in text else "B002") is not Q.TOO_SHORT) is enough


@pytest.mark.parametrize("text", ["", "        ", '"}}]],{[[":"', "...", "\u2026\u2026\u2026\u2026"])
def test_a_quote_without_a_letter_or_digit_says_nothing(text: str) -> None:
    assert verdict(text) is Q.TOO_SHORT


ANSWERS = (
    a_block("42 \u2190 42 42", number=1, title="Step 1: bash"),
    a_block("42\n", number=2, tier=Tier.OUTPUT),
    a_block("42", number=3, tier=Tier.NOTES),
    Block(id="B004", tier=Tier.OUTPUT, kind="outputs", title="answer.txt", text="\u200b差旅\r\n"),
    a_block("ok", number=5),
    a_block("43", number=6, tier=Tier.OUTPUT),
)


@pytest.mark.requirements("R37", "R41")
@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("42", "B002", Q.EXACT),
        (" 42", "B002", Q.NORMALISED),
        ("42", "B002:7", Q.EXACT),
        ("\uff14\uff12", "B002", Q.NORMALISED),
        ("差旅", "B004:1", Q.EXACT),
        ("43", "B006", Q.EXACT),
        ("43", "B002", Q.TOO_SHORT),
        ("4", "B002", Q.TOO_SHORT),
        ("4\u2070", "B006", Q.TOO_SHORT),
        ("差", "B004", Q.TOO_SHORT),
        ("42", "B001", Q.TOO_SHORT),
        ("42", "B003", Q.TOO_SHORT),
        ("ok", "B005", Q.TOO_SHORT),
        ("42", "B009", Q.TOO_SHORT),
        ("42...", "B002", Q.TOO_SHORT),
    ],
)
def test_a_short_quote_counts_only_where_it_is_all_of_a_response_or_an_output(
    text: str, source: str, expected: Q
) -> None:
    quote = check_quote(text, source, ANSWERS, allowed_tiers=BOTH)
    assert quote.verdict is expected
    if expected.accepted:
        assert quote.tier == 2
        assert quote.start is not None


def test_a_short_quote_is_no_evidence_where_only_tool_calls_are() -> None:
    assert check_quote("42", "B002", ANSWERS, allowed_tiers=frozenset({1})).verdict is Q.WRONG_SOURCE


def test_an_answer_without_a_letter_or_digit_cannot_be_quoted() -> None:
    assert check_quote("...", "B001", [a_block("...", tier=Tier.OUTPUT)], allowed_tiers=BOTH).verdict is Q.TOO_SHORT


@pytest.mark.requirements("R29", "R59")
def test_a_note_is_never_evidence() -> None:
    assert verdict(NOTE, "B003") is Q.NOTES_ONLY
    assert verdict(NOTE, "B003", frozenset({1, 2, 3})) is Q.NOTES_ONLY
    assert verdict(NOTE, "B001") is Q.NOTES_ONLY


@pytest.mark.parametrize("source", ["B009", "", "SKILL.md", "the response", "B001, B002", "B001:5:6"])
def test_a_source_that_is_no_block_is_wrong(source: str) -> None:
    assert verdict('"code":"200"', source) is Q.WRONG_SOURCE


@pytest.mark.parametrize("source", ["B001", "b1", "[B001]", "B001:5", "B001:L5", "B001:4-5", "B001:5|", " B001 "])
def test_a_source_may_be_written_in_the_usual_ways(source: str) -> None:
    assert verdict('"code":"200"', source) is Q.EXACT


def test_a_quote_of_another_block_is_of_the_wrong_source() -> None:
    assert verdict('"code":"200"', "B002") is Q.WRONG_SOURCE


def test_a_tier_that_is_not_allowed_is_the_wrong_source() -> None:
    assert verdict("The draft was saved", "B002", frozenset({1})) is Q.WRONG_SOURCE
    assert verdict("The draft was saved", "B002", frozenset({1, 2})) is Q.EXACT


def test_a_text_that_stands_everywhere_needs_the_line() -> None:
    blocks = some_blocks("Status: success\nok one", "x\nStatus: success", "Status: success\nStatus: success")
    index = QuoteIndex(blocks)
    assert index.check("Status: success", "B002", allowed_tiers=BOTH).verdict is Q.AMBIGUOUS
    assert index.check("Status: success", "B002:1", allowed_tiers=BOTH).verdict is Q.AMBIGUOUS
    assert index.check("Status: success", "B002:2", allowed_tiers=BOTH).verdict is Q.EXACT
    assert index.check("Status: success", "B003:2", allowed_tiers=BOTH).line == 2
    assert QuoteIndex(blocks[:2]).check("Status: success", "B002", allowed_tiers=BOTH).verdict is Q.EXACT


def test_a_wrong_line_does_no_harm_where_the_place_is_clear() -> None:
    quote = check_quote('"code":"200"', "B001:2", BLOCKS, allowed_tiers=BOTH)
    assert (quote.verdict, quote.line) == (Q.EXACT, 5)


LONG = "The report was written to disk, and after a short check it was not sent to anybody at all today."


@pytest.mark.parametrize("dots", ["...", " … ", "[...]", " [\u2026] ", "....."])
def test_a_quote_may_leave_something_out_and_what_is_left_out_is_shown(dots: str) -> None:
    quote = check_quote(f"The report was written{dots}sent to anybody", "B001", [a_block(LONG)], allowed_tiers=BOTH)
    assert quote.verdict is Q.ELLIPSIS
    assert quote.expanded == LONG


@pytest.mark.parametrize(
    "text",
    [
        "sent to anybody at all...The report was written",
        "The report...sent to anybody at all",
        "The report was written...sent to everybody",
        "...".join(["The report was"] * 8),
    ],
    ids=["other order", "piece too short", "piece forged", "too many pieces"],
)
def test_an_ellipsis_is_no_licence(text: str) -> None:
    assert verdict_in(LONG, text) is Q.NOT_FOUND


def verdict_in(record: str, text: str) -> Q:
    return check_quote(text, "B001", [a_block(record)], allowed_tiers=BOTH).verdict


@pytest.mark.parametrize(("gap", "expected"), [(MAXIMUM_GAP, Q.ELLIPSIS), (MAXIMUM_GAP + 1, Q.NOT_FOUND)])
def test_an_ellipsis_leaves_out_at_most_four_hundred_characters(gap: int, expected: Q) -> None:
    record = f"the first piece here{'.' * gap}the second piece here"
    assert verdict_in(record, "the first piece here [...] the second piece here") is expected


def test_an_ellipsis_finds_the_pieces_that_belong_together() -> None:
    record = (
        "the first piece\n"
        + "x" * 1000
        + "the first piece and\u00a0the second piece"
        + "y" * 1000
        + "and the second piece"
    )
    assert verdict_in(record, "the first piece...the second piece") is Q.ELLIPSIS


def test_pieces_of_an_ellipsis_stand_in_one_block() -> None:
    blocks = some_blocks("the first piece here", "the second piece here")
    quote = check_quote("the first piece here...the second piece here", "B001", blocks, allowed_tiers=BOTH)
    assert quote.verdict is Q.NOT_FOUND


def test_dots_that_stand_in_the_record_are_quoted_as_they_are() -> None:
    assert verdict_in("loading... done in 3 s", "loading... done") is Q.EXACT


def test_a_hostile_record_does_not_make_a_check_slow() -> None:
    index = QuoteIndex(some_blocks("ab" * 500_000, "\\u00" * 250_000, "e\u0301 " * 300_000))
    began = time.process_time()
    for _ in range(3):
        index.check("abababababab...abababababab...cdcdcdcdcdcd", "B001", allowed_tiers=BOTH)
        index.check("nowhere in the record", "B002", allowed_tiers=BOTH)
    assert time.process_time() - began < 30  # seconds of work, not of waiting; quadratic search would take hours


def test_the_nearest_line_is_a_hint_with_its_place() -> None:
    assert nearest('"docStatus":"20"', BLOCKS) == 'B001:2: Args: {"docStatus":"10","type":"差旅费"}'
    assert nearest("总金额为 1350 元", BLOCKS).startswith("B002:3: ")


def test_notes_are_no_hint_and_nothing_alike_is_no_hint() -> None:
    assert nearest("everything went perfectly", BLOCKS) == ""
    assert nearest("zebra quagga", BLOCKS) == ""
    assert nearest("", BLOCKS) == ""
