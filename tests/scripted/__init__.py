"""A scripted model behind real HTTP, for every test that needs a model and must not have one.

    with ScriptedServer(turns(Reply.calling("bash", {"command": "ls"}), Reply("There are two files."))) as server:
        client = openai.OpenAI(base_url=server.openai_url, api_key="none", max_retries=0)
        ...
        assert server.requests[1].last.tool_results[0].text == "a b"

It speaks OpenAI chat completions, OpenAI responses and Anthropic messages, streamed or not, with the official SDKs or anything else. A
*scenario* decides each answer: a function from ``Request`` to a ``Reply`` or a fault, usually put together from
``Script`` (a queue), ``turns`` (tool loops), ``by_role``, ``first`` and ``after``. All that it sends derives from what
it was sent: no clock and no randomness, so that a recording of it is the same bytes every time.

What a real provider would refuse is refused, and fails the test at the end of the block.

From a shell: ``python -m tests.scripted --scenario some.module:name`` prints the address and serves until it is told
to stop.
"""

from tests.scripted.faults import (
    Answer,
    Delayed,
    Dropped,
    Empty,
    Endless,
    ErrorInStream,
    Fault,
    HttpError,
    Malformed,
    SlowDrip,
    Truncated,
    bad_gateway,
    context_too_long,
    forbidden,
    no_such_model,
    overloaded,
    quota_exceeded,
    rate_limited,
    server_error,
    too_large,
    unauthorized,
    unavailable,
    unsupported_parameter,
)
from tests.scripted.scenarios import Scenario, ScenarioError, Script, Step, after, as_scenario, by_role, first, turns
from tests.scripted.server import ProtocolError, ScriptedServer, ScriptedServerError
from tests.scripted.values import (
    SECRET_HEADERS,
    VOLATILE_HEADERS,
    Message,
    Reply,
    Request,
    ToolCall,
    ToolResult,
    Usage,
)

__all__ = [
    "SECRET_HEADERS",
    "VOLATILE_HEADERS",
    "Answer",
    "Delayed",
    "Dropped",
    "Empty",
    "Endless",
    "ErrorInStream",
    "Fault",
    "HttpError",
    "Malformed",
    "Message",
    "ProtocolError",
    "Reply",
    "Request",
    "Scenario",
    "ScenarioError",
    "Script",
    "ScriptedServer",
    "ScriptedServerError",
    "SlowDrip",
    "Step",
    "ToolCall",
    "ToolResult",
    "Truncated",
    "Usage",
    "after",
    "as_scenario",
    "bad_gateway",
    "by_role",
    "context_too_long",
    "first",
    "forbidden",
    "no_such_model",
    "overloaded",
    "quota_exceeded",
    "rate_limited",
    "server_error",
    "too_large",
    "turns",
    "unauthorized",
    "unavailable",
    "unsupported_parameter",
]
