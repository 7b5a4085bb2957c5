"""The whole Action in one process: a real checkout, the fake GitHub, a scripted model over HTTP, sandboxes in memory."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gate.adapters.git_repository import GitRepository
from gate.cli import App
from gate.cli import main as run_command
from gate.wiring import bind
from tests.fakes.sandbox import DEFAULT_IMAGES, Program, ScriptedSandbox
from tests.github import FakeGitHub, File, Pull, Repository, Token
from tests.scripted import Step
from tests.scripted.generic import scenario
from tests.scripted.server import ScriptedServer
from tests.story import git, make_repository
from tests.unit.execution.world import shell

NUMBER = 7
SKILL = (
    "---\nname: sums\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\nAdd them {word}.\n"
)
EVALS = json.dumps(
    {
        "skill_name": "sums",
        "evals": [{"id": 1, "prompt": "What is 1 and 2?", "expectations": ['The answer contains the word "Sums".']}],
    }
)
MAIN = {"skills/sums/SKILL.md": SKILL.format(word="up"), "skills/sums/evals/evals.json": EVALS}
CHANGE: Mapping[str, str | None] = {"skills/sums/SKILL.md": SKILL.format(word="together")}
NO_SKILL_CHANGES: Mapping[str, str | None] = {"README.md": "Words."}
KEY = "sk-ant-canary-7f3e9a1b5c2d8e4f"


@dataclass
class Command:
    """A command that the runner would carry out."""

    name: str
    properties: str
    text: str


def commands_in(lines: list[str]) -> list[Command]:
    """What GitHub's runner would carry out of a log (github-action.md 1.12), stopping and resuming as it does."""
    found: list[Command] = []
    token: str | None = None
    for line in "\n".join(lines).split("\n"):
        new = re.match(r"\s*::([^:\s]+)(?: ([^:]*))?::(.*)", line)
        old = re.search(r"##\[([^\]\s]+)(?: ([^\]]*))?\](.*)", line)
        match = new or old
        if match is None:
            continue
        name, properties, text = match[1], match[2] or "", match[3]
        if token is not None:
            token = None if name == token else token
        elif name == "stop-commands":
            assert len(text) > 6
            token = text
        else:
            found.append(Command(name, properties, _unescaped(text)))
    return found


def _unescaped(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def entries_in(path: Path) -> dict[str, str]:
    """A file of outputs or state, read as the runner reads it. AssertionError where it would fail the step."""
    values: dict[str, str] = {}
    lines = iter(path.read_bytes().decode("utf-8").split("\n")[:-1])
    for line in lines:
        assert line, "an empty line between entries"
        equals, heredoc = line.find("="), line.find("<<")
        assert heredoc >= 0, line
        assert not 0 <= equals < heredoc, line
        name, _, delimiter = line.partition("<<")
        held: list[str] = []
        for one in lines:
            if one == delimiter:
                break
            held.append(one)
        else:
            raise AssertionError(f"no {delimiter} for {name}")
        values[name] = "\n".join(held)
    return values


@dataclass
class Done:
    """What a step left behind."""

    code: int
    log: list[str]
    outputs: dict[str, str]
    summary: str

    @property
    def commands(self) -> list[Command]:
        """Those that the runner carries out."""
        return commands_in(self.log)

    def annotations(self, level: str) -> list[str]:
        """Their texts."""
        return [one.text for one in self.commands if one.name == level]

    @property
    def text(self) -> str:
        """The whole log."""
        return "\n".join(self.log)


@dataclass
class Stage:
    """One pull request, and a runner about to start the Action for it."""

    folder: Path
    github: FakeGitHub
    repository: Repository
    pull: Pull
    base: str
    head: str
    merge: str
    server: ScriptedServer
    token: Token | None
    environ: dict[str, str]
    sandbox: ScriptedSandbox
    cancelled: threading.Event = field(default_factory=threading.Event)
    aborted: int = 0

    @property
    def workspace(self) -> Path:
        """The checkout."""
        return self.folder / "workspace"

    @property
    def bundle(self) -> Path:
        """Where it is by default."""
        return self.folder / "temp/skill-gate"

    @property
    def report(self) -> dict[str, Any]:
        """report.json."""
        value: dict[str, Any] = json.loads((self.bundle / "report.json").read_text())
        return value

    def payload(self, **changes: Any) -> dict[str, Any]:
        """The event of the pull request; ``changes`` to its ``pull_request``."""
        repo = {"id": self.repository.id, "full_name": self.repository.full_name, "default_branch": "main"}
        pull: dict[str, Any] = {
            "number": NUMBER,
            "state": "open",
            "draft": False,
            "user": {"login": "octocat"},
            "head": {"sha": self.head, "ref": "feature", "repo": repo},
            "base": {"sha": self.base, "ref": "main", "repo": repo},
            "labels": [],
        }
        return {
            "action": "synchronize",
            "number": NUMBER,
            "pull_request": {**pull, **changes},
            "repository": repo,
            "sender": {"login": "octocat"},
        }

    def run(
        self,
        *arguments: str,
        event: str = "pull_request",
        payload: Mapping[str, Any] | None = None,
        app: Callable[[App], App] = lambda app: app,
        state: Mapping[str, str] | None = None,
        given: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> Done:
        """One step of the Action. ``inputs`` and ``given``: with underscores for dashes; the runner keeps the dashes."""
        for name in ("output", "summary", "state"):
            (self.folder / name).write_bytes(b"")
        place = self.folder / "event.json"
        place.write_text(json.dumps(self.payload() if payload is None else payload), encoding="utf-8")
        environ = {**self.environ, "GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": str(place)}
        environ |= {
            f"INPUT_{name.upper().replace('_', '-')}": value for name, value in {**(given or {}), **inputs}.items()
        }
        environ |= {f"STATE_{name}": value for name, value in (state or {}).items()}
        if self.token is not None:
            environ["INPUT_GITHUB-TOKEN"] = self.token.value
        log: list[str] = []
        bound = bind(environ, self.cancelled)
        assert not [name for name, value in environ.items() if value in (KEY, self.token and self.token.value)]
        made = app(replace(bound, make_sandbox=lambda: self.sandbox, say=log.append, abort=self._abort))
        code = run_command(made, ["action", *arguments])
        return Done(
            code, log, entries_in(self.folder / "output"), (self.folder / "summary").read_text(encoding="utf-8")
        )

    def _abort(self) -> None:
        self.aborted += 1

    @property
    def state(self) -> dict[str, str]:
        """What the step saved for the post step."""
        return entries_in(self.folder / "state")

    def statuses(self, sha: str | None = None) -> list[tuple[str, str]]:
        """(state, description) of every status of the head, oldest first."""
        return [(one.state, one.description or "") for one in self.repository.statuses if one.sha == (sha or self.head)]

    @property
    def comments(self) -> list[str]:
        """All of the pull request, oldest first."""
        return [one.body for one in self.repository.comments_of(NUMBER)]

    def push(self, sha: str = "f" * 40) -> str:
        """Somebody pushes."""
        self.repository.add_commit({"a": "b"}, parents=[self.head], sha=sha)
        self.pull.head_sha = sha
        return sha


def files_at(workspace: Path, commit: str) -> dict[str, File]:
    """What a commit of the checkout holds, for GitHub to hold it too."""
    repo = GitRepository(workspace)
    entries = [entry for entry in repo.tree(commit) if entry[1] != "160000"]
    contents = repo.blobs([blob for _, _, blob in entries])
    return {path: File(contents[blob], mode) for path, mode, blob in entries}


def shallow_checkout(here: Stage) -> None:
    """The checkout as actions/checkout leaves it by default: the test merge alone, and nowhere to fetch more from."""
    shallow = here.folder / "shallow"
    git(here.workspace, "update-ref", "refs/heads/merge", here.merge)
    origin = f"file://{here.workspace}"
    git(here.folder, "clone", "--quiet", "--depth", "1", "--branch", "merge", origin, str(shallow))
    here.environ["GITHUB_WORKSPACE"] = str(shallow)


@contextmanager
def stage(
    folder: Path,
    *,
    main: Mapping[str, str] = MAIN,
    change: Mapping[str, str | None] = CHANGE,
    policy: str = "",
    judge: Step | None = None,
    agent: Step | None = None,
    token: Literal["write", "read", "pat", "app"] | None = "write",
    program: Program | None = None,
    with_models: bool = True,
    prefix: str = "",
) -> Iterator[Stage]:
    """The stage. The base branch's policy names the scripted models; ``policy`` is added to it."""
    steps: dict[str, Any] = {name: step for name, step in (("judge", judge), ("agent", agent)) if step is not None}
    with FakeGitHub(prefix=prefix) as github, ScriptedServer(scenario(**steps)) as server:
        models = (
            f"models:\n  executor: anthropic@{server.url}:agent\n  grader: openai@{server.openai_url}:judge\n"
            if with_models
            else ""
        )
        files = {**main, ".github/skill-gate.yml": models + policy} if models + policy else dict(main)
        workspace = make_repository(folder / "workspace", files, change)
        base, head = git(workspace, "rev-parse", "main"), git(workspace, "rev-parse", "feature")
        # As actions/checkout with fetch-depth: 0 leaves it: the test merge, and the base branch as a remote one.
        git(workspace, "switch", "--quiet", "--detach", "main")
        git(workspace, "merge", "--quiet", "--no-ff", "--message", "merge", "feature")
        merge = git(workspace, "rev-parse", "HEAD")
        git(workspace, "update-ref", "refs/remotes/origin/main", "main")
        git(workspace, "branch", "--quiet", "--delete", "--force", "main", "feature")
        repository = github.add_repository("acme/skills", private=True)
        for sha, parents in ((base, []), (head, [base]), (merge, [base, head])):
            held = files_at(workspace, sha)
            repository.add_commit(held, parents=parents, sha=sha, branch="main" if sha == base else None)
        repository.roles["octocat"] = "write"
        pull = repository.add_pull(head, base, number=NUMBER, head_ref="feature", files=["skills/sums/SKILL.md"])
        temp = folder / "temp"
        temp.mkdir()
        environ = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": github.url,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_REPOSITORY": "acme/skills",
            "GITHUB_REF": f"refs/pull/{NUMBER}/merge",
            "GITHUB_SHA": merge,
            "GITHUB_RUN_ID": "4711",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_WORKFLOW_REF": f"acme/skills/.github/workflows/gate.yml@refs/pull/{NUMBER}/merge",
            "GITHUB_WORKSPACE": str(workspace),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_STATE": str(folder / "state"),
            "RUNNER_TEMP": str(temp),
            "ANTHROPIC_API_KEY": KEY,
            "ACTIONS_RUNTIME_TOKEN": KEY,
        }
        with ScriptedSandbox(program or shell(), images={**DEFAULT_IMAGES, "@own": "sha256:" + "7b" * 32}) as sandbox:
            given = getattr(github, token) if token else None
            yield Stage(folder, github, repository, pull, base, head, merge, server, given, environ, sandbox)
