"""The error family. Each error says what happened and, in ``remedy``, what a person should do next.

Whose fault it is has a type: ``ConfigurationError`` is the user's set-up (exit code 2), ``InfrastructureError`` and its
kin are the world around the gate (exit code 3, never a verdict on a skill). Bad content of a pull request is not an
exception at all: it becomes a ``Finding`` (``gate.domain.findings``).
"""

from __future__ import annotations


class GateError(Exception):
    """Root of the family. ``message`` is one or two plain sentences; ``remedy`` is one sentence, or empty."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class ConfigurationError(GateError):
    """An input, a flag, the policy or the environment is wrong. Nothing was judged."""


class InfrastructureError(GateError):
    """Something outside the skill and the gate failed. Never counts for or against a skill."""


class SandboxError(InfrastructureError):
    """The container engine could not do what was asked (not: a command in the sandbox failed)."""


class BoxDeadError(SandboxError):
    """The sandbox itself is gone or can run no more commands.

    ``agent_caused`` tells whether what ran inside did it (a scored outcome) or the engine (infrastructure).
    """

    def __init__(self, message: str, *, remedy: str = "", agent_caused: bool = False, oom: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.agent_caused = agent_caused
        self.oom = oom


class ModelError(InfrastructureError):
    """A model provider did not give a usable reply.

    ``kind`` is one of ``auth``, ``quota``, ``overload``, ``bad_request``, ``context_length`` (the conversation is longer than
    the model takes), ``not_found``, ``timeout``, ``connection``, ``malformed``, ``replay_miss``. ``retryable`` says whether asking again later can help. ``attempts`` counts the
    requests that were sent, ``unknown_attempts`` those of them that may have been billed without saying for what.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        remedy: str = "",
        retryable: bool = False,
        attempts: int = 1,
        unknown_attempts: int = 0,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.kind = kind
        self.retryable = retryable
        self.attempts = attempts
        self.unknown_attempts = unknown_attempts


class McpServerError(InfrastructureError):
    """A real MCP server could not be reached, or did not answer as its protocol says. Nobody's doing in the run.

    ``retryable`` says whether asking again later can help.
    """

    def __init__(self, message: str, *, remedy: str = "", retryable: bool = True) -> None:
        super().__init__(message, remedy=remedy)
        self.retryable = retryable


class BudgetError(GateError):
    """A cap on calls, tokens or cost was reached; the next call was not made."""


class EvidenceError(GateError):
    """Recorded evidence is missing, out of order or not what its seal says.

    ``path`` names the file, relative to the bundle.
    """

    def __init__(self, message: str, *, path: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.path = path


class RepositoryError(InfrastructureError):
    """Git could not answer (no repository, missing commit, shallow clone without the merge base)."""


class NoCommonHistoryError(RepositoryError):
    """Two commits that nothing connects; the whole history is there and says so."""


class ForgeError(InfrastructureError):
    """The forge (GitHub) refused or failed a request.

    ``kind`` is one of ``permission``, ``not_found``, ``rate_limit``, ``validation``, ``network``; ``status`` the HTTP
    status of the last reply, None where there was none.
    """

    def __init__(self, message: str, *, kind: str = "network", remedy: str = "", status: int | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.kind = kind
        self.status = status


class Cancelled(GateError):  # noqa: N818 - reads as a state, and is one
    """The session was told to stop (signal). Clean up and leave; nothing further is judged."""
