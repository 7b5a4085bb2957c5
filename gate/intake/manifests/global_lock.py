"""``.agents/.skill-lock.json`` (vercel-labs/skills, global scope, version 3), where somebody has committed one.

``skillFolderHash`` is the id of the folder's Git tree, which is computed here from the blobs. Hosts throw older versions
away.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Collection
from typing import Any

from gate.domain.findings import Level
from gate.domain.manifest import ManifestScope, ManifestState
from gate.domain.skill import SUBMODULE, SkillFile
from gate.intake.manifests.digests import incomplete
from gate.intake.manifests.reading import Checked, Ground, status, text_of
from gate.intake.notes import Notes, joined, short

PLACE = ".agents/.skill-lock.json"
KIND = "global-lock"
FAMILY = f"manifest/{KIND}"
VERSION = 3
_TREE = re.compile(r"[0-9a-f]{40}")
_UPDATE = "Install the skill again, so that the lock is written anew."


def check(ground: Ground) -> Checked:
    """The nearest lock, if it has an entry for a skill in ``.agents/skills`` or is broken."""
    nearest = ground.index.nearest(ground.skill_path, PLACE)
    if nearest is None:
        return Checked()
    path = joined(nearest[0], PLACE)
    document = ground.index.document(path, FAMILY)
    if document.findings:
        reason = document.findings[0].message
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), document.findings)
    notes = Notes(path, FAMILY)
    version = document.value.get("version")
    skills = document.value.get("skills")
    if version != VERSION or not isinstance(skills, dict):
        reason = f"version is {short(version, 20)}; only version {VERSION} is kept by hosts"
        notes.warn("version", reason, line=document.lines.get("version", 1), remedy=_UPDATE)
        return Checked((status(KIND, path, ManifestState.SKIPPED, reason=reason),), notes.all())
    parent, name = posixpath.split(ground.skill_path)
    if parent != joined(nearest[0], ".agents/skills") or name not in skills:
        return Checked()
    line = document.lines.get("skills", 1)
    wanted = text_of(skills[name], "skillFolderHash") if isinstance(skills[name], dict) else None
    if not wanted or not _TREE.fullmatch(wanted):
        empty = wanted == ""
        what = "is empty, so nothing is locked" if empty else "is no Git tree id"
        notes.add(Level.ERROR, "hash-empty" if empty else "hash", f'skillFolderHash of "{short(name, 40)}" {what}',
                  line=line, remedy=_UPDATE)  # fmt: skip
        return Checked((status(KIND, path, ManifestState.FAILED, reason=f"skillFolderHash {what}"),), notes.all())
    if ground.files is None or incomplete(ground.files) or any(item.mode == SUBMODULE for item in ground.files):
        return Checked((status(KIND, path, ManifestState.SKIPPED, reason="the skill's files are not all at hand"),))
    scope = ManifestScope.DIGESTS
    if tree_id(ground.files) == wanted:
        return Checked((status(KIND, path, ManifestState.VERIFIED, scope=scope, files=len(ground.files)),))
    plain = [item.model_copy(update={"data": item.data.replace(b"\r\n", b"\n")}) for item in ground.files]
    if tree_id(plain) == wanted and not ground.committed:
        reason = "the files differ in their line ends only"
        notes.warn(
            "line-ends", f'"{short(name, 40)}": {reason}', line=line, remedy="Check a commit, not this checkout."
        )
        return Checked((status(KIND, path, ManifestState.SKIPPED, scope=scope, reason=reason),), notes.all())
    reason = "the skill's folder is not the one that was installed"
    notes.add(Level.ERROR, "changed", f'"{short(name, 40)}": {reason}', line=line, remedy=_UPDATE)
    return Checked((status(KIND, path, ManifestState.STALE, scope=scope, reason=reason),), notes.all())


def tree_id(files: Collection[SkillFile]) -> str:
    """The SHA-1 id that Git gives to a tree of these files (no submodules)."""
    root: dict[str, Any] = {}
    for item in files:
        *folders, name = item.path.split("/")
        place = root
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = (item.mode, _object_id("blob", item.data))
    return _tree(root).hex()


def _tree(folder: dict[str, Any]) -> bytes:
    entries = []
    for name, item in folder.items():
        raw = name.encode("utf-8", "surrogateescape")
        if isinstance(item, dict):
            entries.append((raw + b"/", b"40000 " + raw + b"\0" + _tree(item)))
        else:
            entries.append((raw, item[0].encode() + b" " + raw + b"\0" + item[1]))
    # Git sorts as if the name of a folder ended in a slash.
    return _object_id("tree", b"".join(entry for _, entry in sorted(entries)))


def _object_id(kind: str, data: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).digest()
