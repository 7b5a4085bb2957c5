"""Field paths with ``[*]`` (every item of a list), and path patterns of files with ``*`` and ``**``."""

from __future__ import annotations

from typing import Any

from gate.judging.ground_truth.values import NotCheckableError, at, clip, path_steps

Steps = list[list[str | int]]
"""The steps of a path, cut at each ``[*]``."""


def wild_steps(path: str) -> Steps:
    """As ``path_steps``, with ``[*]`` for every item of a list. Raises NotCheckableError for a path that is not one."""
    parts: Steps = []
    pieces = path.split("[*]")
    for index, piece in enumerate(pieces):
        # Behind [*] a name needs its dot, as it does behind [0].
        if index and piece and piece[0] not in ".[":
            raise NotCheckableError(f"{clip(path)} is not a field path such as user.id or items[*].id")
        rest = piece.removeprefix(".") if index else piece
        if not rest and index == 0 and len(pieces) == 1:
            raise NotCheckableError("an empty text is no field path")
        parts.append(path_steps(rest) if rest not in ("", "$") else [])
    return parts


def values_at(value: Any, parts: Steps) -> list[Any]:
    """Every value at a path; empty where there is none. ``[*]`` steps into lists only."""
    found = [value]
    for index, steps in enumerate(parts):
        if index:
            found = [item for holder in found if isinstance(holder, list | tuple) for item in holder]
        if steps:
            found = [got for there, got in (at(holder, steps) for holder in found) if there]
    return found


def is_wild(path: str) -> bool:
    """Whether a path stands for more than one file."""
    return "*" in path or "?" in path


def path_matches(path: str, pattern: str) -> bool:
    """Whether a workspace path is, or is matched by, a pattern. The whole path is compared, never a part of it."""
    if not is_wild(pattern):
        return path == pattern
    return _parts_match(tuple(path.split("/")), tuple(pattern.split("/")))


def _parts_match(path: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Which places of the path can be reached after each part of the pattern: no pattern can take long."""
    reached = {0}
    for part in pattern:
        if part == "**":
            reached = set(range(min(reached), len(path) + 1)) if reached else set()
        else:
            reached = {index + 1 for index in reached if index < len(path) and _part_matches(path[index], part)}
    return len(path) in reached


def _part_matches(name: str, pattern: str) -> bool:
    """``*`` and ``?`` within one name. Each text between two stars may be taken where it stands first: no way back."""
    first, *rest = pattern.split("*")
    if not rest:
        return len(name) == len(first) and _stands_at(name, first, 0)
    last = rest.pop()
    end = len(name) - len(last)
    if not _stands_at(name, first, 0) or end < len(first) or not _stands_at(name, last, end):
        return False
    position = len(first)
    for piece in filter(None, rest):
        found = _find(name, piece, position)
        if found < 0 or found + len(piece) > end:
            return False
        position = found + len(piece)
    return True


def _find(name: str, piece: str, start: int) -> int:
    if "?" not in piece:
        return name.find(piece, start)
    return next((at for at in range(start, len(name) - len(piece) + 1) if _stands_at(name, piece, at)), -1)


def _stands_at(name: str, piece: str, start: int) -> bool:
    if "?" not in piece:
        return name.startswith(piece, start)
    part = name[start : start + len(piece)]
    return len(part) == len(piece) and all(sign in ("?", char) for sign, char in zip(piece, part, strict=True))
