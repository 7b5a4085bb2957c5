"""Skills, suites and plans with valid, boring defaults."""

from __future__ import annotations

from typing import Any

from gate.domain.base import digest_of, sha256_hex
from gate.domain.checks import Check, ResponseContains
from gate.domain.intake import Intake, SkillIntake
from gate.domain.skill import ChangeKind, Skill, SkillChange, SkillFile, slug_of, tree_digest
from gate.domain.suite import Case, Expectation, Suite
from gate.settings import ModelChoice, Settings

DESCRIPTION = "Adds numbers. Use when somebody asks for a sum."


def a_file(path: str, text: str = "text", mode: str = "100644") -> SkillFile:
    """One file of a skill."""
    data = text.encode()
    return SkillFile(path=path, mode=mode, sha256=sha256_hex(data), size_bytes=len(data), data=data)


def a_skill(
    path: str = "skills/sums",
    *,
    body: str = "# Sums\n\nAdd the numbers up.\n",
    files: tuple[SkillFile, ...] = (),
    **changes: Any,
) -> Skill:
    """A skill; ``files`` are beside its SKILL.md."""
    name = path.rsplit("/", 1)[-1]
    text = f"---\nname: {name}\ndescription: {DESCRIPTION}\n---\n{body}"
    everything = (a_file("SKILL.md", text), *files)
    values: dict[str, Any] = {
        "path": path,
        "slug": slug_of(path),
        "skill_md": "SKILL.md",
        "name": name,
        "description": DESCRIPTION,
        "body": body,
        "body_line": 5,
        "files": everything,
        "tree_sha256": tree_digest(everything),
    }
    return Skill(**{**values, **changes})


def a_case(eval_id: str = "one", **changes: Any) -> Case:
    """A case with one check and one expectation."""
    values: dict[str, Any] = {
        "eval_id": eval_id,
        "prompt": "What is one and two?",
        "checks": (Check(id="c1", parameters=ResponseContains(keyword="3")),),
        "expectations": (Expectation(id="e1", text='The answer names "3".'),),
    }
    case = Case(**{**values, **changes})
    return case.model_copy(update={"digest": digest_of(case.model_copy(update={"digest": ""}))})


def a_suite(*cases: Case, path: str = "skills/sums/evals/evals.json") -> Suite:
    """A suite; one case where none is given."""
    return Suite(path=path, dialect="skill-gate", cases=cases or (a_case(),))


def a_skill_intake(
    path: str = "skills/sums", *, kind: ChangeKind = ChangeKind.MODIFIED, agent_visible: bool = True, **changes: Any
) -> SkillIntake:
    """One changed skill with a suite and an older version at base."""
    values: dict[str, Any] = {
        "change": SkillChange(path=path, kind=kind, agent_visible=agent_visible),
        "head": a_skill(path),
        "base": a_skill(path, body="# Sums\n\nAdd.\n"),
        "suite": a_suite(),
        "base_suite": a_suite(),
    }
    values["slug"] = slug_of(path)
    return SkillIntake(**{**values, **changes})


def an_intake(*skills: SkillIntake) -> Intake:
    """A session's intake."""
    return Intake(base_commit="b" * 40, base_tip="b" * 40, head_commit="a" * 40, skills=skills or (a_skill_intake(),))


def some_settings(**changes: Any) -> Settings:
    """Settings with two models named."""
    values: dict[str, Any] = {
        "repository": ".",
        "models": ModelChoice(executor="openai:agent", judge="anthropic:judge"),
    }
    return Settings(**{**values, **changes})
