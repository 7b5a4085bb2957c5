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
from gate.errors import ConfigurationError
from gate.settings import HARNESSES, HarnessName

SECRET_INPUTS = ("github-token", "anthropic-api-key", "openai-api-key", "cache-key")
"""Never read here: ``gate.wiring`` has taken them out of the environment before."""
DISPATCH_INPUTS = ("paths", "mode", "base", "pull-request")
"""Where the Action has no such input, that of the dispatched workflow with the same name counts."""
DEFAULT_CONTEXT = "skill-gate"
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
    cache_dir: str | None = None
    out: str | None = None
    exit_conditional: Literal[0, 1] = 0
    pull_request: int | None = Field(default=None, ge=1)
    """For ``workflow_dispatch``: the pull request to judge and to report to."""


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
            text = (asked.get(name) or asked.get(name.replace("-", "_")) or "").strip()
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
    if not _CONTEXT.fullmatch(text):
        raise ValueError("at most 100 letters, digits, spaces and any of ._:/()-")
    return text


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
    "cache-dir": str,
    "out": str,
    "exit-conditional": _whole(0, 1),
    "pull-request": _whole(1, 999_999_999),
}
INPUTS = (*SECRET_INPUTS, *_PARSERS)
"""Every input that action.yml declares."""
