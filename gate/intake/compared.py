"""Which two commits an event is about, from its own fields only (github-action.md 1.8 and 1.10).

A payload is a file that earlier steps can write to: a field that is missing or is no commit id is an error that names it,
never a guess. What is known only to Git (is a commit there, where did two lines part) is asked later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from gate.errors import ConfigurationError
from gate.intake.notes import short

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REMEDY = "Run this command as a GitHub Action; the runner sets this."


class How(StrEnum):
    """What is judged."""

    PARTED = "parted"
    """What changed since ``base`` and ``head`` parted: the merge base is the older side."""
    AUDIT = "audit"
    """Every skill of ``head``; there is nothing to compare with."""
    NOTHING = "nothing"
    """There is no commit to judge."""


class Compared(NamedTuple):
    """The commits of an event, or why there are none."""

    how: How
    head: str = ""
    """Commit id, or a full tag name (``refs/tags/v1``) where the payload knows no commit."""
    base: str | None = None
    """Tip of the older side. None: the default branch, where something is compared at all."""
    because: str = ""
    """One sentence for people, without a full stop."""


def compared(name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> Compared:
    """The commits that an event is about. ``name`` is GITHUB_EVENT_NAME; of ``environ`` GITHUB_SHA and GITHUB_REF are read.

    Raises ConfigurationError naming the field that is missing or wrong.
    """
    if name in ("pull_request", "pull_request_target"):
        head, base = _commit(payload, "pull_request.head.sha"), _commit(payload, "pull_request.base.sha")
        return Compared(How.PARTED, head, base, "the changes of a pull request, since it left its base branch")
    if name == "merge_group":
        head, base = _commit(payload, "merge_group.head_sha"), _commit(payload, "merge_group.base_sha")
        return Compared(How.PARTED, head, base, "the changes of a merge queue's group")
    if name == "push":
        return _push(payload)
    if name in ("release", "create"):
        return _tag(name, payload, environ)
    return Compared(How.AUDIT, _sha_of_job(environ), None, f"an audit of every skill ({short(name, 40)})")


def _push(payload: Mapping[str, Any]) -> Compared:
    before, after = _commit(payload, "before", zero=True), _commit(payload, "after", zero=True)
    ref = str(payload.get("ref") or "")
    if not after.strip("0"):
        return Compared(How.NOTHING, because=f"{short(ref, 60)} was deleted")
    if ref.startswith("refs/tags/"):
        return Compared(How.AUDIT, after, None, f"an audit of every skill at the tag {short(ref[10:], 60)}")
    if not before.strip("0"):
        return Compared(How.PARTED, after, None, "a new branch, since it left the default branch")
    # A forced push drops commits: what they changed is no change of this push, and the merge base says what is.
    forced = payload.get("forced") is True
    return Compared(How.PARTED, after, before, "a forced push, since old and new parted" if forced else "a push")


def _tag(name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> Compared:
    if name == "create" and payload.get("ref_type") != "tag":
        return Compared(How.NOTHING, because="a new branch holds no commit of its own yet; its push is judged")
    tag = _at(payload, "release.tag_name" if name == "release" else "ref")
    if not isinstance(tag, str) or not tag or tag.startswith("-") or any(char.isspace() for char in tag):
        raise _wrong("release.tag_name" if name == "release" else "ref", "the name of a tag", tag)
    if name == "release" and payload.get("action") == "deleted":
        return Compared(How.NOTHING, because=f"the release {short(tag, 60)} was deleted")
    # GITHUB_SHA is the tag's commit; a draft release has no tag yet, and then GITHUB_SHA says what it would be made of.
    sha = environ.get("GITHUB_SHA", "")
    head = sha if _COMMIT.fullmatch(sha) else f"refs/tags/{tag}"
    return Compared(How.AUDIT, head, None, f"an audit of every skill at the tag {short(tag, 60)}")


def _sha_of_job(environ: Mapping[str, str]) -> str:
    sha = environ.get("GITHUB_SHA", "")
    if not _COMMIT.fullmatch(sha):
        raise ConfigurationError(f'GITHUB_SHA is "{short(sha)}"; a commit id was expected.', remedy=_REMEDY)
    return sha


def _commit(payload: Mapping[str, Any], place: str, *, zero: bool = False) -> str:
    value = _at(payload, place)
    if not isinstance(value, str) or not _COMMIT.fullmatch(value) or not (zero or value.strip("0")):
        raise _wrong(place, "a commit id", value)
    return value


def _at(payload: Mapping[str, Any], place: str) -> Any:
    value: Any = payload
    for part in place.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _wrong(place: str, expected: str, found: object) -> ConfigurationError:
    what = f'"{short(found)}"' if isinstance(found, str) else "nothing" if found is None else type(found).__name__
    return ConfigurationError(f"The event's payload has {what} at {place}; {expected} was expected.", remedy=_REMEDY)
