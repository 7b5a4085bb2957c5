"""Plans as files, shards as folders: what ``plan``, ``run --shard`` and ``merge`` share."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from gate.cli.app import App
from gate.cli.session import alone_in, cache_secret, check_out, finish_session, open_cache, open_world
from gate.cli.terminal import visible
from gate.domain.base import pretty_json
from gate.domain.numbers import counted
from gate.domain.plan import SessionPlan
from gate.domain.report import GateReport
from gate.errors import ConfigurationError
from gate.evidence.assemble import contract_file
from gate.evidence.bundle import parse_value
from gate.evidence.cache import Cache, derive_key
from gate.evidence.files import write_atomic
from gate.evidence.merge import SHARD
from gate.evidence.seal import seal_bundle
from gate.llm.journal import JOURNAL
from gate.pipeline import make_plan, merge, run_shard
from gate.planning.shards import parse_shard, units
from gate.settings import CacheSettings, Settings

_PURPOSE = b"skill-gate plan 1\0"


def write_plan(app: App, settings: Settings, file: Path, most: int) -> str:
    """Write the plan and return the matrix of at most ``most`` shards, as one line of JSON."""
    with open_world(app, settings) as (own, world):
        made = make_plan(own, world)
    key = _key(app)
    made = made.model_copy(update={"mac": _mac(key, made) if key else ""})
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, pretty_json(made))
    cases = len(units(made.plan))
    count = max(1, min(most, cases))
    app.say(
        f"plan: {counted(len(made.plan.skills), 'skill')}, {counted(cases, 'case')} to run, {counted(count, 'shard')}: {file}"
    )
    return json.dumps({"shard": [f"{number}/{count}" for number in range(1, count + 1)]})


def run_part(
    app: App,
    file: Path,
    text: str,
    out: Path,
    *,
    cache: CacheSettings | None,
    jobs: int,
    agent: str | None = None,
    as_json: bool = False,
) -> int:
    """Run one shard of a plan into a folder of its own and seal it; returns the exit code.

    ``agent``: where this machine has the agent program; None: where the plan says. ``as_json``: prints shard.json.
    """
    plan, shard = _read_plan(app, file), parse_shard(text)
    check_out(out)
    here = {"out": str(out), "jobs": jobs, "cache": cache, **({"agent": agent} if agent else {})}
    settings = _settings_of(file, plan, here)
    with open_world(app, settings, session=plan.session) as (own, world):
        facts = run_shard(own, world, plan, shard, attempt=_attempt(app))
        about = {"session_id": plan.plan.session_id, "shard": str(shard)}
        digest = seal_bundle(out, about, _key(app), apart=(JOURNAL,))
    troubles = sum(map(len, facts.errors.values())) + len(facts.over_budget)
    inside = f", {counted(troubles, 'error')} inside" if troubles else ""
    app.say(f"shard {shard}: {out}, sealed as {digest[:12]}{inside}")
    if as_json:
        click.echo((out / SHARD).read_text(encoding="utf-8"), nl=False)
    return 0


def _settings_of(file: Path, plan: SessionPlan, here: dict[str, Any]) -> Settings:
    """The plan's settings with what ``here``, this machine, has. Raises ConfigurationError."""
    try:
        return Settings.model_validate({**plan.settings, **here})
    except ValidationError as error:
        raise ConfigurationError(
            f"{file} was made by another version of the gate: {error.errors()[0]['msg']}."
        ) from None


def merge_parts(
    app: App, file: Path, folders: Sequence[Path], out: Path, *, cache: CacheSettings | None = None
) -> GateReport:
    """Merge shards into one bundle with report and pages. ``cache``: where the history goes; None: nowhere."""
    plan = _read_plan(app, file)
    counts = {count for folder in folders if (count := _count(folder)) is not None}
    if len(counts) != 1:
        raise ConfigurationError(
            "The folders are not shards of one plan cut into one number of parts."
            if counts
            else f"None of the folders holds a {SHARD} that can be read.",
            remedy="Name the folders that `skill-gate run --plan P --shard i/n --out DIR` wrote.",
        )
    check_out(out)
    _refuse_overlap(out, [file, *folders])
    with alone_in(out):
        kept = _history_in(app, file, plan, out, cache)
        report = merge(plan, folders, counts.pop(), out, _key(app), cache=kept, say=app.say)
        finish_session(app, report, out)
    return report


def _history_in(app: App, file: Path, plan: SessionPlan, out: Path, cache: CacheSettings | None) -> Cache | None:
    """The cache that holds the histories of a merged session. Never by a key of this person's own: what is remembered must
    come from shards that a given key vouches for."""
    settings = _settings_of(file, plan, {"out": str(out), "cache": cache})
    found, unkeyed = open_cache(settings, plan.plan.run_date, cache_secret(app), None)
    if unkeyed:
        app.say(
            "nothing is added to the history: without a provider's key or a cache key nobody can say who made the shards"
        )
    return found


def _refuse_overlap(out: Path, given: Sequence[Path]) -> None:
    """``out`` is emptied before it is written: nothing that is read may lie in it. Raises ConfigurationError."""
    target = out.resolve()
    for path in given:
        place = path.resolve()
        if place.is_relative_to(target) or target.is_relative_to(place):
            raise ConfigurationError(
                f"--out {out} would overwrite {path}, which is to be merged.", remedy="Name another folder with --out."
            )


def _count(folder: Path) -> int | None:
    """Into how many parts the plan was cut, by one shard's own word; the seal is checked later."""
    try:
        count = json.loads((folder / SHARD).read_bytes())["count"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return count if isinstance(count, int) and 1 <= count <= 256 else None


def _read_plan(app: App, file: Path) -> SessionPlan:
    try:
        plan = parse_value(file.read_bytes(), SessionPlan)
        plan.whole()
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error.strerror}.", remedy="Name the file of `skill-gate plan`."
        ) from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigurationError(
            f"{file} is no plan of this version: {where}: {first['msg']}.",
            remedy="Make it again with `skill-gate plan`.",
        ) from None
    except ValueError as error:
        raise ConfigurationError(
            f"{file} is not whole: {error}.", remedy="Make it again with `skill-gate plan`."
        ) from None
    if odd := sorted(set(plan.files) - {contract_file(skill.slug) for skill in plan.plan.skills}):
        raise ConfigurationError(
            f"{file} holds a file that no plan of this version has: {visible(odd[0])[:200]}.",
            remedy="Make it again with `skill-gate plan`.",
        )
    key = _key(app)
    if key is None and plan.mac:
        raise ConfigurationError(
            f"{file} was made with a key, and there is none here to check it and its shards with.",
            remedy="Give this job the key of the job that plans (SKILL_GATE_CACHE_KEY, or the provider's).",
        )
    if key is not None and not hmac.compare_digest(plan.mac.encode(), _mac(key, plan).encode()):
        raise ConfigurationError(
            f"{file} was not made with the key of this session, or was changed.",
            remedy="Give the job that plans the same key (SKILL_GATE_CACHE_KEY, or the provider's).",
        )
    return plan


def _key(app: App) -> bytes | None:
    secret = cache_secret(app)
    return derive_key(secret) if secret else None


def _mac(key: bytes, plan: SessionPlan) -> str:
    return hmac.new(key, _PURPOSE + plan.digest.encode(), hashlib.sha256).hexdigest()


def _attempt(app: App) -> int:
    text = app.environ.get("GITHUB_RUN_ATTEMPT", "1")
    return int(text) if text.isdecimal() and int(text) >= 1 else 1
