"""skill-lens' cases (``evals/*.yaml``, ``*.eval.yaml``): ``task``, ``assertions``, ``trajectory``, ``budget``, ``judge``, ``workspace``."""

from __future__ import annotations

from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.yaml_text import Node, plain

_KEYS = ("name", "task", "sessions", "mode", "tools", "workspace", "tags", "id", "description", "timeout")
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
    draft = file.draft(node, given_id=node.value["id"].value if "id" in node.value else None,
                       name=str(node.value["name"].value or "") if "name" in node.value else "")  # fmt: skip
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
    workspace = node.value.get("workspace")
    files = workspace.value.get("files") if workspace is not None and workspace.is_map else None
    for path, item in files.value.items() if files is not None and files.is_map else ():
        if isinstance(item.value, str):
            draft.content(path, item.value, item)
        else:
            draft.lose(f"the file {path} is {item.kind}; text was expected", item)
    for item in file.items(node.value.get("assertions"), "assertions"):
        _assertion(draft, item)
    trajectory = node.value.get("trajectory")
    if trajectory is not None and trajectory.is_map:
        _trajectory(draft, trajectory, task)
    budget = node.value.get("budget")
    for key, item in budget.value.items() if budget is not None and budget.is_map else ():
        if isinstance(item.value, int):
            draft.check(
                exact.budget(key, item.value), item, kind=f"budget.{key}", instead="limit the run in the policy"
            )
        else:
            draft.refuse(f"budget.{key}", "limit the run in the policy", item)
    judge = node.value.get("judge")
    expected = None
    if judge is not None and judge.is_map:
        expected = draft.text("expected", judge)
        for text in (expected, *(text for text, _ in draft.texts("rubric", judge))):
            if text:
                draft.expect(text)
    draft.finish(task, expected_output=expected)


def _assertion(draft: Draft, node: Node) -> None:
    kind = (draft.text("kind", node, required=True) or "").strip().lower().replace("_", "-")
    keys = {"contains", "not-contains", "regex", "equals", "file-produced"}
    if not kind:
        return
    if kind not in keys:
        draft.refuse(kind, "write json_field for a field of a JSON file" if kind == "json-schema" else
                     f"known are {', '.join(sorted(keys))}", node)  # fmt: skip
        return
    if not draft.only(node, kind, ("value", "file", "file_glob")) or "file_glob" in node.value:
        if "file_glob" in node.value:
            draft.refuse(f"{kind} with file_glob", "name one file", node)
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
    if kind == "equals":
        draft.refuse(kind, "write response_matches with a pattern for the whole answer", node)
    elif path is None:
        make = {"contains": exact.contains, "not-contains": exact.not_contains, "regex": exact.matches}[kind]
        draft.check(make(value), node, kind=kind)
    else:
        build = {"contains": exact.file_contains, "not-contains": exact.file_not_contains, "regex": exact.file_matches}[
            kind
        ]
        draft.check(build(path, value), node, kind=kind)


def _trajectory(draft: Draft, node: Node, task: str | None) -> None:
    for key, item in node.value.items():
        if key in ("called", "forbidden"):
            make = exact.tool_used if key == "called" else exact.tool_not_used
            for tool, place in draft.texts(key, node):
                draft.check(make(tool), place, kind=f"trajectory.{key}")
        elif key == "skill_triggered" and isinstance(item.value, bool):
            if task:
                draft.trigger(task, item.value)
        elif key == "max_calls" and item.is_map:
            for tool in item.value:
                limit = draft.number(tool, item)
                if limit is not None:
                    draft.check(exact.tool_used(tool, at_least=None, at_most=limit), item, kind="trajectory.max_calls")
        elif key == "call_args" and item.is_map and all(inner.is_map for inner in item.value.values()):
            for tool, fields in item.value.items():
                for field, expected in fields.value.items():
                    draft.check([("args_field", {"tool": tool, "field": field, "expected": plain(expected)})], expected,
                                kind="trajectory.call_args")  # fmt: skip
        else:
            draft.refuse(f"trajectory.{key}", "write tool_call_count or args_field", item)


DIALECT = Dialect("skill-lens", _claims, _read)
