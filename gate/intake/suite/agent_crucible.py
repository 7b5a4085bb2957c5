"""agent-crucible's tasks, one a file (``evals/task-*.yaml``): ``prompt``, ``fixture``, ``assertions`` of six exact types."""

from __future__ import annotations

from collections.abc import Callable

from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.suite.exact import Spec
from gate.intake.yaml_text import Node

_TYPES = ("command", "file_exists", "file_absent", "file_contains", "file_changed", "file_unchanged")


def _claims(source: Source) -> bool:
    return {"prompt", "assertions"} <= source.outer() and (
        "fixture" in source.outer() or bool({"run", "expect_exit", "path"} & source.first("assertions"))
    )


def _read(source: Source) -> Read:
    file = File("agent-crucible", source)
    node = source.root
    draft = file.named(node)  # fmt: skip
    draft.known({"id", "name", "prompt", "fixture", "timeout_seconds", "tags", "description"}, {"assertions"})
    prompt = draft.text("prompt", required=True)
    fixture = draft.text("fixture")
    if fixture is not None:
        draft.folder(fixture, node.value["fixture"])
    for item in file.items(node.value["assertions"], "assertions"):
        _assertion(draft, item)
    draft.finish(prompt)
    return file.done()


def _assertion(draft: Draft, node: Node) -> None:
    kind = (draft.text("type", node, required=True) or "").strip().lower()
    if not kind:
        return
    if kind not in _TYPES:
        draft.refuse(kind, f"known are {', '.join(_TYPES)}", node)
        return
    words = draft.text("name", node) or draft.text("description", node) or ""
    if kind == "command":
        line, code = draft.text("run", node, required=True), draft.number("expect_exit", node)
        if line is not None and draft.only(node, kind, ("run", "expect_exit")):
            draft.check(exact.command(line, exit_code=code or 0), node, kind=kind, description=words)
        return
    path = draft.text("path", node, required=True)
    if path is None or not draft.only(
        node, kind, ("path", "pattern", "expect") if kind == "file_contains" else ("path",)
    ):
        return
    if kind == "file_contains":
        pattern = draft.text("pattern", node)
        if "expect" in node.value and node.value["expect"].value is not True:
            absent = node.value["expect"].value is False and pattern is not None
            if not absent:
                draft.refuse("file_contains with this expect", "write file_contains with a pattern", node)
                return
            draft.check(exact.file_not_matches(path, pattern or ""), node, kind=kind, description=words)
        elif pattern is None:
            draft.complain("the assertion file_contains has no pattern", node)
        else:
            draft.check(exact.file_matches(path, pattern), node, kind=kind, description=words)
        return
    if kind == "file_unchanged" and path not in draft.fixtures:
        draft.complain(f"file_unchanged: the fixture holds no {path}", node, "Correct the path.")
        return
    specs: dict[str, Callable[[], list[Spec]]] = {
        "file_exists": lambda: exact.file_exists(path, draft.fixtures),
        "file_absent": lambda: exact.file_absent(path),
        # Made or changed by the run is what our file_exists asks for.
        "file_changed": lambda: [("file_exists", {"path": path})],
        "file_unchanged": lambda: exact.unchanged(path),
    }
    draft.check(specs[kind](), node, kind=kind, description=words)


DIALECT = Dialect("agent-crucible", _claims, _read)
