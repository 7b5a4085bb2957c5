"""The event that started a job: GitHub's payload, read field by field.

The payload is a file that earlier steps of the job can write to, so nothing in it is taken for granted: a field that is
missing or is something else is a ConfigurationError that names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gate.domain.event import DispatchEvent, Event, HeadEvent, OtherEvent, PullRequestEvent
from gate.errors import ConfigurationError
from gate.intake.compared import compared
from gate.intake.notes import short

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


def read_event(name: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> Event:
    """The event of a job: ``name`` is GITHUB_EVENT_NAME, ``payload`` the JSON of GITHUB_EVENT_PATH.

    Of ``environ`` GITHUB_REF, GITHUB_SHA and GITHUB_ACTOR are read, where a payload does not say. Raises
    ConfigurationError naming the field that is missing or wrong.
    """
    if not name:
        raise ConfigurationError(
            "GITHUB_EVENT_NAME is not set.", remedy="Run this command as a GitHub Action, or use: skill-gate run"
        )
    if name == "pull_request":
        return _pull_request(_Fields(payload), environ)
    if name == "workflow_dispatch":
        return _dispatch(_Fields(payload), environ)
    if name in ("check_run", "check_suite"):
        return _rerequested(name, _Fields(payload))
    if name == "workflow_run":
        return _second_stage(_Fields(payload))
    return compared(name, payload, environ)


def _pull_request(payload: _Fields, environ: Mapping[str, str]) -> PullRequestEvent:
    pull = payload.at("pull_request")
    head, base = pull.at("head"), pull.at("base")
    repository = payload.at("repository")
    fork = head.at("repo") if head.value("repo") is not None else None
    labels = pull.value("labels", [])
    if not isinstance(labels, list):
        raise pull.wrong("labels", "a list", labels)
    return PullRequestEvent(
        number=pull.whole("number"),
        base_ref=base.text("ref"),
        base_sha=base.sha("sha"),
        head_sha=head.sha("sha"),
        head_repository=fork.repository("full_name") if fork else None,
        head_repository_id=fork.whole("id") if fork else None,
        repository=repository.repository("full_name"),
        repository_id=repository.whole("id"),
        draft=pull.truth("draft"),
        author=_login(pull, "user"),
        actor=_login(payload, "sender") or environ.get("GITHUB_ACTOR", ""),
        labels=tuple(_Fields(one, f"{pull.place}.labels.{index}").text("name") for index, one in enumerate(labels)),
        action=payload.text("action"),
        label=payload.at("label").text("name") if payload.value("label", None) is not None else "",
        state=pull.text("state"),
    )


def _dispatch(payload: _Fields, environ: Mapping[str, str]) -> DispatchEvent:
    given = payload.value("inputs", {}) or {}  # null where the workflow declares none
    if not isinstance(given, dict):
        raise payload.wrong("inputs", "an object", given)
    sha = environ.get("GITHUB_SHA", "")
    if not _SHA.fullmatch(sha):
        raise ConfigurationError(f'GITHUB_SHA is "{short(sha)}"; a commit id was expected.', remedy=_REMEDY)
    repository = payload.at("repository")
    return DispatchEvent(
        ref=payload.text("ref"),
        sha=sha,
        inputs={str(key): _as_text(value) for key, value in given.items() if value is not None},
        repository=repository.repository("full_name"),
        default_branch=repository.text("default_branch"),
        actor=_login(payload, "sender") or environ.get("GITHUB_ACTOR", ""),
    )


def _rerequested(name: str, payload: _Fields) -> Event:
    if (action := payload.text("action")) != "rerequested":
        return OtherEvent(name=name, because=f"the {name.replace('_', ' ')} was {short(action)}, not asked for again")
    about, repository = payload.at(name), payload.at("repository")
    return HeadEvent(
        name=name,
        head_sha=about.sha("head_sha"),
        repository=repository.repository("full_name"),
        repository_id=repository.whole("id"),
        check=about.text("name") if name == "check_run" else "",
    )


def _second_stage(payload: _Fields) -> Event:
    """Of the run that this one follows nothing is read but whose commit it was about: its artifacts are a stranger's."""
    run, repository = payload.at("workflow_run"), payload.at("repository")
    if (action := payload.text("action")) != "completed":
        return OtherEvent(name="workflow_run", because=f"the run that this one follows is only {short(action)}")
    if (cause := run.text("event")) != "pull_request":
        return OtherEvent(name="workflow_run", because=f"the run that this one follows was started by {short(cause)}")
    head = run.at("head_repository") if run.value("head_repository", None) is not None else None
    return HeadEvent(
        name="workflow_run",
        head_sha=run.sha("head_sha"),
        repository=repository.repository("full_name"),
        repository_id=repository.whole("id"),
        head_repository_id=head.whole("id") if head else None,
        actor=_login(run, "actor"),
    )


def _as_text(value: object) -> str:
    """Inputs of the types boolean and number come as such."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _login(fields: _Fields, name: str) -> str:
    """Empty where the account is gone."""
    return fields.at(name).text("login") if fields.value(name, None) is not None else ""


_REMEDY = "Run this command as a GitHub Action; the runner sets this."


class _Fields:
    """One JSON object of a payload, and where it stands in it."""

    def __init__(self, value: Any, place: str = "") -> None:
        """Raises ConfigurationError for anything but an object."""
        self.place = place
        if not isinstance(value, Mapping):
            raise ConfigurationError(
                f"The event's payload has {_kind(value)} at {place or 'its top'}; an object was expected.",
                remedy=_REMEDY,
            )
        self._value = value

    def value(self, name: str, *default: Any) -> Any:
        """A field as it is; the default where it is missing."""
        if name not in self._value:
            if default:
                return default[0]
            raise ConfigurationError(f"The event's payload has no {self._path(name)}.", remedy=_REMEDY)
        return self._value[name]

    def at(self, name: str) -> _Fields:
        """A field that is an object."""
        return _Fields(self.value(name), self._path(name))

    def text(self, name: str) -> str:
        """A field that is a text and not empty."""
        value = self.value(name)
        if not isinstance(value, str) or not value:
            raise self.wrong(name, "a text", value)
        return value

    def sha(self, name: str) -> str:
        """A full commit id."""
        value = self.text(name)
        if not _SHA.fullmatch(value):
            raise self.wrong(name, "a commit id", value)
        return value

    def repository(self, name: str) -> str:
        """``owner/name``."""
        value = self.text(name)
        if not _REPOSITORY.fullmatch(value):
            raise self.wrong(name, "owner/name", value)
        return value

    def whole(self, name: str) -> int:
        """A whole number above zero."""
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(name, "a whole number above zero", value)
        return value

    def truth(self, name: str) -> bool:
        """True or false."""
        value = self.value(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false", value)
        return value

    def wrong(self, name: str, expected: str, found: object) -> ConfigurationError:
        """The error for a field that is something else."""
        shown = f'"{short(found)}"' if isinstance(found, str) else _kind(found)
        return ConfigurationError(
            f"The event's payload has {shown} at {self._path(name)}; {expected} was expected.", remedy=_REMEDY
        )

    def _path(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return "a text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"
