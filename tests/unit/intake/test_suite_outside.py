from __future__ import annotations

from pathlib import Path

import pytest

from gate.domain.skill import ChangeKind
from gate.intake.changes import changed_skills
from gate.intake.outside import Outside
from gate.intake.read import read_session
from gate.intake.tree import CheckedSkill, check_folder
from tests.builders_skill import DESCRIPTION, some_settings
from tests.fakes.repository import FakeRepository

SCENARIO = (
    "scenarios: [{name: adds, prompt: Add up in.txt., assertions: [{type: output_contains, value: '3'}], setup: %s}]"
)


def a_skill_md(name: str) -> str:
    return f"---\nname: {name}\ndescription: {DESCRIPTION}\n---\nAdd.\n"


def checked(tmp_path: Path, files: dict[str, str]) -> dict[str, CheckedSkill]:
    for name, text in files.items():
        path = tmp_path / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    start = str(tmp_path / "repo")
    return {item.path.removeprefix(f"{start}/"): item for item in check_folder(start)}


def test_evals_in_a_folder_of_the_same_name_belong_to_the_skill(tmp_path: Path) -> None:
    setup = "{files: [{path: in.txt, source: fixtures/in.txt}]}"
    found = checked(
        tmp_path,
        {
            "plugins/math/skills/sums/SKILL.md": a_skill_md("sums"),
            "plugins/math/skills/texts/SKILL.md": a_skill_md("texts"),
            "tests/math/sums/eval.yaml": SCENARIO % setup,
            "tests/math/sums/fixtures/in.txt": "1 2",
            "evals/_template/eval.yaml": SCENARIO % "{}",
        },
    )
    suite = found["plugins/math/skills/sums"].suite
    assert suite is not None
    assert suite.path == "tests/math/sums/eval.yaml"
    assert [(item.path, item.data) for item in suite.cases[0].files] == [("in.txt", b"1 2")]
    assert found["plugins/math/skills/texts"].suite is None


def test_what_a_forge_keeps_in_its_folder_is_no_suite_whatever_its_name_and_evals_of_skills_there_are(
    tmp_path: Path,
) -> None:
    suite = "version: 1\ncases: [{id: a, prompt: Add., expectations: [It adds.]}]\n"
    for name in (
        "skills/sums/SKILL.md", ".github/skill-gate.yml", ".github/workflows/skill-gate.yml", ".github/evals.yaml",
        "vendor/.github/workflows/eval.yaml", ".github/skills/gone/evals/skill-gate.yaml",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(a_skill_md("sums") if name.endswith(".md") else suite, encoding="utf-8")
    found = [item for item in check_folder(tmp_path, orphans=True) if item.orphan]
    assert [item.path for item in found] == [f"{tmp_path}/.github/skills/gone/evals"]
    assert "1 case and 0 trigger cases" in found[0].findings[0].message


def test_of_two_skills_with_one_name_the_one_nearer_by_path_is_meant() -> None:
    paths = ["a/skills/x/SKILL.md", "b/skills/x/SKILL.md", "tests/b/x/eval.yaml", "evals/x/eval.yaml"]
    outside = Outside(paths, {"a/skills/x", "b/skills/x"})
    assert outside.rooms("b/skills/x") == (("evals/x", False), ("tests/b/x", False))
    assert outside.rooms("a/skills/x") == (("evals/x", False),)


def test_evals_beside_the_skills_of_a_plugin_belong_to_its_only_skill_or_to_the_one_of_its_name(tmp_path: Path) -> None:
    case = "execution: {prompt: p}\nexpected_outcome: The sum is named.\n"
    found = checked(
        tmp_path,
        {
            "plugins/one/skills/adder/SKILL.md": a_skill_md("adder"),
            "plugins/one/evals/first/case.yaml": case,
            "plugins/two/skills/two/SKILL.md": a_skill_md("two"),
            "plugins/two/skills/helper/SKILL.md": a_skill_md("helper"),
            "plugins/two/evals/second/case.yaml": case,
        },
    )
    cases = {path: [case.eval_id for case in item.suite.cases] for path, item in found.items() if item.suite}
    assert cases == {"plugins/one/skills/adder": ["first"], "plugins/two/skills/two": ["second"]}


def test_evals_beside_several_skills_go_to_the_skill_that_each_file_names(tmp_path: Path) -> None:
    def text(skill: str) -> str:
        return f"name: {skill}-1\nskill: {skill}\nfixture: skills/{skill}/assets/a.md\ninput_query: q\nmust_find: [{{id: a, description: b}}]\n"

    found = checked(
        tmp_path,
        {
            "kit/skills/one/SKILL.md": a_skill_md("one"),
            "kit/skills/one/assets/a.md": "# A\n",
            "kit/skills/other/SKILL.md": a_skill_md("other"),
            "kit/eval/cases/one-1.yaml": text("one"),
            "kit/eval/cases/other-1.yaml": text("other"),
        },
    )
    one = found["kit/skills/one"].suite
    assert one is not None
    assert [(case.eval_id, [item.path for item in case.files]) for case in one.cases] == [("one-1", ["assets/a.md"])]
    assert found["kit/skills/other"].suite is None, "its fixture is missing"
    assert "suite/case-not-run" in {item.rule for item in found["kit/skills/other"].findings}


def test_a_root_skill_has_nothing_outside() -> None:
    assert Outside(["SKILL.md", "tests/x/eval.yaml"], {"."}).rooms(".") == ()


def test_a_change_of_evals_outside_changes_the_skill_that_they_judge() -> None:
    repo = FakeRepository()
    files = {
        "plugins/p/skills/sums/SKILL.md": a_skill_md("sums"),
        "plugins/p/skills/texts/SKILL.md": a_skill_md("texts"),
    }
    evals = {"tests/p/sums/eval.yaml": SCENARIO % "{}", "tests/p/sums/test_code.py": "pass"}
    base = repo.commit({**files, **evals})
    gone = repo.commit(files, parent=base)
    (change,) = changed_skills(repo, base, gone).skills
    assert (change.path, change.kind, change.agent_visible) == ("plugins/p/skills/sums", ChangeKind.MODIFIED, True)
    assert change.changed_files == ("tests/p/sums/eval.yaml",)
    code = repo.commit({**files, **evals, "tests/p/sums/test_code.py": "fail"}, parent=base)
    assert changed_skills(repo, base, code).skills == ()
    (skill,) = read_session(repo, some_settings(base=base, head=gone)).skills
    assert skill.suite_removals == ("The whole suite is removed (1 case).",)


@pytest.mark.parametrize(
    "path",
    [
        "tests/p/sums/any-name.yaml",
        "tests/p/sums/fixtures/in.txt",
        "tests/p/sums/fixtures/deep/more.bin",
        "tests/p/sums/cases/a.json",
    ],
)
def test_a_suite_of_any_name_and_the_data_that_it_names_are_its_skills_too(path: str) -> None:
    setup = "{files: [{path: in.txt, source: fixtures/in.txt}, {path: d, source: fixtures/deep}]}"
    files = {
        "plugins/p/skills/sums/SKILL.md": a_skill_md("sums"),
        "tests/p/sums/any-name.yaml": SCENARIO % setup,
        "tests/p/sums/fixtures/in.txt": "1 2",
        "tests/p/sums/fixtures/deep/more.bin": "1",
        "tests/p/sums/cases/a.json": '{"prompt": "p", "expectations": ["x"]}',
    }
    repo = FakeRepository()
    base = repo.commit(files)
    edited = repo.commit({**files, path: files[path] + " "}, parent=base)
    gone = repo.commit({name: text for name, text in files.items() if name != path}, parent=base)
    for head in (edited, gone):
        (change,) = changed_skills(repo, base, head).skills
        assert (change.path, change.kind, change.agent_visible) == ("plugins/p/skills/sums", ChangeKind.MODIFIED, True)
        assert change.changed_files == (path,)


def test_of_a_shared_folder_only_the_skill_that_a_suite_names_is_changed_by_it() -> None:
    files = {
        "p/skills/one/SKILL.md": a_skill_md("one"),
        "p/skills/two/SKILL.md": a_skill_md("two"),
        "p/evals/first.yaml": "skill: one\nfixture: data/one.csv\n",
        "p/evals/second.yaml": "skill: two\n",
        "p/evals/data/one.csv": "1",
    }
    repo = FakeRepository()
    base = repo.commit(files)
    for path, skill in {
        "p/evals/first.yaml": "one",
        "p/evals/second.yaml": "two",
        "p/evals/data/one.csv": "one",
    }.items():
        head = repo.commit({**files, path: files[path] + "#"}, parent=base)
        assert [item.path for item in changed_skills(repo, base, head).skills] == [f"p/skills/{skill}"], path


@pytest.mark.parametrize("where", ["tests/p/sums/eval.yaml", "evals/sums/eval.yaml"])
def test_a_session_reads_evals_outside_at_head_and_at_base_and_lists_what_is_taken_away(where: str) -> None:
    path = "plugins/p/skills/sums"
    files = {f"{path}/SKILL.md": a_skill_md("sums"), f"{path}/a.md": "old", where: SCENARIO % "{}"}
    repo = FakeRepository()
    base = repo.commit(files)
    head = repo.commit({f"{path}/SKILL.md": a_skill_md("sums"), f"{path}/a.md": "new"}, parent=base)
    intake = read_session(repo, some_settings(base=base, head=head))
    (skill,) = intake.skills
    assert skill.change.kind is ChangeKind.MODIFIED
    assert skill.suite is None
    assert skill.base_suite is not None
    assert skill.base_suite.path == where
    assert skill.suite_removals == ("The whole suite is removed (1 case).",)


@pytest.mark.parametrize(("evals", "decoy"), [("tests/p/sums", "p/sums"), ("evals/p/sums", "evals/p/sums")])
def test_a_new_skill_that_takes_anothers_evals_by_its_name_or_place_changes_the_other_and_needs_a_waiver(
    evals: str, decoy: str
) -> None:
    files = {"plugins/skills/sums/SKILL.md": a_skill_md("sums"), f"{evals}/eval.yaml": SCENARIO % "{}"}
    repo = FakeRepository()
    base = repo.commit(files)
    (skill,) = read_session(repo, some_settings(base=base, head=base, paths=("plugins/skills/sums",))).skills
    assert skill.suite is not None
    head = repo.commit({**files, f"{decoy}/SKILL.md": a_skill_md("sums")}, parent=base)
    intake = read_session(repo, some_settings(base=base, head=head))
    (robbed,) = [item for item in intake.skills if item.change.path == "plugins/skills/sums"]
    assert (robbed.change.kind, robbed.suite) == (ChangeKind.MODIFIED, None)
    assert robbed.base_suite is not None
    assert robbed.suite_removals == ("The whole suite is removed (1 case).",)


def test_a_new_skill_of_another_name_takes_nothing() -> None:
    files = {"plugins/skills/sums/SKILL.md": a_skill_md("sums"), "tests/p/sums/eval.yaml": SCENARIO % "{}"}
    repo = FakeRepository()
    base = repo.commit(files)
    head = repo.commit({**files, "p/texts/SKILL.md": a_skill_md("texts")}, parent=base)
    assert [item.path for item in changed_skills(repo, base, head).skills] == ["p/texts"]
