"""The inputs of the Action, as GitHub's runner hands them over: ``INPUT_`` and the name in upper case, dashes kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from gate.domain.base import Value
from gate.domain.event import DispatchEvent
from gate.domain.plan import Enforce, Mode
from gate.domain.refs import is_name
from gate.domain.report import Language
from gate.errors import ConfigurationError
from gate.settings import HARNESSES, HarnessName

SECRET_INPUTS = ("github-token", "anthropic-api-key", "openai-api-key", "cache-key")
"""Never read here: ``gate.wiring`` has taken them out of the environment before."""
DISPATCH_INPUTS = ("paths", "mode", "base", "pull-request", "sha", "ref", "budget")
"""Where the Action has no such input, that of the dispatched workflow with the same name counts."""
SHORT_NAMES = {"pull-request": "pr"}
"""Further names of inputs of a dispatched workflow, which people type."""
DEFAULT_CONTEXT = "skill-gate"
CHECK_SUFFIX = " report"
"""Makes the name of the check run of the status's: one name for both would be two requirements of branch protection."""
RELEASE_STATUS = "/release"
"""Makes the name of the status of a tag; no other run may write one of that name."""
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_CONTEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/()-]{0,99}")


class CommentWhen(StrEnum):
    """When the pull request gets a comment."""

    ALWAYS = "always"
    NEVER = "never"
    FAILURE = "failure"
    """Where the gate says no or could not tell; a comment that is there already is kept up to date all the same."""


class ActionInputs(Value):
    """Everything that a workflow can say. None and empty: it says nothing."""

    model: str | None = None
    judge_model: str | None = None
    mode: Mode | None = None
    enforce: Enforce | None = None
    paths: tuple[str, ...] = ()
    base: str | None = None
    harness: HarnessName | None = None
    image: str | None = None
    jobs: int = Field(default=4, ge=1, le=64)
    comment: CommentWhen = CommentWhen.ALWAYS
    status: bool = True
    status_context: str = DEFAULT_CONTEXT
    check: bool = False
    """Whether a check run is written beside the status, with annotations at the lines of the findings."""
    cache_dir: str | None = None
    out: str | None = None
    language: Language | None = None
    """What comment, status, summary and check run are written in."""
    exit_conditional: Literal[0, 1] = 0
    pull_request: int | None = Field(default=None, ge=1)
    """For ``workflow_dispatch``: the pull request to judge and to report to."""
    sha: str | None = None
    """With ``pull_request``: the one head that was looked at and may run."""
    ref: str | None = None
    """For ``workflow_dispatch``: the branch, tag or commit to audit instead of the one that it was started on."""
    budget: float | None = Field(default=None, gt=0)
    """US dollars that the session may spend."""
    service_url: str | None = None
    """The gate service that does the work of a pull request, for repositories without keys."""


def input_of(environ: Mapping[str, str], name: str) -> str:
    """An input; empty where there is none. The runner keeps dashes; a spelling with underscores counts as well."""
    for key in (name.upper(), name.upper().replace("-", "_")):
        value = environ.get(f"INPUT_{key}", "").strip()
        if value:
            return value
    return ""


def read_inputs(environ: Mapping[str, str], event: object = None) -> ActionInputs:
    """All inputs. Raises ConfigurationError with everything that is wrong with them at once."""
    asked = event.inputs if isinstance(event, DispatchEvent) else {}
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for name, parse in _PARSERS.items():
        text = input_of(environ, name)
        if not text and name in DISPATCH_INPUTS:
            names = (name, name.replace("-", "_"), SHORT_NAMES.get(name, name))
            text = next((asked[one] for one in names if asked.get(one)), "").strip()
        if not text:
            continue
        try:
            values[name.replace("-", "_")] = parse(text)
        except ValueError as error:
            wrong.append(f'input {name} is "{_short(text)}"; {error} was expected')
    if wrong:
        raise ConfigurationError(f"{'; '.join(wrong)}.", remedy="Correct it under `with:` in the workflow.")
    return ActionInputs(**values)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"


def _one_of(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    def parse(text: str) -> StrEnum:
        known = [item.value for item in kind]
        if text not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return kind(text)

    return parse


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and least <= int(text) <= most):
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return parse


def _context(text: str) -> str:
    # GitHub compares names of statuses without regard to case.
    if not _CONTEXT.fullmatch(text) or text.casefold().endswith((CHECK_SUFFIX, RELEASE_STATUS)):
        raise ValueError(
            f'at most 100 letters, digits, spaces and any of ._:/()-, and neither "{CHECK_SUFFIX.strip()}" nor '
            f'"{RELEASE_STATUS}" at its end'
        )
    return text


def _commit(text: str) -> str:
    if not _COMMIT.fullmatch(text):
        raise ValueError("a whole commit id of 40 hex digits in lower case")
    return text


def _ref(text: str) -> str:
    if not is_name(text):
        raise ValueError("the name of a branch or a tag, or a whole commit id")
    return text


def _dollars(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,4})?", text) or float(text) <= 0:
        raise ValueError("an amount of US dollars such as 2.50")
    return float(text)


def _harness(text: str) -> str:
    if text not in HARNESSES:
        raise ValueError(f"one of {', '.join(HARNESSES)}")
    return text


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


_PARSERS: dict[str, Callable[[str], Any]] = {
    "model": str,
    "judge-model": str,
    "mode": _one_of(Mode),
    "enforce": _one_of(Enforce),
    "paths": _lines,
    "base": str,
    "harness": _harness,
    "image": str,
    "jobs": _whole(1, 64),
    "comment": _one_of(CommentWhen),
    "status": _truth,
    "status-context": _context,
    "check": _truth,
    "cache-dir": str,
    "out": str,
    "language": _one_of(Language),
    "exit-conditional": _whole(0, 1),
    "pull-request": _whole(1, 999_999_999),
    "sha": _commit,
    "ref": _ref,
    "budget": _dollars,
    "service-url": str,
}
INPUTS = (*SECRET_INPUTS, *_PARSERS)
"""Every input that action.yml declares."""
