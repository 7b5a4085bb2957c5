"""Which of the record a judge is shown, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence

from gate.domain.evidence import Block, Tier

SHOWN_CHARACTERS = 240_000
"""Of a record, in one question to a judge."""


def for_a_judge(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks in the order of evidence (R28, R58): tool calls, then response and outputs. Notes are left out."""
    return tuple(sorted((b for b in blocks if b.tier is not Tier.NOTES), key=lambda b: int(b.tier)))


def cut_to(blocks: Sequence[Block], budget: int = SHOWN_CHARACTERS) -> tuple[tuple[Block, ...], tuple[str, ...]]:
    """(the blocks, shortened to ``budget`` characters together, the ids of those that were shortened).

    The longest are shortened first, all to the same length. What is left of a block is its beginning, so that line
    numbers stay right, and a last line says how much is missing.
    """
    limit = _common_limit([len(block.text) for block in blocks], budget)
    shown, cut = [], []
    for block in blocks:
        if len(block.text) <= limit:
            shown.append(block)
            continue
        kept = block.text[:limit]
        # Whole lines where the last one is a small part of what is kept.
        kept = kept[: end + 1] if (end := kept.rfind("\n")) > limit // 2 else kept + "\n"
        missing = len(block.text) - len(kept)
        shown.append(
            block.model_copy(update={"text": f"{kept}[{missing} more characters of this block are not shown]"})
        )
        cut.append(block.id)
    return tuple(shown), tuple(cut)


def _common_limit(lengths: Sequence[int], budget: int) -> int:
    """The greatest limit with ``sum(min(length, limit)) <= budget`` (at least 0)."""
    left = budget
    ordered = sorted(lengths)
    for index, length in enumerate(ordered):
        share = left // (len(ordered) - index)
        if length > share:
            return max(share, 0)
        left -= length
    return ordered[-1] if ordered else 0
