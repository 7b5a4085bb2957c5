"""Where histories are kept: in the cache, one value a skill and scope, under the same MAC as everything else there.

A pull request writes into its own scope and reads the default branch's; nothing that it writes is found where the default
branch's history is looked for, and what was put there by hand has no MAC (DESIGN.md 3). Without a key nothing is read and
nothing kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gate.domain.base import digest_of
from gate.domain.history import History, HistoryEntry
from gate.evidence.cache import DEFAULT_SCOPE, Cache

PAST = "past.json"
HISTORY = "history.json"
MOST = 50
"""Sessions of a skill that are kept in a scope: the last ones."""
WITH_CASES = 10
"""Of these, how many with what they recorded of each case; of older ones the figures alone are kept."""
LOCAL_SCOPE = "local"


def past_file(slug: str) -> str:
    """Bundle-relative path of a skill's past.json."""
    return f"skills/{slug}/{PAST}"


def history_file(slug: str) -> str:
    """Bundle-relative path of a skill's history.json."""
    return f"skills/{slug}/{HISTORY}"


def recorded(
    cache: Cache, paths: Sequence[str], session_id: str
) -> tuple[tuple[HistoryEntry, ...], tuple[HistoryEntry, ...]]:
    """(sessions on the default branch, other sessions of the cache's own scope) of a skill, oldest first.

    ``paths``: the skill's folder, then earlier ones that it had; the first with a history counts. ``session_id`` is left
    out: a session that goes on after a stop is none of its own past. A session counts as the default branch's only where it
    is kept in that branch's scope, or, on a laptop, says so itself under the MAC.
    """
    for path in paths:
        kept = {scope: _entries(cache, path, scope) for scope in cache.scope.readable}
        if not any(kept.values()):
            continue
        default: list[HistoryEntry] = []
        own: list[HistoryEntry] = []
        for scope, entries in kept.items():
            for entry in entries:
                if entry.session == session_id:
                    continue
                ours = scope in (DEFAULT_SCOPE, LOCAL_SCOPE) and entry.skill_gate.on_default
                (default if ours else own).append(entry)
        return _in_order(default), _in_order(own)
    return (), ()


def add(cache: Cache, path: str, entry: HistoryEntry) -> None:
    """Keep what this session recorded, in the cache's own scope; the same session once. Raises InfrastructureError."""
    scope = cache.scope.name
    entries = [item for item in _entries(cache, path, scope) if item.session != entry.session]
    cache.keep_value(
        "history",
        _facts(path, scope),
        History(path=path, scope=scope, entries=shortened([*entries, entry])),
        path,
    )


def shortened(entries: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
    """The last ``MOST`` entries, the older ones without their cases."""
    kept = entries[-MOST:]
    old = kept[: max(0, len(kept) - WITH_CASES)]
    bare = [
        entry.model_copy(update={"skill_gate": entry.skill_gate.model_copy(update={"cases": None})}) for entry in old
    ]
    return (*bare, *kept[len(old) :])


def _facts(path: str, scope: str) -> str:
    # The scope is part of the place: what a pull request keeps never lies beside what the default branch kept.
    return digest_of(["history", path, scope])


def _entries(cache: Cache, path: str, scope: str) -> tuple[HistoryEntry, ...]:
    found = cache.take_value("history", _facts(path, scope), History)
    return found.entries if found is not None and (found.path, found.scope) == (path, scope) else ()


def _in_order(entries: Iterable[HistoryEntry]) -> tuple[HistoryEntry, ...]:
    """By date; sessions of one day in the order in which they were kept."""
    return tuple(sorted(entries, key=lambda entry: entry.run_at))
