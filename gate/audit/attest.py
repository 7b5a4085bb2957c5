"""What a bundle says about skills, as a statement that others can check: an in-toto test result (attestation/test-result v0.1).

The statement names what was judged by its content (the skill's tree hash), under what (digests of policy and suite), and the
bundle that shows it. Unsigned it is a summary; signed (DSSE) by a key that a release trusts, it lets the release require
that exactly this tree passed under exactly this policy.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gate.domain.base import canonical_json, digest_of
from gate.domain.report import GateReport, SkillReport, Verdict
from gate.domain.suite import Suite
from gate.errors import ConfigurationError, EvidenceError
from gate.evidence.assemble import SkillFacts, skill_file
from gate.evidence.bundle import SESSION, Bundle
from gate.evidence.seal import MANIFEST

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_RESULT = {Verdict.PASS: "PASSED", Verdict.CONDITIONAL: "WARNED", Verdict.INCONCLUSIVE: "WARNED"}


class Judged(NamedTuple):
    """One skill of a bundle, by content."""

    path: str
    tree: str | None
    """``tree_sha256`` of the version that was judged; None: it could not be read, or was deleted."""
    suite: str | None
    verdict: Verdict
    models: str
    images: tuple[str, ...]
    """Ids of the images that its runs had."""


class BundleFacts(NamedTuple):
    """What a bundle is about."""

    digest: str
    """Of its manifest, which covers every file."""
    policy: str
    """``digest_of`` the base policy that decided."""
    mode: str
    run_date: str
    models: str
    skills: tuple[Judged, ...]


def suite_digest(suite: Suite | None) -> str | None:
    """What a suite asks, whatever file holds it: SHA-256 over its cases and trigger queries."""
    if suite is None:
        return None
    cases = sorted((case.eval_id, case.digest) for case in suite.cases)
    return digest_of([cases, sorted((item.id, item.query, item.should_trigger) for item in suite.triggers)])


def bundle_facts(root: Path) -> BundleFacts:
    """Read what a bundle states. It is not verified here. Raises EvidenceError naming a file that cannot be read."""
    bundle = Bundle(root)
    session: Any = bundle.read_json(SESSION)
    report = bundle.read("report.json", GateReport)
    manifest: Any = bundle.read_json(MANIFEST)
    try:
        return BundleFacts(
            digest=manifest["digest"],
            policy=digest_of(session["policy"]),
            mode=report.mode.value,
            run_date=report.run_date,
            models=report.models,
            skills=tuple(_judged(bundle, root, skill, report.models) for skill in report.skills),
        )
    except (KeyError, TypeError) as error:
        raise EvidenceError(f"{SESSION} or {MANIFEST} lacks {error}.", path=SESSION) from None


def _judged(bundle: Bundle, root: Path, skill: SkillReport, models: str) -> Judged:
    plan = bundle.read(skill_file(skill.slug), SkillFacts).plan
    images = {
        str(found.get("image", ""))
        for path in sorted((root / "skills" / skill.slug).glob("*/run-*/*/run.json"))
        if isinstance(found := bundle.read_json(path.relative_to(root).as_posix()), dict)
    }
    tree = plan.head.tree_sha256 if plan.head is not None else None
    return Judged(skill.path, tree, suite_digest(plan.suite), skill.verdict, models, tuple(sorted(images - {""})))


def statement(facts: BundleFacts) -> dict[str, Any]:
    """The in-toto statement of a bundle. Raises ConfigurationError where it judged no skill that can be named by content."""
    subjects = [{"name": item.path, "digest": {"sha256": item.tree}} for item in facts.skills if item.tree is not None]
    if not subjects:
        raise ConfigurationError(
            "The bundle judged no skill that can be named by its content.", remedy="Attest a bundle that did."
        )
    results = [_RESULT.get(item.verdict, "FAILED") for item in facts.skills]
    worst = next(name for name in ("FAILED", "WARNED", "PASSED") if name in results)
    named: dict[str, list[str]] = {"PASSED": [], "WARNED": [], "FAILED": []}
    for item, result in zip(facts.skills, results, strict=True):
        named[result].append(f"{item.path}: {item.verdict.value}")
    configuration = [
        {"name": "policy", "digest": {"sha256": facts.policy}},
        {"name": MANIFEST, "digest": {"sha256": facts.digest}},
        *({"name": f"suite:{item.path}", "digest": {"sha256": item.suite}} for item in facts.skills if item.suite),
    ]
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": worst,
            "configuration": configuration,
            "passedTests": named["PASSED"],
            "warnedTests": named["WARNED"],
            "failedTests": named["FAILED"],
        },
    }


def sign(stated: dict[str, Any], pem: bytes) -> dict[str, Any]:
    """A DSSE envelope over a statement, by an Ed25519 or ECDSA P-256 key in PEM. Raises ConfigurationError; no key is shown."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: object = None
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        key = None
    payload = canonical_json(stated)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(_signed_bytes(payload))
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        signature = key.sign(_signed_bytes(payload), ec.ECDSA(hashes.SHA256()))
    else:
        raise ConfigurationError(
            "The key is no Ed25519 or ECDSA private key in PEM without a password.",
            remedy="Make one with: openssl genpkey -algorithm ed25519",
        )
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"sig": base64.b64encode(signature).decode()}],
    }


def signed_statement(envelope: bytes, pems: Sequence[bytes]) -> dict[str, Any]:
    """The statement of a DSSE envelope that one of these public keys signed. Raises EvidenceError where none did."""
    try:
        found = json.loads(envelope)
        payload = base64.b64decode(found["payload"], validate=True)
        signatures = [base64.b64decode(item["sig"], validate=True) for item in found["signatures"]]
        is_ours = found["payloadType"] == PAYLOAD_TYPE
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        raise EvidenceError("The statement is no DSSE envelope.", path="statement") from None
    keys = [_public(pem) for pem in pems]
    if not is_ours or not any(_holds(key, signature, payload) for key in keys for signature in signatures):
        raise EvidenceError("The statement is by no key that was named.", path="statement")
    try:
        stated = json.loads(payload)
    except (ValueError, RecursionError):
        raise EvidenceError("What was signed is no statement.", path="statement") from None
    if not isinstance(stated, dict):
        raise EvidenceError("What was signed is no statement.", path="statement")
    return stated


def _public(pem: bytes) -> ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey):
        raise ConfigurationError("The key is no Ed25519 or ECDSA public key in PEM.", remedy="Name the public half.")
    return key


def _holds(key: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey, signature: bytes, payload: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, _signed_bytes(payload))
        else:
            key.verify(signature, _signed_bytes(payload), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def _signed_bytes(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def demands(facts: BundleFacts, *, trees: Sequence[str], policy: str | None, accepted: Sequence[Verdict]) -> list[str]:
    """What of a release's demands a verified bundle does not meet, one sentence each; empty: it meets all."""
    problems = []
    for tree in trees:
        found = [item for item in facts.skills if item.tree == tree]
        if not found:
            judged = ", ".join(f"{item.path} ({(item.tree or 'none')[:12]})" for item in facts.skills) or "none"
            problems.append(f"no skill of this bundle is the tree {tree[:12]}; it judged {judged}")
        problems += [
            f"{item.path} ({tree[:12]}) is {item.verdict.value}, not {' or '.join(accepted)}"
            for item in found
            if item.verdict not in accepted
        ]
    if policy is not None and facts.policy != policy:
        problems.append(f"it was decided under the policy {facts.policy[:12]}, not {policy[:12]}")
    return problems
