"""What untrusted text must go through before a person's terminal, or a runner that reads its output, sees it."""

from __future__ import annotations

import textwrap


def visible(text: str) -> str:
    """One line that steers nothing: control, direction and line-break characters are shown as escapes.

    A runner takes a line that begins with ``::`` for a command, and ``##[`` anywhere in a line (github-action.md 1.12):
    neither can come out of this.
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    shown = shown.replace("##[", "#\\x23[")
    stripped = shown.lstrip()
    return shown if not stripped.startswith("::") else shown.replace("::", ":\\x3a", 1)


def fitted(text: str, width: int) -> list[str]:
    """One line as those that a terminal of ``width`` columns has room for: broken between words, never inside one, the further
    ones set in. A line that cannot be broken stays as it is."""
    indent = " " * (len(text) - len(text.lstrip()))
    further = f"{indent}    "
    return textwrap.wrap(
        text, max(width, 20), subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    ) or [text]
