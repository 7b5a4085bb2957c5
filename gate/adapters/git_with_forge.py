"""The Repository seam over a checkout, and over GitHub's API for the commits that the checkout does not hold.

Git is asked first, always. What it cannot answer (a shallow clone that nothing can deepen, a head that was not fetched) is
read from GitHub: the merge base, the trees, single files, and what changed from the list of a pull request's files. That
list ends at 3,000 files and a tree at 100,000 entries: what is then missing is looked for in the other of the two, and
where both are cut the session is told that it does not see the whole change, which is never green (github-action.md 1.10).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from gate.adapters.git_repository import GitRepository
from gate.domain.base import sha256_hex
from gate.domain.findings import Finding, Level
from gate.domain.forge import ChangedFiles
from gate.domain.skill import SUBMODULE, SYMLINK, SkillFile
from gate.errors import ForgeError, NoCommonHistoryError, RepositoryError
from gate.protocols import Forge

MAX_FETCHED_FILES = 500
"""Files that are read one by one by the API: a workflow's token may ask 1,000 times an hour."""
_FULL_HISTORY = "Check out the whole history: actions/checkout with fetch-depth: 0."
_STATUS = {"added": "A", "copied": "A", "removed": "D", "renamed": "R", "changed": "T", "modified": "M"}
_Entries = dict[str, tuple[str, str]]


class GitWithForge:
    """One checkout of one repository on GitHub, for one job. Answers as ``GitRepository`` does, whoever knew it."""

    def __init__(self, git: GitRepository, forge: Forge, *, number: int | None = None) -> None:
        """Nothing is asked yet. ``number``: the pull request that the job is about, whose list of files can be asked for."""
        self._git = git
        self._forge = forge
        self._number = number
        self._far: dict[str, tuple[_Entries, bool]] = {}
        """Commits that only GitHub has -> their entries, and whether these are all."""
        self._sizes: dict[str, int] = {}
        self._blobs: dict[str, bytes] = {}
        self._bases: dict[tuple[str, str], str] = {}
        self._said: dict[str, Finding] = {}

    @property
    def location(self) -> str:
        """See Repository."""
        return self._git.location

    @property
    def root(self) -> Path:
        """See Repository."""
        return self._git.root

    def remarks(self) -> tuple[Finding, ...]:
        """See Repository."""
        return tuple(self._said.values())

    def resolve(self, revision: str) -> str:
        """See Repository. Only whole commit ids are looked for on GitHub: names are the checkout's."""
        if revision in self._far:
            return revision
        try:
            return self._git.resolve(revision)
        except RepositoryError as error:
            if not _is_id(revision):
                raise
            self._read_tree(revision, error)
            return revision

    def merge_base(self, one: str, other: str) -> str:
        """See Repository."""
        first, second = self.resolve(one), self.resolve(other)
        if first == second:
            return first
        if (first, second) in self._bases:
            return self._bases[first, second]
        why: RepositoryError | None = None
        if first not in self._far and second not in self._far:
            try:
                return self._git.merge_base(first, second)
            except NoCommonHistoryError:
                raise
            except RepositoryError as error:
                why = error
        try:
            found = self._forge.merge_base(first, second)
        except ForgeError as failed:
            raise _neither(why, failed) from None
        self._note_use(why)
        self._bases[first, second] = found
        self.resolve(found)
        return found

    def default_branch(self) -> str | None:
        """See Repository."""
        return self._git.default_branch()

    def default_base(self) -> str | None:
        """See Repository."""
        return self._git.default_base()

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str, str | None]]:
        """See Repository. Without Git a copy counts as added, and so does what the cut list of a tree does not explain."""
        older, newer = self.resolve(base), self.resolve(head)
        if older not in self._far and newer not in self._far:
            return self._git.changed_paths(older, newer)
        (before, has_all_before), (after, has_all_after) = self._entries(older), self._entries(newer)
        listed = self._listed(older, newer)
        if has_all_before and has_all_after:
            # Two whole trees say exactly what differs; the list says what was renamed, and must not say anything else.
            renames = (
                {item.path: item.previous_path for item in listed.files if item.status == "renamed"} if listed else {}
            )
            return _differences(before, after, renames)
        found: dict[str, tuple[str, str, str | None]] = {
            item.path: (_STATUS[item.status], item.path, item.previous_path if item.status == "renamed" else None)
            for item in (listed.files if listed else ())
            if item.status in _STATUS
        }
        if listed is None or not listed.complete:
            count = f"{len(found)} files" if listed else "none"
            self._say(
                Level.ERROR,
                "incomplete",
                f"GitHub does not list every file of this change ({count} of it are known), and the checkout does not hold both "
                "commits: what is not listed was not judged",
            )
        return sorted(found.values(), key=lambda item: item[1])

    def tree(self, commit: str, under: str = "") -> list[tuple[str, str, str]]:
        """See Repository."""
        found = self.resolve(commit)
        if found not in self._far:
            return self._git.tree(found, under)
        start = f"{under.strip('/')}/" if under.strip("/") else ""
        entries = self._entries(found)[0]
        return sorted((path, mode, blob) for path, (mode, blob) in entries.items() if path.startswith(start))

    def paths(self, commit: str) -> Mapping[str, tuple[str, str]]:
        """See Repository."""
        found = self.resolve(commit)
        return self._entries(found)[0] if found in self._far else self._git.paths(found)

    def find(self, commit: str, name: str) -> list[tuple[str, str, str]]:
        """See Repository."""
        found = self.resolve(commit)
        if found not in self._far:
            return self._git.find(found, name)
        return [entry for entry in self.tree(found) if entry[0].rpartition("/")[2].casefold() == name.casefold()]

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        """See Repository. What comes from GitHub is held to its id."""
        wanted = list(dict.fromkeys(ids))
        lacking = self._git.lacking([blob for blob in wanted if blob not in self._blobs]) if self._far else []
        for blob in lacking:
            self._blobs[blob] = self._fetched(blob)
        here = [blob for blob in wanted if blob not in self._blobs]
        found = self._git.blobs(here) if here else {}
        return {blob: found[blob] if blob in found else self._blobs[blob] for blob in wanted}

    def read_skill_files(self, commit: str, folder: str) -> tuple[SkillFile, ...]:
        """See Repository."""
        found = self.resolve(commit)
        if found not in self._far:
            return self._git.read_skill_files(found, folder)
        under = "" if folder in ("", ".") else folder.strip("/")
        entries = self.tree(found, under)
        contents = self.blobs([blob for _, mode, blob in entries if mode != SUBMODULE])
        files = []
        for path, mode, blob in entries:
            data = contents.get(blob, b"")
            name = path.removeprefix(f"{under}/") if under else path
            files.append(SkillFile(path=name, mode=mode, sha256=sha256_hex(data), size_bytes=len(data), data=data))
        return tuple(files)

    def links(self, commit: str) -> list[tuple[str, str]]:
        """See Repository."""
        found = self.resolve(commit)
        if found not in self._far:
            return self._git.links(found)
        return sorted((path, blob) for path, (mode, blob) in self._entries(found)[0].items() if mode == SYMLINK)

    def ending(self, commit: str, ends: tuple[str, ...]) -> list[str]:
        """See Repository."""
        found = self.resolve(commit)
        if found not in self._far:
            return self._git.ending(found, ends)
        return sorted(path for path in self._entries(found)[0] if path.endswith(ends))

    def checked_out_from(self) -> str:
        """See Repository."""
        return self._git.checked_out_from()

    def is_dirty(self, under: Sequence[str] = ()) -> bool:
        """See Repository."""
        return self._git.is_dirty(under)

    # --- GitHub

    def _entries(self, commit: str) -> tuple[_Entries, bool]:
        if commit in self._far:
            return self._far[commit]
        return dict(self._git.paths(commit)), True

    def _read_tree(self, commit: str, why: RepositoryError) -> None:
        try:
            tree = self._forge.tree(commit)
        except ForgeError as failed:
            raise _neither(why, failed) from None
        self._note_use(why)
        self._far[commit] = ({item.path: (item.mode, item.blob) for item in tree.entries}, tree.complete)
        if not tree.complete:
            self._say(
                Level.ERROR,
                "cut-tree",
                f"GitHub does not list every file of the commit {commit[:12]}, and the checkout does not hold it: skills that "
                "are not listed were not seen",
            )

    def _listed(self, base: str, head: str) -> ChangedFiles | None:
        """The list of the pull request, where it is about these two commits."""
        if self._number is None:
            return None
        try:
            listed = self._forge.changed_files(self._number)
        except ForgeError:
            return None
        return listed if listed.head_sha == head and base in self._bases.values() else None

    def _fetched(self, blob: str) -> bytes:
        if len(self._blobs) >= MAX_FETCHED_FILES:
            raise RepositoryError(
                f"More than {MAX_FETCHED_FILES} files would have to be read from GitHub one by one.",
                remedy=_FULL_HISTORY,
            )
        try:
            data = self._forge.blob(blob)
        except ForgeError as failed:
            raise _neither(None, failed) from None
        algorithm = "sha1" if len(blob) == 40 else "sha256"
        if hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() != blob:
            raise RepositoryError(f"GitHub gave another file than {blob} for it.", remedy=_FULL_HISTORY)
        return data

    def _note_use(self, why: RepositoryError | None) -> None:
        reason = f" ({why.message})" if why is not None else ""
        self._say(
            Level.NOTICE,
            "by-api",
            f"the checkout does not hold all of this change, so GitHub was asked for the rest{reason}",
        )

    def _say(self, level: Level, rule: str, message: str) -> None:
        self._said.setdefault(
            rule,
            Finding(
                rule=f"changes/{rule}",
                level=level,
                path=".",
                message=message,
                remedy=_FULL_HISTORY,
                blocks=level is Level.ERROR,
            ),
        )


def _is_id(revision: str) -> bool:
    return len(revision) in (40, 64) and all(char in "0123456789abcdef" for char in revision)


def _neither(why: RepositoryError | None, failed: ForgeError) -> RepositoryError:
    first = f"{why.message} " if why is not None else ""
    return RepositoryError(f"{first}GitHub does not say it either: {failed.message}", remedy=_FULL_HISTORY)


def _differences(
    before: _Entries, after: _Entries, renames: Mapping[str, str | None]
) -> list[tuple[str, str, str | None]]:
    """As git says it: renamed is what GitHub calls so and what moved with equal content."""
    gone = {path for path in before if path not in after}
    fresh = [path for path in after if path not in before]
    by_blob: dict[tuple[str, str], list[str]] = {}
    for path in sorted(gone, reverse=True):
        by_blob.setdefault(before[path], []).append(path)
    found: list[tuple[str, str, str | None]] = []
    for path in sorted(fresh):
        old = renames.get(path)
        if old not in gone:
            equal = [one for one in by_blob.get(after[path], ()) if one in gone]
            old = equal[-1] if equal and after[path][0] != SUBMODULE else None
        if old is None:
            found.append(("A", path, None))
        else:
            gone.discard(old)
            found.append(("R", path, old))
    found += [("D", path, None) for path in gone]
    for path in before.keys() & after.keys():
        if before[path] != after[path]:
            found.append(("M" if before[path][0][:2] == after[path][0][:2] else "T", path, None))
    return sorted(found, key=lambda item: item[1])
