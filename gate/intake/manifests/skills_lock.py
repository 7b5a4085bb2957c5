"""``skills-lock.json`` (vercel-labs/skills, project scope): which skills were installed from where, each with a hash.

``computedHash`` is SHA-256 over path and bytes of each file, in the order that JavaScript's ``localeCompare`` gives the
paths; ``.git`` and ``node_modules`` are left out, links are passed over (origins-and-formats.md 6).
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Collection

from gate.domain.findings import Level
from gate.domain.manifest import ManifestScope, ManifestState
from gate.domain.skill import SkillFile
from gate.intake.manifests.digests import incomplete
from gate.intake.manifests.locale_order import known_order, locale_key
from gate.intake.manifests.reading import Checked, Document, Ground, status, text_of
from gate.intake.notes import Notes, joined, short

PLACE = "skills-lock.json"
KIND = "skills-lock"
FAMILY = f"manifest/{KIND}"
VERSION = 1
_UPDATE = "Install the skill again, so that the lock is written anew."
_MARKER = re.compile(r"^<{7}( |$)", re.MULTILINE)
_HASH = re.compile(r"[0-9a-f]{64}")
_HOME = re.compile(r"/(?:Users|home|root)/|~/|[A-Za-z]:[\\/]")


def check(ground: Ground) -> Checked:
    """The nearest lock, if it has an entry for this skill or is broken."""
    nearest = ground.index.nearest(ground.skill_path, PLACE)
    if nearest is None:
        return Checked()
    folder = nearest[0]
    path = joined(folder, PLACE)
    document = ground.index.document(path, FAMILY)
    notes = Notes(path, FAMILY)
    if document.findings and _MARKER.search(document.text):
        line = document.text.count("\n", 0, _MARKER.search(document.text).start()) + 1  # type: ignore[union-attr] # just found
        reason = "it holds the markers of a merge that was not finished"
        notes.add(Level.ERROR, "merge-markers", reason, line=line, remedy="Finish the merge, then install again.")
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), notes.all())
    if document.findings:
        reason = document.findings[0].message
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), document.findings)
    return _check(ground, folder, path, document, notes)


def _check(ground: Ground, folder: str, path: str, document: Document, notes: Notes) -> Checked:
    value = document.value
    skills = value.get("skills")
    version = value.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not isinstance(skills, dict):
        reason = "version is no number, or skills is no object"
        notes.add(Level.ERROR, "shape", reason, line=1, remedy=_UPDATE)
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), notes.all())
    if version != VERSION:
        notes.notice("version", f"version {version} is not known here; it is read as version {VERSION}")
    name = installed_name(ground, folder, skills)
    if name is None:
        return Checked((), notes.all())
    entry = skills[name]
    line = _line_of(document, name)
    wanted = text_of(entry, "computedHash") if isinstance(entry, dict) else None
    source = text_of(entry, "source") if isinstance(entry, dict) else None
    if source and _HOME.match(source):
        notes.warn(
            "source-home", f'"{short(name, 40)}" comes from {short(source)}, which is on one machine only', line=line
        )
    if not wanted or not _HASH.fullmatch(wanted):
        empty = wanted == ""
        what = "is empty, so nothing is locked" if empty else "is no SHA-256 of 64 lower-case hex digits"
        notes.add(Level.ERROR, "hash-empty" if empty else "hash", f'computedHash of "{short(name, 40)}" {what}',
                  line=line, remedy=_UPDATE)  # fmt: skip
        return Checked((status(KIND, path, ManifestState.FAILED, reason=f"computedHash {what}"),), notes.all())
    return _compare(ground, path, name, wanted, line, notes)


def _compare(ground: Ground, path: str, name: str, wanted: str, line: int | None, notes: Notes) -> Checked:
    scope = ManifestScope.DIGESTS
    if ground.files is None or incomplete(ground.files) is not None:
        reason = "the skill's files are not all at hand"
        return Checked((status(KIND, path, ManifestState.SKIPPED, reason=reason),), notes.all())
    files = [item for item in ground.files if _counts(item)]
    if folder_hash(files) == wanted:
        return Checked((status(KIND, path, ManifestState.VERIFIED, scope=scope, files=len(files)),), notes.all())
    if not all(known_order(item.path) for item in files):
        reason = "the order of its file names depends on a collation that is not known here"
        notes.notice("order", f'the hash of "{short(name, 40)}" was not checked: {reason}', line=line)
        return Checked((status(KIND, path, ManifestState.SKIPPED, reason=reason),), notes.all())
    plain = [item.model_copy(update={"data": item.data.replace(b"\r\n", b"\n")}) for item in files]
    if folder_hash(plain) == wanted:
        reason = "the files differ in their line ends only"
        level = Level.ERROR if ground.committed else Level.WARNING
        notes.add(level, "line-ends", f'"{short(name, 40)}": {reason}', line=line,
                  remedy=_UPDATE if ground.committed else "Check a commit instead of this checkout.")  # fmt: skip
        state = ManifestState.STALE if ground.committed else ManifestState.SKIPPED
        return Checked((status(KIND, path, state, scope=scope, reason=reason),), notes.all())
    reason = "the skill's files are not those that were installed"
    notes.add(
        Level.ERROR,
        "changed",
        f'"{short(name, 40)}": {reason}; which one differs cannot be told from one hash',
        line=line,
        remedy=f"Take the change back, or: {_UPDATE[0].lower()}{_UPDATE[1:]}",
    )
    return Checked((status(KIND, path, ManifestState.STALE, scope=scope, reason=reason),), notes.all())


def installed_name(ground: Ground, folder: str, skills: Collection[str]) -> str | None:
    """The entry that installed this skill: into ``.agents/skills/<name>`` or another hidden folder's ``skills/``; into
    plain ``skills/<name>`` only where no hidden folder has it, since a repository's own skills stand there too."""
    parent, name = posixpath.split(ground.skill_path)
    inside = parent if folder == "." else parent.removeprefix(f"{folder}/")
    parts = inside.split("/")
    if (
        name not in skills
        or parts[-1] != "skills"
        or len(parts) > 2
        or (len(parts) == 2 and not parts[0].startswith("."))
    ):
        return None
    if len(parts) == 1 and ground.index.has_folder(joined(folder, f".agents/skills/{name}")):
        return None
    return name


def folder_hash(files: Collection[SkillFile]) -> str:
    """The hash over a skill's files."""
    whole = hashlib.sha256()
    for item in sorted(files, key=lambda item: locale_key(item.path)):
        whole.update(item.path.encode("utf-8", "surrogateescape"))
        whole.update(item.data)
    return whole.hexdigest()


def _counts(file: SkillFile) -> bool:
    return file.is_regular and not any(part in (".git", "node_modules") for part in file.path.split("/")[:-1])


def _line_of(document: Document, name: str) -> int | None:
    """Where the entry stands."""
    start = document.text.find('"skills"')
    at = document.text.find(f'"{name}"', max(start, 0))
    return document.text.count("\n", 0, at) + 1 if at >= 0 else document.lines.get("skills")
