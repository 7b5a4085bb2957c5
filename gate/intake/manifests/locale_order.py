"""The order that JavaScript's ``localeCompare`` gives: what ``skills-lock.json`` sorts file names by.

It is the root collation of CLDR with nothing ignored: first every character's primary weight (``references`` comes before
``SKILL.md``, ``-`` before ``.`` before letters), then accents, then lower case before upper case. ASCII and Latin letters
with accents are known here; for any other character the order depends on tables that are not, and nobody guesses.
"""

from __future__ import annotations

import unicodedata

_ASCII = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789"
_WEIGHT = {sign: position for position, sign in enumerate(_ASCII)}
_ACCENTS = "\u0301\u0300\u0306\u0302\u030c\u030a\u0308\u030b\u0303\u0307\u0328\u0327\u0304"
"""Combining marks that follow Latin letters in names, in the order of their secondary weights."""
_MARKS = {mark: position + 1 for position, mark in enumerate(_ACCENTS)}


def known_order(name: str) -> bool:
    """Whether the place of a name among others is certain."""
    return all(
        sign in _WEIGHT or (sign.isascii() and sign.isalpha()) or sign in _MARKS
        for sign in unicodedata.normalize("NFD", name)
    )


def locale_key(name: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A key to sort names by as ``localeCompare`` would. Exact where ``known_order`` says so."""
    primary: list[int] = []
    secondary: list[int] = []
    tertiary: list[int] = []
    for sign in unicodedata.normalize("NFD", name):
        if sign in _MARKS:
            # The weight of a mark stands after its letter's; without one a letter weighs 0, which is less.
            secondary.append(_MARKS[sign])
            tertiary.append(0)
            continue
        if sign in _WEIGHT:
            primary.append(_WEIGHT[sign])
        elif sign.isascii() and sign.isalpha():
            primary.append(100 + ord(sign.lower()))
        else:
            primary.append(1000 + ord(sign))
        secondary.append(0)
        tertiary.append(1 if sign.isupper() else 0)
    return tuple(primary), tuple(secondary), tuple(tertiary)
