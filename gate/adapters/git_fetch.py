"""The commits of a pull request, fetched into a bare repository of our own that is kept from one to the next.

Only objects come: no tags, no submodules, no hooks, no configuration of the other side. The base branch arrives as
``refs/remotes/origin/<branch>``, as a checkout has it; the head as the exact commit that the event names.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import SecretStr

from gate.domain.event import PullRequestEvent
from gate.errors import Cancelled, RepositoryError

FETCH_SECONDS = 600.0
_LOOK_SECONDS = 0.5
"""How often it is looked whether to stop."""
_REFUSED_NAMES = re.compile(r"(?:^|/)\.\.?(?:/|$)")
_KEPT = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR")


def mirror_of(mirrors: Path, repository: str) -> str:
    """The folder of a repository below a folder of mirrors: ``owner/name.git`` or ``owner/name``.

    Raises RepositoryError where there is none.
    """
    if _REFUSED_NAMES.search(repository):
        raise RepositoryError(f"{repository} is no name of a repository.")
    for name in (f"{repository}.git", repository):
        if (mirrors / name).is_dir():
            return str((mirrors / name).resolve())
    raise RepositoryError(
        f"There is no mirror of {repository} in {mirrors}.",
        remedy=f"git clone --mirror it to {mirrors}/{repository}.git",
    )


def fetch_pull_request(
    folder: Path,
    source: str,
    event: PullRequestEvent,
    *,
    token: SecretStr | None = None,
    protocols: Sequence[str] = ("https",),
    timeout_s: float = FETCH_SECONDS,
    cancelled: threading.Event | None = None,
) -> None:
    """Fetch head and base branch of a pull request: see ``fetch_commits``."""
    fetch_commits(
        folder,
        source,
        event.base_ref,
        {str(event.number): event.head_sha},
        token=token,
        protocols=protocols,
        timeout_s=timeout_s,
        cancelled=cancelled,
    )


def fetch_commits(
    folder: Path,
    source: str,
    branch: str,
    commits: Mapping[str, str],
    *,
    token: SecretStr | None = None,
    protocols: Sequence[str] = ("https",),
    timeout_s: float = FETCH_SECONDS,
    cancelled: threading.Event | None = None,
) -> None:
    """Fetch a branch and exact commits from ``source`` (an address, or a folder with ``file`` allowed).

    ``folder``: the bare repository, made where it is not there; of several fetches into it one waits for the other.
    ``branch``: without ``refs/heads/``. ``commits``: commit ids by the name under which they are kept. ``token``: for https
    only; it is in no argument and no file. Raises RepositoryError with git's last words, Cancelled where ``cancelled`` is
    set meanwhile.
    """
    stop = cancelled or threading.Event()
    environment = _prepared(source, token, protocols)
    with _alone(folder, stop):
        _fetch_into(folder, source, branch, commits, environment, timeout_s=timeout_s, stop=stop)


def tip_of(
    source: str,
    name: str = "HEAD",
    *,
    token: SecretStr | None = None,
    protocols: Sequence[str] = ("https",),
    cancelled: threading.Event | None = None,
) -> tuple[str, str]:
    """(full name, commit id) of what ``source`` calls so; of HEAD the name is that of the default branch.

    ``name``: HEAD, or a full name (``refs/heads/main``, ``refs/tags/v1``; of an annotated tag its commit). Raises as
    ``fetch_commits``, also where there is no such name.
    """
    stop = cancelled or threading.Event()
    environment = _prepared(source, token, protocols)
    arguments = ["ls-remote", "--symref", "--quiet", "--end-of-options", source, name, f"{name}^{{}}"]
    full, found = name, ""
    for line in _git(Path("/"), arguments, environment, 60.0, stop).splitlines():
        value, _, about = line.partition("\t")
        if value.startswith("ref: ") and about == name:
            full = value.removeprefix("ref: ")
        elif about == f"{name}^{{}}" or (about == name and not found):
            found = value
    if not found or full == "HEAD":
        raise RepositoryError(
            f"The repository has no {name}."
            if not found
            else "The repository does not say which branch is its default.",
            remedy="Name a branch or tag that is there; of a mirror, let HEAD name the default branch.",
        )
    return full, found


def _prepared(source: str, token: SecretStr | None, protocols: Sequence[str]) -> dict[str, str]:
    if shutil.which("git") is None:
        raise RepositoryError("The git program was not found.", remedy="Install git.")
    return _environment(source, token, protocols)


@contextlib.contextmanager
def _alone(folder: Path, stop: threading.Event) -> Iterator[None]:
    """Two fetches at a time would find each other's locks on the same branch."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stop.wait(_LOOK_SECONDS):
                    raise Cancelled("The commits were being fetched.") from None
            except OSError:
                break  # a file system without locks
        yield
    finally:
        os.close(handle)


def _fetch_into(
    folder: Path,
    source: str,
    branch: str,
    commits: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    stop: threading.Event,
) -> None:
    if not (folder / "HEAD").is_file():
        _git(
            folder,
            ["init", "--quiet", "--bare", "--template=", "--initial-branch=main", "."],
            environment,
            timeout_s,
            stop,
        )
    _git(
        folder,
        [
            "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head",
            "--force", "--end-of-options", source,
            f"refs/heads/{branch}:refs/remotes/origin/{branch}",
            # Kept by a name, so that a later clean-up of git does not take them for left over.
            *(f"{commit}:refs/skill-gate/{name}" for name, commit in commits.items()),
        ],
        environment,
        timeout_s,
        stop,
    )  # fmt: skip


def _environment(source: str, token: SecretStr | None, protocols: Sequence[str]) -> dict[str, str]:
    settings = [
        ("core.fsmonitor", "false"),
        ("core.hooksPath", "/dev/null"),
        ("protocol.allow", "never"),
        *((f"protocol.{name}.allow", "always") for name in protocols),
        ("http.followRedirects", "false"),  # the token goes where it was meant to go and nowhere else
        ("fetch.fsckObjects", "true"),
        ("fetch.fsck.zeroPaddedFilemode", "ignore"),  # real histories have these three; they are no danger
        ("fetch.fsck.missingSpaceBeforeDate", "ignore"),
        ("fetch.fsck.badTimezone", "ignore"),
    ]
    if token is not None and "://" in source:
        basic = base64.b64encode(f"x-access-token:{token.get_secret_value()}".encode()).decode("ascii")
        settings.append((f"http.{source}.extraHeader", f"Authorization: Basic {basic}"))
    return {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        **_numbered(settings),
    }


def _numbered(settings: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """Settings by the environment: arguments can be read by every user of the machine."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _git(
    folder: Path, arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float, stop: threading.Event
) -> str:
    until = time.monotonic() + timeout_s
    with subprocess.Popen(
        ["git", "--no-pager", *arguments],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        while True:
            try:
                output, errors = process.communicate(timeout=_LOOK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                late = time.monotonic() > until
                if not late and not stop.is_set():
                    continue
                os.killpg(process.pid, signal.SIGKILL)
            if late:
                raise RepositoryError(
                    f"git {arguments[0]} took longer than {timeout_s:g} s.",
                    remedy="Try again, or give the service a mirror (--mirrors).",
                )
            raise Cancelled("The commits were being fetched.")
    if process.returncode != 0:
        lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
        raise RepositoryError(
            f"git {arguments[0]} failed: {lines[-1] if lines else 'no message'}",
            remedy="Check that the token may read the repository, or that the mirror is up to date.",
        )
    return output.decode("utf-8", "replace")
