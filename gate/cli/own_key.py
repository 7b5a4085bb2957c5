"""A key of a person's own, for sessions without a provider's: on a laptop a model on the same machine needs none, and what was
kept must be authenticated all the same.

It lies in the user's state folder (``$XDG_STATE_HOME/skill-gate/key``, by default ``~/.local/state``), is made on first use,
and serves only where nobody but its owner can read it. In a CI system there is none: what a job makes there it loses, and a
key that anybody could have put there would authenticate anything.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

_LENGTH = 64
"""Hex digits."""


def own_key(
    environ: Mapping[str, str], repository: Path, random_hex: Callable[[int], str]
) -> tuple[str | None, str | None]:
    """(key, why there is none, as a clause). ``repository``: its working tree, in which no key is kept or looked for."""
    if environ.get("CI") or environ.get("GITHUB_ACTIONS"):
        return None, None
    path = _place(environ)
    if path is None:
        return None, None
    if path.resolve().is_relative_to(repository.resolve()):
        return None, f"{path} lies in the repository, which others may have written"
    try:
        return _read(path) or _made(path, random_hex(_LENGTH // 2)), None
    except OSError as error:
        return None, f"{path} cannot be used: {error.strerror}"
    except ValueError as error:
        return None, f"{path} is not used: {error}"


def _place(environ: Mapping[str, str]) -> Path | None:
    home, state = environ.get("HOME", ""), environ.get("XDG_STATE_HOME", "")
    roots = (Path(state), Path(home) / ".local" / "state")
    return next((root / "skill-gate" / "key" for root in roots if root.is_absolute()), None)


def _read(path: Path) -> str | None:
    """The key; None where there is no file. Raises ValueError where it could be somebody else's, OSError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise ValueError("it is no file of your own")
        if facts.st_mode & 0o077:
            raise ValueError(f"others may read or write it; remove it, or say chmod 600 {path} where nobody did")
        text = os.read(file, _LENGTH + 2).decode("ascii", "replace").strip()
    finally:
        os.close(file)
    if len(text) != _LENGTH or not all(char in "0123456789abcdef" for char in text):
        raise ValueError(f"it does not hold {_LENGTH} hex digits; remove it, and a new one is made")
    return text


def _made(path: Path, key: str) -> str:
    """A new key, or the one that another session made at the same moment."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".key.{os.getpid()}.{threading.get_ident()}.tmp")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            os.write(file, f"{key}\n".encode())
        finally:
            os.close(file)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    found = _read(path)
    if found is None:
        raise ValueError("it went away")
    return found
