"""Files beside a suite that are another tool's settings, results or data: recognised, so that they can be named as what
they are. Nothing in them judges a case of this gate.
"""

from __future__ import annotations

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


def recognised(source: Source) -> str | None:
    """What a document is, in words, where it is no suite but known; else None."""
    keys = source.outer()
    return next((words for shape, words in _SHAPES if shape <= keys), None)
