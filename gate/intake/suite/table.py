"""CSV: a row a case. ``prompt`` (or ``query``, ``question``, ``input``) with ``should_trigger``, or with a column of expectations.

A cell of expectations holds one a line. Columns that are not known are said.
"""

from __future__ import annotations

from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import File
from gate.intake.yaml_text import Node

_PROMPTS = ("prompt", "query", "question", "input")
_CHECKS = ("expectations", "expected_behavior", "assertions", "rubric", "criteria", "checks", "acceptance")
_OTHERS = ("id", "name", "expected_output", "ground_truth", "expected", "should_trigger", "category", "notes")


def _claims(source: Source) -> bool:
    if not source.file.path.lower().endswith(".csv"):
        return False
    columns = {key.lower() for key in source.first("")}
    return bool(columns & set(_PROMPTS)) and bool(columns & {*_CHECKS, *_OTHERS})


def _read(source: Source) -> Read:
    file = File("csv", source)
    for row in source.root.value:
        node = Node(row.line, 1, {key.lower(): item for key, item in row.value.items()})
        draft = file.named(node)  # fmt: skip
        draft.known({*_PROMPTS, *_OTHERS}, _CHECKS)
        prompt = next((text for key in _PROMPTS if (text := draft.text(key))), None)
        if prompt is None:
            draft.complain("there is no prompt", remedy="Fill the cell.")
            continue
        flag = draft.flag("should_trigger")
        if flag is not None:
            draft.trigger(prompt, flag)
        for key in _CHECKS:
            for line in (draft.text(key) or "").split("\n"):
                draft.expect(line)
        draft.finish(prompt, expected_output=next((text for key in _OTHERS[2:5] if (text := draft.text(key))), None))
    return file.done()


DIALECT = Dialect("csv", _claims, _read)
