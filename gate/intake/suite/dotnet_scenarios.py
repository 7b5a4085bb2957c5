"""dotnet/skills' ``eval.yaml``: ``scenarios`` with ``prompt``, ``setup``, ``assertions``, ``rubric``.

Meanings as that tool documents and implements them: ``output_contains`` and the patterns ignore case, ``file_contains``
does not, file paths may be globs, ``exit_success`` asks for an answer that is not empty.
"""

from __future__ import annotations

from collections.abc import Callable

from gate.domain.suite import CaseType
from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.suite.exact import Spec
from gate.intake.yaml_text import Node

_KEYS = ("name", "prompt", "setup", "timeout", "expect_activation", "tags", "description")
_JUDGING = ("assertions", "rubric", "expect_tools", "reject_tools", "max_turns", "max_tokens")


def _claims(source: Source) -> bool:
    return "scenarios" in source.outer() and (
        not source.root.value["scenarios"].value or bool({"prompt", "assertions", "rubric"} & source.first("scenarios"))
    )


def _read(source: Source) -> Read:
    file = File("dotnet-scenarios", source)
    file.outermost({"scenarios"}, {"scenarios"})
    for node in file.items(source.root.value["scenarios"], "scenarios"):
        _scenario(file, node)
    return file.done()


def _scenario(file: File, node: Node) -> None:
    draft = file.named(node)
    draft.known(_KEYS, _JUDGING)
    if "timeout" in node.value:
        file.settings({"timeout"})
    prompt = draft.text("prompt", required=True)
    _setup(draft, draft.mapping("setup"))
    for item in file.items(node.value.get("assertions"), "assertions"):
        _assertion(draft, item)
    for text, _ in draft.texts("rubric"):
        draft.expect(text)
    for tool, item in draft.texts("expect_tools"):
        draft.check(exact.tool_used(tool), item, kind="expect_tools")
    for tool, item in draft.texts("reject_tools"):
        draft.check(exact.tool_not_used(tool), item, kind="reject_tools")
    for key in ("max_turns", "max_tokens"):
        limit = draft.number(key)
        if limit is not None:
            draft.check(exact.budget(key, limit), node.value[key], kind=key, instead="limit the run in the policy")
    activation = draft.flag("expect_activation")
    if activation is not None:
        draft.check(exact.skill_opened(opened=activation), node.value["expect_activation"], kind="expect_activation")
    draft.finish(prompt, type_=CaseType.NEGATIVE if activation is False else CaseType.HAPPY_PATH)


def _setup(draft: Draft, setup: Node) -> None:
    for key, item in setup.value.items():
        if key == "files":
            for file in draft.file.items(item, "setup.files"):
                path = draft.text("path", file, required=True)
                if "content" in file.value:
                    draft.content(path, draft.text("content", file) or "", file)
                elif path is not None:
                    draft.fixture(draft.text("source", file) or path, path, file)
        elif key == "copy_test_files":
            if item.value is True:
                draft.folder()
        elif item.value not in (None, [], {}):
            draft.lose(f"its setup needs {key}, which is not done by this version", item)


def _assertion(draft: Draft, node: Node) -> None:
    kind = (draft.text("type", node, required=True) or "").strip().lower().replace("-", "_")
    keys = {"output_contains": ("value",), "output_not_contains": ("value",), "output_matches": ("pattern",),
            "output_not_matches": ("pattern",), "file_exists": ("path",), "file_not_exists": ("path",),
            "file_contains": ("path", "value"), "file_not_contains": ("path", "value"), "exit_success": (),
            "run_command_and_assert": ("command_args",)}  # fmt: skip
    if not kind:
        return
    if kind not in keys:
        draft.refuse(kind, f"known are {', '.join(keys)}", node)
        return
    if not draft.only(node, kind, keys[kind]):
        return
    if kind == "run_command_and_assert":
        draft.refuse(kind, "write kind: command with run, expect_exit and stdout_contains", node)
        return
    values = [draft.text(key, node, required=True) or "" for key in keys[kind]]
    if not all(values):
        return
    specs: dict[str, Callable[[], list[Spec]]] = {
        "output_contains": lambda: exact.contains(values[0], ignore_case=True),
        "output_not_contains": lambda: exact.not_contains(values[0], ignore_case=True),
        "output_matches": lambda: exact.matches(values[0], ignore_case=True),
        "output_not_matches": lambda: exact.not_matches(values[0], ignore_case=True),
        "file_exists": lambda: exact.file_exists(values[0], draft.fixtures),
        "file_not_exists": lambda: exact.file_absent(values[0]),
        "file_contains": lambda: exact.file_contains(*values),
        "file_not_contains": lambda: exact.file_not_contains(*values),
        "exit_success": exact.not_empty,
    }
    draft.check(specs[kind](), node, kind=kind, description=kind if kind == "exit_success" else "")


DIALECT = Dialect("dotnet-scenarios", _claims, _read)
