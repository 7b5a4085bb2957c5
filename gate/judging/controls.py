"""Control rows: expectations whose answer code knows, mixed into every batch (judging.md 1.1, point 2).

A judge that passes a known-false one passes anything, so its batch counts for nothing. The false ones are easy on purpose:
what they measure is a health alarm and an upper bound, not a calibration.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gate.domain.evidence import Block, RunRecord, Tier
from gate.domain.seeding import SessionSeed

_TOOLS = (
    "send_email", "create_ticket", "translate_document", "resize_image", "book_meeting", "archive_export",
    "delete_branch", "charge_card", "post_message", "restart_service", "upload_backup", "sign_contract",
)  # fmt: skip
_NOUNS = ("Reference number", "Tracking code", "Batch", "Order", "Protocol entry", "Room", "Shelf mark", "Permit")
# Plain running text: no marks that a judge would have to escape, and nothing cut out of the middle of a word.
_PHRASE = re.compile(r"(?<!\w)\w[\w ,;()'-]{10,58}\w(?!\w)")


class Control(NamedTuple):
    """A made-up expectation and its answer."""

    text: str
    known: bool


def make_controls(record: RunRecord, blocks: Sequence[Block], seed: SessionSeed, *labels: str) -> tuple[Control, ...]:
    """At least two known-false controls and, where the record offers anything, at least one known-true.

    ``blocks``: what the judge is shown. True and false ones have the same two forms (a tool was called, the response
    contains a text), so that the form tells nothing. Deterministic in ``labels``.
    """
    controls = [
        Control(_called(_never_called(record, blocks, seed, *labels)), known=False),
        Control(_contains(_never_said(blocks, seed, *labels)), known=False),
    ]
    if record.calls:
        tools = sorted({call.tool for call in record.calls})
        controls.append(Control(_called(tools[seed.below(len(tools), *labels, "true-tool")]), known=True))
    phrase = _said(blocks, seed, *labels)
    if phrase is not None:
        controls.append(Control(_contains(phrase), known=True))
    return tuple(controls)


def _called(tool: str) -> str:
    return f"The tool `{tool}` was called."


def _contains(text: str) -> str:
    return f'The response contains the text "{text}".'


def _never_called(record: RunRecord, blocks: Sequence[Block], seed: SessionSeed, *labels: str) -> str:
    shown = [text.casefold() for block in blocks for text in (block.title, block.text)]
    called = {call.tool for call in record.calls}
    for tool in seed.shuffled(_TOOLS, *labels, "false-tool"):
        if tool not in called and not any(tool in text for text in shown):
            return tool
    return f"{_TOOLS[0]}_{_unseen(shown, seed, *labels, 'false-tool')}"


def _never_said(blocks: Sequence[Block], seed: SessionSeed, *labels: str) -> str:
    shown = [block.text.casefold() for block in blocks]
    noun = _NOUNS[seed.below(len(_NOUNS), *labels, "false-noun")]
    return f"{noun} {_unseen(shown, seed, *labels, 'false-text')}"


def _unseen(shown: Sequence[str], seed: SessionSeed, *labels: str) -> str:
    """Digits that occur nowhere in what is shown."""
    attempt = 0
    while True:
        digits = str(10_000 + seed.below(90_000, *labels, str(attempt)))
        # Five digits can be used up by a long record; then longer ones are drawn.
        digits += str(attempt) if attempt > 100 else ""
        if not any(digits in text for text in shown):
            return digits
        attempt += 1


def _said(blocks: Sequence[Block], seed: SessionSeed, *labels: str) -> str | None:
    """A phrase of the response, or None where it holds no plain one."""
    text = "\n".join(block.text for block in blocks if block.tier is Tier.OUTPUT and block.kind == "response")
    found = [" ".join(match.group().split()) for match in _PHRASE.finditer(text[:20_000])]
    phrases = [phrase for phrase in found if phrase in text and any(character.isalpha() for character in phrase)]
    if phrases:
        return phrases[seed.below(len(phrases), *labels, "true-text")]
    whole = text.strip()
    plain = 2 <= len(whole) <= 60 and not re.search(r'["`\\\n]', whole)
    return whole if plain else None
