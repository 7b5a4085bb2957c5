"""The in-toto statement inside a Sigstore bundle, as OpenSSF Model Signing writes it: the files it lists and their digests.

Everything in it is the signer's word until the signature over it was checked (``signing``).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Any, NamedTuple

from gate.domain.base import Json
from gate.intake.json_text import decoded, parse_json
from gate.intake.notes import short

PREDICATE = "https://model_signing/signature/v1.0"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_DIGEST = re.compile(r"[0-9a-f]{64}")
USUAL_IGNORED = frozenset({".git", ".gitattributes", ".github", ".gitignore"})


class Statement(NamedTuple):
    """What was signed."""

    digests: dict[str, str]
    """Path in the folder -> SHA-256."""
    ignored: tuple[str, ...]
    """Paths that the signer left out, with everything below them."""


class StatementError(Exception):
    """Why a bundle cannot be read. ``known`` is False where it is only of a kind that is not known here."""

    def __init__(self, message: str, *, known: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.known = known


def read_statement(bundle: dict[str, Json]) -> Statement:
    """The statement of a bundle. Raises StatementError."""
    envelope = bundle.get("dsseEnvelope")
    if not isinstance(envelope, dict) or not isinstance(envelope.get("payload"), str):
        raise StatementError("there is no signed statement (dsseEnvelope) in it")
    try:
        payload = base64.b64decode(envelope["payload"], validate=True)
    except (binascii.Error, ValueError):
        raise StatementError("its payload is no base64") from None
    text, problem = decoded(payload)
    parsed = parse_json(text) if problem is None else None
    if parsed is None or parsed.problems or not isinstance(parsed.value, dict):
        raise StatementError("its payload is no JSON object")
    return _statement(parsed.value)


def _statement(value: dict[str, Any]) -> Statement:
    kind = value.get("predicateType")
    if kind != PREDICATE:
        raise StatementError(f'its statement is of type "{short(kind)}"; {PREDICATE} is known here', known=False)
    predicate = value.get("predicate")
    resources = predicate.get("resources") if isinstance(predicate, dict) else None
    layout = predicate.get("serialization") if isinstance(predicate, dict) else None
    if not isinstance(resources, list) or not isinstance(layout, dict):
        raise StatementError("its statement lists no files")
    if layout.get("method") != "files" or layout.get("hash_type") != "sha256":
        raise StatementError(
            f'its digests are "{short(layout.get("hash_type"), 20)}" over "{short(layout.get("method"), 20)}"; '
            "sha256 over files is known here",
            known=False,
        )
    digests: dict[str, str] = {}
    whole = hashlib.sha256()
    for item in resources:
        name = item.get("name") if isinstance(item, dict) else None
        digest = item.get("digest") if isinstance(item, dict) else None
        if not isinstance(name, str) or not isinstance(digest, str) or name in digests:
            raise StatementError("a file in its statement has no name, no digest, or is there twice")
        if not digest:
            raise StatementError(f'the digest of "{short(name)}" in its statement is empty')
        if not _DIGEST.fullmatch(digest):
            raise StatementError(f'the digest of "{short(name)}" in its statement is no SHA-256')
        digests[name] = digest
        whole.update(bytes.fromhex(digest))
    if whole.hexdigest() != _subject_digest(value):
        raise StatementError("its statement contradicts itself: the listed digests do not add up to its subject's")
    ignored = layout.get("ignore_paths", [])
    return Statement(
        digests, tuple(item for item in ignored if isinstance(item, str)) if isinstance(ignored, list) else ()
    )


def _subject_digest(value: dict[str, Any]) -> Json:
    subject = value.get("subject")
    first = subject[0] if isinstance(subject, list) and len(subject) == 1 else None
    digest = first.get("digest") if isinstance(first, dict) else None
    return digest.get("sha256") if isinstance(digest, dict) else None
