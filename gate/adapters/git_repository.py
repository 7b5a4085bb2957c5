"""The Repository seam over the git program.

Nothing of the repository runs: no hooks, no file-system monitor, no external diff, no text conversion, no filters, no
lazy fetch of a partial clone, no configuration but the repository's own. A shallow clone is deepened, over https only and
for so many steps only, where a commit or a merge base is not in it. Every list is NUL-separated.
Paths are the repository's bytes decoded as UTF-8 with ``surrogateescape``. (DESIGN.md 3; github-action.md 1.10, 1.11.)
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import operator
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from gate.domain.base import sha256_hex
from gate.domain.findings import Finding
from gate.domain.skill import SUBMODULE, SkillFile
from gate.errors import NoCommonHistoryError, RepositoryError

K = TypeVar("K")
TIMEOUT_S = 120.0
"""For one git command; the slowest seen on 100,000 files took under two seconds."""
RENAME_LIMIT = 1000
MAX_BLOB_BYTES = 1 << 30
"""All blobs of one ``blobs`` call together."""
MAX_SKILL_BYTES = 100 * 1024 * 1024
"""Kept of one skill folder (the largest of 13,373 real ones has 48 MB); what lies beyond has its digest and no data."""
MAX_DIRTY_FILES = 2000
"""Files whose content is compared before the folder simply counts as changed."""
_DEFAULT_BRANCHES = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
    "refs/heads/main",
    "refs/heads/master",
)
DEEPENING = (50, 250, 1250, 6250)
"""Commits from each tip that a shallow clone is deepened to, one after the other; then it is said, not tried further."""
KEPT_LISTINGS = 3
"""Commits whose listing is kept (8.5 MB for 100,000 files)."""
_FULL_HISTORY = "Fetch the whole history (actions/checkout: fetch-depth: 0)."


def is_repository(path: str | Path) -> bool:
    """Whether a folder is in a Git repository that git can read. Never raises."""
    try:
        GitRepository(path)
    except RepositoryError:
        return False
    return True


class Listing(Mapping[str, tuple[str, str]]):
    """Every entry of a commit, path -> (mode, object id), over git's own listing: what is not asked for stays bytes.

    Most questions are about a few of 100,000 entries. Git lists them in the order of their bytes; one that does not (a tree
    that somebody wrote by hand) is put in order first, so that no entry can hide from a search.
    """

    def __init__(self, raw: bytes) -> None:
        """``raw``: what ``git ls-tree -r -z`` printed."""
        entries = raw.split(b"\0")
        entries.pop()  # what follows the last NUL: nothing
        width = entries[0].index(b"\t") if entries else 0
        # Most entries are files, whose facts are all as long as those of the first.
        paths = [
            item[width + 1 :] if item[width : width + 1] == b"\t" else item.partition(b"\t")[2] for item in entries
        ]
        if any(map(operator.gt, paths, itertools.islice(paths, 1, None))):
            entries = [item for _, item in sorted(zip(paths, entries, strict=True))]
            paths.sort()
        self._entries = entries
        self._paths = paths

    def __getitem__(self, path: str) -> tuple[str, str]:
        try:
            wanted = path.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise KeyError(path) from None
        at = bisect.bisect_left(self._paths, wanted)
        if at == len(self._paths) or self._paths[at] != wanted:
            raise KeyError(path)
        return self._facts(at)

    def __iter__(self) -> Iterator[str]:
        return map(_path, self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def _facts(self, at: int) -> tuple[str, str]:
        mode, _, blob = self._entries[at].partition(b"\t")[0].decode("ascii").split(" ", 2)
        return mode, blob

    def everything(self) -> Iterator[tuple[str, str, str]]:
        """(path, mode, object id) of every entry, in the order of their bytes."""
        return ((_path(path), *self._facts(at)) for at, path in enumerate(self._paths))

    def under(self, folder: str) -> list[tuple[str, str, str]]:
        """(path, mode, object id) of every entry below a folder: they stand together."""
        start = f"{folder}/".encode("utf-8", "surrogateescape")
        found: list[tuple[str, str, str]] = []
        for at in range(bisect.bisect_left(self._paths, start), len(self._paths)):
            if not self._paths[at].startswith(start):
                break
            found.append((_path(self._paths[at]), *self._facts(at)))
        return found

    def named(self, name: str) -> list[tuple[str, str, str]]:
        """(path, mode, object id) of every entry with this file name, in any case."""
        wanted, last = name.casefold(), name[-1:].casefold().encode("utf-8")
        # The cheap question first. Of the letters, d is one that nothing else is folded to (k is, by the Kelvin sign).
        ends = (last, last.upper()) if last == b"d" else (b"",)
        return [
            (path, *self._facts(at))
            for at, data in enumerate(self._paths)
            if data.endswith(ends) and (path := _path(data)).rpartition("/")[2].casefold() == wanted
        ]

    def links(self) -> list[tuple[str, str]]:
        """(path, object id) of every symbolic link."""
        return [
            (_path(self._paths[at]), self._facts(at)[1])
            for at, entry in enumerate(self._entries)
            if entry.startswith(b"120000 ")
        ]

    def ending(self, ends: tuple[str, ...]) -> list[str]:
        """Every path that ends in one of these, as they are written."""
        wanted = tuple(end.encode("utf-8") for end in ends)
        return [_path(path) for path in self._paths if path.endswith(wanted)]


class GitRepository:
    """One repository on disk (a working tree, any folder in it, or a bare one). Thread-safe."""

    def __init__(
        self,
        path: str | Path,
        *,
        timeout_s: float = TIMEOUT_S,
        deepen: bool = True,
        fetch_from: Sequence[str] = ("https",),
    ) -> None:
        """Raises RepositoryError where there is no git program or no repository.

        ``deepen``: whether a shallow clone may be deepened from ``origin``. ``fetch_from``: the protocols allowed for
        that; anything but https is for tests.
        """
        given = Path(path)
        self._timeout_s = timeout_s
        self._deepen_allowed = deepen
        self._fetch_from = tuple(fetch_from)
        self._listings: dict[str, Listing] = {}
        self._parts: dict[tuple[str, str], Listing] = {}
        """Of commits that are not listed whole: by commit and folder."""
        self._why_not_deeper = ""
        self.location = str(path)
        self._commits: set[str] = set()
        """Full ids that git has confirmed: a commit stays what it is."""
        if shutil.which("git") is None:
            raise RepositoryError("The git program was not found.", remedy="Install git.")
        if not given.is_dir():
            raise RepositoryError(f"{path} is not a folder.", remedy="Name the folder of a Git repository.")
        self.root = _root(given.resolve())
        """Its outermost folder: every path is relative to it."""
        answer = self._git("rev-parse", "--is-inside-work-tree", check=False)
        self._has_files = answer.stdout.strip() == b"true"
        if answer.returncode != 0:
            raise RepositoryError(
                f"{path} is not a Git repository that git can read: {_last_line(answer.stderr)}",
                remedy="Name the folder of a Git repository; in a workflow, check it out first (actions/checkout).",
            )

    def resolve(self, revision: str) -> str:
        """The commit id of a revision; a branch name that exists only on ``origin`` means that one.

        Raises RepositoryError naming the revision.
        """
        if revision in self._commits:
            return revision
        for candidate in (revision, f"refs/remotes/origin/{revision}"):
            found = self._commit(candidate)
            if found:
                self._commits.add(found)
                return found
        remedy = "Check the spelling."
        shallow = self._is_shallow()
        # A commit that no branch holds any more (before a forced push) is in no clone, and yet can be had by its id.
        if _COMMIT_ID.fullmatch(revision) and self._fetch(1 if shallow else None, (revision,)):
            found = self._commit(revision)
            if found:
                self._commits.add(found)
                return found
        if shallow:
            remedy = f"The clone is shallow, so the commit may not be there{self._why_not_deeper}. {_FULL_HISTORY}"
        raise RepositoryError(f'There is no commit "{revision}" in "{self.location}".', remedy=remedy)

    def merge_base(self, one: str, other: str) -> str:
        """The best common ancestor. Raises RepositoryError with a remedy where there is none."""
        first, second = self.resolve(one), self.resolve(other)
        answer = self._git("merge-base", first, second, check=False)
        if answer.returncode == 1 and self._is_shallow():
            found = deepen_until(
                lambda: self._merge_base(first, second), lambda depth: self._fetch(depth, (first, second)), DEEPENING
            )
            if found is not None:
                return found
            raise RepositoryError(
                f"The clone is shallow: the commit where {one} and {other} parted is not in it{self._why_not_deeper}.",
                remedy=_FULL_HISTORY,
            )
        if answer.returncode == 0:
            return answer.stdout.decode("ascii").split()[0]
        if answer.returncode == 1:
            raise NoCommonHistoryError(
                f"{one} and {other} have no common history.", remedy="Name a base that the head was branched from."
            )
        raise self._failed("merge-base", answer)

    def default_branch(self) -> str | None:
        """The commit at the tip of the default branch: of ``origin`` if there is one, else main or master."""
        return next((found for name in _DEFAULT_BRANCHES if (found := self._commit(name))), None)

    def default_base(self) -> str | None:
        """Where HEAD left the default branch; None: no default branch is known. Raises as ``merge_base`` does."""
        branch = self.default_branch()
        return self.merge_base(branch, "HEAD") if branch else None

    def changed_paths(self, base: str, head: str) -> list[tuple[str, str, str | None]]:
        """(status letter, path, old path of a rename or copy) of every file that differs, sorted by path."""
        parts = self._git(
            "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M", f"-l{RENAME_LIMIT}", "--no-ext-diff", "--no-textconv",
            "--ignore-submodules=none", self.resolve(base), self.resolve(head),
        ).stdout.split(b"\0")  # fmt: skip
        changes: list[tuple[str, str, str | None]] = []
        fields = iter(parts)
        for head_line in fields:
            if not head_line:
                break
            status = head_line.rsplit(b" ", 1)[1][:1].decode("ascii")
            path = _path(next(fields))
            old = None
            if status in "RC":
                old, path = path, _path(next(fields))
            changes.append((status, path, old))
        return sorted(changes, key=lambda item: item[1])

    def tree(self, commit: str, under: str = "") -> list[tuple[str, str, str]]:
        """(path, mode, blob id) of every entry below a folder, sorted by path; empty where there is no such folder."""
        folder = under.strip("/")
        found = self.resolve(commit)
        if not folder:
            entries = list(self._listing(found).everything())
        elif found in self._listings:
            entries = self._listings[found].under(folder)
        else:
            entries = self._part(found, folder).under(folder)
        return sorted(entries)

    def paths(self, commit: str) -> Mapping[str, tuple[str, str]]:
        """Path -> (mode, blob id) of every entry of a commit, parsed where it is asked for."""
        return self._listing(commit)

    def find(self, commit: str, name: str) -> list[tuple[str, str, str]]:
        """(path, mode, blob id) of every entry with this file name, in any case, sorted by path."""
        return sorted(self._listing(commit).named(name))

    def links(self, commit: str) -> list[tuple[str, str]]:
        """(path, blob id) of every symbolic link of a commit, sorted by path."""
        return self._listing(commit).links()

    def ending(self, commit: str, ends: tuple[str, ...]) -> list[str]:
        """Every path of a commit that ends in one of these, sorted."""
        return sorted(self._listing(commit).ending(ends))

    def _listing(self, commit: str) -> Listing:
        found = self.resolve(commit)
        listing = self._listings.get(found)
        if listing is None:
            # By way of a file: through a pipe the 8.5 MB of 100,000 files come in hundreds of pieces.
            with tempfile.TemporaryFile() as output:
                self._git("ls-tree", "-r", "-z", "--full-tree", found, output=output)
                output.seek(0)
                listing = Listing(output.read())
            _keep(self._listings, found, listing)
        return listing

    def _part(self, commit: str, folder: str) -> Listing:
        """What is below a folder; a file of that name is listed too, and is not below it."""
        listing = self._parts.get((commit, folder))
        if listing is None:
            listing = Listing(self._git("ls-tree", "-r", "-z", "--full-tree", commit, "--", folder).stdout)
            _keep(self._parts, (commit, folder), listing)
        return listing

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Contents by id, in one git process.

        Raises RepositoryError for an unknown id and for more than ``MAX_BLOB_BYTES`` together.
        """
        found: dict[str, bytes] = {}
        total = 0
        for blob, size, chunks in self._contents(list(dict.fromkeys(ids))):
            total += size
            if total > MAX_BLOB_BYTES:
                raise RepositoryError(
                    f"More than {MAX_BLOB_BYTES} bytes were asked for at once.",
                    remedy="Keep large files out of skills.",
                )
            found[blob] = b"".join(chunks)
        return found

    def lacking(self, ids: Sequence[str]) -> list[str]:
        """Those of ``ids`` that are not here, in one git process."""
        if not ids:
            return []
        answer = self._git(
            "cat-file", "--batch-check", stdin="".join(f"{blob}\n" for blob in ids).encode("ascii", "replace")
        )
        return [
            blob
            for blob, line in zip(ids, answer.stdout.splitlines(), strict=True)
            if line.rpartition(b" ")[2] == b"missing"
        ]

    def remarks(self) -> tuple[Finding, ...]:
        """See Repository: nothing, as git knows all or says that it does not."""
        return ()

    def read_skill_files(self, commit: str, folder: str) -> tuple[SkillFile, ...]:
        """Every entry below a folder (``.``: the whole tree), paths relative to it.

        What would take the folder over ``MAX_SKILL_BYTES`` has its true size and digest and no data. Paths that are no
        UTF-8 are shown with ``\\xff`` escapes.
        """
        under = "" if folder in ("", ".") else folder.strip("/")
        entries = self.tree(commit, under)
        kept: dict[str, tuple[str, int, bytes]] = {}
        total = 0
        for blob, size, chunks in self._contents(list(dict.fromkeys(e[2] for e in entries if e[1] != SUBMODULE))):
            total += size
            digest = hashlib.sha256()
            data = []
            for chunk in chunks:
                digest.update(chunk)
                if total <= MAX_SKILL_BYTES:
                    data.append(chunk)
            kept[blob] = (digest.hexdigest(), size, b"".join(data))
        files = []
        for path, mode, blob in entries:
            sha256, size, content = kept.get(blob, (sha256_hex(b""), 0, b""))
            relative = path.removeprefix(f"{under}/") if under else path
            files.append(SkillFile(path=_shown(relative), mode=mode, sha256=sha256, size_bytes=size, data=content))
        return tuple(files)

    def checked_out_from(self) -> str:
        """Whose the checked-out branch is, where Git's configuration says that it is somebody else's.

        Tools that check out a pull request note its ref, or the address of its repository, beside the branch. A branch
        without such a note, and a commit that no branch is at, are taken for the user's own.
        """
        branch = (
            self._git("symbolic-ref", "--quiet", "--short", "HEAD", check=False)
            .stdout.decode("utf-8", "replace")
            .strip()
        )
        if not branch:
            return ""
        merge, remote = (
            self._git("config", "--local", f"branch.{branch}.{key}", check=False)
            .stdout.decode("utf-8", "replace")
            .strip()
            for key in ("merge", "remote")
        )
        if merge.startswith(("refs/pull/", "refs/merge-requests/")):
            return merge
        return remote if ":" in remote or "/" in remote else ""

    def is_dirty(self, under: Sequence[str] = ()) -> bool:
        """Whether tracked files differ from HEAD, staged or not. Compares bytes itself, so that no filter is run.

        ``under``: only those in these folders (none: all); git then looks at no other file.
        """
        if not self._has_files:
            return False
        folders = [] if "." in under else list(under)
        # Two commands: one that compares HEAD with the files themselves would run the filters that are configured for them.
        staged = self._git(
            "diff-index", "--cached", "--raw", "-z", "--ignore-submodules=all", "HEAD", "--", *folders, check=False
        )
        if staged.returncode != 0:
            if not self._commit("HEAD"):
                return False  # nothing is committed yet
            raise self._failed("diff-index", staged)
        if staged.stdout:
            return True
        changed = self._git("diff-files", "--raw", "-z", "--no-abbrev", "--ignore-submodules=all", "--", *folders)
        parts = changed.stdout.split(b"\0")
        pairs = list(zip(parts[0::2], parts[1::2], strict=False))
        if len(pairs) > MAX_DIRTY_FILES:
            return True
        return any(self._differs(line, path) for line, path in pairs if line)

    def _differs(self, line: bytes, path: bytes) -> bool:
        """Whether a file whose stat data changed really has other content or another mode than the index."""
        old_mode, new_mode, blob, _, _ = line.lstrip(b":").split(b" ", 4)
        if old_mode != new_mode:
            return True
        place = Path(os.fsdecode(os.fsencode(self.root) + b"/" + path))
        try:
            is_link = stat.S_ISLNK(place.lstat().st_mode)
            data = os.fsencode(place.readlink()) if is_link else place.read_bytes()
        except OSError:
            return True
        algorithm = "sha1" if len(blob) == 40 else "sha256"
        return all(
            hashlib.new(algorithm, b"blob %d\0" % len(form) + form, usedforsecurity=False).hexdigest().encode() != blob
            for form in (data, data.replace(b"\r\n", b"\n"))
        )

    def _commit(self, revision: str) -> str | None:
        if not revision or "\0" in revision or "\n" in revision:
            return None
        answer = self._git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", check=False
        )
        text = answer.stdout.decode("ascii", "replace").strip()
        return text if answer.returncode == 0 and text else None

    def _merge_base(self, one: str, other: str) -> str | None:
        answer = self._git("merge-base", one, other, check=False)
        return answer.stdout.decode("ascii").split()[0] if answer.returncode == 0 else None

    def _fetch(self, depth: int | None, commits: Sequence[str]) -> bool:
        """Fetch commits and ``depth`` (None: all) of their history from ``origin``; False (and why) where that cannot be."""
        if not self._deepen_allowed:
            return False
        url = self._git("config", "--get", "remote.origin.url", check=False).stdout.decode("utf-8", "replace").strip()
        scheme = url.partition("://")[0].lower() if "://" in url else ""
        if scheme not in self._fetch_from:
            self._why_not_deeper = ", and it is deepened over https only, which origin is not" if url else ""
            return False
        # The address and not the name: settings of the remote could name a program to run.
        answer = self._git(
            "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head",
            *([] if depth is None else [f"--depth={depth}"]), "--end-of-options", url, *commits, check=False, protocols=self._fetch_from,
        )  # fmt: skip
        if answer.returncode != 0:
            self._why_not_deeper = f", and git fetch failed: {_last_line(answer.stderr)}".rstrip(".")
        return answer.returncode == 0

    def _is_shallow(self) -> bool:
        return self._git("rev-parse", "--is-shallow-repository", check=False).stdout.strip() == b"true"

    def _contents(self, ids: Sequence[str]) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """(id, size, content in pieces) in the order of ``ids``. Each content is read before the next is asked for."""
        if not ids:
            return
        with tempfile.TemporaryFile() as wanted, tempfile.TemporaryFile() as errors:
            wanted.write("".join(f"{blob}\n" for blob in ids).encode("ascii", "replace"))
            wanted.seek(0)
            with subprocess.Popen(
                self._argv("cat-file", "--batch"),
                stdin=wanted,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
                start_new_session=True,
            ) as process:
                timer = threading.Timer(self._timeout_s, _kill, (process,))
                timer.start()
                try:
                    if process.stdout is None:  # pragma: no cover - PIPE was asked for
                        raise RepositoryError("git gave no output.")
                    for blob in ids:
                        size = self._header(process.stdout, blob)
                        pieces = _pieces(process.stdout, size, self.location)
                        yield blob, size, pieces
                        for _ in pieces:  # whatever the caller left unread
                            pass
                        process.stdout.read(1)
                finally:
                    timer.cancel()
                    _kill(process)

    def _header(self, stream: IO[bytes], blob: str) -> int:
        line = stream.readline().decode("ascii", "replace").split()
        if len(line) == 3 and line[1] == "blob":
            return int(line[2])
        if len(line) == 3:
            raise RepositoryError(f"The object {blob} in {self.location} is a {line[1]}, not a file.")
        remedy = "The clone is partial or damaged: fetch everything (actions/checkout: filter unset, fetch-depth: 0)."
        if not line:
            raise RepositoryError(f"git stopped before it gave the file {blob} of {self.location}.", remedy=remedy)
        raise RepositoryError(f"The file {blob} is not in {self.location}.", remedy=remedy)

    def _argv(self, *arguments: str, protocols: Sequence[str] = ()) -> list[str]:
        allowed = [part for name in protocols for part in ("-c", f"protocol.{name}.allow=always")]
        return [
            "git", "-C", str(self.root), "--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false",
            "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never", *allowed,
            "-c", f"safe.directory={self.root}", *arguments,
        ]  # fmt: skip

    def _git(
        self,
        *arguments: str,
        check: bool = True,
        protocols: Sequence[str] = (),
        stdin: bytes = b"",
        output: IO[bytes] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            answer = subprocess.run(
                self._argv(*arguments, protocols=protocols),
                input=stdin,
                stdout=subprocess.PIPE if output is None else output,
                stderr=subprocess.PIPE,
                env=_environment(protocols),
                timeout=self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RepositoryError(
                f"git {arguments[0]} took longer than {self._timeout_s:g} s in {self.location}.",
                remedy="Try again; if it stays slow, run git gc in the repository.",
            ) from error
        except OSError as error:
            raise RepositoryError(f"git could not be started: {error}.", remedy="Install git.") from error
        if check and answer.returncode != 0:
            raise self._failed(arguments[0], answer)
        return answer

    def _failed(self, command: str, answer: subprocess.CompletedProcess[bytes]) -> RepositoryError:
        remedy = "Run git fsck in the repository."
        if self._is_shallow():
            remedy = f"The clone is shallow. {_FULL_HISTORY}"
        return RepositoryError(f"git {command} failed in {self.location}: {_last_line(answer.stderr)}", remedy=remedy)


def deepen_until(
    ask: Callable[[], str | None], fetch: Callable[[int], bool], depths: Sequence[int] = DEEPENING
) -> str | None:
    """What ``ask`` answers once enough history is there; None where no depth was enough or a fetch failed.

    ``fetch`` gets each depth in turn until ``ask`` has an answer: tj-actions/changed-files#668 and kin show that one fixed
    depth is never right.
    """
    for depth in depths:
        if not fetch(depth):
            return None
        found = ask()
        if found is not None:
            return found
    return None


_NETWORK = (
    "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
_COMMIT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def _environment(protocols: Sequence[str] = ()) -> dict[str, str]:
    """An own, small environment: variables of the outside (GIT_DIR, GIT_EXTERNAL_DIFF …) must not redirect git."""
    return {
        **({name: os.environ[name] for name in _NETWORK if name in os.environ} if protocols else {}),
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",  # a replace ref would show other content than the commit has
        "GIT_NO_LAZY_FETCH": "1",  # git before 2.45 does not know it; protocol.allow=never holds there
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
    }


def _root(folder: Path) -> Path:
    """The working tree or bare repository that a folder lies in; the folder itself where there is none.

    Found here and not by git, because ``safe.directory`` must name it before git is asked anything.
    """
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir() and (candidate / "refs").is_dir():
            return candidate
    return folder


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _pieces(stream: IO[bytes], size: int, location: str) -> Iterator[bytes]:
    left = size
    while left:
        piece = stream.read(min(left, 1 << 20))
        if not piece:
            raise RepositoryError(
                f"git stopped in the middle of a file of {location}.", remedy="Try again; else run git fsck."
            )
        left -= len(piece)
        yield piece


def _keep(kept: dict[K, Listing], key: K, listing: Listing) -> None:
    """Keep a listing beside the latest others."""
    for old in list(kept)[: max(0, len(kept) + 1 - KEPT_LISTINGS)]:
        kept.pop(old, None)
    kept[key] = listing


def _path(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _last_line(data: bytes) -> str:
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
