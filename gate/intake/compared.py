"""Which two commits an event without a pull request is about, from its own fields only (github-action.md 1.8 and 1.10).

| event | head | compared with | whose policy |
|---|---|---|---|
| `merge_group` | `head_sha` | `base_sha` | the queue's branch |
| `push` to a branch | `after` | `before`; of a new branch the default branch | the default branch; of a push to it, `before` |
| `push` of a tag, `create`, `release` | GITHUB_SHA | nothing, it is an audit | the default branch |
| `schedule`, `repository_dispatch` | GITHUB_SHA | nothing, it is an audit | the same commit |

A payload is a file that earlier steps can write to: a field that is missing or is no commit id is an error that names it,
never a guess. What is known only to Git (is a commit there, where did two lines part) is asked later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gate.domain.event import CommitsEvent, How, OtherEvent
from gate.errors import ConfigurationError
from gate.intake.notes import short

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = "refs/heads/"
_TAG = "refs/tags/"
_REMEDY = "Run this command as a GitHub Action; the runner sets this."


def compared(name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> CommitsEvent | OtherEvent:
    """The commits that an event is about. ``name`` is GITHUB_EVENT_NAME; of ``environ`` GITHUB_SHA and GITHUB_REF are read.

    ``OtherEvent`` where there is no commit to judge. Raises ConfigurationError naming the field that is missing or wrong.
    """
    if name == "merge_group":
        return CommitsEvent(
            name=name,
            ref=short(str(_at(payload, "merge_group.head_ref") or "")),
            how=How.PARTED,
            head=_commit(payload, "merge_group.head_sha"),
            base=_commit(payload, "merge_group.base_sha"),
            branch=_branch(payload, "merge_group.base_ref", full=True),
            queued=True,
            because="the changes of a merge queue's group",
        )
    if name == "push":
        return _push(payload, environ)
    if name in ("release", "create"):
        return _tag(name, payload, environ)
    if name in ("schedule", "repository_dispatch"):
        return _by_itself(name, payload, environ)
    return OtherEvent(name=short(name))


def _push(payload: Mapping[str, Any], environ: Mapping[str, str]) -> CommitsEvent | OtherEvent:
    before, after = _commit(payload, "before", zero=True), _commit(payload, "after", zero=True)
    ref = _name(payload, "ref", "a full name such as refs/heads/main")
    shown = short(ref, 60)
    if not after.strip("0"):
        return OtherEvent(name="push", because=f"{shown} was deleted")
    default = _branch(payload, "repository.default_branch")
    if ref.startswith(_TAG):
        # Of an annotated tag ``after`` is the tag object, which a clone may not have; GITHUB_SHA is its commit.
        return _release("push", ref, _sha(environ) or after, default)
    if not ref.startswith(_BRANCH):
        raise _wrong("ref", "a branch or a tag", ref)
    own = ref == f"{_BRANCH}{default}"
    if not before.strip("0"):
        return CommitsEvent(
            name="push",
            ref=ref,
            how=How.AUDIT if own else How.PARTED,
            head=after,
            branch="" if own else default,
            because=f"every skill of the new branch {shown}" if own else f"the new branch {shown}",
        )
    forced = payload.get("forced") is True
    return CommitsEvent(
        name="push",
        ref=ref,
        how=How.EXACT if forced else How.PARTED,
        head=after,
        base=before,
        branch="" if own else default,
        because=f"a {'forced ' if forced else ''}push to {shown}",
    )


def _tag(name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> CommitsEvent | OtherEvent:
    if name == "create" and payload.get("ref_type") != "tag":
        return OtherEvent(name=name, because="a new branch holds no commit of its own yet; its push is judged")
    place = "release.tag_name" if name == "release" else "ref"
    tag = _name(payload, place, "the name of a tag")
    if name == "release" and payload.get("action") in ("deleted", "unpublished"):
        return OtherEvent(name=name, because=f"the release {short(tag, 60)} was {payload['action']}")
    # A draft release has no tag yet; GITHUB_SHA then says what it would be made of.
    return _release(
        name, f"{_TAG}{tag}", _sha(environ) or f"{_TAG}{tag}", _branch(payload, "repository.default_branch")
    )


def _release(name: str, ref: str, head: str, default: str) -> CommitsEvent:
    return CommitsEvent(
        name=name,
        ref=ref,
        how=How.AUDIT,
        head=head,
        branch=default,
        release=True,
        because=f"every skill at the tag {short(ref.removeprefix(_TAG), 60)}",
    )


def _by_itself(name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> CommitsEvent:
    """GitHub starts these on the default branch only; a payload that knows another one is not believed to be on it."""
    sha, ref = _sha(environ), environ.get("GITHUB_REF", "")
    if sha is None:
        raise ConfigurationError(
            f'GITHUB_SHA is "{short(environ.get("GITHUB_SHA", ""))}"; a commit id was expected.', remedy=_REMEDY
        )
    known = _at(payload, "repository.default_branch")
    default = _branch(payload, "repository.default_branch") if known is not None else ""
    own = not default or ref == f"{_BRANCH}{default}"
    return CommitsEvent(
        name=name,
        ref=ref,
        how=How.AUDIT,
        head=sha,
        branch="" if own else default,
        because=f"every skill of {short(ref.removeprefix(_BRANCH), 60) or 'the default branch'}",
    )


def _sha(environ: Mapping[str, str]) -> str | None:
    sha = environ.get("GITHUB_SHA", "")
    return sha if _COMMIT.fullmatch(sha) and sha.strip("0") else None


def _commit(payload: Mapping[str, Any], place: str, *, zero: bool = False) -> str:
    value = _at(payload, place)
    if not isinstance(value, str) or not _COMMIT.fullmatch(value) or not (zero or value.strip("0")):
        raise _wrong(place, "a commit id", value)
    return value


def _name(payload: Mapping[str, Any], place: str, expected: str) -> str:
    value = _at(payload, place)
    if (
        not isinstance(value, str)
        or not value
        or value.startswith("-")
        or ".." in value
        or any(map(_never_in_a_ref, value))
    ):
        raise _wrong(place, expected, value)
    return value


def _branch(payload: Mapping[str, Any], place: str, *, full: bool = False) -> str:
    """A branch without ``refs/heads/``. ``full``: it must have that in the payload."""
    name = _name(payload, place, "the full name of a branch" if full else "the name of a branch")
    if full and not name.removeprefix(_BRANCH):
        raise _wrong(place, "the full name of a branch", name)
    return name.removeprefix(_BRANCH) if full else name


def _never_in_a_ref(char: str) -> bool:
    """What git allows in no name of a ref (git-check-ref-format) and what could make it another revision."""
    return char.isspace() or not char.isprintable() or char in "~^:?*[\\"


def _at(payload: Mapping[str, Any], place: str) -> Any:
    value: Any = payload
    for part in place.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _wrong(place: str, expected: str, found: object) -> ConfigurationError:
    what = f'"{short(found)}"' if isinstance(found, str) else "nothing" if found is None else type(found).__name__
    return ConfigurationError(f"The event's payload has {what} at {place}; {expected} was expected.", remedy=_REMEDY)
