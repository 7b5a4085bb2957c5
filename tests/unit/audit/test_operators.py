"""Operators of ``skill-gate mutate``: each mutant is one reviewable change, and only one operator touches the front matter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.audit.mutants import Mutant, page_of, split_lines
from gate.audit.mutate import MutatedRepository, drawn
from gate.audit.operators import NAMES, OPERATORS, mutants_of
from gate.domain.skill import Skill
from gate.intake.skill import parse_skill
from tests.builders_skill import a_file
from tests.fakes.repository import FakeRepository

CORPUS = Path(__file__).resolve().parents[3].parent / "shared" / "corpus"
TEXT = """---
name: sums
description: Adds numbers, at most 10. Never anything else.
---
# Sums

You must never round a sum to less than 3 digits.

1. Read `notes.txt` with `read_file`.
2. Run `python3 scripts/add.py input.csv`.
   - Always say at most 10 numbers.
3. Write the result to out/report.md.

- Use the word `total`, never `sum`.
- Answer in `EUR`
  before anything else is said.

```
1. no step
- MUST stay
```

Use this template:

```
{name}: {total}
```

## Examples

```
3 EUR
```
"""


def skill_of(text: str, script: str = "print(1)\n") -> Skill:
    skill, findings = parse_skill("skills/sums", (a_file("SKILL.md", text), a_file("scripts/add.py", script)))
    assert skill is not None, findings
    return skill


def by_operator(text: str, name: str) -> list[Mutant]:
    return list(mutants_of(skill_of(text), (name,)))


def removed_and_added(mutant: Mutant) -> tuple[list[str], list[str]]:
    lines = [line for line in mutant.patch("skills/sums").splitlines()[3:] if not line.startswith(("+++", "---"))]
    return [line[1:] for line in lines if line[:1] == "-"], [line[1:] for line in lines if line[:1] == "+"]


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_has_something_to_do_here_and_names_its_line(name: str) -> None:
    found = by_operator(TEXT, name)
    assert found
    lines = TEXT.splitlines()
    for mutant in found:
        assert mutant.harmful is next(item.harmful for item in OPERATORS if item.name == name)
        if mutant.path == "SKILL.md" and mutant.operator != "corrupt-front-matter":
            assert mutant.rule.split("`", maxsplit=1)[0][:10].strip() in lines[mutant.line - 1]


def test_only_one_operator_touches_the_front_matter_and_fences_are_no_rules() -> None:
    for mutant in mutants_of(skill_of(TEXT)):
        if mutant.path != "SKILL.md":
            continue
        read, _ = parse_skill("skills/sums", (a_file("SKILL.md", mutant.after),))
        assert (read is None) == (mutant.operator == "corrupt-front-matter"), mutant.id
        if read is not None:
            assert read.frontmatter == skill_of(TEXT).frontmatter
        if mutant.operator not in ("truncate", "delete-section", "drop-template", "drop-example"):
            assert "1. no step\n- MUST stay\n" in mutant.after


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("negate", "You must never round", "You must not never round"),
        ("weaken", "You must never round", "You may never round"),
        ("invert-condition", "less than 3", "more than 3"),
        ("change-number", "less than 3", "less than 6"),
        ("change-path", "out/report.md", "out/other-report.md"),
        ("change-tool", "`read_file`", "`other_read_file`"),
        ("change-literal", "Answer in `EUR`", "Answer in `"),
        ("synonym", "Write the result", "Write the result"),
    ],
)
def test_words_are_changed_where_they_stand(name: str, old: str, new: str) -> None:
    if old == new:
        assert all(old in mutant.after for mutant in by_operator(TEXT, name))
        return
    assert any(
        any(old in line for line in gone) and any(new in line for line in came)
        for gone, came in map(removed_and_added, by_operator(TEXT, name))
    )


def test_chinese_rules_are_negated_and_weakened() -> None:
    text = TEXT + "\n- 必须使用中文。\n"
    assert any("不得使用中文" in mutant.after for mutant in by_operator(text, "negate"))
    assert any("可以使用中文" in mutant.after for mutant in by_operator(text, "weaken"))


def test_steps_change_places_with_what_belongs_to_them_staying() -> None:
    swapped = [mutant.after for mutant in by_operator(TEXT, "swap-steps")]
    assert any("1. Run `python3 scripts/add.py input.csv`.\n2. Read `notes.txt`" in text for text in swapped)


def test_the_draw_takes_operators_in_turn_and_is_the_same_for_a_seed() -> None:
    found = mutants_of(skill_of(TEXT))
    one = drawn(found, len(NAMES), "seed")
    assert {mutant.operator for mutant in one} == set(NAMES)
    assert one == drawn(found, len(NAMES), "seed")
    assert one != drawn(found, len(NAMES), "other")


@given(
    st.lists(st.sampled_from([*TEXT.splitlines(keepends=True)[5:], "\r\n", "* a\n", "\u3000\n", "no end"]), max_size=30)
)
def test_any_body_gives_mutants_of_whole_lines(pieces: list[str]) -> None:
    text = "---\nname: sums\ndescription: Adds.\n---\n" + "".join(pieces)
    skill = skill_of(text)
    page = page_of(skill)
    assert "".join(page.lines) == skill.text
    assert len(split_lines(text)) == len(page.lines)
    for mutant in mutants_of(skill):
        assert mutant.before != mutant.after
        assert mutant.patch("skills/sums")


def test_patches_of_real_skills_apply(tmp_path: Path) -> None:
    files = sorted(CORPUS.rglob("SKILL.md"))[::12]
    if not files:
        pytest.skip("the corpus of real skills is not here")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for file in files:
        skill, _ = parse_skill("skills/real", (a_file("SKILL.md", file.read_text("utf-8")),))
        if skill is None:
            continue
        place = tmp_path / "skills/real/SKILL.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(skill.text, "utf-8")
        found = mutants_of(skill)
        for name in NAMES:
            patch = next((item.patch("skills/real") for item in found if item.operator == name), None)
            if patch is not None:
                subprocess.run(["git", "-C", str(tmp_path), "apply", "--check", "-"], input=patch.encode(), check=True)


def test_a_mutated_repository_differs_in_one_file_of_one_commit() -> None:
    inner = FakeRepository()
    commit = inner.commit({"skills/sums/SKILL.md": TEXT, "other.md": "x"}, branch="main")
    over = MutatedRepository(inner, commit, "skills/sums/SKILL.md", b"new")
    head = over.resolve("HEAD")
    assert head != commit
    assert over.resolve("main") == commit
    assert over.changed_paths(commit, head) == [("M", "skills/sums/SKILL.md", None)]
    assert over.changed_paths(commit, commit) == []
    for at, text in ((head, b"new"), (commit, TEXT.encode())):
        ((_, _, blob),) = over.find(at, "SKILL.md")
        assert over.blobs([blob]) == {blob: text}
        assert over.paths(at)["skills/sums/SKILL.md"][1] == blob
        assert [item.data for item in over.read_skill_files(at, "skills/sums")] == [text]
        assert {path: found for path, _, found in over.tree(at)}["skills/sums/SKILL.md"] == blob
