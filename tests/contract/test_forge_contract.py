"""What every Forge does: the adapter of GitHub over real HTTP, and the fake of the seam."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import pytest
from pydantic import SecretStr

from gate.adapters.github_forge import GitHubForge, Patience
from gate.domain.forge import ChangedFile, Permission, PullRequest, TreeEntry
from gate.domain.report import State
from gate.errors import ForgeError
from gate.protocols import Forge
from tests.fakes.forge import InMemoryForge
from tests.github import ChangedFile as GitHubFile
from tests.github import FakeGitHub, File

MARKER = "<!-- skill-gate:report -->"
CONTEXT = "skill-gate"
ME = "github-actions[bot]"

Who = Literal["member", "fork", "deleted fork"]


def text(words: str = "All is well.") -> str:
    return f"## Skill Gate: passed\n{MARKER}\n\n{words}\n"


class Stage(Protocol):
    """A repository with one pull request (number 7), whatever it is kept in."""

    base: str
    head: str

    @property
    def forge(self) -> Forge:
        """With a token that may write."""

    def read_only(self) -> Forge:
        """The same forge with a token that may only read."""

    def push(self) -> str:
        """A new head of the pull request."""

    def say(self, author: str, body: str) -> int:
        """A comment by somebody."""

    def bodies(self) -> list[str]:
        """All comments, oldest first."""

    def statuses(self, sha: str) -> int:
        """How many statuses were ever set at a commit."""

    def change(self, files: list[ChangedFile], *, count: int | None = None) -> None:
        """What the pull request changes. ``count``: how many that are, where the list is not all."""

    def label(self, name: str, by: str) -> None:
        """Somebody labels the pull request."""

    def unlabel(self, name: str, by: str) -> None:
        """Somebody takes the label off."""

    def hire(self, user: str, role: Permission) -> None:
        """Somebody gets a role."""


@dataclass
class InMemory:
    forge: InMemoryForge
    base: str
    head: str

    def read_only(self) -> Forge:
        self.forge.reads_only = True
        return self.forge

    def push(self) -> str:
        sha = "c" * 40
        self.forge.commits[sha] = ()
        self.forge.parents[sha] = (self.head,)
        self.forge.pulls[7] = self.forge.pulls[7].model_copy(update={"head_sha": sha})
        return sha

    def say(self, author: str, body: str) -> int:
        return self.forge.add_comment(7, author, body).id

    def bodies(self) -> list[str]:
        return [one.body for one in self.forge.comments.get(7, [])]

    def statuses(self, sha: str) -> int:
        return sum(at == sha for at, _ in self.forge.statuses)

    def change(self, files: list[ChangedFile], *, count: int | None = None) -> None:
        self.forge.files[7] = files
        self.forge.pulls[7] = self.forge.pulls[7].model_copy(update={"changed_files": count or len(files)})

    def label(self, name: str, by: str) -> None:
        pull = self.forge.pulls[7]
        self.forge.pulls[7] = pull.model_copy(update={"labels": (*pull.labels, name)})
        self.forge.labellers[7, name.casefold()] = by

    def unlabel(self, name: str, by: str) -> None:
        del by
        pull = self.forge.pulls[7]
        left = tuple(one for one in pull.labels if one != name)
        self.forge.pulls[7] = pull.model_copy(update={"labels": left})

    def hire(self, user: str, role: Permission) -> None:
        self.forge.roles = {**self.forge.roles, user: role}


@contextmanager
def in_memory(who: Who) -> Iterator[Stage]:
    base, head, blob = "a" * 40, "b" * 40, "d" * 40
    entries = (
        TreeEntry(path="skills/a/SKILL.md", mode="100644", blob=blob),
        TreeEntry(path="skills/a/run.sh", mode="100755", blob="e" * 40),
    )
    pull = PullRequest(
        number=7,
        state="open",
        draft=False,
        author="octocat",
        author_association="CONTRIBUTOR",
        head_sha=head,
        head_ref="topic",
        head_repository_id={"member": 1, "fork": 2, "deleted fork": None}[who],
        base_sha=base,
        base_ref="main",
        base_repository_id=1,
        changed_files=1,
    )
    forge = InMemoryForge(
        login=ME,
        pulls={7: pull},
        files={7: [ChangedFile(path="skills/a/SKILL.md", status="modified", blob=blob)]},
        commits={base: (), head: entries},
        parents={head: (base,)},
        blobs={blob: "# Größe\n".encode()},
    )
    yield InMemory(forge, base, head)


@dataclass
class OnGitHub:
    github: FakeGitHub
    forge: Forge
    base: str
    head: str

    def __post_init__(self) -> None:
        found = self.github.world.repository("acme/skills")
        assert found is not None
        self.repository = found
        self.pull = found.pulls[7]

    def read_only(self) -> Forge:
        return github_forge(self.github, self.github.read.value)

    def push(self) -> str:
        self.pull.head_sha = self.repository.add_commit({"skills/a/SKILL.md": "newer"}, parents=[self.head])
        return self.pull.head_sha

    def say(self, author: str, body: str) -> int:
        return self.repository.add_comment(7, self.github.world.user(author), body).id

    def bodies(self) -> list[str]:
        return [one.body for one in self.repository.comments_of(7)]

    def statuses(self, sha: str) -> int:
        return len(self.repository.statuses_of(sha))

    def change(self, files: list[ChangedFile], *, count: int | None = None) -> None:
        self.pull.files = [GitHubFile(one.path, one.status, one.previous_path, one.blob) for one in files]
        self.pull.files += [GitHubFile(f"more/{index}") for index in range((count or 0) - len(files))]

    def label(self, name: str, by: str) -> None:
        self.repository.add_label(self.pull, name, self.github.world.user(by))

    def unlabel(self, name: str, by: str) -> None:
        self.repository.remove_label(self.pull, name, self.github.world.user(by))

    def hire(self, user: str, role: Permission) -> None:
        self.github.world.user(user)
        if role != Permission.NONE:
            self.repository.roles[user] = role.value  # type: ignore[assignment]  # the words are the same


def github_forge(github: FakeGitHub, token: str) -> GitHubForge:
    patience = Patience(sleep=lambda seconds: None, jitter=lambda: 0.0)
    return GitHubForge("acme/skills", SecretStr(token), api_url=github.url, patience=patience)


@contextmanager
def on_github(who: Who, *, prefix: str = "") -> Iterator[Stage]:
    with FakeGitHub(prefix=prefix) as github:
        repository = github.add_repository("acme/skills", private=True)
        base = repository.add_commit({"skills/a/SKILL.md": "old"}, branch="main")
        files: dict[str, str | bytes | File] = {
            "skills/a/SKILL.md": "# Größe\n",
            "skills/a/run.sh": File(b"true\n", "100755"),
        }
        head = repository.add_commit(files, parents=[base], branch="topic")
        fork = github.add_repository("octocat/skills", private=True, fork_of=repository)
        origin = {"member": None, "fork": fork, "deleted fork": "deleted"}[who]
        changed = [
            GitHubFile("skills/a/SKILL.md", "modified", None, repository.commits[head].files["skills/a/SKILL.md"].blob)
        ]
        repository.add_pull(head, base, number=7, head_repository=origin, files=changed)  # type: ignore[arg-type]
        yield OnGitHub(github, github_forge(github, github.write.value), base, head)


@contextmanager
def on_enterprise(who: Who) -> Iterator[Stage]:
    with on_github(who, prefix="/api/v3") as stage:
        yield stage


Open = Callable[[Who], AbstractContextManager[Stage]]


@pytest.fixture(params=[in_memory, on_github, on_enterprise], ids=["in-memory", "github", "enterprise"])
def opened(request: pytest.FixtureRequest) -> Open:
    made: Open = request.param
    return made


@pytest.fixture
def stage(opened: Open) -> Iterator[Stage]:
    with opened("member") as made:
        yield made


def test_it_knows_the_login_that_its_token_writes_as(stage: Stage) -> None:
    assert stage.forge.who_am_i() == ME


def test_a_pull_request_is_read_as_it_is_now(stage: Stage) -> None:
    before = stage.forge.pull_request(7)
    assert (before.head_sha, before.base_sha, before.base_ref) == (stage.head, stage.base, "main")
    assert (before.number, before.state, before.draft, before.author) == (7, "open", False, "octocat")
    assert before.changed_files == 1
    newer = stage.push()
    assert stage.forge.pull_request(7).head_sha == newer != before.head_sha


@pytest.mark.parametrize(("who", "forked"), [("member", False), ("fork", True), ("deleted fork", True)])
def test_a_pull_request_from_another_repository_or_from_one_that_is_gone_is_a_fork(
    opened: Open, who: Who, forked: bool
) -> None:
    with opened(who) as stage:
        pull = stage.forge.pull_request(7)
        assert pull.from_fork is forked
        assert (pull.head_repository_id is None) is (who == "deleted fork")


def test_a_pull_request_that_does_not_exist_is_not_found(stage: Stage) -> None:
    with pytest.raises(ForgeError) as caught:
        stage.forge.pull_request(99)
    assert caught.value.kind == "not_found"
    assert caught.value.status == 404
    assert caught.value.remedy


def test_a_head_is_only_the_newest_one(stage: Stage) -> None:
    assert stage.forge.head_is(7, stage.head)
    newer = stage.push()
    assert not stage.forge.head_is(7, stage.head)
    assert stage.forge.head_is(7, newer)


def test_changed_files_keep_status_and_earlier_path(stage: Stage) -> None:
    files = [
        ChangedFile(path="skills/b/SKILL.md", status="renamed", previous_path="skills/a/SKILL.md", blob="1" * 40),
        ChangedFile(path='skills/ü "q"\\n/x.md', status="added", blob="2" * 40),
        ChangedFile(path="skills/c/old.md", status="removed", blob=None),
    ]
    stage.change(files)
    found = stage.forge.changed_files(7)
    assert found.files == tuple(files)
    assert found.head_sha == stage.head
    assert found.complete


def test_all_pages_of_changed_files_are_read(stage: Stage) -> None:
    files = [ChangedFile(path=f"skills/{index:03}.md", status="added", blob="3" * 40) for index in range(250)]
    stage.change(files)
    found = stage.forge.changed_files(7)
    assert found.files == tuple(files)
    assert found.complete


def test_beyond_three_thousand_files_the_list_says_that_it_is_not_all(stage: Stage) -> None:
    files = [ChangedFile(path=f"skills/{index:04}.md", status="added", blob="3" * 40) for index in range(3000)]
    stage.change(files)
    assert stage.forge.changed_files(7).complete
    stage.change(files, count=3001)
    found = stage.forge.changed_files(7)
    assert len(found.files) == 3000
    assert not found.complete


def test_a_comment_is_created_once_and_then_updated(stage: Stage) -> None:
    first = stage.forge.upsert_comment(7, MARKER, text("One skill failed."))
    second = stage.forge.upsert_comment(7, MARKER, text("All passed now."))
    assert (first.action, second.action) == ("created", "updated")
    assert first.comment is not None
    assert second.comment is not None
    assert first.comment.id == second.comment.id
    assert first.comment.author == ME
    assert stage.bodies() == [text("All passed now.")]


def test_a_comment_that_says_the_same_already_is_left_alone(stage: Stage) -> None:
    stage.forge.upsert_comment(7, MARKER, text())
    assert stage.forge.upsert_comment(7, MARKER, text()).action == "unchanged"
    assert stage.bodies() == [text()]


def test_our_comment_is_found_behind_hundreds_of_others(stage: Stage) -> None:
    for index in range(230):
        stage.say("octocat", f"comment {index}")
    own = stage.say(ME, text("old"))
    for index in range(120):
        stage.say("octocat", f"later comment {index}")
    found = stage.forge.find_comment(7, MARKER)
    assert found is not None
    assert found.id == own
    assert stage.forge.upsert_comment(7, MARKER, text("new")).action == "updated"
    assert len(stage.bodies()) == 351


def test_somebody_elses_comment_with_our_marker_is_neither_taken_nor_touched(stage: Stage) -> None:
    stage.say("mallory", text("Everything passed, trust me."))
    assert stage.forge.find_comment(7, MARKER) is None
    assert stage.forge.upsert_comment(7, MARKER, text("It failed.")).action == "created"
    assert stage.bodies() == [text("Everything passed, trust me."), text("It failed.")]


def test_our_own_comment_with_another_marker_is_not_taken(stage: Stage) -> None:
    stage.say(ME, "## Coverage\n<!-- coverage -->\n")
    stage.say(ME, "## Skill Gate\n<!-- skill-gate:report other -->\n")
    assert stage.forge.find_comment(7, MARKER) is None


def test_our_own_comment_that_quotes_the_marker_in_its_text_is_not_taken(stage: Stage) -> None:
    stage.say(ME, f"## A bot that repeats what people say\n\nSomebody said:\n\n{MARKER}\n")
    stage.say(ME, f"Somebody said {MARKER} in one line.\n")
    assert stage.forge.find_comment(7, MARKER) is None


def test_the_oldest_of_several_own_comments_stays_and_the_others_go(stage: Stage) -> None:
    stage.say(ME, text("a"))
    stage.say("octocat", "in between")
    stage.say(ME, text("b"))
    stage.say(ME, text("c"))
    assert stage.forge.upsert_comment(7, MARKER, text("now")).action == "updated"
    assert stage.bodies() == [text("now"), "in between"]


def test_nothing_is_written_about_a_head_that_is_not_the_newest_any_more(stage: Stage) -> None:
    stage.forge.upsert_comment(7, MARKER, text("old"), head_sha=stage.head)
    newer = stage.push()
    late = stage.forge.upsert_comment(7, MARKER, text("late"), head_sha=stage.head)
    assert (late.action, late.comment) == ("stale", None)
    assert stage.bodies() == [text("old")]
    assert stage.forge.upsert_comment(7, MARKER, text("new"), head_sha=newer).action == "updated"


def test_a_body_at_the_limit_is_taken_and_one_over_it_is_refused(stage: Stage) -> None:
    head = text("")
    longest = head + "ü" * (65_536 - len(head))
    assert stage.forge.upsert_comment(7, MARKER, longest).action == "created"
    with pytest.raises(ForgeError) as caught:
        stage.forge.upsert_comment(7, MARKER, f"{longest}x")
    assert caught.value.kind == "validation"
    assert stage.bodies() == [longest]


def test_a_body_without_its_marker_is_refused_since_it_would_never_be_found_again(stage: Stage) -> None:
    for body in ("no marker at all", f"1\n2\n3\n{MARKER}\n", f"text {MARKER}"):
        with pytest.raises(ForgeError) as caught:
            stage.forge.upsert_comment(7, MARKER, body)
        assert caught.value.kind == "validation"
    assert stage.bodies() == []


def test_the_newest_status_of_a_context_counts(stage: Stage) -> None:
    assert stage.forge.status_of(stage.head, CONTEXT) is None
    stage.forge.set_status(stage.head, CONTEXT, State.PENDING, "running", "https://example.org/run/1")
    stage.forge.set_status(stage.head, "other", State.ERROR, "not ours")
    made = stage.forge.set_status(stage.head, CONTEXT, State.SUCCESS, "2 skills passed")
    found = stage.forge.status_of(stage.head, CONTEXT.upper())
    assert found == made
    assert found is not None
    assert (found.state, found.description, found.target_url) == (State.SUCCESS, "2 skills passed", "")
    assert stage.statuses(stage.head) == 3
    assert stage.forge.status_of(stage.base, CONTEXT) is None


@pytest.mark.parametrize("state", list(State))
def test_every_state_and_address_comes_back_as_it_was_set(stage: Stage, state: State) -> None:
    stage.forge.set_status(stage.head, CONTEXT, state, "words", "https://example.org/run/1?a=b#c")
    found = stage.forge.status_of(stage.head, CONTEXT)
    assert found is not None
    assert (found.state, found.target_url) == (state, "https://example.org/run/1?a=b#c")


@pytest.mark.parametrize(
    "long",
    ["word " * 60, "x" * 400, "日本語" * 60, "🎉 done " * 40, "e\u0301" * 100, "a\nb\tc " * 50],
    ids=["words", "letters", "wide", "emoji", "combining", "lines"],
)
def test_a_description_is_cut_to_what_github_takes(stage: Stage, long: str) -> None:
    made = stage.forge.set_status(stage.head, CONTEXT, State.FAILURE, long)
    assert 100 < len(made.description) <= 140
    assert made.description.endswith("…")
    found = stage.forge.status_of(stage.head, CONTEXT)
    assert found == made


def test_a_status_at_an_unknown_commit_is_refused(stage: Stage) -> None:
    with pytest.raises(ForgeError) as caught:
        stage.forge.set_status("9" * 40, CONTEXT, State.SUCCESS, "words")
    assert caught.value.kind == "validation"


def test_a_token_that_only_reads_reads_everything_and_is_told_how_to_write(stage: Stage) -> None:
    forge = stage.read_only()
    assert forge.pull_request(7).head_sha == stage.head
    assert forge.find_comment(7, MARKER) is None
    assert forge.changed_files(7).complete
    with pytest.raises(ForgeError, match="not accessible by integration") as comment:
        forge.upsert_comment(7, MARKER, text())
    with pytest.raises(ForgeError, match="not accessible by integration") as status:
        forge.set_status(stage.head, CONTEXT, State.SUCCESS, "words")
    for caught in (comment, status):
        assert caught.value.kind == "permission"
        assert caught.value.status == 403
        assert caught.value.remedy
    assert stage.bodies() == []
    assert stage.statuses(stage.head) == 0


@pytest.mark.parametrize("role", list(Permission))
def test_a_users_role_is_told_apart_from_those_beside_it(stage: Stage, role: Permission) -> None:
    stage.hire("hubot", role)
    found = stage.forge.permission_of("hubot")
    assert found is role
    assert found.allows(Permission.MAINTAIN) is (role in (Permission.MAINTAIN, Permission.ADMIN))


def test_somebody_who_does_not_exist_may_do_nothing(stage: Stage) -> None:
    assert stage.forge.permission_of("nobody-of-this-name") is Permission.NONE


def test_who_put_a_label_on_is_known_while_it_is_on(stage: Stage) -> None:
    assert stage.forge.labelled_by(7, "skill-gate-override") is None
    stage.label("bug", "octocat")
    stage.label("skill-gate-override", "hubot")
    assert set(stage.forge.pull_request(7).labels) == {"bug", "skill-gate-override"}
    assert stage.forge.labelled_by(7, "Skill-Gate-Override") == "hubot"
    stage.unlabel("skill-gate-override", "octocat")
    assert stage.forge.labelled_by(7, "skill-gate-override") is None
    stage.label("skill-gate-override", "mallory")
    assert stage.forge.labelled_by(7, "skill-gate-override") == "mallory"


def test_the_merge_base_is_what_both_have_in_common(stage: Stage) -> None:
    newer = stage.push()
    assert stage.forge.merge_base(stage.base, newer) == stage.base
    assert stage.forge.merge_base(newer, stage.head) == stage.head
    with pytest.raises(ForgeError) as caught:
        stage.forge.merge_base(stage.base, "9" * 40)
    assert caught.value.kind == "not_found"


def test_files_of_a_commit_are_listed_with_mode_and_read_by_id(stage: Stage) -> None:
    found = stage.forge.tree(stage.head)
    assert found.complete
    assert [(one.path, one.mode) for one in found.entries] == [
        ("skills/a/SKILL.md", "100644"),
        ("skills/a/run.sh", "100755"),
    ]
    assert stage.forge.blob(found.entries[0].blob) == "# Größe\n".encode()
    with pytest.raises(ForgeError) as caught:
        stage.forge.blob("9" * 40)
    assert caught.value.kind == "not_found"
