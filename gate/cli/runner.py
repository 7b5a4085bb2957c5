"""GitHub's runner as a step sees it: the log with its commands, and the files for outputs, state and summary.

Everything goes to one stream, standard error: the runner reads both for commands, but in no order between them, so a
command that stops commands on one stream would not hold for the other.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from gate.cli.app import App

SUMMARY_BYTES = 1_048_576
MASKED = ("anthropic", "openai", "mcp")
"""Kinds of secrets that the runner is told to blot out. It knows its own tokens; those are never printed at all."""
_TOKEN_BYTES = 16


class Runner:
    """A step's way to talk to the runner. Thread-safe. Use it as a block.

    In the block the runner takes no commands but those of ``annotate``: whatever a skill, a model or a library prints is
    text. What ``say`` prints is made harmless besides.
    """

    def __init__(self, app: App) -> None:
        self._environ = app.environ
        self._texts = app.texts
        self._random_hex = app.random_hex
        self._write = app.say
        self._secrets = [value for kind, value in app.secrets.items() if kind.partition("-")[0] in MASKED]
        self._lock = threading.RLock()
        self._token: str | None = None

    def __enter__(self) -> Self:
        """Blot out keys, then stop commands."""
        with self._lock:
            if self.on_github:
                for secret in self._secrets:
                    for line in self._texts.mask(secret):
                        self._write(line)
                self._stop()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let commands through again."""
        with self._lock:
            self._resume()

    @property
    def on_github(self) -> bool:
        """Whether a runner reads the log."""
        return self._environ.get("GITHUB_ACTIONS") == "true"

    def say(self, text: str) -> None:
        """Lines for people. May hold untrusted text."""
        with self._lock:
            for line in self._texts.harmless(text):
                self._write(line)

    def annotate(self, level: Literal["notice", "warning", "error"], message: str) -> None:
        """Show a message beside the job. May hold untrusted text."""
        if not self.on_github:
            self.say(f"{level}: {message}")
            return
        with self._lock:
            stopped = self._token is not None
            self._resume()
            self._write(self._texts.annotation(level, message))
            if stopped:
                self._stop()

    def _stop(self) -> None:
        self._token = self._random_hex(_TOKEN_BYTES)
        self._write(self._texts.stop(self._token))

    def _resume(self) -> None:
        if self._token is not None:
            self._write(self._texts.resume(self._token))
            self._token = None

    # --- files

    def outputs(self, values: dict[str, str]) -> None:
        """What later steps can read."""
        self._append("GITHUB_OUTPUT", self._texts.entries(values, self._random_hex))

    def save(self, **values: str) -> None:
        """What the post step can read (``saved``). The last value of a name counts."""
        named = {f"gate_{name}": value for name, value in values.items()}
        self._append("GITHUB_STATE", self._texts.entries(named, self._random_hex))

    def saved(self, name: str) -> str:
        """In the post step: what was saved; empty where nothing was."""
        for key in (f"STATE_gate_{name}", f"STATE_GATE_{name.upper()}"):
            if self._environ.get(key):
                return self._environ[key]
        return ""

    def summary_room(self) -> int:
        """Bytes that the step's summary may still take."""
        path = self._environ.get("GITHUB_STEP_SUMMARY")
        try:
            taken = Path(path).stat().st_size if path else 0
        except OSError:
            taken = 0
        return SUMMARY_BYTES - taken

    def summary(self, text: str) -> None:
        """Add to the step's page. What has no room is said and left out: the runner would drop the whole page."""
        if len(text.encode("utf-8", "replace")) > self.summary_room():
            self.say("the summary has no room on the step's page and was left out; see the bundle")
            return
        self._append("GITHUB_STEP_SUMMARY", text)

    def _append(self, variable: str, text: str) -> None:
        path = self._environ.get(variable)
        if not path:
            return
        try:
            with Path(path).open("ab") as file:
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:
            self.say(f"{variable} cannot be written: {error}")

    # --- where the job is

    @property
    def run_url(self) -> str:
        """The page of this attempt; empty where it is not known."""
        server, repository = self._environ.get("GITHUB_SERVER_URL", ""), self._environ.get("GITHUB_REPOSITORY", "")
        run, attempt = self._environ.get("GITHUB_RUN_ID", ""), self._environ.get("GITHUB_RUN_ATTEMPT", "")
        if not re.fullmatch(r"https?://[^\s?#]+", server) or not repository or not run.isdigit():
            return ""
        url = f"{server.rstrip('/')}/{repository}/actions/runs/{run}"
        return f"{url}/attempts/{attempt}" if attempt.isdigit() else url

    @property
    def workflow_path(self) -> str:
        """The workflow file: ``.github/workflows/x.yml``."""
        reference = self._environ.get("GITHUB_WORKFLOW_REF", "").partition("@")[0]
        path = reference.split("/", 2)[-1]
        return path if path.startswith(".github/") else ".github/workflows"

    @property
    def workspace(self) -> Path:
        """The checkout."""
        return Path(self._environ.get("GITHUB_WORKSPACE") or ".")

    def for_later_steps(self, path: Path) -> str:
        """A path as a later step can use it, which runs outside of this container.

        Below the workspace: relative to it. In the runner's temporary folder: its path on the runner, which is ``_temp``
        beside the folder of RUNNER_WORKSPACE, the one path that the runner does not translate.
        """
        place = path.resolve()
        workspace = self.workspace.resolve()
        if place.is_relative_to(workspace):
            return place.relative_to(workspace).as_posix()
        temp, outside = self._environ.get("RUNNER_TEMP", ""), self._environ.get("RUNNER_WORKSPACE", "")
        if temp.startswith("/github/") and outside.startswith("/") and place.is_relative_to(temp):
            return str(Path(outside).parent / "_temp" / place.relative_to(temp))
        return str(path)
