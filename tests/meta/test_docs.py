"""What docs/ says is so: suites are read without a complaint, links lead somewhere, generated parts are current."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from gate.cli.main import group
from gate.domain.findings import Level
from gate.intake.suite import read_suite
from tests import documents
from tests.builders_skill import a_file, a_skill

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^### (\d+\. [^\n]+)\n(.*?)(?=^##|\Z)", COOKBOOK, re.DOTALL | re.MULTILINE)


def anchor(heading: str) -> str:
    """The name that GitHub gives a heading."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def outside_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#{1,6} (.+)$", outside_code(page), re.MULTILINE)}


@pytest.mark.parametrize(("title", "text"), RECIPES, ids=[title for title, _ in RECIPES])
def test_a_recipe_is_read_without_a_complaint_and_measures_something(title: str, text: str) -> None:
    suite = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert suite is not None, title
    skill = a_skill(files=(a_file("evals/skill-gate.yaml", suite[1]),))
    read, findings = read_suite(skill)
    assert [item.message for item in findings if item.level is not Level.NOTICE] == []
    assert read is not None
    assert read.cases or read.triggers
    assert all(case.checks or case.expectations for case in read.cases)


def test_the_cookbook_has_recipes_for_the_three_types_of_skills() -> None:
    assert len(RECIPES) >= 12
    assert len(re.findall(r"^## Skills that", COOKBOOK, re.MULTILINE)) == 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading_that_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", outside_code(page)):
        if re.match(r"https?://", target):
            continue
        name, _, part = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        if part and file.suffix == ".md":
            assert part in anchors(file), f"{page.name}: {target}"


@pytest.mark.parametrize("name", sorted(documents.GENERATED))
def test_what_is_generated_is_current(name: str) -> None:
    path, _ = documents.GENERATED[name]
    assert path.read_text(encoding="utf-8") == documents.written(name), "run: python -m tests.documents"


def commands(text: str) -> list[list[str]]:
    """Every skill-gate command line of a page, in code blocks and in code spans."""
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.split("#")[0] for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`(skill-gate [^`]+)`", text)
    return [line.split()[1:] for line in (*lines, *spans) if line.strip().startswith("skill-gate ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_shows_exists_with_these_options(page: Path) -> None:
    for words in commands(page.read_text(encoding="utf-8")):
        found: click.Command = group
        rest = list(words)
        while isinstance(found, click.Group) and rest and (inner := found.get_command(click.Context(found), rest[0])):
            found = inner
            rest.pop(0)
        assert found is not group, f"{page.name}: skill-gate {' '.join(words)}"
        known = {name for parameter in found.params for name in parameter.opts}
        asked = {name for word in rest for name in re.findall(r"^--[a-z][a-z-]*", word)}
        assert asked <= known | {"--help"}, f"{page.name}: skill-gate {' '.join(words)}"
