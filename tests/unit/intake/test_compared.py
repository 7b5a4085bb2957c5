from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.domain.event import CommitsEvent, How, OtherEvent
from gate.errors import ConfigurationError
from gate.intake.compared import compared
from gate.intake.event import read_event

A, B, C, ZERO = "a" * 40, "b" * 40, "c" * 40, "0" * 40
JOB = {"GITHUB_SHA": C, "GITHUB_REF": "refs/heads/main"}
REPOSITORY = {"repository": {"default_branch": "main"}}


def commits(name: str, payload: dict[str, Any], environ: dict[str, str] | None = None) -> CommitsEvent:
    found = read_event(name, {**REPOSITORY, **payload}, JOB if environ is None else environ)
    assert isinstance(found, CommitsEvent)
    assert found.because
    return found


def test_a_merge_group_brings_both_commits_and_the_branch_it_waits_for() -> None:
    group = {
        "head_sha": A,
        "base_sha": B,
        "base_ref": "refs/heads/release/1",
        "head_ref": "refs/heads/gh-readonly-queue/x",
    }
    found = commits("merge_group", {"merge_group": group})
    assert (found.how, found.head, found.base, found.branch) == (How.PARTED, A, B, "release/1")
    assert found.queued
    assert not found.release


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"ref": "refs/heads/x", "before": B, "after": A}, (How.PARTED, A, B, "main")),
        ({"ref": "refs/heads/x", "before": B, "after": A, "forced": True}, (How.EXACT, A, B, "main")),
        ({"ref": "refs/heads/x", "before": ZERO, "after": A}, (How.PARTED, A, None, "main")),
        ({"ref": "refs/heads/main", "before": B, "after": A}, (How.PARTED, A, B, "")),
        ({"ref": "refs/heads/main", "before": ZERO, "after": A}, (How.AUDIT, A, None, "")),
        ({"ref": "refs/tags/main", "before": ZERO, "after": A}, (How.AUDIT, C, None, "main")),
        ({"ref": "refs/tags/v1", "before": B, "after": A}, (How.AUDIT, C, None, "main")),
    ],
)
def test_a_push_is_compared_by_its_own_fields(
    payload: dict[str, Any], expected: tuple[How, str, str | None, str]
) -> None:
    found = commits("push", payload)
    assert (found.how, found.head, found.base, found.branch) == expected
    assert found.release == payload["ref"].startswith("refs/tags/")


def test_a_branch_or_release_that_is_deleted_holds_nothing_to_judge() -> None:
    gone = {**REPOSITORY, "ref": "refs/heads/x", "before": B, "after": ZERO}
    for name, payload in {
        "push": gone,
        "release": {**REPOSITORY, "action": "deleted", "release": {"tag_name": "v1"}},
        "create": {**REPOSITORY, "ref_type": "branch", "ref": "x"},
    }.items():
        found = compared(name, payload, JOB)
        assert isinstance(found, OtherEvent)
        assert found.because


def test_a_release_is_an_audit_of_its_tag() -> None:
    payload = {"action": "published", "release": {"tag_name": "v1.2"}}
    for environ, head in ((JOB, C), ({}, "refs/tags/v1.2")):
        found = commits("release", payload, environ)
        assert (found.how, found.head, found.branch, found.release) == (How.AUDIT, head, "main", True)
    assert commits("create", {"ref_type": "tag", "ref": "v1"}).release


@pytest.mark.parametrize("name", ["schedule", "repository_dispatch"])
def test_what_names_no_older_commit_is_an_audit(name: str) -> None:
    found = commits(name, {})
    assert (found.how, found.head, found.base, found.branch) == (How.AUDIT, C, None, "")
    assert commits(name, {"repository": None}).branch == ""
    with pytest.raises(ConfigurationError, match="GITHUB_SHA"):
        compared(name, {}, {})


def test_a_schedule_that_says_it_is_on_another_branch_is_not_believed_to_be_the_default_one() -> None:
    assert commits("schedule", {}, {**JOB, "GITHUB_REF": "refs/heads/mine"}).branch == "main"


@pytest.mark.parametrize(
    ("name", "payload", "place"),
    [
        ("merge_group", {"merge_group": {"head_sha": A}}, r"merge_group\.base_sha"),
        ("merge_group", {"merge_group": {"head_sha": A, "base_sha": B}}, r"merge_group\.base_ref"),
        ("merge_group", {"merge_group": {"head_sha": A, "base_sha": B, "base_ref": "refs/heads/"}}, r"base_ref"),
        ("push", {"before": B, "ref": "refs/heads/x"}, "after"),
        ("push", {"before": "--upload-pack=x", "after": A, "ref": "refs/heads/x"}, "before"),
        ("push", {"before": B, "after": A}, "ref"),
        ("push", {"before": B, "after": A, "ref": "main"}, "ref"),
        ("push", {"before": B, "after": A, "ref": "refs/heads/x", "repository": {}}, r"repository\.default_branch"),
        ("release", {"release": {"tag_name": "--help"}}, r"release\.tag_name"),
        ("release", {"release": {"tag_name": "v1^{/secret}"}}, r"release\.tag_name"),
        ("create", {"ref_type": "tag", "ref": ["x"]}, "ref"),
    ],
)
def test_a_field_that_is_wrong_is_named_and_nothing_is_guessed(name: str, payload: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigurationError, match=place) as caught:
        compared(name, {**REPOSITORY, **payload}, JOB)
    assert caught.value.remedy


KEYS = ["head", "base", "sha", "before", "after", "ref", "release", "tag_name", "merge_group", "head_sha", "base_sha",
        "base_ref", "repository", "default_branch", "forced", "ref_type", "action"]  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from([A, ZERO, "refs/tags/x", "refs/heads/y", "-x", "a..b", "x^{/y}"]),
    lambda inner: st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)


@given(
    st.sampled_from(["push", "merge_group", "release", "create", "schedule", "issue_comment"]),
    st.dictionaries(st.sampled_from(KEYS), VALUES),
    st.sampled_from([JOB, {}]),
)
def test_no_payload_makes_it_raise_anything_else_or_hand_on_an_option(
    name: str, payload: dict[str, Any], environ: dict[str, str]
) -> None:
    try:
        found = compared(name, payload, environ)
    except ConfigurationError:
        return
    if isinstance(found, CommitsEvent):
        for text in (found.head, found.base or "", found.branch):
            assert not text.startswith("-")
            assert not set(text) & set(" ~^:?*[\n")
        assert found.head.strip("0")
