"""Runs of agent programs without an engine: the real gateway, the real relay in a process of its own, a scripted provider over
HTTP, and in the place of the program a function that speaks Anthropic Messages as a program in a sandbox would."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from gate.adapters.gateway.gateway import Gateway
from gate.adapters.model_calls import Retry
from gate.adapters.model_names import parse_model_name
from gate.domain.plan import RunRequest
from gate.domain.sandbox import BoxSpec
from gate.execution.arms import skill_files, skill_folder
from gate.execution.harnesses import Harness
from gate.execution.harnesses.claude_code import ClaudeCode
from gate.execution.harnesses.run import AgentRun, Program
from gate.execution.loop import LoopEnd
from gate.llm.ledger import Ledger
from tests.fakes.sandbox import Command, Ran, ScriptedBox, ScriptedSandbox
from tests.scripted.scenarios import Step
from tests.scripted.server import ScriptedServer
from tests.unit.execution.world import IMAGE, MemoryLog, StillClock, a_ledger, a_request, shell

KEY = "sk-canary-0123456789abcdef"
BASH = {"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object"}}
SKILL_TOOL = {"name": "Skill", "description": "Opens a skill.", "input_schema": {"type": "object"}}

Body = dict[str, Any]


@dataclass
class Agent:
    """What a program in the sandbox has: an address, a token, a prompt."""

    url: str
    token: str
    prompt: str
    listing: str
    """The line by which it offers its skill, as Claude Code writes it; empty without one."""
    swept: threading.Event
    statuses: list[int] = field(default_factory=list)

    def body(self, messages: list[Body], **changes: Any) -> Body:
        system = f"You are an agent.\n\n{self.listing}" if self.listing else "You are an agent."
        tools = [BASH, SKILL_TOOL] if self.listing else [BASH]
        return {
            "model": "agent", "max_tokens": 1000, "system": system, "messages": messages, "tools": tools, **changes,
        }  # fmt: skip

    def first(self) -> list[Body]:
        return [{"role": "user", "content": self.prompt}]

    def post(self, body: object, path: str = "/v1/messages", *, token: str | None = None, **headers: str) -> Any:
        """The answer's JSON, or the status where it is an error or is cut."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {
            "content-type": "application/json", "anthropic-version": "2023-06-01",
            "authorization": f"Bearer {self.token if token is None else token}", **headers,
        }  # fmt: skip
        request = urllib.request.Request(f"{self.url}{path}", data, given)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                self.statuses.append(response.status)
                raw = response.read()
        except urllib.error.HTTPError as error:
            self.statuses.append(error.code)
            return error.code
        except OSError:
            self.statuses.append(0)
            return 0
        return json.loads(raw) if raw.startswith(b"{") else raw

    def work(self, results: Mapping[str, str] | None = None, messages: list[Body] | None = None) -> str:
        """The ordinary loop of such a program: ask, do what is asked, until there is an answer. Returns the answer."""
        messages = messages if messages is not None else self.first()
        while True:
            reply = self.post(self.body(messages))
            if not isinstance(reply, dict):
                return f"status {reply}"
            messages.append({"role": "assistant", "content": reply["content"]})
            uses = [block for block in reply["content"] if block["type"] == "tool_use"]
            if not uses:
                return "".join(block["text"] for block in reply["content"])
            messages.append({"role": "user", "content": [self._result(use, results or {}) for use in uses]})

    @staticmethod
    def _result(use: Body, results: Mapping[str, str]) -> Body:
        text = results.get(str(use["input"].get("command", use["name"])), "done")
        return {"type": "tool_result", "tool_use_id": use["id"], "content": text}


Act = Callable[[Agent], Ran | str | bytes | None]


def acting(act: Act, swept: threading.Event) -> Callable[[ScriptedBox, Command], Ran | bytes | str]:
    """A sandbox in which ``act`` stands for the agent program."""
    inner = shell()

    def program(box: ScriptedBox, command: Command) -> Ran | bytes | str:
        argv = command.argv
        if argv[:2] == ("sh", "-c") and "kill -9 -1" in argv[2]:
            swept.set()
            return ""
        if argv[:2] != ("bash", "-c") or "GATE_TOKEN" not in argv[2]:
            return inner(box, command)
        assert "GATE_TOKEN=" not in argv[2], "no token in the words of a command"
        token, _, prompt = command.stdin.decode().partition("\n")
        assert token not in argv[2]
        skills = [path for path in box.files if path.endswith("/SKILL.md") and path.startswith("/skills/")]
        listing = "- sums: Adds numbers. Use when somebody asks for a sum." if skills else ""
        found = re.search(r"http://127\.0\.0\.1:\d+", argv[2])
        assert found
        ended = act(Agent(found[0], token, prompt, listing, swept))
        return ended if isinstance(ended, Ran | bytes) else ended or ""

    return program


@dataclass
class AgentRan:
    """What a run left behind."""

    end: LoopEnd
    log: MemoryLog
    gateway_log: MemoryLog
    server: ScriptedServer
    ledger: Ledger

    @property
    def counts(self) -> dict[str, int]:
        return {item.kind: item.count for item in self.end.fallbacks}


def run_agent(
    act: Act,
    model: Step,
    request: RunRequest | None = None,
    *,
    harness: Harness | None = None,
    ledger: Ledger | None = None,
    clock: StillClock | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    allow_protocol_errors: bool = False,
    upstream: str = "",
) -> AgentRan:
    """One run through the real gateway. ``upstream``: address of another provider than the scripted one."""
    request = request or a_request()
    log, gateway_log, swept = MemoryLog(), MemoryLog(), threading.Event()
    ledger = ledger or a_ledger()
    clock = clock or StillClock()
    with (
        ScriptedServer(model, strict_turns=False, allow_protocol_errors=allow_protocol_errors) as server,
        ScriptedSandbox(acting(act, swept)) as sandbox,
        sandbox.open(BoxSpec(session_id="s", label="l", image=IMAGE)) as box,
    ):
        if request.skill is not None:
            box.put_skill(skill_files(request.skill), name=skill_folder(request.skill))
        gateway = Gateway(
            parse_model_name(f"anthropic@{upstream or server.url}:agent"),
            SecretStr(KEY),
            ledger=ledger,
            clock=clock,
            retry=Retry(jitter=lambda: 0.0),
            port=0,
        )
        try:
            end = AgentRun(
                request,
                program=Program(harness or ClaudeCode(), "1.2.3", "", ""),
                gateway=gateway,
                box=box,
                log=log,
                gateway_log=gateway_log,
                clock=clock,
                cancelled=cancelled,
            ).run()
        finally:
            swept.set()
            gateway.close()
    return AgentRan(end, log, gateway_log, server, ledger)
