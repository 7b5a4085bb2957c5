"""NVIDIA's deployment evals: ``skills``, ``resources``, and ``expects``, a list of ``query`` + ``checks``."""

from __future__ import annotations

from gate.intake.suite.assertions import Assertions
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import File
from gate.intake.yaml_text import plain

_NEEDS = ("env", "deploy_mode", "platforms", "profile")


def _claims(source: Source) -> bool:
    return "expects" in source.outer() and bool(
        {"query", "checks"} & source.first("expects") or "skills" in source.outer()
    )


def _read(source: Source) -> Read:
    file = File("nvidia-expects", source)
    file.outermost({"skills", "resources", "expects"}, {"expects"})
    if "resources" in source.outer():
        file.settings({"resources"})
    for node in file.items(source.root.value["expects"], "expects"):
        draft = file.named(node)
        draft.known({"id", "name", "query", "files", *_NEEDS}, {"checks"})
        file.settings(key for key in _NEEDS if key in node.value)
        prompt = draft.text("query", required=True)
        assertions = Assertions({"checks": plain(node.value["checks"])} if "checks" in node.value else {})
        for complaint in assertions.complaints:
            draft.complain(complaint.message, remedy=complaint.remedy)
        draft.adopt(assertions.checks, assertions.expectations)
        for text, item in draft.texts("files"):
            draft.fixture(text, node=item)
        draft.finish(prompt)
    return file.done()


DIALECT = Dialect("nvidia-expects", _claims, _read)
