"""What a sandbox is made from: names, labels and the create arguments, as plain values (DESIGN.md 3, "Sandbox contract").

Nothing here talks to an engine, so every argument can be read, compared and tested without one.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate.domain.base import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOOL_UID = 65534
"""Whoever runs commands inside. The gate's own processes inside never have this uid, so that tools cannot signal them."""
KEEPER_UID = 64000
"""Whoever keeps the container alive."""

WORK = "/work"
SKILLS = "/skills"
ORACLE = "/oracle"
"""Where the second volume of a one-shot lies that has files of its own which judge."""
PROGRAMS = "/opt/agent"
"""Where the volume with an agent program lies, read-only, in a run that uses one."""
HOME = "/work/home"
TMP = "/tmp"  # noqa: S108 - a folder in the sandbox, its own and empty

LABEL_SESSION = "gate.session"
LABEL_RUN = "gate.run"
LABEL_OWNER = "gate.owner"
LABEL_EXPIRES = "gate.expires"
LABEL_TOKEN = "gate.token"
NAME_PREFIX = "skill-gate-"

ENVIRONMENT = {
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
"""All that a sandbox gets from the gate: an allow-list of constants. Nothing is ever copied from the gate's own environment.

An image's own ``PATH`` wins over this one (its tools may live elsewhere); what else an image sets is part of the image.
"""

EXPIRY_SLACK_S = 300
SKILLS_MB = 128
TMP_MB = 64


class Limits(Value):
    """What one container may use."""

    memory_mb: int
    cpus: float
    pids: int
    workspace_mb: int
    workspace_inodes: int


@dataclass(frozen=True)
class Names:
    """The names of everything that one sandbox consists of, known before anything exists, so that all of it can be removed."""

    token: str
    container: str
    work: str
    skills: str

    @property
    def volumes(self) -> tuple[str, str]:
        """Both volumes."""
        return self.work, self.skills


def names_for(session_id: str, label: str) -> Names:
    """Readable and unique: two calls with equal arguments give different names."""
    token = secrets.token_hex(5)
    stem = f"{NAME_PREFIX}{_readable(session_id)[:16]}-{_readable(label)[-48:]}".rstrip("-.") + f"-{token}"
    return Names(token=token, container=stem, work=f"{stem}-work", skills=f"{stem}-skills")


def _readable(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "-" for c in text).strip("-.") or "x"


def labels_for(session_id: str, label: str, names: Names, expires: int) -> dict[str, str]:
    """Labels of the container and of its volumes. ``expires``: seconds since 1970, when nobody can need it any more."""
    return {
        LABEL_SESSION: session_id,
        LABEL_RUN: label,
        LABEL_OWNER: this_owner(),
        LABEL_EXPIRES: str(expires),
        LABEL_TOKEN: names.token,
    }


def volume_options(owner: int, mode: str, size_mb: int, inodes: int) -> dict[str, str]:
    """Options of the ``local`` driver for a volume in memory with a quota: ends with its last running container."""
    quota = f"size={size_mb}m,nr_inodes={inodes}"
    return {"type": "tmpfs", "device": "tmpfs", "o": f"{quota},uid={owner},gid={owner},mode={mode},nosuid,nodev"}


def work_volume(limits: Limits) -> dict[str, str]:
    """``/work``: the tool uid's alone. The process that keeps the container alive cannot even list it."""
    return volume_options(TOOL_UID, "0700", limits.workspace_mb, limits.workspace_inodes)


def skills_volume(limits: Limits) -> dict[str, str]:
    """``/skills``: root's, readable by all; there, and empty, in the baseline too."""
    return volume_options(0, "0755", SKILLS_MB, limits.workspace_inodes)


def programs_mount(volume: str, *, read_only: bool = False) -> Any:
    """The mount of a volume of programs: written by the engine itself, read-only wherever something runs."""
    from docker.types import Mount

    return Mount(PROGRAMS, volume, type="volume", no_copy=True, read_only=read_only)


def environment_for(image_environment: Sequence[str], *, home: str = HOME) -> list[str]:
    """The ``Env`` of a container: the allow-list, with the image's own PATH where it has one."""
    own = dict(item.split("=", 1) for item in image_environment if item.startswith("PATH="))
    return [f"{name}={value}" for name, value in sorted({**ENVIRONMENT, **own, "HOME": home}.items())]


def host_arguments(
    names: Names, limits: Limits, *, runtime: str | None, keep_log: bool, second: str = SKILLS, programs: str = ""
) -> dict[str, Any]:
    """Keyword arguments of ``APIClient.create_host_config``: everything that holds the container in.

    No bind mount, no port, no device; default seccomp and AppArmor profiles stay on because none is named. A process can
    make no file longer than the whole quota, which keeps sparse files from announcing terabytes to the collector.
    ``second``: where root's volume is mounted. ``programs``: a volume for PROGRAMS, or empty.
    """
    from docker.types import LogConfig, Mount, Ulimit

    memory = f"{limits.memory_mb}m"
    quota_bytes = limits.workspace_mb * 1024 * 1024
    log = (
        LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}) if keep_log else LogConfig(type="none")
    )
    arguments: dict[str, Any] = {
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "privileged": False,
        "ipc_mode": "private",
        "read_only": True,
        "tmpfs": {
            # uid and gid: an engine may ignore the mode where the image's own folder is narrower.
            TMP: f"size={TMP_MB}m,nosuid,nodev,exec,mode=1777,uid={TOOL_UID},gid={TOOL_UID}",
            "/run": "size=1m,nosuid,nodev,noexec",
        },
        "mounts": [
            Mount(WORK, names.work, type="volume", no_copy=True),
            Mount(second, names.skills, type="volume", no_copy=True),
            *([programs_mount(programs, read_only=True)] if programs else []),
        ],
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(limits.cpus * 1_000_000_000),
        "pids_limit": limits.pids,
        "shm_size": "64m",
        "ulimits": [
            Ulimit(name="nofile", soft=1024, hard=1024),
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="fsize", soft=quota_bytes, hard=quota_bytes),
        ],
        "log_config": log,
        "init": True,
        "auto_remove": False,
    }
    if runtime:
        arguments["runtime"] = runtime
    return arguments


def container_arguments(
    image_id: str,
    image_environment: Sequence[str],
    command: Sequence[str],
    *,
    uid: int,
    home: str,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """Keyword arguments of ``APIClient.create_container``, but for the name and the host configuration."""
    from docker.types import Healthcheck

    return {
        "image": image_id,
        "command": list(command),
        "entrypoint": [],
        "user": f"{uid}:{uid}",
        "hostname": "sandbox",
        "environment": environment_for(image_environment, home=home),
        "working_dir": WORK,
        "labels": dict(labels),
        "stdin_open": False,
        "tty": False,
        "detach": True,
        "healthcheck": Healthcheck(test=["NONE"]),
        # The client would copy proxy settings, which can hold passwords, from ~/.docker/config.json.
        "use_config_proxy": False,
    }


@cache
def _machine() -> str:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot_id = "unknown"
    try:
        # Two containers on one machine can have one host name and one process number each; not one pid namespace.
        namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        namespace = "0"
    return f"{socket.gethostname()}:{boot_id}/{namespace}"


def this_owner() -> str:
    """Who made it: ``host:boot_id/pid-namespace:pid``."""
    return f"{_machine()}:{os.getpid()}"


def is_abandoned(labels: Mapping[str, str], now: float) -> bool:
    """Whether nobody can need it any more: its time is over, or the process that made it is known to be gone.

    A process of another machine, boot or pid namespace cannot be looked at; only its expiry counts. Labels that cannot be
    read are of another program or another version: not abandoned.
    """
    expires = labels.get(LABEL_EXPIRES, "")
    if expires.isdigit() and int(expires) < now:
        return True
    machine, _, pid = labels.get(LABEL_OWNER, "").rpartition(":")
    return machine == _machine() and pid.isdigit() and not _is_alive(int(pid))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
