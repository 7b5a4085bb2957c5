from __future__ import annotations

import json
from typing import Any

import pytest

from gate.domain.intake import SkillIntake
from gate.domain.skill import ChangeKind
from gate.errors import ConfigurationError, RepositoryError
from gate.intake.policy import POLICY_PATH
from gate.intake.read import read_session
from gate.settings import Policy
from tests.builders_skill import some_settings
from tests.fakes.repository import FakeRepository, Files, link


def md(name: str = "a", body: str = "Body") -> str:
    return f"---\nname: {name}\ndescription: d\n---\n{body}\n"


def evals(*texts: str, **more: Any) -> str:
    return json.dumps([{"id": text, "prompt": "p", "expectations": [text], **more} for text in texts])


BASE: Files = {"skills/a/SKILL.md": md(), "skills/a/evals/evals.json": evals("one"), "skills/b/SKILL.md": md("b")}


def a_story(head: Files, base: Files = BASE, tip: Files | None = None) -> FakeRepository:
    """main at ``tip`` (default: where head left it), HEAD at ``head``."""
    repo = FakeRepository()
    start = repo.commit(base, branch="main")
    if tip is not None:
        repo.commit(tip, parent=start, branch="main")
    repo.commit(head, parent=start)
    return repo


def only(repo: FakeRepository, **settings: Any) -> SkillIntake:
    found = read_session(repo, some_settings(**settings)).skills
    assert len(found) == 1, [item.change for item in found]
    return found[0]


def test_a_changed_skill_comes_with_both_versions_and_both_suites() -> None:
    repo = a_story({**BASE, "skills/a/SKILL.md": md(body="New")})
    intake = read_session(repo, some_settings())
    skill = only(repo)
    assert (intake.base_commit, intake.base_tip, intake.head_commit) == (
        repo.resolve("main"), repo.resolve("main"), repo.resolve("HEAD"),
    )  # fmt: skip
    assert skill.head is not None
    assert skill.base is not None
    assert (skill.head.body, skill.base.body) == ("New\n", "Body\n")
    assert skill.suite is not None
    assert skill.suite == skill.base_suite
    assert (skill.findings, skill.manifest_findings, skill.suite_removals, skill.invalid) == ((), (), (), False)
    assert intake.findings == ()


def test_what_changed_on_main_since_is_not_a_change_of_this_head() -> None:
    repo = a_story(
        {**BASE, "skills/a/SKILL.md": md(body="New")}, tip={**BASE, "skills/b/SKILL.md": md("b", "main moved on")}
    )
    assert only(repo).change.path == "skills/a"


def test_the_suite_of_record_is_the_tip_of_base_and_its_news_are_not_removed_by_head() -> None:
    tip = {**BASE, "skills/a/evals/evals.json": evals("one", "new on main")}
    skill = only(a_story({**BASE, "skills/a/SKILL.md": md(body="New")}, tip=tip))
    assert skill.base_suite is not None
    assert [case.eval_id for case in skill.base_suite.cases] == ["one", "new on main"]
    assert skill.suite_removals == ()


def test_what_head_removes_is_said_and_what_main_removed_too_is_not() -> None:
    base = {**BASE, "skills/a/evals/evals.json": evals("one", "two", "three")}
    tip = {**BASE, "skills/a/evals/evals.json": evals("one", "three")}
    head = {**BASE, "skills/a/evals/evals.json": evals("one")}
    assert only(a_story(head, base, tip)).suite_removals == ('Case "three" is removed (0 checks, 1 expectation).',)
    without = {path: text for path, text in BASE.items() if "evals" not in path}
    assert only(a_story(without)).suite_removals == ("The whole suite is removed (1 case).",)


def test_a_deleted_skill_with_a_suite_and_a_hidden_one_need_a_waiver() -> None:
    deleted = only(a_story({"skills/b/SKILL.md": md("b")}))
    assert (deleted.change.kind, deleted.head, deleted.suite_removals) == (
        ChangeKind.DELETED, None, ("The skill is deleted with its suite (1 case).",),
    )  # fmt: skip
    assert deleted.base_suite is not None
    hidden = only(
        a_story({"backups/b/SKILL.md": md("b"), **{path: text for path, text in BASE.items() if "/b/" not in path}})
    )
    assert hidden.suite_removals == ("The skill moves under an ignored path (backups/b).",)


def test_a_renamed_skill_keeps_its_base() -> None:
    head = {
        "skills/b/SKILL.md": md("b"),
        "skills/c/SKILL.md": md(body="New"),
        "skills/c/evals/evals.json": evals("one"),
    }
    skill = only(a_story(head))
    assert (skill.change.path, skill.change.old_path) == ("skills/c", "skills/a")
    assert skill.base is not None
    assert skill.base.path == "skills/a"
    assert skill.base_suite is not None


def test_a_new_skill_has_no_base() -> None:
    skill = only(a_story({**BASE, "skills/n/SKILL.md": md("n")}))
    assert (skill.change.kind, skill.base, skill.base_suite, skill.suite) == (ChangeKind.ADDED, None, None, None)


def test_a_broken_skill_is_listed_and_blocks() -> None:
    skill = only(a_story({**BASE, "skills/a/SKILL.md": "---\nname: a\ndescription: Two axes: one\n---\n"}))
    assert skill.head is None
    assert skill.invalid
    assert (skill.findings[0].path, skill.findings[0].line) == ("skills/a/SKILL.md", 3)
    assert skill.suite_removals == ()


def test_a_skill_md_that_became_a_link_blocks() -> None:
    skill = only(a_story({**BASE, "skills/a/SKILL.md": link("/proc/self/environ")}))
    assert (skill.head, skill.invalid) == (None, True)


def test_a_base_that_cannot_be_read_is_said_and_does_not_block() -> None:
    skill = only(a_story(BASE, {**BASE, "skills/a/SKILL.md": "no front matter"}))
    assert skill.base is None
    assert [(item.rule, item.blocks) for item in skill.findings] == [("skill-md/base-unreadable", False)]


@pytest.mark.requirements("R219")
def test_manifests_are_checked_with_the_skill() -> None:
    skill = only(a_story({**BASE, "skills/a/SKILL.md": md(body="New"), ".claude-plugin/plugin.json": '{"name": 7}'}))
    assert [item.rule for item in skill.manifest_findings] == ["manifest/plugin-json/name"]
    assert not skill.invalid


def test_asked_skills_are_read_also_unchanged_and_on_ignored_paths() -> None:
    head = {**BASE, "skills/a/SKILL.md": md(body="New"), "templates/t/SKILL.md": md("t")}
    repo = a_story(head)
    assert only(repo, paths=("skills/b",)).change.kind is ChangeKind.UNCHANGED
    assert only(repo, paths=("./skills/a/SKILL.md",)).change.kind is ChangeKind.MODIFIED
    assert only(repo, paths=("templates/t/",)).head is not None
    both = read_session(repo, some_settings(paths=("skills",))).skills
    assert [item.change.path for item in both] == ["skills/a", "skills/b"]


def test_an_unchanged_skill_has_an_equal_base() -> None:
    skill = only(a_story(BASE), paths=("skills/b",))
    assert skill.head is not None
    assert skill.base is not None
    assert skill.head.tree_sha256 == skill.base.tree_sha256


def test_a_path_without_a_skill_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="nowhere") as caught:
        read_session(a_story(BASE), some_settings(paths=("nowhere",)))
    assert caught.value.remedy


def test_without_a_base_asked_skills_count_as_new_and_it_is_said() -> None:
    repo = FakeRepository()
    repo.commit(BASE)
    skill = only(repo, paths=("skills/a",))
    assert (skill.change.kind, skill.base) == (ChangeKind.ADDED, None)
    intake = read_session(repo, some_settings(paths=("skills/a",)))
    assert intake.base_commit is None
    assert "session/no-base" in [item.rule for item in intake.findings]


def test_without_a_base_and_without_paths_nothing_is_guessed() -> None:
    repo = FakeRepository()
    repo.commit(BASE)
    with pytest.raises(ConfigurationError, match="No base") as caught:
        read_session(repo, some_settings())
    assert "--base" in caught.value.remedy


def test_a_shallow_clone_stops_instead_of_calling_everything_changed() -> None:
    repo = FakeRepository(shallow=True)
    start = repo.commit(BASE, branch="main")
    repo.commit(BASE, parent=start)
    with pytest.raises(RepositoryError) as caught:
        read_session(repo, some_settings())
    assert "fetch-depth: 0" in caught.value.remedy


def test_a_named_base_is_used() -> None:
    repo = FakeRepository()
    one = repo.commit(BASE)
    repo.commit({**BASE, "skills/b/SKILL.md": md("b", "2")}, parent=one)
    assert only(repo, base=one).change.path == "skills/b"


def test_policy_patterns_dirt_and_an_own_policy_are_noted() -> None:
    repo = FakeRepository(dirty=True)
    start = repo.commit(BASE, branch="main")
    repo.commit({**BASE, "skills/a/SKILL.md": md(body="2"), POLICY_PATH: "ignore: [skills/b]\n"}, parent=start)
    intake = read_session(repo, some_settings(policy=Policy(ignore=("skills/a",))))
    assert intake.skills == ()
    assert [item.rule for item in intake.findings] == ["session/dirty", "policy/own", "changes/ignored"]


def test_base_and_head_the_same_is_said() -> None:
    repo = FakeRepository()
    repo.commit(BASE, branch="main")
    intake = read_session(repo, some_settings())
    assert intake.skills == ()
    assert [item.rule for item in intake.findings] == ["session/base-is-head"]


def test_a_root_skill_gets_only_its_own_files() -> None:
    head = {"SKILL.md": md(), "x.md": "x", "skills/b/SKILL.md": md("b"), ".github/w.yml": "1"}
    skill = only(a_story(head, {"skills/b/SKILL.md": md("b")}))
    assert skill.head is not None
    assert (skill.head.path, [file.path for file in skill.head.files]) == (".", ["SKILL.md", "x.md"])


def test_a_nested_skill_md_is_named() -> None:
    skill = only(a_story({**BASE, "skills/a/references/n/SKILL.md": md("n")}))
    assert [item.rule for item in skill.findings] == ["skill-md/nested"]


def test_a_folder_whose_name_is_no_utf8_is_read_and_said() -> None:
    skill = only(a_story({**BASE, "skills/caf\udce9/SKILL.md": md("x")}))
    assert skill.head is not None
    assert (skill.change.path, skill.head.path) == ("skills/caf\\xe9", "skills/caf\\xe9")
    assert "skill-md/path-encoding" in [item.rule for item in skill.findings]
    skill.to_json()


def test_remarks_about_lines_that_a_change_does_not_touch_are_one_notice() -> None:
    old = "---\nname: a\ndescription: d\nmy-key: 1\n---\n[x](none.md)\n"
    skill = only(a_story({**BASE, "skills/a/SKILL.md": old + "More.\n"}, {**BASE, "skills/a/SKILL.md": old}))
    assert [item.rule for item in skill.findings] == ["skill-md/unchanged-lines"]
    assert "2 findings" in skill.findings[0].message
    asked = only(a_story({**BASE, "skills/a/SKILL.md": old}, {**BASE, "skills/a/SKILL.md": old}), paths=("skills/a",))
    assert [item.rule for item in asked.findings] == ["skill-md/unknown-keys", "body/broken-link"]


def test_a_link_that_a_deletion_breaks_is_news_although_its_line_is_old() -> None:
    base = {**BASE, "skills/a/SKILL.md": md(body="[x](x.md)"), "skills/a/x.md": "1"}
    skill = only(a_story({path: text for path, text in base.items() if path != "skills/a/x.md"}, base))
    assert [item.rule for item in skill.findings] == ["body/broken-link"]


def test_deleting_a_skill_whose_suite_cannot_be_read_needs_a_waiver_too() -> None:
    broken = {**BASE, "skills/a/SKILL.md": "no front matter"}
    skill = only(a_story({"skills/b/SKILL.md": md("b")}, broken))
    assert skill.change.kind is ChangeKind.DELETED
    assert skill.suite_removals == ("The skill is deleted with its suite (1 case).",)
    bad_suite = {**BASE, "skills/a/evals/evals.json": "[{"}
    assert only(a_story({"skills/b/SKILL.md": md("b")}, bad_suite)).suite_removals == (
        "The skill is deleted with its suite (it cannot be read, so its cases are not counted).",
    )
