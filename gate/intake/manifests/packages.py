"""Packed skills: ``<name>.skill`` (a zip), ``<name>.zip`` and ``<name>.tar.gz`` beside a skill or in a ``dist`` folder.

The archive is read in a child process, with limits; one that could do harm when unpacked is refused with the reason. What
it holds, below one folder or at its root, is compared with the skill's files that an agent reads.
"""

from __future__ import annotations

import posixpath

from gate.domain.findings import Level
from gate.domain.manifest import ManifestScope, ManifestState
from gate.domain.skill import is_agent_visible
from gate.intake.archives import Archive, inspect_archive
from gate.intake.manifests.digests import incomplete
from gate.intake.manifests.reading import Checked, Ground, status, together
from gate.intake.notes import Notes, joined, short

KIND = "package"
FAMILY = f"manifest/{KIND}"
SUFFIXES = (".skill", ".zip", ".tar.gz", ".tgz")
_PACK = "Pack the skill again."
MAX_BYTES = 50 * 1024 * 1024


def check(ground: Ground) -> Checked:
    """Every package of this skill that lies beside it or in a ``dist`` folder there or in the root."""
    parent, name = posixpath.split(ground.skill_path)
    parent = parent or "."
    if name in ("", "."):
        return Checked()
    results: list[Checked] = []
    for folder in dict.fromkeys((parent, joined(parent, "dist"), "dist", ground.skill_path)):
        for suffix in SUFFIXES:
            path = joined(folder, f"{name}{suffix}")
            if ground.index.has_file(path):
                results.append(_check_one(ground, path))
    return together(results)


def _check_one(ground: Ground, path: str) -> Checked:
    notes = Notes(path, FAMILY)
    data = ground.index.read(path)
    if data is None or len(data) > MAX_BYTES:
        rule, reason = ("link", "this is a link; links are never followed") if data is None else (
            "size", f"this has {len(data)} bytes; at most {MAX_BYTES} are read")  # fmt: skip
        notes.add(Level.ERROR, rule, reason, remedy=_PACK)
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), notes.all())
    archive = inspect_archive(data)
    if archive.refusals:
        for refusal in archive.refusals:
            notes.add(Level.ERROR, "refused", f"this archive is refused: {refusal}", remedy=_PACK)
        return Checked((status(KIND, path, ManifestState.FAILED, reason=archive.refusals[0]),), notes.all())
    packed = _inside(archive)
    if "SKILL.md" not in packed:
        reason = "there is no SKILL.md at its root or in its only folder"
        notes.add(Level.ERROR, "no-skill-md", reason, remedy=_PACK)
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), notes.all())
    if ground.files is None or incomplete(ground.files) is not None:
        return Checked((status(KIND, path, ManifestState.SKIPPED, reason="the skill's files are not all at hand"),))
    own = {item.path: item.sha256 for item in ground.files if item.is_regular and not item.path.endswith(SUFFIXES)}
    different = sorted(name for name in own.keys() & packed.keys() if own[name] != packed[name])
    missing = sorted(name for name in own.keys() - packed.keys() if is_agent_visible(name) and not name.startswith("."))
    extra = sorted(packed.keys() - own.keys())
    for rule, names, words in (
        ("changed", different, "is not the one in the skill's folder"),
        ("missing", missing, "is in the skill's folder and not in this archive"),
        ("extra", extra, "is in this archive and not in the skill's folder"),
    ):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            notes.warn(rule, f"{short(names[0])}{more} {words}", remedy=_PACK)
    state = ManifestState.STALE if notes.items else ManifestState.VERIFIED
    reason = "the skill's folder has changed since it was packed" if notes.items else ""
    done = status(KIND, path, state, scope=ManifestScope.DIGESTS, reason=reason, files=len(packed))
    return Checked((done,), notes.all())


def _inside(archive: Archive) -> dict[str, str]:
    """Path -> SHA-256, without the one folder that everything lies in."""
    files = {item.path: item.sha256 for item in archive.files}
    tops = {path.split("/")[0] for path in files}
    if len(tops) == 1 and all("/" in path for path in files):
        return {path.split("/", 1)[1]: digest for path, digest in files.items()}
    return files
