"""What untrusted text must go through before a person's terminal, or a runner that reads its output, sees it."""

from __future__ import annotations


def visible(text: str) -> str:
    """One line that steers nothing: control, direction and line-break characters are shown as escapes.

    A runner takes a line that begins with ``::`` for a command, and ``##[`` anywhere in a line (github-action.md 1.12):
    neither can come out of this.
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    shown = shown.replace("##[", "#\\x23[")
    stripped = shown.lstrip()
    return shown if not stripped.startswith("::") else shown.replace("::", ":\\x3a", 1)
