"""GitHub's own examples of webhook payloads: fetched once with npm, kept as the few that tests use, and their variants.

The package has neither a fork nor Dependabot among its examples (github-action.md 6.2): the functions at the end derive them.
"""

from __future__ import annotations

import copy
import fcntl
import functools
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.github.npm import ContractUnavailableError, member_of
from tests.github.openapi import CACHE

Json = Any

VERSION = "7.6.1"
PACKAGE = f"@octokit/webhooks-examples@{VERSION}"
MEMBER = "package/api.github.com/index.json"
SHA512 = "De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ=="
"""Of the package's archive: what was fetched is compared with it before it is opened."""
KINDS = (
    "check_run",
    "check_suite",
    "create",
    "delete",
    "issue_comment",
    "merge_group",
    "pull_request",
    "push",
    "release",
    "repository_dispatch",
    "workflow_dispatch",
    "workflow_run",
)


def payloads_file() -> Path:
    """The payloads of ``KINDS`` as one JSON file in ``.cache``, fetched now if need be: ``{kind: [payload, …]}``.

    Raises:
        ContractUnavailableError: No npm, no answer, or another archive than the one that was pinned.
    """
    target = _target()
    if target.is_file():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock-webhooks").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_file():
            found = {one["name"]: one["examples"] for one in _fetched() if one["name"] in KINDS}
            part = CACHE / f"{target.name}.{os.getpid()}.part"
            part.write_text(json.dumps(found, separators=(",", ":")), encoding="utf-8")
            part.replace(target)
    return target


def is_here() -> bool:
    """Whether ``payloads_file`` would fetch nothing."""
    return _target().is_file()


def _target() -> Path:
    digest = hashlib.sha256("\n".join(KINDS).encode()).hexdigest()[:16]
    return CACHE / f"webhooks-{VERSION}-{digest}.json"


def _fetched() -> list[Json]:
    value: list[Json] = json.loads(member_of(PACKAGE, MEMBER, sha512=SHA512, folder=CACHE))
    return value


@functools.cache
def _payloads() -> dict[str, list[Json]]:
    value: dict[str, list[Json]] = json.loads(payloads_file().read_bytes())
    return value


def payloads() -> dict[str, list[Json]]:
    """Every example of ``KINDS``. Skips the test where they cannot be had (fails it with CI=true)."""
    try:
        return _payloads()
    except ContractUnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def example(kind: str, action: str = "", *, where: Callable[[Json], bool] = lambda payload: True) -> Json:
    """A copy of the first example of a kind and an action that ``where`` takes. Raises LookupError where there is none."""
    for payload in payloads()[kind]:
        if (not action or payload.get("action") == action) and where(payload):
            return copy.deepcopy(payload)
    raise LookupError(f"{PACKAGE} has no such example of {kind} {action}")


def from_fork(payload: Json) -> Json:
    """The pull request's head in another repository."""
    theirs = payload["pull_request"]["head"]["repo"]
    theirs |= {"id": theirs["id"] + 7, "full_name": "stranger/skills", "fork": True}
    theirs["owner"] = {**theirs["owner"], "login": "stranger"}
    return payload


def from_deleted_fork(payload: Json) -> Json:
    """The pull request's head in a repository that is gone."""
    payload["pull_request"]["head"] |= {"repo": None, "user": None}
    return payload


def from_dependabot(payload: Json) -> Json:
    """The pull request of Dependabot, in the repository itself."""
    bot = {**payload["sender"], "login": "dependabot[bot]", "type": "Bot"}
    payload["sender"] = payload["pull_request"]["user"] = bot
    return payload
