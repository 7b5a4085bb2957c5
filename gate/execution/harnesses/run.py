"""One run of an agent program: started in a sandbox, watched through the gateway, recorded like the built-in loop."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from gate.domain.base import FallbackCount
from gate.domain.chat import Finish, Role, ToolResult, ToolUse
from gate.domain.evidence import Outcome
from gate.domain.gateway import Asked, Ending, McpCall
from gate.domain.plan import RunRequest
from gate.domain.sandbox import ExecResult
from gate.errors import BoxDeadError, Cancelled, ModelError, SandboxError
from gate.execution.harnesses.base import Harness, Launch, texts
from gate.execution.harnesses.conversation import Conversation, Stop, Turn
from gate.execution.loop import (
    OUTPUT_FOR_MODEL,
    STOPPED_ANSWERED,
    STOPPED_CLOSED,
    STOPPED_OPEN,
    LoopEnd,
    Reading,
    Watch,
)
from gate.execution.mcp import MockMcp
from gate.protocols import Box, Clock, GatewayLine, ModelGateway, Recorder

LONGEST_S = 3_300.0
"""For the whole program; a sandbox does not live much longer."""
_POLL_S = 0.1
_SWEEP_S = 15.0
_IDLE_S = 5.0
_LINE_NUMBER = re.compile(r"^ *\d+(?:→|\t)", re.MULTILINE)


class Program(NamedTuple):
    """An agent program as installed for this session."""

    harness: Harness
    version: str
    """As it says itself."""
    sha256: str
    """Of its executable; empty where the sandbox image brings it."""
    volume: str
    """Name of its volume; empty as above."""

    @property
    def text(self) -> str:
        """For reports and cache keys: ``claude-code 2.1.197 (sha256 1a2b3c4d)``."""
        digest = f" (sha256 {self.sha256[:12]})" if self.sha256 else ""
        return f"{self.harness.name} {self.version}{digest}"

    def facts(self) -> dict[str, str]:
        """For the record of a run."""
        return {"harness": self.harness.name, "version": self.version, "sha256": self.sha256}


class AgentRun:
    """One run. ``run`` has the contract of ``gate.execution.loop.Loop.run``.

    Steps, requests and money are bounded in the gateway, time here: ``limits.seconds`` bounds the time in which the
    program waits for no model. Everything the model said is recorded as it came from the provider; results of tools are
    what the program reported (``reported``), but for calls of the gate's own mock servers that its log confirms.
    """

    def __init__(
        self,
        request: RunRequest,
        *,
        program: Program,
        gateway: ModelGateway,
        box: Box,
        log: Recorder,
        gateway_log: Recorder,
        clock: Clock,
        cancelled: Callable[[], bool],
    ) -> None:
        self._request = request
        self._program = program
        self._harness = program.harness
        self._gateway = gateway
        self._box = box
        self._log = log
        self._gateway_log = gateway_log
        self._clock = clock
        self._cancelled = cancelled
        self._watch = Watch(request)
        self._reading = Reading(request.skill, request.case)
        self._tools = _Tools(MockMcp(request.case.mcp_servers)) if request.case.mcp_servers else None
        self._talk = Conversation(prompt=request.case.request, steps=request.limits.steps, check=self._check_first)
        self._result: ExecResult | SandboxError | None = None
        self._step = 0
        self._waiting: tuple[ToolUse, ...] = ()
        self._attempts = 0
        self._model_name = ""
        self._counts: Counter[str] = Counter()

    def run(self) -> LoopEnd:
        """Run to the end."""
        case = self._request.case
        if case.turns or case.mode == "loaded":
            what = "several turns" if case.turns else "a skill that is loaded beforehand"
            return self._end(Outcome.BLOCKED, f"a case with {what} runs with the built-in loop only", None, 0)
        began = self._clock.monotonic_ms()
        with self._gateway.serve(
            self._box, label=self._request.key.label, observer=self._talk, log=self._gateway_log, mcp=self._tools
        ) as way:
            worker = threading.Thread(target=self._work, args=(way,), name="agent", daemon=True)
            worker.start()
            try:
                stop = self._attend(way, worker, began)
            except BaseException:
                self._sweep(worker)
                raise
            way.wait_idle(_IDLE_S)
            self._record_turns(way)
            if way.broken is not None and stop is None and not self._is_answered and not self._broke_it:
                raise SandboxError(f"The way to the model broke while the agent ran: {way.broken}.")
            outcome, reason = self._outcome(stop or self._fixture_stop())
        return self._end(outcome, reason, way, self._clock.monotonic_ms() - began)

    def _end(self, outcome: Outcome, reason: str, way: GatewayLine | None, total_ms: int) -> LoopEnd:
        usage, cost = way.spending() if way is not None else (None, None)
        model_ms = way.model_ms if way is not None else 0
        counts = Counter(self._counts)
        counts.update(way.counts if way is not None else {})
        counts["gateway_side_call"] += self._talk.side
        counts["gateway_side_call_failed"] += self._talk.side_failed
        return LoopEnd(
            outcome=outcome,
            reason=reason,
            steps=self._step,
            usage=usage,
            cost_usd=cost,
            model=self._model_name,
            model_ms=model_ms,
            sandbox_ms=max(0, total_ms - model_ms),
            opened=self._reading.opened,
            attempts=self._attempts,
            fallbacks=tuple(
                FallbackCount(kind=kind, role=Role.EXECUTOR.value, count=count)
                for kind, count in sorted(counts.items())
                if count
            ),
        )

    # --- the program

    def _work(self, way: GatewayLine) -> None:
        """In a thread of its own: the program, from its start to its end."""
        launch = Launch(
            url=way.url,
            model=self._gateway.model,
            servers=tuple(server.name for server in self._request.case.mcp_servers),
        )
        script = self._harness.script(launch)
        # The token on standard input, never in the words of a command, which others can see.
        stdin = f"{way.token}\n{self._request.case.request}".encode("utf-8", "replace")
        try:
            self._result = self._box.exec(["bash", "-c", script, "agent"], timeout_s=LONGEST_S, stdin=stdin)
        except SandboxError as error:
            self._result = error
        except Exception as error:  # noqa: BLE001 - a thread must not end without saying why
            self._result = SandboxError(f"The agent program could not be run: {error}")

    def _attend(self, way: GatewayLine, worker: threading.Thread, began: int) -> Stop | None:
        """Keep the record while the program runs; end it where nothing it does can matter any more."""
        while worker.is_alive():
            self._record_turns(way, wait_s=_POLL_S)
            if self._cancelled():
                raise Cancelled("The session was cancelled.")
            stop = self._must_end(way, began)
            if stop is not None or self._talk.is_over or way.broken is not None:
                self._sweep(worker)
                return stop
        return None

    def _must_end(self, way: GatewayLine, began: int) -> Stop | None:
        seconds = (self._clock.monotonic_ms() - began - way.model_ms) / 1000
        if seconds > self._request.limits.seconds:
            return Stop(Outcome.TIMEOUT, f"its commands took more than {self._request.limits.seconds:g} s")
        if self._request.case.trigger is not None and self._reading.is_open:
            return Stop(Outcome.COMPLETED, STOPPED_OPEN)
        used_up = self._used_up(way)
        if used_up is not None:
            return used_up
        return self._fixture_stop()

    def _used_up(self, way: GatewayLine) -> Stop | None:
        """Tokens and money of the run, side calls too. What nobody knows cannot end a run."""
        limits, (usage, cost) = self._request.limits, way.spending()
        if (
            limits.tokens is not None
            and usage is not None
            and usage.input_tokens + usage.output_tokens >= limits.tokens
        ):
            self._counts["token_limit"] += 1
            return Stop(Outcome.AGENT_FAILED, f"it used more than {limits.tokens} tokens without an answer")
        if limits.usd is not None and cost is not None and cost >= limits.usd:
            self._counts["cost_limit"] += 1
            return Stop(Outcome.AGENT_FAILED, f"it cost more than ${limits.usd:g} without an answer")
        return None

    def _fixture_stop(self) -> Stop | None:
        """What the fixture of the case says about the calls so far."""
        if self._tools is not None and self._tools.gap:
            return Stop(Outcome.BLOCKED, self._tools.gap)
        if self._tools is not None and self._tools.fails:
            return Stop(Outcome.AGENT_FAILED, self._tools.fails)
        return None

    def _sweep(self, worker: threading.Thread) -> None:
        """End every process of the tool uid. What survives ends with the sandbox."""
        with contextlib.suppress(SandboxError):  # a box that is gone runs nothing
            self._box.exec(["sh", "-c", "kill -9 -1; exit 0"], timeout_s=_SWEEP_S)
        worker.join(_SWEEP_S)

    # --- the record

    def _check_first(self, asked: Asked) -> str | None:
        """In the gateway's thread. Why the program did not start with exactly what its arm has."""
        skill, name = self._request.skill, self._harness.name
        # What the task itself says proves nothing about what the program offers.
        shown = texts(asked).replace(self._request.case.request.strip(), "")
        if skill is not None and not self._harness.offers(shown, skill):
            return f"{name} started without the skill {skill.name}: its first request does not offer it"
        for other in self._request.subjects if skill is None else ():
            if self._harness.offers(shown, other):
                return f"{name} offers the skill {other.name} in an arm that must not have it"
        if self._tools is not None:
            has = {self._harness.mcp_name(tool) for tool in asked.tools}
            missing = [spec.name for spec in self._tools.specs() if spec.name not in has]
            if missing:
                return f"{name} started without the tool {missing[0]}: its first request does not offer it"
        return None

    def _record_turns(self, way: GatewayLine, *, wait_s: float = 0.0) -> None:
        while True:
            try:
                turn = self._talk.turns.get(timeout=wait_s) if wait_s else self._talk.turns.get_nowait()
            except queue.Empty:
                return
            wait_s = 0.0
            if turn.reply is None:
                self._record_question(turn, way)
            else:
                self._record_reply(turn)

    def _record_question(self, turn: Turn, way: GatewayLine) -> None:
        if turn.step == 1:
            offered = self._request.skill is not None
            self._log.append("agent_started", tools=sorted(turn.asked.tools), skill_offered=offered)
            self._log.append("prompt", system=turn.asked.system, user=turn.shown)
            return
        results = {result.id: result for result in turn.results}
        for use in self._waiting:
            self._record_result(turn.step - 1, use, results[use.id], turn.shown, way)
        self._waiting = ()

    def _record_result(self, step: int, use: ToolUse, result: ToolResult, beside: str, way: GatewayLine) -> None:
        call = self._confirmation(use, result, way)
        own = call.text if call.confirmed else result.text
        text, cut = own, len(own) > OUTPUT_FOR_MODEL
        if cut:
            half = OUTPUT_FOR_MODEL // 2
            text = f"{own[:half]}\n[cut: {len(own) - 2 * half} characters]\n{own[-half:]}"
        plain = self._harness.plain(use)
        code = self._harness.exit_code(use, result.text)
        is_error = call.is_error if call.is_error is not None else result.is_error or bool(code)
        seen = _LINE_NUMBER.sub("", text)
        lines = self._reading.skill_lines(plain, seen)
        self._log.append(
            "tool_result",
            step=step,
            call_id=use.id,
            tool=use.name,
            status="error" if is_error else "success",
            text=text,
            total_bytes=len(own.encode("utf-8", "replace")),
            truncated=cut,
            exit_code=code,
            reported=not call.confirmed,
            **({"skill_lines": lines} if lines else {}),
        )
        self._counts["output_truncated"] += cut
        # A program may hand over the text of a skill beside the result of the tool that asked for it.
        shown = f"{seen}\n{beside}" if use.name == "Skill" else seen
        for path in self._reading.notice(plain, shown):
            self._log.append("skill_opened", step=step, path=path)
        for path in self._reading.scripts(plain, seen):
            self._log.append("script_run", step=step, path=path)

    def _confirmation(self, use: ToolUse, result: ToolResult, way: GatewayLine) -> _Confirmation:
        """What the log of the gate's own mock servers says about a reported result.

        A call that is not in it never reached a server, whatever was reported: it has failed. One that is there with
        another answer ended as the server says, and what was reported of it stays a report.
        """
        name = self._harness.mcp_name(use.name)
        if self._tools is None or name not in self._tools.names:
            return _Confirmation("", None, confirmed=False)
        for call in self._tools.unclaimed(way.mcp_calls):
            if call.tool == name and call.arguments == (use.arguments or {}):
                self._tools.claim(call)
                written = json.dumps(call.text, ensure_ascii=False)[1:-1]
                confirmed = call.text in result.text or written in result.text
                self._counts["mcp_result_unconfirmed"] += not confirmed
                return _Confirmation(call.text, call.is_error, confirmed=confirmed)
        self._counts["mcp_result_unconfirmed"] += 1
        return _Confirmation("", True, confirmed=False)

    def _record_reply(self, turn: Turn) -> None:
        reply = turn.reply
        if reply is None:
            return
        self._step = turn.step
        self._model_name = reply.model or self._model_name
        self._log.append(
            "model_reply",
            step=turn.step,
            text=reply.text,
            tool_uses=[
                {"id": use.id, "name": use.name, "arguments": use.arguments, "raw": use.raw_arguments}
                for use in reply.tool_uses
            ],
            finish=reply.finish.value,
            usage=reply.usage.to_json() if reply.usage else None,
            model=reply.model,
        )
        if reply.tool_uses and reply.text.strip():
            self._log.append("note", step=turn.step, text=reply.text)
        for use in reply.tool_uses:
            self._log.append(
                "tool_call",
                step=turn.step,
                call_id=use.id,
                tool=use.name,
                args=use.arguments,
                raw_args=use.raw_arguments,
            )
            for what, detail in self._watch.attempts(self._harness.plain(use)):
                self._attempts += 1
                self._log.append("attempt", step=turn.step, what=what, detail=detail)
        self._waiting = reply.tool_uses

    # --- how it ended

    @property
    def _broke_it(self) -> bool:
        """Whether what ran in the sandbox used up its memory or broke it: the relay may have gone down with it."""
        if isinstance(self._result, ExecResult):
            return self._result.oom
        return isinstance(self._result, BoxDeadError) and self._result.agent_caused

    @property
    def _is_answered(self) -> bool:
        return bool(self._talk.replies) and not self._talk.pending

    def _outcome(self, stop: Stop | None) -> tuple[Outcome, str]:
        """From the gateway's record first, then from the program's end (sealed-cli.md 7)."""
        talk, name = self._talk, self._harness.name
        if talk.unfit is not None:
            raise SandboxError(
                f"{talk.unfit[0].upper()}{talk.unfit[1:]}.",
                remedy=f"This version ({self._program.version}) may look elsewhere, or the skill's front matter hides it from the model.",
            )
        if talk.failed is not None:
            raise ModelError(
                f"{talk.failed.reason}.",
                kind=talk.failed.kind or "connection",
                retryable=talk.failed.retryable or talk.failed.end is Ending.CUT,
            )
        stop = talk.stop or stop
        if self._request.case.trigger is not None:
            return self._trigger_outcome(stop)
        if stop is not None:
            return stop.outcome, stop.reason
        if isinstance(self._result, BoxDeadError) and self._result.agent_caused:
            return (Outcome.OOM if self._result.oom else Outcome.SANDBOX_DEAD), self._result.message
        if isinstance(self._result, SandboxError):
            raise self._result
        ended = self._how_it_ended()
        if not talk.replies:
            raise SandboxError(
                f"{name} asked the model nothing ({ended}).",
                remedy=f"See whether {self._program.harness.program} of this version runs in the sandbox image.",
            )
        if talk.pending or talk.abandoned:
            if self._result is not None and self._result.oom:
                return Outcome.OOM, f"{name} ended for want of memory before its answer"
            if self._result is not None and self._result.timed_out:
                return Outcome.TIMEOUT, f"{name} took more than {LONGEST_S:g} s"
            return Outcome.AGENT_FAILED, f"{name} ended before its answer ({ended})"
        return self._answered()

    def _trigger_outcome(self, stop: Stop | None) -> tuple[Outcome, str]:
        """Only whether the skill was opened is asked; every way of not opening it is an answer."""
        talk = self._talk
        if stop is not None and stop.outcome in (Outcome.OVER_BUDGET, Outcome.BLOCKED):
            return stop.outcome, stop.reason
        if not talk.replies:
            raise SandboxError(f"{self._harness.name} asked the model nothing ({self._how_it_ended()}).")
        closed = STOPPED_ANSWERED if self._is_answered else STOPPED_CLOSED
        words = STOPPED_OPEN if self._reading.is_open else closed
        self._log.append("stopped", step=self._step, text=words)
        return Outcome.COMPLETED, words

    def _answered(self) -> tuple[Outcome, str]:
        reply = self._talk.replies[-1]
        if isinstance(self._result, ExecResult) and self._result.exit_code:
            self._counts["agent_exit_code"] += 1
        if reply.finish is Finish.REFUSAL:
            self._counts["refusal"] += 1
            return Outcome.AGENT_FAILED, "the model refused"
        if reply.finish is Finish.LENGTH:
            self._counts["truncation"] += 1
            return Outcome.AGENT_FAILED, "the answer was cut off at the limit of output tokens"
        if not reply.text.strip():
            return Outcome.AGENT_FAILED, "the model gave an empty answer"
        self._log.append("response", text=reply.text)
        return Outcome.COMPLETED, ""

    def _how_it_ended(self) -> str:
        result = self._result
        if not isinstance(result, ExecResult):
            return str(result.message) if result is not None else "it did not end"
        said = " ".join((result.stderr or result.stdout).decode("utf-8", "replace").split())[-300:]
        code = "after its longest time" if result.timed_out else f"exit code {result.exit_code}"
        return f"{code}: {said}" if said else code


class _Confirmation(NamedTuple):
    """What the gate itself knows of a result."""

    text: str
    is_error: bool | None
    """None: nothing."""
    confirmed: bool
    """Whether what was reported is what the gate's own server answered."""


class _Tools:
    """``gate.protocols.McpTools`` over the mock servers of a case, with what their fixture says about the run."""

    def __init__(self, servers: MockMcp) -> None:
        self._servers = servers
        self._used: set[int] = set()
        self.gap = ""
        self.fails = ""

    @property
    def names(self) -> frozenset[str]:
        """Names of all tools."""
        return frozenset(spec.name for spec in self._servers.specs())

    def specs(self) -> Any:
        """The tools."""
        return self._servers.specs()

    def answer(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """One call."""
        found = self._servers.call(name, arguments)
        self.gap = self.gap or found.gap or ""
        self.fails = self.fails or found.fails or ""
        return found.text, found.is_error

    def unclaimed(self, calls: tuple[McpCall, ...]) -> list[McpCall]:
        """Calls that no result of the conversation stands for yet."""
        return [call for call in calls if id(call) not in self._used]

    def claim(self, call: McpCall) -> None:
        """A result stands for it."""
        self._used.add(id(call))
