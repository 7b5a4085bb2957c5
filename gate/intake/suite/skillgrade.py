"""skillgrade's ``eval.yaml``: ``tasks`` with ``instruction``, ``workspace`` and ``graders``.

A ``deterministic`` grader prints JSON with a ``score``; here it passes at the full score (that tool's weights and its
threshold over trials are not applied). A script of the suite that it calls is put into the check itself, so that the agent
never sees it. ``llm_rubric`` is prose.
"""

from __future__ import annotations

import re

from gate.intake.suite import exact
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import Draft, File
from gate.intake.yaml_text import Node

_KEYS = ("name", "instruction", "workspace", "metadata", "solution", "agent", "model", "trials", "timeout", "provider", "docker",
         "threshold", "environment", "command", "grader_model", "grader_provider")  # fmt: skip
_JUDGING = ("graders", "expected")
_SCRIPT = re.compile(r"\s*(sh|bash|python3?)\s+(\./)?([\w./-]+)\s*")
_SCORE = (
    "python3 -I -c 'import json,sys; t=sys.stdin.read(); "
    'sys.exit(0 if json.loads(t[t.index("{"):t.rindex("}")+1])["score"] >= 1 else 1)\''
)
_MARK = "SKILL_GATE_ORACLE"


def _claims(source: Source) -> bool:
    return "tasks" in source.outer() and bool({"instruction", "graders"} & source.first("tasks")) and not (
        {"inputs", "task_id", "prompt"} & source.first("tasks")
    )  # fmt: skip


def _read(source: Source) -> Read:
    file = File("skillgrade", source)
    file.outermost({"tasks"}, {"tasks"})
    for node in file.items(source.root.value["tasks"], "tasks"):
        draft = file.draft(node, name=str(node.value["name"].value or "") if "name" in node.value else "")
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
        line = _inlined(draft, run)
        if line is None:
            draft.refuse(kind, "it runs a file that is not a plain sh, bash or python script of the suite", node)
        else:
            draft.check(exact.command(line), node, kind=kind, description="deterministic grader, full score")
    elif kind:
        draft.refuse(kind, "known are deterministic and llm_rubric", node)


def _inlined(draft: Draft, run: str) -> str | None:
    """The grader as one shell text that brings its script along; None where that cannot be done."""
    call = _SCRIPT.fullmatch(run)
    if call is None:
        return f"( {run.strip()}\n) | {_SCORE}"
    text = _script_text(draft, call[3])
    if text is None or _MARK in text:
        return None
    tool = "bash -s" if call[1] in ("sh", "bash") else "python3 -"
    end = "" if text.endswith("\n") else "\n"
    return f"( {tool} <<'{_MARK}'\n{text}{end}{_MARK}\n) | {_SCORE}"


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
