"""Whatever stands where evals are looked for: a suite, or words about it, and never an exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gate.domain.skill import SkillFile
from gate.intake.suite import Reading, read_evals, suite_removals
from gate.intake.suite.explain import explain
from gate.intake.yaml_text import parse_yaml, plain
from tests.builders_skill import a_file, a_skill

ASSETS = Path(__file__).resolve().parents[1] / "assets" / "suites"
PATHS = (
    "evals/skill-gate.yaml", "evals/evals.json", "eval.yaml", "evals/a.eval.yaml", "evals/trigger_eval.json", "evals/a.csv",
    "evals/golden.cases.md", "evals/evals.jsonl", "evals/one/case.yaml", "evals/tasks/a.yaml", "references/evals.yaml",
    "evaluations/a.json", "evals/data.yaml",
)  # fmt: skip
DOCUMENTS = [
    plain(root)
    for path in sorted(ASSETS.rglob("*"))
    if path.suffix in (".json", ".yaml", ".yml") and (root := parse_yaml(path.read_text(encoding="utf-8")).root)
]
LEAVES = (
    st.none() | st.booleans() | st.integers(-3, 10**7) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", " ", "x", "(", "[a-", "../x", "/etc/passwd", "a\0b", "*", "{x}", "\u2028", "é" * 3, "a.b", "0", "yes"])
    | st.text(max_size=6)
)  # fmt: skip
ODD = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """An example of a dialect with some of its values, keys or items replaced by something else."""
    document = json.loads(json.dumps(draw(st.sampled_from(DOCUMENTS))))
    for _ in range(draw(st.integers(1, 4))):
        spot: Any = document
        for _ in range(draw(st.integers(0, 6))):
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot))) if isinstance(spot, list) else []
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            deeper = isinstance(spot[key], dict | list) and bool(spot[key]) and draw(st.integers(0, 3)) > 0
            if deeper:
                spot = spot[key]
                continue
            if isinstance(spot, dict) and draw(st.integers(0, 3)) == 0:
                spot[draw(st.text(max_size=5)) or key[:-1]] = spot.pop(key)
            else:
                spot[key] = draw(ODD)
            break
    return document


def a_suite_file(path: str, data: bytes) -> SkillFile:
    return a_file(path).model_copy(update={"data": data, "size_bytes": len(data)})


def holds(reading: Reading) -> None:
    """What is true of everything that was read."""
    assert reading.suite or reading.triggers or reading.findings, "never silence"
    for item in reading.findings:
        assert item.message.encode("utf-8")
    "\n".join(explain("skills/a", reading.suite, reading.triggers, reading.sources)).encode("utf-8")
    if reading.suite is not None:
        assert reading.suite.cases or reading.suite.triggers
        json.dumps(reading.suite.to_json()).encode("utf-8")
        assert all(case.checks or case.expectations for case in reading.suite.cases)
        assert all(case.prompt.strip() for case in reading.suite.cases)
        assert len({case.eval_id for case in reading.suite.cases}) == len(reading.suite.cases)
        assert suite_removals(reading.suite, reading.suite) == ()


@given(
    st.sampled_from(PATHS),
    st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace")),
)
def test_no_bytes_where_evals_are_looked_for_raise(path: str, data: bytes) -> None:
    holds(read_evals(a_skill(files=(a_suite_file(path, data),))))


@given(st.sampled_from(PATHS), damaged())
def test_a_damaged_suite_of_any_dialect_is_read_or_named(path: str, document: Any) -> None:
    if path.endswith((".yaml", ".yml")):
        data = yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=False).encode()
    else:
        data = json.dumps(document).encode()
    holds(read_evals(a_skill(files=(a_suite_file(path, data),))))


KINDS: dict[str, dict[str, Any]] = {
    "output-contains": {"substring": "x"}, "output-matches": {"pattern": "x"}, "file-exists": {"path": "x"},
    "file-matches": {"path": "x", "pattern": "y"}, "completed": {}, "tool-calls": {"required": ["bash"]},
    "diff-empty": {}, "token-usage": {"max": 3}, "prompt": {"prompt": "Is kind"}, "run-command": {"command": "true"},
    "skill-invocation": {"required": ["sums"]},
}  # fmt: skip


@given(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6), st.booleans())
def test_every_grader_of_a_case_is_a_check_or_an_expectation_or_blocks(kinds: list[str], typo: bool) -> None:
    graders: list[dict[str, Any]] = [{"type": kind, "config": dict(KINDS[kind])} for kind in kinds]
    if typo:
        graders[0]["config"]["thresold"] = 1
    document = {"stimuli": [{"name": "a", "prompt": "p", "graders": graders}]}
    reading = read_evals(a_skill(files=(a_file("eval.yaml", json.dumps(document)),)))
    judged = 0
    if reading.suite is not None:
        (case,) = reading.suite.cases
        judged = len(case.checks) + len(case.expectations)
        judged += len([kind for kind in kinds if kind == "prompt"]) - len(
            case.expectations
        )  # the same prose counts once
    assert judged == len(kinds) or any(item.blocks for item in reading.findings)
