"""A comment as GitHub shows it: its dialect of Markdown, rendered, in a page that looks like a pull request's.

``rendered`` is the oracle for what a comment becomes: CommonMark with tables, strikethrough, task lists and raw HTML. What
GitHub does to the text afterwards (mentions, references, bare links, emoji) is looked for by ``tests.hostile_text``.
"""

from __future__ import annotations

from markdown_it import MarkdownIt

_DIALECT = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

STYLE = """
:root { color-scheme: light dark; --fg: #1f2328; --soft: #59636e; --bg: #fff; --line: #d1d9e0; --code: #818b981f; --zebra: #f6f8fa; --link: #0969da; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #f0f6fc; --soft: #9198a1; --bg: #0d1117; --line: #3d444d; --code: #656c7633; --zebra: #151b23; --link: #4493f8; }
}
body { margin: 0; background: var(--bg); color: var(--fg); font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, "Noto Sans CJK SC", sans-serif; }
.comment { max-width: 900px; margin: 16px auto; border: 1px solid var(--line); border-radius: 6px; padding: 15px 16px; overflow-wrap: break-word; }
@media (max-width: 600px) { .comment { margin: 8px; } }
h2 { font-size: 1.5em; line-height: 1.25; margin: 0 0 16px; padding-bottom: .3em; border-bottom: 1px solid var(--line); }
p, ul, ol, table, details { margin: 0 0 16px; }
ul, ol { padding-left: 2em; } li + li { margin-top: .25em; }
a { color: var(--link); }
code { font: 85% ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; background: var(--code); padding: .2em .4em; border-radius: 6px; white-space: break-spaces; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse; }
th, td { padding: 6px 13px; border: 1px solid var(--line); } tr:nth-child(2n) { background: var(--zebra); } th { font-weight: 600; }
sub { font-size: 75%; line-height: 0; position: relative; vertical-align: baseline; bottom: -.25em; }
summary { cursor: pointer; }
"""


def rendered(comment: str) -> str:
    """The HTML that GitHub's dialect makes of a comment."""
    made: str = _DIALECT.render(comment)
    return made


def page(comment: str) -> str:
    """A whole page around it."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style>'
    return f'<!doctype html><html><head>{head}</head><body><div class="comment">{rendered(comment)}</div></body></html>'
