"""Whether a quote stands in the record, decided by exact search alone (judging.md 3.1).

A forged digit scores higher with fuzzy matching than an honest quote with two spaces too many, so no threshold helps:
a quote is found as it is, or after a closed list of normalisations, or it is not found.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from gate.domain.evidence import Block, Tier
from gate.domain.judgement import Quote, QuoteVerdict

MINIMUM_CHARACTERS = 8
MINIMUM_CJK = 4
"""A quote has one of the two at least (spaces and invisible characters do not count), and a letter or digit."""
MAXIMUM_PLACES = 3
"""A text in more places says nothing about one of them, unless the source names the line."""
SHORT_BLOCK = 200
"""A longer response or output is never quoted whole by a quote that is too short; invisible characters count here."""
SEGMENT_CHARACTERS = 12
SEGMENT_CJK = 6
"""Each piece of a quote with an ellipsis has one of the two at least."""
MAXIMUM_GAP = 400
"""Characters of the record that one ellipsis may leave out."""
MAXIMUM_SEGMENTS = 6
LONG_LINE = 4_000
"""A line of more characters is expanded to LINE_WINDOW characters on either side only: a whole file in one line would
hold any number that an expectation asks for."""
LINE_WINDOW = 1_000

MAXIMUM_OCCURRENCES = 10_000
"""Places of one text in one block that are looked at."""
_HINT_CHARACTERS = 1_000_000

_SOURCE = re.compile(r"[\s\[(]*[Bb](\d{1,6})(?::\s*[Ll]?(\d{1,7})(?:\s*[-\u2013]\s*(?:[Bb]\d+:)?\d+)?)?[\s\])|.,:]*")
_ELLIPSIS = re.compile(r"\[(?:\.\.\.|\u2026)\]|\.{3,}|\u2026")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")
_JSON_ESCAPE = re.compile(r'\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]')
# Zero-width, bidirectional, variation-selector, soft-hyphen, filler and tag characters: a reader cannot see them.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
_SPACES = " \t-\r\x1c-\x1f\x85\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\u2409-\u240d\u241c-\u241f"
_ALIKE = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    "\u2026": "...",
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    # How the gate itself shows such characters to a judge (``gate.llm.prompting``): control pictures, plain brackets.
    **{chr(0x2400 + code): chr(code) for code in range(0x20) if code not in (*range(9, 14), *range(28, 32))},
    "\u2421": "\x7f",
    "\u27e6": "[",
    "\u27e7": "]",
}
# The code points by which the gate shows a judge what would break a line, and the spaces by which it breaks what some
# servers take for a control token (``gate.llm.prompting``): a judge copies what it sees.
_SHOWN_BREAK = r"\[U\+(?:0085|2028|2029)\]"
_SHOWN_CONTROL = r"\[U\+00(?P<control>[89][0-9A-F])\]"
_BROKEN_TOKEN = re.compile(
    r"(?<=<) (?=\||<SYS>>|</SYS>>|start_of_turn>|end_of_turn>|/s>)|(?<=\[) (?=/?INST\])", re.IGNORECASE
)
_SPOT = re.compile(
    f"(?P<space>(?:[{_SPACES}]|{_SHOWN_BREAK})(?:[{_SPACES}{_INVISIBLE}]|{_SHOWN_BREAK})*)|(?P<gone>[{_INVISIBLE}]+)"
    f"|{_SHOWN_CONTROL}|[{re.escape(''.join(_ALIKE))}]"
)
_SPACE_RUN = re.compile(f"[{_SPACES}]")
_BLANK = re.compile(f"[{_SPACES}{_INVISIBLE}]")
_UNSEEN = re.compile(f"[{_INVISIBLE}]")


class _View:
    """A text made from another by replacing some spots, with the way back for every position."""

    def __init__(self, source: str, spots: Iterator[tuple[int, int, str]]) -> None:
        """``spots``: (start, end, replacement) in the source, ascending, not overlapping."""
        pieces: list[str] = []
        self._out_starts: list[int] = []
        self._rows: list[tuple[int, int, int]] = []
        done = length = 0
        for start, end, replacement in spots:
            length += start - done
            pieces += (source[done:start], replacement)
            self._out_starts.append(length)
            length += len(replacement)
            self._rows.append((length, start, end))
            done = end
        pieces.append(source[done:])
        self.text = "".join(pieces) if self._rows else source

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The span of the source that a non-empty span of the text came from; a replaced spot counts whole."""
        first, _ = self._character(start)
        _, last = self._character(end - 1)
        return first, last

    def _character(self, position: int) -> tuple[int, int]:
        index = bisect_right(self._out_starts, position) - 1
        if index < 0:
            return position, position + 1
        out_end, in_start, in_end = self._rows[index]
        if position < out_end:
            return in_start, in_end
        return position + in_end - out_end, position + in_end - out_end + 1


class _Chain:
    """A text seen through several views after each other."""

    def __init__(self, source: str, steps: Sequence[Callable[[str], Iterator[tuple[int, int, str]]]]) -> None:
        self._views: list[_View] = []
        self.text = source
        for step in steps:
            view = _View(self.text, step(self.text))
            self.text = view.text
            self._views.append(view)

    def origin(self, start: int, end: int) -> tuple[int, int]:
        for view in reversed(self._views):
            start, end = view.origin(start, end)
        return start, end


def _composed(text: str) -> Iterator[tuple[int, int, str]]:
    """NFC, cluster by cluster. Not NFKC, which makes 12 of a superscript 1²."""
    if unicodedata.is_normalized("NFC", text):
        return
    start = 0
    for position in range(1, len(text) + 1):
        if position < len(text) and _continues(text[position]):
            continue
        cluster = text[start:position]
        if not cluster.isascii() and not unicodedata.is_normalized("NFC", cluster):
            yield start, position, unicodedata.normalize("NFC", cluster)
        start = position


def _continues(char: str) -> bool:
    """Whether a character may compose with what stands before it: a mark, or a Hangul vowel or final consonant."""
    return char > "\x7f" and (unicodedata.category(char)[0] == "M" or "\u1160" <= char <= "\u11ff")


def _normalised(text: str) -> Iterator[tuple[int, int, str]]:
    for spot in _SPOT.finditer(text):
        found = spot[0]
        if spot["space"]:
            if found != " ":
                yield spot.start(), spot.end(), " "
        elif spot["control"]:
            yield spot.start(), spot.end(), chr(int(spot["control"], 16))
        else:
            yield spot.start(), spot.end(), "" if spot["gone"] else _ALIKE[found]


def _whole_tokens(text: str) -> Iterator[tuple[int, int, str]]:
    for spot in _BROKEN_TOKEN.finditer(text):
        yield spot.start(), spot.end(), ""


_T1 = (_composed, _normalised, _whole_tokens)


def _unescaped(text: str) -> Iterator[tuple[int, int, str]]:
    for spot in _JSON_ESCAPE.finditer(text):
        yield spot.start(), spot.end(), json.loads(f'"{spot[0]}"')


def normalise(text: str) -> str:
    """The T1 form of a text: NFC, every run of white space one space, typographic quotes, dashes, ellipsis and
    full-width ASCII as ASCII, invisible characters gone, and what the gate shows in other characters than it recorded
    (``gate.llm.prompting``) as it was recorded. No case folding.
    """
    return _Chain(text, _T1).text


def unescape(text: str) -> str:
    """A text as its JSON escapes read (``\\n``, ``\\"``, ``\\u4e2d``); what is no escape stays as it is."""
    return _View(text, _unescaped(text)).text


class _Numbered:
    """A block with the forms that quotes are looked up in, each made when it is first needed."""

    def __init__(self, block: Block) -> None:
        self.block = block

    @cached_property
    def exact(self) -> _Chain:
        return _Chain(self.block.text, ())

    @cached_property
    def normal(self) -> _Chain:
        return _Chain(self.block.text, _T1)

    @cached_property
    def unescaped(self) -> _Chain:
        if "\\" not in self.block.text:
            return self.normal
        return _Chain(self.block.text, (_unescaped, *_T1))

    @cached_property
    def _breaks(self) -> list[int]:
        return [found.start() for found in re.finditer("\n", self.block.text)]

    def line_of(self, offset: int) -> int:
        return bisect_right(self._breaks, offset - 1) + 1

    def lines_around(self, start: int, end: int) -> str:
        """Whole lines; of a very long line LINE_WINDOW characters on either side."""
        text = self.block.text
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", max(start, end - 1))
        last = len(text) if last < 0 else last
        if start - first > LONG_LINE:
            first = start - LINE_WINDOW
        if last - end > LONG_LINE:
            last = end + LINE_WINDOW
        return text[first:last]


class _Needle(NamedTuple):
    """One way to look for a quote: which form of the block, and what text in it."""

    verdict: QuoteVerdict
    form: Callable[[_Numbered], _Chain]
    text: str


def _needles(text: str) -> list[_Needle]:
    """T0, T1, T2 in this order. T2 also takes a quote that a judge escaped once more than the record did."""
    normal = normalise(text).strip()
    plain = normalise(unescape(text)).strip()
    needles = [
        _Needle(QuoteVerdict.EXACT, lambda block: block.exact, text),
        _Needle(QuoteVerdict.NORMALISED, lambda block: block.normal, normal),
        _Needle(QuoteVerdict.UNESCAPED, lambda block: block.unescaped, normal),
    ]
    if plain != normal:
        needles.append(_Needle(QuoteVerdict.UNESCAPED, lambda block: block.normal, plain))
        needles.append(_Needle(QuoteVerdict.UNESCAPED, lambda block: block.unescaped, plain))
    return needles


class _Found(NamedTuple):
    verdict: QuoteVerdict
    segments: list[list[_Needle]]
    """Of each piece of the quote, the ways it may stand there. One piece and one way but for an ellipsis."""
    spans: list[tuple[int, int]]
    """Places in the block's own text."""


class QuoteIndex:
    """A set of blocks, ready to check many quotes against."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = {int(block.id[1:]): _Numbered(block) for block in blocks}

    def check(self, text: str, source: str, *, allowed_tiers: frozenset[int]) -> Quote:
        """What code makes of a quote. First match decides:

        1. ``too_short``: under MINIMUM_CHARACTERS and MINIMUM_CJK, unless it is all that the named response or output
           says (an answer such as 42 is evidence of itself, wherever else these characters stand); or without a letter
           or digit.
        2. ``wrong_source``: ``source`` names no block. ``notes_only``: it names a tier-3 block, never evidence (R29,
           R59). ``wrong_source``: its tier is not among ``allowed_tiers``.
        3. Not in the named block: ``notes_only`` where only notes hold it, ``wrong_source`` where another block does,
           ``not_found`` where none does.
        4. ``ambiguous``: it stands in more than MAXIMUM_PLACES places of all blocks, and ``source`` (``B003:12``) does
           not name a line where it stands.
        5. Accepted: T0 as it is, T1 after ``normalise``, T2 in the JSON-unescaped view, T3 in pieces around an
           ellipsis. Offsets are into the block's own text.
        """
        wanted = _SOURCE.fullmatch(source)
        named = self._blocks.get(int(wanted[1])) if wanted else None
        whole = named is not None and _is_all(text, named)
        if _too_short(text) and not (whole and _says_something(text)):
            return Quote(text=text, source=source, verdict=QuoteVerdict.TOO_SHORT)
        if named is None:
            return Quote(text=text, source=source, verdict=QuoteVerdict.WRONG_SOURCE)
        if named.block.tier is Tier.NOTES:
            return Quote(text=text, source=source, verdict=QuoteVerdict.NOTES_ONLY)
        if int(named.block.tier) not in allowed_tiers:
            return Quote(text=text, source=source, verdict=QuoteVerdict.WRONG_SOURCE)
        found = _find(named, text)
        if found is None:
            return Quote(text=text, source=source, verdict=self._elsewhere(text))
        line = int(wanted[2]) if wanted and wanted[2] else None
        span = next((span for span in found.spans if line and _touches(named, span, line)), None)
        if span is None:
            if not whole and self._places(found) > MAXIMUM_PLACES:
                return Quote(text=text, source=source, verdict=QuoteVerdict.AMBIGUOUS)
            span = found.spans[0]
        start, end = span
        return Quote(
            text=text,
            source=source,
            verdict=found.verdict,
            tier=int(named.block.tier),
            line=named.line_of(start),
            start=start,
            end=end,
            expanded=named.lines_around(start, end),
            invisible=len(_UNSEEN.findall(text)) + len(_UNSEEN.findall(named.block.text[start:end])),
        )

    def _elsewhere(self, text: str) -> QuoteVerdict:
        tiers = {item.block.tier for item in self._blocks.values() if _find(item, text)}
        if not tiers:
            return QuoteVerdict.NOT_FOUND
        return QuoteVerdict.NOTES_ONLY if tiers == {Tier.NOTES} else QuoteVerdict.WRONG_SOURCE

    def _places(self, found: _Found) -> int:
        """In how many places of all blocks the quote stands, in the same form; counting stops past the maximum."""
        places = 0
        for item in self._blocks.values():
            places += len(_spans(item, found.segments, limit=MAXIMUM_PLACES + 1))
            if places > MAXIMUM_PLACES:
                break
        return places


def check_quote(text: str, source: str, blocks: Sequence[Block], *, allowed_tiers: frozenset[int]) -> Quote:
    """``QuoteIndex(blocks).check(...)``, for one quote."""
    return QuoteIndex(blocks).check(text, source, allowed_tiers=allowed_tiers)


def _too_short(text: str) -> bool:
    seen = _seen(text)
    return not _says_something(text) or (len(seen) < MINIMUM_CHARACTERS and len(_CJK.findall(seen)) < MINIMUM_CJK)


def _seen(text: str) -> str:
    """What of a text a reader sees, without spaces."""
    return _BLANK.sub("", normalise(unescape(text)))


def _says_something(text: str) -> bool:
    return any(char.isalnum() for char in _seen(text))


def _is_all(text: str, item: _Numbered) -> bool:
    """Whether a text is the whole of a response or an output, as it is or normalised (T0, T1)."""
    if item.block.kind not in ("response", "outputs") or len(item.block.text) > SHORT_BLOCK:
        return False
    return normalise(text).strip() == item.normal.text.strip()


def _find(item: _Numbered, text: str) -> _Found | None:
    for needle in _needles(text):
        if spans := _spans(item, [[needle]], limit=MAXIMUM_OCCURRENCES):
            return _Found(needle.verdict, [[needle]], spans)
    pieces = _ELLIPSIS.split(text)
    segments = [piece for piece in pieces if _BLANK.sub("", piece)]
    if len(pieces) == 1 or not 1 <= len(segments) <= MAXIMUM_SEGMENTS or not all(map(_long_enough, segments)):
        return None
    ways = [_needles(segment) for segment in segments]
    spans = _spans(item, ways, limit=MAXIMUM_OCCURRENCES)
    return _Found(QuoteVerdict.ELLIPSIS, ways, spans) if spans else None


def _long_enough(segment: str) -> bool:
    seen = _seen(segment)
    return len(seen) >= SEGMENT_CHARACTERS or len(_CJK.findall(seen)) >= SEGMENT_CJK


def _spans(item: _Numbered, segments: list[list[_Needle]], *, limit: int) -> list[tuple[int, int]]:
    """Where the segments stand one after the other with at most MAXIMUM_GAP characters between two of them."""
    # From the last segment to the first: ``following`` holds the places from which the rest can be read on.
    following: list[tuple[int, int]] | None = None
    for needles in reversed(segments):
        bound = limit if len(segments) == 1 else MAXIMUM_OCCURRENCES
        places = _occurrences(item, needles, bound)
        if following is None:
            following = places
            continue
        starts = [start for start, _ in following]
        joined = []
        for start, end in places:
            index = bisect_left(starts, end)
            if index < len(starts) and starts[index] - end <= MAXIMUM_GAP:
                joined.append((start, following[index][1]))
        following = joined
    return (following or [])[:limit]


def _occurrences(item: _Numbered, needles: list[_Needle], limit: int) -> list[tuple[int, int]]:
    """Every place, overlapping ones too (in one word repeated no place is special), by its start."""
    places: set[tuple[int, int]] = set()
    for needle in needles:
        chain = needle.form(item)
        position = chain.text.find(needle.text) if needle.text else -1
        count = 0
        while position >= 0 and count < limit:
            places.add(chain.origin(position, position + len(needle.text)))
            count += 1
            position = chain.text.find(needle.text, position + 1)
    return sorted(places)


def _touches(item: _Numbered, span: tuple[int, int], line: int) -> bool:
    return item.line_of(span[0]) <= line <= item.line_of(max(span[0], span[1] - 1))


def nearest(text: str, blocks: Sequence[Block]) -> str:
    """The line of the record that is most like a quote, as ``B003:12: <line>``, or empty. Notes are left out.

    For the retry hint to a judge only, never a reason to accept; the line is untrusted text. Bounded: the first million
    characters are looked at, and 20 lines of 400 characters compared, chosen by the words they share with the quote.
    """
    wanted = normalise(text).strip()[:400]
    words = _words(wanted)
    candidates: list[tuple[int, int, str, str]] = []
    budget = _HINT_CHARACTERS
    for block in blocks:
        if block.tier is Tier.NOTES or budget <= 0:
            continue
        for number, line in enumerate(block.text[:budget].split("\n"), 1):
            shared = len(words & _words(line[:400]))
            if shared:
                candidates.append((-shared, len(candidates), f"{block.id}:{number}", line[:400]))
        budget -= len(block.text)
    best_ratio, best = 0.0, ""
    for _, _, place, line in sorted(candidates)[:20]:
        ratio = difflib.SequenceMatcher(None, wanted, normalise(line)).ratio()
        if ratio > best_ratio:
            best_ratio, best = ratio, f"{place}: {line.strip()}"
    return best if best_ratio >= 0.3 else ""


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[^\W_]+", text) if len(word) > 1} | set(_CJK.findall(text))
