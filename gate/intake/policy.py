"""``.github/skill-gate.yml``: the policy of the base branch.

It is read from the tip of the base branch, never from head: whoever is judged touches nothing that judges. A mistake in
it is the repository's set-up, so its findings block the session; a pull request's own policy takes effect after merge.
"""

from __future__ import annotations

import datetime as dt
import json
import types
from collections.abc import Iterable
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from gate.domain.chat import Role
from gate.domain.findings import Finding
from gate.domain.skill import EXECUTABLE, REGULAR
from gate.intake.json_text import decoded
from gate.intake.notes import Notes, nearest, short
from gate.intake.yaml_text import Node, at, parse_yaml, plain
from gate.protocols import Repository
from gate.settings import Policy

POLICY_PATH = ".github/skill-gate.yml"
_MISSPELT = ".github/skill-gate.yaml"


def parse_policy(data: bytes, path: str = POLICY_PATH) -> tuple[Policy, tuple[Finding, ...]]:
    """A policy, and everything that is wrong with it at once. With an error the policy is the default one. Never raises."""
    notes = Notes(path, "policy")
    text, problem = decoded(data)
    parsed = parse_yaml(text) if problem is None else None
    for item in (problem,) if problem else parsed.problems if parsed else ():
        notes.block("yaml", item.message, line=item.line, column=item.column, remedy=item.remedy)
    root = parsed.root if parsed else None
    if notes.items or root is None or root.value is None:
        return Policy(), notes.all()
    if not root.is_map:
        notes.block("no-mapping", f"the policy is {root.kind}; keys and values were expected", line=root.line)
        return Policy(), notes.all()
    policy = Policy()
    try:
        # As JSON and strict: true is no number and "3" is none either, but words become enums and lists tuples.
        policy = Policy.model_validate_json(json.dumps(plain(root)), strict=True)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _complain(detail, root, notes)
    _dates(root, notes, "waivers", "waiver-date")
    _dates(root, notes, "suppressions", "suppression-date")
    in_order = sorted(notes.items, key=lambda item: (item.line or 0, item.column or 0))
    return (Policy() if in_order else policy), tuple(in_order)


def read_policy(repo: Repository, commit: str | None) -> tuple[Policy, tuple[Finding, ...]]:
    """The policy of a commit: give the tip of the base branch. The default one where there is no policy or no commit.

    A finding that blocks is a mistake in it, and then the policy is the default one: the session must not start.
    """
    if commit is None:
        return Policy(), ()
    data = _content(repo, commit, POLICY_PATH)
    if data is not None:
        return parse_policy(data)
    notes = Notes(_MISSPELT, "policy")
    if _content(repo, commit, _MISSPELT) is not None:
        notes.warn("name", f"this file is not read; the policy is {POLICY_PATH}", remedy="Rename it.")
    return Policy(), notes.all()


def policy_change(repo: Repository, base_tip: str | None, head: str) -> tuple[Finding, ...]:
    """What head does to the policy, which is nothing yet: it takes effect after merge. Its mistakes do not block."""
    notes = Notes(POLICY_PATH, "policy")
    base = _content(repo, base_tip, POLICY_PATH) if base_tip else None
    own = _content(repo, head, POLICY_PATH)
    if own == base:
        return ()
    if own is None:
        notes.notice("own", f"this head removes {POLICY_PATH}; that takes effect after merge")
        return notes.all()
    where = "its change takes effect after merge" if base_tip else "no base branch is known, so it is not used"
    notes.notice("own", f"this head has an own {POLICY_PATH}; {where}")
    return (*notes.all(), *(item.model_copy(update={"blocks": False}) for item in parse_policy(own)[1]))


def _content(repo: Repository, commit: str, path: str) -> bytes | None:
    folder, _, _ = path.rpartition("/")
    for entry, mode, blob in repo.tree(commit, folder):
        if entry == path and mode in (REGULAR, EXECUTABLE):
            return repo.blobs([blob])[blob]
    return None


def _complain(detail: Any, root: Node, notes: Notes) -> None:
    place = tuple(part for part in detail["loc"] if part != "[key]")
    node = at(root, place)
    label = ".".join(str(part) for part in place)
    if "[key]" in detail["loc"]:
        known = [str(role) for role in Role]  # the one mapping with keys from a list
        likely = nearest(str(place[-1]), known)
        hint = f"did you mean {likely}?" if likely else f"known are {', '.join(known)}"
        message = f'"{short(label)}" is no role; {hint}'
    elif detail["type"] == "extra_forbidden":
        likely = nearest(str(place[-1]), _keys(place[:-1]))
        hint = f"did you mean {likely}?" if likely else f"known are {', '.join(_keys(place[:-1]))}"
        message = f'"{short(label)}" is an unknown key; {hint}'
    elif detail["type"] == "missing":
        message = f"{short(label)} is missing"
    else:
        text = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input ")
        found = f'"{short(node.source)}"' if isinstance(node.value, str) else node.kind
        message = f"{short(label)} {text[:1].lower()}{text[1:]}; found {found}"
    notes.block("invalid", message, line=node.line, column=node.column)


def _keys(place: Iterable[str | int]) -> list[str]:
    """The keys that are known at a place of the policy."""
    model: Any = Policy
    for part in place:
        if isinstance(part, int):
            continue
        if get_origin(model) is dict:  # the keys of a mapping are anybody's; its values have known ones
            model = _model_in(get_args(model)[1])
            continue
        field = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        if field is None:
            return []
        model = _model_in(field.annotation)
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _model_in(annotation: Any) -> Any:
    if get_origin(annotation) is dict:
        return annotation
    if get_origin(annotation) in (tuple, types.UnionType):
        return next(
            (item for item in get_args(annotation) if isinstance(item, type) and issubclass(item, BaseModel)), None
        )
    return annotation


def _dates(root: Node, notes: Notes, key: str, rule: str) -> None:
    """Ends of exceptions: each must be a date, or the exception would hold for ever or never."""
    exceptions = root.value.get(key)
    for index, exception in enumerate(exceptions.value if exceptions is not None and exceptions.is_list else []):
        expires = exception.value.get("expires") if exception.is_map else None
        if expires is None or not isinstance(expires.value, str):
            continue  # the model says so
        try:
            dt.date.fromisoformat(expires.value)
        except ValueError:
            notes.block(
                rule,
                f'{key}.{index}.expires "{short(expires.value)}" is no date; 2026-12-31 was expected',
                line=expires.line,
                column=expires.column,
            )
