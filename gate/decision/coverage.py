"""Which rules of SKILL.md some case names: what nobody tests is what the next change can break unseen (judging.md 8.2)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from gate.domain.base import sha256_hex

_IMPERATIVE = re.compile(
    r"\b(must(?: not)?|never|always|do not|don't|required?|only|shall|ensure|avoid|make sure|at (?:most|least)|exactly)\b"
    r"|必须|不得|禁止|严禁|务必|不要|不能|应当|只能|至少|最多",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_FENCE = re.compile(r"^\s*(```|~~~)")
ENOUGH = 12
"""Characters from which a part of a rule's own words names it."""


class Rule(NamedTuple):
    """An imperative line of SKILL.md."""

    id: str
    """``r-`` and 8 hex digits of the SHA-256 of its words: the same wherever the line stands."""
    text: str
    """Untrusted."""
    line: int
    """1-based line of the file."""


class Coverage(NamedTuple):
    """Rules that some ``rule_ref`` names, and the others."""

    named: tuple[Rule, ...]
    unnamed: tuple[Rule, ...]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def rules_of(body: str, first_line: int = 1) -> tuple[Rule, ...]:
    """The lines of a SKILL.md body that order or forbid something, once each; headings, tables and code are none."""
    rules: dict[str, Rule] = {}
    fenced = False
    for number, line in enumerate(body.splitlines(), start=first_line):
        if _FENCE.match(line):
            fenced = not fenced
            continue
        text = _BULLET.sub("", line).strip()
        if fenced or not text or text.startswith(("#", "|")) or not _IMPERATIVE.search(text):
            continue
        rule_id = f"r-{sha256_hex(_words(text).encode('utf-8', 'surrogatepass'))[:8]}"
        rules.setdefault(rule_id, Rule(rule_id, text, number))
    return tuple(rules.values())


def coverage_of(
    body: str, references: Iterable[str | None], first_line: int = 1, *, killed: Collection[str] = ()
) -> Coverage | None:
    """None where it is unknown: SKILL.md orders nothing, or no case names any rule and no mutant was killed.

    A reference names a rule by its id, by its line (``SKILL.md:12``, ``line 12``, ``L12``), or by words of it. ``killed``: ids of
    rules (``Rule.id``) whose taking away some case has noticed: a mutant of that line was killed, which shows more than a name.
    """
    rules = rules_of(body, first_line)
    named = [reference for reference in references if reference and reference.strip()]
    if not rules or not (named or killed):
        return None
    covered = {rule for rule in rules for reference in named if _names(reference, rule)}
    covered |= {rule for rule in rules if rule.id in killed}
    return Coverage(
        tuple(rule for rule in rules if rule in covered), tuple(rule for rule in rules if rule not in covered)
    )


def _names(reference: str, rule: Rule) -> bool:
    at = re.fullmatch(r"(?:SKILL\.md:|line\s*|L)(\d+)", reference.strip(), re.IGNORECASE)
    if at:
        return int(at[1]) == rule.line
    if rule.id in reference.split():
        return True
    said, words = _words(reference), _words(rule.text)
    return bool(said) and (
        said == words or (len(said) >= ENOUGH and said in words) or (len(words) >= ENOUGH and words in said)
    )
