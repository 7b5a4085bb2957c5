"""The language of the final response, by its script and, for Latin letters, by its commonest words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from gate.domain.checks import ResponseLanguage
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import RESPONSE, Answer, Facts
from gate.judging.ground_truth.markdown import prose
from gate.judging.ground_truth.values import NotCheckableError

LEAST_WORDS = 5
"""Fewer words (or characters without spaces between words) say nothing about a language."""
_SCRIPTS = {
    "zh": "han", "ja": "kana", "ko": "HANGUL", "ru": "CYRILLIC", "ar": "ARABIC", "he": "HEBREW", "el": "GREEK",
    "th": "THAI", "hi": "DEVANAGARI",
}  # fmt: skip
# The commonest short words of each language, without those that several of them share.
_WORDS = {
    "en": "the and of to is that it was for with are this be not have which you from they were has",
    "de": "der und das ist nicht die mit ein eine auf sich den von zu dem wird wurde auch sind oder bei",
    "fr": "le les et est pas dans une pour qui sur avec plus sont du au ce cette nous vous être ont",
    "es": "el los y que las por con una para su más pero sus fue este esta son está muy también como",
    "pt": "o os e não uma para com mais mas foi ao são tem seu sua isso também você pelo muito ou",
    "it": "il di che è non per una sono con gli della alla anche più questo nel dei ma le si lo",
}
_WORD = re.compile(r"[^\W\d_]+")


def evaluate(parameters: ResponseLanguage, facts: Facts) -> Answer:
    """More than half of the words in its script; among Latin ones its own common words lead clearly. Unclear: ``not_run``."""
    language = parameters.language
    expected = f"a response in {language}"
    place = facts.response
    text = "\n".join(block.text for block in facts.remembered(("prose", RESPONSE), lambda: prose(place.text)))
    scripts = facts.remembered(("scripts",), lambda: count_scripts(text))
    total = sum(scripts.values())
    if total < LEAST_WORDS:
        raise NotCheckableError(f"{total} words outside code are too few to tell a language")
    shares = ", ".join(f"{name} {count / total:.0%}" for name, count in scripts.most_common(3))
    if language in _SCRIPTS:
        right = _own_script(language, scripts, total)
        return Answer(CheckStatus.PASSED if right else CheckStatus.FAILED, expected, f"scripts: {shares}", place.block)
    if scripts["LATIN"] * 2 <= total:
        return Answer(CheckStatus.FAILED, expected, f"scripts: {shares}", place.block)
    words = Counter(word.lower() for word in _WORD.findall(text))
    scores = {name: sum(words[word] for word in common.split()) for name, common in _WORDS.items()}
    best = max(scores, key=lambda name: scores[name])
    others = max(score for name, score in scores.items() if name != best)
    listed = ", ".join(f"{name} {score}" for name, score in sorted(scores.items(), key=lambda item: -item[1])[:3])
    if scores[best] < 2 or scores[best] < 1.5 * others:
        raise NotCheckableError(f"the language is not clear (common words: {listed})")
    status = CheckStatus.PASSED if best == language else CheckStatus.FAILED
    return Answer(status, expected, f"common words: {listed}", place.block)


def _own_script(language: str, scripts: Counter[str], total: int) -> bool:
    if language == "ja":
        # Japanese mixes kana with Chinese characters; kana alone tells it from Chinese.
        return (scripts["kana"] + scripts["han"]) * 2 > total and scripts["kana"] * 10 > scripts["han"]
    if language == "zh":
        return scripts["han"] * 2 > total and scripts["kana"] * 10 <= scripts["han"]
    return scripts[_SCRIPTS[language]] * 2 > total


def count_scripts(text: str) -> Counter[str]:
    """Words by script. Chinese characters and kana are written without spaces: there two characters count as one word."""
    found: Counter[str] = Counter()
    halves: Counter[str] = Counter()
    for word in _WORD.findall(text):
        kinds = Counter(_script(character) for character in word)
        for name in ("han", "kana", "THAI"):
            halves[name] += kinds.pop(name, 0)
        if kinds:
            found[kinds.most_common(1)[0][0]] += 1
    for name, count in halves.items():
        if count:
            found[name] += (count + 1) // 2
    return found


def _script(character: str) -> str:
    if character.isascii():
        return "LATIN"
    name = unicodedata.name(character, "")
    if name.startswith(("CJK UNIFIED", "CJK COMPATIBILITY")) or character in "々〇":
        return "han"
    if name.startswith(("HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA")):
        return "kana"
    return name.split(" ", 1)[0].removesuffix("-")
