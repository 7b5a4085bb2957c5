from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.errors import ConfigurationError
from gate.intake.compared import Compared, How, compared

A, B, C, ZERO = "a" * 40, "b" * 40, "c" * 40, "0" * 40
JOB = {"GITHUB_SHA": C, "GITHUB_REF": "refs/heads/main"}


def test_a_pull_request_is_compared_with_its_base_branch_and_never_by_the_test_merge() -> None:
    payload = {"pull_request": {"head": {"sha": A}, "base": {"sha": B}}}
    found = compared("pull_request", payload, JOB)
    assert (found.how, found.head, found.base) == (How.PARTED, A, B)


def test_a_merge_group_brings_both_commits() -> None:
    found = compared("merge_group", {"merge_group": {"head_sha": A, "base_sha": B}}, JOB)
    assert (found.how, found.head, found.base) == (How.PARTED, A, B)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"ref": "refs/heads/x", "before": B, "after": A}, (How.PARTED, A, B)),
        ({"ref": "refs/heads/x", "before": B, "after": A, "forced": True}, (How.PARTED, A, B)),
        ({"ref": "refs/heads/x", "before": ZERO, "after": A}, (How.PARTED, A, None)),
        ({"ref": "refs/heads/x", "before": B, "after": ZERO}, (How.NOTHING, "", None)),
        ({"ref": "refs/tags/v1", "before": ZERO, "after": A}, (How.AUDIT, A, None)),
        ({"ref": "refs/tags/v1", "before": B, "after": A}, (How.AUDIT, A, None)),
    ],
)
def test_a_push_is_compared_by_its_own_fields(payload: dict[str, Any], expected: tuple[How, str, str | None]) -> None:
    found = compared("push", payload, JOB)
    assert (found.how, found.head, found.base) == expected
    assert found.because


def test_a_release_is_an_audit_of_its_tag() -> None:
    payload = {"action": "published", "release": {"tag_name": "v1.2"}}
    assert compared("release", payload, JOB)[:3] == (How.AUDIT, C, None)
    assert compared("release", payload, {})[:3] == (How.AUDIT, "refs/tags/v1.2", None)
    assert compared("release", {**payload, "action": "deleted"}, JOB).how is How.NOTHING
    assert compared("create", {"ref_type": "tag", "ref": "v1"}, JOB)[:2] == (How.AUDIT, C)
    assert compared("create", {"ref_type": "branch", "ref": "x"}, JOB).how is How.NOTHING


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch", "repository_dispatch", "workflow_call"])
def test_what_names_no_older_commit_is_an_audit(name: str) -> None:
    assert compared(name, {}, JOB)[:3] == (How.AUDIT, C, None)
    with pytest.raises(ConfigurationError, match="GITHUB_SHA"):
        compared(name, {}, {})


@pytest.mark.parametrize(
    ("name", "payload", "place"),
    [
        ("pull_request", {}, r"pull_request\.head\.sha"),
        ("pull_request", {"pull_request": {"head": {"sha": A}, "base": {"sha": "main"}}}, r"pull_request\.base\.sha"),
        ("pull_request", {"pull_request": {"head": {"sha": A}, "base": {"sha": ZERO}}}, r"pull_request\.base\.sha"),
        ("merge_group", {"merge_group": {"head_sha": A}}, r"merge_group\.base_sha"),
        ("push", {"before": B}, "after"),
        ("push", {"before": "--upload-pack=x", "after": A}, "before"),
        ("release", {"release": {"tag_name": "--help"}}, r"release\.tag_name"),
        ("create", {"ref_type": "tag", "ref": ["x"]}, "ref"),
    ],
)
def test_a_field_that_is_wrong_is_named_and_nothing_is_guessed(name: str, payload: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigurationError, match=place) as caught:
        compared(name, payload, JOB)
    assert caught.value.remedy


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from([A, ZERO, "refs/tags/x"]),
    lambda inner: st.dictionaries(
        st.sampled_from(["head", "base", "sha", "pull_request", "before", "after", "ref", "release", "tag_name"]), inner
    ),
    max_leaves=8,
)


@given(
    st.sampled_from(["pull_request", "push", "merge_group", "release", "create", "schedule"]),
    st.dictionaries(
        st.sampled_from(["pull_request", "before", "after", "ref", "release", "ref_type", "forced"]), VALUES
    ),
)
def test_no_payload_makes_it_raise_anything_else_or_hand_on_an_option(name: str, payload: dict[str, Any]) -> None:
    try:
        found: Compared = compared(name, payload, JOB)
    except ConfigurationError:
        return
    assert not found.head.startswith("-")
    assert found.how is How.NOTHING or found.head
