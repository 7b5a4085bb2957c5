"""Taking out of an output what would tell a blind comparator which arm it came from (K8, J20).

Everything is looked for in the folded form of a text: what a reader takes for the same letters (full-width and accented
ones, letters of other scripts that look alike, invisible characters between letters) is the same letters.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from gate.domain.skill import Skill, texts_of

HIDDEN = "[hidden]"
GRAM = 8
"""Words of SKILL.md in a row that no output may keep; twice as many where most of them are single CJK characters."""

_WORD = re.compile(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+(?:_+[^\W_]+)*")
_TO_COPY = re.compile(r"(?:^|/)(?:assets|templates?)/|template", re.IGNORECASE)
_CJK = re.compile(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
# Between and around words there may be marks of Markdown; an underscore is one, too.
_GAP = r"[\s*_`>\"'\u201c\u201d-]+"
_ARM_WORDS = re.compile(
    r"(?<![^\W_])(?:"
    r"(?:with|without|base|no|self[_-]generated)[_-]skill|skill\.md|skill[_ -]?gate"
    rf"|(?:with(?:out)?|from|as){_GAP}(?:the|this|a|any|my|its|that){_GAP}skill"
    rf"|(?:according{_GAP}to|per|following|using|used?|uses|read(?:ing|s)?|load(?:ed|ing|s)?|opened|activat(?:ed|ing)|"
    rf"follow(?:ed|s)?|applied|applying|consult(?:ed|ing)?|invok(?:ed|ing)){_GAP}(?:the|this|a|my|that){_GAP}"
    rf"(?:[\w\[\]-]+{_GAP}){{0,3}}skill"
    rf"|(?:the|this|my|that){_GAP}skill(?:'s)?{_GAP}(?:says?|said|requires?|instructions?|rules?|guidelines?|asks|file|"
    r"folder|wants|tells|told|states|demands|recommends)"
    rf"|(?:baseline|curated|treatment){_GAP}arm"
    r")(?![^\W_])"
    r"|(?:按照|根据|依照|使用|遵循|依据|参照|没有|未用|借助)(?:了|使用)?(?:该|这个|本|此|任何)?技能|技能(?:文件|要求|规定|说明|指示)"
)
_SKILL_PATHS = re.compile(r"(?<![\w/\\])[/\\]skills(?:[/\\][\w.@+~-]*)*", re.IGNORECASE)
_BETWEEN = r"(?:[\s_*`-]+|[.~+/\\:]|%20|%2d|%5f|&nbsp;|&#45;|\\u002d)?"
"""What may stand between the parts of a name, beside nothing."""
_ALIKE = {
    **dict(zip("авсԁеһіјкӏмпорԛѕтцѵѡхуԝ", "abcdehijklmnopqstuvwxyw", strict=True)),
    **dict(zip("αβγεικνορτυχω", "abyeiknoptuxw", strict=True)),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-"),
    "\u2044": "/",
    "\u2215": "/",
    "\u0131": "i",
    "\u00f8": "o",
    "\u0142": "l",
}


class Scrubbed(NamedTuple):
    """A text that may be shown blind."""

    text: str
    leaks: Counter[str]
    """Hits by rule: ``skill_path``, ``skill_name``, ``arm_words``, ``skill_text``."""


class Scrubber:
    """Replaces what names the skill, its folder, an arm, or repeats its text. Line feeds stay where they are."""

    def __init__(self, skill: Skill, shared: Sequence[str] = ()) -> None:
        """``shared``: texts that both arms were given (the task): what stands there tells nothing."""
        names = [fold(name) for name in (skill.name, skill.slug, skill.path.rsplit("/", 1)[-1])]
        # One plain word that the task itself uses ("report") tells nothing, and hiding it would spoil both outputs.
        told = {word for text in shared for word in re.findall(r"\w+", fold(text))}
        self._names = _name_pattern([name for name in names if name not in told])
        folder = [re.escape(fold(part)) for part in skill.path.strip("/").split("/") if part not in ("", ".")]
        self._paths = [_SKILL_PATHS]
        if folder:
            joined = r"[/\\]+".join(folder)
            self._paths.insert(0, re.compile(rf"(?<!\w){joined}(?![\w-])(?:[/\\][\w.@+~-]*)*"))
        texts = [text for path, text in texts_of(skill).items() if path == skill.skill_md or _is_prose(path)]
        self._grams = set(_grams(texts)) - set(_grams(shared))

    def scrub(self, text: str) -> Scrubbed:
        """The text with every hit replaced by HIDDEN. Scrubbing the result again changes nothing."""
        leaks: Counter[str] = Counter()
        # What stands on both sides of a hidden passage may form a hit of its own; every round shortens the rest.
        while found := list(_merged(sorted(self._hits(text)))):
            pieces, done = [], 0
            for hit_start, hit_end, rules in found:
                leaks.update(rules)
                start, end = _with_its_marks(text, hit_start, hit_end, done)
                # A hidden passage keeps its line feeds, so that the lines after it keep their numbers.
                pieces += [text[done:start], HIDDEN + "\n" * text.count("\n", start, end)]
                done = end
            text = "".join([*pieces, text[done:]])
        return Scrubbed(text, leaks)

    def _hits(self, text: str) -> Iterator[tuple[int, int, str]]:
        folded = _Folded(text)
        for start, end in self._repeated(folded.text):
            yield *folded.origin(start, end), "skill_text"
        for rule, patterns in (
            ("skill_path", self._paths),
            ("skill_name", [self._names] if self._names else []),
            ("arm_words", [_ARM_WORDS]),
        ):
            for pattern in patterns:
                for found in pattern.finditer(folded.text):
                    yield *folded.origin(*found.span()), rule

    def _repeated(self, text: str) -> Iterator[tuple[int, int]]:
        """Spans of the runs of words that stand in SKILL.md, too."""
        if not self._grams:
            return
        # What is hidden already is no word of the output, or a SKILL.md that says "hidden" would be found in it forever.
        plain = text.replace(HIDDEN, " " * len(HIDDEN))
        words = [(found.group(), found.start(), found.end()) for found in _WORD.finditer(plain)]
        spoken = [word for word, _, _ in words]
        for size in (GRAM, 2 * GRAM):
            for index, gram in enumerate(zip(*(spoken[at:] for at in range(size)), strict=False)):
                if gram in self._grams:
                    yield words[index][1], words[index + size - 1][2]


def _with_its_marks(text: str, start: int, end: int, done: int) -> tuple[int, int]:
    """A span with the marks of Markdown that stand on both sides of it: left alone they would show where it was."""
    while start > done and end < len(text) and text[start - 1] == text[end] and text[end] in "*_`":
        if text[end] == "_" and (text[start - 2 : start - 1].isalnum() or text[end + 1 : end + 2].isalnum()):
            break  # of a longer name
        start, end = start - 1, end + 1
    return start, end


def fold(text: str) -> str:
    """A text in the form that names, words and passages are compared in."""
    return _Folded(text).text


class _Folded:
    """The folded form of a text, with the way back for every position."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        # (place in the folded text, place in the source) where the two stop running side by side.
        self._steps: list[tuple[int, int]] = [(0, 0)]
        if text.isascii():
            self.text = text.lower()
            return
        pieces = []
        length = 0
        for at, char in enumerate(text):
            piece = char.lower() if char < "\x80" else _folded_char(char)
            if len(piece) != 1:
                self._steps += [(length, at), (length + len(piece), at + 1)]
            pieces.append(piece)
            length += len(piece)
        self.text = "".join(pieces)

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The span of the source; what is invisible right behind it belongs to it."""
        if len(self._steps) == 1:
            return start, end
        return self._place(start), self._place(end) if end < len(self.text) else self._length

    def _place(self, position: int) -> int:
        # Of several steps at one place the last is right: what comes before it left nothing in the folded text.
        folded, source = self._steps[bisect_right(self._steps, (position, self._length + 1)) - 1]
        return source + position - folded


@lru_cache(maxsize=65_536)
def _folded_char(char: str) -> str:
    """One character as its plain letters; nothing for a mark and for what nobody can see."""
    plain = []
    for part in unicodedata.normalize("NFKD", char).casefold():
        kind = unicodedata.category(part)
        if kind not in ("Mn", "Me", "Cf") and part not in "\u115f\u1160\u3164\uffa0\u180b\u180c\u180d":
            plain.append(_ALIKE.get(part, part))
    return "".join(plain)


def _is_prose(path: str) -> bool:
    """Whether a file holds words to read. What is made to be copied into an output tells its reader what was asked for."""
    return path.endswith((".md", ".txt")) and not _TO_COPY.search(path)


def _grams(texts: Iterable[str]) -> Iterator[tuple[str, ...]]:
    for text in texts:
        words = _WORD.findall(fold(text))
        for size in (GRAM, 2 * GRAM):
            for index in range(len(words) - size + 1):
                gram = tuple(words[index : index + size])
                single = sum(bool(_CJK.match(word)) for word in gram)
                # Eight Chinese characters are three or four words: too little to be a passage.
                if (single * 2 > size) == (size > GRAM):
                    yield gram


def _name_pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    """A skill's names (folded) with any separator between their parts."""
    whole: set[str] = set()
    parted: set[str] = set()
    for name in names:
        parts = [re.escape(part) for part in re.split(r"[\s_-]+", name.strip()) if part]
        if not parts or name == HIDDEN.strip("[]"):
            continue
        # A name of several parts is found inside of longer words, too; a single word could be a part of anything.
        (parted if len(parts) > 1 else whole).add(_BETWEEN.join(parts))
    forms = [*_longest_first(parted)]
    if whole:
        forms.append(rf"(?<![^\W_])(?:{'|'.join(_longest_first(whole))})(?![^\W_])")
    return re.compile("|".join(forms)) if forms else None


def _longest_first(forms: Iterable[str]) -> list[str]:
    return sorted(forms, key=lambda form: (-len(form), form))


def _merged(spans: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, list[str]]]:
    """Overlapping spans as one, with the rules that hit, each counted once a merged span."""
    current: tuple[int, int, set[str]] | None = None
    for start, end, rule in spans:
        if current is not None and start < current[1]:
            current = (current[0], max(current[1], end), current[2] | {rule})
            continue
        if current is not None:
            yield current[0], current[1], sorted(current[2])
        current = (start, end, {rule})
    if current is not None:
        yield current[0], current[1], sorted(current[2])
