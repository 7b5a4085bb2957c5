from __future__ import annotations

from typing import Any

from gate.domain.findings import Finding, Level
from gate.domain.skill import Skill
from gate.intake.folding import fold
from tests.builders_skill import a_file, a_skill


def a_finding(line: int | None, **changes: Any) -> Finding:
    values = {
        "rule": "body/broken-link",
        "level": Level.WARNING,
        "path": "skills/sums/SKILL.md",
        "message": "m",
        "line": line,
    }
    return Finding(**{**values, **changes})


def rules(findings: list[Finding], head: Skill, at_base: list[Finding], base: Skill) -> list[str]:
    return [item.rule for item in fold(findings, head, at_base, base)]


OLD = a_skill(body="one\ntwo\nthree\n")
NEW = a_skill(body="new\none\ntwo\nthree, edited\n")


def test_a_finding_about_a_line_that_only_moved_is_folded_and_counted() -> None:
    found = fold([a_finding(6)], NEW, [a_finding(5)], OLD)
    assert [item.rule for item in found] == ["skill-md/unchanged-lines"]
    assert found[0].level is Level.NOTICE
    assert "1 finding is about lines" in found[0].message
    assert "body/broken-link (line 6)" in found[0].message


def test_a_finding_about_an_edited_line_a_new_one_and_an_error_stay() -> None:
    assert rules([a_finding(8)], NEW, [a_finding(7)], OLD) == ["body/broken-link"]
    assert rules([a_finding(6)], NEW, [], OLD) == ["body/broken-link"]
    assert rules([a_finding(6)], NEW, [a_finding(5, message="another")], OLD) == ["body/broken-link"]
    error = {"level": Level.ERROR}
    assert rules([a_finding(6, **error)], NEW, [a_finding(5, **error)], OLD) == ["body/broken-link"]
    blocks = {"level": Level.WARNING, "blocks": True}
    assert rules([a_finding(6, **blocks)], NEW, [a_finding(5, **blocks)], OLD) == ["body/broken-link"]


def test_what_blocks_is_shown_on_a_line_that_the_change_does_not_touch_and_says_that_it_is_older() -> None:
    blocks = {"rule": "scan/exfiltration", "level": Level.ERROR, "blocks": True}
    (old,) = fold([a_finding(6, **blocks)], NEW, [a_finding(5, **blocks)], OLD)
    assert (old.blocks, old.level) == (True, Level.ERROR)
    assert old.message == "m (the base version has this too: it is not this change's doing)"
    (new,) = fold([a_finding(6, **blocks)], NEW, [], OLD)
    assert new.message == "m"


def test_the_second_of_two_equal_findings_is_folded_only_where_there_were_two() -> None:
    twice = [a_finding(6), a_finding(6)]
    assert rules(twice, NEW, [a_finding(5)], OLD) == ["body/broken-link", "skill-md/unchanged-lines"]
    assert rules(twice, NEW, [a_finding(5), a_finding(5)], OLD) == ["skill-md/unchanged-lines"]


def test_a_finding_about_a_whole_file_is_folded_where_the_file_is_the_same() -> None:
    place: dict[str, Any] = {"path": "skills/sums/x", "rule": "skill-md/link-inside"}
    one, two = a_skill(files=(a_file("x", "1"),)), a_skill(files=(a_file("x", "2"),))
    assert rules([a_finding(None, **place)], one, [a_finding(None, **place)], one) == ["skill-md/unchanged-lines"]
    assert rules([a_finding(None, **place)], two, [a_finding(None, **place)], one) == ["skill-md/link-inside"]


def test_a_renamed_skill_keeps_its_old_findings_folded() -> None:
    moved = a_skill("skills/new", body="one\ntwo\n")
    found = rules([a_finding(5, path="skills/new/SKILL.md")], moved, [a_finding(5)], OLD)
    assert found == ["skill-md/unchanged-lines"]
