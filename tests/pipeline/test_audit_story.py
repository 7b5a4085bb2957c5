"""A bundle as evidence for others: verify on every Python, attest, release demands, lock; a weak suite is not paid for."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gate.audit.attest import PREDICATE_TYPE, STATEMENT_TYPE
from gate.cli import main
from gate.errors import SandboxError
from gate.wiring import bind
from tests.fakes.sandbox import Command, Program, ScriptedBox
from tests.fakes.sandbox import Ran as Scripted
from tests.in_process import Ran, gate
from tests.unit.execution.world import shell
from tests.versions import interpreters, verified

TEXT = "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd {word}.\n"
PATH, SUITE = "skills/sums/SKILL.md", "skills/sums/evals/skill-gate.yaml"


def suite(*checks: dict[str, Any]) -> str:
    return json.dumps({"version": 1, "cases": [{"id": "c1", "prompt": "What is 1 and 2?", "checks": list(checks)}]})


def ran(folder: Path, *checks: dict[str, Any], policy: str = "", program: Program | None = None) -> Ran:
    given = checks or ({"kind": "response_contains", "keyword": "the part Sums"},)
    files = {PATH: TEXT.format(word="up"), SUITE: suite(*given)}
    if policy:
        files[".github/skill-gate.yml"] = policy
    return gate(folder, files, {PATH: TEXT.format(word="them")}, program=program)


def say(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    capsys.readouterr()
    code = main(bind({}), [str(item) for item in arguments])
    return code, capsys.readouterr().out


def keys(
    folder: Path, key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey, name: str = "key"
) -> tuple[Path, Path]:
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_a_suite_that_a_null_agent_passes_is_invalid_before_a_model_is_asked(tmp_path: Path) -> None:
    weak = ran(tmp_path / "weak", {"kind": "response_contains", "keyword": "Sums"})
    assert (weak.skill["verdict"], weak.calls, weak.code) == ("invalid", 0, 1)
    assert "suite/null-agent-passes" in weak.skill["reasons"][0]
    assert "copy_skill" in weak.skill["reasons"][0]
    waiver = {"skill": "skills/sums", "rule": "suite/null-agent-passes", "owner": "mia", "expires": "2999-12-31"}
    waived = ran(
        tmp_path / "waived",
        {"kind": "response_contains", "keyword": "Sums"},
        policy=json.dumps({"waivers": [{**waiver, "reason": "a word is enough"}]}),
    )
    assert waived.skill["verdict"] == "conditional", waived.skill["reasons"]


def test_a_suite_whose_command_a_planted_file_deceives_is_invalid(tmp_path: Path) -> None:
    def program(box: ScriptedBox, command: Command) -> Scripted | bytes | str:
        if command.argv[0] == "/bin/bash":  # a test runner that obeys what lies in its folder
            return Scripted(exit_code=0 if "/work/conftest.py" in box.files else 1)
        return shell()(box, command)

    fooled = ran(tmp_path, {"kind": "command", "run": "pytest -q"}, program=program)
    assert (fooled.skill["verdict"], fooled.calls) == ("invalid", 0), fooled.skill["reasons"]
    assert "hijacker" in fooled.skill["reasons"][0]


@pytest.mark.parametrize("broken", [True, False])
def test_what_no_engine_could_say_of_null_agents_keeps_a_skill_from_a_pass(tmp_path: Path, *, broken: bool) -> None:
    def program(box: ScriptedBox, command: Command) -> Scripted | bytes | str:
        if box.spec.label.startswith("null/"):
            if broken:
                raise SandboxError("The engine gave up.")
            return Scripted(exit_code=1)
        return Scripted() if command.argv == ("/bin/bash", "-c", "pytest -q") else shell()(box, command)

    done = ran(tmp_path, {"kind": "command", "run": "pytest -q"}, program=program)
    told = [reason for reason in done.skill["reasons"] if "suite/null-agents-unknown" in reason]
    assert (done.skill["verdict"], len(told)) == (("conditional", 1) if broken else ("pass", 0)), done.skill["reasons"]


def test_check_null_says_who_is_let_through_by_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "skills" / "sums"
    (place / "evals").mkdir(parents=True)
    (place / "SKILL.md").write_text(TEXT.format(word="up"), "utf-8")
    (place / "evals" / "skill-gate.yaml").write_text(suite({"kind": "response_contains", "keyword": "Sums"}), "utf-8")
    code, said = say(capsys, "check", tmp_path, "--null")
    assert code == 1
    assert f'{place}: null agent copy_skill: PASSES, let through by case "c1": c1 (response_contains)' in said
    assert f'{place}: null agent do_nothing: stopped by case "c1": c1 (response_contains)' in said
    code, said = say(capsys, "check", tmp_path, "--null", "--json")
    agents = {item["agent"]: item["verdict"] for item in json.loads(said)[0]["null_agents"]}
    assert (len(agents), agents["copy_skill"], agents["hijacker"]) == (9, "pass", "fail")


def test_a_release_can_ask_that_this_tree_passed_under_this_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = "enforce: strict\nthresholds: {threshold: 0.9}\nmode: standard\n"
    done = ran(tmp_path, policy=policy.replace("strict", "standard"))
    bundle, skill = done.bundle, tmp_path / "repository" / "skills" / "sums"
    rules = tmp_path / "policy.yml"
    rules.write_text(policy.replace("strict", "standard"), "utf-8")
    private, public = keys(tmp_path, ed25519.Ed25519PrivateKey.generate())
    _, stranger = keys(tmp_path, ec.generate_private_key(ec.SECP256R1()), "stranger")
    envelope = tmp_path / "statement.json"

    assert say(capsys, "attest", bundle, "--key", private, "--out", envelope)[0] == 0
    asked = ["verify", bundle, "--tree", skill, "--policy", rules, "--statement", envelope]
    assert say(capsys, *asked, "--key", public)[0] == 0
    stated = json.loads(base64.b64decode(json.loads(envelope.read_bytes())["payload"]))
    assert (stated["_type"], stated["predicateType"]) == (STATEMENT_TYPE, PREDICATE_TYPE)
    assert stated["predicate"]["result"] == "PASSED"
    tree = stated["subject"][0]["digest"]["sha256"]
    assert say(capsys, "verify", bundle, "--tree", tree, "--unauthenticated")[0] == 0

    assert "by no key that was named" in say(capsys, *asked, "--key", stranger)[1]
    assert say(capsys, "verify", bundle, "--tree", tree)[0] == 2, "somebody must vouch for it"
    code, said = say(capsys, "verify", bundle, "--tree", "0" * 64, "--unauthenticated")
    assert (code, "no skill of this bundle is the tree 000000000000" in said) == (1, True)
    rules.write_text("thresholds: {threshold: 0.5}\n", "utf-8")
    code, said = say(capsys, "verify", bundle, "--tree", tree, "--policy", rules, "--unauthenticated")
    assert (code, "decided under the policy" in said) == (1, True)
    payload = base64.b64encode(json.dumps({**stated, "subject": []}).encode()).decode()
    envelope.write_text(json.dumps({**json.loads(envelope.read_bytes()), "payload": payload}), "utf-8")
    assert say(capsys, "verify", bundle, "--statement", envelope, "--key", public)[0] == 1


def test_a_skill_that_did_not_pass_satisfies_no_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = ran(tmp_path, {"kind": "response_contains", "keyword": "something else altogether"})
    assert done.skill["verdict"] == "fail"
    code, said = say(
        capsys, "verify", done.bundle, "--tree", tmp_path / "repository" / "skills" / "sums", "--unauthenticated"
    )
    assert code == 1
    assert "is fail, not pass" in said
    private, _ = keys(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    code, said = say(capsys, "attest", done.bundle, "--key", private)
    assert json.loads(base64.b64decode(json.loads(said)["payload"]))["predicate"]["result"] == "FAILED"
    assert private.read_text("utf-8").splitlines()[1] not in said


def test_a_lock_says_what_changed_since_and_makes_nothing_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = ran(tmp_path)
    repository = tmp_path / "repository"
    assert say(capsys, "lock", done.bundle, "--repository", repository)[0] == 0
    locked = json.loads((repository / "skill-gate.lock").read_bytes())["skills"]["skills/sums"]
    assert locked["verdict"] == "pass"
    assert locked["bundle"] == json.loads((done.bundle / "manifest.json").read_bytes())["digest"]
    assert "lock/" not in say(capsys, "check", repository)[1]

    (repository / PATH).write_text(TEXT.format(word="all"), "utf-8")
    assert '"skills/sums" files changed since' in say(capsys, "check", repository)[1]
    (repository / SUITE).write_text(suite({"kind": "response_contains", "keyword": "Sums"}), "utf-8")
    code, said = say(capsys, "check", repository)
    assert (code, '"skills/sums" files and suite changed since' in said) == (1, True), "the lock excuses nothing"
    (repository / "skill-gate.lock").write_text("{}}", "utf-8")
    assert say(capsys, "check", repository)[0] == 2


def test_verify_derives_the_same_bytes_on_every_python_that_is_there(tmp_path: Path) -> None:
    bundle = ran(tmp_path).bundle
    ready = [one for one in interpreters() if one.ready]
    print("verified on", ", ".join(one.version for one in ready))
    results = {one.version: verified(one, bundle) for one in ready}
    assert {version: done.returncode for version, done in results.items()} == dict.fromkeys(results, 0)
    report = bundle / "report.json"
    report.write_bytes(report.read_bytes().replace(b'"pass"', b'"fail"', 1))
    assert "report.json: changed" in verified(ready[0], bundle).stdout
