"""Files beside a suite that are another tool's: settings, results, data, and suites in formats that no reader is there for.
They are recognised, so that they can be named as what they are. Nothing in them judges a case of this gate.
"""

from __future__ import annotations

import posixpath
import re

from gate.intake.suite.dialect import Source

_SHAPES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"harbor"}), "settings of the Harbor harness"),
    (frozenset({"skill_workspace"}), "settings of the Harbor harness"),
    (frozenset({"agent", "run"}), "settings of agent-crucible"),
    (frozenset({"release_gates"}), "release gates of agent-skill-evals"),
    (frozenset({"scenarios", "agents"}), "settings of axis"),
    (frozenset({"paths", "suites"}), "settings of vally"),
    (frozenset({"eval", "expect", "org_stub"}), "an agent fixture of another tool"),
    (frozenset({"run_summary", "runs"}), "results (benchmark.json)"),
    (frozenset({"summary", "results"}), "results of a run"),
    (frozenset({"openapi"}), "an interface description"),
    (frozenset({"$schema", "properties"}), "a JSON Schema"),
)


_SUITES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"kind", "prompt", "assertions"}), "agent-exam"),
    (frozenset({"skill_id", "eval_suite_version", "cases"}), "agent-skill-evals"),
    (frozenset({"scorers", "cases"}), "skill-evals"),
    (frozenset({"case_id", "input", "expect"}), "skill-qa"),
    (frozenset({"input", "expected", "context"}), "upskill"),
    (frozenset({"prompts", "providers", "tests"}), "promptfoo"),
)
"""Suites that are named and not read (peers-pypi.md 5): what judges in them has no equal here that could be trusted."""
_NAMES = (
    (re.compile(r"promptfooconfig\.\w+", re.IGNORECASE), "promptfoo"),
    (re.compile(r".+\.eval\.md", re.IGNORECASE), "skillroll"),
)


def suite_of_another_tool(source: Source) -> str | None:
    """The tool whose suite a document is, where no reader is there for it."""
    keys = source.outer()
    return next((tool for shape, tool in _SUITES if shape <= keys), None)


def named_by_another_tool(path: str) -> str | None:
    """The tool that gives its suites this file's name, where no reader is there for it."""
    name = posixpath.basename(path)
    return next((tool for pattern, tool in _NAMES if pattern.fullmatch(name)), None)


def recognised(source: Source) -> str | None:
    """What a document is, in words, where it is no suite but known; else None."""
    keys = source.outer()
    return next((words for shape, words in _SHAPES if shape <= keys), None)
