"""One case a JSON file in ``evaluations/`` (openai/skills): ``query``, ``expected_behavior``, ``success_criteria``, in prose."""

from __future__ import annotations

from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import File

_JUDGING = ("expected_behavior", "success_criteria")


def _claims(source: Source) -> bool:
    return bool({"query", "prompt"} & source.outer()) and bool(set(_JUDGING) & source.outer()) and (
        "skills" in source.outer() or "name" in source.outer()
    )  # fmt: skip


def _read(source: Source) -> Read:
    file = File("openai-evaluations", source)
    node = source.root
    draft = file.named(node)
    draft.known({"id", "name", "skills", "query", "prompt", "context", "files", "description"}, _JUDGING)
    if "context" in node.value:
        file.settings({"context"})
    prompt = draft.text("query") or draft.text("prompt")
    for key in _JUDGING:
        for text, _ in draft.texts(key):
            draft.expect(text)
    for text, item in draft.texts("files"):
        draft.fixture(text, node=item)
    draft.finish(prompt)
    return file.done()


DIALECT = Dialect("openai-evaluations", _claims, _read)
