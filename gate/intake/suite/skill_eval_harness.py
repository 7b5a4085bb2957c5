"""skill-eval-harness' ``shared-benchmark.json``: ``cases`` with ``split``, ``assertions`` by ``type``, ``expected_behavior``."""

from __future__ import annotations

from gate.domain.suite import CaseType
from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.yaml_text import Node, plain

_KEYS = ("id", "split", "kind", "domain", "difficulty", "trigger_type", "success_goals", "prompt", "prompt_ref", "files", "template",
         "tags", "name", "description", "human_reviewed", "source")  # fmt: skip
_JUDGING = ("assertions", "expected_behavior", "turns")
_OUTER = ("harness", "skill_paths", "variants", "optional_variants", "split_policy", "ablations", "judge", "datasets")


def _claims(source: Source) -> bool:
    return "cases" in source.outer() and bool({"variants", "split_policy", "skill_paths", "ablations"} & source.outer())


def _read(source: Source) -> Read:
    file = File("skill-eval-harness", source)
    file.outermost({"cases"}, {"cases"})
    for node in file.items(source.root.value["cases"], "cases"):
        draft = file.draft(node, given_id=node.value["id"].value if "id" in node.value else None)
        draft.known(_KEYS, _JUDGING)
        if "turns" in node.value and node.value["turns"].value:
            draft.complain("turns: a conversation of several turns is not run by this version", node.value["turns"])
        prompt = draft.text("prompt")
        reference = draft.text("prompt_ref")
        if prompt is None and reference is not None:
            prompt = _prompt_of(draft, reference)
        for text, item in draft.texts("files"):
            draft.fixture(text, node=item)
        for text, _ in draft.texts("expected_behavior"):
            draft.expect(text)
        for item in file.items(node.value.get("assertions"), "assertions"):
            _assertion(draft, item, prompt)
        kind = node.value["trigger_type"].value if "trigger_type" in node.value else None
        draft.finish(prompt, type_=CaseType.NEGATIVE if kind == "negative" else CaseType.HAPPY_PATH)
    return file.done()


def _prompt_of(draft: Draft, reference: str) -> str | None:
    skill, folder = draft.file.source.skill, draft.file.folder
    for full in (f"{folder}/{reference}" if folder else reference, reference):
        found = skill.file(full)
        if found is not None and found.is_regular:
            return found.data.decode("utf-8", "replace")
    draft.complain(f"the prompt file {reference} does not exist", draft.node.value["prompt_ref"], "Correct the path.")
    return None


def _assertion(draft: Draft, node: Node, prompt: str | None) -> None:
    kind = (draft.text("type", node, required=True) or "").strip().lower()
    words = draft.text("name", node) or ""
    if not kind or not draft.only(node, kind, ("value", "values", "path", "pattern", "expected", "field", "tool", "count", "max", "run",
                                               "command", "rubric", "criteria", "prompt", "expect_exit", "case_sensitive")):  # fmt: skip
        return
    if "variants" in node.value:
        draft.refuse(f"{kind} for some variants", "every check here holds for the run with the skill", node)
        return
    loose = "case_sensitive" in node.value and node.value["case_sensitive"].value is False
    value = (
        draft.text("value", node) or draft.text("pattern", node)
        if "value" in node.value or "pattern" in node.value
        else None
    )
    texts = [text for key in ("values", "value") for text, _ in (draft.texts(key, node) if key in node.value else [])]
    path = draft.text("path", node)
    if kind in ("judge", "rubric", "factuality"):
        found = [text for key in ("rubric", "criteria", "prompt", "value") for text, _ in draft.texts(key, node)]
        for text in found:
            draft.expect(text)
        if not found:
            draft.complain(f"the assertion {kind} has no text", node)
    elif kind in ("contains_all", "excludes_any") and texts:
        make = exact.contains if kind == "contains_all" else exact.not_contains
        for text in texts:
            draft.check(make(text, ignore_case=loose), node, kind=kind, description=words)
    elif kind == "contains_any" and texts:
        draft.check(exact.any_of(texts, ignore_case=loose), node, kind=kind, description=words)
    elif kind in ("contains", "regex", "not_regex") and value:
        make = {"contains": exact.contains, "regex": exact.matches, "not_regex": exact.not_matches}[kind]
        draft.check(make(value, ignore_case=loose), node, kind=kind, description=words)
    elif kind == "file_exists" and (path or value):
        draft.check(exact.file_exists(path or value or "", draft.fixtures), node, kind=kind, description=words)
    elif kind == "json_field_equals" and path and "field" in node.value and "expected" in node.value:
        values = {"path": path, "field": draft.text("field", node), "expected": plain(node.value["expected"])}
        draft.check([("json_field", values)], node, kind=kind, description=words)
    elif kind == "tool_call" and draft.text("tool", node):
        draft.check(exact.tool_used(draft.text("tool", node) or ""), node, kind=kind, description=words)
    elif kind == "skill_invoked":
        if prompt:
            draft.trigger(prompt, True)
    else:
        draft.refuse(kind, "write it as a check of ours or as an expectation", node)


DIALECT = Dialect("skill-eval-harness", _claims, _read)
