"""What is quoted stands in the record: no forgery is accepted, and no honest quote refused, over generated records."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gate.domain.evidence import Tier
from gate.domain.judgement import QuoteVerdict as Q
from gate.evidence.quotes import MAXIMUM_PLACES, QuoteIndex, check_quote, normalise
from tests.builders import a_block

BOTH = frozenset({1, 2})
ALL = frozenset({1, 2, 3})

WORDS = "saved draft report total euros manager status docStatus 差旅费 草稿 已保存 提交 résumé Köln déjà naïve the not never was"
word = st.sampled_from(WORDS.split(" "))
number = st.integers(0, 99_999).map(str)
mark = st.sampled_from(['"', ":", ", ", " ", " ", "\n", "{", "}", "-", ".", "'"])
piece = st.builds("".join, st.tuples(word, mark, number, mark))
record = st.lists(piece, min_size=6, max_size=30).map("".join)


def drawn_quote(data: st.DataObject, text: str) -> str:
    """A substring that is long enough to be evidence."""
    start = data.draw(st.integers(0, len(text) - 20))
    quote = text[start : start + data.draw(st.integers(16, 60))]
    assume(sum(not char.isspace() for char in quote) >= 8)
    return quote


def occurrences(text: str, quote: str) -> int:
    return sum(text.startswith(quote, start) for start in range(len(text)))


@pytest.mark.requirements("R37", "R41")
@settings(max_examples=200)
@given(record, st.data())
def test_every_exact_substring_is_accepted_as_it_is(text: str, data: st.DataObject) -> None:
    quote = drawn_quote(data, text)
    assume(occurrences(text, quote) <= MAXIMUM_PLACES)
    found = check_quote(quote, "B001", [a_block(text)], allowed_tiers=BOTH)
    assert found.verdict is Q.EXACT
    assert found.start is not None
    assert text[found.start : found.end] == quote
    assert found.line == text[: found.start].count("\n") + 1
    assert quote.strip("\n") in found.expanded
    assert f"\n{found.expanded}\n" in f"\n{text}\n"


Change = Callable[[str], str]
FORGERIES: dict[str, Callable[[str, int], str]] = {
    "digit": lambda quote, at: _changed(quote, at, str.isdigit, lambda char: str((int(char) + 1) % 10)),
    "homoglyph": lambda quote, at: _changed(
        quote, at, lambda c: c in "aeopcs", lambda c: "\u0430\u0435\u043e\u0440\u0441\u0455"["aeopcs".index(c)]
    ),
    "case": lambda quote, at: _changed(quote, at, lambda c: c.isascii() and c.isalpha(), str.swapcase),
    "superscript": lambda quote, at: _changed(quote, at, lambda c: c in "0123456789", lambda c: "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)]),
    "circled": lambda quote, at: _changed(quote, at, lambda c: c in "123456789", lambda c: chr(0x245F + int(c))),
    "letter": lambda quote, at: _changed(quote, at, str.isalpha, lambda _: "ø"),
    "traditional": lambda quote, at: _changed(quote, at, lambda c: c == "费", lambda _: "費"),
    "accent lost": lambda quote, at: _changed(
        quote, at, lambda c: c in "éöàï", lambda c: unicodedata.normalize("NFD", c)[0]
    ),
    "letter doubled": lambda quote, at: _changed(quote, at, str.isalnum, lambda c: c + c),
    "letter gone": lambda quote, at: _changed(quote, at, str.isalnum, lambda _: ""),
    "space added": lambda quote, at: _changed(quote, at, str.isdigit, lambda c: f"{c} {c}"),
    "ending": lambda quote, _: f"{quote} and approved",
    "beginning": lambda quote, _: f"never {quote}",
}


def _changed(quote: str, at: int, where: Callable[[str], bool], how: Change) -> str:
    places = [index for index, char in enumerate(quote) if where(char)]
    assume(places)
    place = places[at % len(places)]
    return quote[:place] + how(quote[place]) + quote[place + 1 :]


@pytest.mark.requirements("R37")
@settings(max_examples=80, suppress_health_check=[HealthCheck.filter_too_much])
@pytest.mark.parametrize("kind", list(FORGERIES))
@given(text=record, data=st.data())
def test_no_forged_quote_is_accepted(kind: str, text: str, data: st.DataObject) -> None:
    quote = FORGERIES[kind](drawn_quote(data, text), data.draw(st.integers(0, 1000)))
    assume(normalise(quote).strip() not in normalise(text))
    disguise = data.draw(st.sampled_from(["", "\u200b", "\u202e", "\ufe0f"]))
    middle = len(quote) // 2
    found = check_quote(quote[:middle] + disguise + quote[middle:], "B001", [a_block(text)], allowed_tiers=ALL)
    assert found.verdict is Q.NOT_FOUND


def _cr_lf(text: str) -> str:
    return text.replace("\n", "\r\n")


def _full_width(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def _typographic(text: str) -> str:
    return text.replace('"', "\u201d").replace("'", "\u2019").replace("-", "\u2013").replace(" ", "\u00a0")


def _json_ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _spread(text: str) -> str:
    return text.replace(" ", "  \t").replace("\n", " \n\n")


def _nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


HONEST: dict[str, Change] = {
    function.__name__: function for function in (_cr_lf, _full_width, _typographic, _json_ascii, _json, _spread, _nfd)
}


@settings(max_examples=80)
@pytest.mark.parametrize("clothes", list(HONEST))
@given(text=record, data=st.data())
def test_an_honest_quote_is_accepted_whichever_side_wears_the_clothes(
    clothes: str, text: str, data: st.DataObject
) -> None:
    quote = drawn_quote(data, text).strip()
    assume(occurrences(normalise(text), normalise(quote)) <= MAXIMUM_PLACES)
    dressed = HONEST[clothes]
    for shown, said in ((dressed(text), quote), (text, dressed(quote))):
        found = check_quote(said, "B001", [a_block(shown)], allowed_tiers=BOTH)
        assert found.verdict.accepted, (shown, said)
        assert found.start is not None
        # The offsets are into the block's own text: what stands there is the quote again, in its clothes.
        place = shown[found.start : found.end]
        assert normalise(place).strip() == normalise(said).strip() or place in (said, quote) or "\\" in place + said


@pytest.mark.requirements("R29", "R59")
@settings(max_examples=120)
@given(text=record, data=st.data())
def test_a_quote_of_a_note_is_never_accepted(text: str, data: st.DataObject) -> None:
    quote = drawn_quote(data, text)
    blocks = [a_block("Status: success", number=1), a_block(text, number=2, tier=Tier.NOTES)]
    source = data.draw(st.sampled_from(["B001", "B002", "B002:1", "B001:1", "B003", ""]))
    allowed = data.draw(st.sampled_from([frozenset({3}), ALL, BOTH]))
    assert not check_quote(quote, source, blocks, allowed_tiers=allowed).verdict.accepted


@settings(max_examples=120)
@given(texts=st.lists(record, min_size=2, max_size=4), data=st.data())
def test_an_accepted_quote_stands_in_the_block_that_was_named(texts: list[str], data: st.DataObject) -> None:
    tiers = [data.draw(st.sampled_from(list(Tier))) for _ in texts]
    blocks = [
        a_block(text, number=place, tier=tier) for place, (text, tier) in enumerate(zip(texts, tiers, strict=True), 1)
    ]
    quote = drawn_quote(data, data.draw(st.sampled_from(texts)))
    named = data.draw(st.sampled_from(blocks))
    allowed = data.draw(st.sampled_from([frozenset({1}), frozenset({2}), BOTH]))
    found = QuoteIndex(blocks).check(quote, named.id, allowed_tiers=allowed)
    if found.verdict.accepted:
        assert named.tier in allowed
        assert found.tier == named.tier
        assert normalise(quote).strip() in normalise(named.text)
    else:
        places = sum(occurrences(block.text, quote) for block in blocks)
        assert named.tier not in allowed or quote not in named.text or places > MAXIMUM_PLACES


@settings(max_examples=120)
@given(text=record, data=st.data())
def test_an_ellipsis_never_joins_what_the_record_has_in_another_order(text: str, data: st.DataObject) -> None:
    first, second = drawn_quote(data, text), drawn_quote(data, text)
    assume(first not in text[text.find(second) :] and second not in text[: text.find(first) + len(first)])
    joined = f"{second}[...]{first}"
    assume(second in text and first in text)
    assume(normalise(first).strip() not in normalise(text[text.find(second) + len(second) :]))
    assert check_quote(joined, "B001", [a_block(text)], allowed_tiers=BOTH).verdict is Q.NOT_FOUND


@settings(max_examples=200)
@given(
    quote=st.text(st.characters(codec=None)),
    source=st.text(),
    texts=st.lists(st.text(st.characters(codec=None)), max_size=3),
)
def test_any_quote_of_anything_gets_a_verdict(quote: str, source: str, texts: list[str]) -> None:
    blocks = [a_block(text, number=place) for place, text in enumerate(texts, 1)]
    index = QuoteIndex(blocks)
    for named in (source, "B001", "B002:1"):
        found = index.check(quote, named, allowed_tiers=BOTH)
        assert found.verdict.accepted == (found.start is not None) == (found.tier is not None)


@settings(max_examples=200)
@given(st.text(st.characters(codec=None)))
def test_normalising_twice_equals_normalising_once(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once or not unicodedata.is_normalized("NFC", once)
