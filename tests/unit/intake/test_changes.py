from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gate.adapters.git_repository import GitRepository
from gate.domain.skill import ChangeKind, SkillChange
from gate.intake.changes import Changes, changed_skills, find_folders, is_ignored, owner_of
from tests.fakes.repository import FakeRepository, Files, GitFolder, link, script, submodule


def md(name: str = "a", body: str = "Body") -> str:
    return f"---\nname: {name}\ndescription: d\n---\n{body}\n"


def changes(base: Files, head: Files, *, ignore: Sequence[str] = ()) -> Changes:
    repo = FakeRepository()
    one = repo.commit(base)
    return changed_skills(repo, one, repo.commit(head, parent=one), ignore=ignore)


def short(found: Changes) -> list[tuple[str, str]]:
    return [(item.path, item.kind.value) for item in found.skills]


def only(found: Changes) -> SkillChange:
    assert len(found.skills) == 1, found.skills
    return found.skills[0]


def test_any_file_in_a_skill_folder_changes_the_skill() -> None:
    base = {"skills/a/SKILL.md": md(), "skills/b/SKILL.md": md("b"), "src/x.py": "1", "skills/a/scripts/run.sh": "1"}
    found = only(changes(base, {**base, "skills/a/scripts/run.sh": "2", "src/x.py": "2"}))
    assert (found.path, found.kind, found.old_path) == ("skills/a", ChangeKind.MODIFIED, None)
    assert found.changed_files == ("skills/a/scripts/run.sh",)
    assert found.agent_visible


def test_added_and_deleted_files_and_modes_count_too() -> None:
    base: Files = {"s/a/SKILL.md": md(), "s/a/old": "1", "s/b/SKILL.md": md("b"), "s/b/x": "1"}
    head: Files = {"s/a/SKILL.md": md(), "s/a/new": "2", "s/b/SKILL.md": md("b"), "s/b/x": script("1")}
    found = changes(base, head)
    assert short(found) == [("s/a", "modified"), ("s/b", "modified")]
    assert found.skills[0].changed_files == ("s/a/new", "s/a/old")
    assert found.skills[1].agent_visible


def test_no_changed_skill_is_no_change() -> None:
    base = {"skills/a/SKILL.md": md(), "README.md": "1"}
    assert changes(base, {**base, "README.md": "2"}) == changes(base, {**base, "README.md": "2"})
    assert changes(base, {**base, "README.md": "2"}).skills == ()


def test_new_and_deleted_skills_are_told_apart() -> None:
    found = changes({"s/old/SKILL.md": md("old", "one")}, {"s/new/SKILL.md": md("new", "two")})
    assert short(found) == [("s/new", "added"), ("s/old", "deleted")]
    assert found.skills[1].changed_files == ("s/old/SKILL.md",)


def test_the_same_name_makes_a_moved_folder_a_rename() -> None:
    found = only(changes({"s/old/SKILL.md": md("sums", "one")}, {"s/new/SKILL.md": md("sums", "two, rewritten")}))
    assert (found.path, found.kind, found.old_path) == ("s/new", ChangeKind.RENAMED, "s/old")


@pytest.mark.parametrize(("same", "renamed"), [(1, False), (2, True), (3, True)])
def test_half_of_the_files_make_a_moved_folder_a_rename(same: int, renamed: bool) -> None:
    base = {"s/old/SKILL.md": md("old", "one"), **{f"s/old/{n}": f"file {n}" for n in range(3)}}
    head = {"s/new/SKILL.md": md("new", "entirely other"), **{f"s/new/{n}": f"file {n}" for n in range(same)}}
    head |= {f"s/new/{n}": f"other {n}" for n in range(same, 3)}
    kinds = [kind for _, kind in short(changes(base, head))]
    assert kinds == (["renamed"] if renamed else ["added", "deleted"])


def test_git_itself_may_say_that_skill_md_moved(tmp_path: Path) -> None:
    folder = GitFolder(tmp_path / "repo")
    body = "\n".join(f"Rule {number}." for number in range(30))
    base = folder.commit({"s/old/SKILL.md": md("old", body)})
    head = folder.commit({"s/new/SKILL.md": md("new", body)}, parent=base)
    found = only(changed_skills(GitRepository(folder.folder), base, head))
    assert (found.kind, found.old_path) == (ChangeKind.RENAMED, "s/old")


def test_two_moved_skills_find_their_own_old_folders() -> None:
    base = {f"s/{n}/SKILL.md": md(n, n) for n in ("one", "two")}
    head = {f"t/{n}/SKILL.md": md(n, f"{n} new") for n in ("two", "one")}
    assert [(item.path, item.old_path) for item in changes(base, head).skills] == [
        ("t/one", "s/one"),
        ("t/two", "s/two"),
    ]


def test_a_nested_skill_md_belongs_to_the_outer_skill() -> None:
    base = {"skills/a/SKILL.md": md(), "skills/a/references/b/SKILL.md": md("b", "1")}
    found = changes(base, {**base, "skills/a/references/b/SKILL.md": md("b", "2")})
    assert short(found) == [("skills/a", "modified")]
    assert found.head.nested == {"skills/a/references/b": "skills/a"}


def test_a_skill_that_a_new_outer_skill_swallows_is_not_lost_in_silence() -> None:
    base = {"skills/a/SKILL.md": md()}
    found = changes(base, {**base, "skills/SKILL.md": md("skills")})
    assert short(found) == [("skills", "added"), ("skills/a", "deleted")]
    assert "inside the skill skills" in found.hidden["skills/a"]


def test_a_root_skill_owns_its_files_but_not_skills_of_their_own_and_not_dot_folders() -> None:
    base = {"SKILL.md": md(), "references/x/SKILL.md": md("x"), "skills/b/SKILL.md": md("b"), ".github/w.yml": "1",
            ".claude/skills/c/SKILL.md": md("c")}  # fmt: skip
    assert find_folders(base).live == {".", "skills/b", ".claude/skills/c"}
    assert short(changes(base, {**base, ".github/w.yml": "2"})) == []
    assert short(changes(base, {**base, "skills/b/SKILL.md": md("b", "2")})) == [("skills/b", "modified")]
    assert short(changes(base, {**base, "references/x/SKILL.md": md("x", "2")})) == [(".", "modified")]


@pytest.mark.parametrize("name", ["SKILL.md", "skill.md", "Skill.md", "SKILL.MD"])
def test_the_file_name_is_found_in_any_case(name: str) -> None:
    assert short(changes({}, {f"s/a/{name}": md()})) == [("s/a", "added")]


def test_another_spelling_of_the_file_name_is_the_same_skill() -> None:
    assert short(changes({"s/a/skill.md": md()}, {"s/a/SKILL.md": md()})) == [("s/a", "modified")]


def test_names_that_are_not_ascii_and_not_utf8_are_found() -> None:
    found = changes({}, {"技能/求和/SKILL.md": md(), "s/caf\udce9/SKILL.md": md(), 's/a "b"\n/SKILL.md': md()})
    assert {path for path, _ in short(found)} == {"技能/求和", "s/caf\\xe9", 's/a "b"\n'}
    assert found.raw == {"s/caf\\xe9": "s/caf\udce9"}


@pytest.mark.parametrize(
    ("files", "visible"),
    [
        (["LICENSE"], False),
        (["README.md", "LICENSE.txt", "README.zh-CN.md"], False),
        (["README.md", "scripts/x.py"], True),
        (["references/README.md"], True),
        (["skill.oms.sig", "BENCHMARK.md", "skill-card.md"], False),
        (["evals/evals.json"], True),
        (["evals/files/in.csv"], True),
        (["tests/oracle.txt"], True),
        (["CHANGELOG.md"], True),
        (["readme-first.md"], False),
    ],
)
def test_files_that_no_agent_reads_and_that_judge_nothing_change_nothing_to_measure(
    files: list[str], visible: bool
) -> None:
    base = {"s/a/SKILL.md": md()}
    assert only(changes(base, {**base, **{f"s/a/{name}": "x" for name in files}})).agent_visible is visible


def test_a_readme_that_skill_md_names_is_read_by_the_agent() -> None:
    base = {"s/a/SKILL.md": md(body="See [the guide](README.md).")}
    assert only(changes(base, {**base, "s/a/README.md": "x"})).agent_visible


@pytest.mark.parametrize(
    ("folder", "ignored"),
    [
        ("backups/x/a", True),
        ("docs/zh-CN/skills/a", True),
        ("docs/ja/a", True),
        ("docs/guide/a", False),
        ("docs/ai/a", False),
        ("templates/a", True),
        ("tests/fixtures/a", True),
        ("node_modules/p/skills/a", True),
        ("skills/templates", False),
        ("skills/testing/a", False),
        ("examples/a", False),
        ("a", False),
        (".", False),
    ],
)
def test_built_in_paths_hold_no_live_skills(folder: str, ignored: bool) -> None:
    assert is_ignored(folder) is ignored


@pytest.mark.parametrize(
    ("patterns", "folder", "ignored"),
    [
        (["legacy"], "legacy/a/b", True),
        (["legacy/"], "legacy", True),
        (["legacy/**"], "legacy/a", True),
        (["legacy"], "old/legacy/a", False),
        (["**/legacy"], "old/legacy/a", True),
        (["**/legacy"], "legacy/a", True),
        (["skills/*/draft"], "skills/x/draft", True),
        (["skills/*/draft"], "skills/x/y/draft", False),
        (["skills/a?"], "skills/ab", True),
        (["!templates/live"], "templates/live", False),
        (["skills", "!skills/a"], "skills/a", False),
        (["!skills/a", "skills"], "skills/a", True),
        (["a.b"], "aXb", False),
    ],
)
def test_patterns_of_the_policy_leave_out_and_take_back_in(patterns: list[str], folder: str, ignored: bool) -> None:
    assert is_ignored(folder, patterns) is ignored


def test_changes_on_ignored_paths_are_named() -> None:
    found = changes(
        {"backups/a/SKILL.md": md()}, {"backups/a/SKILL.md": md(body="2"), "old/b/SKILL.md": md("b")}, ignore=["old"]
    )
    assert found.skills == ()
    assert [item.rule for item in found.findings] == ["changes/ignored"]
    assert "backups/a, old/b" in found.findings[0].message


def test_a_live_skill_that_moves_under_an_ignored_path_is_a_hidden_deletion() -> None:
    found = changes({"skills/a/SKILL.md": md()}, {"backups/a/SKILL.md": md()})
    assert short(found) == [("skills/a", "deleted")]
    assert "ignored path (backups/a)" in found.hidden["skills/a"]


def test_changed_submodules_and_links_to_skills_are_said() -> None:
    base = {"skills/a/SKILL.md": md()}
    head: Files = {
        **base,
        "vendor/skills": submodule(),
        ".claude/skills/a": link("../../skills/a"),
        "other": link("README.md"),
    }
    found = changes(base, head)
    assert found.skills == ()
    assert [(item.rule, item.path) for item in found.findings] == [
        ("changes/submodule", "vendor/skills"),
        ("changes/link", ".claude/skills/a"),
    ]


def test_a_skill_md_that_became_a_link_is_a_changed_skill() -> None:
    assert short(changes({"s/a/SKILL.md": md()}, {"s/a/SKILL.md": link("/proc/self/environ")})) == [("s/a", "modified")]


def test_the_owner_of_a_file_is_the_nearest_folder() -> None:
    assert owner_of("s/a/x/y", {"s", "s/a"}) == "s/a"
    assert owner_of("s/ab/x", {"s/a"}) is None
    assert owner_of("x", {"."}) == "."


def test_a_file_that_loses_its_skill_is_among_what_changed_of_the_deleted_one() -> None:
    found = only(changes({"s/a/SKILL.md": md(), "s/a/x": "1"}, {"s/a/x": "2"}))
    assert (found.kind, found.changed_files) == (ChangeKind.DELETED, ("s/a/SKILL.md", "s/a/x"))


@pytest.mark.parametrize(
    "text",
    [
        "See [it](../shared/common.md).",
        "See [it](../shared/common.md#part).",
        "Read `../shared/common.md` first.",
        "Read ../shared/common.md.",
        "[all](./../shared/)",
        "[x]: <../shared/common.md>",
        "See [it](references/../../shared/common.md)",
    ],
)
def test_a_changed_file_that_skill_md_points_to_outside_its_folder_changes_the_skill(text: str) -> None:
    base = {"skills/a/SKILL.md": md(body=text), "skills/b/SKILL.md": md("b"), "skills/shared/common.md": "1"}
    found = changes(base, {**base, "skills/shared/common.md": "2"})
    assert (only(found).path, only(found).changed_files) == ("skills/a", ("skills/shared/common.md",))
    assert only(found).agent_visible
    assert found.linked == {"skills/a": ("skills/shared/common.md",)}


def test_a_changed_file_in_another_skill_that_this_one_points_to_changes_both() -> None:
    base = {"skills/a/SKILL.md": md(body="[x](../b/x.md)"), "skills/b/SKILL.md": md("b"), "skills/b/x.md": "1"}
    assert short(changes(base, {**base, "skills/b/x.md": "2"})) == [("skills/a", "modified"), ("skills/b", "modified")]


@pytest.mark.parametrize(
    "text",
    ["See ../b for more.", "[up](../)", "[far](../../../../x.md)", "[net](https://x.example/../b/x.md)", "../../"],
)
def test_naming_another_skill_or_the_folder_around_is_no_link_to_its_files(text: str) -> None:
    base = {"skills/a/SKILL.md": md(body=text), "skills/b/SKILL.md": md("b"), "skills/b/x.md": "1"}
    assert short(changes(base, {**base, "skills/b/x.md": "2"})) == [("skills/b", "modified")]


def test_a_copied_skill_is_a_new_one_and_said_to_be_a_copy() -> None:
    base = {"skills/a/SKILL.md": md(), "skills/a/x": "1"}
    found = changes(base, {**base, "skills/c/SKILL.md": md(), "skills/c/x": "1"})
    assert short(found) == [("skills/c", "added")]
    assert [item.rule for item in found.findings] == ["changes/copy"]
    assert "skills/a" in found.findings[0].message


def test_files_that_come_to_a_root_skill_because_one_inside_it_went_change_the_root_skill() -> None:
    base = {"SKILL.md": md(), "skills/b/SKILL.md": md("b"), "skills/b/x.md": "1"}
    found = changes(base, {"SKILL.md": md(), "skills/b/x.md": "1"})
    assert short(found) == [(".", "modified"), ("skills/b", "deleted")]
    assert found.skills[0].changed_files == ("skills/b/x.md",)


NESTED = {"skills/a/SKILL.md": md(), "skills/a/kids/b/SKILL.md": md("b"), "skills/a/kids/b/x.md": "1"}


@pytest.mark.parametrize("pattern", ["!skills/a/kids/b", "!skills/a/kids/*", "!**/kids/*", "!skills/a/kids"])
def test_a_nested_skill_is_one_of_its_own_where_the_policy_says_so(pattern: str) -> None:
    head = {**NESTED, "skills/a/kids/b/x.md": "2"}
    assert short(changes(NESTED, head)) == [("skills/a", "modified")]
    assert short(changes(NESTED, head, ignore=[pattern])) == [("skills/a/kids/b", "modified")]


@pytest.mark.parametrize("pattern", ["!skills/a", "!skills", "!skills/**", "!other", "skills/a/kids/b"])
def test_a_pattern_that_names_the_outer_skill_too_says_nothing_about_nested_ones(pattern: str) -> None:
    assert find_folders(NESTED, [pattern]).nested == {"skills/a/kids/b": "skills/a"}


def test_files_that_come_to_the_outer_skill_when_a_nested_one_goes_change_it() -> None:
    head = {path: text for path, text in NESTED.items() if path != "skills/a/kids/b/SKILL.md"}
    found = changes(NESTED, head, ignore=["!skills/a/kids/*"])
    assert short(found) == [("skills/a", "modified"), ("skills/a/kids/b", "deleted")]
    assert "skills/a/kids/b/x.md" in found.skills[0].changed_files


HIDDEN: Files = {"README.md": "1", "templates/evil/SKILL.md": md("evil"), "templates/evil/evals/evals.json": "[]"}


@pytest.mark.parametrize(
    "more",
    [
        {"skills/evil": link("../templates/evil")},
        {"skills": link("templates")},
        {".claude/skills/evil": link("../../templates/evil/")},
        {".claude-plugin/plugin.json": '{"name": "p", "skills": ["./templates/evil"]}'},
        {".claude-plugin/plugin.json": '{"name": "p", "skills": "templates"}'},
        {".claude-plugin/marketplace.json": '{"plugins": [{"name": "p", "source": {"path": "./templates/evil"}}]}'},
        {".agents/plugins/marketplace.json": '{"plugins": [{"name": "p", "source": "./templates"}]}'},
    ],
)
def test_a_skill_on_an_ignored_path_is_live_where_a_link_or_a_manifest_leads_there(more: Files) -> None:
    assert short(changes({"README.md": "1"}, HIDDEN)) == []
    found = changes({"README.md": "1"}, {**HIDDEN, **more})
    assert short(found) == [("templates/evil", "added")]
    assert "changes/shipped" in {item.rule for item in found.findings}
    # It stands there already and is shipped by this change only: new to every agent.
    assert short(changes(HIDDEN, {**HIDDEN, **more})) == [("templates/evil", "added")]
    # And a later change of it is seen.
    later = {**HIDDEN, **more, "templates/evil/SKILL.md": md("evil", "worse")}
    assert short(changes({**HIDDEN, **more}, later)) == [("templates/evil", "modified")]
    # No longer shipped: a live skill that moves out of sight.
    gone = changes({**HIDDEN, **more}, HIDDEN)
    assert short(gone) == [("templates/evil", "deleted")]
    assert gone.hidden == {"templates/evil": "The skill is now on an ignored path."}


@pytest.mark.parametrize(
    "more",
    [
        {".claude/all": link("..")},
        {"tests/evil": link("../templates/evil")},
        {"skills/x": link("/templates/evil")},
        {"skills/x": link("../../templates/evil")},
        {"tests/x/.claude-plugin/plugin.json": '{"skills": ["../../../templates/evil"]}'},
        {".claude-plugin/plugin.json": '{"name": "p", "skills": ["./"]}'},
        {".claude-plugin/plugin.json": "{broken ./templates/evil"},
    ],
)
def test_what_hosts_do_not_load_stays_ignored(more: Files) -> None:
    assert short(changes({"README.md": "1"}, {**HIDDEN, **more})) == []
