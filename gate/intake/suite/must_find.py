"""One case a YAML file (kouko/monkey-skills): ``input_query``, ``fixture``, ``must_find`` of ``description`` + ``threshold``."""

from __future__ import annotations

from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import File


def _claims(source: Source) -> bool:
    return "input_query" in source.outer() or {"must_find", "fixture"} <= source.outer()


def _read(source: Source) -> Read:
    file = File("must-find", source)
    node = source.root
    draft = file.named(node)
    draft.known(
        {"name", "skill", "fixture", "input_query", "score", "language"},
        {"must_find", "expected_lenses", "must_not_find"},
    )
    if "score" in node.value:
        file.settings({"score"})
    prompt = draft.text("input_query", required=True)
    fixture = draft.text("fixture")
    if fixture is not None:
        # Written from the plugin's root: skills/<skill>/assets/x.
        draft.fixture(fixture.removeprefix(f"skills/{source.name}/"), node=node.value["fixture"])
    for item in file.items(node.value.get("must_find"), "must_find"):
        text = draft.text("description", item) or draft.text("id", item, required=True)
        times = draft.number("threshold", item)
        if text is not None:
            draft.expect(f"{text} (at least {times})" if times and times > 1 else text)
    for text, _ in draft.texts("must_not_find"):
        draft.expect(f"The answer does not contain this: {text}")
    for text, _ in draft.texts("expected_lenses"):
        draft.expect(f"The answer applies the lens {text}.")
    draft.finish(prompt)
    return file.done()


DIALECT = Dialect("must-find", _claims, _read)
