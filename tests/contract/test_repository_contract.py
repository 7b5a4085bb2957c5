from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gate.adapters.git_repository import GitRepository
from gate.errors import RepositoryError
from gate.protocols import Repository
from tests.fakes.repository import FakeRepository, GitFolder, Writer, link, script, submodule

Made = tuple[Writer, Callable[[], Repository]]


@pytest.fixture(params=["fake", "git"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """A writer of commits, and the repository that reads them."""
    if request.param == "fake":
        fake = FakeRepository()
        return fake, lambda: fake
    folder = GitFolder(tmp_path / "repo")
    return folder, lambda: GitRepository(folder.folder)


def test_resolves_branches_commits_and_head(made: Made) -> None:
    writer, read = made
    one = writer.commit({"a": "1"}, branch="main")
    two = writer.commit({"a": "2"}, parent=one)
    repo = read()
    assert (repo.resolve("main"), repo.resolve("HEAD"), repo.resolve(one)) == (one, two, one)


def test_names_a_revision_that_does_not_exist(made: Made) -> None:
    writer, read = made
    writer.commit({"a": "1"}, branch="main")
    for revision in ("nowhere", "f" * 40, "--help", "", "a\0b"):
        with pytest.raises(RepositoryError, match=re.escape(f'"{revision}"')) as caught:
            read().resolve(revision)
        assert caught.value.remedy


def test_the_merge_base_is_where_two_lines_parted(made: Made) -> None:
    writer, read = made
    start = writer.commit({"a": "1"})
    main = writer.commit({"a": "1", "b": "1"}, parent=start, branch="main")
    head = writer.commit({"a": "2"}, parent=start)
    assert read().merge_base(main, head) == start
    assert read().default_branch() == main
    assert read().default_base() == start


def test_without_a_common_commit_there_is_no_merge_base_but_a_remedy(made: Made) -> None:
    writer, read = made
    one = writer.commit({"a": "1"})
    two = writer.commit({"b": "1"})
    with pytest.raises(RepositoryError) as caught:
        read().merge_base(one, two)
    assert caught.value.remedy


def test_without_a_default_branch_there_is_no_default_base(made: Made) -> None:
    writer, read = made
    writer.commit({"a": "1"}, branch="topic")
    assert read().default_base() is None
    assert read().default_branch() is None


def test_lists_what_changed_with_awkward_names_whole(made: Made) -> None:
    writer, read = made
    long_text = "\n".join(f"line {number}" for number in range(40))
    base = writer.commit(
        {"same": "s", "gone": "g", "edited": "1", "from/旧 name": long_text, "mode": "m", "turned": "t"}
    )
    head = writer.commit(
        {"same": "s", "edited": "2", "to/新\tname\n\"x\"": long_text, "mode": script("m"), "turned": link("same"), "--new": "n"},
        parent=base,
    )  # fmt: skip
    assert read().changed_paths(base, head) == [
        ("A", "--new", None),
        ("M", "edited", None),
        ("D", "gone", None),
        ("M", "mode", None),
        ("R", 'to/新\tname\n"x"', "from/旧 name"),
        ("T", "turned", None),
    ]


def test_names_that_are_no_utf8_survive_as_surrogates(made: Made) -> None:
    writer, read = made
    base = writer.commit({"a": "1"})
    head = writer.commit({"a": "1", "skills/caf\udce9/SKILL.md": "x"}, parent=base)
    assert read().changed_paths(base, head) == [("A", "skills/caf\udce9/SKILL.md", None)]
    assert [file.path for file in read().read_skill_files(head, "skills")] == ["caf\\xe9/SKILL.md"]


def test_lists_a_tree_and_only_what_is_below_a_folder(made: Made) -> None:
    writer, read = made
    commit = writer.commit(
        {
            "s/a/x": "1",
            "s/ab/x": "2",
            "s/a/y": link("x"),
            "s/a/m": submodule(),
            "z": "3",
            "s/*/q": "4",
            ":(top)d/q": "5",
        }
    )
    entries = read().tree(commit)
    assert [path for path, _, _ in entries] == sorted(["s/a/x", "s/ab/x", "s/a/y", "s/a/m", "z", "s/*/q", ":(top)d/q"])
    assert [(path, mode) for path, mode, _ in read().tree(commit, "s/a")] == [
        ("s/a/m", "160000"),
        ("s/a/x", "100644"),
        ("s/a/y", "120000"),
    ]
    assert [path for path, _, _ in read().tree(commit, "s/*")] == ["s/*/q"]
    assert [path for path, _, _ in read().tree(commit, ":(top)d")] == [":(top)d/q"]
    assert read().tree(commit, "nowhere") == []
    assert read().tree(commit, "z") == [], "a file is no folder"


def test_reads_blobs_by_id_and_refuses_unknown_ones(made: Made) -> None:
    writer, read = made
    commit = writer.commit({"text": "hello\n", "empty": "", "binary": bytes(range(256)) * 5000})
    ids = {path: blob for path, _, blob in read().tree(commit)}
    contents = read().blobs([ids["text"], ids["binary"], ids["empty"], ids["text"]])
    assert contents == {ids["text"]: b"hello\n", ids["empty"]: b"", ids["binary"]: bytes(range(256)) * 5000}
    assert read().blobs([]) == {}
    with pytest.raises(RepositoryError, match="f" * 40) as caught:
        read().blobs([ids["text"], "f" * 40])
    assert caught.value.remedy


def test_reads_a_skill_folder_by_mode_and_never_through_links(made: Made) -> None:
    writer, read = made
    commit = writer.commit(
        {
            "skills/a/SKILL.md": "text",
            "skills/a/scripts/run.sh": script("echo"),
            "skills/a/leak": link("/etc/passwd"),
            "skills/a/sub": submodule(),
            "skills/ab/SKILL.md": "other",
        }
    )
    files = {file.path: file for file in read().read_skill_files(commit, "skills/a")}
    assert list(files) == ["SKILL.md", "leak", "scripts/run.sh", "sub"]
    assert [file.mode for file in files.values()] == ["100644", "120000", "100755", "160000"]
    assert files["leak"].data == b"/etc/passwd"
    assert (files["sub"].data, files["SKILL.md"].data) == (b"", b"text")
    assert read().read_skill_files(commit, "skills/none") == ()
    assert len(read().read_skill_files(commit, ".")) == 5


def test_single_entries_are_asked_for_by_path(made: Made) -> None:
    writer, read = made
    commit = writer.commit(
        {"a/b": "1", "a/b\tc": "2", "c": "3", "é/x y": script("4"), **{f"many/{n}": str(n) for n in range(90)}}
    )
    repo = read()
    paths = repo.paths(commit)
    whole = {path: (mode, blob) for path, mode, blob in repo.tree(commit)}
    for _ in range(2):
        assert {path: paths.get(path) for path in whole} == whole
        for missing in ("b", "a", "a/", "", "c\0", "é", "\ud800", "a/b\t"):
            assert missing not in paths
    assert dict(paths) == whole
    assert len(paths) == len(whole)


def test_entries_are_found_by_name_in_any_case_and_nothing_else_is(made: Made) -> None:
    writer, read = made
    commit = writer.commit(
        {"SKILL.md": "1", "a/skill.md": "2", "b/Skill.MD": link("x"), "c/\u017f\u212aill.md": "4", "d/xSKILL.md": "5",
         "e\tSKILL.md": "6", "f/SKILL.md/g": "7", "h/SKILLxmd": "8"}
    )  # fmt: skip
    assert [path for path, _, _ in read().find(commit, "SKILL.md")] == [
        "SKILL.md", "a/skill.md", "b/Skill.MD", "c/\u017f\u212aill.md",
    ]  # fmt: skip
