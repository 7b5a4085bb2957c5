"""``SKILL.sigstore`` (haiku.skills): a Sigstore bundle over one SHA-256 of the whole folder.

The digest is over every file's path and bytes, in the order of their path's parts, without hidden names,
``__pycache__``, ``node_modules``, compiled Python and what ``.gitignore`` names. It lists no files, so a difference cannot
be traced to one.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
from collections.abc import Collection

from gate.domain.findings import Level
from gate.domain.manifest import ManifestScope, ManifestState
from gate.domain.skill import SkillFile
from gate.intake.manifests.digests import SIGN_AGAIN, incomplete
from gate.intake.manifests.oms import check_bundle
from gate.intake.manifests.reading import Checked, Ground, ancestors, status
from gate.intake.notes import Notes, joined

NAME = "SKILL.sigstore"
KIND = "sigstore"
FAMILY = f"manifest/{KIND}"
_SKIPPED = ("__pycache__", "node_modules")
_NOT_CHECKED = "the signature itself was not checked: it is keyless (Sigstore), and its trusted root is never fetched"


def check(ground: Ground) -> Checked:
    """The bundle in the skill's folder, if there is one."""
    path = joined(ground.skill_path, NAME)
    if not ground.index.has_file(path):
        return Checked()
    document = ground.index.document(path, FAMILY)
    if not document.findings and "dsseEnvelope" in document.value:
        return check_bundle(ground, path, KIND)
    if document.findings:
        reason = document.findings[0].message
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), document.findings)
    notes = Notes(path, FAMILY)
    wanted = _digest(document.value)
    if wanted is None:
        reason = "it holds no SHA-256 of what was signed (messageSignature.messageDigest)"
        notes.add(Level.ERROR, "statement", reason, line=1, remedy=SIGN_AGAIN)
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), notes.all())
    if ground.files is None or incomplete(ground.files) is not None:
        return Checked((status(KIND, path, ManifestState.SKIPPED, reason="the skill's files are not all at hand"),))
    files = [item for item in ground.files if _counts(item)]
    if wanted in (folder_digest(files), folder_digest([item for item in files if not _ignored(ground, item)])):
        scope = ManifestScope.DIGESTS
        done = status(KIND, path, ManifestState.VERIFIED, scope=scope, reason=_NOT_CHECKED, files=len(files))
        return Checked((done,))
    reason = "the folder is not the one that was signed; which file differs cannot be told from this kind of signature"
    notes.add(Level.ERROR, "changed", reason, line=1, remedy=SIGN_AGAIN)
    return Checked((status(KIND, path, ManifestState.STALE, scope=ManifestScope.DIGESTS, reason=reason),), notes.all())


def folder_digest(files: Collection[SkillFile]) -> bytes:
    """SHA-256 over path and bytes of each file, sorted by the parts of the path."""
    whole = hashlib.sha256()
    for item in sorted(files, key=lambda item: item.path.split("/")):
        whole.update(item.path.encode("utf-8", "surrogateescape"))
        whole.update(item.data)
    return whole.digest()


def _counts(file: SkillFile) -> bool:
    parts = file.path.split("/")
    return (
        file.is_regular
        and not any(part.startswith(".") or part in _SKIPPED for part in parts)
        and parts[-1] != NAME
        and not parts[-1].endswith((".pyc", ".pyo"))
    )


def _ignored(ground: Ground, file: SkillFile) -> bool:
    """Whether a tracked file meets a plain pattern of a ``.gitignore`` around the skill."""
    for folder in ancestors(ground.skill_path):
        path = joined(folder, ".gitignore")
        text = (ground.index.read(path) or b"").decode("utf-8", "replace") if ground.index.has_file(path) else ""
        for line in text.splitlines():
            pattern = line.strip().strip("/")
            if pattern and not pattern.startswith(("#", "!")):
                parts = file.path.split("/")
                if fnmatch.fnmatchcase(file.path, pattern) or any(fnmatch.fnmatchcase(part, pattern) for part in parts):
                    return True
    return False


def _digest(value: dict[str, object]) -> bytes | None:
    message = value.get("messageSignature")
    digest = message.get("messageDigest") if isinstance(message, dict) else None
    encoded = digest.get("digest") if isinstance(digest, dict) else None
    try:
        raw = base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == 32 else None
