"""Names of branches and tags: what git takes for one, and nothing that a command could take for an option."""

from __future__ import annotations

import re

MAX_NAME = 250
"""Characters of a name that is taken."""
_PART = r"(?!\.)(?:(?!\.\.|@\{|\.lock(?:/|$)|\.$)[^\x00-\x20\x7f~^:?*\[\\/])+"
NAME = rf"(?!-){_PART}(?:/{_PART})*"
"""A regular expression for a whole name, without ``refs/heads/``, by the rules of git-check-ref-format(1); with ``$`` behind it
also for JSON Schema. Of names of branches git itself refuses a leading dash too."""
_WHOLE = re.compile(NAME)


def is_name(text: str) -> bool:
    """Whether a branch or a tag can have this name, which is at most ``MAX_NAME`` characters long and can be written down."""
    return len(text) <= MAX_NAME and _WHOLE.fullmatch(text) is not None and _is_utf8(text)


def _is_utf8(text: str) -> bool:
    """Half of a surrogate pair comes out of JSON, and fits into no command line."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
