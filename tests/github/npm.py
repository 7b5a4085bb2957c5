"""One file of one pinned npm package, fetched with npm: GitHub publishes its own descriptions there."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

_FETCH_S = 120


class ContractUnavailableError(Exception):
    """The description is not on this machine and could not be fetched. The text says why and what to do."""


def member_of(package: str, member: str, *, sha512: str, folder: Path) -> bytes:
    """The bytes of a member of a package (``name@version``). ``folder``: where the archive may lie meanwhile.

    ``sha512``: of the package's archive, in base64: what was fetched is compared with it before it is opened.

    Raises:
        ContractUnavailableError: No npm, no answer, or another archive than the one that was pinned.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise ContractUnavailableError(
            f"npm is not installed, so {package} cannot be fetched; .ci/openapi installs it where that is possible"
        )
    with tempfile.TemporaryDirectory(dir=folder) as name:
        command = [npm, "pack", package, "--silent", "--pack-destination", name]
        try:
            done = subprocess.run(
                command,
                cwd=name,
                capture_output=True,
                text=True,
                timeout=_FETCH_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise ContractUnavailableError(f"npm did not fetch {package} within {_FETCH_S} s") from None
        archives = list(Path(name).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            said = " ".join((done.stderr or done.stdout).split())[-300:]
            raise ContractUnavailableError(f"npm could not fetch {package}: {said or 'it said nothing'}")
        found = base64.b64encode(hashlib.sha512(archives[0].read_bytes()).digest()).decode()
        if found != sha512:
            raise ContractUnavailableError(f"npm fetched another {package} than the one pinned here (sha512 {found})")
        with tarfile.open(archives[0]) as archive:
            opened = archive.extractfile(member)
            if opened is None:
                raise ContractUnavailableError(f"{package} holds no {member}")
            return opened.read()
