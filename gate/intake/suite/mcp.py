"""MCP servers as a suite declares them (sandbox.md 4). Answers stand in the suite, but for a server with mode real.

mcp_servers:
  - name: tickets                        # letters, digits, - and _
    tools:
      - name: search
        description: Search tickets      # default: empty
        input_schema: {type: object}     # JSON Schema of the arguments; default: any object
        on_unmatched: error              # error | empty | fail_case
        responses:                       # the first that matches and is not used up answers
          - when: {q: {regex: refund}}   # argument -> equals | regex | contains | any | absent;
            times: 2                     #   a plain value means equals; no when, or when: any, matches every call
            after: open                  # only where this tool of the server was answered before, in this run
            structured: {ids: [7, 9]}    # or text: …
          - text: not found
            is_error: true
          - fault: timeout               # instead of an answer: protocol_error | timeout | disconnect | oversized
  - name: orders
    mode: replay                         # answers are the recorded calls of the cassette, each once
    tools: [{name: get, input_schema: {type: object}}]
    cassette:
      - {tool: get, arguments: {id: 7}, structured: {state: sent}}
  - name: crm
    mode: real                           # asked itself, only where mcp_real of the base policy names it
    tools: [{name: find_customer}]       # names only: schema and description are the server's own
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gate.domain.base import Json
from gate.domain.suite import McpCall, McpResponse, McpServer, McpTool, McpWhen
from gate.intake.notes import nearest, short
from gate.intake.yaml_text import Node, plain

Complain = Callable[[str, Node, str], None]
"""Takes a message, the node it is about and a remedy."""

MODES = ("mock", "replay", "real")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_CONDITIONS = ("equals", "regex", "contains", "any", "absent")
_FAULTS = ("protocol_error", "timeout", "disconnect", "oversized")
_MAX_TOOL_NAME = 64
"""What providers allow for ``mcp__<server>__<tool>``."""


def read_servers(node: Node, complain: Complain) -> tuple[McpServer, ...]:
    """Every server that could be read; what could not was complained about."""
    if not node.is_list:
        complain(f"mcp_servers is {node.kind}; a list was expected", node, "")
        return ()
    servers = [server for item in node.value if (server := _server(item, complain))]
    _no_twins([(server.name, item) for server, item in zip(servers, node.value, strict=False)], "servers", complain)
    return tuple(servers)


def _server(node: Node, complain: Complain) -> McpServer | None:
    if not _is_map(node, ("name", "mode", "tools", "cassette"), "an MCP server", complain):
        return None
    name = _name(node, complain)
    mode_node = node.value.get("mode")
    mode: Any = mode_node.value if mode_node is not None else "mock"
    if mode not in MODES:
        complain(f'mode "{short(mode)}" is unknown; {", ".join(MODES)} was expected', mode_node or node, "")
        return None
    tools_node = node.value.get("tools")
    if tools_node is None or not tools_node.is_list or not tools_node.value:
        complain(f'the MCP server "{short(name)}" has no tools', tools_node or node, "Declare at least one tool.")
        return None
    if mode == "real" and not _names_only(tools_node, complain):
        return None
    tools = [tool for item in tools_node.value if (tool := _tool(item, name or "", complain))]
    _no_twins([(tool.name, item) for tool, item in zip(tools, tools_node.value, strict=False)], "tools", complain)
    named = {tool.name for tool in tools}
    lost = next(
        (item.after for tool in tools for item in tool.responses if item.after and item.after not in named), None
    )
    if lost is not None:
        complain(f'after "{short(lost)}" names no tool of the MCP server "{short(name)}"', node, "")
        return None
    cassette = _cassette(node.value.get("cassette"), {tool.name for tool in tools}, complain)
    if (mode == "replay") is not bool(cassette):
        wrong = "mode replay needs a cassette" if mode == "replay" else "a cassette needs mode: replay"
        complain(f'the MCP server "{short(name)}": {wrong}', node, "")
        return None
    if mode == "replay" and any(tool.responses for tool in tools):
        complain(f'the MCP server "{short(name)}" replays a cassette, so its tools have no responses', node, "")
        return None
    return McpServer(name=name, mode=mode, tools=tuple(tools), cassette=cassette) if name else None


def _names_only(tools: Node, complain: Complain) -> bool:
    """A real server answers for itself: whatever else a suite says of its tools would not be followed."""
    said = [value for item in tools.value if item.is_map for key, value in item.value.items() if key != "name"]
    for value in said:
        complain("a tool of a real server has a name only", value, "Leave the rest out: the server says it itself.")
    return not said


def _cassette(node: Node | None, tools: set[str], complain: Complain) -> tuple[McpCall, ...]:
    if node is None or node.value is None:
        return ()
    if not node.is_list:
        complain(f"cassette is {node.kind}; a list of calls was expected", node, "")
        return ()
    return tuple(call for item in node.value if (call := _call(item, tools, complain)) is not None)


def _call(node: Node, tools: set[str], complain: Complain) -> McpCall | None:
    if not _is_map(node, ("tool", "arguments", "structured", "text", "is_error"), "a recorded call", complain):
        return None
    tool, arguments = node.value.get("tool"), node.value.get("arguments")
    if tool is None or tool.value not in tools:
        complain(
            "a recorded call names no tool of its server", tool or node, f"Name one of {', '.join(sorted(tools))}."
        )
        return None
    if arguments is not None and not arguments.is_map:
        complain(f"arguments is {arguments.kind}; keys and values were expected", arguments, "")
        return None
    answer = _answer(node.value, node, complain)
    if answer is None:
        return None
    return McpCall(tool=tool.value, arguments=plain(arguments) if arguments is not None else {}, **answer)


def _answer(fields: dict[str, Node], node: Node, complain: Complain) -> dict[str, Any] | None:
    """structured, text and is_error of a response or a recorded call."""
    text, is_error = fields.get("text"), fields.get("is_error")
    good = True
    if "structured" not in fields and text is None:
        complain("a response needs structured or text", node, "")
        good = False
    if text is not None and not isinstance(text.value, str):
        complain(f"text is {text.kind}; text was expected", text, "Put the value in quotes.")
        good = False
    if is_error is not None and not isinstance(is_error.value, bool):
        complain(f"is_error is {is_error.kind}; true or false was expected", is_error, "")
        good = False
    if not good:
        return None
    return {
        "structured": plain(fields["structured"]) if "structured" in fields else None,
        "text": text.value if text else None,
        "is_error": is_error.value if is_error else False,
    }


def _tool(node: Node, server: str, complain: Complain) -> McpTool | None:
    known = ("name", "description", "input_schema", "responses", "on_unmatched")
    if not _is_map(node, known, "an MCP tool", complain):
        return None
    name = _name(node, complain)
    if not name:
        return None
    if len(f"mcp__{server}__{name}") > _MAX_TOOL_NAME:
        complain(f"mcp__{server}__{name} is longer than the {_MAX_TOOL_NAME} characters that providers allow", node, "")
    description = node.value.get("description")
    unmatched = node.value.get("on_unmatched")
    mode: Any = unmatched.value if unmatched else "error"
    if mode not in ("error", "empty", "fail_case"):
        complain(
            f'on_unmatched "{short(mode)}" is unknown; error, empty or fail_case was expected', unmatched or node, ""
        )
        mode = "error"
    schema = _schema(node.value.get("input_schema"), complain)
    responses_node = node.value.get("responses")
    responses: list[McpResponse] = []
    if responses_node is not None and not responses_node.is_list:
        complain(f"responses is {responses_node.kind}; a list was expected", responses_node, "")
    elif responses_node is not None:
        responses = [answer for item in responses_node.value if (answer := _response(item, complain))]
    return McpTool(
        name=name,
        description=str(description.value or "") if description else "",
        input_schema=schema,
        responses=tuple(responses),
        on_unmatched=mode,
    )


def _schema(node: Node | None, complain: Complain) -> dict[str, Json]:
    if node is None:
        return {"type": "object"}
    if not node.is_map:
        complain(f"input_schema is {node.kind}; a JSON Schema object was expected", node, "")
        return {"type": "object"}
    import jsonschema  # only suites with mock servers need it

    schema: dict[str, Json] = plain(node)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        complain(f"input_schema is no JSON Schema: {short(error.message)}", node, "")
        return {"type": "object"}
    return schema


def _response(node: Node, complain: Complain) -> McpResponse | None:
    known = ("when", "times", "structured", "text", "is_error", "result", "fault", "after")
    if not _is_map(node, known, "a response", complain):
        return None
    fields = dict(node.value)
    result = fields.pop("result", None)
    if result is not None and _is_map(result, ("structured", "text", "is_error"), "a result", complain):
        fields.update(result.value)
    times, fault, after = fields.get("times"), fields.get("fault"), fields.get("after")
    good = True
    if after is not None and not isinstance(after.value, str):
        complain(f"after is {after.kind}; the name of a tool of this server was expected", after, "")
        good = False
    if fault is not None and fault.value not in _FAULTS:
        complain(f'the fault "{short(fault.source)}" is unknown; one of {", ".join(_FAULTS)} was expected', fault, "")
        good = False
    if times is not None and (isinstance(times.value, bool) or not isinstance(times.value, int) or times.value < 1):
        complain(f"times is {times.kind}; a whole number from 1 was expected", times, "")
        good = False
    answer = {} if fault is not None else _answer(fields, node, complain)
    when = _when(fields.get("when"), complain)
    if not good or when is None or answer is None:
        return None
    return McpResponse(
        when=when,
        times=times.value if times else None,
        fault=fault.value if fault is not None else None,
        after=after.value if after is not None else None,
        **answer,
    )


def _when(node: Node | None, complain: Complain) -> dict[str, McpWhen] | None:
    if node is None or node.value in (None, "any"):
        return {}
    if not node.is_map:
        complain(f"when is {node.kind}; arguments with conditions, or any, were expected", node, "")
        return None
    found = {name: _condition(name, item, complain) for name, item in node.value.items()}
    return {name: item for name, item in found.items() if item} if all(found.values()) else None


def _condition(name: str, node: Node, complain: Complain) -> McpWhen | None:
    if not node.is_map:
        return McpWhen(equals=plain(node))
    keys = list(node.value)
    if len(keys) != 1 or keys[0] not in _CONDITIONS:
        complain(
            f'the condition of "{short(name)}" must have exactly one of {", ".join(_CONDITIONS)}', node,
            "Write {equals: …} to compare with an object.",
        )  # fmt: skip
        return None
    key, value = keys[0], node.value[keys[0]]
    if key == "equals":
        return McpWhen(equals=plain(value))
    if key in ("any", "absent"):
        if value.value is not True:
            complain(f"{key} must be true", value, "")
            return None
        return McpWhen(any=True) if key == "any" else McpWhen(absent=True)
    if not isinstance(value.value, str):
        complain(f"{key} is {value.kind}; text was expected", value, "Put the value in quotes.")
        return None
    if key == "contains":
        return McpWhen(contains=value.value)
    try:
        re.compile(value.value)
    except (re.error, OverflowError, RecursionError) as error:
        complain(f"regex is no regular expression: {short(error)}", value, "")
        return None
    return McpWhen(regex=value.value)


def _name(node: Node, complain: Complain) -> str | None:
    name = node.value.get("name")
    if name is None or not isinstance(name.value, str) or not _NAME.fullmatch(name.value):
        complain("a name of letters, digits, - and _ was expected", name or node, "")
        return None
    return name.value


def _is_map(node: Node, known: tuple[str, ...], what: str, complain: Complain) -> bool:
    if not node.is_map:
        complain(f"{what} is {node.kind}; keys and values were expected", node, "")
        return False
    for key, value in node.value.items():
        if key not in known:
            likely = nearest(key, known)
            hint = f"did you mean {likely}?" if likely else f"known are {', '.join(known)}"
            complain(f'"{short(key)}" is an unknown key of {what}; {hint}', value, "")
    return True


def _no_twins(named: list[tuple[str, Node]], what: str, complain: Complain) -> None:
    seen: set[str] = set()
    for name, node in named:
        if name in seen:
            complain(f'two MCP {what} have the name "{short(name)}"', node, "")
        seen.add(name)
