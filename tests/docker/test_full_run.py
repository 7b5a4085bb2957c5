"""One ``full`` run of the demonstration's repository with ``contract: on``, real sandboxes and scripted models over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from examples.demo.run_demo import SKILLS, make_repository
from gate.evidence.schema import bundle_schemas
from tests.scripted.demo import scenario
from tests.scripted.server import ScriptedServer
from tests.story import git, run_gate

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

SESSION_FILES = (
    "session.json", "plan.json", "usage.json", "report.json", "report.md", "report.html", "findings.sarif", "junit.xml", "badge.json", "manifest.json",
)  # fmt: skip
SKILL_FILES = ("skill.json", "manifests.json", "contract.json", "gate-result.json", "benchmark.json")
CASE_FILES = ("comparison.json", "analysis.json")
RUN_FILES = (
    "outputs/transcript.md", "outputs/response.md", "events.jsonl", "metrics.json", "timing.json", "verification.json",
    "checks.json", "grading.json", "discussion.json", "seal.json",
)  # fmt: skip


class Full(NamedTuple):
    repository: Path
    bundle: Path

    def all(self, name: str) -> Iterator[tuple[Path, Any]]:
        """(path, value) of every file of that name."""
        for path in sorted(self.bundle.rglob(name)):
            if "workspace" not in path.relative_to(self.bundle).parts:
                yield path, json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Full:
    work = tmp_path_factory.mktemp("full")
    repository, bundle = work / "repository", work / "result"
    make_repository(repository)
    git(repository, "switch", "--quiet", "main")
    (repository / ".github").mkdir()
    (repository / ".github/skill-gate.yml").write_text("contract: 'on'\n", encoding="utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Contracts")
    git(repository, "switch", "--quiet", "feature")
    with ScriptedServer(scenario()) as server:
        done = run_gate(
            "run", *SKILLS, "--repository", repository, "--base", "main", "--mode", "full", "--out", bundle, "--no-cache",
            "--model", f"anthropic@{server.url}:scripted-agent", "--judge-model", f"openai@{server.openai_url}:scripted-judge",
            cwd=repository,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return Full(repository, bundle)


@pytest.mark.requirements("R46", "R110", "R113", "R114", "R117", "R119", "R142")
def test_every_file_of_the_design_is_there(full: Full) -> None:
    for name in SESSION_FILES:
        assert (full.bundle / name).is_file(), name
    skills = sorted((full.bundle / "skills").iterdir())
    assert len(skills) == len(SKILLS)
    for skill in skills:
        for name in SKILL_FILES:
            assert (skill / name).is_file(), skill / name
        for case in sorted(skill.glob("eval-*")):
            for name in CASE_FILES:
                assert (case / name).is_file(), case / name
            runs = sorted(case.glob("run-*/*"))
            assert len(runs) >= 6, case
            for run in runs:
                for name in RUN_FILES:
                    assert (run / name).is_file(), run / name


@pytest.mark.requirements("R226")
def test_every_file_fits_its_schema_and_the_bundle_verifies(full: Full) -> None:
    for name, schema in bundle_schemas().items():
        validator = jsonschema.Draft202012Validator(schema)
        paths = [path for path in full.bundle.rglob(name) if "workspace" not in path.relative_to(full.bundle).parts]
        assert paths or name == "gateway.jsonl", name  # written by the harnesses of real agents only
        for path in paths:
            text = path.read_text(encoding="utf-8")
            for item in [json.loads(line) for line in text.splitlines()] if name.endswith("l") else [json.loads(text)]:
                validator.validate(item)
    done = run_gate("verify", full.bundle)
    assert done.returncode == 0, done.stdout


@pytest.mark.requirements("R122", "R142")
def test_each_citation_of_an_analyzer_resolves(full: Full) -> None:
    cited = 0
    for path, analysis in full.all("analysis.json"):
        for item in citations(analysis):
            lines = git(full.repository, "show", f"feature:{item['path']}").split("\n")
            assert item["line"] <= len(lines), (path, item)
            assert lines[item["line"] - 1].strip().startswith(item["text"].strip()[:300]), (path, item)
            cited += 1
    assert cited >= 3


def citations(value: Any) -> Iterator[dict[str, Any]]:
    """Every place of a skill that stands anywhere in an analysis."""
    if isinstance(value, dict):
        if {"path", "line", "text"} <= set(value):
            yield value
        for item in value.values():
            yield from citations(item)
    elif isinstance(value, list):
        for item in value:
            yield from citations(item)


@pytest.mark.requirements("R124", "R125", "R127", "R128")
def test_the_comment_says_of_each_skill_what_comparison_and_rate_mean_or_that_there_are_too_few_cases(
    full: Full,
) -> None:
    report = json.loads((full.bundle / "report.json").read_text())
    comment = (full.bundle / "report.md").read_text()
    for skill in report["skills"]:
        assert skill["quadrant"], skill["path"]
        assert re.search(r"too few cases|pass", skill["quadrant"]), skill["quadrant"]
    assert comment.count("too few cases to tell") >= len(SKILLS)


@pytest.mark.requirements("R150", "R204", "R205", "R212", "R214", "R215")
def test_contracts_and_discussions_of_the_demonstration(full: Full) -> None:
    paths = {
        tuple(item["score"] for item in task["rounds"])
        for _, contract in full.all("contract.json")
        for task in contract["tasks"]
    }
    assert paths == {(0.7, 0.88), (0.78, 0.78, 0.78)}
    held = [item for _, item in full.all("discussion.json") if "initial" in item]
    skipped = {item["not_run"].split(":")[0] for _, item in full.all("discussion.json") if "not_run" in item}
    assert held
    assert "simple (R215)" in skipped
    assert all(item["cave_index"] == 0 for item in held)
    assert any(item["score_path"][0] != item["score_path"][-1] for item in held)
    for _, report in full.all("report.json"):
        forced = [skill["path"] for skill in report["skills"] if any("was forced" in note for note in skill["notes"])]
        assert forced == ["skills/ticket-triage"]
