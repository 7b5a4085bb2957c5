"""The error family. Each error says what happened and, in ``remedy``, what a person should do next.

Whose fault it is has a type: ``ConfigurationError`` is the user's set-up (exit code 2), ``InfrastructureError`` and its
kin are the world around the gate (exit code 3, never a verdict on a skill). Bad content of a pull request is not an
exception at all: it becomes a ``Finding`` (``gate.domain.findings``).
"""

from __future__ import annotations


class GateError(Exception):
    """Root of the family. ``message`` is one or two plain sentences; ``remedy`` is one sentence, or empty."""

    usual = ""
    """What helps against errors of this kind where one has no ``remedy`` of its own."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()

    @property
    def what_to_do(self) -> str:
        """For people: its own remedy, else the usual one."""
        return self.remedy or self.usual


class ConfigurationError(GateError):
    """An input, a flag, the policy or the environment is wrong. Nothing was judged."""

    usual = "Correct what is named; `skill-gate doctor` looks at the rest of the set-up."


class InfrastructureError(GateError):
    """Something outside the skill and the gate failed. Never counts for or against a skill."""

    usual = "Run it again; where that does not help, `skill-gate doctor` says what does not work here."


class SandboxError(InfrastructureError):
    """The container engine could not do what was asked (not: a command in the sandbox failed)."""

    usual = "Run `skill-gate doctor`: it opens a sandbox and says what the engine cannot do."


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

    usual = "Look at the provider's state and at the key, then give the same command again: what was paid for is kept."

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
        self.paid = False
        """True where this session had this failure before it was killed (``gate.llm.journal``) and has counted it."""


class McpServerError(InfrastructureError):
    """A real MCP server could not be reached, or did not answer as its protocol says. Nobody's doing in the run.

    ``retryable`` says whether asking again later can help.
    """

    usual = "See that the server runs and takes the token, then give the same command again."

    def __init__(self, message: str, *, remedy: str = "", retryable: bool = True) -> None:
        super().__init__(message, remedy=remedy)
        self.retryable = retryable


class BudgetError(GateError):
    """A cap on calls, tokens or cost was reached; the next call was not made."""

    usual = "Raise the cap in the policy, or judge fewer skills at a time (PATH)."


class EvidenceError(GateError):
    """Recorded evidence is missing, out of order or not what its seal says.

    ``path`` names the file, relative to the bundle.
    """

    usual = "Make the bundle again with `skill-gate run`, or take one that nobody has changed."

    def __init__(self, message: str, *, path: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.path = path


class RepositoryError(InfrastructureError):
    """Git could not answer (no repository, missing commit, shallow clone without the merge base)."""

    usual = "Name a Git repository that holds the commits, with its whole history (fetch-depth: 0)."


class NoCommonHistoryError(RepositoryError):
    """Two commits that nothing connects; the whole history is there and says so."""


class ForgeError(InfrastructureError):
    """The forge (GitHub) refused or failed a request.

    ``kind`` is one of ``permission``, ``not_found``, ``rate_limit``, ``validation``, ``network``; ``status`` the HTTP
    status of the last reply, None where there was none.
    """

    usual = "Look at the permissions of the token and at GitHub's state, then run the job again."

    def __init__(self, message: str, *, kind: str = "network", remedy: str = "", status: int | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.kind = kind
        self.status = status


class Cancelled(GateError):  # noqa: N818 - reads as a state, and is one
    """The session was told to stop (signal). Clean up and leave; nothing further is judged."""

    usual = "Give the same command again: it goes on where it was."
