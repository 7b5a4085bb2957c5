"""What a step's container gets from the runner: variables, and host paths turned into paths of the container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ACTIONS_SERVICE = "http://127.0.0.1:9/"
"""Of the job's own services (cache, artifacts, identity): nobody listens, and nobody is to ask."""
JOB_TOKEN = "runtime-token-of-the-job"
_TOKEN_DEFAULT = re.compile(r"\$\{\{\s*github\.token\s*\}\}")


class Paths:
    """The runner's folders on the host, and what a container sees of them (``_temp`` first, so that the finer ones win)."""

    def __init__(self, root: Path, repository: str) -> None:
        """``repository``: ``owner/name``."""
        name = repository.rpartition("/")[2]
        self.work = root / "_work"
        self.temp = self.work / "_temp"
        self.home = self.temp / "_github_home"
        self.workflow = self.temp / "_github_workflow"
        self.commands = self.temp / "_runner_file_commands"
        self.outer = self.work / name
        self.workspace = self.outer / name
        self.tools = root / "_tool"
        self.mounts = (
            (self.temp, "/github/runner_temp"),
            (self.home, "/github/home"),
            (self.workflow, "/github/workflow"),
            (self.commands, "/github/file_commands"),
            (self.workspace, "/github/workspace"),
        )

    def make(self) -> None:
        """Create all of them."""
        for folder in (self.home, self.workflow, self.commands, self.workspace, self.tools):
            folder.mkdir(parents=True, exist_ok=True)

    def inside(self, value: str) -> str:
        """A value as the container gets it: changed only where it is a mounted path or begins with one."""
        for place, seen in reversed(self.mounts):
            if value == str(place) or value.startswith(f"{place}/"):
                return seen + value.removeprefix(str(place))
        return value


def read_action(action: Path | Mapping[str, Any]) -> dict[str, Any]:
    """An action.yml. Raises ValueError where it is not the description of a Docker container action."""
    found = yaml.safe_load(action.read_text(encoding="utf-8")) if isinstance(action, Path) else dict(action)
    if not isinstance(found, dict) or (found.get("runs") or {}).get("using") != "docker":
        raise ValueError("this is not the description of a Docker container action")
    return found


def effective_inputs(action: Mapping[str, Any], given: Mapping[str, str], token: str) -> dict[str, str]:
    """Every declared input with its value: what was given, else its default, else empty. Undeclared ones are passed too."""
    values = dict(given)
    for name, facts in (action.get("inputs") or {}).items():
        if name in values:
            continue
        default = str((facts or {}).get("default", ""))
        value = _TOKEN_DEFAULT.sub(token, default)
        if "${{" in value:
            raise NotImplementedError(f"the default of {name} is an expression that is not imitated: {default}")
        values[name] = value
    return values


def input_variables(inputs: Mapping[str, str]) -> dict[str, str]:
    """``INPUT_`` and the name in upper case; spaces become underscores, dashes stay."""
    return {f"INPUT_{name.replace(' ', '_').upper()}": value for name, value in inputs.items()}


def event_context(event_name: str, payload: Mapping[str, Any]) -> dict[str, str]:
    """Which commit and which ref a job of this event is about."""
    if event_name in ("pull_request", "pull_request_target") and "pull_request" in payload:
        pull = payload["pull_request"]
        merge = f"refs/pull/{pull['number']}/merge"
        target = event_name == "pull_request_target"
        return {
            "GITHUB_REF": f"refs/heads/{pull['base']['ref']}" if target else merge,
            "GITHUB_REF_NAME": str(pull["base"]["ref"]) if target else f"{pull['number']}/merge",
            # Of the merge that GitHub made to try it, never the head.
            "GITHUB_SHA": str(pull["base"]["sha"] if target else pull.get("merge_commit_sha") or ""),
            "GITHUB_HEAD_REF": str(pull["head"]["ref"]),
            "GITHUB_BASE_REF": str(pull["base"]["ref"]),
        }
    ref, sha = _ref_and_sha(event_name, payload)
    return {
        "GITHUB_REF": ref,
        "GITHUB_REF_NAME": ref.removeprefix("refs/heads/").removeprefix("refs/tags/"),
        "GITHUB_SHA": sha,
        "GITHUB_HEAD_REF": "",
        "GITHUB_BASE_REF": "",
    }


def _ref_and_sha(event_name: str, payload: Mapping[str, Any]) -> tuple[str, str]:
    if event_name == "merge_group":
        return str(payload["merge_group"]["head_ref"]), str(payload["merge_group"]["head_sha"])
    sha = str(payload.get("after") or payload.get("sha") or "")
    if event_name == "release":
        return f"refs/tags/{payload['release']['tag_name']}", sha
    ref = str(payload.get("ref") or "refs/heads/main")
    if event_name == "create":  # the payload's ref is a bare name
        ref = f"refs/{'tags' if payload.get('ref_type') == 'tag' else 'heads'}/{ref}"
    return ref, sha


def job_variables(paths: Paths, event_name: str, payload: Mapping[str, Any], repository: str) -> dict[str, str]:
    """GITHUB_*, RUNNER_* and ACTIONS_* of a step; host paths are not yet turned. GITHUB_TOKEN is not among them."""
    facts = payload.get("repository") or {}
    sender = str((payload.get("sender") or {}).get("login") or "octocat")
    owner = repository.partition("/")[0]
    made = {
        "GITHUB_ACTION": "__run",
        "GITHUB_ACTION_REF": "",
        "GITHUB_ACTION_REPOSITORY": "",
        "GITHUB_ACTOR": sender,
        "GITHUB_ACTOR_ID": "1",
        "GITHUB_API_URL": "https://api.github.com",
        "GITHUB_EVENT_NAME": event_name,
        "GITHUB_EVENT_PATH": str(paths.workflow / "event.json"),
        "GITHUB_GRAPHQL_URL": "https://api.github.com/graphql",
        "GITHUB_JOB": "skill-gate",
        "GITHUB_REF_PROTECTED": "false",
        "GITHUB_REF_TYPE": "branch",
        "GITHUB_REPOSITORY": repository,
        "GITHUB_REPOSITORY_ID": str(facts.get("id", 1)),
        "GITHUB_REPOSITORY_OWNER": owner,
        "GITHUB_REPOSITORY_OWNER_ID": str((facts.get("owner") or {}).get("id", 1)),
        "GITHUB_RETENTION_DAYS": "90",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_ID": "7001",
        "GITHUB_RUN_NUMBER": "1",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_TRIGGERING_ACTOR": sender,
        "GITHUB_WORKFLOW": "skills",
        "GITHUB_WORKFLOW_REF": f"{repository}/.github/workflows/skills.yml@refs/heads/main",
        "GITHUB_WORKFLOW_SHA": "0" * 40,
        "GITHUB_WORKSPACE": str(paths.workspace),
        "RUNNER_ARCH": "X64",
        "RUNNER_ENVIRONMENT": "github-hosted",
        "RUNNER_NAME": "imitated",
        "RUNNER_OS": "Linux",
        "RUNNER_TEMP": str(paths.temp),
        "RUNNER_TOOL_CACHE": str(paths.tools),
        "RUNNER_WORKSPACE": str(paths.outer),
        "ACTIONS_CACHE_URL": ACTIONS_SERVICE,
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": JOB_TOKEN,
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{ACTIONS_SERVICE}token",
        "ACTIONS_RESULTS_URL": ACTIONS_SERVICE,
        "ACTIONS_RUNTIME_TOKEN": JOB_TOKEN,
        "ACTIONS_RUNTIME_URL": ACTIONS_SERVICE,
        "HOME": str(paths.home),
    }
    return {**made, **event_context(event_name, payload)}
