from __future__ import annotations

from pathlib import Path

import pytest

from gate.adapters.git_repository import GitRepository
from gate.adapters.git_with_forge import MAX_FETCHED_FILES, GitWithForge
from gate.domain.forge import Tree, TreeEntry
from gate.errors import ForgeError, RepositoryError
from gate.intake.changes import changed_skills
from gate.intake.read import read_session
from gate.settings import Settings
from tests.fakes.repository import Files, GitFolder, link, script, submodule


class Far:
    """GitHub's answers about a repository, by that repository itself; only what the adapter asks for."""

    def __init__(self, repo: GitRepository) -> None:
        self._repo = repo
        self.asked: list[str] = []

    def tree(self, commit: str) -> Tree:
        self.asked.append("tree")
        try:
            entries = self._repo.tree(commit)
        except RepositoryError:
            raise ForgeError("There is no such commit.", kind="not_found") from None
        return Tree(
            entries=tuple(TreeEntry(path=path, mode=mode, blob=blob) for path, mode, blob in entries), complete=True
        )

    def blob(self, blob_id: str) -> bytes:
        self.asked.append("blob")
        return self._repo.blobs([blob_id])[blob_id]

    def merge_base(self, base: str, head: str) -> str:
        self.asked.append("merge_base")
        return self._repo.merge_base(base, head)


def skill(name: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: Does {name}. Use for {name}.\n---\n# {name}\n{more}\n"


BEFORE: Files = {
    "skills/a/SKILL.md": skill("a"),
    "skills/a/run.sh": "echo 1\n",
    "skills/b/SKILL.md": skill("b"),
    "skills/b/notes.md": "one\ntwo\nthree\n",
    "skills/gone/SKILL.md": skill("gone"),
    "skills/gone/evals/evals.json": '{"evals": [{"id": 1, "prompt": "p", "expectations": ["x"]}]}',
    "skills/é/SKILL.md": skill("e"),
    "skills/same/SKILL.md": skill("same"),
    "shared.md": "1",
    "skills/linked/SKILL.md": skill("linked", "See [it](../../shared.md)."),
    "sub": submodule(),
}
AFTER: Files = {
    **{path: content for path, content in BEFORE.items() if not path.startswith(("skills/b/", "skills/gone/", "sub"))},
    "skills/a/run.sh": script("echo 1\n"),
    "skills/moved/SKILL.md": skill("b"),
    "skills/moved/notes.md": "one\ntwo\nthree\n",
    "skills/é/SKILL.md": skill("e", "more"),
    "shared.md": "2",
    "skills/new/SKILL.md": skill("new"),
    "skills/new/l.md": link("../a/SKILL.md"),
    "skills/a/evals": link("../same"),
}


@pytest.fixture
def far(tmp_path: Path) -> tuple[GitRepository, str, str]:
    writer = GitFolder(tmp_path / "far")
    base = writer.commit(BEFORE, branch="main")
    head = writer.commit(AFTER, parent=base, branch="topic")
    return GitRepository(writer.folder), base, head


@pytest.mark.parametrize("held", ["nothing", "base", "head"])
def test_what_github_has_is_read_as_if_it_were_here(
    tmp_path: Path, far: tuple[GitRepository, str, str], held: str
) -> None:
    there, base, head = far
    writer = GitFolder(tmp_path / "near")
    if held == "nothing":
        writer.commit({"README.md": "x"})
    else:
        writer.git("-c", "protocol.file.allow=always", "fetch", "-q", "--depth=1", f"file://{there.root}",
                   base if held == "base" else head)  # fmt: skip
    answers = Far(there)
    near = GitWithForge(GitRepository(writer.folder, deepen=False), answers)  # type: ignore[arg-type]
    assert near.merge_base(base, head) == base
    assert near.changed_paths(base, head) == there.changed_paths(base, head)
    assert changed_skills(near, base, head).skills == changed_skills(there, base, head).skills
    for commit in (base, head):
        assert near.tree(commit) == there.tree(commit)
        assert near.find(commit, "skill.md") == there.find(commit, "skill.md")
        assert dict(near.paths(commit)) == dict(there.paths(commit))
        assert near.read_skill_files(commit, "skills/a") == there.read_skill_files(commit, "skills/a")
    settings = Settings(repository=".", base=base, head=head)
    one, two = read_session(near, settings), read_session(there, settings)
    assert one.skills == two.skills
    assert [item.rule for item in one.findings if item not in two.findings] == ["changes/by-api"]


def test_what_the_checkout_holds_is_never_asked_of_github(far: tuple[GitRepository, str, str]) -> None:
    there, base, head = far
    answers = Far(there)
    near = GitWithForge(there, answers)  # type: ignore[arg-type]
    read_session(near, Settings(repository=".", base=base, head=head))
    assert answers.asked == []
    assert near.remarks() == ()


def test_a_commit_that_nobody_has_names_both_reasons(tmp_path: Path, far: tuple[GitRepository, str, str]) -> None:
    writer = GitFolder(tmp_path / "near")
    writer.commit({"README.md": "x"})
    near = GitWithForge(GitRepository(writer.folder, deepen=False), Far(far[0]))  # type: ignore[arg-type]
    with pytest.raises(RepositoryError, match=r"There is no commit .* GitHub does not say it either: There is no such"):
        near.resolve("9" * 40)
    with pytest.raises(RepositoryError, match="nowhere"):
        near.resolve("nowhere")


def test_a_skill_of_too_many_files_is_not_read_one_by_one(tmp_path: Path) -> None:
    writer = GitFolder(tmp_path / "far")
    files = {f"s/{number}.md": str(number) for number in range(MAX_FETCHED_FILES + 1)}
    base = writer.commit({"s/SKILL.md": skill("s"), **files}, branch="main")
    empty = GitFolder(tmp_path / "near")
    empty.commit({"README.md": "x"})
    near = GitWithForge(GitRepository(empty.folder, deepen=False), Far(GitRepository(writer.folder)))  # type: ignore[arg-type]
    with pytest.raises(RepositoryError, match="one by one") as caught:
        near.read_skill_files(base, "s")
    assert "fetch-depth: 0" in caught.value.remedy
