"""vally's eval specs (GitHub-Copilot-for-Azure, newer dotnet/skills): ``stimuli`` with ``prompt`` and ``graders``.

``skill-invocation`` says whether the skill should be opened: kept as a trigger case, not run by this version. ``prompt``
graders are prose. ``pairwise`` is what Layer 3 does for every suite. What has no exact equal is an error.
"""

from __future__ import annotations

import re

from gate.domain.suite import CaseType
from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File, names_skill
from gate.intake.yaml_text import Node, plain

_KEYS = ("name", "prompt", "environment", "constraints", "tags", "description", "timeout", "reward", "earlyTerminate")
_JUDGING = ("graders", "rubric", "turns", "expect_tools", "reject_tools", "expect_activation", "expected")
_TEXT = ("substring", "value", "text", "content")
_NAME = re.compile(r"\^?([A-Za-z0-9_:-]+)\$?")


def _claims(source: Source) -> bool:
    return "stimuli" in source.outer()


def _read(source: Source) -> Read:
    file = File("vally", source)
    root = source.root.value
    file.outermost({"stimuli", "environment", "graders", "rubric"}, {"stimuli", "graders", "rubric"})
    for node in file.items(root.get("stimuli"), "stimuli"):
        _stimulus(file, node, root)
    return file.done()


def _stimulus(file: File, node: Node, root: dict[str, Node]) -> None:
    draft = file.draft(node, name=str(node.value["name"].value or "") if "name" in node.value else "")
    draft.known(_KEYS, _JUDGING)
    file.settings(key for key in ("constraints", "earlyTerminate", "timeout", "reward") if key in node.value)
    if "turns" in node.value:
        draft.complain("turns: a conversation of several turns is not run by this version", node.value["turns"],
                       "Write a case with one prompt.")  # fmt: skip
    prompt = draft.text("prompt", required="turns" not in node.value)
    for environment in (root.get("environment"), node.value.get("environment")):
        if environment is not None and environment.is_map:
            _environment(draft, environment)
        elif environment is not None and environment.value is not None:
            file.settings({"environment"})
    negative = False
    for holder in (root, node.value):
        for item in file.items(holder.get("graders"), "graders"):
            negative = _grader(draft, item, prompt) or negative
        rubric = holder.get("rubric")
        if rubric is not None:
            for text, _ in draft.texts("rubric", Node(rubric.line, 1, {"rubric": rubric})):
                draft.expect(text)
    for key, make in (("expect_tools", exact.tool_used), ("reject_tools", exact.tool_not_used)):
        for tool, item in draft.texts(key):
            draft.check(make(tool), item, kind=key)
    draft.finish(prompt, type_=CaseType.NEGATIVE if negative else CaseType.HAPPY_PATH)


def _environment(draft: Draft, node: Node) -> None:
    for key, item in node.value.items():
        if key == "files":
            for file in draft.file.items(item, "environment.files"):
                target = draft.text("dest", file) or draft.text("path", file)
                if "content" in file.value:
                    draft.content(target, draft.text("content", file) or "", file)
                else:
                    draft.fixture(draft.text("src", file, required=True), target, file)
        elif key == "commands" and item.value:
            draft.lose("its environment needs commands before the run, which this version does not run", item)
        elif key != "skills" and item.value not in (None, [], {}):
            draft.file.settings({f"environment.{key}"})


def _grader(draft: Draft, node: Node, prompt: str | None) -> bool:
    """Adds a grader; True where it says that the skill should stay shut."""
    kind = (draft.text("type", node, required=True) or "").strip().lower().replace("_", "-")
    config = node.value.get("config", node)
    if not config.is_map:
        config = Node(node.line, 1, {})
    if kind == "skill-invocation":
        return _invocation(draft, config, prompt)
    if kind in ("completed", "exit-success"):
        draft.check(exact.not_empty(), node, kind=kind)
    elif kind in ("prompt", "llm-judge", "rubric", "multi-judge"):
        found = [text for key in ("rubric", "prompt", "criteria") for text, _ in draft.texts(key, config)]
        for text in found:
            draft.expect(text)
        if not found:
            draft.complain(f"the grader {kind} has no prompt", node, "Add config.prompt.")
    elif kind == "pairwise":
        draft.file.settings({"pairwise (Layer 3 compares every suite)"})
    elif kind == "tool-calls":
        _tools(draft, config)
    elif kind in ("output-contains", "output-not-contains", "output-matches", "output-not-matches"):
        _output(draft, config, kind)
    elif kind.startswith("file-"):
        _file(draft, config, kind)
    elif kind == "run-command":
        _command(draft, config)
    elif kind:
        draft.refuse(kind, "write it as a check of ours or as an expectation", node)
    return False


def _output(draft: Draft, config: Node, kind: str) -> None:
    literal = kind.endswith("contains")
    keys = _TEXT if literal else ("pattern", "regex")
    if not draft.only(config, kind, (*keys, "case_sensitive", "caseSensitive", "ignore_case")):
        return
    text = next((found for key in keys if (found := draft.text(key, config))), None)
    if text is None:
        draft.complain(f"the grader {kind} has no {keys[0]}", config, f"Add config.{keys[0]}.")
        return
    loose = plain(config).get("ignore_case") is True or any(
        plain(config).get(key) is False for key in ("case_sensitive", "caseSensitive")
    )
    make = {"output-contains": exact.contains, "output-not-contains": exact.not_contains,
            "output-matches": exact.matches, "output-not-matches": exact.not_matches}[kind]  # fmt: skip
    draft.check(make(text, ignore_case=loose), config, kind=kind)


def _file(draft: Draft, config: Node, kind: str) -> None:
    keys = {"file-exists": (), "file-not-exists": (), "file-contains": _TEXT, "file-not-contains": _TEXT,
            "file-matches": ("pattern", "regex"), "file-not-matches": ("pattern", "regex")}  # fmt: skip
    if kind not in keys:
        draft.refuse(kind, f"known are {', '.join(keys)}", config)
        return
    if not draft.only(config, kind, ("path", "file", *keys[kind])):
        return
    path = draft.text("path", config) or draft.text("file", config)
    text = next((found for key in keys[kind] if (found := draft.text(key, config))), None)
    if path is None or (keys[kind] and text is None):
        draft.complain(f"the grader {kind} has no {keys[kind][0] if path else 'path'}", config)
        return
    words = text or ""
    specs = {
        "file-exists": lambda: exact.file_exists(path, draft.fixtures),
        "file-not-exists": lambda: exact.file_absent(path),
        "file-contains": lambda: exact.file_contains(path, words),
        "file-not-contains": lambda: exact.file_not_contains(path, words),
        "file-matches": lambda: exact.file_matches(path, words),
        "file-not-matches": lambda: exact.file_not_matches(path, words),
    }[kind]()
    draft.check(specs, config, kind=kind, instead="name one file instead of a pattern of names")


def _tools(draft: Draft, config: Node) -> None:
    if not draft.only(config, "tool-calls", ("required", "disallowed", "forbidden")):
        return
    for key, make in (
        ("required", exact.tool_used),
        ("disallowed", exact.tool_not_used),
        ("forbidden", exact.tool_not_used),
    ):
        found = config.value.get(key)
        for item in found.value if found is not None and found.is_list else []:
            entry = plain(item)
            name = entry.get("name") if isinstance(entry, dict) and set(entry) <= {"name"} else entry
            plain_name = _NAME.fullmatch(name) if isinstance(name, str) else None
            if plain_name is None:
                draft.refuse("tool-calls with patterns, commands or arguments",
                             "write tool_call_count with a tool's whole name, or args_field", item)  # fmt: skip
            else:
                draft.check(make(plain_name[1]), item, kind="tool-calls")


def _command(draft: Draft, config: Node) -> None:
    keys = ("command", "args", "expected_exit_code", "exit_code", "expectedExitCode", "stdout_contains", "timeout")
    if not draft.only(config, "run-command", keys):
        return
    line = draft.text("command", config, required=True)
    arguments = [text for text, _ in draft.texts("args", config)]
    code = next((number for key in keys[2:5] if (number := draft.number(key, config)) is not None), 0)
    if "timeout" in config.value:
        draft.file.settings({"run-command.timeout"})
    if line is not None:
        run = exact.program([line, *arguments]) if arguments else line
        draft.check(exact.command(run, exit_code=code, stdout_contains=draft.text("stdout_contains", config)),
                    config, kind="run-command")  # fmt: skip


def _invocation(draft: Draft, config: Node, prompt: str | None) -> bool:
    negative = False
    for key, should in (("required", True), ("disallowed", False), ("forbidden", False)):
        if names_skill(config.value.get(key), draft.file.source) and prompt:
            draft.trigger(prompt, should)
            negative = negative or not should
        elif config.value.get(key) is not None and prompt:
            draft.file.settings({"skill-invocation of other skills"})
    return negative


DIALECT = Dialect("vally", _claims, _read)
