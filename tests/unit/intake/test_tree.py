from __future__ import annotations

import os
from pathlib import Path

import pytest

from gate.errors import ConfigurationError
from gate.intake import sources
from gate.intake.sources import CommitTree, FolderTree
from gate.intake.tree import check_folder, check_tree
from tests.fakes.repository import FakeRepository, Files, entry_of

MD = "---\nname: a\ndescription: d\n---\nBody\n"


def a_folder(folder: Path, files: Files) -> Path:
    for path, content in files.items():
        entry = entry_of(content)
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(entry.data)
        place.chmod(0o755 if entry.mode == "100755" else 0o644)
    return folder


FILES: Files = {
    "s/a/SKILL.md": MD,
    "s/a/evals/evals.json": '[{"prompt": "p", "expectations": ["e"]}]',
    "s/a/inner/SKILL.md": "nothing",
    "s/b/SKILL.md": "broken",
    "tests/t/SKILL.md": MD,
    ".claude-plugin/plugin.json": '{"name": "x", "skils": 1}',
}


def test_a_folder_and_a_commit_with_the_same_files_are_checked_alike(tmp_path: Path) -> None:
    repo = FakeRepository()
    commit = repo.commit(FILES)
    assert check_tree(FolderTree(a_folder(tmp_path, FILES))) == check_tree(CommitTree(repo, commit))


def test_every_skill_md_yields_a_skill_or_findings(tmp_path: Path) -> None:
    found = {item.path: item for item in check_tree(FolderTree(a_folder(tmp_path, FILES)))}
    assert list(found) == ["s/a", "s/b", "tests/t"]
    assert (found["s/a"].name, found["s/a"].cases) == ("a", 1)
    assert [item.rule for item in found["s/a"].findings] == [
        "skill-md/nested",
        "manifest/plugin-json/unknown-key",
        "manifest/plugin-json/unreachable",
    ]
    assert found["s/b"].skill is None
    assert found["s/b"].findings[0].blocks
    assert [item.rule for item in found["tests/t"].findings] == ["skill-md/ignored"]


def test_paths_start_with_the_folder_as_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_folder(tmp_path, FILES)
    monkeypatch.chdir(tmp_path)
    assert [item.path for item in check_folder("s/")] == ["s/a", "s/b"]
    assert [item.path for item in check_folder("s/a")] == ["s/a"]
    assert check_folder("s/b")[0].findings[0].path == "s/b/SKILL.md"
    assert check_folder(".")[1].findings[0].path == "s/b/SKILL.md"
    assert [item.path for item in check_folder("tests/t")] == ["tests/t"], "asked for by its own path"


def test_a_folder_that_is_a_skill_knows_its_name(tmp_path: Path) -> None:
    a_folder(tmp_path, {"other/SKILL.md": MD, "a/SKILL.md": MD})
    assert [item.rule for item in check_folder(tmp_path / "other")[0].findings] == ["skill-md/name-folder"]
    assert check_folder(tmp_path / "a")[0].findings == ()


def test_the_json_of_a_checked_skill_has_findings_and_no_content(tmp_path: Path) -> None:
    found = check_folder(a_folder(tmp_path, FILES))[0].to_json()
    assert set(found) == {"path", "name", "cases", "findings", "manifests", "preflight", "facts"}


def test_links_are_entries_and_never_followed(tmp_path: Path) -> None:
    outside = a_folder(tmp_path / "outside", {"SKILL.md": MD, "secret": "s3cret"})
    inside = a_folder(tmp_path / "inside", {"s/a/SKILL.md": MD})
    (inside / "s" / "a" / "loop").symlink_to(inside)
    (inside / "s" / "a" / "leak").symlink_to(outside / "secret")
    (inside / "s" / "linked").symlink_to(outside)
    (inside / "s" / "c").mkdir()
    (inside / "s" / "c" / "SKILL.md").symlink_to(outside / "SKILL.md")
    found = {item.path: item for item in check_tree(FolderTree(inside))}
    assert list(found) == ["s/a", "s/c"]
    assert [item.rule for item in found["s/c"].findings if item.blocks] == ["skill-md/link"]
    skill = found["s/a"].skill
    assert skill is not None
    assert {file.path: file.mode for file in skill.files} == {"SKILL.md": "100644", "leak": "120000", "loop": "120000"}
    assert b"s3cret" not in b"".join(file.data for file in skill.files)


def test_special_and_unreadable_files_stop_nothing(tmp_path: Path) -> None:
    a_folder(tmp_path, {"a/SKILL.md": MD, "a/run.sh": entry_of("x")})
    os.mkfifo(tmp_path / "a" / "pipe")
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    (tmp_path / os.fsdecode(b"caf\xe9") / "SKILL.md").write_text(MD)
    found = check_tree(FolderTree(tmp_path))
    assert [item.path for item in found] == ["a", "caf\\xe9"]
    assert found[0].skill is not None
    assert [file.path for file in found[0].skill.files] == ["SKILL.md", "run.sh"]


def test_a_file_that_turned_into_something_else_blocks_its_skill(tmp_path: Path) -> None:
    tree = FolderTree(a_folder(tmp_path, {"a/SKILL.md": MD, "a/x": "x"}))
    tree.paths()
    (tmp_path / "a" / "x").unlink()
    (tmp_path / "a" / "x").symlink_to("/etc/passwd")
    found = check_tree(tree)[0]
    assert [item.rule for item in found.findings if item.blocks] == ["skill-md/unreadable"]


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_folder(tmp_path, {"a/SKILL.md": MD, "a/large": "x" * 100, "b/SKILL.md": MD.replace("name: a", "name: b")})
    monkeypatch.setattr(sources, "MAX_FILE_BYTES", 90)
    first, second = check_tree(FolderTree(tmp_path))
    assert [item.rule for item in first.findings if item.blocks] == ["skill-md/folder-too-large"]
    assert second.skill is not None
    monkeypatch.setattr(sources, "MAX_ENTRIES", 2)
    with pytest.raises(ConfigurationError, match="more than 2 files"):
        check_folder(tmp_path)


def test_what_is_no_folder_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a folder"):
        check_folder(tmp_path / "gone")


def test_every_skill_md_of_the_corpus_is_accounted_for(shared_dir: Path) -> None:
    corpus = shared_dir / "corpus"
    checked = check_tree(FolderTree(corpus))
    skills = {item.path for item in checked if item.skill is not None or any(found.blocks for found in item.findings)}
    nested = {
        found.message.partition(" has a SKILL.md")[0]
        for item in checked
        for found in item.findings
        if found.rule == "skill-md/nested"
    }
    everything = {str(path.parent.relative_to(corpus)) for path in corpus.rglob("*") if path.name.lower() == "skill.md"}
    assert len(everything) > 50
    assert skills | nested == everything
    assert not skills & nested
    assert all(item.skill is not None for item in checked), "all of these are readable"


def test_the_files_of_a_nested_skill_of_its_own_are_not_those_of_the_outer_one(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, {"s/a/SKILL.md": MD, "s/a/x": "1", "s/a/kids/b/SKILL.md": MD, "s/a/kids/b/y": "2"})
    whole = check_folder(folder)[0].skill
    assert whole is not None
    assert len(whole.files) == 4
    parts = [item.skill for item in check_folder(folder, ignore=["!s/a/kids/*"])]
    assert [[file.path for file in skill.files] for skill in parts if skill] == [["SKILL.md", "x"], ["SKILL.md", "y"]]
