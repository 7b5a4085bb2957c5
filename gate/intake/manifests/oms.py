"""``skill.oms.sig`` (OpenSSF Model Signing), and a ``SKILL.sigstore`` that holds the same kind of statement.

The statement lists every file of the folder. Each is held against its digest over the Git blob; a file that is not listed
is as wrong as one that has changed. A signature that holds over digests that no longer do is not a pass.
"""

from __future__ import annotations

from gate.domain.findings import Level
from gate.domain.manifest import ManifestScope, ManifestState
from gate.intake.manifests import signing
from gate.intake.manifests.digests import SIGN_AGAIN, compare, content_digest, incomplete
from gate.intake.manifests.reading import Checked, Ground, status
from gate.intake.manifests.statement import USUAL_IGNORED, Statement, StatementError, read_statement
from gate.intake.notes import Notes, joined, short

NAME = "skill.oms.sig"
KIND = "oms-sig"


def check(ground: Ground) -> Checked:
    """The signature in the skill's folder, if there is one."""
    path = joined(ground.skill_path, NAME)
    return check_bundle(ground, path, KIND) if ground.index.has_file(path) else Checked()


def check_bundle(ground: Ground, path: str, kind: str) -> Checked:
    """A bundle around a statement with digests."""
    family = f"manifest/{kind}"
    document = ground.index.document(path, family)
    if document.findings:
        reason = document.findings[0].message
        return Checked((status(kind, path, ManifestState.FAILED, reason=reason),), document.findings)
    notes = Notes(path, family)
    try:
        statement = read_statement(document.value)
    except StatementError as error:
        if error.known:
            notes.add(Level.ERROR, "statement", error.message, line=1, remedy=SIGN_AGAIN)
            return Checked((status(kind, path, ManifestState.FAILED, reason=error.message),), notes.all())
        return Checked((status(kind, path, ManifestState.SKIPPED, reason=error.message),), ())
    if ground.files is None:
        return Checked((status(kind, path, ManifestState.SKIPPED, reason="the skill's files are not at hand"),))
    own = path.rpartition("/")[2]
    files = [item for item in ground.files if item.path != own and not _ignored(item.path, statement)]
    large = incomplete(files)
    if large is not None:
        reason = f"{short(large.path)} is too large to be read"
        return Checked((status(kind, path, ManifestState.SKIPPED, reason=reason),))
    left_out = sorted(set(statement.ignored) - USUAL_IGNORED - {own})
    if left_out:
        named = ", ".join(short(item, 40) for item in left_out[:5])
        notes.warn(
            "ignored", f"what it signs leaves out {named}: nobody vouches for that", remedy="Sign the whole folder."
        )
    matches, harmless = compare(ground, statement.digests, files, notes, digest=content_digest)
    data = ground.index.read(path) or b""
    signature = signing.check_signature(document.value, data, files if matches else (), ground.trust)
    count = len(statement.digests)
    if signature.proof is signing.Proof.BROKEN:
        notes.add(Level.ERROR, "signature", f"the signature does not hold: {signature.reason}", line=1,
                  remedy="Sign it with a key that the policy trusts, or add the key to the policy of the base branch.")  # fmt: skip
        return Checked((status(kind, path, ManifestState.FAILED, reason=signature.reason, files=count),), notes.all())
    if not matches:
        state = ManifestState.SKIPPED if harmless else ManifestState.STALE
        reason = (
            "the line ends of this checkout are not those that were signed; check a commit"
            if harmless
            else "files have changed since it was signed"
        )
        return Checked(
            (status(kind, path, state, scope=ManifestScope.DIGESTS, reason=reason, files=count),), notes.all()
        )
    if signature.proof is signing.Proof.HOLDS:
        done = status(kind, path, ManifestState.VERIFIED, scope=ManifestScope.SIGNATURE, files=count)
    else:
        reason = f"the signature itself was not checked: {signature.reason}"
        done = status(kind, path, ManifestState.VERIFIED, scope=ManifestScope.DIGESTS, reason=reason, files=count)
    return Checked((done,), notes.all())


def _ignored(path: str, statement: Statement) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:end]) in statement.ignored for end in range(1, len(parts) + 1))
