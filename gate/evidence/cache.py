"""What an earlier session recorded and this one may use again: sealed runs and judges' replies, each under a MAC.

A seal proves that a record is whole, not where it came from; here every entry carries an HMAC-SHA256 (RFC 2104) over its
content digest, the repository and the scope that it was made in (DESIGN.md 3). The key is derived from a secret that is
never present on forks. An entry that is not there, is too old, was made elsewhere or does not verify is a miss; the last
two are findings as well.

Layout, made for a folder that ``actions/cache`` keeps: ``runs/ab/<digest>/<scope>/{entry.json,run/…}`` for runs,
``values/ab/<digest>/<scope>.json`` for replies and for what verification containers gave.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from gate.domain.base import Value, canonical_json, digest_of, pretty_json, sha256_hex
from gate.domain.chat import ChatReply, ChatRequest
from gate.errors import EvidenceError, InfrastructureError
from gate.evidence.bundle import parse_value
from gate.evidence.files import write_atomic
from gate.evidence.seal import LATER_FILES, SEAL, check_folder

V = TypeVar("V", bound=Value)

DEFAULT_SCOPE = "default"
"""The scope of the default branch: its entries serve every pull request of the repository."""
MAX_AGE_DAYS = 30
"""How long an entry serves: models change behind their names, and so do the images that a name resolves to."""
_PURPOSE = b"skill-gate cache 1\0"
_ENTRY = "entry.json"
ValueKind = Literal["reply", "verification", "cost", "sealed", "nulls", "history"]
EntryKind = Literal["run", "reply", "verification", "cost", "sealed", "nulls", "history"]
_AGELESS = frozenset({"history"})
"""Kinds that no age makes useless: what they hold carries its own dates."""
_KEY_PURPOSE = b"skill-gate cache key 1\0"
_JUDGING_PURPOSE = b"skill-gate judging 1\0"


class CacheScope(Value):
    """Whose entries these are."""

    repository: str = Field(min_length=1)
    """An id that a rename does not change (``GITHUB_REPOSITORY_ID``), or ``local``."""
    name: str = Field(min_length=1)
    """``default``, ``pull/7``, or ``local``."""

    @property
    def readable(self) -> tuple[str, ...]:
        """Scopes whose entries may be used: the own one, then the default branch's."""
        return tuple(dict.fromkeys((self.name, DEFAULT_SCOPE)))


class CacheProblem(NamedTuple):
    """An entry that was there and must not be used."""

    path: str
    """Relative to the cache's folder."""
    rule: Literal["forged", "foreign"]
    message: str
    """A sentence without untrusted text."""


class _Entry(Value):
    """entry.json of a kept run, or a kept reply: what the MAC is over, and the MAC."""

    schema_version: Literal[1] = 1
    kind: EntryKind
    facts: str
    """Digest of everything that the content depends on; also its place."""
    content: str
    """Digest of the content: of seal.json, or of ``value``."""
    repository: str
    scope: str
    kept_on: str
    label: str
    """For people: ``skill/case/run/arm`` or the label of the call."""
    value: dict[str, Any] | None = None
    mac: str = ""


class Reused(Value):
    """reuse.json beside a run's sealed files: the day on which an earlier session made it."""

    kept_on: str


class Kept(NamedTuple):
    """One entry, for ``skill-gate cache ls``."""

    kind: str
    label: str
    scope: str
    kept_on: str
    size_bytes: int
    path: Path


def derive_key(secret: str) -> bytes:
    """The MAC key of a cache from a secret that people hold (a provider's key, or ``cache-key``)."""
    return hmac.new(secret.encode("utf-8", "surrogateescape"), _KEY_PURPOSE, hashlib.sha256).digest()


class Cache:
    """A cache folder as one session sees it. Thread-safe; several sessions may use one folder at the same time."""

    def __init__(self, root: Path, key: bytes, scope: CacheScope, *, today: str) -> None:
        """``today``: ISO date from which the age of entries is counted."""
        self.root = root
        self.scope = scope
        self._key = key
        self._today = dt.date.fromisoformat(today)
        self._lock = threading.Lock()
        self._problems: dict[str, CacheProblem] = {}

    @property
    def judging_seed(self) -> str:
        """64 hex digits from which the judges' fences and controls of a kept run are derived, together with the run's own
        seal: the same record gives the same question, and nobody can know it before the record is made.
        """
        text = f"{self.scope.repository}\0{self.scope.name}".encode()
        return hmac.new(self._key, _JUDGING_PURPOSE + text, hashlib.sha256).hexdigest()

    @property
    def problems(self) -> tuple[CacheProblem, ...]:
        """Entries that were found and not used because of where they come from, by path."""
        with self._lock:
            return tuple(self._problems[path] for path in sorted(self._problems))

    def has_run(self, facts: str) -> bool:
        """Whether a usable run of these facts is kept; its files are not looked at yet."""
        return any(True for _ in self._entries("runs", "run", facts))

    def take_run(self, facts: str, destination: Path) -> str | None:
        """Copy the kept run of these facts to ``destination`` and return the day it was kept on; None where there is none.

        ``destination`` must not exist. What is copied is checked after the copy, so that a change in between shows.
        """
        for entry, folder in self._entries("runs", "run", facts):
            try:
                shutil.copytree(folder / "run", destination, symlinks=True)
            except OSError:
                shutil.rmtree(destination, ignore_errors=True)
                self._problem(folder, "forged", "its files cannot be read")
                continue
            wrong = check_folder(destination)
            if not wrong and sha256_hex((destination / SEAL).read_bytes()) == entry.content:
                return entry.kept_on
            shutil.rmtree(destination, ignore_errors=True)
            self._problem(folder, "forged", "its files are not those that were kept")
        return None

    def keep_run(self, facts: str, run_folder: Path, label: str) -> None:
        """Keep a sealed run under its facts; one that is there already stays. What later layers wrote is left out.

        Raises EvidenceError where the folder is not what was sealed, InfrastructureError where the disk refuses.
        """
        if problems := check_folder(run_folder):
            raise EvidenceError(f"{run_folder.name}/{problems[0]}.", path=run_folder.name)
        folder = self._place("runs", facts, self.scope.name)
        if self._holds(folder / _ENTRY, "run", facts):
            return
        content = sha256_hex((run_folder / SEAL).read_bytes())
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            shutil.copytree(run_folder, temporary / "run", ignore=lambda place, names: _later(run_folder, place, names))
            entry = self._signed("run", facts, content, label)
            (temporary / _ENTRY).write_bytes(pretty_json(entry))
            if folder.exists():
                shutil.rmtree(folder)
            temporary.rename(folder)
        except OSError as error:
            raise InfrastructureError(
                f"A run could not be kept in the cache: {error.strerror}.",
                remedy="Free disk space, choose another --cache folder, or use --no-cache.",
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def take_value(self, what: ValueKind, facts: str, kind: type[V]) -> V | None:
        """The kept value for these facts; None where there is none."""
        for entry, path in self._entries("values", what, facts):
            if entry.value is not None and digest_of(entry.value) == entry.content:
                try:
                    return parse_value(canonical_json(entry.value), kind)
                except ValidationError:
                    continue  # another version of the gate kept it
            self._problem(path, "forged", "its content is not what was kept")
        return None

    def values(self, what: ValueKind, kind: type[V]) -> Iterator[tuple[str, V]]:
        """(facts, value) of every usable value of the own scope, by facts."""
        for path in sorted(self.root.glob(f"values/*/*/{_scope_name(self.scope.name)}.json")):
            facts = path.parent.name
            found = self.take_value(what, facts, kind)
            if found is not None:
                yield facts, found

    def keep_value(self, what: ValueKind, facts: str, value: Value, label: str) -> None:
        """Keep a value under the facts that it follows from. Raises InfrastructureError where the disk refuses."""
        path = self._place("values", facts, self.scope.name).with_suffix(".json")
        write_atomic(path, pretty_json(self._signed(what, facts, digest_of(value), label, value.to_json())))

    def _signed(
        self, kind: EntryKind, facts: str, content: str, label: str, value: dict[str, Any] | None = None
    ) -> _Entry:
        entry = _Entry(
            kind=kind,
            facts=facts,
            content=content,
            repository=self.scope.repository,
            scope=self.scope.name,
            kept_on=self._today.isoformat(),
            label=label,
            value=value,
        )
        return entry.model_copy(update={"mac": self._mac(entry)})

    def _mac(self, entry: _Entry) -> str:
        content = entry.model_dump(mode="json", exclude={"mac"})
        return hmac.new(self._key, _PURPOSE + digest_of(content).encode(), hashlib.sha256).hexdigest()

    def _place(self, kind: str, facts: str, scope: str) -> Path:
        return self.root / kind / facts[:2] / facts / _scope_name(scope)

    def _entries(self, kind: str, what: str, facts: str) -> Iterator[tuple[_Entry, Path]]:
        """Usable entries for these facts, the own scope's first; others are noted as problems."""
        names = [_scope_name(scope) for scope in self.scope.readable]
        place = self.root / kind / facts[:2] / facts
        present = {path.name.removesuffix(".json"): path for path in place.iterdir()} if place.is_dir() else {}
        for name in names:
            if (path := present.get(name)) is not None and (entry := self._usable(path, what, facts)) is not None:
                yield entry, path
        if not any(name in present for name in names):
            for name, path in sorted(present.items()):
                if not name.startswith("."):
                    self._problem(path, "foreign", "it was kept by another pull request or a fork")

    def _usable(self, path: Path, what: str, facts: str) -> _Entry | None:
        file = path / _ENTRY if what == "run" else path
        try:
            raw = b"" if file.is_symlink() else file.read_bytes()
        except OSError:
            raw = b""
        try:
            entry = parse_value(raw, _Entry)
        except ValidationError:
            self._problem(path, "forged", "its entry is not one that the gate writes")
            return None
        wrong: tuple[Literal["forged", "foreign"], str] | None = None
        if not hmac.compare_digest(entry.mac.encode("utf-8", "surrogatepass"), self._mac(entry).encode()):
            wrong = ("forged", "its MAC is not by this repository's key, or it was changed")
        elif entry.kind != what or entry.facts != facts:
            wrong = ("forged", "it was kept for something else")
        elif entry.repository != self.scope.repository or entry.scope not in self.scope.readable:
            wrong = ("foreign", "it was kept by another repository or pull request")
        if wrong is not None:
            self._problem(path, *wrong)
            return None
        return entry if entry.kind in _AGELESS or self._is_fresh(entry.kept_on) else None

    def _holds(self, file: Path, what: str, facts: str) -> bool:
        if not file.exists():
            return False
        before = dict(self._problems)
        found = self._usable(file.parent, what, facts)
        with self._lock:
            self._problems = before
        return found is not None

    def _is_fresh(self, kept_on: str) -> bool:
        try:
            age = (self._today - dt.date.fromisoformat(kept_on)).days
        except ValueError:
            return False
        return 0 <= age <= MAX_AGE_DAYS

    def _problem(self, path: Path, rule: Literal["forged", "foreign"], why: str) -> None:
        named = self._named(path)
        with self._lock:
            self._problems[named] = CacheProblem(named, rule, f"A kept entry was not used: {why}.")

    def _named(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


class ReplyShelf:
    """Kept replies of the judges of one session: replies are kept only once what they were asked for is settled.

    A reply that led to nothing (a truncated one, a batch that was voided) is not kept: asking again can help.
    """

    def __init__(self, shelf: Cache) -> None:
        self._cache = shelf
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[str, ChatReply]] = {}

    def take(self, model: str, request: ChatRequest) -> ChatReply | None:
        """The kept reply to exactly this request (label included) of this model, marked as remembered."""
        reply = self._cache.take_value("reply", reply_facts(model, request), ChatReply)
        return None if reply is None else reply.model_copy(update={"remembered": True})

    def put(self, model: str, request: ChatRequest, reply: ChatReply) -> None:
        """Remember a reply until ``settle`` says what becomes of it."""
        kept = reply.model_copy(update={"paid": False})  # for a session that goes on, not for a later one
        with self._lock:
            self._waiting[reply_facts(model, request)] = (request.label, kept)

    def settle(self, prefix: str, *, keep: bool) -> None:
        """Keep, or forget, every waiting reply to a call whose label begins with ``prefix``."""
        with self._lock:
            chosen = {facts: item for facts, item in self._waiting.items() if item[0].startswith(prefix)}
            for facts in chosen:
                del self._waiting[facts]
        if keep:
            for facts, (label, reply) in sorted(chosen.items()):
                self._cache.keep_value("reply", facts, reply, label)


def reply_facts(model: str, request: ChatRequest) -> str:
    """Digest of everything a reply depends on: the model as named, and the whole request with its label."""
    return digest_of({"model": model, "request": request.to_json(), "code": code_digest()})


def list_kept(root: Path) -> list[Kept]:
    """Everything in a cache folder, by kind, label and scope; what cannot be read is listed as ``unreadable``."""
    found = []
    for path in sorted(root.glob("runs/*/*/*")) + sorted(root.glob("values/*/*/*.json")):
        file = path / _ENTRY if path.is_dir() else path
        size = sum(item.stat().st_size for item in path.rglob("*") if item.is_file()) if path.is_dir() else 0
        try:
            entry: Any = parse_value(file.read_bytes(), _Entry)
            kept = Kept(entry.kind, entry.label, entry.scope, entry.kept_on, size or file.stat().st_size, path)
        except (OSError, ValidationError):
            kept = Kept("unreadable", path.relative_to(root).as_posix(), "", "", size, path)
        found.append(kept)
    return sorted(found, key=lambda item: (item.kind, item.label, item.scope))


def prune(root: Path, choose: Callable[[Kept], bool]) -> list[Kept]:
    """Remove the entries that ``choose`` picks, and folders that are empty afterwards; returns what was removed."""
    removed = [item for item in list_kept(root) if choose(item)]
    for item in removed:
        if item.path.is_dir():
            shutil.rmtree(item.path)
        else:
            item.path.unlink(missing_ok=True)
        for folder in (item.path.parent, item.path.parent.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    return removed


@cache
def code_digest() -> str:
    """Digest of the code that makes a record and asks for a judgement: another gate is another cache."""
    parts = ("adapters", "domain", "evidence", "execution", "judging", "llm")
    files = {name: sha256_hex(data) for part in parts for name, data in _sources(resources.files("gate") / part, part)}
    return digest_of(files)


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        path = f"{name}/{item.name}"
        if item.is_dir():
            yield from _sources(item, path)
        elif item.name.endswith((".py", ".md", ".txt", ".json")):
            yield path, item.read_bytes()


def _scope_name(scope: str) -> str:
    """A scope as a file name."""
    plain = "".join(char if char.isascii() and char.isalnum() else "-" for char in scope)
    return f"{plain[:40]}-{sha256_hex(scope.encode('utf-8', 'surrogateescape'))[:8]}"


def _later(run_folder: Path, place: str, names: list[str]) -> set[str]:
    return {name for name in names if name in LATER_FILES} if Path(place) == run_folder else set()
