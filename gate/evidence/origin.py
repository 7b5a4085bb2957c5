"""Whose a bundle is: the service's signature over a bundle's digest and what it answers (DESIGN.md 3).

A seal says that nothing was changed, not who made it. The service signs (Ed25519, as a compact JWS) the digest of the
manifest together with the question that the bundle answers: repository, pull request, head, and a number that whoever asked
drew for this once. So a bundle of another repository, of an earlier head or of an earlier answer is none of this one.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gate.domain.base import Value
from gate.errors import ConfigurationError, EvidenceError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ALGORITHM = "EdDSA"
TYPE = "skill-gate-bundle"
"""In the header: a signature of ours for another purpose is none of a bundle."""
KEY_PATTERN = r"[A-Za-z0-9_-]{43}"
"""A public key as base64url text without padding: 32 bytes."""


class Answer(Value):
    """What the service signs."""

    repository_id: int
    number: int
    """Of the pull request."""
    head_sha: str
    nonce: str
    """Drawn by whoever asked."""
    digest: str
    """Of the bundle's manifest, which covers every file."""


def new_key() -> bytes:
    """A private key as PEM text, to be kept secret."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Signer:
    """The service's key."""

    def __init__(self, pem: bytes) -> None:
        """Raises ConfigurationError for anything but an unencrypted Ed25519 key; its text is in no message."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = None
        with contextlib.suppress(ValueError, TypeError):
            key = load_pem_private_key(pem, None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError(
                "The signing key is no Ed25519 key in PEM.", remedy="Make one with: openssl genpkey -algorithm ed25519"
            )
        self._key: Ed25519PrivateKey = key

    @property
    def public(self) -> str:
        """The public key (``KEY_PATTERN``), for a policy's ``service_keys``."""
        return base64.urlsafe_b64encode(self._key.public_key().public_bytes_raw()).rstrip(b"=").decode()

    def published(self) -> dict[str, Any]:
        """The key set that the service shows everybody (RFC 7517, RFC 8037)."""
        key = {"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": ALGORITHM, "kid": self.public, "x": self.public}
        return {"keys": [key]}

    def sign(self, answer: Answer) -> str:
        """A compact JWS."""
        return self.stamp(answer.model_dump(mode="json"), TYPE)

    def stamp(self, claims: Mapping[str, Any], kind: str) -> str:
        """A compact JWS over claims for a purpose of the service's own."""
        import jwt

        return jwt.encode(dict(claims), self._key, algorithm=ALGORITHM, headers={"typ": kind, "kid": self.public})

    def opened(self, stamped: str, kind: str) -> dict[str, Any]:
        """The claims of ``stamp``, by this key and for this purpose, not past their ``exp``. Raises EvidenceError."""
        return _opened(stamped, (self.public,), kind)


def keys_of(published: Any) -> tuple[str, ...]:
    """The public keys of a key set as the service publishes it; what is no Ed25519 key for signatures is left out."""
    keys = published.get("keys") if isinstance(published, dict) else None
    found = []
    for key in keys if isinstance(keys, list) else ():
        if isinstance(key, dict) and (key.get("kty"), key.get("crv")) == ("OKP", "Ed25519"):
            text = key.get("x")
            if isinstance(text, str) and re.fullmatch(KEY_PATTERN, text):
                found.append(text)
    return tuple(found)


def check_answer(signature: str, keys: Sequence[str], expected: Answer) -> None:
    """That one of ``keys`` signed exactly this answer. Raises EvidenceError naming what differs."""
    claims = _opened(signature, keys, TYPE)
    for name, wanted in expected.model_dump(mode="json").items():
        found = claims.get(name)
        if type(found) is not type(wanted) or not hmac.compare_digest(
            str(found).encode("utf-8", "surrogatepass"), str(wanted).encode()
        ):
            raise EvidenceError(f"The service signed another answer: its {name} is not the one that was asked about.")


def _opened(text: str, keys: Sequence[str], kind: str) -> dict[str, Any]:
    import jwt
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    for key in keys:
        if not re.fullmatch(KEY_PATTERN, key):
            continue
        public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(f"{key}="))
        try:
            found = jwt.decode_complete(text, public, algorithms=[ALGORITHM], options={"verify_aud": False})
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if found["header"].get("typ") == kind:
            claims: dict[str, Any] = found["payload"]
            return claims
    raise EvidenceError(
        "The signature is by no key that is trusted here.",
        remedy="Compare service_keys of the policy with the keys that the service publishes.",
    )
