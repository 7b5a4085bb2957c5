"""waza's evals: ``config``, ``metrics``, ``graders`` and ``tasks``, globs of task files (or tasks) with ``inputs`` and ``graders``.

Meanings as that tool implements them: ``contains`` ignores case, ``contains_cs`` does not. ``expected.should_trigger`` is
a trigger case; the ``trigger`` and ``skill_invocation`` graders are our ``skill_opened``.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Callable, Iterator

from gate.domain.suite import CaseType
from gate.intake.notes import Notes, joined, short
from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.suite.exact import Spec
from gate.intake.yaml_text import Node

_KEYS = ("id", "name", "description", "tags", "inputs", "timeout_seconds", "enabled", "context_dir")
_JUDGING = ("graders", "expected")
_TEXT: dict[str, Callable[[str], list[Spec]]] = {
    "contains": lambda text: exact.contains(text, ignore_case=True),
    "not_contains": lambda text: exact.not_contains(text, ignore_case=True),
    "contains_cs": exact.contains,
    "not_contains_cs": exact.not_contains,
    "regex_match": exact.matches,
    "regex_not_match": exact.not_matches,
}


def _claims(source: Source) -> bool:
    tasks = source.root.value.get("tasks") if source.root.is_map else None
    if tasks is None or not tasks.is_list:
        return False
    return bool("inputs" in source.first("tasks") or any(isinstance(item.value, str) for item in tasks.value))


def _is_task(source: Source) -> bool:
    return "inputs" in source.outer() and bool({"graders", "expected"} & source.outer())


def _read(source: Source) -> Read:
    file = File("waza", source)
    root = source.root.value
    file.outermost({"tasks", "graders", "config", "metrics"}, {"tasks", "graders"})
    file.settings(key for key in ("config", "metrics") if key in root)
    for item in root["tasks"].value:
        if item.is_map:
            _task(file, item, root.get("graders"))
        elif isinstance(item.value, str):
            found = list(_matching(source, file.folder, item.value))
            if not found:
                file.complain(
                    f'no task file matches "{short(item.value)}"', item, "Correct the pattern, or commit the files."
                )
            for path, task in found:
                source.used.add(path)
                file.notes = Notes(joined(source.skill.path, path), "suite")
                _task(file, task, root.get("graders"))
                source.notes.items += file.notes.items
                file.notes = source.notes
        else:
            file.complain(f"a task is {item.kind}; a pattern of file names was expected", item)
    return file.done()


def _matching(source: Source, folder: str, pattern: str) -> Iterator[tuple[str, Node]]:
    full = posixpath.normpath(posixpath.join(folder, pattern))
    for path in sorted(source.siblings):
        if fnmatch.fnmatchcase(path, full) and source.siblings[path].is_map:
            yield path, source.siblings[path]


def _read_task(source: Source) -> Read:
    file = File("waza-task", source)
    _task(file, source.root, None)
    return file.done()


def _task(file: File, node: Node, graders: Node | None) -> None:
    draft = file.named(node)
    draft.known(_KEYS, _JUDGING)
    if "enabled" in node.value and node.value["enabled"].value is False:
        draft.lose("it is switched off (enabled: false)")
    inputs = draft.mapping("inputs")
    prompt = draft.text("prompt", inputs, required=True)
    for item in file.items(inputs.value.get("files"), "inputs.files"):
        _file(draft, item)
    negative = _expected(draft, draft.mapping("expected"), prompt)
    for holder in (graders, node.value.get("graders")):
        for item in file.items(holder, "graders"):
            _grader(draft, item)
    draft.finish(prompt, type_=CaseType.NEGATIVE if negative else CaseType.HAPPY_PATH)


def _file(draft: Draft, node: Node) -> None:
    path = draft.text("path", node, required=True)
    if "content" in node.value:
        draft.content(path, draft.text("content", node) or "", node)
    elif path is not None:
        skill, folder = draft.file.source.skill, draft.file.folder
        nested = posixpath.join("fixtures", path)
        where = nested if skill.file(posixpath.join(folder, nested)) or skill.file(nested) else path
        draft.fixture(where, path, node)


def _expected(draft: Draft, node: Node, prompt: str | None) -> bool:
    """Adds what is expected; True where the skill should stay shut."""
    should = draft.flag("should_trigger", node)
    if should is not None and prompt:
        draft.trigger(prompt, should)
    for key, make in (("output_contains", _TEXT["contains"]), ("output_not_contains", _TEXT["not_contains"])):
        for text, item in draft.texts(key, node):
            draft.check(make(text), item, kind=key)
    for key in ("outcomes", "behaviors"):
        found = node.value.get(key)
        for item in found.value if found is not None and found.is_list else []:
            words = draft.text("description", item) if item.is_map else item.value
            if isinstance(words, str) and words.strip():
                draft.expect(words)
            else:
                draft.refuse(f"expected.{key}", "write it as text", item)
    for key, item in node.value.items():
        if key not in ("should_trigger", "output_contains", "output_not_contains", "outcomes", "behaviors"):
            draft.refuse(f"expected.{key}", "write it as a check of ours or as an expectation", item)
    return should is False


def _grader(draft: Draft, node: Node) -> None:
    kind = (draft.text("type", node, required=True) or "").strip().lower().replace("-", "_")
    config = draft.mapping("config", node) if "config" in node.value else node
    name = draft.text("name", node) or ""
    if kind in ("trigger", "skill_invocation"):
        opened = draft.text("mode", config) != "negative"
        draft.check(exact.skill_opened(opened=opened), node, kind=kind, description=name)
    elif kind in _GRADERS:
        _GRADERS[kind](draft, config, kind, name)
    elif kind:
        draft.refuse(kind, "write it as a check of ours or as an expectation", node)


def _texts(draft: Draft, config: Node, kind: str, name: str) -> None:
    if draft.only(config, kind, _TEXT):
        for key, make in _TEXT.items():
            for text, item in draft.texts(key, config):
                draft.check(make(text), item, kind=f"text.{key}", description=name)


def _judge(draft: Draft, config: Node, kind: str, name: str) -> None:
    found = draft.texts("prompt", config) or draft.texts("rubric", config)
    for text, _ in found:
        draft.expect(text)
    if not found:
        draft.complain(f"the grader {name or kind} has no prompt", config, "Add config.prompt.")


def _files(draft: Draft, config: Node, kind: str, name: str) -> None:
    if not draft.only(config, kind, ("must_exist", "must_not_exist", "content_patterns")):
        return
    for path, item in draft.texts("must_exist", config):
        draft.check(exact.file_exists(path, draft.fixtures), item, kind="file.must_exist", description=name)
    for path, item in draft.texts("must_not_exist", config):
        draft.check(exact.file_absent(path), item, kind="file.must_not_exist", description=name)
    for entry in draft.file.items(config.value.get("content_patterns"), "content_patterns"):
        path = draft.text("path", entry, required=True) or ""
        if not path or not draft.only(entry, "file.content_patterns", ("path", "must_match", "must_not_match")):
            continue
        specs: list[tuple[str, list[Spec], Node]] = []
        specs += [
            ("must_match", exact.file_matches(path, text), item) for text, item in draft.texts("must_match", entry)
        ]
        specs += [
            ("must_not_match", exact.file_not_matches(path, text), item)
            for text, item in draft.texts("must_not_match", entry)
        ]
        for key, found, item in specs:
            draft.check(found, item, kind=f"file.{key}", description=name)


def _behavior(draft: Draft, config: Node, kind: str, name: str) -> None:
    used, unused = ("required_tools", "expect_tools"), ("forbidden_tools", "reject_tools")
    limits = {"max_tool_calls": "max_tool_calls", "max_tokens": "max_tokens", "max_iterations": "max_turns",
              "max_turns": "max_turns", "max_duration_ms": "max_duration_ms"}  # fmt: skip
    if not draft.only(config, kind, (*used, *unused, *limits)):
        return
    for keys, make in ((used, exact.tool_used), (unused, exact.tool_not_used)):
        for key in keys:
            for tool, item in draft.texts(key, config):
                draft.check(make(tool), item, kind=f"{kind}.{key}", description=name)
    for key, what in limits.items():
        limit = draft.number(key, config)
        if limit is not None:
            draft.check(
                exact.budget(what, limit),
                config.value[key],
                kind=f"{kind}.{key}",
                instead="limit the run in the policy",
            )


_GRADERS: dict[str, Callable[[Draft, Node, str, str], None]] = {
    "text": _texts,
    "file": _files,
    **dict.fromkeys(("prompt", "llm", "llm_judge"), _judge),
    **dict.fromkeys(("behavior", "tool_constraint", "tool_calls"), _behavior),
}
DIALECT = Dialect("waza", _claims, _read)
TASK = Dialect("waza-task", _is_task, _read_task)
