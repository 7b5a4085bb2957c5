"""One task a YAML file (UiPath/skills): ``task_id``, ``initial_prompt``, ``success_criteria``."""

from __future__ import annotations

from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File, names_skill
from gate.intake.yaml_text import Node

_KEYS = (
    "task_id",
    "description",
    "tags",
    "skip",
    "run_limits",
    "sandbox",
    "reference",
    "initial_prompt",
    "agent",
    "max_turns",
)
_WEIGHTS = ("weight", "pass_threshold")


def _claims(source: Source) -> bool:
    return "initial_prompt" in source.outer() and bool({"success_criteria", "task_id"} & source.outer())


def _read(source: Source) -> Read:
    file = File("uipath-task", source)
    node = source.root
    draft = file.named(node, "task_id")
    draft.known(_KEYS, {"success_criteria"})
    file.settings(key for key in ("run_limits", "reference", "agent", "max_turns") if key in node.value)
    prompt = draft.text("initial_prompt", required=True)
    if draft.flag("skip"):
        draft.lose("it is switched off (skip: true)", node.value["skip"])
    for key, item in draft.mapping("sandbox").value.items():
        if key == "template_sources":
            for source_node in file.items(item, "template_sources"):
                if draft.text("type", source_node) == "template_dir":
                    draft.folder(draft.text("path", source_node, required=True), source_node)
                else:
                    draft.lose("a template source of this type is not read", source_node)
        elif item.value:
            file.settings({f"sandbox.{key}"})
    for item in file.items(node.value.get("success_criteria"), "success_criteria"):
        _criterion(draft, item)
    draft.finish(prompt)
    return file.done()


def _criterion(draft: Draft, node: Node) -> None:
    kind = (draft.text("type", node, required=True) or "").strip().lower()
    words = draft.text("description", node) or ""
    if kind == "skill_triggered":
        if names_skill(node.value.get("skill_name") or node.value.get("expected_skill"), draft.file.source):
            draft.check(exact.skill_opened(), node, kind=kind, description=words)
        else:
            draft.refuse(kind, "no other skill is in the sandbox", node)
    elif kind in ("command_executed", "command_not_executed"):
        _ran(draft, node, kind, words)
    elif kind == "run_command":
        _command(draft, node, words)
    elif kind == "file_exists":
        path = draft.text("path", node, required=True)
        if path is not None and draft.only(node, kind, ("path", *_WEIGHTS)):
            draft.check(exact.file_exists(path, draft.fixtures), node, kind=kind, description=words)
    elif kind == "file_check":
        _file(draft, node, words)
    elif kind == "llm_judge":
        text = draft.text("prompt", node) or words
        if text:
            draft.expect(text)
        else:
            draft.complain("the criterion llm_judge has no prompt", node, "Add prompt.")
    elif kind:
        draft.refuse(kind, "write it as a check of ours or as an expectation", node)


def _ran(draft: Draft, node: Node, kind: str, words: str) -> None:
    pattern = draft.text("command_pattern", node, required=True)
    if draft.number("min_count", node) not in (None, 1):
        draft.refuse(f"{kind} more than once", "write tool_call_count", node)
    elif pattern is not None and draft.only(node, kind, ("command_pattern", "min_count", *_WEIGHTS)):
        specs = exact.command_ran(pattern, ran=kind == "command_executed")
        draft.check(specs, node, kind=kind, description=words)


def _command(draft: Draft, node: Node, words: str) -> None:
    kind = "run_command"
    if "env" in node.value:
        draft.refuse(kind, "write its environment into the command", node)
    elif draft.only(node, kind, ("command", "timeout", "expected_exit_code", *_WEIGHTS)):
        line = draft.text("command", node, required=True)
        code, seconds = draft.number("expected_exit_code", node), draft.number("timeout", node)
        if line is not None:
            specs = exact.command(line, exit_code=code or 0, timeout_s=min(seconds or 30, 300))
            draft.check(specs, node, kind=kind, description=words)


def _file(draft: Draft, node: Node, words: str) -> None:
    path = draft.text("path", node, required=True)
    if path is None or not draft.only(node, "file_check", ("path", "patterns", "includes", "excludes", *_WEIGHTS)):
        return
    found = 0
    for item in draft.file.items(node.value.get("patterns"), "patterns"):
        pattern = draft.text("pattern", item, required=True)
        must = draft.flag("must_match", item)
        if pattern is not None and draft.only(item, "file_check.patterns", ("pattern", "must_match")):
            make = exact.file_not_matches if must is False else exact.file_matches
            draft.check(make(path, pattern), item, kind="file_check.patterns", description=words)
            found += 1
    for key, build in (("includes", exact.file_contains), ("excludes", exact.file_not_contains)):
        for text, item in draft.texts(key, node):
            draft.check(build(path, text), item, kind=f"file_check.{key}", description=words)
            found += 1
    if not found:
        draft.check(exact.file_exists(path, draft.fixtures), node, kind="file_check", description=words)


DIALECT = Dialect("uipath-task", _claims, _read)
