from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gate.adapters import git_repository
from gate.adapters.git_repository import GitRepository, is_repository
from gate.domain.base import sha256_hex
from gate.errors import RepositoryError
from gate.protocols import Repository
from tests.fakes.repository import GitFolder, script


@pytest.fixture
def folder(tmp_path: Path) -> GitFolder:
    return GitFolder(tmp_path / "repo")


def checked_out(folder: GitFolder, files: dict[str, str]) -> str:
    """A commit on main whose files lie in the working tree too."""
    commit = folder.commit(files, branch="main")
    folder.git("symbolic-ref", "HEAD", "refs/heads/main")
    folder.git("reset", "-q", "--hard")
    return commit


def test_it_is_a_repository_for_the_rest_of_the_program(folder: GitFolder) -> None:
    repo: Repository = GitRepository(folder.folder)
    assert repo.location == str(folder.folder)


def test_a_plain_folder_is_no_repository_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    assert not is_repository(tmp_path)
    assert not is_repository(tmp_path / "missing")
    with pytest.raises(RepositoryError, match="not a Git repository") as caught:
        GitRepository(tmp_path)
    assert "check it out" in caught.value.remedy


def test_a_folder_inside_a_repository_reads_the_whole_of_it(folder: GitFolder) -> None:
    head = checked_out(folder, {"skills/a/SKILL.md": "x", "README.md": "y"})
    repo = GitRepository(folder.folder / "skills" / "a")
    assert repo.root == folder.folder.resolve()
    assert [path for path, _, _ in repo.tree(head)] == ["README.md", "skills/a/SKILL.md"]
    assert repo.changed_paths(head, head) == []


def test_a_bare_repository_is_read_and_never_dirty(tmp_path: Path) -> None:
    bare = GitFolder(tmp_path / "bare.git", bare=True)
    head = bare.commit({"a": "1"}, branch="main")
    repo = GitRepository(bare.folder)
    assert repo.resolve("main") == head
    assert not repo.is_dirty()


def test_a_repository_of_another_owner_is_read(folder: GitFolder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    head = checked_out(folder, {"a": "1"})
    for place in [folder.folder, *folder.folder.rglob("*")]:
        os.chown(place, 1001, 1001)
    refused = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=folder.folder,
        capture_output=True,
        env={"PATH": os.environ["PATH"]},
        check=False,
    )
    assert refused.returncode != 0, "git itself must refuse here, or this shows nothing"
    assert GitRepository(folder.folder).resolve("HEAD") == head


def test_a_branch_that_only_origin_has_is_found(tmp_path: Path, folder: GitFolder) -> None:
    head = checked_out(folder, {"a": "1"})
    folder.git("branch", "release")
    clone = GitFolder(tmp_path / "clone")
    clone.git("remote", "add", "origin", str(folder.folder))
    clone.git("fetch", "-q", "origin")
    repo = GitRepository(clone.folder)
    assert repo.resolve("release") == head
    assert repo.default_branch() == head


def test_a_shallow_clone_says_how_to_fetch_the_rest(tmp_path: Path, folder: GitFolder) -> None:
    start = folder.commit({"a": "1"})
    main = folder.commit({"a": "1", "b": "2"}, parent=start, branch="main")
    folder.commit({"a": "2"}, parent=start, branch="topic")
    clone = GitFolder(tmp_path / "clone")
    clone.git("fetch", "-q", "--depth=1", f"file://{folder.folder}", "main", "topic:refs/heads/topic")
    repo = GitRepository(clone.folder)
    with pytest.raises(RepositoryError, match="shallow") as caught:
        repo.merge_base(main, "topic")
    assert "fetch-depth: 0" in caught.value.remedy
    with pytest.raises(RepositoryError) as unknown:
        repo.resolve(start)
    assert "fetch-depth: 0" in unknown.value.remedy
    assert unknown.value.message == f'There is no commit "{start}" in "{clone.folder}".'


def test_nothing_that_the_repository_configures_is_run(tmp_path: Path, folder: GitFolder) -> None:
    base = checked_out(folder, {"a.txt": "1\n", ".gitattributes": "*.txt diff=evil filter=evil\n"})
    head = folder.commit({"a.txt": "2\n", ".gitattributes": "*.txt diff=evil filter=evil\n"}, parent=base)
    canary = tmp_path / "ran"
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\necho $0 >> {canary}\ncat\n")
    spy.chmod(0o755)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        (folder.folder / ".git" / "hooks").mkdir(exist_ok=True)
        (folder.folder / ".git" / "hooks" / hook).write_text(spy.read_text())
        (folder.folder / ".git" / "hooks" / hook).chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "diff.evil.textconv", "diff.evil.command", "filter.evil.clean",
                "filter.evil.smudge", "core.pager", "core.sshCommand", "core.askPass"):  # fmt: skip
        folder.git("config", key, str(spy))
    (folder.folder / "a.txt").write_text("3\n")
    repo = GitRepository(folder.folder)
    assert repo.changed_paths(base, head) == [("M", "a.txt", None)]
    assert repo.is_dirty()
    assert repo.read_skill_files(head, ".")[1].data == b"2\n"
    assert repo.merge_base(base, head) == base
    assert not canary.exists()
    folder.git("diff", "HEAD")
    assert canary.exists(), "git by itself must run them here, or this shows nothing"


def test_variables_of_the_outside_do_not_redirect_it(
    tmp_path: Path, folder: GitFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = folder.commit({"a": "1"}, branch="main")
    other = GitFolder(tmp_path / "other")
    other.commit({"b": "2"}, branch="main")
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "nonsense")
    assert GitRepository(folder.folder).resolve("main") == head


def test_a_replace_ref_shows_nobody_another_content(folder: GitFolder) -> None:
    commit = folder.commit({"a": "true"}, branch="main")
    true = folder.git("rev-parse", f"{commit}:a")
    false = folder.git("hash-object", "-w", "--stdin", stdin=b"false")
    folder.git("replace", true, false)
    assert GitRepository(folder.folder).blobs([true]) == {true: b"true"}


@pytest.mark.parametrize("change", ["staged", "edited", "mode", "deleted"])
def test_changed_tracked_files_make_it_dirty(folder: GitFolder, change: str) -> None:
    checked_out(folder, {"a": "1\n", "b": "2\n"})
    repo = GitRepository(folder.folder)
    assert not repo.is_dirty()
    file = folder.folder / "a"
    if change == "mode":
        file.chmod(0o755)
    elif change == "deleted":
        file.unlink()
    else:
        file.write_text("3\n")
    if change == "staged":
        folder.git("add", "a")
    assert repo.is_dirty()


def test_new_time_stamps_and_untracked_files_do_not_make_it_dirty(folder: GitFolder) -> None:
    checked_out(folder, {"a": "1\n"})
    os.utime(folder.folder / "a", (1, 1))
    (folder.folder / "new").write_text("untracked")
    assert not GitRepository(folder.folder).is_dirty()


def test_a_folder_over_the_limit_keeps_true_sizes_and_digests_without_content(
    folder: GitFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repository, "MAX_SKILL_BYTES", 10)
    head = folder.commit({"s/SKILL.md": "123456789", "s/large": "x" * 5_000_000}, branch="main")
    files = {file.path: file for file in GitRepository(folder.folder).read_skill_files(head, "s")}
    assert files["SKILL.md"].data == b"123456789"
    assert (files["large"].data, files["large"].size_bytes) == (b"", 5_000_000)
    assert files["large"].sha256 == sha256_hex(b"x" * 5_000_000)


def test_asking_for_too_many_bytes_at_once_is_an_error(folder: GitFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_repository, "MAX_BLOB_BYTES", 10)
    head = folder.commit({"a": "1" * 11}, branch="main")
    repo = GitRepository(folder.folder)
    with pytest.raises(RepositoryError, match="10 bytes"):
        repo.blobs([blob for _, _, blob in repo.tree(head)])


def test_a_git_that_hangs_is_stopped_with_a_remedy(
    tmp_path: Path, folder: GitFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.commit({"a": "1"}, branch="main")
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, text=True, check=True).stdout.strip()
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\ncase "$*" in *diff-tree*) sleep 60;; esac\nexec {real} "$@"\n')
    fake.chmod(0o755)
    repo = GitRepository(folder.folder, timeout_s=0.5)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with pytest.raises(RepositoryError, match=r"diff-tree took longer than 0\.5 s"):
        repo.changed_paths("main", "main")


def test_a_tree_is_no_blob_and_a_missing_git_is_said(folder: GitFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    head = folder.commit({"a/b": script("1")}, branch="main")
    repo = GitRepository(folder.folder)
    with pytest.raises(RepositoryError, match="is a tree"):
        repo.blobs([folder.git("rev-parse", f"{head}:a")])
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RepositoryError, match="git program was not found"):
        GitRepository(folder.folder)


def test_a_sha256_repository_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "--object-format=sha256", "-b", "main"], cwd=folder, check=True)
    made = GitFolder(folder)
    head = made.commit({"a": "1"}, branch="main")
    repo = GitRepository(folder)
    assert len(head) == 64
    assert list(repo.blobs([repo.tree(head)[0][2]]).values()) == [b"1"]


def a_shallow_clone(tmp_path: Path, *, length: int = 400) -> tuple[Path, str, str, str]:
    """A clone with one commit of a topic branch; (its folder, tip of main, where they parted, tip of the topic)."""
    origin = GitFolder(tmp_path / "origin", bare=True)
    lines = []
    for number in range(1, length + 1):
        origin_line = f"from :{number - 1}\n" if number > 1 else ""
        lines.append(f"commit refs/heads/main\nmark :{number}\ncommitter A <a@b.example> {number} +0000\ndata 0\n{origin_line}"
                     f"M 644 inline a\ndata 4\n{number:04}\n")  # fmt: skip
    parted = length // 2
    lines.append(f"commit refs/heads/topic\nmark :{length + 1}\ncommitter A <a@b.example> 9 +0000\ndata 0\nfrom :{parted}\n"
                 "M 644 inline b\ndata 1\nb\n")  # fmt: skip
    origin.git("fast-import", "--quiet", stdin="".join(lines).encode())
    clone = tmp_path / "clone"
    origin.git("clone", "-q", "--depth=1", "--branch=topic", f"file://{origin.folder}", str(clone))
    tips = [origin.git("rev-parse", name) for name in ("main", f"main~{length - parted}", "topic")]
    return clone, tips[0], tips[1], tips[2]


def test_a_shallow_clone_is_deepened_until_the_merge_base_is_there(tmp_path: Path) -> None:
    clone, main, parted, topic = a_shallow_clone(tmp_path)
    repo = GitRepository(clone, fetch_from=("file",))
    assert repo.resolve(main) == main, "a commit that is not in the clone is fetched by its id"
    assert repo.merge_base(main, topic) == parted
    assert repo.changed_paths(parted, topic) == [("A", "b", None)]


def test_a_shallow_clone_is_deepened_over_https_only_and_the_error_says_so(tmp_path: Path) -> None:
    clone, main, _, topic = a_shallow_clone(tmp_path, length=10)
    with pytest.raises(RepositoryError, match="over https only") as caught:
        GitRepository(clone).resolve(main)
    assert "fetch-depth: 0" in caught.value.remedy
    repo = GitRepository(clone, fetch_from=("file",))
    repo.resolve(main)
    with pytest.raises(RepositoryError, match="over https only"):
        GitRepository(clone).merge_base(main, topic)
    with pytest.raises(RepositoryError, match="shallow"):
        GitRepository(clone, deepen=False, fetch_from=("file",)).merge_base(main, topic)


def test_a_remote_that_is_gone_ends_deepening_with_what_git_said(tmp_path: Path) -> None:
    clone, main, _, _ = a_shallow_clone(tmp_path, length=4)
    shutil.rmtree(tmp_path / "origin")
    with pytest.raises(RepositoryError, match="git fetch failed"):
        GitRepository(clone, fetch_from=("file",)).resolve(main)


def test_deepening_stops_at_the_first_answer_at_a_failed_fetch_and_after_the_last_depth() -> None:
    asked: list[int] = []

    def fetch(depth: int) -> bool:
        asked.append(depth)
        return depth < 999

    assert git_repository.deepen_until(lambda: "base" if 20 in asked else None, fetch, (10, 20, 30)) == "base"
    assert asked == [10, 20]
    asked.clear()
    assert git_repository.deepen_until(lambda: None, fetch, (10, 20)) is None
    assert asked == [10, 20]
    assert git_repository.deepen_until(lambda: "never asked", fetch, (999, 1000)) is None


def test_a_remote_whose_settings_name_a_program_starts_nothing(tmp_path: Path) -> None:
    clone, main, _, _ = a_shallow_clone(tmp_path, length=4)
    marker = tmp_path / "started"
    for key, value in {
        "remote.origin.uploadpack": f"touch {marker};", "remote.origin.vcs": "ext", "core.sshCommand": f"touch {marker};",
    }.items():  # fmt: skip
        subprocess.run(["git", "-C", str(clone), "config", key, value], check=True)
    assert GitRepository(clone, fetch_from=("file",)).resolve(main) == main
    for url in (f"ext::sh -c 'touch {marker}'", f"ssh://-oProxyCommand=touch {marker}/x", "--upload-pack=touch x"):
        subprocess.run(["git", "-C", str(clone), "config", "remote.origin.url", url], check=True)
        with pytest.raises(RepositoryError):
            GitRepository(clone).resolve("f" * 40)
    assert not marker.exists()
