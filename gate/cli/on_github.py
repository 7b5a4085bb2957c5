"""What the Action writes on GitHub, one status, one comment and, if asked for, one check run, and how it gives way.

Commit status and check run are two channels under two names: one name for both would be two requirements of branch
protection (github-action.md 1.7). The status is the gate; the check run shows findings at their lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gate.cli.app import App
from gate.cli.inputs import CHECK_SUFFIX, DEFAULT_CONTEXT, ActionInputs, CommentWhen
from gate.cli.runner import Runner
from gate.domain.forge import CheckOutput
from gate.domain.report import GateReport, State
from gate.errors import ConfigurationError, ForgeError
from gate.protocols import Forge

T = TypeVar("T")


class OnGitHub:
    """What one job writes about one commit and, where there is one, its pull request. Nothing here raises.

    A token that only reads (a fork's, a job without ``permissions:``) is said once, in one notice; the verdict then stands
    in the exit code, the summary and the bundle. Any other failure is a warning.
    """

    def __init__(
        self,
        app: App,
        runner: Runner,
        inputs: ActionInputs,
        *,
        sha: str,
        number: int | None,
        context: str | None,
        forge: Forge | None = None,
    ) -> None:
        """``sha``: the commit that is judged. ``number`` None: no comment. ``context`` is the status's name, None: none."""
        self._app = app
        self._runner = runner
        self._inputs = inputs
        self._sha = sha
        self._number = number
        self._context = context or ""
        self._forge = forge
        self._silent = False
        self._pending = False
        self._superseded = False
        self._check: int | None = None
        self._no_check = False
        self.notes: list[str] = []
        """For the summary: what could not be written."""

    @property
    def _writes_status(self) -> bool:
        return bool(self._context) and self._inputs.status and not self._silent

    def begin(self) -> None:
        """Set the status to pending and open the check run, and leave for the post step what it needs to take that back."""
        self._begin_status()
        self._begin_check()

    def _begin_check(self) -> None:
        """A new one for each attempt: one that is completed is never opened again (github-action.md 1.7)."""
        if not (self._context and self._inputs.check) or self._silent or not self._has_token():
            return
        name = f"{self._context}{CHECK_SUFFIX}"
        made = self._try(
            "the check", lambda forge: forge.start_check(self._sha, name, self._runner.run_url), of_check=True
        )
        if made is not None:
            self._check = made.id
            self._runner.save(check=str(made.id))

    def resolve_check(self, state: State, output: CheckOutput, *, cancelled: bool = False) -> None:
        """Complete the check run, if there is one. A run that was cancelled or crashed is no success and never neutral."""
        check_id = self._check
        if check_id is None or self._no_check:
            return
        conclusion = "cancelled" if cancelled else self._app.texts.conclusion(state)
        if (
            self._try("the check", lambda forge: forge.end_check(check_id, conclusion, output), of_check=True)
            is not None
        ):
            self._runner.save(checked=conclusion)

    def _begin_status(self) -> None:
        if not self._writes_status or not self._has_token():
            return
        # First what the post step needs: a kill between the two must not leave a pending status for ever.
        self._runner.save(sha=self._sha, context=self._context, url=self._runner.run_url)
        self._pending = self._set(State.PENDING, self._app.texts.status_words("running"))

    def resolve(self, state: State, description: str, *, hurry: bool = False) -> None:
        """Set the final status of the commit. ``hurry``: the job is being cancelled and has seconds left.

        Where another run has set it after this one began (ready for review meanwhile, started again), that run has the
        last word: neither status nor comment is written.
        """
        if not self._writes_status or not self._has_token():
            return
        if hurry:
            self._forge = None
        elif self._pending and self._is_superseded():
            self._superseded = True
            self._runner.save(resolved=state.value)
            self._left_alone("another run about the same commit has begun since", what="status")
            return
        if self._set(state, description, hurry=hurry) and self._pending:
            self._runner.save(resolved=state.value)

    def _is_superseded(self) -> bool:
        now = self._try("the status", lambda forge: forge.status_of(self._sha, self._context), quietly=True)
        return now is not None and now.target_url not in ("", self._runner.run_url)

    def _set(self, state: State, description: str, *, hurry: bool = False) -> bool:
        def write(forge: Forge) -> bool:
            forge.set_status(self._sha, self._context, state, description, self._runner.run_url)
            return True

        return self._try("the status", write, hurry=hurry) is True

    def comment(self, report: GateReport) -> str:
        """Create or update the one comment of this gate; returns its address, empty where there is none.

        Nothing is written to a pull request that is closed or has a newer head than the one that was judged.
        """
        number, when = self._number, self._inputs.comment
        if number is None or when is CommentWhen.NEVER or self._silent or not self._has_token():
            return ""
        if self._superseded:
            return self._left_alone("another run about the same commit has begun since")
        context = self._inputs.status_context
        key = "" if context == DEFAULT_CONTEXT else context
        marker, body = self._app.texts.comment(report, key, self._runner.run_url)
        bad = report.state in (State.FAILURE, State.ERROR)

        def write(forge: Forge) -> str:
            if forge.pull_request(number).state != "open":
                return self._left_alone("the pull request is closed")
            if when is CommentWhen.FAILURE and not bad and forge.find_comment(number, marker) is None:
                return ""
            written = forge.upsert_comment(number, marker, body, head_sha=self._sha)
            if written.comment is None:
                return self._left_alone("the pull request has a newer head than the one that was judged")
            return written.comment.url

        return self._try("the comment", write) or ""

    def _left_alone(self, why: str, *, what: str = "comment") -> str:
        text = f"The {what} was not written: {why}."
        self.notes.append(text)
        self._runner.say(text)
        return ""

    def _has_token(self) -> bool:
        if "github" in self._app.secrets:
            return True
        self._fall_silent("There is no github-token, so neither comment nor status can be written.")
        return False

    def _try(
        self,
        what: str,
        write: Callable[[Forge], T],
        *,
        hurry: bool = False,
        of_check: bool = False,
        quietly: bool = False,
    ) -> T | None:
        """``of_check``: a token that may not write checks may still write the rest. ``quietly``: a failure is nothing to tell."""
        try:
            if self._forge is None:
                self._forge = self._app.make_forge(hurry)
            return write(self._forge)
        except ForgeError as error:
            if quietly:
                return None
            if of_check and error.kind == "permission":
                self._no_check = True
                text = f"This job's token may not write {what}: {error.message} {error.remedy}"
                self.notes.append(text)
                self._runner.annotate("notice", text)
            elif error.kind == "permission":
                self._fall_silent(
                    f"This job's token may not write {what}: {error.message} The verdict stands in the exit code, the "
                    f"summary and the bundle. {error.remedy}"
                )
            else:
                self._warn(f"Could not write {what}: {error.message} {error.remedy}".strip())
        except ConfigurationError as error:
            self._warn(f"Could not write {what}: {error.message} {error.remedy}".strip())
        return None

    def _fall_silent(self, text: str) -> None:
        """Say once that nothing can be written, and try no more."""
        if not self._silent:
            self._silent = True
            self.notes.append(text)
            self._runner.annotate("notice", text)

    def _warn(self, text: str) -> None:
        self.notes.append(text)
        self._runner.annotate("warning", text)
