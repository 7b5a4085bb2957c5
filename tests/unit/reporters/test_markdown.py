from __future__ import annotations

import html

import pytest
from markdown_it import MarkdownIt

from reporters.markdown import code, cut, escape, fit, row, size, visible


def shown(markdown: str) -> str:
    """Rendered as GitHub's dialect does, HTML on."""
    rendered: str = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)
    return rendered


def test_what_is_invisible_is_shown() -> None:
    assert visible("a\u202eb\u200bc\x00d\x1be") == "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩d⟨U+001B⟩e"
    assert visible("one\r\n\r\ntwo\tthree\u2028four") == "one ⏎ two three ⏎ four"
    assert visible("\ud800 \U000e0041 \ufe01 \u3164") == "⟨U+D800⟩ ⟨U+E0041⟩ ⟨U+FE01⟩ ⟨U+3164⟩"
    assert visible("报告 é 😀 ❤️") == "报告 é 😀 ❤️"


@pytest.mark.parametrize(
    "text",
    [
        "# heading",
        "- item",
        "+ item",
        "1. item",
        "12) item",
        "> quote",
        "---",
        "===",
        "```python",
        "~~~",
        "    indented",
        "- [ ] task",
        "[x](https://example.org)",
        "![x](https://example.org/x.png)",
        "[ref]: https://example.org",
        "<script>alert(1)</script>",
        "<img src=x onerror=y>",
        "<!-- hidden -->",
        "</details>",
        "**bold** _soft_ __x__ ~~gone~~",
        "`code`",
        "``a`b``",
        "a | b | c",
        "| --- |",
        "a\\|b\\",
        "&lt;b&gt; &#64;",
        "https://example.org/x",
        "<https://example.org>",
        "[^1]",
        "> [!NOTE]",
        "$x$ $$y$$",
        "line\nline\n\n# heading",
        "/approve",
    ],
)
def test_escaped_text_is_one_paragraph_of_plain_text_and_one_table_cell(text: str) -> None:
    def plain(rendered: str) -> str:
        return html.unescape(rendered).replace("\u200b", "")

    assert plain(shown(escape(text))) == f"<p>{visible(text)}</p>\n"
    table = shown("\n".join([row(["a", "b"]), row(["---", "---"]), row([escape(text), "end"])]))
    assert table.count("<td>") == 2
    assert f"<td>{visible(text)}</td>" in plain(table)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("@octocat", "@&#8203;octocat"),
        ("mail a@example.org", "mail a@&#8203;example.org"),
        ("https://x.org", "https:&#8203;//x.org"),
        ("www.x.org", "www&#8203;.x.org"),
        ("see #12 and GH-7", "see #&#8203;12 and GH-&#8203;7"),
        ("see :tada: 12:30:15", "see :&#8203;tada: 12:&#8203;30:&#8203;15"),
        ("ends in :tada", "ends in :&#8203;tada"),
        ("with_skill _x_", "with_skill &#95;x&#95;"),
        (
            "9fceb02d0ae598e95dc970b74767f19372d61af8",
            "9fceb0&#8203;2d0ae5&#8203;98e95d&#8203;c970b7&#8203;4767f1&#8203;9372d6&#8203;1af8",
        ),
    ],
)
def test_what_github_finds_in_rendered_text_is_broken_by_a_zero_width_space(text: str, escaped: str) -> None:
    assert escape(text) == escaped


@pytest.mark.parametrize("text", ["a|b", "`", "``", "a`b", "a\\|b", "\\", "<b>", "@octocat", "", " ", "x\ny", "|"])
def test_code_keeps_every_character_in_a_paragraph_and_in_a_table(text: str) -> None:
    wanted = visible(text) or "(empty)"
    paragraph = html.unescape(shown(f"x {code(text)} y"))
    table = html.unescape(shown("\n".join([row(["a"]), row(["---"]), row([code(text, in_table=True)])])))
    assert f"<code>{wanted}</code>" in paragraph
    assert f"<td><code>{wanted}</code></td>" in table
    assert table.count("<td>") == 1


def test_a_cut_says_so_and_keeps_a_character_whole() -> None:
    assert cut("short", 5) == "short"
    assert cut("longer text", 7) == "longer…"
    assert cut("aaae\u0301e\u0301", 5) == "aaa…"
    assert cut("abc❤️❤️", 5) == "abc…"
    assert len(cut("x" * 1000, 10)) == 10


def test_a_budget_counts_bytes_and_names_what_it_left_out() -> None:
    lines = ["报告" * 5] * 10
    kept, taken = fit(lines, 200)
    assert taken == sum(size(line) + 1 for line in kept) <= 200
    assert kept[-1] == f"{10 - (len(kept) - 1)} more in report.html"
    assert fit(lines, 10_000) == (lines, 310)
    assert fit(lines, 5) == ([], 0)
