from __future__ import annotations

from typing import Any

import pytest

from gate.domain.skill import SkillFacts
from gate.intake.body import check_body, facts_of, link_targets
from tests.builders_skill import a_file, a_skill


def facts(body: str, *files: str, **changes: Any) -> SkillFacts:
    return facts_of(a_skill(body=body, files=tuple(a_file(path) for path in files), **changes))


def kinds(body: str, *files: str) -> list[tuple[str, str]]:
    return [(link.resolved, link.kind) for link in facts(body, *files).links]


def test_lines_tokens_programs_and_exec_bits_are_counted() -> None:
    skill = a_skill(
        body="# A\n\nOne two three four.\n",
        files=(
            a_file("scripts/x.py"),
            a_file("scripts/run", mode="100755"),
            a_file("data.csv"),
            a_file("evals/check.py"),
        ),
    )
    found = facts_of(skill)
    assert (found.lines, found.tokens) == (3, 7)
    assert found.scripts == ("scripts/x.py",), "what judges the skill is no program of it"
    assert found.executables == ("scripts/run",)


def test_each_chinese_character_is_a_token_of_its_own() -> None:
    assert facts("数" * 40).tokens == 40
    assert facts("a" * 40).tokens == 10


def test_tool_ids_are_found_in_the_body_and_in_allowed_tools_and_the_word_mcp_is_none() -> None:
    found = facts(
        "Call mcp__git_hub__get_issue, then `mcp__x__y`. MCP is nice; mcp__x__y again.", allowed_tools=("mcp__z__w",)
    )
    assert found.tool_ids == ("mcp__git_hub__get_issue", "mcp__x__y", "mcp__z__w")


def test_links_are_told_apart_by_where_they_lead() -> None:
    body = "[a](a.md) ![b](img/b.png) [c](c.md#part) [d](../d.md) [e](/etc/passwd) [f](references/) [g](./a.md)"
    assert kinds(body, "a.md", "img/b.png", "references/x.md") == [
        ("a.md", "file"), ("img/b.png", "file"), ("c.md", "broken"), ("../d.md", "outside"), ("/etc/passwd", "outside"),
        ("references", "file"), ("a.md", "file"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        "[a](https://example.org/x.md)", "[a](mailto:a@example.org)", "[a](//example.org/x)", "[a](#part)", "`[a](x.md)`",
        "```\n[a](x.md)\n```\n", "    [a](x.md)\n", "<https://example.org>", "[a]({baseDir}/x.md)", "[a](\\<path\\>)", "[a]", "[a](...)",
        "\\[a](x.md)",
    ],
)  # fmt: skip
def test_addresses_code_and_placeholders_are_no_links_to_files(body: str) -> None:
    assert kinds(body) == []


def test_links_with_spaces_escapes_and_references_are_read_as_markdown_reads_them() -> None:
    body = "[a](<two words.md>) [b](two%20words.md) [c][r] [d](x_\\(1\\).md)\n\n[r]: r.md 'title'\n"
    assert kinds(body, "two words.md", "r.md", "x_(1).md") == [
        ("two words.md", "file"), ("two words.md", "file"), ("r.md", "file"), ("x_(1).md", "file"),
    ]  # fmt: skip


def test_a_link_knows_its_line_of_skill_md() -> None:
    found = facts("Text\nmore [a](a.md)\n\n- item\n- [b](b.md)\n")
    assert [(link.target, link.line) for link in found.links] == [("a.md", 6), ("b.md", 9)]


def test_broken_and_outside_links_are_warnings_with_line_and_remedy() -> None:
    found = check_body(a_skill(body="[a](Guide.md)\n[b](../b.md)\n[c](none.md)\n", files=(a_file("guide.md"),)))
    assert [(item.rule, item.line, item.blocks) for item in found] == [
        ("body/broken-link", 5, False), ("body/broken-link", 7, False), ("body/outside-link", 6, False),
    ]  # fmt: skip
    assert found[0].remedy == "Write guide.md."


def test_many_broken_links_are_listed_in_part_and_counted() -> None:
    found = check_body(a_skill(body="".join(f"[x](n{number}.md)\n" for number in range(25))))
    assert len(found) == 11
    assert "15 more" in found[-1].message


@pytest.mark.parametrize(("lines", "said"), [(500, False), (501, True)])
def test_a_long_body_is_a_notice(lines: int, said: bool) -> None:
    assert ([item.rule for item in check_body(a_skill(body="x\n" * lines))] == ["body/long"]) is said


def test_a_body_that_cannot_hold_a_link_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    from gate.intake import body as module

    monkeypatch.setattr(module, "link_targets", lambda text: pytest.fail("parsed"))
    assert kinds("# A\n\n[web](https://example.org) and [x] and a[0](call)\n"[:40]) == []


def test_targets_come_with_lines_counted_from_zero() -> None:
    assert list(link_targets("a\n\n[x](y)\n")) == [("y", 2)]
