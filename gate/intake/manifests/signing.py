"""Whether a signature is by a key that the base policy trusts, through the package model-signing where it is installed.

Nothing is fetched: keys and certificates come from the policy. A keyless Sigstore signature needs a trusted root that
only the network has, so it is never checked here.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.base import Json
from gate.domain.skill import SkillFile
from gate.intake.notes import short
from gate.settings import SigningTrust

NOT_INSTALLED = "the package model-signing is not installed (pip install model-signing pyOpenSSL)"
NO_KEY = "the policy trusts no key (trust.public_keys) that it could be checked with"
NO_CERTIFICATE = "the policy trusts no certificate (trust.certificates) that it could be checked with"


class Proof(StrEnum):
    """What a signature turned out to be."""

    HOLDS = "holds"
    BROKEN = "broken"
    NOT_CHECKED = "not_checked"


class Signature(NamedTuple):
    """The answer about a signature."""

    proof: Proof
    reason: str = ""


def check_signature(
    bundle: dict[str, Json], bundle_data: bytes, signed: Collection[SkillFile], trust: SigningTrust
) -> Signature:
    """Check the signature of a model-signing bundle over the files that match its digests.

    ``signed`` are the files that the statement lists, with the contents it lists; give none where they differ: then the
    signature still is checked, and its own complaint about the files counts for nothing. Never raises for any content.
    """
    material = bundle.get("verificationMaterial")
    by_certificate = isinstance(material, dict) and "x509CertificateChain" in material
    if isinstance(material, dict) and "certificate" in material:
        return Signature(Proof.NOT_CHECKED, "it is keyless (Sigstore), and its trusted root is never fetched")
    roots = trust.certificates if by_certificate else trust.public_keys
    if not roots:
        return Signature(Proof.NOT_CHECKED, NO_CERTIFICATE if by_certificate else NO_KEY)
    try:
        from model_signing import verifying
    except ImportError:
        return Signature(Proof.NOT_CHECKED, NOT_INSTALLED)
    with tempfile.TemporaryDirectory(prefix="skill-gate-signature-") as place:
        folder = Path(place)
        problems = []
        for configured in _verifiers(verifying, folder, roots, by_certificate=by_certificate):
            problem = _problem(configured, folder, bundle_data, signed)
            if problem is None:
                return Signature(Proof.HOLDS)
            problems.append(problem)
    who = "certificate" if by_certificate else "key"
    return Signature(Proof.BROKEN, f"it is by no {who} that the policy trusts, or was altered ({'; '.join(problems)})")


def _verifiers(verifying: Any, folder: Path, roots: Collection[str], *, by_certificate: bool) -> Iterator[Any]:
    """One verifier for each key; one for all certificates. A key that cannot be read is one that does not verify."""
    if by_certificate:
        chain = folder / "roots.pem"
        chain.write_text("\n".join(roots), encoding="utf-8")
        yield lambda: verifying.Config().use_certificate_verifier(certificate_chain=[chain])
        return
    for position, root in enumerate(roots):
        key = folder / f"key-{position}.pem"
        key.write_text(root, encoding="utf-8")
        yield lambda key=key: verifying.Config().use_elliptic_key_verifier(public_key=key)


def _problem(configured: Any, folder: Path, bundle_data: bytes, signed: Collection[SkillFile]) -> str | None:
    """Why a verifier does not accept the bundle; None where it does, or where only the files differ."""
    model, signature = folder / "skill", folder / "bundle.sig"
    model.mkdir(exist_ok=True)
    signature.write_bytes(bundle_data)
    for file in signed:
        place = model / file.path
        if not place.resolve().is_relative_to(model.resolve()):
            return "a file name leads out of the skill"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints warnings, and standard output is for data
            configured().verify(model, signature)
    except Exception as error:  # noqa: BLE001 - a foreign package over foreign bytes; whatever it raises is no signature
        # This package checks the signature first and complains of the files after it.
        text = str(error)
        if text.startswith("Signature mismatch: ") and not signed:
            return None
        return short(text, 120) or type(error).__name__
    return None
