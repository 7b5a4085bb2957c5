"""The lines and file entries by which a step talks to GitHub's runner, safe against whatever text they carry.

The runner reads commands from both output streams: ``::name k=v::text`` where a line (after white space) begins with it,
and the old ``##[name]text`` anywhere in a line (github-action.md 1.12). So text of others is printed only while commands
are stopped by a token that it cannot know, and is made harmless besides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

ANNOTATION_CHARACTERS = 3_000
"""The runner cuts an annotation at 4,096 bytes or so; ours are cut at a place of our own."""
MINIMUM_TOKEN = 16
"""The runner masks tokens of more than six characters by itself; this many cannot be guessed."""
_LINES = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def annotation(level: Literal["notice", "warning", "error"], message: str, *, title: str = "Skill Gate") -> str:
    """The line that shows ``message`` beside the job. Any text may be in it."""
    if len(message) > ANNOTATION_CHARACTERS:
        message = message[: ANNOTATION_CHARACTERS - 1] + "…"
    return f"::{level} title={_property(title)}::{_data(message)}"


def mask(secret: str) -> tuple[str, ...]:
    """The lines after which the runner blots a secret out of its log: one a line of the secret, none for an empty one."""
    return tuple(f"::add-mask::{_data(line)}" for line in secret.splitlines() if line.strip())


def stop(token: str) -> str:
    """The line after which the runner takes no command until ``resume``. Raises ValueError for a token that could be guessed."""
    _check(token)
    return f"::stop-commands::{token}"


def resume(token: str) -> str:
    """The line that ends ``stop``."""
    _check(token)
    return f"::{token}::"


def _check(token: str) -> None:
    if not re.fullmatch(rf"[0-9a-f]{{{MINIMUM_TOKEN},}}", token):
        raise ValueError(f"a token has at least {MINIMUM_TOKEN} random hex digits")


def harmless(text: str) -> tuple[str, ...]:
    """Untrusted text as lines of a log of which none can be a command, even where commands are not stopped.

    What is invisible shows as an escape, so that nothing moves the cursor or hides.
    """
    return tuple(_harmless_line(line) for line in _LINES.split(text))


def _harmless_line(line: str) -> str:
    shown = "".join(
        c if c.isprintable() or c == "\t" else c.encode("unicode_escape", "backslashreplace").decode("ascii")
        for c in line
    )
    shown = shown.replace("##[", "## [")
    return f"| {shown.lstrip()}" if shown.lstrip().startswith("::") else shown


def file_entry(name: str, value: str, random_hex: Callable[[int], str]) -> str:
    """One entry of GITHUB_OUTPUT or GITHUB_STATE: ``name<<delimiter``, the value, the delimiter.

    The delimiter is drawn anew for each entry and is nowhere in the value, so no value can end its entry early and forge
    another one. Raises ValueError for a name that is no plain word.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise ValueError(f"{name!r} is no name of an output")
    text = value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    while (delimiter := f"skill_gate_{random_hex(16)}") in text:
        pass
    return f"{name}<<{delimiter}\n{text}\n{delimiter}\n"


def entries(values: Mapping[str, str], random_hex: Callable[[int], str]) -> str:
    """Several entries."""
    return "".join(file_entry(name, value, random_hex) for name, value in values.items())


def _data(text: str) -> str:
    """A command's text: what would end its line is escaped, and is a line end again where the runner shows it."""
    text = _LINES.sub("\n", text).encode("utf-8", "replace").decode("utf-8")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
