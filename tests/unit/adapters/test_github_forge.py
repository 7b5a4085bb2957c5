"""GitHub's adapter where GitHub is slow, limited, broken, moved or strange; what every Forge does is in the contract."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import SecretStr

from gate.adapters.github_forge import BRIEF, GitHubForge, Patience
from gate.domain.forge import Permission
from gate.domain.report import State
from gate.errors import ConfigurationError, ForgeError
from tests.github import (
    ChangedFile,
    FakeGitHub,
    Fault,
    Pull,
    Repository,
    Token,
    dripping,
    dropped,
    primary_limit,
    refused,
    secondary_limit,
    server_error,
    silent,
)

MARKER = "<!-- skill-gate:report -->"
CONTEXT = "skill-gate"
ODD_STATE = (
    '{"number": 7, "state": "odd", "labels": [], "changed_files": 1, '
    '"head": {"sha": "a", "ref": "b", "repo": null}, "base": {"sha": "a", "ref": "b", "repo": {"id": 1}}}'
)


def text(words: str = "All is well.") -> str:
    return f"## Skill Gate: passed\n{MARKER}\n\n{words}\n"


@dataclass
class Time:
    """Takes the place of sleeping and of the clock that measures patience."""

    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def monotonic(self) -> float:
        return sum(self.waits)


@dataclass
class Stage:
    github: FakeGitHub
    repository: Repository
    pull: Pull
    base: str
    head: str
    time: Time

    def forge(self, token: Token | None = None, **patience: Any) -> GitHubForge:
        given = (token or self.github.write).value
        return self.forge_with(SecretStr(given), **patience)

    def forge_with(self, token: SecretStr | None, **patience: Any) -> GitHubForge:
        settings = Patience(sleep=self.time.sleep, monotonic=self.time.monotonic, jitter=lambda: 1.0)
        return GitHubForge("acme/skills", token, api_url=self.github.url, patience=replace(settings, **patience))

    @property
    def bodies(self) -> list[str]:
        return [one.body for one in self.repository.comments_of(7)]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with FakeGitHub() as github:
        repository = github.add_repository("acme/skills", private=True)
        base = repository.add_commit({"skills/a/SKILL.md": "old"}, branch="main")
        head = repository.add_commit({"skills/a/SKILL.md": "new"}, parents=[base], branch="feature/ü#1")
        pull = repository.add_pull(head, base, number=7, head_ref="feature/ü#1")
        yield Stage(github, repository, pull, base, head, Time())


# --- limits


@pytest.mark.parametrize("status", [403, 429])
def test_a_secondary_limit_without_a_time_waits_a_minute(stage: Stage, status: Any) -> None:
    stage.github.fail(secondary_limit(status=status))
    assert stage.forge(jitter=lambda: 0.0).head_is(7, stage.head)
    assert stage.time.waits == [60.0]


@pytest.mark.parametrize("status", [403, 429])
def test_the_time_that_github_asks_for_is_waited(stage: Stage, status: Any) -> None:
    stage.github.fail(secondary_limit(7, status=status))
    assert stage.forge(jitter=lambda: 0.25).head_is(7, stage.head)
    assert stage.time.waits == [7.25]


def test_a_used_up_hour_is_waited_for_by_githubs_own_clock(stage: Stage) -> None:
    # The fake's clock stands in another year than this machine's.
    stage.github.fail(primary_limit(20))
    assert stage.forge(jitter=lambda: 0.0).head_is(7, stage.head)
    assert stage.time.waits == [21.0]


@pytest.mark.parametrize("limit", [primary_limit(1440), primary_limit(1440, status=429), secondary_limit(1439)])
def test_a_wait_beyond_all_patience_is_not_begun_and_says_how_long_it_would_be(stage: Stage, limit: Fault) -> None:
    stage.github.fail(limit)
    with pytest.raises(ForgeError) as caught:
        stage.forge().pull_request(7)
    assert caught.value.kind == "rate_limit"
    assert "144" in caught.value.remedy
    assert stage.time.waits == []
    assert len(stage.github.asked) == 1


def test_limits_that_never_end_are_given_up_within_patience(stage: Stage) -> None:
    stage.github.fail(secondary_limit(), repeat=True)
    with pytest.raises(ForgeError, match="secondary rate limit") as caught:
        stage.forge(total_s=130.0).pull_request(7)
    assert caught.value.kind == "rate_limit"
    assert sum(stage.time.waits) < 130.0
    assert len(stage.github.asked) == 3


def test_requests_that_are_really_used_up_are_a_rate_limit(stage: Stage) -> None:
    stage.github.world.remaining[stage.github.write.value] = 2
    forge = stage.forge()
    assert forge.head_is(7, stage.head)
    assert forge.head_is(7, stage.head)
    with pytest.raises(ForgeError) as caught:
        forge.head_is(7, stage.head)
    assert caught.value.kind == "rate_limit"
    assert "1801" in caught.value.remedy or "1802" in caught.value.remedy


# --- failures that pass


@pytest.mark.parametrize(
    "fault",
    [server_error(500), server_error(502), server_error(503, page="<html><h1>Unicorn!</h1></html>"), dropped()],
    ids=["500", "502", "html", "dropped"],
)
def test_a_failure_that_passes_is_asked_for_again(stage: Stage, fault: Fault) -> None:
    stage.github.fail(fault, fault)
    assert stage.forge().head_is(7, stage.head)
    assert stage.time.waits == [1.0, 2.0]


def test_half_of_each_wait_is_left_to_chance(stage: Stage) -> None:
    stage.github.fail(server_error(), server_error())
    assert stage.forge(jitter=lambda: 0.0).head_is(7, stage.head)
    assert stage.time.waits == [0.5, 1.0]


@pytest.mark.parametrize("fault", [server_error(503), dropped()])
def test_a_failure_that_stays_is_given_up_after_four_requests(stage: Stage, fault: Fault) -> None:
    stage.github.fail(fault, repeat=True)
    with pytest.raises(ForgeError, match="after 4 requests") as caught:
        stage.forge().pull_request(7)
    assert caught.value.kind == "network"
    assert caught.value.remedy
    assert len(stage.github.asked) == 4


def test_a_reply_that_never_comes_ends_with_the_time_for_a_request(stage: Stage) -> None:
    stage.github.fail(silent(), repeat=True)
    with pytest.raises(ForgeError, match=r"no complete reply|no reply in time") as caught:
        stage.forge(request_s=0.2, tries=2).pull_request(7)
    assert caught.value.kind == "network"


def test_a_reply_that_comes_byte_by_byte_ends_with_the_time_for_a_request(stage: Stage) -> None:
    stage.github.fail(dripping(0.05), repeat=True)
    with pytest.raises(ForgeError, match="no complete reply") as caught:
        stage.forge(request_s=0.5, tries=2).pull_request(7)
    assert caught.value.kind == "network"


def test_after_a_reply_that_never_came_the_next_request_is_not_held_up(stage: Stage) -> None:
    stage.github.fail(silent())
    assert stage.forge(request_s=0.3).head_is(7, stage.head)


def test_where_nothing_listens_is_a_network_error() -> None:
    with FakeGitHub() as github:
        url = github.url
    forge = GitHubForge("acme/skills", SecretStr("x"), api_url=url, patience=Patience(tries=2, sleep=lambda s: None))
    with pytest.raises(ForgeError) as caught:
        forge.pull_request(7)
    assert caught.value.kind == "network"


def test_the_patience_at_the_end_of_a_cancelled_job_fits_into_what_the_runner_leaves() -> None:
    assert BRIEF.total_s < 7
    assert BRIEF.request_s < BRIEF.total_s


# --- writes whose reply was lost


@pytest.mark.parametrize("fault", [dropped(applied=True), server_error(502, applied=True)], ids=["dropped", "502"])
def test_a_comment_whose_reply_was_lost_is_not_created_twice(stage: Stage, fault: Fault) -> None:
    stage.github.fail(fault, on="POST .*/comments")
    written = stage.forge().upsert_comment(7, MARKER, text())
    assert stage.bodies == [text()]
    assert written.comment is not None
    assert written.comment.body == text()


def test_a_comment_that_was_not_created_is_created_at_the_next_try(stage: Stage) -> None:
    stage.github.fail(dropped(), server_error(), on="POST .*/comments")
    assert stage.forge().upsert_comment(7, MARKER, text()).action == "created"
    assert stage.bodies == [text()]


def test_a_reply_that_is_late_after_the_comment_was_created_makes_no_second_one(stage: Stage) -> None:
    stage.github.fail(silent(applied=True), on="POST .*/comments")
    stage.forge(request_s=0.3).upsert_comment(7, MARKER, text())
    assert stage.bodies == [text()]


def test_the_head_is_looked_at_again_before_a_write_is_tried_again(stage: Stage) -> None:
    stage.github.fail(server_error(), on="POST .*/comments")
    stage.github.before("POST .*/comments", lambda: setattr(stage.pull, "head_sha", "f" * 40))
    assert stage.forge().upsert_comment(7, MARKER, text(), head_sha=stage.head).action == "stale"
    assert stage.bodies == []


def test_a_comment_that_is_deleted_meanwhile_is_created_anew(stage: Stage) -> None:
    forge = stage.forge()
    forge.upsert_comment(7, MARKER, text("old"))
    stage.github.before("PATCH .*/comments", stage.repository.comments.clear)
    assert forge.upsert_comment(7, MARKER, text("new")).action == "created"
    assert stage.bodies == [text("new")]


def test_a_status_whose_reply_was_lost_is_set_again(stage: Stage) -> None:
    stage.github.fail(dropped(applied=True), on="POST .*/statuses")
    stage.forge().set_status(stage.head, CONTEXT, State.SUCCESS, "words")
    assert [one.state for one in stage.repository.newest_statuses(stage.head)] == ["success"]


def test_jobs_that_report_at_the_same_moment_end_with_one_comment(stage: Stage) -> None:
    forges = [stage.forge() for _ in range(6)]
    with ThreadPoolExecutor(len(forges)) as pool:
        list(pool.map(lambda one: one[1].upsert_comment(7, MARKER, text(f"job {one[0]}")), enumerate(forges)))
    assert len(stage.bodies) == 1


def test_a_rival_that_was_first_keeps_its_comment_and_ours_goes(stage: Stage) -> None:
    me = stage.github.world.user("github-actions[bot]")
    stage.github.before("POST .*/comments", lambda: stage.repository.add_comment(7, me, text("rival")))
    assert stage.forge().upsert_comment(7, MARKER, text("ours")).action == "updated"
    assert stage.bodies == [text("ours")]


def test_a_comment_that_is_there_is_changed_in_place_so_that_nobody_is_told_twice(stage: Stage) -> None:
    for words in ("first", "second", "second"):
        stage.forge().upsert_comment(7, MARKER, text(words))
    assert [one.method for one in stage.github.writes] == ["POST", "PATCH"]


# --- who we are


@pytest.mark.parametrize(
    ("token", "login"),
    [("write", "github-actions[bot]"), ("app", "skill-gate-test[bot]"), ("pat", "octocat")],
)
def test_each_kind_of_token_finds_its_own_comment_again(stage: Stage, token: str, login: str) -> None:
    stage.repository.roles["octocat"] = "write"
    given: Token = getattr(stage.github, token)
    assert stage.forge(given).who_am_i() == login
    stage.forge(given).upsert_comment(7, MARKER, text("first run"))
    stage.forge(given).upsert_comment(7, MARKER, text("second run"))
    assert stage.bodies == [text("second run")]


def test_comments_of_two_kinds_of_tokens_are_not_mixed_up(stage: Stage) -> None:
    stage.forge(stage.github.app).upsert_comment(7, MARKER, text("by the App"))
    stage.forge(stage.github.write).upsert_comment(7, MARKER, text("by the workflow"))
    assert stage.bodies == [text("by the App"), text("by the workflow")]


@pytest.mark.parametrize("status", [403, 404])
def test_where_nobody_says_who_we_are_the_first_comment_does(stage: Stage, status: int) -> None:
    stage.forge(stage.github.app).upsert_comment(7, MARKER, text("first run"))
    stage.github.fail(refused(status, "Not here"), on="POST /graphql")
    forge = stage.forge(stage.github.app)
    assert forge.upsert_comment(7, MARKER, text("second run")).action == "updated"
    assert forge.who_am_i() == "skill-gate-test[bot]"
    assert stage.bodies == [text("second run")]


def test_a_login_that_the_caller_knows_is_not_asked_for(stage: Stage) -> None:
    forge = GitHubForge(
        "acme/skills", SecretStr(stage.github.app.value), api_url=stage.github.url, login="skill-gate-test[bot]"
    )
    forge.upsert_comment(7, MARKER, text())
    assert not [one for one in stage.github.asked if one.path in ("/user", "/graphql")]


def test_the_login_is_asked_for_once(stage: Stage) -> None:
    forge = stage.forge()
    for _ in range(3):
        forge.find_comment(7, MARKER)
    assert [one.path for one in stage.github.asked if one.path in ("/user", "/graphql")] == ["/user", "/graphql"]


def test_a_limit_on_the_question_who_we_are_is_not_taken_for_an_answer(stage: Stage) -> None:
    stage.github.fail(secondary_limit(500), on="GET /user")
    with pytest.raises(ForgeError) as caught:
        stage.forge(stage.github.pat).who_am_i()
    assert caught.value.kind == "rate_limit"


def test_a_comment_of_an_account_that_is_gone_is_not_ours(stage: Stage) -> None:
    stage.repository.add_comment(7, None, text("whose?"))
    assert stage.forge().find_comment(7, MARKER) is None


# --- what a token may not


def test_a_refusal_is_not_tried_again(stage: Stage) -> None:
    with pytest.raises(ForgeError) as caught:
        stage.forge(stage.github.read).set_status(stage.head, CONTEXT, State.SUCCESS, "words")
    assert caught.value.kind == "permission"
    assert "statuses: write" in caught.value.remedy
    assert "forks" in caught.value.remedy
    assert len(stage.github.asked) == 1


def test_a_wrong_token_says_that_it_is_wrong(stage: Stage) -> None:
    with pytest.raises(ForgeError, match="Bad credentials") as caught:
        stage.forge_with(SecretStr("ghs_expired")).pull_request(7)
    assert caught.value.kind == "permission"
    assert "expired" in caught.value.remedy


def test_without_a_token_a_private_repository_is_not_found_and_nothing_is_written(stage: Stage) -> None:
    forge = stage.forge_with(None)
    with pytest.raises(ForgeError) as hidden:
        forge.pull_request(7)
    assert hidden.value.kind == "not_found"
    with pytest.raises(ForgeError) as caught:
        forge.who_am_i()
    assert caught.value.kind == "permission"
    assert "github-token" in caught.value.remedy


def test_without_a_token_what_is_public_is_read(stage: Stage) -> None:
    stage.repository.private = False
    forge = stage.forge_with(None)
    assert forge.changed_files(7).complete
    with pytest.raises(ForgeError) as caught:
        forge.set_status(stage.head, CONTEXT, State.SUCCESS, "words")
    assert caught.value.kind == "permission"
    assert caught.value.status == 401


def test_a_personal_token_without_push_cannot_set_a_status(stage: Stage) -> None:
    stage.repository.roles["octocat"] = "read"
    with pytest.raises(ForgeError) as caught:
        stage.forge(stage.github.pat).set_status(stage.head, CONTEXT, State.SUCCESS, "words")
    assert caught.value.kind == "not_found"


@pytest.mark.parametrize("what", ["locked", "archived"])
def test_a_place_that_is_closed_is_named_in_githubs_words(stage: Stage, what: str) -> None:
    stage.pull.locked = what == "locked"
    stage.repository.archived = what == "archived"
    with pytest.raises(ForgeError, match=what) as caught:
        stage.forge().upsert_comment(7, MARKER, text())
    assert caught.value.kind == "permission"


def test_the_token_is_in_no_message(stage: Stage) -> None:
    token = stage.github.write.value
    stage.github.fail(refused(403, f"Token {token} may not\x1b[31m do this"))
    forge = stage.forge()
    with pytest.raises(ForgeError) as caught:
        forge.pull_request(7)
    shown = f"{caught.value} {caught.value.remedy} {forge!r} {caught.value.__cause__!r}"
    assert token not in shown
    assert "[token]" in shown
    assert "\x1b" not in shown


def test_what_github_finds_wrong_is_passed_on_field_by_field(stage: Stage) -> None:
    with pytest.raises(ForgeError, match="target_url must use http") as caught:
        stage.forge().set_status(stage.head, CONTEXT, State.SUCCESS, "words", "javascript:alert(1)")
    assert caught.value.kind == "validation"
    assert len(stage.github.asked) == 1


# --- moved, strange, cut


def test_a_renamed_repository_is_still_read(stage: Stage) -> None:
    _rename(stage)
    assert stage.forge().head_is(7, stage.head)


def test_a_write_that_is_redirected_is_no_success(stage: Stage) -> None:
    new = _rename(stage)
    with pytest.raises(ForgeError) as status:
        stage.forge().set_status(stage.head, CONTEXT, State.SUCCESS, "words")
    with pytest.raises(ForgeError) as comment:
        stage.forge().upsert_comment(7, MARKER, text())
    for caught in (status, comment):
        assert caught.value.kind == "not_found"
        assert "present name" in caught.value.remedy
    assert new.statuses == []
    assert new.comments == {}


def test_pages_that_a_redirection_loses_are_an_error_and_not_the_end_of_the_list(stage: Stage) -> None:
    _rename(stage)
    for index in range(40):
        stage.repository.add_comment(7, stage.github.world.user("octocat"), f"comment {index}")
    with pytest.raises(ForgeError, match="same page again"):
        stage.forge().find_comment(7, MARKER)


def _rename(stage: Stage) -> Repository:
    old = stage.repository
    new = stage.github.add_repository("acme/renamed", private=True)
    new.commits, new.pulls, new.comments, new.branches = old.commits, old.pulls, old.comments, old.branches
    old.moved_to = "acme/renamed"
    return new


@pytest.mark.parametrize(
    ("page", "of"),
    [
        ("<html>please log in</html>", "pull_request"),
        ("[]", "pull_request"),
        ("{}", "pull_request"),
        ('{"head": {}, "base": {}}', "pull_request"),
        ('{"half": ', "pull_request"),
        (ODD_STATE, "pull_request"),
        ("{}", "find_comment"),
        ("[1, 2]", "find_comment"),
        ("[{}]", "find_comment"),
        ("null", "find_comment"),
    ],
)
def test_a_reply_that_is_not_githubs_is_an_error_with_a_remedy(stage: Stage, page: str, of: str) -> None:
    where = "pulls/7$" if of == "pull_request" else "comments"
    stage.github.fail(Fault(200, page=page), on=where, repeat=True)
    forge = stage.forge()
    with pytest.raises(ForgeError) as caught:
        _ = forge.pull_request(7) if of == "pull_request" else forge.find_comment(7, MARKER)
    assert caught.value.kind == "network"
    assert caught.value.remedy


def test_a_status_that_is_not_the_one_that_was_set_is_an_error(stage: Stage) -> None:
    other = '{"id": 1, "context": "skill-gate", "state": "pending", "description": "", "target_url": null}'
    stage.github.fail(Fault(201, page=other), on="statuses")
    with pytest.raises(ForgeError, match="in place of the one"):
        stage.forge().set_status(stage.head, CONTEXT, State.FAILURE, "words")


@pytest.mark.parametrize(
    "moves",
    [
        lambda stage: setattr(stage.pull, "head_sha", "f" * 40),
        lambda stage: setattr(stage.pull, "base_sha", "f" * 40),
        lambda stage: stage.pull.files.append(ChangedFile("skills/b/SKILL.md", "added")),
    ],
    ids=["head", "base", "files"],
)
def test_files_of_a_pull_request_that_moves_meanwhile_are_not_taken_for_all(
    stage: Stage, moves: Callable[[Stage], None]
) -> None:
    stage.pull.files = [ChangedFile(f"skills/{index}.md") for index in range(150)]
    stage.github.before("GET .*/files", lambda: stage.github.before("GET .*/7$", lambda: moves(stage)))
    assert not stage.forge().changed_files(7).complete


def test_a_list_of_files_that_was_cut_says_so(stage: Stage) -> None:
    assert stage.forge().tree(stage.head).complete
    stage.github.service.tree_limit = 1
    assert not stage.forge().tree(stage.head).complete


def test_text_that_no_wire_can_carry_is_mended(stage: Stage) -> None:
    forge = stage.forge()
    written = forge.upsert_comment(7, MARKER, text("lone \ud83d, nul \x00, pair \ud83d\ude00"))
    assert written.comment is not None
    assert written.comment.body == text("lone \ufffd, nul \ufffd, pair 😀")
    assert forge.upsert_comment(7, MARKER, text("lone \ud83d, nul \x00, pair \ud83d\ude00")).action == "unchanged"
    assert forge.set_status(stage.head, CONTEXT, State.SUCCESS, "lone \ud83d\x00 🎉 end").description == (
        "lone \ufffd \ufffd end"
    )


def test_names_with_special_characters_reach_github_as_they_are(stage: Stage) -> None:
    stage.github.world.user("dependabot[bot]")
    stage.repository.roles["dependabot[bot]"] = "write"
    assert stage.forge().permission_of("dependabot[bot]") is Permission.WRITE
    assert stage.forge().merge_base("main", "feature/ü#1") == stage.base


@pytest.mark.parametrize(("base", "expected"), [("maintain", Permission.MAINTAIN), ("triage", Permission.TRIAGE)])
def test_a_role_of_the_organisation_counts_as_the_one_that_it_is_based_on(
    stage: Stage, base: Any, expected: Permission
) -> None:
    stage.github.world.user("hubot")
    stage.repository.custom_roles["hubot"] = ("release crew", base)
    assert stage.forge().permission_of("hubot") is expected


def test_a_role_whose_name_only_sounds_like_maintain_is_not_one(stage: Stage) -> None:
    stage.github.world.user("hubot")
    stage.repository.custom_roles["hubot"] = ("maintain", "read")
    assert stage.forge().permission_of("hubot") is Permission.READ


def test_whoever_took_a_label_off_is_not_taken_for_the_one_who_put_it_on(stage: Stage) -> None:
    maintainer = stage.github.world.user("hubot")
    stage.repository.add_label(stage.pull, "skill-gate-override", stage.github.world.user("mallory"))
    stage.repository.remove_label(stage.pull, "skill-gate-override", maintainer)
    stage.pull.labels.append("skill-gate-override")  # on again, and the list of events lags behind
    assert stage.forge().labelled_by(7, "skill-gate-override") is None


def test_a_label_among_hundreds_of_events_is_found(stage: Stage) -> None:
    octocat, hubot = stage.github.world.user("octocat"), stage.github.world.user("hubot")
    for index in range(150):
        stage.repository.add_label(stage.pull, f"label-{index}", octocat)
    stage.repository.add_label(stage.pull, "skill-gate-override", hubot)
    assert stage.forge().labelled_by(7, "skill-gate-override") == "hubot"


# --- set-up


def test_the_runners_environment_names_server_and_repository(stage: Stage) -> None:
    environment = {"GITHUB_REPOSITORY": "acme/skills", "GITHUB_API_URL": stage.github.url}
    forge = GitHubForge.from_environment(environment, SecretStr(stage.github.write.value))
    assert forge.head_is(7, stage.head)


def test_on_an_enterprise_server_nothing_goes_to_the_public_one() -> None:
    with FakeGitHub(prefix="/api/v3") as github:
        assert GitHubForge("acme/skills", SecretStr(github.app.value), api_url=github.url).who_am_i() == (
            "skill-gate-test[bot]"
        )
        assert [one.path for one in github.asked] == ["/user", "/api/graphql"]


@pytest.mark.parametrize("name", ["", "acme", "acme/", "/skills", "acme/skills/more"])
def test_a_repository_that_is_no_repository_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(ConfigurationError, match="owner/name") as caught:
        GitHubForge.from_environment({"GITHUB_REPOSITORY": name}, None)
    assert "GITHUB_REPOSITORY" in caught.value.remedy


@pytest.mark.parametrize("url", ["api.github.com", "file:///etc/passwd", "http://"])
def test_an_address_that_is_none_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(ConfigurationError, match="no web address") as caught:
        GitHubForge("acme/skills", None, api_url=url)
    assert "GITHUB_API_URL" in caught.value.remedy


def test_every_request_names_version_media_type_and_agent(stage: Stage) -> None:
    stage.forge().upsert_comment(7, MARKER, text())
    for one in stage.github.asked:
        assert one.headers["accept"] == "application/vnd.github+json"
        assert one.headers["x-github-api-version"] == "2022-11-28"
        assert one.headers["user-agent"] == "skill-gate"


def test_pygithub_is_not_loaded_before_the_first_request() -> None:
    code = (
        "import sys; from gate.adapters.github_forge import GitHubForge; GitHubForge('a/b', None);"
        "print(sorted({'github', 'requests', 'jwt', 'nacl'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
