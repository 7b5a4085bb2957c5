from __future__ import annotations

import pytest

from gate.errors import ConfigurationError
from gate.service.webhooks import Approval, Closed, Delivery, Ignored, Signing, read_delivery
from tests.unit.service.deliveries import SECRET, encoded, headers_for, payload, signature

OURS = frozenset({"acme/skills"})


def is_signed(secret: str, body: bytes, header: str) -> bool:
    """As a delivery comes: in pieces."""
    signing = Signing(secret)
    for at in range(0, len(body), 5):
        signing.update(body[at : at + 5])
    return signing.came_out_as(header)


def test_a_signature_is_the_one_of_githubs_own_documentation() -> None:
    official = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature(SECRET, b"Hello, World!") == official
    assert is_signed(SECRET, b"Hello, World!", official)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "sha256=",
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "sha1=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e18",
        "sha256=757107EA0EB2509FC211221CCE984B8A37570B6D7586C22C46F4379C8B043E17",
        "sha256=ü\udcff",
    ],
)
def test_anything_else_is_no_signature(header: str) -> None:
    assert not is_signed(SECRET, b"Hello, World!", header)


def test_one_changed_byte_or_another_secret_breaks_a_signature() -> None:
    assert not is_signed(SECRET, b"Hello, World?", signature(SECRET, b"Hello, World!"))
    assert not is_signed(SECRET, b"Hello, World!", signature("another", b"Hello, World!"))


def test_an_empty_secret_signs_nothing() -> None:
    with pytest.raises(ValueError, match="empty secret"):
        is_signed("", b"Hello", signature("", b"Hello"))


@pytest.mark.parametrize("action", ["opened", "synchronize", "reopened", "ready_for_review"])
def test_a_pull_request_that_may_have_changed_is_taken(action: str) -> None:
    body = encoded(payload(action))
    found = read_delivery(headers_for(body, "id-9"), body, OURS)
    assert isinstance(found, Delivery)
    assert (found.id, found.event.action, found.event.number, found.body) == ("id-9", action, 7, body)


@pytest.mark.parametrize(
    ("headers", "value", "reason"),
    [
        ({"x_github_event": "ping"}, {"zen": "…"}, "the event ping is none"),
        ({"x_github_event": "pull_request_target"}, payload(), "the event pull_request_target is none"),
        ({}, payload("edited"), "the action edited changes nothing"),
        ({"x_github_event": "issue_comment"}, {"action": "created"}, "a comment that is no new"),
        ({}, payload("labeled"), "the action labeled changes nothing"),
        ({}, {"zen": "…"}, "the action None changes nothing"),
        ({}, payload(repository="acme/other"), "the repository acme/other is none"),
    ],
)
def test_what_is_not_to_be_judged_is_ignored_with_its_reason(
    headers: dict[str, str], value: object, reason: str
) -> None:
    body = encoded(value)
    found = read_delivery(headers_for(body, **headers), body, OURS)
    assert isinstance(found, Ignored)
    assert found.reason.startswith(reason)


def test_the_name_of_a_repository_counts_in_any_case() -> None:
    body = encoded(payload(repository="Acme/Skills"))
    assert isinstance(read_delivery(headers_for(body), body, OURS), Delivery)


@pytest.mark.parametrize(
    ("body", "changes", "message"),
    [
        (b"payload=%7B%7D", {"content_type": "application/x-www-form-urlencoded"}, "application/json was expected"),
        (b"{", {}, "no JSON"),
        (b"[" * 100_000, {}, "no JSON"),
        (b"[]", {}, "no JSON object"),
        (encoded(payload(head=None)), {}, "pull_request.head"),
        (encoded(payload(repository="no name")), {}, r"full_name; owner/name was expected\.$"),
    ],
)
def test_a_payload_that_cannot_be_read_says_what_is_wrong(body: bytes, changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_delivery(headers_for(body, **changes), body, OURS)


def test_the_break_glass_label_is_a_reason_of_its_own_to_judge_a_commit_again() -> None:
    labelled = {**payload("labeled"), "label": {"name": "Skill-Gate-Override"}, "sender": {"login": "hubot"}}
    found = read_delivery(headers_for(encoded(labelled)), encoded(labelled), OURS)
    pushed = read_delivery(headers_for(encoded(payload())), encoded(payload()), OURS)
    by_another = {**labelled, "sender": {"login": "octocat"}}
    other = read_delivery(headers_for(encoded(by_another)), encoded(by_another), OURS)
    assert isinstance(found, Delivery)
    assert isinstance(pushed, Delivery)
    assert isinstance(other, Delivery)
    assert len({found.subject, pushed.subject, other.subject}) == 3
    other_label = {**labelled, "label": {"name": "bug"}}
    ignored = read_delivery(headers_for(encoded(other_label)), encoded(other_label), OURS)
    assert isinstance(ignored, Ignored)
    assert "but for the label skill-gate-override" in ignored.reason


def test_a_pull_request_that_moves_to_another_base_is_judged_anew_each_time() -> None:
    changes = {"base": {"ref": {"from": "main"}, "sha": {"from": "b" * 40}}}
    found = []
    for at, branch in (("12:00:00", "old"), ("12:00:00", "old"), ("12:05:00", "main"), ("12:09:00", "old")):
        moved = payload(
            "edited", base={**payload()["pull_request"]["base"], "ref": branch}, updated_at=f"2026-01-01T{at}Z"
        )
        body = encoded({**moved, "changes": changes})
        one = read_delivery(headers_for(body), body, OURS)
        assert isinstance(one, Delivery)
        found.append(one.subject)
    assert found[0] == found[1]
    assert len(set(found)) == 3
    title = encoded({**payload("edited"), "changes": {"title": {"from": "x"}}})
    assert isinstance(read_delivery(headers_for(title), title, OURS), Ignored)


def comment(body: str, **changes: object) -> dict[str, object]:
    """An issue_comment event on a pull request."""
    return {
        "action": "created",
        "issue": {"number": 7, "pull_request": {"url": "x"}},
        "comment": {"body": body, "author_association": "MEMBER"},
        "repository": {"id": 1, "full_name": "acme/skills"},
        "sender": {"login": "octocat"},
        "installation": {"id": 99},
        **changes,
    }


def read_comment(value: object) -> object:
    body = encoded(value)
    return read_delivery(headers_for(body, "id-9", x_github_event="issue_comment"), body, OURS)


def test_a_comment_can_approve_one_whole_head() -> None:
    found = read_comment(comment(f"  /skill-gate approve {'A' * 40}\n"))
    assert found == Approval("id-9", "acme/skills", 1, 7, "a" * 40, "octocat", 99)
    asked = found.asked()
    assert (asked.approved_by, asked.event_name, asked.head_sha) == ("octocat", "workflow_dispatch", "a" * 40)


@pytest.mark.parametrize(
    "value",
    [
        comment("/skill-gate approve"),
        comment("/skill-gate approve aaaaaaa"),
        comment(f"please /skill-gate approve {'a' * 40}"),
        comment(f"/skill-gate approve {'a' * 40} {'b' * 40}"),
        comment(f"/skill-gate approve {'a' * 40}", action="edited"),
        comment(f"/skill-gate approve {'a' * 40}", issue={"number": 7}),
        comment(f"/skill-gate approve {'a' * 40}", repository={"id": 2, "full_name": "acme/other"}),
        comment("", comment={"body": f"/skill-gate approve {'a' * 40}", "author_association": "CONTRIBUTOR"}),
    ],
)
def test_no_other_comment_approves_anything(value: object) -> None:
    assert isinstance(read_comment(value), Ignored)


def test_a_closed_pull_request_is_told_apart() -> None:
    body = encoded(payload("closed"))
    assert read_delivery(headers_for(body), body, OURS) == Closed(1, 7)


def test_when_a_pull_request_moved_is_read_from_githubs_own_clock() -> None:
    body = encoded({**payload(updated_at="2026-01-05T09:00:00Z"), "installation": {"id": 5}})
    found = read_delivery(headers_for(body), body, frozenset({"*"}))
    assert isinstance(found, Delivery)
    assert (found.moved_at, found.installation) == (1767603600.0, 5)
    assert (found.asked().moved_at, found.asked().installation) == (1767603600.0, 5)
