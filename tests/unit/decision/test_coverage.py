from __future__ import annotations

from gate.decision.coverage import coverage_of, rules_of
from gate.domain.skill import Skill
from tests.builders_records import case_record, check, decide, skill, skill_record

BODY = """# Tables

Sort them.

- You must keep the header row.
- Never drop a column without saying so.

| must | never |

```sh
echo you must not read this as a rule
```

每一行必须保留。
"""


def test_rules_are_the_lines_that_order_or_forbid_and_not_code_tables_or_headings() -> None:
    assert [(rule.text, rule.line) for rule in rules_of(BODY, 5)] == [
        ("You must keep the header row.", 9),
        ("Never drop a column without saying so.", 10),
        ("每一行必须保留。", 18),
    ]


def test_a_rule_keeps_its_id_wherever_it_stands_and_however_it_is_spaced() -> None:
    (one,), (other,) = rules_of("- Never  drop a column."), rules_of("\n\n1) never drop a column")
    assert one.id == other.id
    assert one.id.startswith("r-")


def test_a_reference_names_a_rule_by_id_line_or_words() -> None:
    first, second, third = rules_of(BODY)
    for reference in (
        first.id,
        f"SKILL.md:{first.line}",
        f"L{first.line}",
        "keep the header row",
        f"{first.text} (R3)",
    ):
        covered = coverage_of(BODY, [reference])
        assert covered is not None
        assert (covered.named, covered.unnamed) == ((first,), (second, third)), reference


def test_words_that_are_too_few_name_nothing() -> None:
    covered = coverage_of(BODY, ["must", "row", "R1"])
    assert covered is not None
    assert covered.named == ()


def test_coverage_is_unknown_where_no_case_names_a_rule_or_there_is_none() -> None:
    assert coverage_of(BODY, [None, "", " "]) is None
    assert coverage_of("Sort the table.", ["keep the header row"]) is None


def test_a_killed_mutant_shows_that_a_rule_is_tested_although_nothing_names_it() -> None:
    rules = rules_of(BODY)
    covered = coverage_of(BODY, [None], killed=[rules[1].id])
    assert covered is not None
    assert covered.named == (rules[1],)
    assert covered.unnamed == (rules[0], *rules[2:])


def with_body(reference: str | None) -> tuple[str, ...]:
    record = skill_record(case_record(checks=[check("c1", rule_ref=reference)], head=["P", "P"]))
    head: Skill = skill().model_copy(update={"body": BODY, "body_line": 5})
    return decide(record.model_copy(update={"plan": record.plan.model_copy(update={"head": head})})).notes


def test_a_report_names_the_rules_that_no_case_tests_and_says_nothing_where_that_is_unknown() -> None:
    (note,) = [note for note in with_body("keep the header row") if "imperative rules" in note]
    assert note.startswith("1 of 3 imperative rules of SKILL.md are named")
    assert "line 10" in note
    assert "Never drop a column" in note
    assert not [note for note in with_body(None) if "imperative rules" in note]
