"""Archives of a pull request: what is in one, or why it is refused. Read in a child process; nothing is unpacked.

The child has no environment, no network use, limits on memory and time, and writes no file; what it answers is data.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from gate.domain.base import Value

DEADLINE_S = 30.0
_WORKER = Path(__file__).with_name("archive_worker.py")


class ArchiveFile(NamedTuple):
    """A plain file in an archive."""

    path: str
    """Relative, forward slashes, without ``.`` and ``..``."""
    size_bytes: int
    sha256: str
    executable: bool


class Archive(Value):
    """What is in an archive. With a refusal there are no files: nothing of it may be used."""

    kind: str = ""
    """``zip``, ``tar.gz``, ``tar``; empty for anything else."""
    files: tuple[ArchiveFile, ...] = ()
    """Sorted by path."""
    refusals: tuple[str, ...] = ()
    """Why it must not be unpacked: absolute paths, ``..``, links, devices, bombs, entries twice, encryption. May quote
    names of the archive: untrusted text."""


def inspect_archive(data: bytes, *, deadline_s: float = DEADLINE_S) -> Archive:
    """Read an archive. Never raises for any bytes; what cannot be read in time is refused."""
    try:
        # -I and -S: no site packages, no environment variables, no current folder on the path.
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_WORKER)],
            input=data,
            capture_output=True,
            env={},
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Archive(refusals=(f"it could not be read within {deadline_s:g} s",))
    if done.returncode != 0:
        return Archive(refusals=("reading it needed more memory or time than is allowed",))
    try:
        return Archive.model_validate(json.loads(done.stdout))
    except (ValueError, ValidationError):
        return Archive(refusals=("reading it gave no answer",))
