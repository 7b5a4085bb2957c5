"""Trigger sets: prompts that should, or should not, make an agent open the skill.

| shape | where it is from |
|---|---|
| list, or `queries`, `cases`, `evals`, `test_cases`, of `query` (or `prompt`, `question`) + `should_trigger` | skill-creator's `trigger_eval.json` and kin |
| the same with `expected: trigger` or `no_trigger`, or `type: negative` | skill-lab |
| `positive` and `negative`: lists of texts | EXAM and others |
| `probes` of `skill` + `should_trigger: [text]`, `shared_negatives` | skill-scoreboard |

They are kept as ``TriggerCase``; ``gate.planning.triggers`` makes a short run of each.
"""

from __future__ import annotations

from gate.domain.base import Json
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import File, names_skill
from gate.intake.yaml_text import Node

_QUERIES = ("query", "prompt", "question", "input", "text")
_LISTS = ("queries", "cases", "evals", "test_cases", "triggers", "trigger_cases")
_YES = ("positive", "should_trigger", "positives", "trigger")
_NO = ("negative", "should_not_trigger", "negatives", "no_trigger")
_JUDGED = frozenset(
    ("expectations", "assertions", "expected_behavior", "checks", "rubric", "criteria", "success_criteria", "acceptance", "assert",
     "graders", "judge", "tools_required", "tools_forbidden", "reply_contains", "reply_not_contains", "critical_params",
     "min_reply_length", "deterministic", "expect")
)  # fmt: skip


def _rows(root: Node) -> Node | None:
    if root.is_list:
        return root
    if root.is_map:
        for key in _LISTS:
            found = root.value.get(key)
            if found is not None and found.is_list:
                return found  # type: ignore[no-any-return] # nodes hold nodes
    return None


def _is_row(node: Node) -> bool:
    if not node.is_map or any(key in node.value and node.value[key].value not in (None, []) for key in _JUDGED):
        return False
    return "should_trigger" in node.value or _word(node) is not None


def _word(node: Node) -> bool | None:
    """``expected: trigger`` and kin."""
    word = node.value["expected"].value if "expected" in node.value else None
    return {"trigger": True, "no_trigger": False}.get(word) if isinstance(word, str) else None


def _claims(source: Source) -> bool:
    rows = _rows(source.root)
    if rows is not None and rows.value:
        return all(_is_row(item) for item in rows.value)
    keys = source.outer()
    if "probes" in keys:
        return True
    return bool(keys & set(_YES)) and bool(keys & set(_NO)) and "prompt" not in keys


def _read(source: Source) -> Read:
    file = File("triggers", source)
    rows = _rows(source.root)
    if rows is not None and rows.value:
        for node in rows.value:
            _row(file, node)
        return file.done()
    root = source.root.value
    for node in file.items(root.get("probes"), "probes"):
        mine = names_skill(node.value.get("skill"), source)
        for key in _YES:
            _texts(file, node.value.get(key), should=mine)
        for key in _NO:
            _texts(file, node.value.get(key), should=False)
    for key in ("shared_negatives", *_NO):
        _texts(file, root.get(key), should=False)
    if "probes" not in root:
        for key in _YES:
            _texts(file, root.get(key), should=True)
    file.outermost({*_YES, *_NO, "probes", "shared_negatives", "cross_negatives", "kind", "tags", "prompt"})
    return file.done()


def _row(file: File, node: Node) -> None:
    draft = file.named(node)
    query = next((text for key in _QUERIES if key in node.value and (text := draft.text(key))), None)
    flag = _plain(node, "should_trigger")
    should = flag if isinstance(flag, bool) else _word(node)
    if should is None:
        draft.complain(f"should_trigger is {node.value['should_trigger'].kind}; true or false was expected")
    elif query is None and not draft.failed:
        draft.complain(f"there is no query (text under one of {', '.join(_QUERIES)})", remedy="Add query.")
    elif query is not None:
        draft.trigger(query, should)


def _texts(file: File, node: Node | None, *, should: bool) -> None:
    if node is None or node.value is None:
        return
    for item in node.value if node.is_list else [node]:
        found = item
        if item.is_map:
            found = next((item.value[key] for key in _QUERIES if key in item.value), item)
        if isinstance(found.value, str) and found.value.strip():
            file.trigger(found.value, should, item)
        else:
            file.complain(f"a trigger prompt is {found.kind}; text was expected", item)


def _plain(node: Node, key: str) -> Json:
    return node.value[key].value if key in node.value else None


DIALECT = Dialect("triggers", _claims, _read)
