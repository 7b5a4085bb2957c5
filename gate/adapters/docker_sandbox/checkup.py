"""What whoever sets an engine up should know about it, beside whether it can hold a sandbox at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gate.adapters.docker_sandbox.engine import runtime_of
from gate.domain.sandbox import BoxSpec, Examined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gate.domain.sandbox import SandboxFacts

USUAL_JOBS = 4
MENDED_RUNC = (1, 2, 8)
"""The oldest release in which the ways out of a container that were published up to 2025 are closed (CVE-2024-21626,
CVE-2025-31133, CVE-2025-52565, CVE-2025-52881)."""
_OWN_MB = 1_536


def examine_engine(
    address: str, facts: SandboxFacts, info: Mapping[str, Any], version: Mapping[str, Any]
) -> tuple[Examined, ...]:
    """Of an engine that ``judge_engine`` has let pass: where it is, its runtimes, and how many sandboxes it has room for."""
    return tuple(_examined(address, facts, info, version))


def _examined(
    address: str, facts: SandboxFacts, info: Mapping[str, Any], version: Mapping[str, Any]
) -> Iterator[Examined]:
    yield Examined(name="engine", state="ok", text=f"{facts.description}, at {address}")
    if not address.startswith("unix://"):
        yield Examined(
            name="remote engine",
            state="note",
            text="The engine may be on another machine. Nothing is mounted and no port is opened, so that works; its"
            " connection is neither authenticated nor encrypted.",
            remedy="Use it on a trusted network only.",
        )
    if runtime_of(info):
        yield Examined(name="runsc", state="ok", text="gVisor is there: every sandbox gets a kernel of its own.")
    else:
        yield Examined(
            name="runsc",
            state="note",
            text="gVisor (runsc) is not a runtime of this engine: sandboxes share the machine's kernel.",
            remedy="For skills of strangers, install runsc and add it to the engine's runtimes; it is then used by itself.",
        )
    yield from _runc(version)
    yield _room(info)


def _runc(version: Mapping[str, Any]) -> Iterator[Examined]:
    parts = {str(item.get("Name", "")): str(item.get("Version", "")) for item in version.get("Components") or ()}
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", parts.get("runc", ""))
    if not found:
        return
    state = tuple(map(int, found.groups())) < MENDED_RUNC
    yield Examined(
        name="runc",
        state="note" if state else "ok",
        text=f"runc {parts['runc']}"
        + (": older than 1.2.8, in which known ways out of containers are closed, unless your distribution has mended it." if state else ""),
        remedy="Update runc or the engine." if state else "",
    )  # fmt: skip


def _room(info: Mapping[str, Any]) -> Examined:
    each = BoxSpec.model_fields["memory_mb"].default
    memory_mb, cores = int(info.get("MemTotal") or 0) // 1_048_576, int(info.get("NCPU") or 0)
    room = max(0, memory_mb - _OWN_MB) // each
    text = f"{memory_mb:,} MiB of memory and {cores} cores: room for {room} sandboxes of {each} MiB at the same time."
    if room < USUAL_JOBS:
        return Examined(
            name="room", state="warning", text=text, remedy=f"Use --jobs {max(1, room)} (jobs: in the Action)."
        )
    return Examined(name="room", state="ok", text=text)
