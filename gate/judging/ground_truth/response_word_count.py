"""R87: the length of the final response in words."""

from __future__ import annotations

import unicodedata

from gate.domain.checks import ResponseWordCount
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts

_IDEOGRAPHIC = (
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3041, 0x30FF),  # Hiragana, Katakana
    (0x3105, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),  # half-width Katakana
    (0x20000, 0x3FFFF),
)


def is_ideographic(character: str) -> bool:
    """Chinese characters and kana: written without spaces, so each counts one. Hangul is written in spaced words."""
    code = ord(character)
    return code >= 0x3005 and any(first <= code <= last for first, last in _IDEOGRAPHIC)


def count_words(text: str) -> int:
    """Words as people count them.

    Each Chinese character or kana is one; each run of other letters, digits, marks and underscores is one. An
    apostrophe or hyphen between word characters, and a point or comma between digits, do not end a word: "don't",
    "well-known" and "1,000.50" are one word each.
    """
    words = 0
    inside = False
    for index, character in enumerate(text):
        if is_ideographic(character) and character.isalnum():
            words += 1
            inside = False
        elif character.isalnum() or character == "_" or (inside and unicodedata.category(character)[0] == "M"):
            words += not inside
            inside = True
        else:
            inside = inside and _joins(text, index)
    return words


def _joins(text: str, index: int) -> bool:
    before, after = text[index - 1 : index], text[index + 1 : index + 2]
    if text[index] in ".,":
        return before.isdigit() and after.isdigit()
    return text[index] in "'\u2019-\u2010\u2011" and after.isalnum() and not is_ideographic(after)


def evaluate(parameters: ResponseWordCount, facts: Facts) -> Answer:
    """Counted over the whole response, Markdown included. An absent response is ``not_run``, also for ``max``."""
    bounds = []
    if parameters.min is not None:
        bounds.append(f"at least {parameters.min}")
    if parameters.max is not None:
        bounds.append(f"at most {parameters.max}")
    expected = f"a response of {' and '.join(bounds)} words"
    place = facts.response
    number = facts.remembered(("words",), lambda: count_words(place.text))
    right = (parameters.min is None or number >= parameters.min) and (
        parameters.max is None or number <= parameters.max
    )
    return Answer(CheckStatus.PASSED if right else CheckStatus.FAILED, expected, f"{number} words", place.block)
