"""What a newcomer types, and what the terminal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.story import make_repository, run_gate

SKILL = "---\nname: sums\ndescription: Adds numbers.\n---\n# Sums\n\nAdd {word}.\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "repository",
        {"skills/sums/SKILL.md": SKILL.format(word="up")},
        {"skills/sums/SKILL.md": SKILL.format(word="together")},
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--base", "nope"], "nope"),
        (["--head", "nope", "--base", "main"], "nope"),
        (["--base", "main", "--seed", "zz"], "seed"),
        (["--base", "main", "skills/none"], "skills/none"),
        (["--base", "main", "--model", "foo"], "foo"),
        (["--base", "main", "--jobs", "0"], "jobs"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_that_names_it(repository: Path, options: list[str], words: str) -> None:
    done = run_gate("run", "--repository", repository, "--out", repository.parent / "out", *options)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_no_repository_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    done = run_gate("run", "--repository", tmp_path / "plain", "--base", "main", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "repository" in done.stderr


def test_the_terminal_names_each_verdict_with_its_first_reason(repository: Path) -> None:
    done = run_gate("run", "--repository", repository, "--base", "main", "--out", repository.parent / "out")
    assert "skills/sums: no_evals: the skill has no evals" in done.stderr


def test_uncommitted_changes_are_said_where_nothing_is_to_evaluate(repository: Path) -> None:
    (repository / "skills/sums/SKILL.md").write_text("broken")
    done = run_gate("run", "--repository", repository, "--base", "HEAD", "--out", repository.parent / "out")
    assert done.returncode == 0
    assert "nothing to evaluate" in done.stderr
    assert "uncommitted changes" in done.stderr


def test_a_path_is_taken_from_a_folder_inside_the_repository(repository: Path) -> None:
    done = run_gate("run", "--base", "main", "--out", repository.parent / "out", "sums", cwd=repository / "skills")
    assert "skills/sums: no_evals" in done.stderr
    outside = run_gate("run", "--base", "main", "--out", repository.parent / "out", "/", cwd=repository)
    assert outside.returncode == 2
    assert "outside the repository" in outside.stderr
