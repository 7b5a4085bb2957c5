"""One scenario a JSON file (getsentry/skills): ``prompt``, ``setup``, ``artifacts``, ``judge`` of ``check`` + ``weight``, in prose."""

from __future__ import annotations

from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import File


def _claims(source: Source) -> bool:
    return {"prompt", "judge"} <= source.outer() and (
        not source.root.value["judge"].value or "check" in source.first("judge")
    )


def _read(source: Source) -> Read:
    file = File("axis", source)
    node = source.root
    draft = file.named(node)
    draft.known({"name", "prompt", "setup", "artifacts", "description"}, {"judge"})
    if "artifacts" in node.value:
        file.settings({"artifacts"})
    prompt = draft.text("prompt", required=True)
    for item in file.items(node.value["judge"], "judge"):
        text = draft.text("check", item, required=True)
        if text is not None:
            draft.expect(text)
    setup = node.value.get("setup")
    if setup is not None and setup.value:
        draft.lose("its setup runs commands before the agent, which this version does not", setup,
                   "Put the files that the setup makes into the suite, and name them under files.")  # fmt: skip
    draft.finish(prompt)
    return file.done()


DIALECT = Dialect("axis", _claims, _read)
