"""The runner: folders, one container a step, its log and its files, and how it is cancelled."""

from __future__ import annotations

import contextlib
import json
import os
import secrets as random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import docker
import docker.errors

from tests.runner import environment
from tests.runner.commands import Annotation, Commands
from tests.runner.environment import Paths
from tests.runner.files import FileCommandError, parse_pairs, read_summary

RUNNER_UID = 1001
SOCKET = Path("/var/run/docker.sock")
LABEL = "5c1ab9"
GRACE_S = (7.5, 2.5)
"""How long a step may take to end after SIGINT, then after SIGTERM, before it is killed."""
_FILES = {
    "GITHUB_OUTPUT": "set_output_",
    "GITHUB_STATE": "save_state_",
    "GITHUB_ENV": "set_env_",
    "GITHUB_PATH": "add_path_",
    "GITHUB_STEP_SUMMARY": "step_summary_",
    "GITHUB_ARTIFACTS": "artifacts_",
}
_STEP_S = 240
_GONE_S = 20


@dataclass(frozen=True)
class StepResult:
    """What became of a step."""

    exit_code: int
    conclusion: str
    """``success``, ``failure`` or ``cancelled``."""
    outputs: Mapping[str, str]
    state: Mapping[str, str]
    """What its post step will see as ``STATE_…``."""
    environment: Mapping[str, str]
    """What it set for later steps by GITHUB_ENV."""
    summary: str
    annotations: Sequence[Annotation]
    """The runner's own complaints included."""
    log: str
    """As people see it: secrets are ``***``, commands that were carried out are not in it."""
    raw_log: str
    """As it was printed. What must not be in a log is looked for here: a mask would hide it."""
    commands: Commands
    leftovers: Sequence[str]
    """Containers and volumes of the step that are still on the engine, its own container included."""
    foreign_files: Sequence[str]
    """What lies in the workspace and does not belong to the runner's user: the next checkout would fail on it."""
    ended_by: str = ""
    """The last signal that was sent to a step that was cancelled."""
    gone_s: float | None = None
    """Seconds from the first signal until its container was gone."""


class Runner:
    """One job on one runner. Use it as a block; a step that still runs at its end is killed.

    Run by root, its folders belong to uid 1001 as on a hosted runner; run by anybody else, to that user. Either way the
    container's root is somebody else.
    """

    def __init__(
        self,
        root: Path,
        image: str,
        action: Path | Mapping[str, Any],
        *,
        repository: str = "acme/skills",
        token: str = "",
        secrets: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        socket: Path | None = SOCKET,
    ) -> None:
        """``action``: an action.yml, or what would be in one.

        ``token`` is GITHUB_TOKEN, ``secrets`` what the workflow hands over besides: both are masked. ``env`` is what
        earlier steps and the workflow have set. ``socket``: what is mounted as /var/run/docker.sock; the runner always
        mounts something, None is a host that hands steps to something else than Docker.
        """
        self.paths = Paths(root.resolve(), repository)
        self.action = environment.read_action(action)
        self._image = image
        self._repository = repository
        self._token = token
        self._secrets = tuple(item for item in (token, *secrets, environment.JOB_TOKEN) if item)
        self._env = dict(env or {})
        self._socket = socket
        self._client = docker.from_env()
        self._running: list[Step] = []
        self._containers: list[str] = []
        self._last: dict[str, str] = {}
        self._state: dict[str, str] = {}
        self.paths.make()

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill what still runs."""
        for step in self._running:
            step.kill()
        self._client.close()

    # --- the checkout

    def checkout(self, source: Path, revision: str, *, depth: int = 0) -> str:
        """What actions/checkout leaves in the workspace: branches as ``origin/…``, a detached HEAD. Returns the commit.

        ``depth`` 0 fetches everything, 1 the one commit.
        """
        folder = self.paths.workspace
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        commit = _git(source, "rev-parse", f"{revision}^{{commit}}")
        _git(folder, "init", "--quiet")
        _git(folder, "remote", "add", "origin", f"https://github.com/{self._repository}")
        address = source.resolve().as_uri()
        if depth:
            _git(folder, "fetch", "--quiet", "--no-tags", f"--depth={depth}", address, commit)
        else:
            _git(folder, "fetch", "--quiet", "--tags", address, "+refs/heads/*:refs/remotes/origin/*", commit)
        _git(folder, "checkout", "--quiet", "--force", "--detach", commit)
        return commit

    # --- steps

    def run(
        self,
        event_name: str,
        payload: Mapping[str, Any] | None = None,
        inputs: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> StepResult:
        """Start the action and wait for its end."""
        return self.start(event_name, payload, inputs, env).wait()

    def start(
        self,
        event_name: str,
        payload: Mapping[str, Any] | None = None,
        inputs: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Step:
        """Start the action. ``env`` adds to the job's variables and wins over them (GITHUB_API_URL, …)."""
        payload = payload or {}
        (self.paths.workflow / "event.json").write_text(json.dumps(payload), encoding="utf-8")
        given = dict(inputs or {})
        values = environment.effective_inputs(self.action, given, self._token)
        self._last = {
            **self._env,
            **environment.input_variables(values),
            **environment.job_variables(self.paths, event_name, payload, self._repository),
            **(env or {}),
        }
        self._state = {}
        unknown = sorted(set(given) - set(self.action.get("inputs") or {}))
        runs = self.action["runs"]
        return self._start(runs.get("entrypoint", ""), [str(item) for item in runs.get("args") or ()], unknown)

    def post(self) -> StepResult:
        """Run the post step, as the runner does whatever became of the step before.

        Raises:
            LookupError: The action has none.
        """
        entrypoint = self.action["runs"].get("post-entrypoint")
        if not entrypoint:
            raise LookupError("the action has no post-entrypoint")
        return self._start(str(entrypoint), [str(item) for item in self.action["runs"].get("args") or ()], []).wait()

    def left_behind(self) -> list[str]:
        """Containers and volumes of all steps so far that are on the engine now: to be empty after the post step."""
        return [one for name in self._containers if name for one in owned_by(self._client, f"{name[:12]}:")]

    def _start(self, entrypoint: str, arguments: list[str], unknown: list[str]) -> Step:
        suffix = random.token_hex(8)
        files = {variable: self.paths.commands / f"{prefix}{suffix}" for variable, prefix in _FILES.items()}
        for path in files.values():
            path.touch()
        self._give_to_runner()
        variables = {**self._last, **{name: str(path) for name, path in files.items()}}
        variables |= {f"STATE_{name}": value for name, value in self._state.items()}
        variables = {name: self.paths.inside(value) for name, value in variables.items()}
        name = f"{''.join(c for c in self._image if c.isalnum() or c == '_')}_{random.token_hex(3)}"
        line = ["docker", "run", "--name", name, "--label", LABEL, "--workdir", "/github/workspace", "--rm"]
        for variable in variables:
            line += ["-e", variable]
        line += ["-e", "GITHUB_ACTIONS=true"]
        if "CI" not in variables:
            line += ["-e", "CI=true"]
        if entrypoint:
            line += ["--entrypoint", entrypoint]
        sockets = ((self._socket, str(SOCKET)),) if self._socket else ()
        for source, target in (*sockets, *self.paths.mounts):
            line += ["-v", f"{source}:{target}"]
        line += [self._image, *arguments]
        commands = Commands(self._secrets)
        if unknown:
            commands.annotate("warning", f"Unexpected input(s) {', '.join(unknown)}", {})
        step = Step(self._client, line, variables, name, commands, files=files, finish=self._finish)
        self._running.append(step)
        return step

    def _finish(self, step: Step, state: Mapping[str, str]) -> list[str]:
        """Keep the state for the post step; returns what in the workspace is not the runner's."""
        self._running.remove(step)
        self._containers.append(step.container())
        self._state |= state
        self._secrets = tuple(step.commands.masks | set(self._secrets))  # a mask holds to the end of the job
        mine = os.geteuid() or RUNNER_UID
        found = [path for path in sorted(self.paths.workspace.rglob("*")) if path.lstat().st_uid != mine]
        return [str(path.relative_to(self.paths.workspace)) for path in found]

    def _give_to_runner(self) -> None:
        if os.geteuid() != 0:
            return
        for folder in (self.paths.work, self.paths.tools):
            for path in (folder, *folder.rglob("*")):
                os.chown(path, RUNNER_UID, RUNNER_UID, follow_symlinks=False)


class Step:
    """A step that runs. ``wait`` for its end, or ``cancel`` it."""

    def __init__(
        self,
        client: docker.DockerClient,
        line: list[str],
        variables: Mapping[str, str],
        name: str,
        commands: Commands,
        *,
        files: Mapping[str, Path],
        finish: Callable[[Step, Mapping[str, str]], list[str]],
    ) -> None:
        """Starts ``docker run``. Values of variables are given to the client only, names to its command line."""
        self.name = name
        self.commands = commands
        self.command_line = tuple(line)
        self._client = client
        self._files = files
        self._tell = finish
        self._result: StepResult | None = None
        self._ended_by = ""
        self._signalled: float | None = None
        self._gone_s: float | None = None
        self._id = ""
        self._since = time.time()
        program = shutil.which("docker")
        if program is None:
            raise FileNotFoundError("there is no docker command-line program")
        self._process = subprocess.Popen(
            line,
            executable=program,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",  # and, by default, each of CR, LF and CRLF ends a line: so does it for the runner
        )
        self._readers = [
            threading.Thread(target=self._read, args=(stream, name), name=f"step-{name}", daemon=True)
            for stream, name in ((self._process.stdout, "stdout"), (self._process.stderr, "stderr"))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str] | None, name: str) -> None:
        for line in stream or ():
            self.commands.feed(line.removesuffix("\n"), name)

    @property
    def is_running(self) -> bool:
        """Whether the client still waits for the container."""
        return self._process.poll() is None

    def container(self) -> str:
        """The id of the container, as soon as it runs; empty where the step ends without one."""
        while not self._id:
            with contextlib.suppress(docker.errors.NotFound):
                seen = self._client.api.inspect_container(self.name)
                if seen["State"]["Status"] != "created":
                    self._id = str(seen["Id"])
            if not self._id and not self.is_running:
                self._id = self._noted() or ""
                break
            time.sleep(0.02)
        return self._id

    def _noted(self) -> str | None:
        """What the engine noted about a container that ended before anybody looked."""
        events = self._client.api.events(
            since=int(self._since) - 1,
            until=f"{time.time():.6f}",  # type: ignore[call-overload]
            filters={"container": [self.name], "event": ["start"]},
            decode=True,
        )
        return next((str(event["id"]) for event in events), None)

    def wait(self, timeout_s: float = _STEP_S) -> StepResult:
        """Wait for the end. Raises AssertionError, and kills the step, where it does not come."""
        if self._result is None:
            self.container()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"the step has not ended within {timeout_s:.0f} s:\n{self.commands.log}") from None
            self._result = self._finish()
        return self._result

    def cancel(self, grace_s: tuple[float, float] = GRACE_S) -> StepResult:
        """What the runner does when a job is cancelled: SIGINT, a while, SIGTERM, a while, then the client is killed.

        All of it goes to the ``docker run`` client. A container that outlives it is a leftover (and is removed here).
        """
        self.container()
        if not self.is_running:  # it has ended before anybody could stop it
            return self.wait()
        self._signalled = time.monotonic()
        for number, patience in zip((signal.SIGINT, signal.SIGTERM), grace_s, strict=True):
            self._ended_by = number.name
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
                break
        else:
            self._ended_by = signal.SIGKILL.name
            self._process.kill()
        return self.wait()

    def kill(self) -> None:
        """End it at once, the container too."""
        self._process.kill()
        with contextlib.suppress(docker.errors.NotFound, docker.errors.APIError):
            self._client.api.remove_container(self.name, force=True)
        self._process.wait()

    def _finish(self) -> StepResult:
        for reader in self._readers:
            reader.join(10)
        leftovers = self._leftovers()
        problems = list(self.commands.problems)
        pairs: dict[str, dict[str, str]] = {}
        for variable in ("GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_ENV"):
            pairs[variable], problem = _read_pairs(self._files[variable])
            problems += [f"Unable to process file command '{variable}' successfully. {problem}"] if problem else []
        summary, too_big = read_summary(self._files["GITHUB_STEP_SUMMARY"], self.commands.mask)
        if too_big:
            self.commands.annotate("error", too_big, {})
        for text in problems:
            self.commands.annotate("error", text, {})
        code = self._process.returncode
        state = {**self.commands.state, **pairs["GITHUB_STATE"]}
        conclusion = "cancelled" if self._ended_by else "failure" if code != 0 or problems else "success"
        return StepResult(
            exit_code=code,
            conclusion=conclusion,
            outputs={**self.commands.outputs, **pairs["GITHUB_OUTPUT"]},
            state=state,
            environment=pairs["GITHUB_ENV"],
            summary=summary,
            annotations=tuple(self.commands.annotations),
            log=self.commands.log,
            raw_log=self.commands.raw,
            commands=self.commands,
            leftovers=tuple(leftovers),
            foreign_files=tuple(self._tell(self, state)),
            ended_by=self._ended_by,
            gone_s=self._gone_s,
        )

    def _leftovers(self) -> list[str]:
        """The engine removes a container that has ended a moment later (--rm): it is given that moment."""
        found: list[str] = []
        killed = self._ended_by == signal.SIGKILL.name
        deadline = time.monotonic() + (0 if killed else _GONE_S)
        while True:
            try:
                self._client.api.inspect_container(self.name)
            except docker.errors.NotFound:
                if self._signalled is not None:
                    self._gone_s = time.monotonic() - self._signalled
                break
            if time.monotonic() > deadline:
                found.append(f"container {self.name}")
                with contextlib.suppress(docker.errors.APIError):
                    self._client.api.remove_container(self.name, force=True)
                break
            time.sleep(0.05)
        if self._id:
            # A container's host name, which is in the label, is the beginning of its id.
            found += owned_by(self._client, f"{self._id[:12]}:")
        return found


def owned_by(client: docker.DockerClient, prefix: str) -> list[str]:
    """Labelled containers and volumes on the engine whose owner begins with ``prefix``."""
    label = "gate.owner"
    containers = client.api.containers(all=True, filters={"label": label})
    volumes = client.api.volumes(filters={"label": label})["Volumes"] or []
    found = [f"container {one['Names'][0]}" for one in containers if one["Labels"][label].startswith(prefix)]
    return found + [f"volume {one['Name']}" for one in volumes if one["Labels"][label].startswith(prefix)]


def _read_pairs(path: Path) -> tuple[dict[str, str], str]:
    """(pairs up to a mistake, the mistake)."""
    found: dict[str, str] = {}
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found, ""
    try:
        found.update(parse_pairs(text))  # with what came before a mistake
    except FileCommandError as error:
        return found, str(error)
    return found, ""


def _git(folder: Path, *arguments: str) -> str:
    """A git command of the runner's own, without the configuration of the machine."""
    safe = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    kept = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ.get("PATH", os.defpath)}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**kept, **safe}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stderr}")
    return done.stdout.strip()
