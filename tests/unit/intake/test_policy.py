from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from gate.domain.chat import Role
from gate.domain.plan import Enforce, Mode
from gate.intake.policy import POLICY_PATH, parse_policy, policy_change, read_policy
from gate.settings import Policy
from tests.fakes.repository import FakeRepository, link

FULL = b"""\
mode: full
enforce: strict
thresholds: {threshold: 0.9, release_delta: 0.2}
caps:
  usd_per_skill: 5
ignore: [legacy/**]
models: {grader: "openai:judge"}
image: image@sha256:abc
manifest_errors: block
require_layer3: true
waivers:
  - {skill: skills/a, rule: suite/removed, owner: me, expires: 2026-12-31}
"""


def test_every_key_is_read() -> None:
    policy, findings = parse_policy(FULL)
    assert findings == ()
    assert (policy.mode, policy.enforce, policy.thresholds.threshold) == (Mode.FULL, Enforce.STRICT, 0.9)
    assert (policy.caps.usd_per_skill, policy.caps.model_calls_per_skill) == (5.0, Policy().caps.model_calls_per_skill)
    assert (policy.ignore, policy.models) == (("legacy/**",), {Role.GRADER: "openai:judge"})
    assert (policy.manifest_errors, policy.require_layer3) == ("block", True)
    assert policy.waivers[0].expires == "2026-12-31"


@pytest.mark.parametrize("data", [b"", b"# nothing yet\n", b"{}\n"])
def test_an_empty_policy_is_the_default(data: bytes) -> None:
    assert parse_policy(data) == (Policy(), ())


def test_all_mistakes_are_said_at_once_with_lines_and_likely_words(snapshot: SnapshotAssertion) -> None:
    data = b"""\
mod: full
enforce: harsh
thresholds:
  treshold: 0.9
  release_delta: true
caps: {usd_per_skill: "5", jobs: 3}
models: {grdaer: x}
waivers:
  - {skill: a, rule: r, owner: me, expires: soon}
  - {skill: a, rule: r, owner: me}
ignore: legacy
"""
    policy, findings = parse_policy(data)
    assert policy == Policy(), "half a policy must not be used"
    assert all(item.blocks for item in findings)
    assert "\n".join(f"{item.line}: {item.message}" for item in findings) == snapshot


@pytest.mark.parametrize(
    ("expires", "good"), [("2026-12-31", True), ("'2026-12-31'", True), ("soon", False), ("2026-13-01", False)]
)
def test_the_end_of_a_waiver_is_a_date(expires: str, good: bool) -> None:
    _, findings = parse_policy(f"waivers:\n  - {{skill: a, rule: r, owner: me, expires: {expires}}}\n".encode())
    assert [item.line for item in findings] == ([] if good else [2])


@pytest.mark.parametrize(
    "data", [b"mode: full\nmode: smoke\n", b"- a\n", b"text\n", b"a: b: c\n", b"\xff\xfe", b"a: *b\n"]
)
def test_what_is_no_policy_blocks_with_a_line(data: bytes) -> None:
    policy, findings = parse_policy(data)
    assert policy == Policy()
    assert findings
    assert all(item.blocks and item.line for item in findings)


def test_the_policy_of_a_commit_is_read_and_links_are_not_followed() -> None:
    repo = FakeRepository()
    good = repo.commit({POLICY_PATH: "mode: smoke\n"})
    linked = repo.commit({POLICY_PATH: link("/etc/passwd")})
    none = repo.commit({"a": "b"})
    misspelt = repo.commit({".github/skill-gate.yaml": "mode: smoke\n"})
    assert read_policy(repo, good)[0].mode is Mode.SMOKE
    assert [read_policy(repo, commit) for commit in (linked, none, None)] == [(Policy(), ())] * 3
    policy, findings = read_policy(repo, misspelt)
    assert policy == Policy()
    assert "not read" in findings[0].message


def test_heads_own_policy_takes_effect_after_merge_and_its_mistakes_do_not_block() -> None:
    repo = FakeRepository()
    base = repo.commit({POLICY_PATH: "mode: smoke\n"}, branch="main")
    same = repo.commit({POLICY_PATH: "mode: smoke\n", "x": "y"}, parent=base)
    edited = repo.commit({POLICY_PATH: "mod: full\n"}, parent=base)
    removed = repo.commit({"x": "y"}, parent=base)
    assert policy_change(repo, base, same) == ()
    first, second = policy_change(repo, base, edited)
    assert "after merge" in first.message
    assert "did you mean mode?" in second.message
    assert not second.blocks
    assert "removes" in policy_change(repo, base, removed)[0].message
    assert "not used" in policy_change(repo, None, edited)[0].message
