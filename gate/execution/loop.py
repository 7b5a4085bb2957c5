"""The built-in agent: a model that the gate asks, hands in a sandbox, and a record that the gate alone writes."""

from __future__ import annotations

import posixpath
import re
from collections import Counter, deque
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from gate.domain.base import FallbackCount
from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, Role, TokenUsage, ToolResult, ToolSpec, ToolUse
from gate.domain.evidence import Outcome
from gate.domain.plan import Arm, RunRequest
from gate.domain.sandbox import ExecResult
from gate.domain.skill import PROGRAM_SUFFIXES, Skill, SkillFile, is_agent_visible
from gate.domain.suite import Case
from gate.errors import BoxDeadError, BudgetError, Cancelled, ModelError
from gate.execution.arms import SKILLS_ROOT, builtin_tools, case_holds, system_prompt
from gate.execution.mcp import MockMcp, RunMcp
from gate.llm.ledger import Ledger
from gate.protocols import Box, ChatModel, Clock

OUTPUT_FOR_MODEL = 30_000
"""Characters of one tool result that go to the model and into the record; the true size stands beside it."""

OUTPUT_IN_ALL = 300_000
"""Characters of tool results in a run after which each further one is cut to OUTPUT_WHEN_FULL: a conversation that is
too long for the model is refused by its provider, which would look like infrastructure and is the agent's doing."""
OUTPUT_WHEN_FULL = 2_000

FINAL_ANSWER = "Use no more tools. Give your final answer now, from what you have."
"""What the model is told at the early stop of the baseline (origins 1.3), and before the last turn that a run may take: an
arm with fewer steps would otherwise lose for want of a turn to answer in, not for what it did."""


STOPPED_OPEN = "the skill was opened: a trigger query ends here"
STOPPED_ANSWERED = "the agent answered without opening the skill"
STOPPED_CLOSED = "the skill was not opened in the turns that a trigger query has"


class Recorder(Protocol):
    """Where events go; ``gate.evidence.events.EventLog`` is one."""

    def append(self, kind: str, **data: Any) -> object:
        """Append one event."""


class LoopEnd(NamedTuple):
    """How a run ended, and what it used."""

    outcome: Outcome
    reason: str
    steps: int
    usage: TokenUsage | None
    """None where one call's usage is unknown."""
    cost_usd: float | None
    """None where one call's cost is unknown."""
    model: str
    """The provider's own name of the model that answered last; empty where none did."""
    model_ms: int
    sandbox_ms: int
    opened: tuple[str, ...]
    """Files of the skill that the agent opened, sorted."""
    attempts: int
    fallbacks: tuple[FallbackCount, ...]


class _Over(Exception):  # noqa: N818 - an end of the run, not an error of the gate
    """The run ends here; scored or not, it is recorded."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class Loop:
    """One run: at most ``limits.steps`` model turns, tools in the box, everything on the record.

    ``limits.seconds`` bounds the time of the agent's commands, not that of the model: a slow provider is not the
    agent's doing. ``run`` raises ModelError, SandboxError and McpServerError (infrastructure) and Cancelled; what the
    agent caused, a budget that is used up and a gap in a fixture are returned.
    """

    def __init__(
        self,
        request: RunRequest,
        *,
        model: ChatModel,
        box: Box,
        log: Recorder,
        ledger: Ledger,
        clock: Clock,
        cancelled: Callable[[], bool],
        mcp: RunMcp | None = None,
    ) -> None:
        """``mcp``: the servers of the case, opened; None: they are all mocks."""
        self._request = request
        self._limits = request.limits
        self._model = model
        self._box = box
        self._log = log
        self._ledger = ledger
        self._clock = clock
        self._cancelled = cancelled
        self._mcp: RunMcp = mcp if mcp is not None else MockMcp(request.case.mcp_servers)
        self._tools: tuple[ToolSpec, ...] = builtin_tools() + self._mcp.specs()
        self._watch = Watch(request)
        self._reading = Reading(request.skill, request.case)
        self._step = 0
        self._turn_began = 0
        self._calls = 0
        self._stopped = False
        self._known = TokenUsage()
        self._known_cost = 0.0
        self._usage: TokenUsage | None = TokenUsage()
        self._cost: float | None = 0.0
        self._model_name = ""
        self._model_ms = 0
        self._sandbox_ms = 0
        self._attempts = 0
        self._output = 0
        self._counts: Counter[str] = Counter()

    def run(self) -> LoopEnd:
        """Run to the end."""
        try:
            outcome, reason = self._converse()
        except _Over as over:
            outcome, reason = over.outcome, over.reason
        return LoopEnd(
            outcome=outcome,
            reason=reason,
            steps=self._step,
            usage=self._usage,
            cost_usd=self._cost,
            model=self._model_name,
            model_ms=self._model_ms,
            sandbox_ms=self._sandbox_ms,
            opened=self._reading.opened,
            attempts=self._attempts,
            fallbacks=tuple(
                FallbackCount(kind=kind, role=Role.EXECUTOR.value, count=count)
                for kind, count in sorted(self._counts.items())
                if count
            ),
        )

    def _converse(self) -> tuple[Outcome, str]:
        case = self._request.case
        system = system_prompt(self._request.skill, case.mode)
        self._log.append("prompt", system=system, user=case.request)
        if case.mode == "loaded":
            for path in self._reading.given():
                self._log.append("skill_opened", step=0, path=path)
        messages: list[Message] = [Message(role="user", text=case.request)]
        turns = deque(enumerate(case.turns, 1))
        while True:
            self._raise_if_cancelled()
            if self._step - self._turn_began >= self._limits.steps:
                return self._out_of_steps()
            self._step += 1
            reply = self._ask(system, tuple(messages))
            if reply.finish is Finish.REFUSAL or not reply.tool_uses:
                outcome, reason = self._answered(reply, last=not turns)
                if outcome is not Outcome.COMPLETED or not turns:
                    return outcome, reason
                number, said = turns.popleft()
                self._next_turn(reply, number, said)
                messages.append(Message(role="assistant", text=reply.text))
                messages.append(Message(role="user", text=said))
                continue
            if reply.text.strip():
                self._log.append("note", step=self._step, text=reply.text)
            results = self._use_tools(reply)
            if case.trigger is not None and self._reading.is_open:
                self._log.append("stopped", step=self._step, text=STOPPED_OPEN)
                return Outcome.COMPLETED, STOPPED_OPEN
            self._raise_if_used_up()
            messages.append(Message(role="assistant", text=reply.text, tool_uses=reply.tool_uses))
            messages.append(Message(role="tool", tool_results=results, text=self._to_the_end()))

    def _next_turn(self, reply: ChatReply, number: int, said: str) -> None:
        """The user read an answer and goes on: steps and the early stop count from here again."""
        self._log.append("answer", step=self._step, turn=number, text=reply.text)
        self._log.append("user_turn", step=self._step, turn=number + 1, text=said)
        self._turn_began, self._calls, self._stopped = self._step, 0, False

    def _out_of_steps(self) -> tuple[Outcome, str]:
        if self._request.case.trigger is not None:
            self._log.append("stopped", step=self._step, text=STOPPED_CLOSED)
            return Outcome.COMPLETED, STOPPED_CLOSED
        self._counts["step_limit"] += 1
        return Outcome.AGENT_FAILED, f"no answer within {self._limits.steps} steps"

    def _raise_if_used_up(self) -> None:
        """Tokens and money of the run, looked at between its turns. What nobody knows cannot end a run."""
        limits, used = self._limits, self._known
        if limits.tokens is not None and used.input_tokens + used.output_tokens >= limits.tokens:
            self._counts["token_limit"] += 1
            raise _Over(Outcome.AGENT_FAILED, f"it used more than {limits.tokens} tokens without an answer")
        if limits.usd is not None and self._known_cost >= limits.usd:
            self._counts["cost_limit"] += 1
            raise _Over(Outcome.AGENT_FAILED, f"it cost more than ${limits.usd:g} without an answer")

    def _answered(self, reply: ChatReply, *, last: bool = True) -> tuple[Outcome, str]:
        told = reply.finish is Finish.REFUSAL or (reply.finish is not Finish.LENGTH and bool(reply.text.strip()))
        if self._request.case.trigger is not None and told:
            # Whatever it answered, it did so without opening the skill, which is what was asked. A reply that was cut off
            # or says nothing shows neither the one nor the other.
            self._counts["refusal"] += reply.finish is Finish.REFUSAL
            self._log.append("stopped", step=self._step, text=STOPPED_ANSWERED)
            return Outcome.COMPLETED, STOPPED_ANSWERED
        if reply.finish is Finish.REFUSAL:
            self._counts["refusal"] += 1
            return Outcome.AGENT_FAILED, "the model refused"
        if reply.finish is Finish.LENGTH:
            return Outcome.AGENT_FAILED, f"the answer was cut off at {self._limits.output_tokens} tokens"
        if not reply.text.strip():
            return Outcome.AGENT_FAILED, "the model gave an empty answer"
        if last:
            self._log.append("response", text=reply.text)
        return Outcome.COMPLETED, ""

    def _to_the_end(self) -> str:
        """What is said beside the tool results. The tools stay offered: a server may refuse results without them."""
        if self._stopped or self._request.case.trigger is not None:
            return ""
        early = self._limits.tool_calls
        # The baseline has no instructions to work through; past this point it wanders.
        wanders = early is not None and self._calls > early
        if not wanders and self._step - self._turn_began < self._limits.steps - 1:
            return ""
        self._stopped = True
        self._counts["early_stop" if wanders else "last_step"] += 1
        self._log.append("early_stop", step=self._step, text=FINAL_ANSWER)
        return FINAL_ANSWER

    def _raise_if_cancelled(self) -> None:
        if self._cancelled():
            raise Cancelled("The session was cancelled.")

    def _ask(self, system: str, messages: tuple[Message, ...]) -> ChatReply:
        request = ChatRequest(
            label=f"{self._request.key.label}/turn-{self._step}",
            system=system,
            messages=messages,
            tools=self._tools,
            max_output_tokens=self._limits.output_tokens,
        )
        began = self._clock.monotonic_ms()
        try:
            reply = self._ledger.call(self._model, request, role=Role.EXECUTOR)
        except BudgetError as error:
            self._step -= 1  # the turn was not taken
            raise _Over(Outcome.OVER_BUDGET, str(error)) from error
        except ModelError as error:
            if error.kind != "context_length" or self._step == 1:
                raise  # with nothing but the prompt the model is too small for the case: nobody's doing in this run
            self._step -= 1
            self._counts["context_exceeded"] += 1
            raise _Over(Outcome.AGENT_FAILED, "its conversation grew longer than the model takes") from error
        finally:
            self._model_ms += self._clock.monotonic_ms() - began
        self._note_spending(reply)
        self._log.append(
            "model_reply",
            step=self._step,
            text=reply.text,
            tool_uses=[
                {"id": use.id, "name": use.name, "arguments": use.arguments, "raw": use.raw_arguments}
                for use in reply.tool_uses
            ],
            finish=reply.finish.value,
            usage=reply.usage.to_json() if reply.usage else None,
            model=reply.model,
            **({"remembered": True} if reply.remembered else {}),
        )
        return reply

    def _note_spending(self, reply: ChatReply) -> None:
        # One unknown makes the sum unknown: unknown is never zero (cases B 25).
        known = reply.usage if not reply.unknown_attempts else None
        price = self._ledger.price_of(self._model.name, known) if known is not None else None
        self._known = self._known.plus(reply.usage or TokenUsage())
        self._known_cost += price or 0.0
        self._usage = self._usage.plus(known) if self._usage is not None and known is not None else None
        self._cost = self._cost + price if self._cost is not None and price is not None else None
        self._model_name = reply.model or self._model_name
        self._counts["provider_retry"] += reply.provider_retries
        self._counts["parameter_dropped"] += len(reply.dropped_parameters)
        self._counts["truncation"] += reply.finish is Finish.LENGTH

    def _use_tools(self, reply: ChatReply) -> tuple[ToolResult, ...]:
        results = []
        for position, use in enumerate(reply.tool_uses, 1):
            # Where a reply was cut off its last call may be half a call, and still well-formed (a shorter file).
            is_cut = reply.finish is Finish.LENGTH and position == len(reply.tool_uses)
            results.append(self._use_tool(use, is_cut=is_cut))
        return tuple(results)

    def _use_tool(self, use: ToolUse, *, is_cut: bool) -> ToolResult:
        self._raise_if_cancelled()
        self._calls += 1
        self._log.append(
            "tool_call", step=self._step, call_id=use.id, tool=use.name, args=use.arguments, raw_args=use.raw_arguments
        )
        for what, detail in self._watch.attempts(use):
            self._attempts += 1
            self._log.append("attempt", step=self._step, what=what, detail=detail)
        try:
            done = self._dispatch(use, is_cut=is_cut)
        except BoxDeadError as error:
            if not error.agent_caused:
                raise
            outcome = Outcome.OOM if error.oom else Outcome.SANDBOX_DEAD
            done = _Done.error(error.message)._replace(over=_Over(outcome, error.message))
        self._log.append(
            "tool_result",
            step=self._step,
            call_id=use.id,
            tool=use.name,
            status=done.status,
            text=done.text,
            total_bytes=done.total_bytes,
            truncated=done.truncated,
            exit_code=done.exit_code,
            reported=False,
            **({"skill_lines": lines} if (lines := self._reading.skill_lines(use, done.text)) else {}),
        )
        self._counts["output_truncated"] += done.truncated
        self._counts["tool_timeout"] += done.status == "timeout"
        for path in self._reading.notice(use, done.text):
            self._log.append("skill_opened", step=self._step, path=path)
        for path in self._reading.scripts(use, done.text):
            self._log.append("script_run", step=self._step, path=path)
        if done.over is not None:
            raise done.over
        return ToolResult(id=use.id, text=done.text or "(no output)", is_error=done.status != "success")

    def _dispatch(self, use: ToolUse, *, is_cut: bool) -> _Done:
        if self._stopped:
            return _Done.error(f"not done. {FINAL_ANSWER}")
        if is_cut:
            return _Done.error(
                f"not done: your reply was cut off at {self._limits.output_tokens} tokens. Do it in smaller pieces."
            )
        if use.arguments is None:
            return _Done.error("the arguments are not a JSON object")
        if use.name in self._mcp:
            return self._call_mcp(use.name, use.arguments)
        arguments = {name: value for name, value in use.arguments.items() if isinstance(value, str)}
        if use.name == "bash" and "command" in arguments:
            return self._exec(["bash", "-c", arguments["command"]])
        if use.name == "read_file" and "path" in arguments:
            return self._exec(["cat", "--", arguments["path"]])
        if use.name == "write_file" and {"path", "content"} <= arguments.keys():
            data = arguments["content"].encode("utf-8", "replace")
            return self._exec(["bash", "-c", WRITE_FILE, "write_file", arguments["path"]], stdin=data)
        if use.name == "list_files" and arguments.keys() == use.arguments.keys():
            return self._exec(["bash", "-c", LIST_FILES, "list_files", arguments.get("path") or "/work"])
        known = next((tool for tool in self._tools if tool.name == use.name), None)
        if known is not None:
            fields = ", ".join(known.input_schema["properties"])
            return _Done.error(f"wrong arguments: {use.name} takes the texts {fields}")
        return _Done.error(f"there is no tool {use.name}; there are {', '.join(tool.name for tool in self._tools)}")

    def _call_mcp(self, name: str, arguments: dict[str, Any]) -> _Done:
        answer = self._mcp.call(name, arguments)
        text, cut = self._shortened(answer.text)
        over = None
        if answer.gap:
            over = _Over(Outcome.BLOCKED, answer.gap)
        elif answer.fails:
            over = _Over(Outcome.AGENT_FAILED, answer.fails)
        status = "timeout" if answer.timed_out else "error" if answer.is_error else "success"
        return _Done(status, text, len(answer.text.encode("utf-8", "replace")), cut, None, over)

    def _exec(self, argv: list[str], *, stdin: bytes = b"") -> _Done:
        left = self._limits.seconds - self._sandbox_ms / 1000
        if left <= 0:
            over = _Over(Outcome.TIMEOUT, f"its commands took more than {self._limits.seconds:g} s")
            return _Done.error("not done: the time for commands is used up")._replace(over=over)
        timeout_s = min(self._limits.command_seconds, left)
        # A lone surrogate has no form that a process could be given.
        argv = [word.encode("utf-8", "replace").decode() for word in argv]
        began = self._clock.monotonic_ms()
        try:
            result = self._box.exec(argv, timeout_s=timeout_s, stdin=stdin)
        finally:
            self._sandbox_ms += self._clock.monotonic_ms() - began
        text, cut = self._shortened(_shown(result, timeout_s))
        status = "timeout" if result.timed_out else "error" if result.exit_code else "success"
        return _Done(
            status, text, result.stdout_bytes + result.stderr_bytes, cut or result.truncated, result.exit_code, None
        )

    def _shortened(self, text: str) -> tuple[str, bool]:
        """Start and end of a text that is too long, and whether it was."""
        limit = OUTPUT_FOR_MODEL if self._output < OUTPUT_IN_ALL else OUTPUT_WHEN_FULL
        cut = len(text) > limit
        if cut:
            half = limit // 2
            text = f"{text[:half]}\n[cut: {len(text) - 2 * half} characters]\n{text[-half:]}"
        self._output += len(text)
        return text, cut


WRITE_FILE = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1" && printf "written: %s\\n" "$1"'

# Sorted, without sizes or dates: the same folder lists the same on every machine. What the sandbox itself put there
# (an empty home, its own folder) is not shown.
LIST_FILES = (
    'cd -- "$1" && find -H "$PWD" -mindepth 1 \\( -path /work/.skill-gate -prune \\)'
    ' -o \\( -path /work/home -empty \\) -o -printf "%y %P\\n"'
    " | LC_ALL=C sort -k 2 | sed -n '1,500p;501{s/.*/(there are more; list a folder below)/p;q}'"
)


def _shown(result: ExecResult, timeout_s: float) -> str:
    """Output and how the command ended, as the model reads it."""
    parts = [result.stdout.decode("utf-8", "replace")]
    errors = result.stderr.decode("utf-8", "replace")
    if errors:
        parts.append(f"[stderr]\n{errors}")
    if result.timed_out:
        parts.append(f"[stopped after {timeout_s:g} s]")
    elif result.oom:
        parts.append("[killed: it used more memory than there is]")
    elif result.exit_code:
        parts.append(f"[exit code {result.exit_code}]")
    text = ""
    for part in parts:
        text += ("\n" if text and not text.endswith("\n") else "") + part
    return text


class _Done(NamedTuple):
    """A finished tool call."""

    status: str
    text: str
    total_bytes: int
    truncated: bool
    exit_code: int | None
    over: _Over | None
    """The run ends with this call."""

    @classmethod
    def error(cls, text: str) -> _Done:
        return cls("error", text, len(text.encode("utf-8", "replace")), False, None, None)


# Signs of reaching outside (R23). The sandbox stops them all; they are counted so that a person can see them.
_LOCAL = r"(?!localhost|127\.|0\.0\.0\.0|\[::1?\])"
_ATTEMPTS = (
    ("another run's files", re.compile(r"\b(?:with_skill|without_skill|base_skill)\b")),
    ("evaluation files", re.compile(r"\bevals?\.(?:json|ya?ml)\b|\bground_truth\b|\bgrading\.json\b")),
    ("the container engine", re.compile(r"\bdocker\.sock\b")),
    ("a metadata address", re.compile(r"\b169\.254\.169\.254\b|\bmetadata\.google\b")),
    ("another process", re.compile(r"/proc/(?:1|\*)/")),
    (
        "the network",
        re.compile(
            rf"\b(?:curl|wget)\b[^\n|;&]*\bhttps?://{_LOCAL}|\bgit\s+clone\s[^\n|;&]*(?:://|@)"
            r"|\b(?:pip3?|npm|pnpm|yarn|apt|apt-get|gem|cargo)\s+(?:install|add|update)\b"
        ),
    ),
)
_A_SKILL = re.compile(r"(?:(?<=[\s'\"=(])|^)/skills(?![\w.-])|\bSKILL\.md\b")


class Watch:
    """Finds attempts to reach outside in what an agent asks for. What the case itself speaks of is no attempt."""

    def __init__(self, request: RunRequest) -> None:
        self._signs = list(_ATTEMPTS)
        if request.key.arm is Arm.WITHOUT_SKILL:
            self._signs.append(("a skill", _A_SKILL))
        self._given = "\n".join(
            [request.case.request, *request.case.turns, *(file.path for file in request.case.files)]
        )

    def attempts(self, use: ToolUse) -> list[tuple[str, str]]:
        """(what was reached for, the words that show it), at most once a kind."""
        words = _words(use)
        found = []
        for what, pattern in self._signs:
            sign = next((match for match in pattern.finditer(words) if match[0] not in self._given), None)
            if sign is not None:
                start = max(0, sign.start() - 100)
                found.append((what, words[start : start + 300]))
        return found


def _words(use: ToolUse) -> str:
    """What a call asks of the sandbox: a command, or a path that leaves the workspace. Written contents are no deed."""
    arguments = use.arguments or {}
    if use.name == "bash":
        return str(arguments.get("command", ""))
    path = arguments.get("path")
    if use.name not in ("read_file", "write_file", "list_files") or not isinstance(path, str):
        return ""
    absolute = posixpath.normpath(posixpath.join("/work", path))
    if use.name == "write_file" and absolute.startswith("/work/"):
        return ""
    return absolute


_BEFORE_A_LINE = re.compile(r"(?:/skills/[^\s:]*[:-])?[ \t>|+*#-]*(?:\d{1,6}[\s:.|)-]+)?[ \t>|+*#-]*")


def _bare(line: str) -> str:
    """A line without what ``cat -n``, ``grep -n``, ``nl`` or a diff put before it, and without marks of Markdown there."""
    return line[found.end() :].strip() if (found := _BEFORE_A_LINE.match(line)) else line


class Reading:
    """Notices which files of the skill an agent has opened, from what it asked for and what it was shown."""

    def __init__(self, skill: Skill | None, case: Case) -> None:
        self._case = case
        self._skill_md = skill.skill_md if skill else ""
        self._body = _telling(skill.body) if skill else ()
        files = skill.files if skill else ()
        self._closed = {file.path: file for file in files if file.is_regular and is_agent_visible(file.path)}
        self._opened: list[str] = []
        self._programs = {path for path in self._closed if path.lower().endswith(PROGRAM_SUFFIXES)}
        self._own_lines = {
            line
            for file in self._closed.values()
            if file.size_bytes <= 200_000 and b"\0" not in file.data
            for line in map(str.strip, file.data.decode("utf-8", "replace").splitlines())
            if len(line) >= 8 and not case_holds(case, line)
        }

    @property
    def opened(self) -> tuple[str, ...]:
        """Paths relative to the skill folder, sorted."""
        return tuple(sorted(self._opened))

    @property
    def is_open(self) -> bool:
        """Whether SKILL.md was opened."""
        return bool(self._skill_md) and self._skill_md in self._opened

    def given(self) -> list[str]:
        """SKILL.md was handed over before the run began; empty where there is none."""
        if self._closed.pop(self._skill_md, None) is None:
            return []
        self._opened.append(self._skill_md)
        return [self._skill_md]

    def scripts(self, use: ToolUse, shown: str) -> list[str]:
        """Programs of the skill that this command runs for the first time, sorted: they are named below ``/skills`` and not
        merely read, and the shell found them."""
        if use.name != "bash" or not self._programs:
            return []
        words = str((use.arguments or {}).get("command", ""))
        if SKILLS_ROOT not in words:
            return []
        found = [path for path in sorted(self._programs) if _runs(path, words, shown)]
        self._programs.difference_update(found)
        return found

    def skill_lines(self, use: ToolUse, shown: str) -> list[int]:
        """1-based lines of an output that are lines of the skill's own files.

        Where the call does not speak of the skill, only an output that mostly shows it counts: a line of a template may
        rightly stand in the work itself. What programs put before a line (its number, its file, a mark) makes no other
        line of it.
        """
        if not self._own_lines or use.name not in ("bash", "read_file"):
            return []
        lines = [line.strip() for line in shown.split("\n")]
        own = [
            number
            for number, line in enumerate(lines, 1)
            if line in self._own_lines or (bare := _bare(line)) in self._own_lines or bare in self._bare_lines
        ]
        words = " ".join(value for value in (use.arguments or {}).values() if isinstance(value, str))
        if SKILLS_ROOT in words or self._skill_md in words:
            return own
        return own if len(own) >= 3 and 2 * len(own) > sum(1 for line in lines if line) else []

    @cached_property
    def _bare_lines(self) -> frozenset[str]:
        # A line of a few signs is anybody's.
        return frozenset(bare for line in self._own_lines if len(bare := _bare(line)) >= 8)

    def notice(self, use: ToolUse, shown: str) -> list[str]:
        """Files that this call opened for the first time, sorted.

        SKILL.md counts as opened where the agent was shown a line of its body after asking for it (or for anything
        below ``/skills``), or three lines however it got them: a listing or an error shows none. Another file counts
        where a call that reaches below ``/skills`` names it, or shows three of its lines. Lines that the case itself
        holds prove nothing.
        """
        if not self._closed or use.name not in ("bash", "read_file"):
            return []
        words = " ".join(value for value in (use.arguments or {}).values() if isinstance(value, str))
        inside = SKILLS_ROOT in words or self._skill_md in words
        lines = {line.strip() for line in shown.splitlines()} if inside else set()
        found = []
        for path, file in self._closed.items():
            if path == self._skill_md:
                opened = self._shows_body(shown, inside=inside)
            else:
                opened = inside and (_names(path, words, shown) or self._shows_lines(file, lines))
            if opened:
                found.append(path)
        for path in found:
            del self._closed[path]
        self._opened += found
        return sorted(found)

    def _shows_body(self, shown: str, *, inside: bool) -> bool:
        least = min(1 if inside else 3, len(self._body))
        if not least:  # nothing but front matter: there is no line to see, so asking for it has to do
            return inside and "No such file or directory" not in shown
        hits = (line for line in self._body if line in shown and not case_holds(self._case, line))
        return sum(1 for _ in zip(range(least), hits, strict=False)) == least

    def _shows_lines(self, file: SkillFile, lines: set[str]) -> bool:
        if len(lines) < 3 or b"\0" in file.data or file.size_bytes > 200_000:
            return False
        telling = _telling(file.data.decode("utf-8", "replace"))
        return sum(line in lines and not case_holds(self._case, line) for line in telling) >= 3


def _telling(text: str) -> tuple[str, ...]:
    """The first lines of a text that are long enough to be its own (all, where none is long)."""
    lines = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    return tuple([line for line in lines if len(line) >= 12] or lines)[:60]


_READERS = r"(?:cat|head|tail|less|more|sed|grep|rg|ls|wc|file|stat|find|nl|awk|diff|cp|chmod)"


def _runs(path: str, words: str, shown: str) -> bool:
    """Whether a command line runs a file: it names it in a part that does not begin with a program that only reads."""
    name = rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)"
    parts = re.split(r"&&|\|\||[;|\n]", words)
    runs = any(re.search(name, part) and not re.match(rf"\s*{_READERS}\b", part) for part in parts)
    return runs and "No such file or directory" not in shown


def _names(path: str, words: str, shown: str) -> bool:
    named = re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)", words)
    # A file that is not there says so in the output; whatever was printed or run does not.
    return named is not None and "No such file or directory" not in shown
