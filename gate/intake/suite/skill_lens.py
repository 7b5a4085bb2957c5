"""skill-lens' cases (``evals/*.yaml``, ``*.eval.yaml``): ``task``, ``assertions``, ``trajectory``, ``budget``, ``judge``, ``workspace``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.suite.exact import Spec
from gate.intake.yaml_text import Node, plain

_KEYS = ("name", "task", "sessions", "mode", "tools", "workspace", "tags", "id", "description", "timeout")
_ON_RESPONSE: dict[str, Callable[[str], list[Spec]]] = {
    "contains": exact.contains,
    "not-contains": exact.not_contains,
    "regex": exact.matches,
}
_ON_FILE: dict[str, Callable[[str, str], list[Spec]]] = {
    "contains": exact.file_contains,
    "not-contains": exact.file_not_contains,
    "regex": exact.file_matches,
}
_JUDGING = ("assertions", "trajectory", "budget", "judge")


def _claims(source: Source) -> bool:
    cases = source.root.value.get("cases") if source.root.is_map else None
    return cases is not None and cases.is_list and any(
        item.is_map and ("task" in item.value or "sessions" in item.value) and "prompt" not in item.value for item in cases.value
    )  # fmt: skip


def _read(source: Source) -> Read:
    file = File("skill-lens", source)
    file.outermost({"cases", "tool_libraries"}, {"cases"})
    if "tool_libraries" in source.outer():
        file.settings({"tool_libraries"})
    for node in file.items(source.root.value["cases"], "cases"):
        _case(file, node)
    return file.done()


def _case(file: File, node: Node) -> None:
    draft = file.named(node)  # fmt: skip
    draft.known(_KEYS, _JUDGING)
    file.settings(key for key in ("mode", "timeout") if key in node.value)
    if node.value.get("tools") is not None and node.value["tools"].value:
        draft.lose("it needs mock tools that are declared in another tool's form", node.value["tools"],
                   "Declare them under mcp_servers in evals/skill-gate.yaml.")  # fmt: skip
    task = draft.text("task")
    sessions = node.value.get("sessions")
    if sessions is not None and sessions.value:
        draft.complain("sessions: a conversation of several sessions is not run by this version", sessions)
    elif task is None:
        draft.text("task", required=True)
    for path, item in draft.mapping("files", draft.mapping("workspace")).value.items():
        if isinstance(item.value, str):
            draft.content(path, item.value, item)
        else:
            draft.lose(f"the file {path} is {item.kind}; text was expected", item)
    for item in file.items(node.value.get("assertions"), "assertions"):
        _assertion(draft, item)
    _trajectory(draft, draft.mapping("trajectory"))
    for key, item in draft.mapping("budget").value.items():
        if isinstance(item.value, int | float):
            draft.check(
                exact.budget(key, item.value), item, kind=f"budget.{key}", instead="limit the run in the policy"
            )
        else:
            draft.refuse(f"budget.{key}", "limit the run in the policy", item)
    judge = draft.mapping("judge")
    expected = draft.text("expected", judge)
    for text in (expected, *(text for text, _ in draft.texts("rubric", judge))):
        if text:
            draft.expect(text)
    draft.finish(task, expected_output=expected)


def _assertion(draft: Draft, node: Node) -> None:
    kind = (draft.text("kind", node, required=True) or "").strip().lower().replace("_", "-")
    keys = ("contains", "not-contains", "regex", "equals", "file-produced", "json-schema")
    if not kind:
        return
    if kind not in keys:
        draft.refuse(kind, f"known are {', '.join(keys)}", node)
        return
    if "file_glob" in node.value:
        draft.refuse(f"{kind} with file_glob", "name one file", node)
        return
    if not draft.only(node, kind, ("value", "file", "json_schema")):
        return
    if kind == "json-schema":
        schema = node.value.get("json_schema", node.value.get("value"))
        values = {"path": draft.text("file", node) or "response", "definition": plain(schema) if schema else None}
        draft.check([("json_schema", values)], node, kind=kind)
        return
    path = draft.text("file", node)
    if kind == "file-produced":
        path = path or draft.text("value", node, required=True)
        if path is not None:
            draft.check([("file_exists", {"path": path})], node, kind=kind)
        return
    value = draft.text("value", node, required=True)
    if value is None:
        return
    if kind == "equals" and path is None:
        draft.check(exact.equals(value), node, kind=kind)
    elif kind == "equals":
        draft.check([("file_golden", {"path": path, "expected": value})], node, kind=kind)
    elif path is None:
        draft.check(_ON_RESPONSE[kind](value), node, kind=kind)
    else:
        draft.check(_ON_FILE[kind](path, value), node, kind=kind)


def _trajectory(draft: Draft, node: Node) -> None:
    for key, item in node.value.items():
        kind = f"trajectory.{key}"
        if key in ("called", "forbidden"):
            make = exact.tool_used if key == "called" else exact.tool_not_used
            for tool, place in draft.texts(key, node):
                draft.check(make(tool), place, kind=kind)
            continue
        found = list(_along(draft, node, key, item))
        for specs in found:
            draft.check(specs, item, kind=kind, instead="write tool_call_count or args_field")
        if not found:
            draft.refuse(kind, "write tool_call_count or args_field", item)


def _along(draft: Draft, node: Node, key: str, item: Node) -> Iterator[list[Spec]]:
    """The checks of one key of ``trajectory``; none where it is not understood."""
    if key == "skill_triggered" and isinstance(item.value, bool):
        yield exact.skill_opened(opened=item.value)
    elif key == "order" and item.is_list:
        order = [text for text, _ in draft.texts("order", node)]
        yield [("tool_call_order", {"order": order})] if len(order) > 1 else []
    elif key == "max_calls" and isinstance(item.value, int):
        yield exact.budget("max_tool_calls", item.value)
    elif key == "max_calls" and item.is_map:
        for tool in item.value:
            limit = draft.number(tool, item)
            if limit is not None:
                yield exact.tool_used(tool, at_least=None, at_most=limit)
    elif key == "call_args" and item.is_map and all(inner.is_map for inner in item.value.values()):
        for tool, fields in item.value.items():
            for field, expected in fields.value.items():
                yield [("args_field", {"tool": tool, "field": field, "expected": plain(expected)})]


DIALECT = Dialect("skill-lens", _claims, _read)
