from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pydantic import SecretStr

from gate.adapters.git_fetch import fetch_commits, fetch_pull_request, mirror_of, tip_of
from gate.adapters.git_repository import GitRepository
from gate.domain.event import PullRequestEvent
from gate.errors import Cancelled, RepositoryError
from tests.story import git, make_repository

TOKEN = "ghp_canary1234567890"


def event_of(base: str, head: str, base_ref: str = "main") -> PullRequestEvent:
    return PullRequestEvent(
        number=7, base_ref=base_ref, base_sha=base, head_sha=head, head_repository="acme/skills", head_repository_id=1,
        repository="acme/skills", repository_id=1, draft=False, author="octocat", actor="octocat", action="opened",
    )  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "source", {"a.txt": "1"}, {"a.txt": "2"})


def test_head_base_branch_and_their_history_arrive(source: Path, tmp_path: Path) -> None:
    base, head = git(source, "rev-parse", "main"), git(source, "rev-parse", "feature")
    clone = tmp_path / "data/acme/skills.git"
    fetch_pull_request(clone, str(source), event_of(base, head), protocols=("file",))
    repo = GitRepository(clone)
    assert repo.resolve("refs/remotes/origin/main") == base
    assert repo.merge_base(head, base) == base
    assert repo.changed_paths(base, head) == [("M", "a.txt", None)]
    assert git(clone, "for-each-ref", "--format=%(refname)").split() == [
        "refs/remotes/origin/main",
        "refs/skill-gate/7",
    ]


def test_a_second_fetch_follows_a_base_branch_that_was_rewritten_and_a_head_that_moved(
    source: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone.git"
    base, head = git(source, "rev-parse", "main"), git(source, "rev-parse", "feature")
    fetch_pull_request(clone, str(source), event_of(base, head), protocols=("file",))
    git(source, "switch", "--quiet", "main")
    git(source, "commit", "--quiet", "--amend", "--message", "rewritten")
    git(source, "switch", "--quiet", "feature")
    git(source, "commit", "--quiet", "--amend", "--message", "other")
    base, head = git(source, "rev-parse", "main"), git(source, "rev-parse", "feature")
    fetch_pull_request(clone, str(source), event_of(base, head), protocols=("file",))
    repo = GitRepository(clone)
    assert repo.resolve("refs/remotes/origin/main") == base
    assert repo.resolve(head) == head


def test_a_head_that_no_branch_has_any_more_is_fetched_by_its_id(source: Path, tmp_path: Path) -> None:
    base, head = git(source, "rev-parse", "main"), git(source, "rev-parse", "feature")
    git(source, "switch", "--quiet", "main")
    git(source, "update-ref", "refs/pull/7/head", head)
    git(source, "branch", "--quiet", "--delete", "--force", "feature")
    fetch_pull_request(tmp_path / "clone.git", str(source), event_of(base, head), protocols=("file",))
    assert GitRepository(tmp_path / "clone.git").resolve(head) == head


@pytest.mark.parametrize(("base_ref", "head"), [("gone", "main"), ("main", "f" * 40)])
def test_what_is_not_there_is_an_error_with_gits_words(source: Path, tmp_path: Path, base_ref: str, head: str) -> None:
    base = git(source, "rev-parse", "main")
    event = event_of(base, base if head == "main" else head, base_ref)
    with pytest.raises(RepositoryError, match=r"git fetch failed: .*(gone|ffff)"):
        fetch_pull_request(tmp_path / "clone.git", str(source), event, protocols=("file",))


def test_only_https_is_spoken_unless_a_mirror_is_named(source: Path, tmp_path: Path) -> None:
    base = git(source, "rev-parse", "main")
    for place in (str(source), f"file://{source}", "http://127.0.0.1:1/x.git", f"ext::sh -c touch% {tmp_path}/ran"):
        with pytest.raises(RepositoryError, match=r"git fetch failed: .*not allowed"):
            fetch_pull_request(tmp_path / "clone.git", place, event_of(base, base))
    assert not (tmp_path / "ran").exists()


def test_nothing_of_the_other_side_runs_or_arrives_beside_the_commits(source: Path, tmp_path: Path) -> None:
    base, head = git(source, "rev-parse", "main"), git(source, "rev-parse", "feature")
    git(source, "tag", "v1", head)
    ran = tmp_path / "ran"
    for folder in (source / ".git/hooks", tmp_path / "clone.git/hooks"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("post-upload-pack", "reference-transaction", "post-update"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
            (folder / name).chmod(0o755)
    fetch_pull_request(tmp_path / "clone.git", str(source), event_of(base, head), protocols=("file",))
    assert not ran.exists()
    assert "refs/tags" not in git(tmp_path / "clone.git", "for-each-ref")


class Asked:
    """Requests of git to a web server that refuses them all."""

    def __init__(self, url: str, headers: list[tuple[str, str]]) -> None:
        self.url = url
        self.headers = headers


@contextmanager
def web_server(location: str = "", *, hold: threading.Event | None = None) -> Iterator[Asked]:
    headers: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append((self.path, self.headers.get("Authorization", "")))
            if hold is not None:
                hold.set()
                self.rfile.read(1)
            self.send_response(301 if location else 404)
            if location:
                self.send_header("Location", location + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Asked(f"http://127.0.0.1:{server.server_port}", headers)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.usefixtures("no_proxy")
def test_the_token_reaches_the_server_that_was_named_and_no_other(tmp_path: Path) -> None:
    event = event_of("a" * 40, "b" * 40)
    with web_server() as other, web_server(other.url) as named:
        with pytest.raises(RepositoryError) as error:
            fetch_pull_request(
                tmp_path / "clone.git",
                f"{named.url}/acme/skills.git",
                event,
                token=SecretStr(TOKEN),
                protocols=("http",),
            )
        expected = "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
        assert {value for _, value in named.headers} == {expected}
        assert other.headers == []
    assert TOKEN not in str(error.value)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "clone.git").rglob("*") if path.is_file())
    assert TOKEN.encode() not in kept
    assert base64.b64encode(f"x-access-token:{TOKEN}".encode()) not in kept


@pytest.mark.usefixtures("no_proxy")
def test_a_fetch_that_takes_too_long_or_is_cancelled_ends(tmp_path: Path) -> None:
    event, stop = event_of("a" * 40, "b" * 40), threading.Event()
    with web_server(hold=stop) as held:
        source = f"{held.url}/acme/skills.git"
        with pytest.raises(Cancelled):  # the server sets the flag when it is asked, and never answers
            fetch_pull_request(tmp_path / "clone.git", source, event, protocols=("http",), cancelled=stop)
        with pytest.raises(RepositoryError, match=r"took longer than 0\.1 s"):
            fetch_pull_request(tmp_path / "clone.git", source, event, protocols=("http",), timeout_s=0.1)


def test_a_mirror_is_found_by_its_name_only(tmp_path: Path) -> None:
    (tmp_path / "mirrors/acme/one.git").mkdir(parents=True)
    (tmp_path / "mirrors/acme/two").mkdir()
    (tmp_path / "outside").mkdir()
    mirrors = tmp_path / "mirrors"
    assert mirror_of(mirrors, "acme/one") == str(mirrors / "acme/one.git")
    assert mirror_of(mirrors, "acme/two") == str(mirrors / "acme/two")
    for name in ("acme/three", "../outside", "acme/..", "."):
        with pytest.raises(RepositoryError):
            mirror_of(mirrors, name)


def test_the_default_branch_and_named_tips_are_asked_for(source: Path) -> None:
    main, feature = git(source, "rev-parse", "main"), git(source, "rev-parse", "feature")
    git(source, "symbolic-ref", "HEAD", "refs/heads/main")
    git(source, "tag", "--annotate", "--message", "x", "v1", feature)
    assert tip_of(str(source), protocols=("file",)) == ("refs/heads/main", main)
    assert tip_of(str(source), "refs/heads/feature", protocols=("file",)) == ("refs/heads/feature", feature)
    assert tip_of(str(source), "refs/tags/v1", protocols=("file",)) == ("refs/tags/v1", feature)
    with pytest.raises(RepositoryError, match="has no refs/heads/none"):
        tip_of(str(source), "refs/heads/none", protocols=("file",))
    git(source, "checkout", "--quiet", "--detach", feature)
    with pytest.raises(RepositoryError, match="default"):
        tip_of(str(source), protocols=("file",))


def test_fetches_into_one_repository_wait_for_each_other(source: Path, tmp_path: Path) -> None:
    head, clone, failed = git(source, "rev-parse", "feature"), tmp_path / "c.git", list[BaseException]()

    def fetch(name: str) -> None:
        try:
            fetch_commits(clone, str(source), "main", {name: head}, protocols=("file",))
        except BaseException as error:  # noqa: BLE001 - for the assertion below
            failed.append(error)

    threads = [threading.Thread(target=fetch, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert len(git(clone, "for-each-ref", "refs/skill-gate").splitlines()) == 4
