"""A repository in memory, and real ones on disk for the same stories.

``FakeRepository`` promises what ``Repository`` says, over whole commits that a test writes down as path -> content; the
contract suite holds it to that. Its renames are those of equal content only. ``GitFolder`` writes real commits.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from gate.domain.base import sha256_hex
from gate.domain.findings import Finding
from gate.domain.skill import SUBMODULE, SkillFile
from gate.errors import RepositoryError


class Entry(NamedTuple):
    """A file that is not a plain one."""

    data: bytes
    mode: str = "100644"


def link(target: str) -> Entry:
    """A symbolic link."""
    return Entry(target.encode(), "120000")


def script(text: str) -> Entry:
    """An executable file."""
    return Entry(text.encode(), "100755")


def submodule() -> Entry:
    """A submodule."""
    return Entry(b"", SUBMODULE)


Files = Mapping[str, str | bytes | Entry]


def entry_of(content: str | bytes | Entry) -> Entry:
    """Any way of writing a file down, as an entry."""
    if isinstance(content, Entry):
        return content
    return Entry(content.encode("utf-8") if isinstance(content, str) else content)


class Writer(Protocol):
    """What a test needs to write a story: commits and branches."""

    def commit(self, files: Files, *, parent: str | None = None, branch: str | None = None) -> str:
        """A commit with exactly these files; HEAD and ``branch`` point at it."""


class FakeRepository:
    """Commits in memory."""

    def __init__(self, *, dirty: bool = False, shallow: bool = False) -> None:
        self.location = "memory"
        self.root = Path("/memory")
        self._commits: dict[str, dict[str, tuple[str, str]]] = {}
        self._parents: dict[str, str | None] = {}
        self._blobs: dict[str, bytes] = {}
        self._names: dict[str, str] = {}
        self._dirty = dirty
        self._shallow = shallow

    def commit(self, files: Files, *, parent: str | None = None, branch: str | None = None) -> str:
        """A commit with exactly these files; HEAD and ``branch`` point at it."""
        tree = {}
        for path, content in files.items():
            entry = entry_of(content)
            blob = hashlib.sha1(b"blob %d\0" % len(entry.data) + entry.data).hexdigest()
            if entry.mode == SUBMODULE:
                blob = "5" * 40
            else:
                self._blobs[blob] = entry.data
            tree[path] = (entry.mode, blob)
        identity = hashlib.sha1(repr((sorted(tree.items()), parent, len(self._commits))).encode("utf-8", "replace"))
        commit = identity.hexdigest()
        self._commits[commit] = tree
        self._parents[commit] = parent
        self._names["HEAD"] = commit
        if branch:
            self._names[branch] = commit
        return commit

    def resolve(self, revision: str) -> str:
        found = self._names.get(revision, revision)
        if found not in self._commits:
            raise RepositoryError(f'There is no commit "{revision}" in memory.', remedy="Check the spelling.")
        return found

    def _line(self, commit: str | None) -> list[str]:
        line = []
        while commit is not None:
            line.append(commit)
            commit = self._parents[commit]
        return line

    def merge_base(self, one: str, other: str) -> str:
        others = self._line(self.resolve(other))
        found = next((commit for commit in self._line(self.resolve(one)) if commit in others), None)
        if found is None or self._shallow:
            raise RepositoryError("no common history", remedy="Fetch the whole history (fetch-depth: 0).")
        return found

    def default_branch(self) -> str | None:
        return self._names.get("main")

    def default_base(self) -> str | None:
        branch = self.default_branch()
        return self.merge_base(branch, "HEAD") if branch else None

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str, str | None]]:
        old, new = self._commits[self.resolve(base)], self._commits[self.resolve(head)]
        gone = {path: entry for path, entry in old.items() if path not in new}
        changes: list[tuple[str, str, str | None]] = []
        for path, entry in new.items():
            if path in old:
                if old[path] != entry:
                    changes.append(("M" if old[path][0][:2] == entry[0][:2] else "T", path, None))
                continue
            source = next((name for name, before in gone.items() if before == entry and entry[0] != SUBMODULE), None)
            if source is not None and self._blobs[entry[1]]:
                del gone[source]
                changes.append(("R", path, source))
            else:
                changes.append(("A", path, None))
        changes += [("D", path, None) for path in gone]
        return sorted(changes, key=lambda item: item[1])

    def tree(self, commit: str, under: str = "") -> list[tuple[str, str, str]]:
        start = f"{under.strip('/')}/" if under.strip("/") else ""
        entries = self._commits[self.resolve(commit)].items()
        return sorted((path, mode, blob) for path, (mode, blob) in entries if path.startswith(start))

    def paths(self, commit: str) -> Mapping[str, tuple[str, str]]:
        return self._commits[self.resolve(commit)]

    def find(self, commit: str, name: str) -> list[tuple[str, str, str]]:
        return [entry for entry in self.tree(commit) if entry[0].rpartition("/")[2].casefold() == name.casefold()]

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        missing = [blob for blob in ids if blob not in self._blobs]
        if missing:
            raise RepositoryError(f"The file {missing[0]} is not in memory.", remedy="Fetch everything.")
        return {blob: self._blobs[blob] for blob in ids}

    def read_skill_files(self, commit: str, folder: str) -> tuple[SkillFile, ...]:
        under = "" if folder == "." else folder
        files = []
        for path, mode, blob in self.tree(commit, under):
            data = self._blobs.get(blob, b"")
            name = path.removeprefix(f"{under}/") if under else path
            shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            files.append(SkillFile(path=shown, mode=mode, sha256=sha256_hex(data), size_bytes=len(data), data=data))
        return tuple(files)

    def links(self, commit: str) -> list[tuple[str, str]]:
        return [(path, blob) for path, mode, blob in self.tree(commit) if mode == "120000"]

    def ending(self, commit: str, ends: tuple[str, ...]) -> list[str]:
        return sorted(path for path in self.paths(commit) if path.endswith(ends))

    def is_dirty(self, under: Sequence[str] = ()) -> bool:
        return self._dirty

    def checked_out_from(self) -> str:
        return ""

    def remarks(self) -> tuple[Finding, ...]:
        return ()


class GitFolder:
    """A real repository in a folder, written with plumbing: no working tree is needed for a commit."""

    def __init__(self, folder: Path, *, bare: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", *(["--bare"] if bare else []))
        self._count = 0

    def git(self, *arguments: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """Any git command in the folder; its output without the last line end."""
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z", **(env or {}),
        }  # fmt: skip
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, input=stdin, env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def commit(self, files: Files, *, parent: str | None = None, branch: str | None = None) -> str:
        """A commit with exactly these files; HEAD (detached) and ``branch`` point at it."""
        self._count += 1
        index = {"GIT_INDEX_FILE": str(self.folder / f".index-{self._count}")}
        lines = []
        for path, content in files.items():
            entry = entry_of(content)
            blob = "5" * 40 if entry.mode == SUBMODULE else self.git("hash-object", "-w", "--stdin", stdin=entry.data)
            lines.append(f"{entry.mode} {blob}\t".encode() + path.encode("utf-8", "surrogateescape") + b"\0")
        self.git("update-index", "-z", "--index-info", stdin=b"".join(lines), env=index)
        tree = self.git("write-tree", "--missing-ok", env=index)
        parents = ["-p", parent] if parent else []
        commit = self.git("commit-tree", tree, *parents, "-m", f"commit {self._count}")
        if branch:
            self.git("update-ref", f"refs/heads/{branch}", commit)
        self.git("update-ref", "--no-deref", "HEAD", commit)
        return commit
