"""What untrusted text must go through before a model sees it, and how prompt files are filled.

A fence keeps data apart from instructions for an honest model; it does not stop a determined attacker (judging.md 1.1).
What decides a verdict is therefore code outside the model, never this file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from gate.domain.evidence import Block

_OPEN, _CLOSE = "⟦", "⟧"  # rare in real text, so that escaping them in data hardly ever changes a quote
_TITLE_CHARACTERS = 200

# Zero-width, bidirectional, variation-selector, soft-hyphen and tag characters: invisible, so they are removed. The
# quote check removes them too (judging.md 3.1, T1), which keeps a judge's quote of the cleaned text acceptable.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_C0 = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_LINE_BREAKERS = re.compile("[\x80-\x9f\u2028\u2029]")

# Chat templates of local servers turn such text into control tokens even inside a message. One space breaks each.
_CONTROL_TOKENS = re.compile(
    r"<(?=[|\uff5c])|\[(?=/?INST\])|<(?=<SYS>>|</SYS>>|start_of_turn>|end_of_turn>|/s>)", re.IGNORECASE
)
_PLACEHOLDER = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")
_PROMPT_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Fence:
    """Markers around untrusted text that nobody can forge without knowing the nonce."""

    def __init__(self, nonce: str) -> None:
        """``nonce``: at least 8 hex digits, drawn anew for each model call (``SessionSeed.token``). Raises ValueError."""
        if not re.fullmatch(r"[0-9a-f]{8,64}", nonce):
            raise ValueError("a fence nonce has 8 to 64 lower-case hex digits")
        self.nonce = nonce
        self._nonce = re.compile(nonce, re.IGNORECASE)

    def escape(self, text: str) -> str:
        """``text`` with everything gone that could close this fence, forge a marker or a line, or act as a control token.

        Escaping twice equals escaping once. Ordinary text, also with ``<``, ``@``, code fences and JSON, stays as it is;
        the line count by ``\\n`` never changes (line ids stay valid).
        """
        text = text.replace("\r\n", "\n")
        text = _INVISIBLE.sub("", text)
        text = _SURROGATE.sub("\ufffd", text)
        text = _C0.sub(_picture, text)
        text = _LINE_BREAKERS.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)
        text = text.replace(_OPEN, "[").replace(_CLOSE, "]")
        text = self._nonce.sub("[fence]", text)
        return _CONTROL_TOKENS.sub(lambda found: f"{found[0]} ", text)

    def wrap(self, title: str, text: str) -> str:
        """``text`` between a begin and an end marker, each on a line of its own; ``title`` is escaped too."""
        return f"{self._begin(title)}\n{self.escape(text)}\n{self._end()}"

    def numbered(self, block: Block) -> str:
        """A block with a line id in front of every line: ``B001:12|text``."""
        lines = (f"{block.id}:{number}|{line}" for number, line in enumerate(self.escape(block.text).split("\n"), 1))
        return "\n".join([self._begin(f"{block.id} {block.kind}: {block.title}"), *lines, self._end()])

    def _begin(self, title: str) -> str:
        line = " ".join(self.escape(title).split())[:_TITLE_CHARACTERS]
        return f"{_OPEN}begin {self.nonce} {line}{_CLOSE}"

    def _end(self) -> str:
        return f"{_OPEN}end {self.nonce}{_CLOSE}"


def _picture(found: re.Match[str]) -> str:
    """The visible picture of a C0 control character (U+2400 block); DEL has its own."""
    code = ord(found[0])
    return "\u2421" if code == 0x7F else chr(0x2400 + code)


def numbered(blocks: Sequence[Block], fence: Fence) -> str:
    """Every block inside its own fence, every line with its id; a blank line between blocks."""
    return "\n\n".join(fence.numbered(block) for block in blocks)


def fill(template: str, values: Mapping[str, str]) -> str:
    """``template`` with each ``{{name}}`` replaced by ``values[name]``, once: a value is never expanded itself.

    Raises ValueError for a placeholder without a value, a value without a placeholder, and ``{{`` or ``}}`` that is
    part of no placeholder.
    """
    wanted = set(_PLACEHOLDER.findall(template))
    bare = _PLACEHOLDER.sub("", template)
    if "{{" in bare or "}}" in bare:
        raise ValueError("the prompt has braces that are no placeholder (lower-case letters, digits, underscores)")
    missing, unused = sorted(wanted - set(values)), sorted(set(values) - wanted)
    if missing or unused:
        raise ValueError(f"prompt values do not fit: missing {missing}, unused {unused}")
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


def load_prompt(name: str, /, **values: str) -> str:
    """The prompt ``gate/llm/prompts/<name>.md``, filled. Raises ValueError as ``fill``, and for an unknown name."""
    return fill(_template(name), values)


@cache
def _template(name: str) -> str:
    if not _PROMPT_NAME.fullmatch(name):
        raise ValueError(f"not a prompt name: {name!r}")
    path = files("gate.llm") / "prompts" / f"{name}.md"
    if not path.is_file():
        raise ValueError(f"there is no prompt {name!r}")
    return path.read_text(encoding="utf-8").replace("\r\n", "\n").strip()
