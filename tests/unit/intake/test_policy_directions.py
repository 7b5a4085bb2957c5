from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from gate.domain.chat import Role
from gate.domain.plan import Enforce, Mode
from gate.domain.report import Language
from gate.intake.policy import parse_policy
from gate.settings import (
    LEVELS,
    MODES,
    Policy,
    SkillPolicy,
    SkillThresholds,
    Suppression,
    Thresholds,
    Way,
    loosens,
    matches,
    strict_direction,
    tightened,
)

DIGEST = "image@sha256:" + "a" * 64
BASE = Policy(
    mode=Mode.STANDARD,
    enforce=Enforce.STANDARD,
    thresholds=Thresholds(threshold=0.8, release_delta=0.15, finished_share=0.8, graded_share=0.9),
    ignore=("old/**", "!old/live", "gone/**"),
    models={Role.EXECUTOR: "openai:big", Role.GRADER: "openai:judge"},
    image="image@sha256:1",
    manifest_errors="block",
    require_layer3=True,
    second_judge="on",
    require_signed=True,
    self_generated=True,
    placebo=True,
    harness="codex",
    service_url="https://gate.example",
)
LOOSER: dict[str, list[Any]] = {
    "mode": [Mode.QUICK, Mode.SMOKE, Mode.REGRESSION],
    "enforce": [Enforce.ADVISORY],
    "ignore": [
        ("old/**", "!old/live", "gone/**", "skills/**"),
        ("old/**", "gone/**"),
        ("!old/live", "old/**", "gone/**"),
        ("**",),
    ],
    "waivers": [({"skill": "a", "rule": "r", "owner": "me", "expires": "2030-01-01"},)],
    "suppressions": [
        ({"rule": "scan/exfiltration", "path": "**", "owner": "me", "expires": "2030-01-01", "reason": "r"},)
    ],
    "models": [{Role.GRADER: "openai:tiny"}],
    "image": ["image@sha256:2", "evil:latest"],
    "manifest_errors": ["warn"],
    "require_layer3": [False],
    "require_signed": [False],
    "self_generated": [False],
    "placebo": [False],
    "second_judge": ["auto", "off"],
    "caps": [{"usd_per_skill": 0.01}, {"usd_per_skill": 1000}],
    "trust": [{"public_keys": ["mine"]}],
    "harness": ["loop", "claude-code", "command"],
    "command": [{"run": ["my-own-agent"]}],
    "report_url": ["https://elsewhere.example/report.html"],
    "service_url": ["https://elsewhere.example", "https://gate.example.evil.example"],
    "service_keys": [("A" * 43,)],
    "skills": [{"**": {"manifest_errors": "warn"}}],
    "contract": ["on"],
    "contract_plan": ["all_arms"],
    "calibration": [
        (
            {
                "model": "openai:judge",
                "date": "2026-01-01",
                "true_asked": 9,
                "true_failed": 0,
                "false_asked": 9,
                "false_passed": 0,
            },
        )
    ],
    "discussion_rounds": [1],
    "mcp_real": [{"crm": {"url": "https://elsewhere.example/mcp", "tools": ["find"]}}],
}
FREE = {"language": Language.ZH}
"""They decide nothing, so nothing of them is looser."""
LOOSER_THRESHOLDS = {"threshold": 0.79, "release_delta": 0.16, "finished_share": 0.1, "graded_share": 0.5}
STRICTER: dict[str, list[Any]] = {
    "mode": [Mode.STANDARD, Mode.FULL],
    "enforce": [Enforce.STANDARD, Enforce.STRICT],
    "ignore": [("old/**", "!old/live"), ("!old/live",), ("old/**", "!old/live", "gone/**", "!gone/x")],
    "models": [{Role.GRADER: "openai:big"}],
    "image": ["image@sha256:1"],
    "harness": ["codex"],
    "service_url": ["https://gate.example"],
    "manifest_errors": ["block"],
    "require_layer3": [True],
    "require_signed": [True],
}
STRICTER_THRESHOLDS = {"threshold": 0.95, "release_delta": 0.05, "finished_share": 1.0, "graded_share": 0.95}
CASES = [(key, value) for key, values in LOOSER.items() for value in values]


@pytest.mark.parametrize("model", [Policy, Thresholds])
def test_every_key_of_the_policy_declares_its_strict_direction(model: type[BaseModel]) -> None:
    for key in model.model_fields:
        assert strict_direction(model, key).way in Way, key
    assert set(LOOSER) | {"thresholds"} | set(FREE) == set(Policy.model_fields), "a key without a test of its direction"
    assert set(LOOSER_THRESHOLDS) == set(STRICTER_THRESHOLDS) == set(Thresholds.model_fields)


@pytest.mark.parametrize(("key", "value"), CASES, ids=lambda item: str(item)[:30])
def test_a_pull_request_that_tries_to_loosen_a_key_is_ignored_and_listed(key: str, value: Any) -> None:
    policy, dropped = tightened(BASE, {key: value})
    assert policy == BASE
    assert [(item.key, item.given) for item in dropped] == [(key, value)]
    assert dropped[0].why


@pytest.mark.parametrize(("key", "value"), list(FREE.items()))
def test_what_decides_nothing_is_free(key: str, value: Any) -> None:
    policy, dropped = tightened(BASE, {key: value})
    assert getattr(policy, key) == value
    assert dropped == ()


@pytest.mark.parametrize(("key", "value"), list(LOOSER_THRESHOLDS.items()))
def test_each_threshold_is_ignored_and_listed_by_itself(key: str, value: float) -> None:
    others = {other: number for other, number in STRICTER_THRESHOLDS.items() if other != key}
    policy, dropped = tightened(BASE, {"thresholds": {key: value, **others}})
    assert [item.key for item in dropped] == [f"thresholds.{key}"]
    assert policy.thresholds == Thresholds(**{**others, key: getattr(BASE.thresholds, key)})


@pytest.mark.parametrize(("key", "value"), [(key, item) for key, items in STRICTER.items() for item in items], ids=str)
def test_what_is_as_strict_or_stricter_is_followed(key: str, value: Any) -> None:
    policy, dropped = tightened(BASE, {key: value})
    assert dropped == ()
    found = getattr(policy, key)
    assert {**found} == {**BASE.models, **value} if isinstance(value, Mapping) else found == value


def test_where_the_policy_says_nothing_its_default_is_what_may_be_tightened() -> None:
    bare = Policy()
    assert loosens(bare, "mode", Mode.SMOKE) == "a change may only tighten this, which is standard"
    assert loosens(bare, "mode", Mode.FULL) is None
    assert loosens(bare, "enforce", Enforce.ADVISORY) is not None
    assert (
        loosens(bare, "models", {Role.GRADER: "x"}) == "a change may only pick what the policy names, and it names none"
    )
    assert loosens(bare, "image", "x") is not None
    assert loosens(bare, "harness", "loop") is None
    assert loosens(bare, "harness", "codex") == "a change may only pick what the policy names, and it names loop"
    with pytest.raises(KeyError):
        loosens(bare, "modus", "x")


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "mode": st.sampled_from(list(Mode)),
            "enforce": st.sampled_from(list(Enforce)),
            "manifest_errors": st.sampled_from(["warn", "block"]),
            "require_layer3": st.booleans(),
            "require_signed": st.booleans(),
            "ignore": st.lists(st.sampled_from(["old/**", "gone/**", "x/**", "!old/live", "!y"]), max_size=5).map(
                tuple
            ),
            "thresholds": st.dictionaries(
                st.sampled_from(list(Thresholds.model_fields)), st.floats(0.01, 0.99), max_size=4
            ),
        },
    )
)
def test_nothing_that_is_asked_makes_any_key_looser(asked: dict[str, Any]) -> None:
    policy, _ = tightened(BASE, asked)
    for key in policy.model_fields_set:
        if key != "thresholds":
            assert loosens(BASE, key, getattr(policy, key)) is None or getattr(policy, key) == getattr(BASE, key)
    for key in Thresholds.model_fields:
        assert loosens(BASE.thresholds, key, getattr(policy.thresholds, key)) is None
    assert policy.mode in MODES
    assert policy.enforce in LEVELS[1:]


def test_what_holds_for_one_skill_replaces_only_what_it_says() -> None:
    policy = Policy(
        thresholds=Thresholds(threshold=0.9),
        skills={
            "skills/**": SkillPolicy(thresholds=SkillThresholds(release_delta=0.3), manifest_errors="block"),
            "skills/a": SkillPolicy(require_layer3=True, image=DIGEST, available=("A_KEY",)),
            "skills/*": SkillPolicy(manifest_errors="warn", available=("network",)),
        },
    )
    own = policy.for_skill("skills/a")
    assert (own.thresholds.threshold, own.thresholds.release_delta) == (0.9, 0.3)
    assert (own.require_layer3, own.image, own.manifest_errors) == (True, DIGEST, "block")
    assert policy.for_skill("skills/x/y").manifest_errors == "block"
    assert policy.for_skill("other").model_dump() == policy.model_dump()
    assert policy.available_to("skills/a") == ("A_KEY", "network")
    assert policy.available_to("other") == ()


def test_which_pattern_decides_does_not_depend_on_the_order_in_the_file() -> None:
    rules = {
        "skills/**": SkillPolicy(manifest_errors="block"),
        "skills/a": SkillPolicy(manifest_errors="warn"),
        "**/a": SkillPolicy(manifest_errors="block"),
    }
    for order in (list(rules), list(reversed(rules))):
        assert Policy(skills={key: rules[key] for key in order}).for_skill("skills/a").manifest_errors == "warn"


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("skills/*", "skills/a", True),
        ("skills/*", "skills/a/b", False),
        ("skills/**", "skills/a/b", True),
        ("**/a", "a", True),
        ("**/a", "x/y/a", True),
        ("a?", "ab", True),
        ("a.c", "abc", False),
        ("/skills/a/", "skills/a", True),
        ("a", "a\n", False),
    ],
)
def test_patterns_match_from_the_root(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


def test_mistakes_in_the_newer_keys_are_said_with_lines_and_likely_words() -> None:
    data = b"""\
skills:
  skills/a:
    manifest_error: block
    thresholds: {treshold: 0.9}
    image: image:latest
suppressions:
  - {rule: scan/exfiltration, path: "x/**", owner: ana, expires: soon, reason: r}
  - {rule: skill-md/name, path: "x/**", owner: ana, expires: 2026-01-01, reason: ""}
trust: {public_key: [a]}
"""
    policy, findings = parse_policy(data)
    assert policy == Policy()
    said = [(item.line, item.message) for item in findings]
    assert [line for line, _ in said] == [3, 4, 5, 7, 8, 8, 9]
    assert "did you mean manifest_errors?" in said[0][1]
    assert "did you mean threshold?" in said[1][1]
    assert "is no date" in said[3][1]
    assert "did you mean public_keys?" in said[6][1]


def test_the_newer_keys_are_read() -> None:
    policy, findings = parse_policy(
        b"""\
require_signed: true
suppressions: [{rule: scan/host-path, path: "skills/**", owner: ana, expires: 2026-12-31, reason: known}]
trust: {public_keys: ["-----BEGIN PUBLIC KEY-----"]}
skills:
  skills/*: {require_layer3: true, thresholds: {threshold: 0.7}, available: [A_KEY, network]}
"""
    )
    assert findings == ()
    assert policy.suppressions == (
        Suppression(rule="scan/host-path", path="skills/**", owner="ana", expires="2026-12-31", reason="known"),
    )
    assert policy.for_skill("skills/a").thresholds.threshold == 0.7
    assert policy.require_signed
