from __future__ import annotations

import threading
from typing import Any

import pytest

from gate.domain.sandbox import BoxSpec
from gate.errors import BoxDeadError, SandboxError
from gate.execution.looking import LookedInto
from tests.fakes.sandbox import Command, ScriptedBox, ScriptedSandbox
from tests.unit.execution.world import IMAGE


def test_no_command_runs_before_the_look_has_ended_and_was_noted() -> None:
    order: list[str] = []
    allowed = threading.Event()

    def program(box: ScriptedBox, command: Command) -> str:
        order.append(command.argv[0])
        return ""

    def look() -> dict[str, Any]:
        assert allowed.wait(20)
        order.append("looked")
        return {"skills_seen": 0}

    with (
        ScriptedSandbox(program) as sandbox,
        sandbox.open(BoxSpec(session_id="s", label="l", image=IMAGE)) as box,
        LookedInto(box, look, lambda found: order.append(f"noted {found}")) as looked,
    ):
        order.append("the model answers")
        threading.Timer(0.1, allowed.set).start()
        looked.exec(["first"], timeout_s=1)
        looked.exec(["second"], timeout_s=1)

    assert order == ["the model answers", "looked", "noted {'skills_seen': 0}", "first", "second"]


@pytest.mark.requirements("R222")
@pytest.mark.parametrize(
    "error", [SandboxError("the baseline holds the skill"), BoxDeadError("gone", agent_caused=True)]
)
def test_what_the_look_finds_wrong_stops_every_command_and_is_not_the_agents_doing(error: SandboxError) -> None:
    def look() -> dict[str, Any]:
        raise error

    with ScriptedSandbox() as sandbox, sandbox.open(BoxSpec(session_id="s", label="l", image=IMAGE)) as box:
        with LookedInto(box, look, lambda found: pytest.fail("nothing was found")) as looked:
            for use in (
                lambda: looked.exec(["ls"], timeout_s=1),
                looked.collect,
                lambda: looked.put_workspace([]),
                looked.settle,
            ):
                with pytest.raises(SandboxError, match=error.message) as caught:
                    use()
                assert not isinstance(caught.value, BoxDeadError)
        assert box.calls == []


def test_a_look_does_not_outlast_its_block() -> None:
    ended = threading.Event()

    def look() -> dict[str, Any]:
        threading.Event().wait(0.2)
        ended.set()
        return {}

    with ScriptedSandbox() as sandbox, sandbox.open(BoxSpec(session_id="s", label="l", image=IMAGE)) as box:
        with pytest.raises(ZeroDivisionError), LookedInto(box, look, lambda found: None):
            _ = 1 / 0
        assert ended.is_set()
