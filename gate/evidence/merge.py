"""Shards of one plan put together again: each is checked before anything of it is taken, and none can be left out unseen."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from gate.domain.base import Value
from gate.domain.findings import Finding
from gate.domain.report import CaseUse, ModelUse
from gate.errors import ConfigurationError, EvidenceError, InfrastructureError
from gate.evidence.bundle import Bundle, parse_value
from gate.evidence.seal import MANIFEST, check_bundle

SHARD = "shard.json"
_OWN = frozenset({"skill.json", "manifests.json", "contract.json"})
"""Files of a skill that the merged session writes itself, from the plan."""


class ShardFacts(Value):
    """shard.json: what one shard has to say beside its runs."""

    schema_version: int = 1
    plan: str
    """Digest of the plan that it is a part of."""
    number: int = Field(ge=1)
    count: int = Field(ge=1)
    attempt: int = Field(default=1, ge=1)
    """Of the job: a shard that was started again counts instead of its earlier attempts."""
    usage: tuple[ModelUse, ...] = ()
    cases: tuple[CaseUse, ...] = ()
    """The same by case."""
    sandbox: str = ""
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    errors: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By skill slug, as in skill.json."""
    over_budget: dict[str, str] = Field(default_factory=dict)


class Merged(NamedTuple):
    """What the shards of a plan have to say together."""

    shards: tuple[ShardFacts, ...]
    """The one of each number that counts, by number."""
    missing: tuple[int, ...]
    """Numbers of which no intact folder was given and none that is broken either."""
    broken: dict[int, str]
    """Number -> what is wrong with the only folder of it, naming the file."""


def merge_shards(folders: Sequence[Path], plan: str, count: int, out: Bundle, mac_key: bytes | None = None) -> Merged:
    """Check every shard's seal and copy the runs of those that count into ``out``.

    ``plan`` and ``count`` are what they must be shards of. With ``mac_key`` each must carry the MAC of that key. Of several
    intact ones of a number the one of the latest attempt counts; equal attempts must be equal. A damaged one counts as
    broken unless it says of itself that it is of an earlier attempt: damage must not choose which result is taken. Raises
    ConfigurationError for a folder that is no shard, one of another plan or count, and a damaged one that could be any.
    """
    intact: dict[int, list[tuple[ShardFacts, Path]]] = {}
    damaged: dict[int, list[tuple[int, str]]] = {}
    unreadable: list[str] = []
    for folder in folders:
        problems = check_bundle(folder, mac_key)
        try:
            facts = _facts(folder, plan, count)
        except ConfigurationError:
            if not problems:
                raise
            unreadable.append(f"{problems[0]} (which shard it is cannot be read)")
            continue
        if problems:
            text = f"{facts.number}/{facts.count}: {problems[0]}"
            damaged.setdefault(facts.number, []).append((facts.attempt, text))
        else:
            intact.setdefault(facts.number, []).append((facts, folder))
    broken: dict[int, str] = {}
    for number, found in damaged.items():
        attempt, text = max(found)
        if number not in intact or attempt >= _latest(intact[number])[0].attempt:
            broken[number] = text
    chosen = [_latest(found) for number, found in sorted(intact.items()) if number not in broken]
    missing = tuple(number for number in range(1, count + 1) if number not in intact and number not in broken)
    if unreadable and not missing:
        raise ConfigurationError(
            f"A folder is damaged, so that nobody can say whether it holds a later attempt: {unreadable[0]}.",
            remedy="Fetch it again, or leave it out where it is known to be of an earlier attempt.",
        )
    for _, folder in chosen:
        _copy(folder, out)
    if unreadable:
        # One of these is the folder that was changed; none of them can be trusted to be the other.
        broken |= {number: f"{number}/{count}: {unreadable[0]}" for number in missing}
        missing = ()
    return Merged(tuple(facts for facts, _ in chosen), missing, broken)


def _facts(folder: Path, plan: str, count: int) -> ShardFacts:
    try:
        raw = Bundle(folder).read_bytes(SHARD)
        facts = parse_value(raw, ShardFacts)
    except (EvidenceError, ValidationError) as error:
        raise ConfigurationError(
            f"{folder} is no shard: its {SHARD} cannot be read ({_first_line(error)}).",
            remedy="Name the folders that `skill-gate run --plan P --shard i/n --out DIR` wrote.",
        ) from None
    if facts.plan != plan or facts.count != count or facts.number > count:
        raise ConfigurationError(
            f"{folder} holds shard {facts.number}/{facts.count} of another plan.",
            remedy="Merge the shards of one plan, cut into one number of shards.",
        )
    return facts


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _latest(found: Sequence[tuple[ShardFacts, Path]]) -> tuple[ShardFacts, Path]:
    latest = max(facts.attempt for facts, _ in found)
    same = [(facts, folder) for facts, folder in found if facts.attempt == latest]
    manifests = {(folder / MANIFEST).read_bytes() for _, folder in same}
    if len(manifests) > 1:
        facts = same[0][0]
        raise ConfigurationError(
            f"There are two different results of shard {facts.number}/{facts.count}, attempt {latest}.",
            remedy="Keep one folder of each shard.",
        )
    return same[0]


def _copy(folder: Path, out: Bundle) -> None:
    for path in sorted(folder.glob("skills/**/*")):
        relative = path.relative_to(folder)
        if path.is_file() and not (len(relative.parts) == 3 and relative.name in _OWN):
            target = out.path(relative.as_posix())
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            except OSError as error:
                raise InfrastructureError(
                    f"{relative} of {folder} could not be copied: {error.strerror}.",
                    remedy="Free disk space or choose another output folder, then merge again.",
                ) from error


def summed(uses: Iterable[ModelUse]) -> tuple[ModelUse, ...]:
    """What each (role, model) spent over all shards; what one does not know, nobody knows."""
    groups: dict[tuple[str, str], list[ModelUse]] = {}
    for use in uses:
        groups.setdefault((use.role, use.model), []).append(use)
    return tuple(_sum(groups[key]) for key in sorted(groups))


def summed_cases(uses: Iterable[CaseUse]) -> tuple[CaseUse, ...]:
    """The same of each case: one that is cut over shards, or was planned in one and run in another, is still one case."""
    groups: dict[str, list[CaseUse]] = {}
    for use in uses:
        groups.setdefault(use.case, []).append(use)
    return tuple(CaseUse(case=case, **_totals(groups[case])) for case in sorted(groups))


def _sum(uses: Sequence[ModelUse]) -> ModelUse:
    return ModelUse.model_validate({"role": uses[0].role, "model": uses[0].model, **_totals(uses)})


def _totals(uses: Sequence[ModelUse] | Sequence[CaseUse]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for name in type(uses[0]).model_fields:
        if name not in ("role", "model", "case"):
            values = [getattr(use, name) for use in uses]
            total[name] = None if None in values else sum(values)
    return total


def shard_errors(merged: Merged, skills: Mapping[int, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """By skill slug, every error of its shards; a shard that is missing is an error of each skill that it had cases of.

    ``skills``: shard number -> slugs of the skills whose cases it has.
    """
    found: dict[str, set[str]] = {}
    for facts in merged.shards:
        for slug, texts in facts.errors.items():
            found.setdefault(slug, set()).update(texts)
    for number in merged.missing:
        for slug in skills[number]:
            found.setdefault(slug, set()).add(f"shard {number} of the plan is missing: its cases were not run")
    return {slug: tuple(sorted(texts)) for slug, texts in found.items()}
