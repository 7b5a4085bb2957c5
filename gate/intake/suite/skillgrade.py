"""skillgrade's ``eval.yaml``: ``tasks`` with ``instruction``, ``workspace`` and ``graders``.

A ``deterministic`` grader prints JSON with a ``score``; here it passes at the full score (that tool's weights and its
threshold over trials are not applied). A script of the suite that it calls is put into the check itself, so that the agent
never sees it. ``llm_rubric`` is prose.
"""

from __future__ import annotations

import re

from gate.domain.base import Json
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.yaml_text import Node

_KEYS = ("name", "instruction", "workspace", "metadata", "solution", "agent", "model", "trials", "timeout", "provider", "docker",
         "threshold", "environment", "command", "grader_model", "grader_provider")  # fmt: skip
_JUDGING = ("graders", "expected")
_SCRIPT = re.compile(r"\s*(sh|bash|python3?)\s+(\./)?([\w./-]+)\s*")
_SCORE = """import json, subprocess, sys
run = subprocess.run(sys.argv[1:], cwd="/work", capture_output=True, text=True)
out = run.stdout
score = json.loads(out[out.index("{"):out.rindex("}") + 1])["score"]
print(score)
sys.exit(0 if score >= 1 else 1)
"""
"""Runs the grader over the workspace and passes at the full score; anything else (no JSON, no score) fails."""


def _claims(source: Source) -> bool:
    return "tasks" in source.outer() and bool({"instruction", "graders"} & source.first("tasks")) and not (
        {"inputs", "task_id", "prompt"} & source.first("tasks")
    )  # fmt: skip


def _read(source: Source) -> Read:
    file = File("skillgrade", source)
    file.outermost({"tasks"}, {"tasks"})
    for node in file.items(source.root.value["tasks"], "tasks"):
        draft = file.named(node)
        draft.known(_KEYS, _JUDGING)
        if "$import" in node.value:
            draft.complain("$import is not followed by this version", node.value["$import"], "Write the task out.")
        file.settings(key for key in _KEYS[3:] if key in node.value)
        prompt = draft.text("instruction", required=True)
        for item in file.items(node.value.get("workspace"), "workspace"):
            draft.fixture(draft.text("src", item, required=True), draft.text("dest", item), item)
        for item in file.items(node.value.get("graders"), "graders"):
            _grader(draft, item)
        draft.finish(prompt, expected_output=draft.text("expected"))
    return file.done()


def _grader(draft: Draft, node: Node) -> None:
    kind = (draft.text("type", node, required=True) or "").strip()
    if kind == "llm_rubric":
        rubric = draft.text("rubric", node, required=True)
        if rubric is not None:
            draft.expect(_script_text(draft, rubric.strip()) or rubric)
    elif kind == "deterministic":
        run = draft.text("run", node, required=True)
        if run is None or not draft.only(node, kind, ("run", "provider", "model")):
            return
        found = _oracle(draft, run)
        if found is None:
            draft.refuse(kind, "it needs files of the suite that are more than one sh, bash or python script", node)
        else:
            draft.check([("oracle_command", found)], node, kind=kind, description="deterministic grader, full score")
    elif kind:
        draft.refuse(kind, "known are deterministic and llm_rubric", node)


def _oracle(draft: Draft, run: str) -> dict[str, Json] | None:
    """The grader as a program that the agent never sees; None where it needs more of the suite than one script."""
    call = _SCRIPT.fullmatch(run)
    text = _script_text(draft, call[3]) if call else None
    if text is None and (call or _names_files(draft, run)):
        return None
    python = call is not None and call[1].startswith("python")
    name = "grader.py" if python else "grader.sh"
    words = ["python3", "-I", f"/oracle/{name}"] if python else ["bash", f"/oracle/{name}"]
    return {"files": {name: text or run, "score.py": _SCORE}, "script": "score.py", "args": words}


def _names_files(draft: Draft, run: str) -> bool:
    start = f"{draft.file.folder}/" if draft.file.folder else ""
    names = [file.path.removeprefix(start) for file in draft.file.source.skill.files if file.path.startswith(start)]
    return any("/" in name and name in run and name not in draft.fixtures for name in names)


def _script_text(draft: Draft, path: str) -> str | None:
    skill = draft.file.source.skill
    for full in (f"{draft.file.folder}/{path}" if draft.file.folder else path, path):
        found = skill.file(full)
        if found is not None and found.is_regular:
            try:
                return found.data.decode("utf-8")
            except UnicodeDecodeError:
                return None
    return None


DIALECT = Dialect("skillgrade", _claims, _read)
