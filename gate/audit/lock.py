"""``skill-gate.lock``: what was judged last, by content, committed beside the skills (opt-in).

Anybody can write such a file, so it is never evidence of a pass: no verdict, state or exit code gets better by it. It can
only say that something changed since it was judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from gate.audit.attest import BundleFacts, suite_digest
from gate.domain.base import Value, pretty_json
from gate.domain.findings import Finding, Level
from gate.domain.report import Verdict
from gate.errors import ConfigurationError
from gate.evidence.files import write_atomic
from gate.intake.tree import CheckedSkill

NAME = "skill-gate.lock"
LARGEST = 10_000_000
"""Bytes; a larger file is no lock."""
AGAIN = "Judge it again, then: skill-gate lock BUNDLE."


class LockedSkill(Value):
    """What was judged of one skill."""

    tree: str = Field(pattern="^[0-9a-f]{64}$")
    """Its tree hash."""
    suite: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    models: str = ""
    images: tuple[str, ...] = ()
    mode: str = ""
    verdict: Verdict
    """What the bundle said then. It proves nothing here."""
    policy: str = ""
    bundle: str = Field(pattern="^[0-9a-f]{64}$")
    """Digest of the bundle that shows it."""
    judged_on: str = ""


class Lock(Value):
    """The file."""

    schema_version: Literal[1] = 1
    skills: dict[str, LockedSkill] = Field(default_factory=dict)
    """By path, relative to the file's folder."""


class Now(Value):
    """A skill as it is."""

    path: str
    tree: str | None
    suite: str | None


def read_lock(folder: Path) -> Lock | None:
    """The lock of a folder; None where there is none. Raises ConfigurationError for one that cannot be read."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        raw = path.read_bytes() if path.stat().st_size <= LARGEST else b"too large"
        return Lock.model_validate_json(raw)
    except (OSError, ValidationError, ValueError):
        raise ConfigurationError(
            f"{path} is no lock that skill-gate wrote.", remedy="Remove it, or write it anew."
        ) from None


def write_lock(folder: Path, facts: BundleFacts) -> Lock:
    """Put the skills of a bundle into the folder's lock; entries of other skills stay. Raises ConfigurationError."""
    old = read_lock(folder) or Lock()
    new = {
        item.path: LockedSkill(
            tree=item.tree,
            suite=item.suite,
            models=item.models,
            images=item.images,
            mode=facts.mode,
            verdict=item.verdict,
            policy=facts.policy,
            bundle=facts.digest,
            judged_on=facts.run_date,
        )
        for item in facts.skills
        if item.tree is not None
    }
    lock = Lock(skills=dict(sorted({**old.skills, **new}.items())))
    write_atomic(folder / NAME, pretty_json(lock))
    return lock


def stale_findings(lock: Lock, skills: Iterable[Now], *, path: str = NAME) -> tuple[Finding, ...]:
    """What differs from the lock, one finding a skill. A lock that is current gives none, and proves nothing either."""
    findings = []
    seen = set()
    for skill in skills:
        seen.add(skill.path)
        locked = lock.skills.get(skill.path)
        if locked is None:
            findings.append(_finding(path, skill.path, "was never locked", Level.NOTICE))
            continue
        changed = [
            name
            for name, then, now in (("files", locked.tree, skill.tree), ("suite", locked.suite, skill.suite))
            if then != now
        ]
        if changed:
            words = f"{' and '.join(changed)} changed since it was judged on {locked.judged_on or 'an unknown day'}"
            findings.append(_finding(path, skill.path, words, Level.WARNING))
        elif locked.verdict is not Verdict.PASS:
            findings.append(
                _finding(path, skill.path, f"did not pass when it was judged: {locked.verdict}", Level.NOTICE)
            )
    findings += [
        _finding(path, name, "is locked and is not there", Level.NOTICE) for name in sorted(set(lock.skills) - seen)
    ]
    return tuple(findings)


class Locks:
    """The locks of the folders that ``check`` looks at, and the skills that it saw there."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Raises ConfigurationError for a lock that cannot be read."""
        self._locks = {name: lock for name in folders if (lock := read_lock(Path(name))) is not None}
        self._seen: dict[str, list[Now]] = {}

    def see(self, folder: str, skill: CheckedSkill) -> None:
        """One skill below a folder, its path as ``check`` names it."""
        if folder not in self._locks or skill.orphan:
            return
        start = f"{folder.rstrip('/')}/"
        tree = skill.skill.tree_sha256 if skill.skill is not None else None
        path = skill.path if folder == "." else skill.path.removeprefix(start)
        self._seen.setdefault(folder, []).append(Now(path=path, tree=tree, suite=suite_digest(skill.suite)))

    def findings(self) -> tuple[Finding, ...]:
        """What is stale, of every folder with a lock."""
        return tuple(
            finding
            for folder, lock in self._locks.items()
            for finding in stale_findings(
                lock, self._seen.get(folder, ()), path=NAME if folder == "." else f"{folder.rstrip('/')}/{NAME}"
            )
        )


def _finding(path: str, skill: str, words: str, level: Level) -> Finding:
    named = json.dumps(skill, ensure_ascii=False)
    return Finding(rule="lock/stale", level=level, path=path, message=f"{named} {words}", remedy=AGAIN)
