from __future__ import annotations

import pytest

from gate.domain.findings import Finding, Level
from gate.domain.skill import Skill, SkillFile, SkillType
from gate.intake import skill as skill_module
from gate.intake.skill import name_of, parse_skill, split_tools
from tests.builders_skill import a_file

GOOD = "---\nname: sums\ndescription: Adds numbers.\n---\n# Sums\n"


def parsed(
    text: str | bytes, *others: SkillFile, path: str = "skills/sums"
) -> tuple[Skill | None, tuple[Finding, ...]]:
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    file = a_file("SKILL.md").model_copy(update={"data": data, "size_bytes": len(data)})
    skill, findings = parse_skill(path, (file, *others))
    assert (skill is None) == any(item.blocks for item in findings), "no skill if and only if a finding blocks"
    return skill, findings


def good(text: str | bytes, *others: SkillFile, path: str = "skills/sums") -> Skill:
    skill, findings = parsed(text, *others, path=path)
    assert skill is not None, findings
    return skill


def blocking(text: str | bytes, *others: SkillFile) -> Finding:
    _, findings = parsed(text, *others)
    return next(item for item in findings if item.blocks)


def rules(text: str, *others: SkillFile, path: str = "skills/sums") -> dict[str, Finding]:
    return {item.rule.removeprefix("skill-md/"): item for item in parsed(text, *others, path=path)[1]}


def with_keys(keys: str) -> str:
    return f"---\nname: sums\ndescription: Adds numbers.\n{keys}\n---\nBody\n"


def test_a_plain_skill_is_read_without_a_finding() -> None:
    skill, findings = parsed(GOOD, a_file("scripts/add.py", "print(1)", "100755"))
    assert skill is not None
    assert findings == ()
    assert (skill.path, skill.name, skill.description) == ("skills/sums", "sums", "Adds numbers.")
    assert (skill.body, skill.body_line, skill.skill_md) == ("# Sums\n", 5, "SKILL.md")
    assert skill.frontmatter == {"name": "sums", "description": "Adds numbers."}


def test_only_the_first_block_is_front_matter() -> None:
    skill = good(GOOD + "\n---\nname: other\n---\nmore\n")
    assert skill.name == "sums"
    assert skill.body.endswith("---\nname: other\n---\nmore\n")


def test_block_scalars_comments_and_a_file_that_ends_at_the_closing_line_are_read() -> None:
    skill = good("---\n# a comment\nname: sums\ndescription: >-\n  Adds\n  numbers.\n---")
    assert (skill.description, skill.body) == ("Adds numbers.", "")


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    skill = good(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert (skill.name, skill.body, skill.body_line) == ("sums", "# Sums\n", 5)


def test_blank_lines_before_the_front_matter_are_a_notice_and_lines_still_count() -> None:
    skill, findings = parsed("\n\n" + GOOD)
    assert skill is not None
    assert skill.body_line == 7
    assert [item.rule for item in findings] == ["skill-md/blank-lines"]


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("", "empty", 1),
        ("\n \n", "empty", 1),
        ("# Sums\nText\n", "no-front-matter", 1),
        ("\n```yaml\n---\nname: a\n---\n```\n", "fenced", 2),
        ("# Sums\n\n---\nname: a\n---\n", "not-first", 1),
        ("---\nname: sums\ndescription: d\n# Body\n", "unclosed", 1),
        ("---\n---\nBody", "no-keys", 1),
        ("---\n- name\n- other\n---\n", "no-mapping", 2),
        ("---\njust text\n---\n", "no-mapping", 2),
        ("---\nname: sums\n---\n", "description-missing", 2),
        ("---\nname: sums\ndescription: ' '\n---\n", "description-missing", 3),
        ("---\nname: sums\ndescripton: Adds.\n---\n", "description-missing", 3),
        ("---\nname: 42\ndescription: d\n---\n", "name-type", 2),
        ("---\nname: no\ndescription: d\n---\n", "name-type", 2),
        ("---\nname: sums\ndescription: [a, b]\n---\n", "description-type", 3),
        ("---\nname: sums\nname: other\ndescription: d\n---\n", "yaml", 3),
    ],
)  # fmt: skip
def test_what_cannot_be_read_names_its_line(text: str, rule: str, line: int) -> None:
    finding = blocking(text)
    assert (finding.rule, finding.line) == (f"skill-md/{rule}", line)
    assert finding.path == "skills/sums/SKILL.md"
    assert finding.remedy or rule == "no-keys"


def test_an_unquoted_colon_names_line_column_and_the_quoted_value() -> None:
    finding = blocking("---\nname: review\ndescription: Review along two axes: standards and tests\n---\n")
    assert (finding.line, finding.column) == (3, 35)
    assert 'description: "Review along two axes: standards and tests"' in finding.remedy


def test_the_remedy_of_an_unquoted_colon_works_when_it_is_followed() -> None:
    bad = "description: Review along two axes: standards and tests"
    remedy = blocking(f"---\nname: review\n{bad}\n---\n").remedy
    mended = remedy.partition("in quotes: ")[2]
    assert good(f"---\nname: review\n{mended}\n---\n").description == "Review along two axes: standards and tests"


@pytest.mark.parametrize(
    ("keys", "line", "column", "words"),
    [
        ("date: 2026-02-30", 4, 7, '"2026-02-30" looks like a timestamp'),
        ("x: \x80", 4, 4, "U+0080"),
        ("x: *nothing", 4, 4, "refers to no anchor"),
        ("x: &a [*a]", 4, 8, "refers to the value that it stands in"),
        ("? [a, b]\n: 1", 4, 3, "cannot be a key"),
        ("x: !!python/object:os.system 1", 4, 4, "is not supported"),
        ("x: [1, 2", 5, 1, "expected"),
        ("x: @mention", 4, 4, "cannot start any token"),
        ("x: " + "[" * 80 + "]" * 80, 4, 67, "nested deeper than 64"),
        ('x: "\\ud800"', 4, None, "Unicode"),
    ],
)
def test_every_yaml_trouble_is_a_finding_with_its_place(keys: str, line: int, column: int | None, words: str) -> None:
    finding = blocking(with_keys(keys))
    assert (finding.rule, finding.line) == ("skill-md/yaml", line)
    assert words in finding.message
    assert column is None or finding.column == column


def test_aliases_that_explode_are_refused_before_they_are_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    assert "values" in blocking(with_keys("\n".join(lines))).message


def test_a_long_chain_of_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000)]
    assert "nested deeper" in blocking(with_keys("\n".join(lines))).message


def test_harmless_anchors_and_merges_are_read() -> None:
    skill = good(with_keys("base: &base {x: 1, y: 2}\nmetadata:\n  <<: *base\n  y: 3\nagain: *base"))
    assert skill.frontmatter["metadata"] == {"x": 1, "y": 3}
    assert skill.frontmatter["again"] == {"x": 1, "y": 2}


def test_dates_become_text_and_keys_stay_as_they_are_written() -> None:
    skill = good(with_keys("date: 2026-01-31\nat: 2026-01-31 10:00:00\non: yes\n1: one\nbig: .inf"))
    assert skill.frontmatter["date"] == "2026-01-31"
    assert skill.frontmatter["at"] == "2026-01-31T10:00:00"
    assert skill.frontmatter["on"] is True
    assert skill.frontmatter["1"] == "one"
    assert skill.frontmatter["big"] == ".inf"
    skill.to_json()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (GOOD.encode("utf-16"), "UTF-16"),
        (b"---\nname: a\0b\n---\n", "NUL"),
        (b"---\nname: sums\ndescription: caf\xe9\n---\n", "0xE9"),
    ],
)
def test_what_is_no_utf8_text_is_said_politely(data: bytes, words: str) -> None:
    assert words in blocking(data).message


def test_bytes_that_are_no_utf8_have_a_place() -> None:
    finding = blocking(b"---\nname: sums\ndescription: caf\xe9\n---\n")
    assert (finding.line, finding.column) == (3, 17)


@pytest.mark.parametrize("length", [1024, 1025])
@pytest.mark.parametrize("sign", ["a", "数", "😀"])
def test_limits_count_code_points(sign: str, length: int) -> None:
    found = rules(f"---\nname: sums\ndescription: '  {sign * length}  '\n---\n")
    assert ("description-length" in found) == (length > 1024)
    if length > 1024:
        assert found["description-length"].level is Level.WARNING
        assert "1025" in found["description-length"].message
        assert "1024" in found["description-length"].message


def test_a_description_of_342_chinese_characters_is_short_enough() -> None:
    assert rules("---\nname: sums\ndescription: " + "数" * 342 + "\n---\n") == {}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sums", set()),
        ("Sums", {"name-form", "name-folder"}),
        ("my_sums", {"name-form", "name-folder"}),
        ("a--b", {"name-form", "name-folder"}),
        ("求和", {"name-form", "name-folder"}),
        ("claude-sums", {"name-folder", "name-reserved"}),
        ("a" * 65, {"name-length", "name-folder"}),
    ],
)
def test_rules_about_names_warn_and_never_block(name: str, expected: set[str]) -> None:
    text = f"---\nname: {name}\ndescription: d\n---\n"
    assert set(rules(text)) == expected
    assert good(text).name == name


def test_a_root_skill_has_no_folder_to_differ_from() -> None:
    assert rules(GOOD, path=".") == {}


def test_unknown_keys_are_one_notice_and_near_misses_warn_with_the_word() -> None:
    found = rules(
        with_keys(
            "version: 1.0\nauthor: me\ntags: [a]\nuser-invocable: true\ndescripton: typo\nmy-own: 1\nallowed_tools: Read"
        )
    )
    assert found["unknown-keys"].level is Level.NOTICE
    assert "my-own" in found["unknown-keys"].message
    assert "version" not in found["unknown-keys"].message
    near = [
        item
        for item in parsed(with_keys("descripton: typo\nallowed_tools: Read"))[1]
        if item.rule.endswith("near-miss")
    ]
    assert [(item.level, item.message.rpartition("mean ")[2], item.line) for item in near] == [
        (Level.WARNING, "description?", 4),
        (Level.WARNING, "allowed-tools?", 5),
    ]


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ("Read", ("Read",)),
        ("Read, Write, Bash(git:*, gh:*)", ("Read", "Write", "Bash(git:*, gh:*)")),
        ("Bash(git:*, gh:*) Read mcp__github__get_issue", ("Bash(git:*, gh:*)", "Read", "mcp__github__get_issue")),
        ("\n  - Read\n  - Bash(npm run *)\n  - Grep, Glob", ("Read", "Bash(npm run *)", "Grep", "Glob")),
        ("'Read,,Read '", ("Read",)),
        ("", ()),
    ],
)
def test_allowed_tools_are_read_in_every_spelling(value: str, tools: tuple[str, ...]) -> None:
    assert good(with_keys(f"allowed-tools: {value}")).allowed_tools == tools


def test_tools_that_cannot_be_read_are_said() -> None:
    assert "allowed-tools-type" in rules(with_keys("allowed-tools: {a: b}"))
    assert "allowed-tools-brackets" in rules(with_keys("allowed-tools: 'Bash(git:* Read'"))
    assert good(with_keys("tools: Read")).allowed_tools == ("Read",)
    assert split_tools("Bash(a]b) Read") == (["Bash(a]b)", "Read"], False)


@pytest.mark.requirements("R6")
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("type: mcp_based", SkillType.MCP_BASED),
        ("skill_type: code-execution", SkillType.CODE_EXECUTION),
        ("metadata:\n  skill_type: text_generation", SkillType.TEXT_GENERATION),
        ("type: workflow", None),
        ("skill_type: nonsense", None),
    ],
)
def test_a_declared_type_is_read_where_it_is_one(keys: str, expected: SkillType | None) -> None:
    assert good(with_keys(keys)).declared_type is expected


def test_a_skill_type_that_is_none_warns() -> None:
    assert "skill-type" in rules(with_keys("skill_type: nonsense"))
    assert "skill-type" not in rules(with_keys("type: workflow"))


def test_a_linked_skill_md_blocks_and_is_not_followed() -> None:
    skill, findings = parse_skill("skills/a", (a_file("SKILL.md", "/proc/self/environ", "120000"),))
    assert skill is None
    assert findings[0].rule == "skill-md/link"
    assert "/proc/self/environ" in findings[0].message


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("../../../.git/config", "link-outside"),
        ("/proc/self/environ", "link-outside"),
        ("a/../../../x", "link-outside"),
        ("../..", "link-outside"),
        ("..", "link-inside"),
        ("other.md", "link-inside"),
        ("../SKILL.md", "link-inside"),
    ],
)
def test_links_in_the_folder_are_reported_by_where_they_lead(target: str, rule: str) -> None:
    found = rules(GOOD, a_file("references/x", target, "120000"))
    assert found[rule].path == "skills/sums/references/x"
    assert set(found) == {rule}


def test_a_submodule_in_the_folder_is_reported() -> None:
    assert rules(GOOD, a_file("vendor/x", "", "160000"))["submodule"].path == "skills/sums/vendor/x"


def test_other_spellings_of_the_file_name_are_read() -> None:
    skill, _ = parse_skill("skills/sums", (a_file("Skill.MD", GOOD),))
    assert skill is not None
    assert skill.skill_md == "Skill.MD"
    assert skill.text == GOOD


def test_two_spellings_side_by_side_are_a_warning_and_the_usual_one_counts() -> None:
    skill, findings = parse_skill("skills/sums", (a_file("skill.md", "nothing"), a_file("SKILL.md", GOOD)))
    assert skill is not None
    assert skill.skill_md == "SKILL.md"
    assert [item.rule for item in findings] == ["skill-md/two-spellings"]


def test_no_skill_md_blocks() -> None:
    skill, findings = parse_skill("skills/a", (a_file("readme.md"),))
    assert skill is None
    assert findings[0].blocks


def test_folders_over_the_limits_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_module, "MAX_FILES", 2)
    assert "too-many-files" in rules(GOOD, a_file("a"), a_file("b"))
    not_kept = a_file("data.bin").model_copy(update={"data": b"", "size_bytes": 10**9})
    assert "folder-too-large" in rules(GOOD, not_kept)
    large = a_file("SKILL.md").model_copy(update={"data": b"", "size_bytes": 10**9})
    skill, findings = parse_skill("skills/a", (large,))
    assert skill is None
    assert findings[0].rule == "skill-md/too-large"


def test_the_name_of_a_broken_file_is_none() -> None:
    assert name_of(GOOD.encode()) == "sums"
    assert [name_of(data) for data in (b"", b"\xff\xfe", b"---\nname: [a]\n---\n", b"---\nx: 1\n---\n")] == [None] * 4
