"""skillproof's ``evals.yaml``: ``cases`` of ``prompt`` + ``assert``."""

from __future__ import annotations

from collections.abc import Callable

from gate.domain.suite import CaseType
from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.suite.exact import Spec
from gate.intake.yaml_text import Node

_KEYS = ("name", "prompt", "fixtures", "trials", "timeout", "should_trigger", "id", "description")
_OUTER = ("skill", "runner", "model", "trials", "timeout", "judge", "runner_options", "cases")


def _claims(source: Source) -> bool:
    cases = source.root.value.get("cases") if source.root.is_map else None
    return cases is not None and cases.is_list and any(item.is_map and "assert" in item.value for item in cases.value)


def _read(source: Source) -> Read:
    file = File("skillproof", source)
    file.outermost({"cases"}, {"cases"})
    for node in file.items(source.root.value["cases"], "cases"):
        draft = file.named(node)  # fmt: skip
        draft.known(_KEYS, {"assert"})
        file.settings(key for key in ("trials", "timeout") if key in node.value)
        prompt = draft.text("prompt", required=True)
        for text, item in draft.texts("fixtures"):
            draft.folder(text, item)
        should = draft.flag("should_trigger")
        if should is not None and prompt:
            draft.trigger(prompt, should)
        for item in file.items(node.value.get("assert"), "assert"):
            _assertion(draft, item)
        draft.finish(prompt, type_=CaseType.NEGATIVE if should is False else CaseType.HAPPY_PATH)
    return file.done()


def _assertion(draft: Draft, node: Node) -> None:
    kind = (draft.text("type", node, required=True) or "").strip().lower()
    keys = {"contains": ("value",), "not_contains": ("value",), "regex": ("value", "pattern"), "file_exists": ("path", "value"),
            "file_contains": ("path", "value"), "command": ("run", "command", "value"), "max_tokens": ("value", "max"),
            "llm_judge": ("criteria", "rubric", "value", "prompt")}  # fmt: skip
    if not kind:
        return
    if kind not in keys:
        draft.refuse(kind, f"known are {', '.join(keys)}", node)
        return
    extra = ("ignore_case",) if kind in ("contains", "not_contains", "regex") else ()
    if not draft.only(node, kind, (*keys[kind], *extra)):
        return
    if kind == "max_tokens":
        limit = draft.number("value", node) or draft.number("max", node)
        draft.check(exact.budget(kind, limit or 0), node, kind=kind, instead="limit the run in the policy")
        return
    found = [text for key in keys[kind] if (text := draft.text(key, node))]
    if not found or (kind == "file_contains" and len(found) < 2):
        draft.complain(f"the assertion {kind} has no {keys[kind][len(found)]}", node)
        return
    if kind == "llm_judge":
        draft.expect(found[0])
        return
    loose = bool(draft.flag("ignore_case", node))
    specs: dict[str, Callable[[], list[Spec]]] = {
        "contains": lambda: exact.contains(found[0], ignore_case=loose),
        "not_contains": lambda: exact.not_contains(found[0], ignore_case=loose),
        "regex": lambda: exact.matches(found[0], ignore_case=loose),
        "file_exists": lambda: exact.file_exists(found[0], draft.fixtures),
        "file_contains": lambda: exact.file_contains(found[0], found[1]),
        "command": lambda: exact.command(found[0]),
    }
    draft.check(specs[kind](), node, kind=kind)


DIALECT = Dialect("skillproof", _claims, _read)
