from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from examples.demo.run_demo import RECORDING, SKILLS, arguments, first_screen, make_repository
from tests.scripted.record_demo import record
from tests.story import gate_environment, run_gate

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's folder after one ``make demo``: ``repository``, ``result`` and ``printed``."""
    work = tmp_path_factory.mktemp("demo")
    # Of the make that may run these tests nothing is handed on.
    around = {name: value for name, value in gate_environment().items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "demo"], cwd=ROOT, env={**around, "SKILL_GATE_DEMO": str(work)}, capture_output=True, text=True,
        timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (work / "printed").write_text(done.stdout, encoding="utf-8")
    return work


def test_make_demo_ends_well_and_says_where_everything_is(demo: Path) -> None:
    printed = (demo / "printed").read_text(encoding="utf-8")
    assert first_screen((demo / "result/report.md").read_text(encoding="utf-8")) in printed
    assert "The gate said no (exit code 1), as it should: the branch breaks the skill release-notes." in printed
    for name in ("report.html", "report.md", "manifest.json"):
        assert (demo / "result" / name).is_file()
    assert str(demo / "result/report.html") in printed


@pytest.mark.requirements("R8", "R54", "R140", "R142", "R219")
def test_the_comment_shows_a_pass_a_fail_with_its_rule_and_why(demo: Path) -> None:
    report = json.loads((demo / "result/report.json").read_text())
    verdicts = {skill["path"]: skill["verdict"] for skill in report["skills"]}
    assert verdicts == {SKILLS[0]: "pass", SKILLS[1]: "fail", SKILLS[2]: "pass"}
    comment = (demo / "result/report.md").read_text()
    assert comment.startswith("## Skill Gate: failure: 1 fails (skills/release-notes), 2 pass\n")
    assert "Breaking changes come first" in comment
    assert "found other headings" in comment
    assert "models: scripted, no model was called" in comment
    assert "manifest/plugin-json/path-missing" in comment
    for figures in ("20/28 assertions in 8/8 runs", "28/28 assertions in 8/8 runs", "6/8 assertions in 2/2 runs"):
        assert figures in comment
    assert len(comment) <= 65_536


def test_what_the_demonstration_prints_of_the_comment_is_its_first_screen(demo: Path) -> None:
    printed = first_screen((demo / "result/report.md").read_text())
    assert printed.startswith("## Skill Gate: failure: 1 fails (skills/release-notes), 2 pass\n")
    assert "$0.00 paid (a replay)" in printed
    assert "unknown" not in printed
    assert all(path in printed for path in SKILLS)
    assert "<details>" not in printed
    assert "<!--" not in printed
    assert len(printed) <= 5_000


def test_the_comment_names_the_evidence_line_of_each_graded_line_and_the_page_has_it(demo: Path) -> None:
    report = json.loads((demo / "result/report.json").read_text())
    page = (demo / "result/report.html").read_text()
    comment = (demo / "result/report.md").read_text().rpartition("<sub>")[0]
    named = re.findall(r"`report\.html#([^`]+)`", comment)
    assert len(named) == sum(len(skill["triage"]) for skill in report["skills"])
    assert [anchor for anchor in named if f'id="{anchor}"' not in page] == []
    rows = [row for skill in report["skills"] for run in skill["evidence"] for row in run["rows"]]
    assert sum(run["left_out"] for skill in report["skills"] for run in skill["evidence"]) == 0
    passed = [row for row in rows if row["kind"] == "expectation" and row["status"] == "passed"]
    assert passed
    assert all(row["cites"] for row in passed), "no pass of a judge without a line that people can look up"


@pytest.mark.requirements("R113", "R114", "R117", "R119", "R130")
def test_the_bundle_has_the_canonical_tree(demo: Path) -> None:
    skill = next((demo / "result/skills").glob("skills-release-notes-*"))
    case = skill / "eval-1"
    for name in ("comparison.json", "unblinding.json", "analysis.json"):
        assert (case / name).is_file()
    for arm in ("with_skill", "without_skill", "base_skill"):
        run = case / "run-1" / arm
        assert (run / "outputs/transcript.md").is_file()
        assert (run / "outputs/response.md").is_file()
        for name in ("events.jsonl", "metrics.json", "timing.json", "checks.json", "grading.json", "seal.json"):
            assert (run / name).is_file()


@pytest.mark.requirements("R226")
def test_verify_holds_for_the_bundle_and_names_any_file_that_changed(demo: Path, tmp_path: Path) -> None:
    good = run_gate("verify", demo / "result")
    assert good.returncode == 0, good.stdout
    assert "everything holds" in good.stdout
    files = sorted(path.relative_to(demo / "result") for path in (demo / "result").rglob("*") if path.is_file())
    # One of every kind of file, and the whole list would say the same at forty times the time.
    chosen = {(path.name if len(path.parts) < 4 else path.suffix + path.name): path for path in files}
    copy = tmp_path / "copy"
    shutil.copytree(demo / "result", copy)
    for path in chosen.values():
        data = (copy / path).read_bytes()
        middle = len(data) // 2
        (copy / path).write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        bad = run_gate("verify", copy)
        assert bad.returncode == 1, path
        assert str(path) in bad.stdout
        (copy / path).write_bytes(data)
    (copy / "extra.txt").write_text("extra")
    assert "extra.txt" in run_gate("verify", copy).stdout
    (copy / "extra.txt").unlink()
    removed = files[len(files) // 2]
    (copy / removed).unlink()
    gone = run_gate("verify", copy)
    assert gone.returncode == 1
    assert str(removed) in gone.stdout


def test_a_bundle_whose_seals_were_made_anew_over_a_changed_verdict_does_not_verify(demo: Path, tmp_path: Path) -> None:
    """Whoever changes a grade and seals again is found by what the rules derive from the record."""
    from gate.evidence.seal import seal_bundle

    copy = tmp_path / "copy"
    shutil.copytree(demo / "result", copy)
    (copy / "manifest.json").unlink()
    report = json.loads((copy / "report.json").read_text())
    report["skills"][0]["verdict"] = "pass"
    (copy / "report.json").write_text(json.dumps(report))
    seal_bundle(copy, {})
    result = run_gate("verify", copy)
    assert result.returncode == 1
    assert "report.json is not what its evidence gives" in result.stdout


def test_changing_one_line_of_a_skill_misses_the_replay_and_shows_the_difference(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    make_repository(repository)
    skill = repository / "skills/csv-totals/SKILL.md"
    skill.write_text(skill.read_text().replace("Adds up a column", "Sums up a column"))
    from tests.story import git

    git(repository, "commit", "--all", "--quiet", "--message", "One word")
    done = run_gate(*arguments(repository, tmp_path / "result", []))
    report = json.loads((tmp_path / "result/report.json").read_text())
    changed = next(skill for skill in report["skills"] if skill["path"] == SKILLS[0])
    assert changed["verdict"] == "error"
    assert "Sums up a column" in json.dumps(changed)
    assert done.returncode in (1, 3)


def test_recording_the_demonstration_anew_gives_equal_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    assert record(folder, tmp_path / "work") == 1
    fresh = {path.name: path.read_bytes() for path in folder.iterdir()}
    kept = {path.name: path.read_bytes() for path in RECORDING.iterdir()}
    assert fresh.keys() == kept.keys()
    assert [name for name in fresh if fresh[name] != kept[name]] == []


def test_two_replays_differ_in_nothing_but_the_declared_clock_fields(demo: Path, tmp_path: Path) -> None:
    done = run_gate(*arguments(demo / "repository", tmp_path / "result", []))
    assert done.returncode == 1
    for name in ("report.json", "report.md", "report.html", "plan.json", "session.json", "usage.json"):
        assert (tmp_path / "result" / name).read_bytes() == (demo / "result" / name).read_bytes(), name
    for path in (demo / "result").rglob("transcript.md"):
        relative = path.relative_to(demo / "result")
        assert (tmp_path / "result" / relative).read_bytes() == path.read_bytes()
