"""The whole service in one process: GitHub's webhook over HTTP, a mirror to fetch from, and what then stands on GitHub."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from pydantic import SecretStr

from gate.adapters.github_app import GitHubApp
from gate.cli import main as run_command
from gate.evidence.pack import unpack
from gate.service.bundles import FolderBundles
from gate.service.run import opened
from gate.service.store import Job, JobState, Trigger
from gate.wiring import bind
from reporters import status
from tests.pipeline.action_stage import NUMBER, Stage, stage
from tests.story import git, start_gate
from tests.unit.service.deliveries import SECRET, Answered, Listening, deliver, in_thread, request

ROOT = Path(__file__).resolve().parents[2]
SMOKE = "mode: smoke\n"
MIRROR = "acme/skills.git"


class Service:
    """A service that listens, for one stage."""

    def __init__(self, here: Stage, port: int, log: Listening, code: list[int]) -> None:
        self.here = here
        self.port = port
        self.log = log
        self.code = code

    def send(self, payload: Mapping[str, Any], delivery: str = "d-1", **changes: str) -> Answered:
        return deliver(self.port, payload, delivery, **changes)

    def until_idle(self) -> None:
        """Nothing waits and nothing is being judged."""
        quiet = threading.Event()
        for _ in range(1200):
            health = request(self.port, "GET", "/healthz").value
            if not health["waiting"] and not health["judging"]:
                return
            quiet.wait(0.05)
        raise AssertionError(self.log.lines)

    @property
    def bundles(self) -> list[Path]:
        return sorted((self.here.folder / "data/bundles").glob("*.bundle"))

    @property
    def jobs(self) -> list[Job]:
        """The newest first."""
        store = opened(self.here.folder / "data", None)
        try:
            return store.jobs()
        finally:
            store.close()


@contextmanager
def service(
    here: Stage,
    *arguments: str,
    with_mirror: bool = True,
    environ: Mapping[str, str] | None = None,
    repository: str | None = "acme/skills",
) -> Iterator[Service]:
    """``skill-gate serve`` in a thread, on a free port."""
    mirrors = here.folder / "mirrors"
    if not mirrors.exists():
        mirrors.mkdir()
        if with_mirror:
            mirror(here)
    # Nothing of a runner is around a service.
    around = {name: here.environ[name] for name in ("GITHUB_API_URL", "GITHUB_SERVER_URL", "ANTHROPIC_API_KEY")}
    around |= {"SKILL_GATE_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": here.token.value if here.token else ""}
    around |= environ or {}
    log, code = Listening(), list[int]()
    bound = bind(around, here.cancelled)
    assert SECRET not in around.values()
    app = replace(bound, make_sandbox=lambda: here.sandbox, say=log.say, abort=lambda: log.say("left at once"))
    line = ["serve", "--port", "0", "--data", str(here.folder / "data")]
    line += ["--repository", repository] if repository is not None else []
    line += ["--mirrors", str(mirrors), "--accept-runc", *arguments]
    here.cancelled.clear()
    with in_thread(lambda: code.append(run_command(app, line)), here.cancelled):
        yield Service(here, log.port, log, code)
    assert code == [0], log.lines


def mirror(here: Stage) -> None:
    """A bare mirror as an operator keeps it, with the base branch and what GitHub calls the head of the pull request."""
    place = here.folder / "mirrors" / MIRROR
    git(here.folder, "clone", "--quiet", "--bare", str(here.workspace), str(place))
    git(here.workspace, "push", "--quiet", str(place), f"{here.base}:refs/heads/main")
    git(here.workspace, "push", "--quiet", str(place), f"{here.head}:refs/pull/{NUMBER}/head")
    git(place, "symbolic-ref", "HEAD", "refs/heads/main")  # as GitHub has it


def test_a_signed_delivery_is_answered_at_once_and_ends_as_a_comment_and_a_status(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        answer = there.send(here.payload())
        assert (answer.code, answer.value["result"]) == (202, "queued")
        there.until_idle()
        assert here.statuses() == [("pending", status.RUNNING), ("success", "success: 1 is conditional (skills/sums)")]
        assert here.statuses(here.merge) == []
        (comment,) = here.comments
        assert f"`{here.base[:12]}..{here.head[:12]}`" in comment
        assert len(there.bundles) == 1
        assert here.sandbox.boxes


def test_the_same_head_is_judged_once_and_a_newer_one_updates_the_comment(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        assert there.send(here.payload()).value["result"] == "queued"
        assert there.send(here.payload()).value["result"] == "duplicate"
        there.until_idle()
        assert there.send(here.payload(), "d-2").value["result"] == "duplicate"
        assert len(here.statuses()) == 2
        newer = commit(here)
        assert there.send(here.payload(head=head_of(here, newer)), "d-3").value["result"] == "queued"
        there.until_idle()
        (comment,) = here.comments
        assert newer[:12] in comment
        assert [state for state, _ in here.statuses(newer)] == ["pending", "success"]
        assert len(there.bundles) == 2


def head_of(here: Stage, sha: str) -> dict[str, Any]:
    return {**here.payload()["pull_request"]["head"], "sha": sha}


def commit(here: Stage) -> str:
    """Somebody pushes, to GitHub and so to the mirror."""
    git(here.workspace, "switch", "--quiet", "--detach", here.head)
    skill = here.workspace / "skills/sums/SKILL.md"
    skill.write_text(skill.read_text() + "\nMind the sign.\n", encoding="utf-8")
    git(here.workspace, "commit", "--quiet", "--all", "--message", "more")
    sha = here.push(git(here.workspace, "rev-parse", "HEAD"))
    git(here.workspace, "push", "--quiet", str(here.folder / "mirrors" / MIRROR), f"{sha}:refs/pull/{NUMBER}/head")
    return sha


def test_a_forks_head_is_read_and_not_run(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        repo = {"id": 99, "full_name": "stranger/skills", "default_branch": "main"}
        there.send(here.payload(head={"sha": here.head, "ref": "feature", "repo": repo}))
        there.until_idle()
        (pending, last) = here.statuses()
        assert (pending[0], last[0]) == ("pending", "pending")
        (comment,) = here.comments
        assert "fork" in comment
        assert here.sandbox.boxes == []
        assert here.server.requests == []


def test_nobody_without_the_secret_gets_anything_done(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        assert there.send(here.payload(), x_hub_signature_256="sha256=" + "0" * 64).code == 401
        assert there.send(here.payload(), x_hub_signature_256="").code == 401
        there.until_idle()
        assert here.statuses() == []
        assert not (here.folder / "data/bundles").exists()


def test_commits_that_cannot_be_fetched_are_an_error_on_the_head_and_are_tried_again_when_asked(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here, with_mirror=False) as there:
        there.send(here.payload())
        there.until_idle()
        assert [state for state, _ in here.statuses()] == ["pending", "error"]
        assert "no mirror of acme/skills" in here.statuses()[1][1]
        assert here.comments == []
        mirror(here)
        assert there.send(here.payload()).value["result"] == "queued"  # the same delivery, delivered again
        there.until_idle()
        assert [state for state, _ in here.statuses()][2:] == ["pending", "success"]


def test_the_key_the_token_and_the_secret_are_in_nothing_that_is_kept_or_said(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        there.send(here.payload())
        there.until_idle()
        for _ in range(600):  # the job is done before its working files are gone
            if not any((here.folder / "data/jobs").iterdir()):
                break
            threading.Event().wait(0.05)
        assert there.bundles
        kept = [path.read_bytes() for path in (here.folder / "data").rglob("*") if path.is_file()]
        kept += [line.encode() for line in there.log.lines] + [body.encode() for body in here.comments]
        assert here.token is not None
        for secret in (SECRET, here.token.value, here.environ["ANTHROPIC_API_KEY"]):
            assert not any(secret.encode() in one for one in kept)


def test_the_program_listens_and_ends_well_when_it_is_told_to_stop(tmp_path: Path) -> None:
    process = start_gate(
        *("serve", "--repository", "acme/skills", "--port", "0", "--data", tmp_path, "--accept-runc"),
        SKILL_GATE_WEBHOOK_SECRET=SECRET,
        GITHUB_TOKEN="ghp_x",
    )
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("listening on http://127.0.0.1:"), first
        port = int(first.rpartition(":")[2])
        assert request(port, "GET", "/healthz").code == 200
        assert deliver(port, {}, x_github_event="ping").value["result"] == "ignored"
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert (process.returncode, rest) == (0, "stopping on SIGTERM: removing sandboxes\nstopped\n")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("missing", "words"),
    [("SKILL_GATE_WEBHOOK_SECRET", "SKILL_GATE_WEBHOOK_SECRET"), ("GITHUB_TOKEN", "no token to report with")],
)
@pytest.mark.parametrize("empty", [None, "", "  "])
def test_it_does_not_start_without_a_secret_or_a_token(missing: str, words: str, empty: str | None) -> None:
    environ = {"SKILL_GATE_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": "ghp_x"}
    del environ[missing]
    if empty is not None:
        environ[missing] = empty
    said: list[str] = []
    app = replace(bind(environ), say=said.append)
    assert run_command(app, ["serve", "--repository", "acme/skills", "--port", "0"]) == 2
    assert words in "\n".join(said)


@pytest.mark.parametrize("name", ["acme", "acme/skills/x", "../skills", "acme/..", "ac me/x", ""])
def test_a_repository_is_an_owner_and_a_name(name: str) -> None:
    said: list[str] = []
    app = replace(bind({"SKILL_GATE_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": "ghp_x"}), say=said.append)
    assert run_command(app, ["serve", "--repository", name, "--port", "0"]) == 2
    assert "OWNER/NAME was expected" in said[0]


def test_a_writer_lets_one_head_of_a_fork_be_run_and_a_stranger_does_not(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        fork = here.github.add_repository("stranger/skills", fork_of=here.repository)
        here.pull.head_repository = fork
        repo = {"id": fork.id, "full_name": "stranger/skills", "default_branch": "main"}
        there.send(here.payload(head={"sha": here.head, "ref": "feature", "repo": repo}))
        there.until_idle()
        assert here.sandbox.boxes == []
        here.github.world.user("mallory")
        there.send(approval(here, "mallory"), "c-1", x_github_event="issue_comment")
        there.until_idle()
        (refused, _) = there.jobs
        assert refused.state is JobState.NOTHING, there.log.lines
        assert (refused.state, refused.trigger) == (JobState.NOTHING, Trigger.APPROVAL)
        assert "mallory may not write" in refused.reason
        assert here.sandbox.boxes == []
        there.send(approval(here, "octocat"), "c-2", x_github_event="issue_comment")
        there.until_idle()
        approved = there.jobs[0]
        assert (approved.state, approved.gate_state, approved.approved_by) == (JobState.DONE, "success", "octocat")
        assert here.sandbox.boxes
        # Another commit: the approval was for the one before.
        boxes = len(here.sandbox.boxes)
        here.push("e" * 40)
        there.send(approval(here, "octocat", sha="e" * 39 + "d"), "c-3", x_github_event="issue_comment")
        there.until_idle()
        assert there.jobs[0].state is not JobState.DONE
        assert len(here.sandbox.boxes) == boxes


def approval(here: Stage, login: str, sha: str = "") -> dict[str, Any]:
    """The comment of somebody who says that a head may be run."""
    return {
        "action": "created",
        "issue": {"number": NUMBER, "pull_request": {"url": "x"}},
        "comment": {"body": f"/skill-gate approve {sha or here.head}", "author_association": "MEMBER"},
        "repository": {"id": here.repository.id, "full_name": "acme/skills"},
        "sender": {"login": login},
    }


def test_an_audit_of_the_default_branch_is_started_by_the_api_and_its_bundle_verifies(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here, service(here) as there:
        store = opened(here.folder / "data", None)
        _, secret = store.add_token("t", ["acme/skills"], may_write=True)
        headers = {"authorization": f"Bearer {secret}", "content-type": "application/json"}
        body = b'{"repository": "acme/skills", "mode": "smoke"}'
        made = request(there.port, "POST", "/api/v1/audits", body, headers)
        assert made.code == 202, made
        there.until_idle()
        path = f"/api/v1/audits/{made.value['id']}"
        done = request(there.port, "GET", path, b"", headers).value
        assert done["state"] == "done", there.log.lines
        assert (done["state"], done["result"], done["verdicts"]) == ("done", "success", {"skills/sums": "conditional"})
        assert here.comments == []
        folder = tmp_path / "unpacked"
        unpack(FolderBundles(here.folder / "data/bundles").get(made.value["id"]), folder)
        said: list[str] = []
        assert run_command(replace(bind({}), say=said.append), ["verify", str(folder)]) == 0, said
        store.close()


def test_strangers_code_wants_a_kernel_of_its_own_or_a_word(tmp_path: Path) -> None:
    with stage(tmp_path, policy=SMOKE) as here:
        said: list[str] = []
        environ = {"SKILL_GATE_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": "ghp_x"}
        app = replace(bind(environ), say=said.append, make_sandbox=lambda *kind: here.sandbox)
        assert run_command(app, ["serve", "--repository", "acme/skills", "--port", "0", "--data", str(tmp_path)]) == 2
        assert "runsc" in "\n".join(said)
        assert "--accept-runc" in "\n".join(said)


def test_tokens_are_made_listed_and_taken_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = bind({})
    data = ["--data", str(tmp_path)]
    assert run_command(app, ["token", "add", "ci", "--repository", "Acme/Skills", "--write", "--days", "2", *data]) == 0
    secret = capsys.readouterr().out.strip()
    assert run_command(app, ["token", "ls", *data]) == 0
    listed = capsys.readouterr().out
    assert "'ci'\tacme/skills\twrite\tuntil " in listed
    assert secret not in listed
    assert run_command(app, ["token", "revoke", "1", *data]) == 0
    assert run_command(replace(app, say=lambda text: None), ["token", "revoke", "2", *data]) == 2
    store = opened(tmp_path, None)
    assert store.token_of(secret) is None
    store.close()


def test_the_one_command_of_the_readme_leads_to_a_running_service(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    command = section.partition("```sh\n")[2].partition("\n```")[0]
    words = shlex.split(command)
    given = dict(word.split("=", 1) for word in words if "=…" in word)
    assert set(given) == {"SKILL_GATE_WEBHOOK_SECRET", "GITHUB_TOKEN", "ANTHROPIC_API_KEY"}
    arguments = [word.replace("OWNER/NAME", "acme/skills") for word in words[len(given) :]]
    assert arguments[:2] == ["skill-gate", "serve"]
    environ = {"SKILL_GATE_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": "ghp_x", "ANTHROPIC_API_KEY": "sk-x"}
    # As it stands there, but for the port, which somebody else may have, and the folder.
    process = start_gate(*arguments[1:], "--port", "0", "--data", tmp_path, **environ)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("listening on http://127.0.0.1:"), first
        port = int(first.rpartition(":")[2])
        assert request(port, "GET", "/readyz").value == {"status": "ready"}
        assert deliver(port, {}, x_github_event="ping").code == 202
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_as_an_app_each_job_has_a_token_for_its_one_repository(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    with stage(tmp_path, policy=SMOKE, token=None) as here:
        here.github.world.apps["4711"] = public
        here.github.world.installations["acme/skills"] = 99
        app = {"SKILL_GATE_APP_ID": "4711", "SKILL_GATE_APP_KEY": pem}
        with service(here, environ=app, repository=None) as there:
            there.send({**here.payload(), "installation": {"id": 99}})
            there.until_idle()
            assert [state for state, _ in here.statuses()] == ["pending", "success"]
            assert len(here.comments) == 1
        (asked,) = [one for one in here.github.asked if one.path.endswith("/access_tokens")]
        assert asked.body["repositories"] == ["skills"]
        assert asked.body["permissions"]["contents"] == "read"
        used = {one.token.value for one in here.github.asked if one.token is not None and one.token.kind == "app"}
        assert len(used) == 1
        kept = [path.read_bytes() for path in (here.folder / "data").rglob("*") if path.is_file()]
        assert not any(secret.encode() in one for one in kept for secret in (*used, pem.splitlines()[5]))


def test_an_app_that_was_taken_out_and_put_in_again_gets_its_tokens(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    with stage(tmp_path, policy=SMOKE, token=None) as here:
        here.github.world.apps["4711"] = public
        here.github.world.installations["acme/skills"] = 100
        app = GitHubApp("4711", SecretStr(pem), here.environ["GITHUB_API_URL"])
        app._installations["acme/skills"] = 99  # as it was before
        assert app.token("acme/skills").get_secret_value()
        assert app._installations["acme/skills"] == 100


def test_half_an_app_or_a_broken_key_is_said_at_the_start(tmp_path: Path) -> None:
    for environ, words in (
        ({"SKILL_GATE_APP_ID": "1"}, "only a half"),
        ({"SKILL_GATE_APP_ID": "1", "SKILL_GATE_APP_KEY": "no key"}, "cannot be used"),
        ({"SKILL_GATE_APP_ID": "1", "SKILL_GATE_APP_KEY_FILE": str(tmp_path / "none")}, "cannot be read"),
    ):
        said: list[str] = []
        app = replace(bind({**environ, "SKILL_GATE_WEBHOOK_SECRET": SECRET}), say=said.append)
        assert run_command(app, ["serve", "--port", "0", "--accept-runc", "--data", str(tmp_path)]) == 2
        assert words in "\n".join(said)
