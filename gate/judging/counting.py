"""Adding up fallbacks (DESIGN.md 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gate.domain.base import FallbackCount
from gate.domain.chat import Role
from gate.domain.judgement import Quote


class Fallbacks:
    """What happened otherwise than intended, counted by kind for one role."""

    def __init__(self, role: Role) -> None:
        self._role = role.value
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, kind: str, times: int = 1) -> None:
        """Count a kind; zero times counts nothing."""
        self._counts[kind, self._role] += times

    def add(self, counted: Iterable[FallbackCount]) -> None:
        """Take over what another part counted."""
        for item in counted:
            self._counts[item.kind, item.role] += item.count

    def rejected(self, quotes: Iterable[Quote]) -> None:
        """Count quotes that code threw away, by reason."""
        for quote in quotes:
            if not quote.verdict.accepted:
                self.count(f"quote_rejected:{quote.verdict.value}")

    def values(self) -> tuple[FallbackCount, ...]:
        """Everything counted, sorted."""
        return tuple(
            FallbackCount(kind=kind, role=role, count=count)
            for (kind, role), count in sorted(self._counts.items())
            if count
        )
