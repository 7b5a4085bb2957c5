"""The Action of a repository without keys and a gate service: an issuer, a service over HTTP, and what then stands on GitHub."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette

from gate.adapters.gate_service import GateServiceHttp
from gate.cli import App
from gate.domain.event import PullRequestEvent
from gate.domain.forge import PullRequest
from gate.evidence.origin import Signer, new_key
from gate.evidence.pack import digest_in, pack
from gate.service.handover import Desk, PackedBundle, handover_routes
from gate.service.oidc import Door, IssuerKeys, Rules
from gate.service.store import Job, JobState, Store, open_store
from tests.asgi import served
from tests.oidc_issuer import REQUEST_TOKEN, WORKFLOW, Issuer, issuer
from tests.pipeline.action_stage import CHANGE, NUMBER, Done, Stage, stage
from tests.pipeline.test_service import service as service_process

SMOKE = "mode: smoke\n"


@dataclass
class Service:
    """A gate service whose work was done before: by the same stage, in one piece."""

    here: Stage
    github: Issuer
    store: Store
    signer: Signer
    url: str = ""
    bundle: Path | None = None
    outcome: tuple[JobState, str] = (JobState.DONE, "")
    live: Callable[[PullRequestEvent], PullRequest | None] = lambda event: None
    sends: Callable[[Path], Iterator[bytes]] = pack
    jobs: list[str] = field(default_factory=list)

    def bundle_of(self, job: Job) -> PackedBundle | None:
        assert job.state is JobState.DONE
        return None if self.bundle is None else PackedBundle(digest_in(self.bundle), self.sends(self.bundle))

    def taken(self) -> None:
        (job, *_) = self.store.jobs()
        if job.state is JobState.WAITING and self.outcome[0] is not JobState.WAITING:
            self.store.begin(job.id, "w")
            self.store.finish(job.id, self.outcome[0], reason=self.outcome[1], gate_state="success", cost_usd=0.5)
        self.jobs.append(job.id)

    def ask(self, *, app: Callable[[App], App] = lambda app: app, **inputs: str) -> Done:
        """The Action as a keyless repository runs it."""
        self.here.environ |= {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.github.address}/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }
        self.here.environ.pop("ANTHROPIC_API_KEY", None)
        self.github.changes = {"repository_id": str(self.here.repository.id), **self.github.changes}
        given = {"service_url": self.url, **inputs}
        return self.here.run(app=lambda found: app(_quick(found)), given=given)


def _quick(app: App) -> App:
    """Without waits between tries."""
    connect = app.connect_service

    def connect_quickly(url: str) -> Any:
        found = connect(url)
        assert isinstance(found, GateServiceHttp)
        found._first_wait_s = 0.0
        return found

    return replace(app, connect_service=connect_quickly)


@contextmanager
def service(
    folder: Path, *, policy: str = "", change: Mapping[str, str | None] = CHANGE, listed: bool = True
) -> Iterator[Service]:
    """A stage, an issuer, and a service that the base policy names."""
    signer = Signer(new_key())
    folder.mkdir(exist_ok=True)
    store = open_store(f"sqlite:///{folder / 'service.sqlite'}")
    proxy = Starlette()
    with issuer() as github, served(proxy) as url:
        names = f"service_url: {url}\n" if listed else ""
        names += policy.replace("{key}", signer.public)
        with stage(folder, policy=SMOKE + names, change=change) as here:
            there = Service(here, github, store, signer, url)
            rules = Rules(url, {here.repository.id: 900}, frozenset({WORKFLOW}), issuer=github.address)
            desk = Desk(
                door=Door(rules, IssuerKeys(github.address), store),
                store=store,
                signer=signer,
                look=lambda event: there.live(event),  # noqa: PLW0108 - a test sets another one
                bundle_of=there.bundle_of,
                usd_per_month=10.0,
                taken=there.taken,
            )
            proxy.router.routes.extend(handover_routes(desk))
            yield there
    store.close()


def _work(there: Service, **inputs: str) -> None:
    """What the service does with it: the same job, told to say nothing on GitHub."""
    done = there.here.run(given={"comment": "never", "status": "false", **inputs})
    assert done.code in (0, 1), done.text
    there.bundle = there.here.bundle.rename(there.here.folder / "worked")


def test_the_work_is_done_elsewhere_and_reported_here(tmp_path: Path) -> None:
    with service(tmp_path) as there:
        _work(there)
        here = there.here
        asked = len(here.server.requests)
        seen: list[str] = []

        def look(app: App) -> App:
            assert REQUEST_TOKEN not in app.environ.values()
            seen.append(app.secrets["actions-id"])
            return app

        done = there.ask(app=look)
        assert done.code == 0, done.text
        assert [state for state, _ in here.statuses()] == ["pending", "success"]
        assert len(here.comments) == 1
        assert (here.bundle / "manifest.json").read_bytes() == (tmp_path / "worked/manifest.json").read_bytes()
        assert done.outputs["state"] == "success"
        assert f"handed over to {there.url} as job {there.jobs[0]}" in done.text
        # Nothing was run and no model was asked here; the job was asked for once, with a token made for this service.
        assert len(here.server.requests) == asked
        assert there.github.requests == [(there.url, f"Bearer {REQUEST_TOKEN}")]
        (job,) = there.store.jobs()
        assert (job.repository, job.number, job.head_sha) == ("acme/skills", NUMBER, here.head)
        assert dict(job.inputs) == {"comment": "never", "status": "false"}
        assert seen == [REQUEST_TOKEN]
        assert REQUEST_TOKEN not in done.text
        assert "eyJ" not in done.text  # how every token and ticket begins
        # A second run for the same head pays nothing; one after the budget is spent waits for the next month.
        assert there.ask().code == 0
        assert len(there.store.jobs()) == 1
        assert there.store.budget(here.repository.id).jobs == 1
        there.store.set_budget(here.repository.id, 0.5)
        spent = there.ask()
        assert spent.code == 2
        assert "refused (budget)" in spent.text


def test_a_service_that_the_base_policy_does_not_name_is_told_nothing(tmp_path: Path) -> None:
    with service(tmp_path, listed=False) as there:
        done = there.ask()
        assert there.github.requests == []
        assert there.store.jobs() == []
        assert f'the input service-url "{there.url}" was not followed' in done.text
        assert done.outputs["verdict"] != "pass"
    with service(tmp_path / "other") as there:
        done = there.ask(service_url="https://elsewhere.example.org")
        assert "was not followed" in done.text
        assert there.github.requests == []


@pytest.mark.parametrize(
    ("claims", "rule"),
    [
        ({"job_workflow_ref": f"acme/skills/.github/workflows/x.yml@refs/pull/{NUMBER}/merge"}, "job_workflow_ref"),
        ({"repository_id": "2"}, "repository_id"),
        ({"repository_owner_id": "2"}, "repository_owner_id"),
        ({"repository": "acme/other"}, "repository_id"),
        ({"ref": "refs/pull/8/merge"}, "ref"),
        ({"aud": "https://elsewhere.example.org"}, "aud"),
    ],
)
def test_a_job_that_the_service_turns_away_is_an_error_that_names_the_rule(
    tmp_path: Path, claims: dict[str, str], rule: str
) -> None:
    with service(tmp_path) as there:
        there.github.changes = claims
        done = there.ask()
        assert done.code == 2, done.text
        assert f"refused ({rule})" in done.text
        assert [state for state, _ in there.here.statuses()] == ["pending", "error"]
        assert there.store.jobs() == []


def test_a_forks_change_is_never_handed_over(tmp_path: Path) -> None:
    with service(tmp_path) as there:
        repo = {"id": 99, "full_name": "stranger/skills", "default_branch": "main"}
        fork = there.here.payload(head={"sha": there.here.head, "ref": "feature", "repo": repo})
        done = there.here.run(payload=fork, service_url=there.url)
        assert "fork" in done.text
        assert there.github.requests == []
        assert there.store.jobs() == []


def test_the_service_believes_github_and_not_the_event_that_it_is_no_fork(tmp_path: Path) -> None:
    with service(tmp_path) as there:
        forge = there.here
        live = PullRequest(
            number=NUMBER, state="open", draft=False, author="octocat", author_association="NONE",
            head_sha=forge.head, head_ref="feature", head_repository_id=99, base_sha=forge.base, base_ref="main",
            base_repository_id=forge.repository.id, changed_files=1,
        )  # fmt: skip
        for change, rule in (
            ({}, "fork"),
            ({"head_repository_id": None}, "fork"),
            ({"head_repository_id": forge.repository.id, "head_sha": "c" * 40}, "head"),
            ({"head_repository_id": forge.repository.id, "state": "closed"}, "head"),
        ):
            there.live = lambda event, change=change: live.model_copy(update=change)  # type: ignore[misc]
            done = there.ask()
            assert f"refused ({rule})" in done.text
        assert there.store.jobs() == []


def test_whose_policy_holds_is_what_github_says_and_not_the_event(tmp_path: Path) -> None:
    with service(tmp_path) as there:
        _work(there)
        live = PullRequest(
            number=NUMBER, state="open", draft=False, author="octocat", author_association="MEMBER",
            head_sha=there.here.head, head_ref="feature", head_repository_id=there.here.repository.id,
            base_sha="d" * 40, base_ref="strict", base_repository_id=there.here.repository.id, changed_files=1,
        )  # fmt: skip
        there.live = lambda event: live
        there.ask()
        (job,) = there.store.jobs()
        base = json.loads(there.store.payload(job.id))["pull_request"]["base"]
        assert (base["ref"], base["sha"]) == ("strict", "d" * 40)


def test_no_body_of_a_stranger_is_read(tmp_path: Path) -> None:
    with service(tmp_path) as there:
        address = urlsplit(there.url)
        for token in (
            "",
            "Authorization: Bearer a.b.c\r\n",
            f"Authorization: Bearer {there.github.token('https://x')}\r\n",
        ):
            with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=30) as connection:
                connection.sendall(
                    f"POST /handover HTTP/1.1\r\nHost: x\r\n{token}Content-Length: 9000\r\n\r\n".encode()
                )
                assert connection.recv(4096).startswith(b"HTTP/1.1 401 ")


def test_what_does_not_hold_is_never_reported_however_well_it_is_signed(tmp_path: Path) -> None:
    from gate.evidence.seal import seal_bundle

    def changed(root: Path) -> Iterator[bytes]:
        data = bytearray(b"".join(pack(root)))
        data[-1] ^= 1
        yield bytes(data)

    with service(tmp_path) as there:
        _work(there)
        assert there.bundle is not None
        # Changed on the way.
        there.sends = changed
        done = there.ask()
        assert done.code == 3, done.text
        assert "not what the bundle" in done.text
        # As it was, but milder than this job would have judged.
        there.sends = pack
        done = there.ask(mode="quick")
        assert done.code == 2, done.text
        assert "judged with mode smoke, this job asks for quick" in done.text
        job = there.store.jobs()[0]
        assert dict(job.inputs) == {"comment": "never", "status": "false", "mode": "quick"}
        # Sealed and signed anew over a verdict that does not follow from the evidence.
        report = there.bundle / "report.json"
        value = json.loads(report.read_text())
        report.write_bytes(report.read_bytes().replace(b'"verdict": "conditional"', b'"verdict": "pass"'))
        assert json.loads(report.read_text()) != value
        (there.bundle / "manifest.json").unlink()
        seal_bundle(there.bundle, {"session_id": value["session_id"], "state": value["state"]})
        done = there.ask()
        assert done.code == 3, done.text
        assert "does not hold" in done.text
        assert [state for state, _ in there.here.statuses()] == ["pending", "error"] * 3
        assert there.here.comments == []


def test_only_a_key_that_the_base_policy_pins_counts(tmp_path: Path) -> None:
    with service(tmp_path / "right", policy="service_keys: ['{key}']\n") as there:
        _work(there)
        assert there.ask().code == 0
    other = Signer(new_key()).public
    with service(tmp_path / "wrong", policy=f"service_keys: ['{other}']\n") as there:
        _work(there)
        done = there.ask()
        assert done.code == 3, done.text
        assert "no key that is trusted" in done.text
        assert there.here.comments == []


def test_a_job_that_ends_without_a_report_says_why(tmp_path: Path) -> None:
    with service(tmp_path) as there:
        there.outcome = (JobState.FAILED, "the engine is gone")
        done = there.ask()
        assert done.code == 3
        assert "the job there is failed: the engine is gone" in done.text
        assert [state for state, _ in there.here.statuses()] == ["pending", "error"]


def test_a_cancelled_action_takes_its_work_back(tmp_path: Path) -> None:
    with service(tmp_path) as there:
        there.outcome = (JobState.WAITING, "")

        def cancel() -> None:
            there.here.cancelled.set()

        timer = threading.Timer(1.0, cancel)
        timer.start()
        done = there.ask()
        timer.join()
        assert done.code == 130, done.text
        (job,) = there.store.jobs()
        assert job.state is JobState.CANCELLED


def test_without_the_permission_to_say_who_it_is_the_job_says_what_is_missing(tmp_path: Path) -> None:
    with service(tmp_path) as there:
        there.here.environ.pop("ANTHROPIC_API_KEY")
        done = there.here.run(service_url=there.url)
        assert done.code == 2
        assert "id-token: write" in done.text


def test_the_whole_way_from_an_action_without_keys_to_a_service_and_back(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with stage(tmp_path, policy=SMOKE + f"service_url: {url}\n") as here, issuer() as github:
        wishes = ("--port", str(port), "--public-url", url, "--oidc-issuer", github.address)
        allowed = ("--keyless", f"{here.repository.id}:900", "--keyless-workflow", WORKFLOW)
        with service_process(here, *wishes, *allowed) as there:
            github.changes = {"repository_id": str(here.repository.id)}
            environ = dict(here.environ)
            here.environ |= {
                "ACTIONS_ID_TOKEN_REQUEST_URL": f"{github.address}/token?x=1",
                "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
            }
            del here.environ["ANTHROPIC_API_KEY"]
            done = here.run(app=_quick, given={"service_url": url})
            here.environ = environ
            assert done.code == 0, (done.text, there.log.lines)
            (job,) = there.jobs
            assert (job.state, job.trigger.value, job.gate_state) == (JobState.DONE, "action", "success")
        # One pending status and one result, both by the Action's own token; the service said nothing on GitHub.
        assert [state for state, _ in here.statuses()] == ["pending", "success"]
        assert len(here.comments) == 1
        assert here.sandbox.boxes
        assert (here.bundle / "report.json").is_file()


def test_a_service_that_is_not_there_is_infrastructure(tmp_path: Path) -> None:
    with service(tmp_path, policy="", listed=False) as there:
        pass
    with stage(tmp_path / "other", policy=SMOKE + f"service_url: {there.url}\n") as here:
        with issuer() as github:
            alone = Service(here, github, there.store, there.signer, there.url)
            done = alone.ask()
        assert done.code == 3, done.text
        assert [state for state, _ in here.statuses()] == ["pending", "error"]
