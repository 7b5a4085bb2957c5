from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gate.domain.manifest import ManifestScope, ManifestState
from gate.intake.manifests import ManifestReport
from gate.settings import SigningTrust
from tests.builders_manifests import SKILL, SKILL_FILES, Tree, a_statement, data_of, report_of


def a_key(curve: ec.EllipticCurve | None = None) -> tuple[bytes, str]:
    """(private PEM, public PEM)."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public.decode()


def signed(folder: Path, private: bytes) -> Tree:
    """The skill's files with a signature that model-signing itself has made."""
    signing = pytest.importorskip(
        "model_signing.signing", reason="the extra `signing` (model-signing) is not installed"
    )
    model, key, out = folder / "pdf", folder / "key.pem", folder / "skill.oms.sig"
    key.write_bytes(private)
    for path, content in SKILL_FILES.items():
        (model / path).parent.mkdir(parents=True, exist_ok=True)
        (model / path).write_bytes(data_of(content))
    with contextlib.redirect_stdout(io.StringIO()):
        signing.Config().use_elliptic_key_signer(private_key=key).sign(model, out)
    tree: Tree = {f"{SKILL}/{path}": content for path, content in SKILL_FILES.items()}
    return {**tree, f"{SKILL}/skill.oms.sig": out.read_bytes()}


def result(report: ManifestReport) -> tuple[ManifestState, ManifestScope, list[str]]:
    status = next(item for item in report.statuses if item.kind == "oms-sig")
    return status.state, status.scope, [item.rule.rpartition("/")[2] for item in report.findings]


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1()], ids=lambda item: item.name)
def test_a_signature_by_a_key_that_the_policy_names_is_verified(tmp_path: Path, curve: ec.EllipticCurve) -> None:
    private, public = a_key(curve)
    tree = signed(tmp_path, private)
    trust = SigningTrust(public_keys=(a_key()[1], public))
    report = report_of(tree, trust=trust, require_signed=True)
    assert result(report) == (ManifestState.VERIFIED, ManifestScope.SIGNATURE, [])
    assert [item.words for item in report.statuses] == ["verified"]


def test_a_signature_by_another_key_failed(tmp_path: Path) -> None:
    tree = signed(tmp_path, a_key()[0])
    report = report_of(tree, trust=SigningTrust(public_keys=(a_key()[1],)), require_signed=True)
    assert result(report) == (ManifestState.FAILED, ManifestScope.FORM, ["signature", "unproven"])


def test_a_signature_that_holds_over_digests_that_do_not_is_stale(tmp_path: Path) -> None:
    private, public = a_key()
    tree = {**signed(tmp_path, private), f"{SKILL}/scripts/x.py": "print(2)\n"}
    report = report_of(tree, trust=SigningTrust(public_keys=(public,)), require_signed=True)
    assert result(report) == (ManifestState.STALE, ManifestScope.DIGESTS, ["changed", "unproven"])


def test_digests_that_somebody_wrote_anew_under_an_old_signature_fail(tmp_path: Path) -> None:
    private, public = a_key()
    tree = signed(tmp_path, private)
    changed = {**SKILL_FILES, "scripts/x.py": "print(2)\n"}
    bundle, forged = json.loads(data_of(tree[f"{SKILL}/skill.oms.sig"])), json.loads(a_statement(changed))
    bundle["dsseEnvelope"]["payload"] = forged["dsseEnvelope"]["payload"]
    tree |= {f"{SKILL}/scripts/x.py": "print(2)\n", f"{SKILL}/skill.oms.sig": json.dumps(bundle)}
    assert result(report_of(tree)) == (ManifestState.VERIFIED, ManifestScope.DIGESTS, [])
    report = report_of(tree, trust=SigningTrust(public_keys=(public,)))
    assert result(report) == (ManifestState.FAILED, ManifestScope.FORM, ["signature"])


@pytest.mark.parametrize("key", ["", "no key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_a_key_that_cannot_be_read_verifies_nothing(tmp_path: Path, key: str) -> None:
    report = report_of(signed(tmp_path, a_key()[0]), trust=SigningTrust(public_keys=(key,)))
    assert result(report) == (ManifestState.FAILED, ManifestScope.FORM, ["signature"])


def test_nothing_is_printed_where_data_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = a_key()
    tree = signed(tmp_path, private)
    bundle = json.loads(data_of(tree[f"{SKILL}/skill.oms.sig"]))
    del bundle["verificationMaterial"]["publicKey"]["hint"]
    capsys.readouterr()
    report_of({**tree, f"{SKILL}/skill.oms.sig": json.dumps(bundle)}, trust=SigningTrust(public_keys=(public,)))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("sig", ["", "AAAA", "%%%"])
def test_a_broken_signature_is_no_exception(tmp_path: Path, sig: str) -> None:
    private, public = a_key()
    tree = signed(tmp_path, private)
    bundle = json.loads(data_of(tree[f"{SKILL}/skill.oms.sig"]))
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = sig
    report = report_of(
        {**tree, f"{SKILL}/skill.oms.sig": json.dumps(bundle)}, trust=SigningTrust(public_keys=(public,))
    )
    assert result(report) == (ManifestState.FAILED, ManifestScope.FORM, ["signature"])


def test_without_the_package_or_a_key_the_reason_says_so() -> None:
    tree: Tree = {f"{SKILL}/{path}": content for path, content in SKILL_FILES.items()}
    tree |= {f"{SKILL}/skill.oms.sig": a_statement(SKILL_FILES)}
    assert "the policy trusts no key" in report_of(tree).statuses[0].reason
