"""The agent program of a session: put into its volume once, and asked for its version in a sandbox before anything is paid."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from gate.domain.sandbox import BoxSpec, ProgramFile
from gate.errors import SandboxError
from gate.execution.harnesses.base import PROGRAMS, Harness
from gate.execution.harnesses.run import Program
from gate.protocols import ModelGateway, Sandbox

_PROBE_S = 60.0
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")


class AgentSource(NamedTuple):
    """What a session knows of its agent program before there is an engine."""

    harness: Harness
    files: tuple[ProgramFile, ...]
    """Of this machine; empty: the sandbox image brings the program."""
    gateway: ModelGateway


def install(source: AgentSource, sandbox: Sandbox, *, image: str, session_id: str) -> Program:
    """Fill the volume and run the program once, as every run will. Raises SandboxError with a remedy."""
    volume = sandbox.install(image, session_id, source.files) if source.files else ""
    main = next((file for file in source.files if file.name == source.harness.program), None)
    version = _probe(source.harness, sandbox, image=image, session_id=session_id, volume=volume)
    return Program(source.harness, version, _digest(main.source) if main else "", volume)


def _probe(harness: Harness, sandbox: Sandbox, *, image: str, session_id: str, volume: str) -> str:
    script = f'PATH="{PROGRAMS}:$PATH"; export PATH HOME=/tmp/probe; mkdir -p "$HOME"; command -v "$1" && exec "$1" --version'
    spec = BoxSpec(session_id=session_id, label="preflight/agent", image=image, programs=volume)
    with sandbox.open(spec) as box:
        done = box.exec(["bash", "-c", script, "probe", harness.program], timeout_s=_PROBE_S)
    said = done.stdout.decode("utf-8", "replace").strip()
    if not said:
        raise SandboxError(
            f"There is no {harness.program} for the harness {harness.name}, neither on this machine nor in the sandbox image.",
            remedy=f"Install it so that PATH finds {harness.program}, name it with --agent, or use an image that has it.",
        )
    # Not every program knows the question; one that is there and is no ours may answer as it likes.
    if done.exit_code != 0 and harness.name != "command":
        wrong = " ".join((done.stderr or done.stdout).decode("utf-8", "replace").split())[-300:]
        raise SandboxError(
            f"{harness.program} does not run in the sandbox image (exit code {done.exit_code}): {wrong}",
            remedy="Use a sandbox image with the C library that it needs, or the program made for the image's own.",
        )
    found = _VERSION.search(said.partition("\n")[2])
    return found[0] if found else "unknown"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
