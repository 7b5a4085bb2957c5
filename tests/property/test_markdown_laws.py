from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reporters.markdown import code, cut, escape, fit, row, size, visible

PIECES = st.sampled_from(
    ["@", "#", "1", "12", "`", "``", "```", "|", "\\", "\\|", "*", "**", "_", "__", "~~", "[", "](", ")", "![", "<", ">",
     "<b>", "<!--", "-->", "&", "&#64;", "&amp;", "http://", "https://", "www.", "mailto:", "a@b.c", ":", ":tada:", "smile",
     "\n", "\r\n", "\t", " ", "    ", "- ", "+ ", "1. ", "> ", "---", "===", "$", "$$", "- [ ] ", "[^1]", "GH-1",
     "</details>", "\u202e", "\u200b", "\x00", "报", "😀", "é", "x", "octocat", "/merge", "deadbeef12", ".", ","]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=14).map("".join), st.text(max_size=60))
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
INLINE = {"text", "text_special", "code_inline"}


def inline_kinds(markdown: str) -> set[str]:
    return {child.type for token in MARKDOWN.parse(markdown) for child in token.children or ()}


def text_of(markdown: str) -> str:
    """What GitHub's filters would look at: the text of the rendered page, outside of code."""
    rendered = re.sub(r"<code>.*?</code>", "", MARKDOWN.render(markdown), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", rendered))


@given(TEXTS)
def test_escaped_text_is_text_in_a_paragraph_a_list_and_a_cell(text: str) -> None:
    escaped = escape(text)
    assert "\n" not in escaped
    assert html.unescape(escaped).replace("\u200b", "") == visible(text)
    if not escaped:
        return
    for before in ("", "x ", "- ", "1. ", "**x** ", "> "):
        assert inline_kinds(before + escaped) <= INLINE | {"strong_open", "strong_close"}
    blocks = [token.type for token in MARKDOWN.parse(escaped)]
    assert blocks == ["paragraph_open", "inline", "paragraph_close"]
    table = MARKDOWN.parse("\n".join([row(["a", "b"]), row(["---", "---"]), row([escaped, "end"])]))
    cells = [token for token in table if token.type == "td_open"]
    assert len(cells) == 2
    assert {child.type for token in table for child in token.children or ()} <= INLINE


@given(TEXTS, st.sampled_from(["", ":", " ", ".", "x"]))
def test_nothing_that_github_finds_in_rendered_text_is_found(text: str, after: str) -> None:
    found = text_of(f"{escape(text)}{after}")
    assert not re.search(r"@[0-9A-Za-z]", found)
    assert not re.search(r"#[0-9]|\bgh-[0-9]", found, re.IGNORECASE)
    assert not re.search(r"://|\bwww\.|\b(?:mailto|xmpp):[^\s\u200b]", found, re.IGNORECASE)
    assert not re.search(r":[A-Za-z0-9_+-]+:", found)
    assert not re.search(r"\b[0-9a-f]{7,}\b", found)


@given(TEXTS)
def test_escaped_text_is_no_markup_in_raw_html_either(text: str) -> None:
    rendered = MARKDOWN.render(f"<details><summary>{escape(text)}</summary>\n\nx\n\n</details>")
    assert re.findall(r"<[^>]*>", rendered) == ["<details>", "<summary>", "</summary>", "<p>", "</p>", "</details>"]


@given(TEXTS)
def test_code_is_one_code_span_with_every_character(text: str) -> None:
    wanted = visible(text) or "(empty)"
    spans = [child for token in MARKDOWN.parse(f"x {code(text)} y") for child in token.children or ()]
    assert [child.content for child in spans if child.type == "code_inline"] == [wanted]
    table = MARKDOWN.parse("\n".join([row(["a"]), row(["---"]), row([code(text, in_table=True)])]))
    assert [child.content for token in table for child in token.children or () if child.type == "code_inline"] == [
        wanted
    ]
    assert sum(token.type == "td_open" for token in table) == 1


@given(TEXTS)
def test_visible_text_is_printable_on_one_line_and_stays_as_it_is(text: str) -> None:
    once = visible(text)
    assert visible(once) == once
    assert "\n" not in once
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff]", once)
    assert once.encode().decode() == once


@given(TEXTS, st.integers(1, 40))
def test_a_cut_is_never_longer_than_asked_and_begins_as_the_text_does(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert len(short) <= limit
    assert short == visible(text) or (short.endswith("…") and visible(text).startswith(short[:-1]))


@given(st.lists(TEXTS.map(escape), max_size=12), st.integers(0, 400))
def test_fitted_lines_take_what_they_say_and_never_more_than_there_is(lines: list[str], room: int) -> None:
    kept, taken = fit(lines, room)
    assert taken == sum(size(line) + 1 for line in kept) <= room
    if kept != lines and kept:
        told = re.fullmatch(r"(\d+) more in report\.html", kept[-1])
        assert told is not None
        assert int(told[1]) + len(kept) - 1 == len(lines)
        assert kept[:-1] == lines[: len(kept) - 1]
