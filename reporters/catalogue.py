"""What the gate says to people, in every language that it speaks: tables of messages in ``reporters/messages``.

A message has an id and one template a language. A template holds text and

- ``{name}``: a fact, shown as it is;
- ``{name:#}``: a number, shown as it is;
- ``{name:~}``: a fact that is itself a sentence of the gate, told in the reader's language where it is known;
- ``{name:*}``: the same, and it may be empty;
- ``{name:a|b}``: one of these words, shown by the message ``word.a`` or ``word.b`` where there is one;
- ``{name:assertion}``, ``{name:runs}``, ``{name:cases}``, ``{name:harms}``: a fact of a known form (``SHAPES``), told like a sentence;
- ``[case|cases]``: the word for one, or for any other count, by the number that stands before it.

Reporters say their own sentences by id (``own.toml``, ``Speech.say``). Sentences that the decision has put into a report are
English; of those in ``said.toml`` the facts are read out of the English template and put into the reader's (``Speech.told``).
That is done only where the sentence fits exactly one template in exactly one way: the facts in it quote pull requests and
models, and none of them may decide what is a count and what is a quotation. Any other sentence is shown as it was written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from gate.domain.report import Language

LONGEST = 6_000
"""Characters of a sentence that is looked up; a longer one is mostly quotation, and is shown as it is."""
ORDER = ("around", "sentence", "last")
"""Parts of the table in which a sentence is looked up, one after the other."""
_DEEPEST = 6
_PIECE = re.compile(r"\{(?P<name>\w+)(?::(?P<kind>[^}]*))?\}|\[(?P<one>[^\[\]|]*)\|(?P<other>[^\[\]|]*)\]")
SHAPES = {
    "#": r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?%?",
    "assertion": r'(?:must|should|info) (?:check|expectation) .+"',
    "cases": r"[^:]+",
    "runs": r"runs? \d+(?:, \d+)*",
    "harms": r"[a-z ]+ \(V\d\)(?:, [a-z ]+ \(V\d\))*",
}
"""Kinds of facts that have a form of their own: the more of a sentence is fixed, the fewer ways there are to read it."""


@dataclass(frozen=True)
class _Slot:
    name: str
    kind: str


@dataclass(frozen=True)
class _Word:
    one: str
    other: str


_Piece = str | _Slot | _Word


@cache
def pieces(template: str) -> tuple[_Piece, ...]:
    """A template as text, slots and words in the number of a count."""
    found: list[_Piece] = []
    done = 0
    for match in _PIECE.finditer(template):
        if match.start() > done:
            found.append(template[done : match.start()])
        name = match["name"]
        found.append(_Slot(name, match["kind"] or "") if name else _Word(match["one"], match["other"]))
        done = match.end()
    if done < len(template):
        found.append(template[done:])
    return tuple(found)


def slots(template: str) -> frozenset[str]:
    """Names of the facts of a template."""
    return frozenset(piece.name for piece in pieces(template) if isinstance(piece, _Slot))


@dataclass(frozen=True)
class Message:
    """One sentence in every language."""

    id: str
    by_language: Mapping[Language, str]

    def fill(self, language: Language, facts: Mapping[str, str]) -> str:
        """The sentence with its facts. Raises KeyError for a fact that is missing."""
        made: list[str] = []
        count = ""
        for piece in pieces(self.by_language[language]):
            if isinstance(piece, str):
                made.append(piece)
            elif isinstance(piece, _Slot):
                made.append(facts[piece.name])
                if piece.kind == "#":
                    count = facts[piece.name]
            else:
                made.append(piece.one if count == "1" else piece.other)
        return "".join(made)


@dataclass(frozen=True)
class _Reader:
    """Finds a message in an English sentence."""

    message: Message
    kinds: Mapping[str, str]
    anchor: str
    """Longest text of the template: a sentence without it is none of this message."""
    short: re.Pattern[str]
    long: re.Pattern[str]

    def facts(self, text: str) -> Mapping[str, str] | None:
        """The facts of ``text``, None where it is another sentence or can be read in two ways."""
        if self.anchor not in text:
            return None
        first = self.short.fullmatch(text)
        if first is None:
            return None
        # Shortest and longest reading agree: then there is no reading between them.
        last = self.long.fullmatch(text)
        return first.groupdict() if last is not None and first.groupdict() == last.groupdict() else None


def _reader(message: Message) -> _Reader:
    parts = pieces(message.by_language[Language.EN])
    kinds = {piece.name: piece.kind for piece in parts if isinstance(piece, _Slot)}
    texts = [piece for piece in parts if isinstance(piece, str)]

    def pattern(lazy: str) -> re.Pattern[str]:
        return re.compile("".join(_expression(piece, lazy) for piece in parts), re.DOTALL)

    return _Reader(message, kinds, max(texts, key=len, default=""), pattern("?"), pattern(""))


def _expression(piece: _Piece, lazy: str) -> str:
    if isinstance(piece, str):
        return re.escape(piece)
    if isinstance(piece, _Word):
        return f"(?:{re.escape(piece.one)}|{re.escape(piece.other)})"
    if piece.kind in SHAPES:
        return f"(?P<{piece.name}>{SHAPES[piece.kind].replace('.+', f'.+{lazy}')})"
    if "|" in piece.kind:
        return f"(?P<{piece.name}>{'|'.join(map(re.escape, piece.kind.split('|')))})"
    return f"(?P<{piece.name}>.{'*' if piece.kind == '*' else '+'}{lazy})"


def _read(name: str) -> dict[str, dict[str, Message]]:
    """A file of messages by part and id."""
    text = resources.files("reporters").joinpath(f"messages/{name}.toml").read_text(encoding="utf-8")
    return {
        part: {name: Message(f"{part}.{name}", dict(zip(Language, told, strict=True))) for name, told in own.items()}
        for part, own in tomllib.loads(text).items()
    }


@cache
def messages() -> Mapping[str, Message]:
    """The sentences of the reporters by ``part.id``."""
    return {message.id: message for own in _read("own").values() for message in own.values()}


@cache
def sentences() -> Mapping[str, Sequence[Message]]:
    """The sentences that a report holds in English, by part: those of ``ORDER`` and ``part``."""
    return {part: tuple(own.values()) for part, own in _read("said").items()}


@cache
def _readers(part: str) -> Sequence[_Reader]:
    kind = part.removeprefix("part:")
    if kind == part:
        return [_reader(message) for message in sentences()[part]]
    return [_reader(message) for message in sentences()["part"] if message.id.removeprefix("part.").startswith(kind)]


@dataclass(frozen=True)
class Speech:
    """One language."""

    language: Language

    @property
    def english(self) -> bool:
        """Whether sentences of a report need no translation."""
        return self.language is Language.EN

    def say(self, name: str, **facts: object) -> str:
        """The message of this id with its facts. Raises KeyError for an unknown id and for a missing fact."""
        return messages()[name].fill(self.language, {key: str(value) for key, value in facts.items()})

    def told(self, text: str, short: Callable[[str], str] = str) -> str:
        """A sentence of a report in this language; marked where only the English one is there.

        ``short`` makes it fit; the mark is never cut off.
        """
        if self.english or not text:
            return short(text)
        found = self._translated(text, _DEEPEST)
        return self.original(short(text)) if found is None else short(found)

    def original(self, text: str) -> str:
        """A sentence that is shown as it was written, which its mark says."""
        return text if self.english or not text else self.say("frame.original", text=text)

    def known(self, text: str) -> str:
        """A part of a sentence in this language, or as it is."""
        if self.english or not text:
            return text
        found = self._translated(text, _DEEPEST)
        return text if found is None else found

    def _translated(self, text: str, depth: int, parts: Sequence[str] = ORDER) -> str | None:
        if len(text) > LONGEST or not depth:
            return None
        for part in parts:
            found = [(reader, facts) for reader in _readers(part) if (facts := reader.facts(text)) is not None]
            if found:
                return self._retold(*found[0], depth - 1) if len(found) == 1 else None
        return None

    def _retold(self, reader: _Reader, facts: Mapping[str, str], depth: int) -> str | None:
        shown: dict[str, str] = {}
        for name, value in facts.items():
            told = self._fact(reader.kinds[name], value, depth)
            if told is None:
                return None
            shown[name] = told
        return reader.message.fill(self.language, shown)

    def _fact(self, kind: str, value: str, depth: int) -> str | None:
        if not value or kind in ("", "#"):
            return value
        if kind == "*":
            return self._translated(value, depth)
        if kind == "~":
            return self._translated(value, depth) or value
        if kind in SHAPES:
            items = value.split(", ") if kind == "harms" else [value]
            told = [self._translated(item, depth, (f"part:{kind}",)) or item for item in items]
            return self.say("headline.names_comma").join(told)
        return self.word(value)

    def sense(self, name: str) -> str:
        """The message of this id, empty where there is none."""
        return self.say(name) if name in messages() else ""

    def word(self, value: str) -> str:
        """A word of a fixed list in this language; one that is not in the table as it is."""
        name = f"word.{value}"
        return self.say(name) if name in messages() else value


ENGLISH = Speech(Language.EN)
