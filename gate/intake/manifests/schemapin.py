"""``.schemapin.sig``: an ECDSA signature of a domain over a list of file digests. Detected, its digests compared, reported.

A file's digest is SHA-256 over its path and its bytes; the skill's over the hex digests of all files, sorted by path. The
domain's key is on the network, so the signature itself is never checked.
"""

from __future__ import annotations

import hashlib
import re

from gate.domain.findings import Level
from gate.domain.manifest import ManifestScope, ManifestState
from gate.domain.skill import SkillFile
from gate.intake.manifests.digests import SIGN_AGAIN, compare, incomplete
from gate.intake.manifests.reading import Checked, Ground, status, text_of
from gate.intake.notes import Notes, joined, short

NAME = ".schemapin.sig"
KIND = "schemapin"
FAMILY = f"manifest/{KIND}"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def check(ground: Ground) -> Checked:
    """The signature in the skill's folder, if there is one."""
    path = joined(ground.skill_path, NAME)
    if not ground.index.has_file(path):
        return Checked()
    document = ground.index.document(path, FAMILY)
    if document.findings:
        reason = document.findings[0].message
        return Checked((status(KIND, path, ManifestState.FAILED, reason=reason),), document.findings)
    notes = Notes(path, FAMILY)
    listed = document.value.get("file_manifest")
    problem = None
    digests: dict[str, str] = {}
    if not isinstance(listed, dict):
        problem = "file_manifest is missing or no object"
    else:
        for name, digest in listed.items():
            found = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
            if found is None:
                problem = f'the digest of "{short(name)}" is {"empty" if not digest else "no SHA-256"}'
                break
            digests[name] = found[1]
    whole = hashlib.sha256("".join(digests[name] for name in sorted(digests)).encode()).hexdigest()
    if problem is None and text_of(document.value, "skill_hash") != f"sha256:{whole}":
        problem = "skill_hash is not that of the listed digests"
    if problem is not None:
        notes.add(Level.ERROR, "statement", problem, line=document.lines.get("file_manifest", 1), remedy=SIGN_AGAIN)
        return Checked((status(KIND, path, ManifestState.FAILED, reason=problem),), notes.all())
    if ground.files is None or incomplete(ground.files) is not None:
        return Checked((status(KIND, path, ManifestState.SKIPPED, reason="the skill's files are not all at hand"),))
    # Links are passed over by the signer, so one in place of a listed file leaves that file missing.
    files = [item for item in ground.files if item.path != NAME and (item.is_regular or item.path in digests)]
    matches, harmless = compare(ground, digests, files, notes, digest=path_digest)
    domain = short(document.value.get("domain", "its domain"), 60)
    if matches:
        reason = f"the signature itself was not checked: the key of {domain} is never fetched"
        state = ManifestState.VERIFIED
    else:
        state = ManifestState.SKIPPED if harmless else ManifestState.STALE
        reason = "files have changed since it was signed" if not harmless else "the line ends of this checkout differ"
    done = status(KIND, path, state, scope=ManifestScope.DIGESTS, reason=reason, files=len(digests))
    return Checked((done,), notes.all())


def path_digest(file: SkillFile) -> str:
    """SHA-256 over path and content."""
    return hashlib.sha256(file.path.encode("utf-8", "surrogateescape") + file.data).hexdigest()
