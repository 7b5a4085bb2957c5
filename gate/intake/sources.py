"""Where skills are read from: a commit of a repository, or a plain folder on disk."""

from __future__ import annotations

import bisect
import itertools
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from gate.domain.base import sha256_hex
from gate.domain.skill import EXECUTABLE, REGULAR, SYMLINK, SkillFile
from gate.errors import ConfigurationError
from gate.intake.notes import shown
from gate.protocols import Repository

MAX_ENTRIES = 500_000
MAX_FILE_BYTES = 32 * 1024 * 1024
MAX_FOLDER_BYTES = 100 * 1024 * 1024
_SKIPPED = {".git", "node_modules", ".venv", "__pycache__"}


class Tree(Protocol):
    """Files of one version."""

    @property
    def name(self) -> str | None:
        """What its outermost folder is called, where that says something about a skill in it."""

    def paths(self) -> Mapping[str, str]:
        """Path -> Git mode of every entry."""

    def skill_files(self, folder: str) -> tuple[SkillFile, ...]:
        """Every entry below a folder (``.``: all), paths relative to it."""

    def read(self, path: str) -> bytes | None:
        """Content of a plain file; None for a link, a submodule and what is not there."""

    def links(self) -> list[tuple[str, str]]:
        """(path, target as it is written) of every symbolic link."""

    def named(self, name: str) -> list[str]:
        """Every path with this file name, in any case."""


class _Modes(Mapping[str, str]):
    """Path -> mode of every entry of a commit, without reading what nobody asks for."""

    def __init__(self, entries: Mapping[str, tuple[str, str]]) -> None:
        self._entries = entries

    def __getitem__(self, path: str) -> str:
        return self._entries[path][0]

    def __contains__(self, path: object) -> bool:
        return path in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class CommitTree:
    """A commit."""

    name = None
    """A clone may be called anything."""

    def __init__(self, repo: Repository, commit: str) -> None:
        self._repo = repo
        self._commit = commit
        self._entries: Mapping[str, tuple[str, str]] | None = None
        self._modes: _Modes | None = None

    def entries(self) -> Mapping[str, tuple[str, str]]:
        """Path -> (mode, blob id). Raises RepositoryError."""
        if self._entries is None:
            self._entries = self._repo.paths(self._commit)
        return self._entries

    def paths(self) -> Mapping[str, str]:
        """As in Tree. Raises RepositoryError."""
        if self._modes is None:
            self._modes = _Modes(self.entries())
        return self._modes

    def skill_mds(self) -> list[tuple[str, str, str]]:
        """(path, mode, blob id) of every SKILL.md, in any case, sorted by path. Raises RepositoryError."""
        return self._repo.find(self._commit, "SKILL.md")

    def links(self) -> list[tuple[str, str]]:
        """As in Tree. Raises RepositoryError."""
        found = self._repo.links(self._commit)
        targets = self._repo.blobs([blob for _, blob in found]) if found else {}
        return [(path, targets[blob].decode("utf-8", "surrogateescape")) for path, blob in found]

    def named(self, name: str) -> list[str]:
        """As in Tree. Raises RepositoryError."""
        return [path for path, _, _ in self._repo.find(self._commit, name)]

    def ending(self, ends: tuple[str, ...]) -> list[str]:
        """Every path that ends in one of these. Raises RepositoryError."""
        return self._repo.ending(self._commit, ends)

    def below(self, folder: str) -> list[tuple[str, str, str]]:
        """(path, mode, blob id) of every entry below a folder (``.``: all), sorted by path. Raises RepositoryError."""
        return self._repo.tree(self._commit, "" if folder == "." else folder)

    def skill_files(self, folder: str) -> tuple[SkillFile, ...]:
        """As in Tree. Raises RepositoryError."""
        return self._repo.read_skill_files(self._commit, folder)

    def read(self, path: str) -> bytes | None:
        """As in Tree. Raises RepositoryError."""
        mode, blob = self.entries().get(path, ("", ""))
        return self._repo.blobs([blob])[blob] if mode in (REGULAR, EXECUTABLE) else None


class FolderTree:
    """A folder on disk, read as Git would: links are entries and are never followed, special files do not exist."""

    def __init__(self, folder: str | Path) -> None:
        """Raises ConfigurationError where it is no folder."""
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise ConfigurationError(f"{folder} is not a folder.", remedy="Name a folder with skills in it.")
        self.name = None if (self._folder / ".git").exists() else self._folder.resolve().name or None
        self._entries: dict[str, str] | None = None
        self._sorted: list[str] = []

    def paths(self) -> dict[str, str]:
        """As in Tree. Raises ConfigurationError for a folder with more than ``MAX_ENTRIES`` entries."""
        if self._entries is None:
            self._entries = dict(sorted(self._walk()))
            self._sorted = list(self._entries)
        return self._entries

    def _walk(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        waiting = [""]
        while waiting:
            below = waiting.pop()
            try:
                entries = list(os.scandir(self._folder / below))
            except OSError:  # unreadable: what cannot be listed holds nothing that could be read
                continue
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_symlink():
                    found.append((path, SYMLINK))
                elif entry.is_dir(follow_symlinks=False):
                    if entry.name not in _SKIPPED:
                        waiting.append(path)
                elif entry.is_file(follow_symlinks=False):
                    executable = entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR
                    found.append((path, EXECUTABLE if executable else REGULAR))
            if len(found) > MAX_ENTRIES:
                raise ConfigurationError(
                    f"{self._folder} holds more than {MAX_ENTRIES} files.", remedy="Name a smaller folder."
                )
        return found

    def skill_files(self, folder: str) -> tuple[SkillFile, ...]:
        """As in Tree. Content beyond ``MAX_FOLDER_BYTES`` is left out (``size_bytes`` stays true)."""
        start = "" if folder == "." else f"{folder}/"
        modes = self.paths()
        files = []
        left = MAX_FOLDER_BYTES
        for path in itertools.islice(self._sorted, bisect.bisect_left(self._sorted, start), None):
            if not path.startswith(start):
                break
            data, size = self._content(path, modes[path], left)
            left -= len(data)
            name = shown(path.removeprefix(start))
            files.append(SkillFile(path=name, mode=modes[path], sha256=sha256_hex(data), size_bytes=size, data=data))
        return tuple(files)

    def read(self, path: str) -> bytes | None:
        """As in Tree."""
        mode = self.paths().get(path)
        if mode not in (REGULAR, EXECUTABLE):
            return None
        data, size = self._content(path, mode, MAX_FILE_BYTES)
        return data if len(data) == size else None

    def links(self) -> list[tuple[str, str]]:
        """As in Tree."""
        return [
            (path, self._content(path, mode, MAX_FILE_BYTES)[0].decode("utf-8", "surrogateescape"))
            for path, mode in self.paths().items()
            if mode == SYMLINK
        ]

    def named(self, name: str) -> list[str]:
        """As in Tree."""
        wanted = name.casefold()
        return [path for path in self.paths() if path.rpartition("/")[2].casefold() == wanted]

    def _content(self, path: str, mode: str, left: int) -> tuple[bytes, int]:
        """(content, true size); no content where it is over a limit or cannot be read."""
        place = self._folder / path
        try:
            if mode == SYMLINK:
                target = os.fsencode(place.readlink())
                return target, len(target)
            # What was a file when the folder was listed may be a link or a pipe by now.
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as stream:
                facts = os.fstat(stream.fileno())
                if not stat.S_ISREG(facts.st_mode):
                    return b"", -1
                if facts.st_size > min(left, MAX_FILE_BYTES):
                    return b"", facts.st_size
                data = stream.read(facts.st_size)
                return data, len(data)
        except OSError:
            return b"", -1
