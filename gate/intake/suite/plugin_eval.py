"""One case a folder, ``case.yaml`` (``claude plugin eval``; trailofbits/skills): ``execution.prompt`` and ``graders``, or an
``expected_outcome`` in prose.
"""

from __future__ import annotations

import posixpath

from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.yaml_text import Node

_KEYS = ("schema_version", "name", "description", "tags", "context", "execution", "runs")
_JUDGING = ("graders", "expected_outcome", "expected_outcomes")


def _claims(source: Source) -> bool:
    execution = source.root.value.get("execution") if source.root.is_map else None
    return execution is not None and execution.is_map and "prompt" in execution.value


def _read(source: Source) -> Read:
    file = File("plugin-eval", source)
    node = source.root
    folder = posixpath.basename(file.folder)
    draft = file.draft(node, name=str(node.value["name"].value or folder) if "name" in node.value else folder)
    draft.known(_KEYS, _JUDGING)
    execution = node.value["execution"]
    prompt = draft.text("prompt", execution, required=True)
    file.settings(f"execution.{key}" for key in execution.value if key != "prompt")
    file.settings(key for key in ("runs",) if key in node.value)
    context = draft.mapping("context")
    for key, item in context.value.items():
        if item.value in (None, [], {}, ""):
            continue
        if key == "add_dirs":
            for text, place in draft.texts("add_dirs", context):
                draft.fixture(text, node=place)
        else:
            draft.lose(f"its context needs {key}, which is not done by this version", item)
    for item in file.items(node.value.get("graders"), "graders"):
        _grader(draft, item)
    for key in ("expected_outcome", "expected_outcomes"):
        for text, _ in draft.texts(key):
            draft.expect(text)
    draft.finish(prompt)
    return file.done()


def _grader(draft: Draft, node: Node) -> None:
    kind = (draft.text("type", node, required=True) or "").strip().lower()
    name = draft.text("name", node) or ""
    if kind == "llm":
        criteria = draft.text("criteria", node, required=True)
        if criteria is not None:
            draft.expect(criteria)
    elif kind == "regex":
        _regex(draft, node, name)
    elif kind == "tool_used":
        if draft.only(node, kind, ("tool", "min", "max")):
            tool = draft.text("tool", node, required=True)
            least, most = draft.number("min", node), draft.number("max", node)
            least = 1 if least is None and most is None else least
            if tool is not None:
                draft.check(exact.tool_used(tool, at_least=least, at_most=most), node, kind=kind, description=name)
    elif kind == "file_exists":
        path = draft.text("path", node) or draft.text("glob", node) or draft.text("pattern", node)
        if path is None:
            draft.complain("the grader file_exists has no path", node)
        elif draft.only(node, kind, ("path", "glob", "pattern")):
            # That tool asks for a file that the agent created.
            specs = [("file_exists", {"path": path})] if not set("*?[") & set(path) else exact.file_exists(path)
            draft.check(specs, node, kind=kind, description=name)
    elif kind == "baseline":
        draft.file.settings({"baseline grader (Layer 3 compares every suite)"})
    elif kind:
        draft.refuse(kind, "known are llm, regex, tool_used, file_exists", node)


def _regex(draft: Draft, node: Node, name: str) -> None:
    if not draft.only(node, "regex", ("target", "flags", "pattern", "match")):
        return
    pattern = draft.text("pattern", node, required=True)
    if pattern is None:
        return
    flags = draft.text("flags", node) or ""
    match = (draft.text("match", node) or "contains").strip().lower().replace("-", "_")
    negated = match in ("not_contains", "absent", "excludes", "none")
    if match not in ("contains", "present", "any") and not negated:
        draft.refuse(f"regex with match: {match}", "write response_matches or response_not_matches", node)
        return
    if set(flags) - set("gimsu"):
        draft.refuse(f"regex with flags: {flags}", "write the flags into the pattern, such as (?i)", node)
        return
    inline = "".join(flag for flag in "ms" if flag in flags)
    pattern = f"(?{inline}){pattern}" if inline else pattern
    loose = "i" in flags
    target = node.value.get("target")
    if target is not None and target.is_map:
        path = draft.text("path", target)
        if path is None or str(target.value["source"].value if "source" in target.value else "") != "file":
            draft.refuse("regex on this target", "write file_contains with a pattern", node)
        elif negated:
            draft.check(
                exact.file_not_matches(path, pattern, ignore_case=loose),
                node,
                kind="regex",
                description=name,
            )
        else:
            draft.check(exact.file_matches(path, pattern, ignore_case=loose), node, kind="regex", description=name)
    elif target is None or target.value in ("last_message", "response", "output"):
        make = exact.not_matches if negated else exact.matches
        draft.check(make(pattern, ignore_case=loose), node, kind="regex", description=name)
    else:
        draft.refuse(
            f"regex on the target {target.source}", "write tool_call_count or args_field for what the agent did", node
        )


DIALECT = Dialect("plugin-eval", _claims, _read)
