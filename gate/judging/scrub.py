"""Taking out of an output what would tell a blind comparator which arm it came from (K8, J20)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gate.domain.skill import Skill

HIDDEN = "[hidden]"
GRAM = 8
"""Words of SKILL.md in a row that no output may keep; twice as many where most of them are single CJK characters."""

_WORD = re.compile(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+(?:_+[^\W_]+)*")
_CJK = re.compile(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_ARM_WORDS = re.compile(
    r"\b(?:with|without|base)[_-]skill\b|\bwith(?:out)?\s+(?:the|this|a|any|my)\s+skill\b|\bskill\.md\b"
    r"|\b(?:according to|per|following|using|used|read(?:ing)?|loaded?|opened?|activated?)\s+(?:the|this|a|my)\s+"
    r"(?:[\w-]+\s+){0,3}skill\b"
    r"|\b(?:the|this|my)\s+skill(?:'s)?\s+(?:says|requires|instructions?|rules?|guidelines?|asks|file|folder)\b"
    r"|\bskill[_ -]?gate\b|(?:按照|根据|依照|使用|遵循)(?:了)?(?:该|这个|本)?技能",
    re.IGNORECASE,
)
_SKILL_PATHS = re.compile(r"(?<![\w/])/skills(?:/[\w.@+~-]*)*", re.IGNORECASE)


class Scrubbed(NamedTuple):
    """A text that may be shown blind."""

    text: str
    leaks: Counter[str]
    """Hits by rule: ``skill_path``, ``skill_name``, ``arm_words``, ``skill_text``."""


class Scrubber:
    """Replaces what names the skill, its folder, an arm, or repeats its text. Line feeds stay where they are."""

    def __init__(self, skill: Skill, shared: Sequence[str] = ()) -> None:
        """``shared``: texts that both arms were given (the task): what stands there tells nothing."""
        names = [skill.name, skill.slug, skill.path.rsplit("/", 1)[-1]]
        # One plain word that the task itself uses ("report") tells nothing, and hiding it would spoil both outputs.
        told = {word.casefold() for text in shared for word in re.findall(r"\w+", text)}
        self._names = _name_pattern([name for name in names if name.casefold() not in told])
        folder = skill.path.strip("/")
        self._paths = [_SKILL_PATHS]
        if folder not in ("", "."):
            self._paths.insert(0, re.compile(rf"(?<!\w){re.escape(folder)}(?![\w-])(?:/[\w.@+~-]*)*", re.IGNORECASE))
        texts = [
            skill.text,
            *(f.data.decode("utf-8", "ignore") for f in skill.files if f.path.endswith((".md", ".txt"))),
        ]
        self._grams = set(_grams(texts)) - set(_grams(shared))

    def scrub(self, text: str) -> Scrubbed:
        """The text with every hit replaced by HIDDEN. Scrubbing the result again changes nothing."""
        leaks: Counter[str] = Counter()
        # What stands on both sides of a hidden passage may form a hit of its own; every round shortens the rest.
        while found := list(_merged(sorted(self._hits(text)))):
            pieces, done = [], 0
            for start, end, rules in found:
                leaks.update(rules)
                # A hidden passage keeps its line feeds, so that the lines after it keep their numbers.
                pieces += [text[done:start], HIDDEN + "\n" * text.count("\n", start, end)]
                done = end
            text = "".join([*pieces, text[done:]])
        return Scrubbed(text, leaks)

    def _hits(self, text: str) -> Iterator[tuple[int, int, str]]:
        for start, end in self._repeated(text):
            yield start, end, "skill_text"
        for rule, patterns in (
            ("skill_path", self._paths),
            ("skill_name", [self._names] if self._names else []),
            ("arm_words", [_ARM_WORDS]),
        ):
            for pattern in patterns:
                for found in pattern.finditer(text):
                    yield *found.span(), rule

    def _repeated(self, text: str) -> Iterator[tuple[int, int]]:
        """Spans of the runs of words that stand in SKILL.md, too."""
        if not self._grams:
            return
        # What is hidden already is no word of the output, or a SKILL.md that says "hidden" would be found in it forever.
        plain = text.replace(HIDDEN, " " * len(HIDDEN))
        words = [(found.group().casefold(), found.start(), found.end()) for found in _WORD.finditer(plain)]
        for size in (GRAM, 2 * GRAM):
            for index in range(len(words) - size + 1):
                gram = tuple(word for word, _, _ in words[index : index + size])
                if gram in self._grams:
                    yield words[index][1], words[index + size - 1][2]


def _grams(texts: Iterable[str]) -> Iterator[tuple[str, ...]]:
    for text in texts:
        words = [found.group().casefold() for found in _WORD.finditer(text)]
        for size in (GRAM, 2 * GRAM):
            for index in range(len(words) - size + 1):
                gram = tuple(words[index : index + size])
                single = sum(bool(_CJK.match(word)) for word in gram)
                # Eight Chinese characters are three or four words: too little to be a passage.
                if (single * 2 > size) == (size > GRAM):
                    yield gram


def _name_pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    """A skill's names in any case and with any separator between their parts."""
    forms = set()
    for name in names:
        parts = [re.escape(part) for part in re.split(r"[\s_-]+", name.strip()) if part]
        if parts and name.casefold() != HIDDEN.strip("[]"):
            forms.add(r"[\s_-]*".join(parts))
    if not forms:
        return None
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(longest_first)})(?![^\W_])", re.IGNORECASE)


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
