"""Which files of a skill its own texts name: an agent that reads a text opens what the text speaks of."""

from __future__ import annotations

import posixpath
import re
import urllib.parse
from collections.abc import Iterable

from gate.domain.skill import PROGRAM_SUFFIXES

_EDGE = r"(?<![\w-])"
_END = r"(?![\w-]|\.\w)"
_BARE = r"(?<=[/\\`\"'(])"


class Mentions:
    """The texts of a skill, ready to be asked many times. Case is folded, and percent signs are read."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        whole = "\n".join(data.replace(b"\0", b"").decode("utf-8", "replace") for data in texts)
        self._exact = whole
        self._folded = whole.casefold()
        if "%" in self._folded:
            self._folded += "\n" + urllib.parse.unquote(self._folded, errors="replace")

    def of(self, path: str) -> bool:
        """Whether a text speaks of a file of the skill (path relative to its folder).

        By its name, where it is a program or lies at the root; by its name and the folder it lies in otherwise, as a name
        alone (``data.csv``) can be anything. A name without an end (``LICENSE``) is also a word: it counts as it is
        written, or where it stands in a path, in quotes or in code.
        """
        folded = path.casefold()
        folder, name = posixpath.split(folded)
        if name not in self._folded:
            return False
        if "." not in name:
            written = posixpath.basename(path)
            return self._found(f"{_BARE}{re.escape(name)}{_END}") or bool(
                re.search(f"{_EDGE}{re.escape(written)}{_END}", self._exact)
            )
        if not folder or name.endswith(PROGRAM_SUFFIXES):
            return self._found(f"{_EDGE}{re.escape(name)}{_END}")
        return self._found(f"{re.escape(posixpath.basename(folder))}[/\\\\]+(?:\\./)*{re.escape(name)}{_END}")

    def _found(self, pattern: str) -> bool:
        return re.search(pattern, self._folded) is not None
