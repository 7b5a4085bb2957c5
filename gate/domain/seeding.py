"""All randomness of a session comes from one seed, so that a recorded session can be replayed to the byte."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SessionSeed:
    """A 32-byte seed from which every fence, nonce, control, order and assignment is derived by name.

    The same labels always give the same bytes; different labels give independent ones (HMAC-SHA256, RFC 2104, over the
    labels joined by NUL). Labels must not contain NUL.
    """

    def __init__(self, seed_hex: str) -> None:
        """``seed_hex``: 64 hex digits. Raises ValueError otherwise."""
        self._key = bytes.fromhex(seed_hex)
        if len(self._key) != 32:
            raise ValueError("a session seed has 64 hex digits")
        self.hex = seed_hex.lower()

    def derive(self, *labels: str) -> bytes:
        """32 bytes for these labels."""
        if any("\0" in label for label in labels):
            raise ValueError("a label must not contain NUL")
        return hmac.new(self._key, "\0".join(labels).encode("utf-8", "surrogatepass"), hashlib.sha256).digest()

    def token(self, *labels: str, length: int = 16) -> str:
        """``length`` lower-case hex digits (at most 64) for these labels."""
        return self.derive(*labels).hex()[:length]

    def below(self, limit: int, *labels: str) -> int:
        """A whole number in ``[0, limit)``; the modulo bias is under 2**-200 for any sensible limit."""
        return int.from_bytes(self.derive(*labels)) % limit

    def bit(self, *labels: str) -> bool:
        """The lowest bit of the derived bytes (K1: the A/B assignment)."""
        return bool(self.derive(*labels)[-1] & 1)

    def shuffled(self, items: Sequence[T], *labels: str) -> list[T]:
        """A permutation of ``items`` (sorted by a derived key per position)."""
        keyed = [(self.derive(*labels, str(index)), index) for index in range(len(items))]
        return [items[index] for _, index in sorted(keyed)]


class JudgingSeeds:
    """From which seed the judges of a record get their fences, controls and labels.

    Without a cache: the session's. With one, a seed of the record itself, under a root that the cache's key gives: the same
    record is then asked about in the same words by a later session, and nobody can know the seed before the record is
    sealed, whatever is known of the root.
    """

    def __init__(self, session: SessionSeed, session_id: str, root: str | None = None) -> None:
        """``root``: 64 hex digits, or None without a cache. Raises ValueError for anything else."""
        self._session = session
        self._session_id = session_id
        self._root = SessionSeed(root) if root else None

    def of(self, *seals: str) -> tuple[SessionSeed, str]:
        """(seed, session id for the assignment) of the records with these seals, in this order."""
        if self._root is None:
            return self._session, self._session_id
        seed = SessionSeed(self._root.token("record", *seals, length=64))
        return seed, seed.token("session", length=12)
