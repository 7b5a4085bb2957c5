"""``.well-known/agent-skills/index.json`` version 0.2.0, with a digest of each artefact's raw bytes; and its forerunner,
``.well-known/skills/index.json`` version 0.1.0, with a list of files (origins-and-formats.md 6).

Only artefacts that lie in the same repository can be checked: a URL is followed to the file that a site built from this
folder would serve, never over the network.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from gate.domain.base import Json
from gate.domain.findings import Level
from gate.domain.manifest import ManifestScope, ManifestState
from gate.intake.archives import inspect_archive
from gate.intake.manifests.reading import Checked, Document, Ground, by_form, status, text_of, together
from gate.intake.notes import Notes, joined, short

PLACE = ".well-known/agent-skills/index.json"
OLD_PLACE = ".well-known/skills/index.json"
SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
KIND = "well-known"
FAMILY = f"manifest/{KIND}"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_WRITE = "Build the index again from the artefacts."


def check(ground: Ground) -> Checked:
    """Both indexes, as far as they are about this skill."""
    results: list[Checked] = []
    for place, reader in ((PLACE, _check_new), (OLD_PLACE, _check_old)):
        nearest = ground.index.nearest(ground.skill_path, place)
        if nearest is None:
            continue
        path = joined(nearest[0], place)
        document = ground.index.document(path, FAMILY)
        results.append(
            by_form(KIND, path, document.findings) if document.findings else reader(ground, nearest[0], path, document)
        )
    return together(results)


def _entries(document: Document, notes: Notes) -> list[dict[str, Any]]:
    skills = document.value.get("skills")
    if not isinstance(skills, list) or not all(isinstance(item, dict) for item in skills):
        notes.add(Level.ERROR, "shape", "skills is missing or no list of objects", line=document.lines.get("skills", 1))
        return []
    return skills


def _check_new(ground: Ground, root: str, path: str, document: Document) -> Checked:
    notes = Notes(path, FAMILY)
    if document.value.get("$schema") != SCHEMA:
        schema = short(document.value.get("$schema"), 80)
        notes.warn("schema", f'$schema is "{schema}"; {SCHEMA} was expected', line=document.lines.get("$schema", 1))
    checked = 0
    stale = False
    elsewhere = ""
    for entry in _entries(document, notes):
        name = text_of(entry, "name") or ""
        place = _place(root, text_of(entry, "url"))
        if not _concerns(ground, name, place):
            continue
        label = f'"{short(name, 40)}"'
        if not _NAME.fullmatch(name):
            notes.add(Level.ERROR, "name", f"{label} is no name of a skill", line=_line(document, name))
        digest = text_of(entry, "digest")
        found = _DIGEST.fullmatch(digest or "")
        if found is None:
            rule = "digest-empty" if digest == "" else "digest"
            what = "is empty, so nothing is fixed" if digest == "" else "is no sha256:<64 hex digits>"
            notes.add(Level.ERROR, rule, f"the digest of {label} {what}", line=_line(document, name), remedy=_WRITE)
        elif place is None or not ground.index.exists(place):
            elsewhere = f"the artefact of {label} is not in this repository"
            if place is not None and _is_local(text_of(entry, "url")):
                notes.add(Level.ERROR, "missing", elsewhere, line=_line(document, name), remedy=_WRITE)
        else:
            checked += 1
            artefact = _Artefact(place, found[1], label, entry.get("type"), _line(document, name))
            stale |= not _artefact(ground, artefact, notes)
    return _result(path, notes, checked, stale, elsewhere)


def _result(path: str, notes: Notes, checked: int, stale: bool, elsewhere: str) -> Checked:
    wrong = next((item for item in notes.items if item.level is Level.ERROR), None)
    scope = ManifestScope.DIGESTS if checked else ManifestScope.FORM
    if stale and wrong is not None:
        done = status(KIND, path, ManifestState.STALE, scope=scope, reason=wrong.message, files=checked)
    elif wrong is not None:
        done = status(KIND, path, ManifestState.FAILED, scope=scope, reason=wrong.message, files=checked)
    elif not checked:
        reason = elsewhere or "it has no entry for this skill"
        done = status(KIND, path, ManifestState.SKIPPED, reason=reason)
    else:
        done = status(KIND, path, ManifestState.VERIFIED, scope=scope, files=checked)
    return Checked((done,), notes.all())


class _Artefact(NamedTuple):
    place: str
    digest: str
    label: str
    type: Json
    line: int | None


def _artefact(ground: Ground, artefact: _Artefact, notes: Notes) -> bool:
    """Whether an artefact is the one that the index fixes."""
    label, line, wanted = artefact.label, artefact.line, artefact.digest
    data = ground.index.read(artefact.place)
    if data is None:
        notes.add(Level.ERROR, "link", f"the artefact of {label} is a link; links are never followed", line=line,
                  remedy="Commit a plain file.")  # fmt: skip
        return False
    if hashlib.sha256(data).hexdigest() != wanted:
        if not ground.committed and hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest() == wanted:
            notes.warn("line-ends", f"the artefact of {label} differs in its line ends only", line=line,
                       remedy="Check a commit instead of this checkout.")  # fmt: skip
            return True
        notes.add(Level.ERROR, "changed", f"the artefact of {label} is not the one with this digest", line=line,
                  remedy=_WRITE)  # fmt: skip
        return False
    if artefact.type == "archive":
        archive = inspect_archive(data)
        for refusal in archive.refusals:
            notes.add(Level.ERROR, "archive", f"the archive of {label} is refused: {refusal}", line=line)
        if not archive.refusals and "SKILL.md" not in {item.path for item in archive.files}:
            notes.add(Level.ERROR, "archive-root", f"the archive of {label} has no SKILL.md at its root", line=line)
    elif artefact.type != "skill-md":
        notes.add(Level.ERROR, "type", f"the type of {label} is neither skill-md nor archive", line=line)
    return True


def _check_old(ground: Ground, root: str, path: str, document: Document) -> Checked:
    notes = Notes(path, FAMILY)
    mine = False
    for entry in _entries(document, notes):
        name = text_of(entry, "name") or ""
        folder = joined(root, f".well-known/skills/{name}")
        if folder != ground.skill_path:
            continue
        mine = True
        files = entry.get("files")
        for item in files if isinstance(files, list) else []:
            clean = posixpath.normpath(item) if isinstance(item, str) and item else ".."
            if clean.startswith(("..", "/")):
                notes.add(
                    Level.ERROR, "path-outside", f'"{short(item)}" is no path in the skill', line=_line(document, name)
                )
            elif not ground.index.has_file(joined(folder, clean)):
                notes.add(Level.ERROR, "missing", f'"{short(item)}" is listed and does not exist',
                          line=_line(document, name), remedy=_WRITE)  # fmt: skip
    if notes.items or mine:
        return by_form(KIND, path, notes.all())
    return Checked((status(KIND, path, ManifestState.SKIPPED, reason="it has no entry for this skill"),))


def _place(root: str, url: str | None) -> str | None:
    """The file that a site built from ``root`` serves at a URL; None where it can be none."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("", "http", "https"):
        return None
    path = unquote(parts.path)
    whole = path if path.startswith("/") else f"/{posixpath.dirname(PLACE)}/{path}"
    clean = posixpath.normpath(whole).lstrip("/")
    return joined(root, clean) if clean and not clean.startswith("..") else None


def _is_local(url: str | None) -> bool:
    """Whether a URL names no other host: then its file must be here."""
    return bool(url) and not urlsplit(url).netloc


def _concerns(ground: Ground, name: str, place: str | None) -> bool:
    inside = place is not None and (place == ground.skill_path or place.startswith(f"{ground.skill_path}/"))
    return inside or name == posixpath.basename(ground.skill_path)


def _line(document: Document, name: str) -> int | None:
    at = document.text.find(f'"{name}"') if name else -1
    return document.text.count("\n", 0, at) + 1 if at >= 0 else document.lines.get("skills", 1)
