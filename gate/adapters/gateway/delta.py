"""A conversation is sent whole with every turn. The record holds each part of it once, and loses nothing."""

from __future__ import annotations

from typing import Any

_LONG = ("messages", "input")
"""Fields that grow from request to request."""


class Delta:
    """Shrinks the bodies of one run. ``grown`` undoes it."""

    def __init__(self) -> None:
        self._before: tuple[int, dict[str, Any]] | None = None

    def shrink(self, number: int, body: dict[str, Any]) -> dict[str, Any]:
        """What ``body`` has that the one before had not.

        ``{"base": number of the request before, "same": names of equal fields, "kept": {field: how many items at the
        start of it are equal}, "fields": the rest}``; the first has no ``base``.
        """
        before, self._before = self._before, (number, body)
        if before is None:
            return {"fields": body}
        base, old = before
        same = sorted(name for name in body if name in old and body[name] == old[name])
        kept: dict[str, int] = {}
        fields = {name: value for name, value in body.items() if name not in same}
        for name in _LONG:
            new_items, old_items = fields.get(name), old.get(name)
            if isinstance(new_items, list) and isinstance(old_items, list):
                count = 0
                for new_item, old_item in zip(new_items, old_items, strict=False):
                    if new_item != old_item:
                        break
                    count += 1
                kept[name] = count
                fields[name] = new_items[count:]
        return {"base": base, "same": same, "kept": kept, "fields": fields}


def grown(bodies: dict[int, dict[str, Any]], shrunk: dict[str, Any]) -> dict[str, Any]:
    """The whole body again. ``bodies``: the whole ones before it, by number. Raises KeyError for one that is missing."""
    if "base" not in shrunk:
        return dict(shrunk["fields"])
    old = bodies[shrunk["base"]]
    body = {name: old[name] for name in shrunk["same"]}
    for name, value in shrunk["fields"].items():
        body[name] = [*old[name][: shrunk["kept"][name]], *value] if name in shrunk["kept"] else value
    return body
