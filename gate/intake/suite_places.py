"""Where evals lie: what a path alone says. What stands in them is read by ``gate.intake.suite``, once there is a skill to read."""

from __future__ import annotations

import posixpath

FILE_NAMES = ("skill-gate.yaml", "skill-gate.yml")
"""Of our own dialect."""
DOCUMENT_ENDS = (".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".csv")
CASES_END = ".cases.md"
PLACES = (*(f"evals/{name}" for name in FILE_NAMES), "evals/evals.json", "evals.json")
"""In the order of precedence, compared without case. A file here is a suite, or a mistake."""
FOLDERS = ("evals", "eval", "evaluations")
EVAL_ENDS = (*DOCUMENT_ENDS, CASES_END)
_EVAL_NAMES = (
    "eval.yaml", "eval.yml", "evals.yaml", "evals.yml", "evals.jsonl", "eval_set.json", "eval_queries.json",
    "trigger_eval.json", "trigger-eval.json", "trigger-queryset.json", "skill-gate.yaml", "skill-gate.yml",
)  # fmt: skip
"""Names that nobody gives to anything else: one that cannot be parsed is an error."""
_INNER_NAMES = ("triggers.yaml", "triggers.yml", "case.yaml", "case.yml")
"""The same, but only in an evals folder: elsewhere they may be anything."""
_ELSEWHERE = ("references/evals.yaml", "references/evals.yml", "references/evals.json", "tests/eval.yaml", "tests/eval.yml",
              ".sklab/tests/triggers.yaml")  # fmt: skip
_CASE_FOLDERS = ("cases", "scenarios", "tasks", "evals", "evaluations")
"""Folders below an evals folder that hold one case a file."""
_DATA_FOLDERS = (
    "files",
    "fixtures",
    "fixture",
    "data",
    "assets",
    "workspace",
    "results",
    "graders",
    "inputs",
    "outputs",
)

_SURE = len(PLACES)
LOOSE = len(PLACES) + 1


def is_suite_file(path: str) -> bool:
    """Whether a path in a skill folder is of its evals: a suite, or anything in an evals folder that a case may name."""
    lower = path.lower()
    return lower.split("/", maxsplit=1)[0] in FOLDERS or lower in PLACES or rank_of(lower) is not None


def is_suite_name(path: str) -> bool:
    """Whether a file's name alone says that it is a suite, wherever it lies."""
    name = posixpath.basename(path).lower()
    return name in _EVAL_NAMES or name == "evals.json" or name.endswith((CASES_END, ".eval.yaml", ".eval.yml"))


def is_suite_place(path: str) -> bool:
    """Whether a path in a folder with evals outside of its skill is where a suite is looked for; its content decides."""
    return rank_of(path.lower(), inside=False) is not None


def rank_of(lower: str, *, inside: bool = True) -> int | None:
    """Where a path (in lower case) stands among the suite files of a folder; None: it is none.

    Below ``LOOSE`` its name says that it is a suite; from there on its content decides.
    """
    if inside and lower in PLACES:
        return PLACES.index(lower)
    folder, name = posixpath.split(lower)
    parts = folder.split("/") if folder else []
    sure = is_suite_name(name)
    inner = sure or name in _INNER_NAMES
    if lower in _ELSEWHERE:
        return _SURE
    if not name.endswith(EVAL_ENDS):
        return None
    if inside:
        if not parts:
            return _SURE if sure else None
        if parts[0] not in FOLDERS:
            return None
        parts = parts[1:]
    if not parts:
        return _SURE if inner else LOOSE
    if any(part in _DATA_FOLDERS for part in parts):
        return None
    if inner:
        return _SURE
    return LOOSE if parts[-1] in _CASE_FOLDERS else None
