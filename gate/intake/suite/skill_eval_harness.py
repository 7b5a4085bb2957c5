"""skill-eval-harness' ``shared-benchmark.json``: ``cases`` with ``split``, ``assertions`` by ``type``, ``expected_behavior``."""

from __future__ import annotations

from gate.domain.suite import CaseType
from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.suite.exact import Spec
from gate.intake.yaml_text import Node, plain

_KEYS = ("id", "split", "kind", "domain", "difficulty", "trigger_type", "success_goals", "prompt", "prompt_ref", "files", "template",
         "tags", "name", "description", "human_reviewed", "source")  # fmt: skip
_JUDGING = ("assertions", "expected_behavior", "turns")
_OUTER = ("harness", "skill_paths", "variants", "optional_variants", "split_policy", "ablations", "judge", "datasets")
_ASSERTION_KEYS = ("value", "values", "path", "pattern", "expected", "field", "tool", "run", "command", "rubric", "criteria",
                   "prompt", "case_sensitive", "max", "variants")  # fmt: skip


def _claims(source: Source) -> bool:
    return "cases" in source.outer() and bool({"variants", "split_policy", "skill_paths", "ablations"} & source.outer())


def _read(source: Source) -> Read:
    file = File("skill-eval-harness", source)
    file.outermost({"cases"}, {"cases"})
    for node in file.items(source.root.value["cases"], "cases"):
        draft = file.named(node)
        draft.known(_KEYS, _JUDGING)
        if "turns" in node.value and node.value["turns"].value:
            draft.lose("its conversation of several turns is not read from this format", node.value["turns"],
                       "Write the case in evals/skill-gate.yaml, with prompt and turns.")  # fmt: skip
        prompt = draft.text("prompt")
        reference = draft.text("prompt_ref")
        if prompt is None and reference is not None:
            prompt = _prompt_of(draft, reference)
        for text, item in draft.texts("files"):
            draft.fixture(text, node=item)
        for text, _ in draft.texts("expected_behavior"):
            draft.expect(text)
        for item in file.items(node.value.get("assertions"), "assertions"):
            _assertion(draft, item)
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


def _assertion(draft: Draft, node: Node) -> None:
    kind = (draft.text("type", node, required=True) or "").strip().lower()
    if not kind or not draft.only(node, kind, _ASSERTION_KEYS):
        return
    if "variants" in node.value:
        draft.refuse(f"{kind} for some variants", "every check here holds for the run with the skill", node)
    elif kind in ("judge", "rubric", "factuality"):
        found = [text for key in ("rubric", "criteria", "prompt", "value") for text, _ in draft.texts(key, node)]
        for text in found:
            draft.expect(text)
        if not found:
            draft.complain(f"the assertion {kind} has no text", node)
    else:
        specs = _specs(draft, node, kind)
        if not specs:
            draft.refuse(kind, "write it as a check of ours or as an expectation", node)
        for spec in specs:
            draft.check(spec, node, kind=kind, description=draft.text("name", node) or "")


def _specs(draft: Draft, node: Node, kind: str) -> list[list[Spec]]:
    """The checks of one assertion, each as candidates; none where nothing means the same."""
    loose = draft.flag("case_sensitive", node) is False
    texts = [text for key in ("values", "value", "pattern") for text, _ in draft.texts(key, node)]
    path, tool = draft.text("path", node), draft.text("tool", node)
    first = texts[0] if texts else None
    if kind == "contains_all":
        return [exact.contains(text, ignore_case=loose) for text in texts]
    if kind == "excludes_any":
        return [exact.not_contains(text, ignore_case=loose) for text in texts]
    if kind == "contains_any" and texts:
        return [exact.any_of(texts, ignore_case=loose)]
    single = {"contains": exact.contains, "regex": exact.matches, "not_regex": exact.not_matches}
    if kind in single and first:
        return [single[kind](first, ignore_case=loose)]
    if kind == "file_exists" and (path or first):
        return [exact.file_exists(path or first or "", draft.fixtures)]
    if kind == "json_field_equals" and path and "field" in node.value and "expected" in node.value:
        values = {"path": path, "field": draft.text("field", node), "expected": plain(node.value["expected"])}
        return [[("json_field", values)]]
    return _of_the_run(kind, tool, first, draft.number("max", node))


def _of_the_run(kind: str, tool: str | None, text: str | None, limit: int | None) -> list[list[Spec]]:
    limit = int(text) if limit is None and text is not None and text.isdecimal() else limit
    if kind == "skill_invoked":
        return [exact.skill_opened()]
    if kind == "tool_call" and tool:
        return [exact.tool_used(tool)]
    if kind == "tool_count_le" and tool and limit is not None:
        return [exact.tool_used(tool, at_least=None, at_most=limit)]
    if kind in ("command_ran", "command_not_ran") and text:
        return [[(kind, {"text": text})]]
    if kind == "total_tokens_le" and limit is not None:
        return [exact.budget("max_tokens", limit)]
    return [exact.budget("max_duration_ms", limit * 1000)] if kind == "elapsed_seconds_le" and limit is not None else []


DIALECT = Dialect("skill-eval-harness", _claims, _read)
