"""Reading an expectation by code: what kind of evidence it needs, and which literals that evidence must hold.

A model's "pass" is a proposal; the rules here and in ``rows`` decide (DESIGN.md 4, Layer 2b; judging.md 3.2, 3.3). They read
English and Chinese. Where a rule cannot tell, it leans to asking less: a quote that code found is needed in any case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from gate.domain.suite import Expectation

TOOL_CALLS_ONLY = frozenset({1})
CALLS_AND_OUTPUT = frozenset({1, 2})

_VERB = re.compile(
    r"\b(?P<en>(?:re-?)?(?:calls?|called|calling|invok(?:es?|ed|ing)|execut(?:es?|ed|ing)|ran|runs?|running)"
    r"(?! out\b| for\b| attention\b))\b"
    r"|(?P<zh>调用|执行|运行(?!结果|时间|方式|方法|环境|说明))"
    # "`make test` passes": a command that ended somehow was run.
    r"|(?P<command>`x+` (?:succeed(?:s|ed)|pass(?:es|ed)|complet(?:es|ed)|exit(?:s|ed)|finish(?:es|ed)))\b",
    re.IGNORECASE,
)
_OBJECT = re.compile(
    r"\b(?:tools?|commands?|scripts?|tests?|test suite|servers?|functions?|apis?|endpoints?|queries|query|programs?|"
    r"code|builds?|linters?|python3?|node|npm|pip|pytest|bash|shell|make|git|curl|mcp|once|twice|times|exactly)\b"
    r"|`[^`]+`|\w+\(\)",
    re.IGNORECASE,
)
_USES = re.compile(r"\b(?:us(?:es?|ed|ing)|via|through|with)\b|使用|通过", re.IGNORECASE)
# "Explains how to run the tests" is about the text; whoever is the subject or the verb before it says so.
_ABOUT_TEXT = re.compile(
    r"\b(?:explain|describ|mention|includ|contain|suggest|recommend|list|show|stat(?:es|ed|ing)|says?\b|said|report|tell|"
    r"instruct|document|notes?\b|provid|giv(?:es|en)|asks?\b|warn|present|output|print|summar|propos|advis|respon|answer|"
    r"repl(?:y|ies)|readme|section|how to)(?!\w*[._]\w)"
    r"|说明|描述|提到|包含|包括|建议|列出|解释|报告|回复|回答|输出|给出|提示",
    re.IGNORECASE,
)
_NAMED = re.compile(r'`[^`\n]+`|"[^"\n]+"|\u201c[^\u201d\n]+\u201d|「[^」\n]+」')
_NEGATION = re.compile(
    r"\b(?:not?|never|none|neither|nor|without|cannot|avoid\w*|omit\w*|exclud\w*|absen\w*|free of|instead of|"
    r"rather than|remov\w*|lacks?|refrain\w*|fails? to)\b|n['\u2019]t\b|不|没|無|无|未|勿|禁止|避免|删除|去掉",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"[.;:!?](?=\s|$)|[\n。\uff1b\uff1a\uff01\uff1f\uff0c]|,\s*(?:and|but|then|so)\b|\bbut\b|但", re.IGNORECASE
)


def is_process(text: str, tools: Iterable[str] = ()) -> bool:
    """Whether an expectation is about what was called or run (K12): then only tool calls can show it."""
    return _process_at(text, tools) is not None


def allowed_tiers(text: str, tools: Iterable[str] = ()) -> frozenset[int]:
    """Source tiers from which a quote may carry a pass.

    Tool calls alone for what was called or run; calls and output for content. That something was *not* called cannot
    be quoted from calls that are not there, so a negated process expectation may rest on output, too: what was called
    stands in the gate's own record, which the agent cannot edit.
    """
    place = _process_at(text, tools)
    if place is None or _negated(text, 0, place):
        return CALLS_AND_OUTPUT
    return TOOL_CALLS_ONLY


def _process_at(text: str, tools: Iterable[str]) -> int | None:
    # A tool may be named by its own name or, for an MCP tool, without its server.
    names = {part for name in tools for part in (name, name.rsplit("__", 1)[-1])}
    named = re.compile(
        rf"(?<![\w-])(?:{'|'.join(re.escape(name) for name in sorted(names)) or '(?!)'})(?![\w-])", re.IGNORECASE
    )
    # Words inside backticks and quotes are names, not the sentence's own verbs.
    plain = _NAMED.sub(lambda found: "`" + "x" * (len(found[0]) - 2) + "`", text)
    for pattern in (_VERB, _USES):
        for found in pattern.finditer(plain):
            start, end = found.span()
            clause = max((m.end() for m in _CLAUSE_END.finditer(plain, 0, start)), default=0)
            if _ABOUT_TEXT.search(plain, clause, start):
                continue
            before, after = slice(max(0, start - 60), start), slice(end, end + 60)
            if pattern is _USES:
                if named.search(text[end : end + 40]):
                    return start
            elif found.lastgroup in ("zh", "command") or any(
                _OBJECT.search(plain[part]) or named.search(text[part]) for part in (before, after)
            ):
                return start
    return None


def _negated(text: str, start: int, end: int) -> bool:
    """Whether a negation stands between ``start`` and ``end`` in the clause that leads to ``end``."""
    clause = start
    for found in _CLAUSE_END.finditer(text, start, end):
        clause = found.end()
    return _NEGATION.search(text, clause, end) is not None


_JUDGING = re.compile(
    r"\b(?:judge|grad(?:e|ing)|evaluat|review|assess|examin|rubric|scor(?:e|ing)|verdict|inject|jailbreak|prompt|instruct|attack|"
    r"malicious|untrusted|adversar|hidden|suspicious|phish|manipulat|override|ignor|payload|red.?team|system message)"
    r"|评|裁判|打分|阅卷|审核|审查|判定|结论|注入|指令|提示|攻击|恶意|可疑|隐藏|忽略|越狱|载荷|红队",
    re.IGNORECASE,
)


def about_judging(text: str) -> bool:
    """Whether an expectation is about judging or about text that gives orders: then such text may be what shows it."""
    return _JUDGING.search(text) is not None


_MAKES = re.compile(
    r"\b(?:creat(?:es?|ed)|wr(?:ites?|itten|ote)|sav(?:es?|ed)|generat(?:es?|ed)|produc(?:es?|ed)|stor(?:es?|ed)|export(?:s|ed)?|"
    r"exists?)\b|创建|生成|写入|保存|导出|存在",
    re.IGNORECASE,
)
_PRINTS = re.compile(r"\b(?:print|echo|output|display|show|log|say|messag)|打印|输出|显示|提示", re.IGNORECASE)


def makes_a_file(text: str) -> bool:
    """Whether an expectation says that something was made, and is not about what a text says of it."""
    found = _MAKES.search(text)
    return found is not None and _ABOUT_TEXT.search(text) is None and _NEGATION.search(text) is None


def about_printing(text: str) -> bool:
    """Whether an expectation is about what something prints."""
    return _PRINTS.search(text) is not None


class Literal(NamedTuple):
    """Something that an expectation names word for word; any one of the ``options`` is enough."""

    options: tuple[str, ...]


class _Found(NamedTuple):
    start: int
    end: int
    text: str
    kind: str


_BACKTICK = re.compile(r"`([^`\n]{1,200})`")
_QUOTED = re.compile(r'"([^"\n]{1,200})"|\u201c([^\u201d\n]{1,200})\u201d|「([^」\n]{1,200})」|『([^』\n]{1,200})』')
_DATE = re.compile(r"(?<![\d-])\d{4}-\d{2}(?:-\d{2})?(?![\d-])")
_IDENTIFIER = re.compile(r"\b(?:[a-z][a-z0-9]+(?:_[a-z0-9]+)+|[a-z]{2,}(?:[A-Z][a-z0-9]+)+)\b", re.ASCII)
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])\d(?:[\d,]*\d)?(?:\.\d+)?(?![A-Za-z0-9_])")
_TEMPLATE = re.compile(r"<[^>]*>|\.\.\.|…|\{[^}]*\}|\[[^\]]*\]|\*")

_BOUND = re.compile(
    r"(?:at (?:most|least)|(?:more|fewer|less|greater|larger|smaller|higher|lower|longer|shorter|no more) than|up to|under|"
    r"over|above|below|within|between(?:\s+\S+\s+(?:\w+\s+)?and)?|around|about|approximately|roughly|nearly|almost|"
    r"exceed(?:s|ing)?|max(?:imum)?(?: of)?|min(?:imum)?(?: of)?|limit(?:ed)? (?:to|of)|[≤≥<>~±]=?|"
    r"不超过|至少|至多|最多|最少|不少于|不多于|少于|多于|大于|小于|超过|约|大约|低于|高于|介于|以内)[\s(]*[$€£¥]?\s*$",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\s*(?:(?:-|\u2013|to|or|and|至|到|~)\s*\d[\d,]*)?[\s-]*(?:[a-z]+[\s-]+)?"
    r"(?:words?|lines?|items?|bullets?|points?|sections?|sentences?|char(?:acter)?s?|steps?|rows?|columns?|paragraphs?|"
    r"headings?|calls?|times|files?|entries|entry|records?|questions?|tests?|cases?|examples?|pages?|tokens?|commits?|"
    r"fields?|options?|tasks?|slides?|seconds?|minutes?|字|词|行|条|个|项|段|句|页|次|步|章|节|列|份|张|秒|分钟)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"(?:\be\.?g\.?|\bsuch as|\bfor (?:example|instance)|\blike|例如|比如|譬如|诸如|如)[\s,:\uff1a(]*$", re.IGNORECASE
)
_LIST_GAP = re.compile(r"[\s,\uff0c、/&]*(?:\b(?:and|or)\b|或者?|和|与|及|以及)?[\s,\uff0c、/&]*", re.IGNORECASE)
_OR = re.compile(r"\bor\b|或|/", re.IGNORECASE)
_ANY_OF = re.compile(
    r"(?:\b(?:either|(?:one|any) of(?: the)?(?: following)?)|任一|之一|任意)[\s:\uff1a(]*$", re.IGNORECASE
)


def literals(expectation: Expectation) -> tuple[Literal, ...]:
    """What the cited evidence must hold word for word, in the order of the text.

    Text in backticks; quoted text (of one plain lower-case word, as in: the "why", only where ``precision`` is
    ``exact_match``); dates; names such as ``docStatus`` and ``user_id``; numbers of two or more digits. Not: what a
    negation precedes (its absence is the point), what is given as an example or holds a placeholder (``<name>``,
    ``{id}``), bounds ("at most 200"), and counts of things ("12 bullet points"), which stand in no text. Literals that an
    "or" joins are alternatives.
    """
    text = expectation.text
    found = _spans(text, exact=expectation.precision == "exact_match")
    result: list[Literal] = []
    chain: list[str] = []
    chain_or = chain_exempt = False
    previous = 0

    def close() -> None:
        if chain and not chain_exempt:
            result.extend([Literal(tuple(chain))] if chain_or else [Literal((item,)) for item in chain])

    for index, item in enumerate(found):
        gap = text[previous : item.start]
        if index and _LIST_GAP.fullmatch(gap):
            chain_or = chain_or or bool(_OR.search(gap))
        else:
            close()
            chain = []
            chain_or = bool(_ANY_OF.search(gap))
            chain_exempt = _negated(text, previous, item.start) or bool(_EXAMPLE.search(gap))
        if not _needless(text, item):
            chain.append(item.text)
        previous = item.end
    close()
    return tuple(dict.fromkeys(result))


def _spans(text: str, *, exact: bool) -> list[_Found]:
    """Candidates without overlaps, by place; a kind earlier in the list wins."""
    found: list[_Found] = []

    def add(pattern: re.Pattern[str], kind: str) -> None:
        for match in pattern.finditer(text):
            if all(match.end() <= other.start or match.start() >= other.end for other in found):
                inner = next((group for group in match.groups() if group is not None), match.group())
                found.append(_Found(match.start(), match.end(), inner.strip(), kind))

    for pattern, kind in (
        (_BACKTICK, "code"),
        (_QUOTED, "quoted"),
        (_DATE, "date"),
        (_IDENTIFIER, "name"),
        (_NUMBER, "number"),
    ):
        add(pattern, kind)
    plain_word = re.compile(r"[a-z]+", re.ASCII)
    return sorted(item for item in found if exact or item.kind != "quoted" or not plain_word.fullmatch(item.text))


def _needless(text: str, item: _Found) -> bool:
    if item.kind == "number":
        return (
            sum(character.isdigit() for character in item.text) < 2
            or _BOUND.search(text[: item.start]) is not None
            or _COUNTED.match(text, item.end) is not None
        )
    return not item.text or _TEMPLATE.search(item.text) is not None


_TO_ASCII = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord(character): plain
    for plain, characters in {
        "'": "\u2018\u2019\u201a\u2032",
        '"': "\u201c\u201d\u201e\u2033",
        "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    }.items()
    for character in characters
}
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_EVIDENCE_NUMBER = re.compile(r"\d(?:[\d.,\u00a0\u202f']*\d)?")


def _plain(text: str) -> str:
    text = _INVISIBLE.sub("", unicodedata.normalize("NFC", text)).translate(_TO_ASCII)
    return " ".join(text.casefold().split())


class Evidence:
    """A text in which literals are looked for: without regard to case, spacing, typography and JSON escapes."""

    def __init__(self, parts: Sequence[str]) -> None:
        text = "\n".join(parts)
        unescaped = text.replace('\\"', '"').replace("\\n", "\n").replace("\\/", "/")
        self._views = (_plain(text), _plain(unescaped))
        self._numbers = {
            value for token in _EVIDENCE_NUMBER.findall(text.translate(_TO_ASCII)) for value in _values(token)
        }

    def holds(self, literal: Literal) -> bool:
        """Whether one of the options is there; a number by its value (``1,250.00`` is ``1250``)."""
        return any(self._holds(option) for option in literal.options)

    def _holds(self, option: str) -> bool:
        if _NUMBER.fullmatch(option):
            return not self._numbers.isdisjoint(_values(option))
        plain = _plain(option)
        return any(plain in view for view in self._views)


def _values(token: str) -> set[Decimal]:
    """What a number can mean: with commas or points between thousands."""
    token = re.sub("[\u00a0\u202f']", "", token)
    values = set()
    for form in (token.replace(",", ""), token.replace(".", "").replace(",", ".")):
        try:
            values.add(Decimal(form))
        except InvalidOperation:  # such as 1.2.3
            continue
    return values
