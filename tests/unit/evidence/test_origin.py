from __future__ import annotations

import base64
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gate.errors import ConfigurationError, EvidenceError
from gate.evidence.origin import Answer, Signer, check_answer, keys_of, new_key

ANSWER = Answer(repository_id=1, number=7, head_sha="a" * 40, nonce="n" * 32, digest="d" * 64)


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer(new_key())


def test_a_signed_answer_is_the_services_by_the_key_that_it_publishes(signer: Signer) -> None:
    assert keys_of(signer.published()) == (signer.public,)
    check_answer(signer.sign(ANSWER), keys_of(signer.published()), ANSWER)
    check_answer(signer.sign(ANSWER), (Signer(new_key()).public, signer.public), ANSWER)


@pytest.mark.parametrize(
    "other",
    [{"repository_id": 2}, {"number": 8}, {"head_sha": "b" * 40}, {"nonce": "m" * 32}, {"digest": "e" * 64}],
    ids=lambda change: next(iter(change)),
)
def test_an_answer_to_another_question_is_none(signer: Signer, other: dict[str, Any]) -> None:
    signed = signer.sign(ANSWER.model_copy(update=other))
    with pytest.raises(EvidenceError, match=next(iter(other))):
        check_answer(signed, (signer.public,), ANSWER)


def test_another_key_signs_nothing(signer: Signer) -> None:
    for keys in ((Signer(new_key()).public,), (), ("x",), ("A" * 43,)):
        with pytest.raises(EvidenceError, match="no key that is trusted"):
            check_answer(signer.sign(ANSWER), keys, ANSWER)


def test_no_other_algorithm_and_no_other_purpose_counts(signer: Signer) -> None:
    claims = ANSWER.model_dump(mode="json")
    raw = base64.urlsafe_b64decode(f"{signer.public}=")
    for signed in (
        jwt.encode(claims, raw.hex(), algorithm="HS256", headers={"typ": "skill-gate-bundle"}),
        jwt.encode(claims, "", algorithm="none", headers={"typ": "skill-gate-bundle"}),
        signer.stamp(claims, "another-purpose"),
        "", "a.b.c", "é",
    ):  # fmt: skip
        with pytest.raises(EvidenceError, match="no key that is trusted"):
            check_answer(signed, (signer.public,), ANSWER)


def test_a_stamp_is_opened_by_its_own_key_for_its_own_purpose_until_it_ends(signer: Signer) -> None:
    assert signer.opened(signer.stamp({"sub": "job"}, "ticket"), "ticket") == {"sub": "job"}
    for stamped in (
        signer.stamp({"sub": "job"}, "other"),
        Signer(new_key()).stamp({"sub": "job"}, "ticket"),
        signer.stamp({"sub": "job", "exp": 1}, "ticket"),
    ):
        with pytest.raises(EvidenceError):
            signer.opened(stamped, "ticket")


@pytest.mark.parametrize("pem", [b"", b"secret words", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"])
def test_what_is_no_key_is_refused_and_not_repeated(pem: bytes) -> None:
    with pytest.raises(ConfigurationError) as error:
        Signer(pem)
    assert "secret words" not in str(error.value)


def test_keys_of_another_kind_are_left_out() -> None:
    good = base64.urlsafe_b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).rstrip(b"=").decode()
    others = [None, {"kty": "RSA"}, {"kty": "OKP", "crv": "X25519", "x": good}]
    wrongs: list[Any] = [None, [], {"keys": 7}, {"keys": others}]
    for wrong in wrongs:
        assert keys_of(wrong) == ()
    assert keys_of({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": good}]}) == (good,)
