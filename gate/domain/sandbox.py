"""What goes into a sandbox and what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from gate.domain.base import Value

REQUIRED_PROGRAMS = (
    "sh", "bash", "cat", "dirname", "env", "find", "grep", "mkdir", "rm", "sed", "sha256sum", "sleep", "sort", "timeout",
)  # fmt: skip
"""What a sandbox image must hold for the gate's own sake (GNU find and coreutils); what cases need comes on top."""


class PutFile(Value):
    """A file to put into a sandbox."""

    path: str
    """Relative to the folder it is put into."""
    data: bytes = Field(repr=False)
    executable: bool = False


class ProgramFile(Value):
    """A file of this machine that goes into a volume of programs."""

    name: str
    """One plain word, its name in the volume."""
    source: Path


class BoxSpec(Value):
    """What a sandbox is made from. Both arms of a pair differ in the name and the skill only."""

    session_id: str
    label: str
    """Run label; becomes a container label and part of its name."""
    image: str
    memory_mb: int = 768
    cpus: float = 1.0
    pids: int = 256
    workspace_mb: int = 256
    workspace_inodes: int = 20000
    fuse_s: int = 3600
    """The keepalive ends after this; orphans cannot outlive it."""
    programs: str = ""
    """A volume of ``Sandbox.install``, mounted read-only at ``/opt/agent`` in every arm alike; empty: none."""


class ExecResult(Value):
    """One command in a sandbox."""

    exit_code: int | None
    """None where the engine did not say: infrastructure, never zero."""
    stdout: bytes
    """Head and tail within the cap."""
    stderr: bytes
    stdout_bytes: int
    """True count, also of what was cut."""
    stderr_bytes: int
    truncated: bool
    timed_out: bool = False
    oom: bool = False
    """Killed because memory ran out, while the sandbox itself lives on."""
    duration_ms: int = 0


class CollectedBlob(Value):
    """A file out of a sandbox."""

    path: str
    size_bytes: int
    sha256: str
    data: bytes | None = Field(repr=False)
    """None where over a cap."""
    executable: bool = False


class Collected(Value):
    """Everything taken out of a workspace."""

    files: tuple[CollectedBlob, ...]
    """Sorted by path."""
    refused: tuple[str, ...] = ()
    """Links, devices, unsafe names and what was over a cap: one sentence each."""


class BoxFacts(Value):
    """What the engine says about a running sandbox, for the record."""

    container: str
    image_digest: str
    network: str
    runtime: str = ""


class SandboxFacts(Value):
    """The sandbox in use, for the report."""

    kind: str
    """``docker`` or ``bubblewrap``."""
    description: str
    """Such as ``docker 20.10.24, overlay2, cgroup v1, runc``."""
    weaker: bool = False


class OneShotSpec(Value):
    """A fresh container whose process 1 is the command (sandbox.md 5)."""

    session_id: str
    label: str
    image: str
    argv: tuple[str, ...]
    files: tuple[PutFile, ...] = Field(repr=False, default=())
    oracle_files: tuple[PutFile, ...] = Field(repr=False, default=())
    """Put into ``/oracle``, root-owned and not writable by the command."""
    timeout_s: float = 30
    memory_mb: int = 768
    output_cap_bytes: int = 1_048_576


class OneShotResult(Value):
    """How it ended."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool
    timed_out: bool
    oom: bool


class ReapReport(Value):
    """What a reaper removed and what it could not."""

    removed_containers: int = 0
    removed_volumes: int = 0
    failed: tuple[str, ...] = ()


class Examined(Value):
    """One thing that was looked at, for ``skill-gate doctor``."""

    name: str
    state: Literal["ok", "note", "warning", "failure", "skipped"]
    """``note``: worth knowing, nothing to do. ``skipped``: could not be looked at, for what failed before."""
    text: str
    remedy: str = ""
