"""What the service does for a job, step by step: the Action's own way, cut where another worker may go on.

A job has a folder of its own below the data folder, which every worker of a service sees: the event, the plan, each part,
the merged bundle. Any step may be killed and begun again: the plan is written whole or not at all, a part goes on where
its journal ends, merging begins anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate.cli.action import run_action
from gate.cli.app import App, JobNeeds
from gate.cli.failures import explain
from gate.cli.session import cache_secret
from gate.cli.sharding import merge_parts, run_part, write_plan
from gate.cli.spending import cap_of, counted, is_busy, spending_of
from gate.domain.event import PullRequestEvent
from gate.domain.forge import Permission, PullRequest
from gate.domain.report import GateReport
from gate.domain.sandbox import BoxSpec, Examined, OneShotResult, OneShotSpec, ProgramFile, ReapReport, SandboxFacts
from gate.errors import Cancelled, ConfigurationError, ForgeError, GateError, InfrastructureError
from gate.evidence.bundle import SESSION, Bundle
from gate.protocols import Box, Repository, Sandbox
from gate.settings import Settings

if TYPE_CHECKING:
    from gate.cli.app import ServiceJob, ServiceLine

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PURPOSE = b"skill-gate job seed 1\0"
_SETTLING_S = 60
"""For parts that were told to stop: they leave within a few seconds, and a worker hears of it within a few more."""
PARTS = 8
"""At most; the plan has as many as it has cases."""
BUNDLE = "skill-gate"
"""The folder of the merged bundle: what a runner's temporary folder would hold."""


class _Enough(BaseException):
    """The Action has come as far as it should: the settings are known. No ``Exception``, which it would report."""


@dataclass(frozen=True)
class Desk:
    """Does the steps of jobs. ``gate.service.jobs.Desk`` says what each must hold to."""

    app: App
    data: Path
    mirrors: Path | None
    inputs: Mapping[str, str]
    """As a runner hands them over."""
    needs: JobNeeds
    jobs: int = 4
    """Sandboxes at the same time, for each part."""
    parts: int = PARTS

    def plan(self, job: ServiceJob, payload: bytes, control: ServiceLine) -> Any:
        """Fetch, look, and cut; what is there from before a kill is used."""
        place = _Place(self.data, job.id)
        place.folder.mkdir(parents=True, exist_ok=True)
        place.payload.write_bytes(self._event_of(job, payload, control))
        if place.planned is None:
            self._make_plan(job, place, control)
        planned = place.planned
        if planned is None:
            raise InfrastructureError("The plan was not written.")
        return self.needs.planned(**planned)

    def _make_plan(self, job: ServiceJob, place: _Place, control: ServiceLine) -> None:
        found: list[Settings] = []

        def plan(app: App, settings: Settings) -> GateReport:
            matrix = write_plan(app, settings, place.plan, self.parts)
            found.append(settings)
            place.write_planned(
                parts=len(json.loads(matrix)["shard"]),
                provider=self.needs.provider_of(settings.models.executor if settings.models else ""),
            )
            raise _Enough

        app = self._app(job, place, control)
        if why := self._unapproved(job, app):
            place.write_planned(parts=0, reason=why)
            return
        try:
            code = run_action(app, plan)
        except _Enough:
            return
        if control.stopping.is_set():
            raise Cancelled("The service is stopping.")
        if control.cancelled.is_set():
            raise Cancelled("The job was told to end.")
        # It has reported already, whatever it was.
        said = place.said()
        place.write_planned(parts=0, reason=said, failed=code != 0)

    def _unapproved(self, job: ServiceJob, app: App) -> str:
        """Why an approval counts for nothing, as a clause; what GitHub says now counts, not what a comment's event said."""
        if not job.approved_by or app.make_forge(False).permission_of(job.approved_by).allows(Permission.WRITE):
            return ""
        return f"{job.approved_by} may not write to {job.repository}, so this approval counts for nothing"

    def part(self, job: ServiceJob, number: int, of: int, control: ServiceLine) -> None:
        """One part, in a folder of its own; goes on where it was stopped."""
        place = _Place(self.data, job.id)
        app = self._app(job, place, control)
        scope = f"{number}-{of}"
        app = replace(app, make_sandbox=lambda *kind: ScopedSandbox(self.app.make_sandbox(*kind), scope))
        with place.alone(f"part-{scope}", control.cancelled):
            if place.is_sealed(number, of):
                return
            run_part(app, place.plan, f"{number}/{of}", place.part(number, of), cache=None, jobs=self.jobs)

    def conclude(self, job: ServiceJob, of: int, control: ServiceLine) -> Any:
        """Merge, report, keep."""
        place = _Place(self.data, job.id)
        app = self._app(job, place, control)
        folders = [place.part(number, of) for number in range(1, of + 1)]
        made: list[GateReport] = []

        def merged(app: App, settings: Settings) -> GateReport:
            del settings
            made.append(merge_parts(app, place.plan, folders, place.bundle))
            return made[0]

        with place.alone("merge", control.cancelled):
            code = run_action(app, merged, begun=True)
        if control.cancelled.is_set():
            raise Cancelled("The job was told to end.")
        if not made and code == 0:
            return place.said() or "there is nothing to judge any more"
        if not made or made[0].exit_code != code:
            raise GateError(place.said() or "There is no report.")
        report = made[0]
        self.needs.keep(job.id, place.bundle)
        return self.needs.concluded(
            gate_state=report.state.value,
            headline=report.headline,
            verdicts={skill.path: skill.verdict.value for skill in report.skills},
            calls=sum(use.calls for use in report.usage),
            cost_usd=sum(use.known_cost_usd for use in report.usage),
            counted_usd=counted(report.usage, cap_of(Bundle(place.bundle).read_json(SESSION))),
        )

    def spent(self, job: ServiceJob, control: ServiceLine) -> tuple[int, float, float]:
        """What a job that ends without a report has spent, once its parts have stopped or were waited for long enough."""
        place = _Place(self.data, job.id)
        parts = sorted(path for path in place.folder.glob("part-*-*") if path.is_dir())
        for _ in range(_SETTLING_S):
            if not any(map(is_busy, parts)) or control.stopping.wait(1):
                break
        return spending_of(self.app, place.plan, place.bundle, parts)

    def failed(self, job: ServiceJob, payload: bytes, error: GateError | None, control: ServiceLine) -> None:
        """Report what became of it, once more by the Action's own way: it knows what may be said where."""
        place = _Place(self.data, job.id)
        try:
            if place.planned is not None and place.planned["failed"]:
                return  # planning has reported it
            place.folder.mkdir(parents=True, exist_ok=True)
            if not place.payload.exists():
                place.payload.write_bytes(payload)

            run_action(self._app(job, place, control), partial(_raise, error), begun=True)
        except Exception as problem:  # noqa: BLE001 - the job ends all the same
            explain(problem, control.say)

    def tidy(self, job: ServiceJob) -> None:
        """The bundle is in its store; parts and plan are of no more use."""
        shutil.rmtree(_Place(self.data, job.id).folder, ignore_errors=True)

    # --- around a step

    def _app(self, job: ServiceJob, place: _Place, control: ServiceLine) -> App:
        """The Action's world: an environment that says what a runner's would, and nothing of this process's own."""
        environ = self._environ(job, place)
        token = self.needs.token(job.repository, job.installation)
        clone = Path(environ["GITHUB_WORKSPACE"])

        from gate.evidence.redact import Redactor

        clean = Redactor({**self.app.secrets, "github": token})

        def say(text: str) -> None:
            text = clean(text)  # pages show it, and why a job failed is taken from it
            place.note(text)
            control.say(text)

        return replace(
            self.app,
            environ=environ,
            secrets={**self.app.secrets, "github": token},
            open_repository=_Fetching(self, job, clone, place, control.cancelled, token),
            make_forge=lambda hurry: self.app.service.make_forge(environ, hurry, token),
            random_hex=self._random_for(job),
            say=say,
            cancelled=control.cancelled,
            abort=lambda: None,  # the process has other jobs; whoever waits for an answer leaves when it comes
            interactive=False,
        )

    def _random_for(self, job: ServiceJob) -> Callable[[int], str]:
        """The session's seed follows from the job, so that it is the same when a step is begun again; only who holds the
        service's key knows it."""
        key = cache_secret(self.app) or self.app.secrets.get("webhook", "")
        drawn = hmac.new(key.encode(), _PURPOSE + job.id.encode(), hashlib.sha256).hexdigest()
        return lambda size: (drawn * 2)[: 2 * size] if key else self.app.random_hex(size)

    def _environ(self, job: ServiceJob, place: _Place) -> dict[str, str]:
        around = self.app.environ
        event: Any = json.loads(place.payload.read_bytes()) if place.payload.exists() else {}
        owner, _, name = job.repository.partition("/")
        branch = str((event.get("repository") or {}).get("default_branch") or "main")
        return {
            **self.inputs,
            **{f"INPUT_{key.upper()}": value for key, value in job.inputs.items()},
            "INPUT_JOBS": str(self.jobs),
            "GITHUB_API_URL": around.get("GITHUB_API_URL", "https://api.github.com"),
            "GITHUB_EVENT_NAME": job.event_name,
            "GITHUB_EVENT_PATH": str(place.payload),
            "GITHUB_REF": f"refs/pull/{job.number}/merge" if job.number else f"refs/heads/{branch}",
            "GITHUB_REPOSITORY": job.repository,
            "GITHUB_REPOSITORY_ID": str(job.repository_id or ""),
            "GITHUB_SERVER_URL": around.get("GITHUB_SERVER_URL", "https://github.com"),
            "GITHUB_SHA": str(event.get("after") or job.head_sha),
            "GITHUB_WORKSPACE": str(self.data / "repositories" / owner / f"{name}.git"),
            "RUNNER_TEMP": str(place.folder),
            "GITHUB_OUTPUT": str(place.folder / "outputs"),
        }

    def _event_of(self, job: ServiceJob, payload: bytes, control: ServiceLine) -> bytes:
        """The event as it came; one that somebody asked for by name is completed by what the repository says."""
        if job.event_name != "workflow_dispatch":
            return payload
        value = json.loads(payload)
        if "repository" in value:
            return payload
        server = self.app.environ.get("GITHUB_SERVER_URL", "https://github.com")
        token = self.needs.token(job.repository, job.installation)
        full, sha = self.app.service.tip_of(job.repository, server, self.mirrors, "HEAD", token, control.cancelled)
        inputs: dict[str, str] = value.setdefault("inputs", {})
        if inputs.get("ref") and not _COMMIT.fullmatch(inputs["ref"]):
            _, inputs["ref"] = self.app.service.tip_of(
                job.repository, server, self.mirrors, inputs["ref"], token, control.cancelled
            )
        value["repository"] = {"full_name": job.repository, "default_branch": full.removeprefix("refs/heads/")}
        value["ref"], value["after"] = full, sha
        return json.dumps(value).encode()


def _raise(error: GateError | None, app: App, settings: Settings) -> GateReport:
    del app, settings
    raise error or RuntimeError("a step of the service broke; its log says more")


@dataclass(frozen=True)
class _Place:
    """A job's folder."""

    data: Path
    job: str

    @property
    def folder(self) -> Path:
        return self.data / "jobs" / self.job

    @property
    def payload(self) -> Path:
        return self.folder / "event.json"

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def bundle(self) -> Path:
        return self.folder / BUNDLE

    def part(self, number: int, of: int) -> Path:
        return self.folder / f"part-{number}-{of}"

    def is_sealed(self, number: int, of: int) -> bool:
        """Whether this part was finished before a kill: its manifest is the last thing that is written."""
        return (self.part(number, of) / "manifest.json").is_file()

    @property
    def planned(self) -> dict[str, Any] | None:
        """What planning came to; None: it was not finished."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "planned.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found

    def write_planned(self, *, parts: int, provider: str = "other", reason: str = "", failed: bool = False) -> None:
        from gate.evidence.files import write_atomic

        facts = {"parts": parts, "provider": provider, "reason": reason, "failed": failed}
        write_atomic(self.folder / "planned.json", json.dumps(facts).encode())

    def note(self, text: str) -> None:
        """Remember the last lines, of which one says why nothing was judged."""
        with contextlib.suppress(OSError), (self.folder / "log.txt").open("a", encoding="utf-8") as file:
            file.write(text.replace("\n", " ")[:1000] + "\n")

    def said(self) -> str:
        """The line that says why there is no report."""
        try:
            lines = (self.folder / "log.txt").read_text(encoding="utf-8").splitlines()
        except OSError:
            return ""
        found = [line for line in lines if line.startswith(("error:", "nothing judged", "cancelled:"))]
        return found[-1].removeprefix("error: ")[:500] if found else ""

    @contextlib.contextmanager
    def alone(self, what: str, stop: threading.Event) -> Iterator[None]:
        """One process at a time: one that was taken for dead may still be at it. Raises Cancelled where ``stop`` is set."""
        with (self.folder / f"{what}.lock").open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if stop.wait(0.5):
                        raise Cancelled("The job was told to end.") from None
                except OSError:
                    break  # a file system without locks
            yield


class _Fetching:
    """``App.open_repository`` that fetches first, once: by then the status says that something is going on, so that a
    fetch that fails is reported like everything else, and nothing is fetched for a pull request that is closed."""

    def __init__(
        self, desk: Desk, job: ServiceJob, clone: Path, place: _Place, stop: threading.Event, token: str
    ) -> None:
        self._desk = desk
        self._job = job
        self._clone = clone
        self._place = place
        self._stop = stop
        self._token = token

    def __call__(self, folder: str) -> Repository:
        """Raises RepositoryError."""
        done = self._place.folder / "fetched"
        if not done.exists():
            branch, commits = self._wanted()
            service, server = (
                self._desk.app.service,
                self._desk.app.environ.get("GITHUB_SERVER_URL", "https://github.com"),
            )
            service.fetch(
                self._clone, self._job.repository, server, self._desk.mirrors, branch, commits, self._token, self._stop
            )
            done.touch()
        return self._desk.app.open_repository(folder)

    def _wanted(self) -> tuple[str, dict[str, str]]:
        """(branch whose policy holds, exact commits by the name they are kept under)."""
        from gate.intake.event import read_event

        environ = {"GITHUB_SHA": "0" * 40}
        payload = json.loads(self._place.payload.read_bytes())
        event = read_event(self._job.event_name, payload, environ)
        if isinstance(event, PullRequestEvent):
            # The base that it has now, by whose policy it is judged; of another one an old tip may lie about here.
            with contextlib.suppress(ForgeError):
                return self._live(event.number).base_ref, {str(event.number): event.head_sha}
            return event.base_ref, {str(event.number): event.head_sha}
        inputs: Mapping[str, str] = payload.get("inputs") or {}
        default = str(payload["repository"]["default_branch"])
        if inputs.get("pull-request"):
            number = int(inputs["pull-request"])
            live = self._live(number)
            return live.base_ref, {str(number): live.head_sha}
        wanted = inputs.get("ref") or payload["after"]
        return default, {f"at-{wanted}": wanted}

    def _live(self, number: int) -> PullRequest:
        environ = {"GITHUB_REPOSITORY": self._job.repository, "GITHUB_API_URL": self._api_url}
        return self._desk.app.service.make_forge(environ, False, self._token).pull_request(number)

    @property
    def _api_url(self) -> str:
        return self._desk.app.environ.get("GITHUB_API_URL", "https://api.github.com")


class ScopedSandbox:
    """A Sandbox for one part of a session: parts have one session id, and the end of one must not sweep up the others."""

    def __init__(self, inner: Sandbox, scope: str) -> None:
        self._inner = inner
        self._scope = scope

    def _of(self, session_id: str) -> str:
        return f"{session_id}-{self._scope}"

    def facts(self) -> SandboxFacts:
        """See Sandbox."""
        return self._inner.facts()

    def examine(self) -> tuple[Examined, ...]:
        """See Sandbox."""
        return self._inner.examine()

    def resolve_image(self, image: str) -> str:
        """See Sandbox."""
        return self._inner.resolve_image(image)

    def install(self, image: str, session_id: str, files: Sequence[ProgramFile]) -> str:
        """See Sandbox."""
        return self._inner.install(image, self._of(session_id), files)

    def open(self, spec: BoxSpec) -> AbstractContextManager[Box]:
        """See Sandbox."""
        return self._inner.open(spec.model_copy(update={"session_id": self._of(spec.session_id)}))

    def run_once(self, spec: OneShotSpec) -> OneShotResult:
        """See Sandbox."""
        return self._inner.run_once(spec.model_copy(update={"session_id": self._of(spec.session_id)}))

    def reap(self, session_id: str | None = None) -> ReapReport:
        """See Sandbox."""
        return self._inner.reap(None if session_id is None else self._of(session_id))

    def kill_all(self, session_id: str) -> None:
        """See Sandbox."""
        self._inner.kill_all(self._of(session_id))


def refuse_shared_kernel(app: App, *, accept_runc: bool) -> None:
    """Code of many tenants gets kernels of its own, or somebody has said that it need not. Raises ConfigurationError."""
    if accept_runc:
        return
    found = {item.name: item for item in app.make_sandbox().examine()}
    runsc = found.get("runsc")
    if runsc is None or runsc.state != "ok":
        why = runsc.text if runsc is not None else "No Docker engine with gVisor (runsc) was found."
        raise ConfigurationError(
            f"{why} This service runs what strangers write.",
            remedy="Install gVisor's runsc and add it to the engine's runtimes; or, where everybody who can open a pull request"
            " is trusted with this machine's kernel, say --accept-runc.",
        )
