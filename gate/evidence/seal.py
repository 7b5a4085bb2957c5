"""Seals: a list of files with size and SHA-256, over one run's folder (``seal.json``) and over a bundle (``manifest.json``).

A seal proves integrity, not origin (DESIGN.md 3); origin needs the MAC, and a key that the reader trusts.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gate.domain.base import Json, digest_of, pretty_json, sha256_hex
from gate.errors import EvidenceError
from gate.evidence.events import ZERO_HASH, read_events
from gate.evidence.files import write_atomic

SEAL = "seal.json"
MANIFEST = "manifest.json"

REUSE = "reuse.json"
LATER_FILES = frozenset({"verification.json", "checks.json", "grading.json", "discussion.json", REUSE})
"""What later layers write beside a run's sealed files (DESIGN.md 5); the bundle's manifest lists them, seal.json cannot."""

_MAC_PURPOSE = b"skill-gate manifest 1\0"
_CHUNK = 1 << 20


def seal_folder(folder: Path, extra: Mapping[str, Json] | None = None) -> str:
    """Write ``seal.json``: ``{files: [{path, size_bytes, sha256}], ...extra}``, files sorted by path.

    Returns the SHA-256 of ``seal.json``. Raises EvidenceError where the folder is sealed already or holds a link, a
    device or a socket: a link can point to other content tomorrow.
    """
    if (folder / SEAL).exists():
        raise EvidenceError(f"{folder.name} is sealed already; a seal is written once.", path=SEAL)
    files = _sealed_files(folder, leave_out=frozenset({SEAL}))
    data = pretty_json({**(extra or {}), "files": files})
    write_atomic(folder / SEAL, data)
    return sha256_hex(data)


def check_folder(folder: Path) -> list[str]:
    """Problems of a sealed folder, each naming its file relative to the folder; empty: intact.

    Files that later layers write beside the sealed ones (LATER_FILES) are allowed, nothing else is.
    """
    problems: list[str] = []
    seal = _read_rendered(folder / SEAL, SEAL, problems)
    if seal is None:
        return problems
    listed = _listed(seal.get("files"), SEAL, problems)
    return problems + _differences(folder, listed, allowed=LATER_FILES | {SEAL})


def seal_bundle(
    root: Path, facts: Mapping[str, Json], mac_key: bytes | None = None, *, apart: tuple[str, ...] = ()
) -> str:
    """Write ``manifest.json`` over every other file of the bundle and return its ``digest``.

    ``apart``: names of folders that are no part of the bundle and go once it is sealed.

    Fields: ``schema_version``; ``files`` (path, size_bytes, sha256 of every other file); ``chains`` (path of every
    ``events.jsonl`` and ``gateway.jsonl`` -> hash of its last event); ``facts``; ``mac`` with a key: HMAC-SHA256 over the digest of the fields
    before it; ``digest``: SHA-256 over the canonical JSON of all fields before it, so that a changed MAC shows without
    the key. Raises EvidenceError for a link, a device or a socket, and for a broken chain.
    """
    outside = tuple(f"{name}/" for name in apart)
    files = _sealed_files(root, leave_out=frozenset({MANIFEST}), apart=outside)
    chains = {file["path"]: _chain_head(root, file["path"]) for file in files if _is_record(file["path"])}
    content: dict[str, Json] = {"schema_version": 1, "files": files, "chains": chains, "facts": dict(facts)}
    if mac_key is not None:
        content["mac"] = _mac(mac_key, content)
    digest = digest_of(content)
    write_atomic(root / MANIFEST, pretty_json({**content, "digest": digest}))
    return digest


def check_bundle(root: Path, mac_key: bytes | None = None) -> list[str]:
    """Problems of a bundle, each naming its file; empty: intact. Never raises for what is in the bundle.

    With ``mac_key`` the manifest must carry the MAC of this key; without one a MAC is not looked at.
    """
    problems: list[str] = []
    manifest = _read_rendered(root / MANIFEST, MANIFEST, problems)
    if manifest is None:
        return problems
    digest = manifest.pop("digest", None)
    if digest != digest_of(manifest):
        # Comparing files with a list that was changed would accuse the wrong ones.
        return [*problems, f"{MANIFEST}: its content was changed (its own digest is another)"]
    if mac_key is not None:
        mac = manifest.pop("mac", None)
        if not isinstance(mac, str) or not hmac.compare_digest(
            mac.encode("utf-8", "surrogatepass"), _mac(mac_key, manifest).encode()
        ):
            problems.append(f"{MANIFEST}: it does not carry the MAC of this key (made elsewhere, or changed)")
    listed = _listed(manifest.get("files"), MANIFEST, problems)
    changed = _differences(root, listed, allowed=frozenset({MANIFEST}))
    return problems + changed + _chain_problems(root, manifest.get("chains"), listed, changed)


def _mac(key: bytes, content: Mapping[str, Json]) -> str:
    return hmac.new(key, _MAC_PURPOSE + digest_of(content).encode(), hashlib.sha256).hexdigest()


def _is_record(path: str) -> bool:
    """A file that an agent happened to call events.jsonl is no record of the gate."""
    *folders, name = path.split("/")
    return name in ("events.jsonl", "gateway.jsonl") and "workspace" not in folders


def _chain_head(root: Path, path: str) -> str:
    events = read_events(root / path, name=path)
    return events[-1].hash if events else ZERO_HASH


def _chain_problems(root: Path, chains: Json, listed: Mapping[str, tuple[int, str]], changed: list[str]) -> list[str]:
    if not isinstance(chains, dict) or set(chains) != {path for path in listed if _is_record(path)}:
        return [f"{MANIFEST}: its chain heads are not those of the records that it lists"]
    problems = []
    for path, head in sorted(chains.items()):
        # A file that is already named as changed or missing needs no second line.
        if any(problem.startswith(f"{_shown(path)}: ") for problem in changed):
            continue
        try:
            if _chain_head(root, path) != head:
                problems.append(f"{_shown(path)}: its chain does not end where the manifest says")
        except EvidenceError as error:
            problems.append(f"{_shown(path)}: {error.message}")
    return problems


def _read_rendered(path: Path, name: str, problems: list[str]) -> dict[str, Any] | None:
    """A JSON object of ours whose bytes are exactly how we write it; None (and a problem) where it cannot be read."""
    if path.is_symlink():
        problems.append(f"{name}: a link, which a bundle must not hold")
        return None
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        problems.append(f"{name}: missing")
        return None
    except OSError as error:
        problems.append(f"{name}: cannot be read ({error.strerror or error})")
        return None
    try:
        data = json.loads(raw.decode("utf-8"))
        rendered = pretty_json(data)
    except (ValueError, RecursionError):
        problems.append(f"{name}: not JSON as the gate writes it")
        return None
    if not isinstance(data, dict):
        problems.append(f"{name}: not a JSON object")
        return None
    if rendered != raw:
        problems.append(f"{name}: its bytes were changed (not written as the gate writes it)")
    return data


def _listed(files: Json, name: str, problems: list[str]) -> dict[str, tuple[int, str]]:
    listed: dict[str, tuple[int, str]] = {}
    for entry in files if isinstance(files, list) else [None]:
        if not isinstance(entry, dict) or set(entry) != {"path", "size_bytes", "sha256"}:
            problems.append(f"{name}: its list of files is damaged")
            continue
        path, size, digest = entry["path"], entry["size_bytes"], entry["sha256"]
        if not _is_safe(path) or path in listed:
            problems.append(f"{name}: it lists a path twice or outside the folder")
            continue
        listed[path] = (size, digest)
    return listed


def _is_safe(path: Json) -> bool:
    return isinstance(path, str) and not any(part in ("", ".", "..") for part in path.split("/"))


def _differences(root: Path, listed: Mapping[str, tuple[int, str]], *, allowed: frozenset[str]) -> list[str]:
    problems = []
    unseen = set(listed)
    for path, is_file in _walk(root):
        unseen.discard(path)
        if not is_file:
            problems.append(f"{_shown(path)}: a link or special file, which a bundle must not hold")
        elif path in listed:
            problems += _difference(root, path, listed[path])
        elif path not in allowed:
            problems.append(f"{_shown(path)}: added after the seal")
    return problems + [f"{_shown(path)}: missing" for path in sorted(unseen)]


def _difference(root: Path, path: str, sealed: tuple[int, str]) -> list[str]:
    try:
        found = _fingerprint(root / path)
    except OSError as error:
        return [f"{_shown(path)}: cannot be read ({error.strerror})"]
    if found == sealed:
        return []
    sizes = f"{found[0]} bytes, sealed with {sealed[0]}" if found[0] != sealed[0] else "same size, other content"
    return [f"{_shown(path)}: changed ({sizes})"]


def _shown(path: str) -> str:
    """A path for a message: file names can hold anything, a message stays one line."""
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in path)


def _sealed_files(root: Path, *, leave_out: frozenset[str], apart: tuple[str, ...] = ()) -> list[dict[str, Json]]:
    files: list[dict[str, Json]] = []
    for path, is_file in _walk(root):
        if path in leave_out or path.startswith(apart):
            continue
        if not is_file:
            raise EvidenceError(
                f"{_shown(path)} is a link or a special file; it cannot be sealed.",
                path=_shown(path),
                remedy="Remove it and run again.",
            )
        size, digest = _fingerprint(root / path)
        files.append({"path": path, "size_bytes": size, "sha256": digest})
    return files


def _walk(root: Path) -> Iterator[tuple[str, bool]]:
    """(path relative to ``root``, whether it is a regular file) of everything that is no folder, sorted by path.

    Links are never followed; empty folders do not exist for a seal.
    """
    found: list[tuple[str, bool]] = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(root / below) as entries:
            for entry in entries:
                path = f"{below}{entry.name}"
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    waiting.append(f"{path}/")
                else:
                    found.append((path, stat.S_ISREG(mode)))
    return iter(sorted(found))


def _fingerprint(path: Path) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            digest.update(chunk)
    return size, digest.hexdigest()
