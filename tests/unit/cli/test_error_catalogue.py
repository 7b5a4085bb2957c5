"""Every kind of error tells people what happened, where, and what to do; what nobody foresaw shows no traceback unasked."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import gate
from gate.cli.failures import DEBUG, EXIT_CANCELLED, EXIT_CONFIGURATION, EXIT_INFRASTRUCTURE, explain
from gate.errors import (
    BoxDeadError,
    BudgetError,
    Cancelled,
    ConfigurationError,
    EvidenceError,
    ForgeError,
    GateError,
    InfrastructureError,
    McpServerError,
    ModelError,
    NoCommonHistoryError,
    RepositoryError,
    SandboxError,
)

TO_PROGRAMS = {"TokenError"}
"""Answered over HTTP to a program, which shows its own error (``gate.adapters.gate_service``)."""
WHAT = "It went wrong at .github/skill-gate.yml:3."
SEEN: dict[type[GateError], tuple[GateError, int]] = {
    ConfigurationError: (ConfigurationError(WHAT), EXIT_CONFIGURATION),
    InfrastructureError: (InfrastructureError(WHAT), EXIT_INFRASTRUCTURE),
    SandboxError: (SandboxError(WHAT), EXIT_INFRASTRUCTURE),
    BoxDeadError: (BoxDeadError(WHAT, agent_caused=True), EXIT_INFRASTRUCTURE),
    ModelError: (ModelError(WHAT, kind="quota"), EXIT_INFRASTRUCTURE),
    McpServerError: (McpServerError(WHAT), EXIT_INFRASTRUCTURE),
    BudgetError: (BudgetError(WHAT), EXIT_INFRASTRUCTURE),
    EvidenceError: (EvidenceError(WHAT, path="plan.json"), EXIT_INFRASTRUCTURE),
    RepositoryError: (RepositoryError(WHAT), EXIT_CONFIGURATION),
    NoCommonHistoryError: (NoCommonHistoryError(WHAT), EXIT_CONFIGURATION),
    ForgeError: (ForgeError(WHAT, kind="permission", status=403), EXIT_INFRASTRUCTURE),
    Cancelled: (Cancelled(WHAT), EXIT_CANCELLED),
}


def classes() -> Iterator[type[GateError]]:
    """Every class of the family that a module of the program defines."""
    for module in pkgutil.walk_packages(gate.__path__, "gate."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(found, GateError) and found is not GateError:
                yield found


def test_the_catalogue_has_every_class_of_the_family() -> None:
    public = {found for found in classes() if not found.__name__.startswith("_")}
    assert {found.__name__ for found in public if not issubclass(found, tuple(SEEN))} <= TO_PROGRAMS
    assert all(found.usual for found in SEEN)


@pytest.mark.parametrize("kind", SEEN, ids=lambda kind: kind.__name__)
def test_each_says_what_where_and_what_to_do_and_ends_with_its_own_code(kind: type[GateError]) -> None:
    said: list[str] = []
    error, code = SEEN[kind]
    failure = explain(error, said.append)
    assert failure.exit_code == code
    assert WHAT in said[0]
    assert failure.remedy == error.usual
    assert f"  what to do: {error.usual}" in said
    assert failure.remedy.endswith((".", ")"))


def test_the_remedy_of_one_error_comes_before_that_of_its_kind() -> None:
    said: list[str] = []
    explain(ConfigurationError(WHAT, remedy="Write mode: full."), said.append)
    assert said == [f"error: {WHAT}", "  what to do: Write mode: full."]


def failed() -> Exception:
    with pytest.raises(KeyError) as caught:
        dict[str, str]()["::error::\u202ename"]
    return caught.value


@pytest.mark.parametrize("asked", [False, True])
def test_a_crash_names_its_place_and_shows_a_traceback_only_where_somebody_asks(
    monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    monkeypatch.delenv("RUNNER_DEBUG", raising=False)
    said: list[str] = []
    token = DEBUG.set(asked)
    try:
        failure = explain(failed(), said.append)
    finally:
        DEBUG.reset(token)
    text = "\n".join(said)
    assert failure.exit_code == EXIT_INFRASTRUCTURE
    assert failure.crashed
    assert ("Traceback" in text) is asked
    assert "KeyError in test_error_catalogue.py:" in text
    assert "--debug" in said[-1]


def test_a_job_with_debug_logging_shows_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_DEBUG", "1")
    said: list[str] = []
    explain(failed(), said.append)
    assert "Traceback" in said[0]
