"""A PostgreSQL cluster of one's own in a temporary folder: Debian's programs, started as somebody who is not root."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEBIAN = Path("/usr/lib/postgresql")
USERS = ("postgres", "nobody")


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``, of the newest version that is installed."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def needed() -> Path:
    """The programs. Skips the test where they are not installed (fails it with CI=true)."""
    found = programs()
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("PostgreSQL is not installed: .ci/postgresql installs it on Debian")
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    return found


@contextmanager
def cluster() -> Iterator[str]:
    """A running cluster with an empty database; its address as DATABASE_URL has it. Loopback only; gone afterwards."""
    bin_folder = needed()
    folder = Path(tempfile.mkdtemp(prefix="skill-gate-pg-"))
    user = _somebody()
    data = folder / "data"
    try:
        if user is not None:
            folder.chmod(0o700)
            os.chown(folder, user.pw_uid, user.pw_gid)
        port = _free_port()
        _as(
            user,
            bin_folder / "initdb",
            "-D",
            data,
            "-U",
            "gate",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        )
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200"
        _as(user, bin_folder / "pg_ctl", "-D", data, "-w", "-t", "60", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://gate@127.0.0.1:{port}/postgres"
        finally:
            _as(user, bin_folder / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fresh_database(url: str, name: str) -> str:
    """Another, empty database of a cluster."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type, unused-ignore]
    return url.rpartition("/")[0] + f"/{name}"


def _somebody() -> pwd.struct_passwd | None:
    """Whom the programs run as: they refuse to run as root. None: as oneself."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in USERS if name in known)


def _as(user: pwd.struct_passwd | None, *command: object) -> None:
    extra = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user is not None else {}
    done = subprocess.run(
        [str(part) for part in command],
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C", "HOME": "/nonexistent"},
        # No pipe: the server that pg_ctl leaves running would keep it open.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
        **extra,  # type: ignore[call-overload, unused-ignore]
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed with {done.returncode}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
