"""vally's eval specs (GitHub-Copilot-for-Azure, newer dotnet/skills): ``stimuli`` with ``prompt`` and ``graders``.

``skill-invocation`` of the skill under test is our ``skill_opened``. ``prompt`` graders are prose. ``pairwise`` is what Layer 3 does for every suite. What has no exact equal is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gate.domain.suite import CaseType
from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File, names_skill
from gate.intake.suite.exact import Spec
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
    draft = file.named(node)
    draft.known(_KEYS, _JUDGING)
    file.settings(key for key in ("constraints", "earlyTerminate", "timeout", "reward") if key in node.value)
    turns: tuple[str, ...] = ()
    if "turns" in node.value and "prompt" not in node.value:
        prompt, turns = draft.conversation("turns")
    else:
        prompt = draft.text("prompt", required=True)
        if "turns" in node.value:
            draft.lose(
                "it has a prompt and turns, and nothing says which comes first",
                node.value["turns"],
                "Keep one of them.",
            )
    for environment in (root.get("environment"), node.value.get("environment")):
        if environment is not None and environment.is_map:
            _environment(draft, environment)
        elif environment is not None and environment.value is not None:  # the name of one, defined elsewhere
            file.settings({"environment"})
    negative = False
    for holder in (root, node.value):
        for item in file.items(holder.get("graders"), "graders"):
            negative = _grader(draft, item) or negative
        rubric = holder.get("rubric")
        if rubric is not None:
            for text, _ in draft.texts("rubric", Node(rubric.line, 1, {"rubric": rubric})):
                draft.expect(text)
    for key, make in (("expect_tools", exact.tool_used), ("reject_tools", exact.tool_not_used)):
        for tool, item in draft.texts(key):
            draft.check(make(tool), item, kind=key)
    draft.finish(prompt, type_=CaseType.NEGATIVE if negative else CaseType.HAPPY_PATH, turns=turns)


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


def _grader(draft: Draft, node: Node) -> bool:
    """Adds a grader; True where it says that the skill should stay shut."""
    kind = (draft.text("type", node, required=True) or "").strip().lower().replace("_", "-")
    config = draft.mapping("config", node) if "config" in node.value else node
    if kind == "skill-invocation":
        return _invocation(draft, config)
    if kind in ("completed", "exit-success"):
        draft.check(exact.not_empty(), node, kind=kind, description=kind)
    elif kind == "pairwise":
        draft.file.settings({"pairwise (Layer 3 compares every suite)"})
    elif kind in _READERS:
        _READERS[kind](draft, config, kind)
    elif kind:
        draft.refuse(kind, "write it as a check of ours or as an expectation", node)
    return False


def _judge(draft: Draft, config: Node, kind: str) -> None:
    found = [text for key in ("rubric", "prompt", "criteria") for text, _ in draft.texts(key, config)]
    for text in found:
        draft.expect(text)
    if not found:
        draft.complain(f"the grader {kind} has no prompt", config, "Add config.prompt.")


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
    if not draft.only(config, kind, ("path", "file", *keys[kind])):
        return
    path = draft.text("path", config) or draft.text("file", config)
    text = next((found for key in keys[kind] if (found := draft.text(key, config))), None)
    if path is None or (keys[kind] and text is None):
        draft.complain(f"the grader {kind} has no {keys[kind][0] if path else 'path'}", config)
        return
    words = text or ""
    specs: dict[str, Callable[[], list[Spec]]] = {
        "file-exists": lambda: exact.file_exists(path, draft.fixtures),
        "file-not-exists": lambda: exact.file_absent(path),
        "file-contains": lambda: exact.file_contains(path, words),
        "file-not-contains": lambda: exact.file_not_contains(path, words),
        "file-matches": lambda: exact.file_matches(path, words),
        "file-not-matches": lambda: exact.file_not_matches(path, words),
    }
    draft.check(specs[kind](), config, kind=kind, instead="name one file instead of a pattern of names")


def _tools(draft: Draft, config: Node, kind: str) -> None:
    if not draft.only(config, kind, ("required", "disallowed", "forbidden")):
        return
    for key, wanted in (("required", True), ("disallowed", False), ("forbidden", False)):
        found = config.value.get(key)
        if found is not None and found.value is not None and not found.is_list:
            draft.complain(f"{key} is {found.kind}; a list was expected", found)
            continue
        for item in found.value if found is not None and found.value else []:
            _tool(draft, item, wanted=wanted)


def _tool(draft: Draft, item: Node, *, wanted: bool) -> None:
    """One entry of ``tool-calls``: a name, or a pattern of names with one for the command line or for one argument."""
    entry = plain(item)
    entry = entry if isinstance(entry, dict) else {"name": entry}
    pattern, command, arguments = str(entry.get("name", "")), entry.get("command"), entry.get("args")
    name = _NAME.fullmatch(pattern)
    specs: list[Spec] = []
    if set(entry) == {"name"} and name:
        specs = exact.tool_used(name[1]) if wanted else exact.tool_not_used(name[1])
    elif set(entry) == {"name", "command"} and isinstance(command, str) and _means_bash(pattern):
        specs = exact.command_ran(command, ran=wanted)
    elif set(entry) == {"name", "args"} and name and wanted and isinstance(arguments, dict) and len(arguments) == 1:
        field, value = next(iter(arguments.items()))
        specs = [("args_matches", {"tool": name[1], "field": field, "pattern": value})]
    draft.check(
        specs,
        item,
        kind="tool-calls",
        instead="write tool_call_count with a whole name, args_matches, command_ran or command_not_ran",
    )


def _means_bash(pattern: str) -> bool:
    try:
        return bool(re.search(pattern, "bash"))
    except (re.error, OverflowError, RecursionError):
        return False


def _command(draft: Draft, config: Node, kind: str) -> None:
    keys = ("command", "args", "expected_exit_code", "exit_code", "expectedExitCode", "stdout_contains", "timeout")
    if not draft.only(config, kind, keys):
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


def _invocation(draft: Draft, config: Node) -> bool:
    negative = False
    for key, opened in (("required", True), ("disallowed", False), ("forbidden", False)):
        found = config.value.get(key)
        if names_skill(found, draft.file.source):
            draft.check(exact.skill_opened(opened=opened), config, kind="skill-invocation")
            negative = negative or not opened
        elif found is not None and found.value:
            draft.file.settings({"skill-invocation of other skills (no other skill is in the sandbox)"})
    return negative


def _errors(draft: Draft, config: Node, kind: str) -> None:
    limit = draft.number("max", config)
    if draft.only(config, kind, ("max",)):
        draft.check(exact.budget("max_errors", limit or 0), config, kind=kind)


_READERS: dict[str, Callable[[Draft, Node, str], None]] = {
    **dict.fromkeys(("prompt", "llm-judge", "rubric", "multi-judge"), _judge),
    **dict.fromkeys(("output-contains", "output-not-contains", "output-matches", "output-not-matches"), _output),
    **dict.fromkeys(("file-exists", "file-not-exists", "file-contains", "file-not-contains"), _file),
    **dict.fromkeys(("file-matches", "file-not-matches"), _file),
    "tool-calls": _tools,
    "error-count": _errors,
    "run-command": _command,
}
DIALECT = Dialect("vally", _claims, _read)
