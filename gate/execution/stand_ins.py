"""What the optional arms get instead of the author's skill: one that the model wrote for itself, or neutral text.

Both answer a question about the skill that the baseline alone leaves open: whether its author knew more than the model that
reads it (``self_generated``), and whether it is its contents or any text of that length that helps (``placebo``). No verdict
rests on either.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gate.domain.base import digest_of, sha256_hex
from gate.domain.evidence import RunRecord
from gate.domain.plan import Arm, Limits, RunKey, RunRequest, SkillPlan
from gate.domain.skill import EXECUTABLE, REGULAR, Skill, SkillFile, SkillType, is_agent_visible, tree_digest
from gate.domain.suite import Case
from gate.evidence.bundle import load_output
from gate.llm.prompting import load_prompt

FOLDER = "skill"
"""Below the workspace of the run that writes its own skill: where the skill is to be."""
OWN_SKILL_LIMITS = Limits(steps=12)
MOST_PROMPTS = 40
PROMPT_CHARACTERS = 2_000
MOST_FILES = 100

_NEUTRAL = (
    "The garden behind the old library is open from early morning until dusk.",
    "Visitors walk along gravel paths between low hedges and a row of lime trees.",
    "In spring the beds near the gate are planted with tulips in several colours.",
    "A bench of dark wood stands by the pond, where ducks gather on quiet days.",
    "The keeper rakes the leaves in autumn and trims the roses before winter.",
    "On clear evenings the bell of the town hall can be heard across the lawn.",
    "Children leave small boats on the water and come back for them the next day.",
    "A map beside the entrance shows where the herbs, shrubs and ferns grow.",
)


def placebo(skill: Skill) -> Skill:
    """``skill`` with its name and description, so that it is opened as often, and a body of as many characters that say
    nothing about any job; without any other file."""
    body = neutral_text(len(skill.body))
    head = skill.text[: len(skill.text) - len(skill.body)] if skill.text.endswith(skill.body) else _front(skill)
    data = f"{head}{body}".encode("utf-8", "replace")
    file = SkillFile(path="SKILL.md", mode=REGULAR, sha256=sha256_hex(data), size_bytes=len(data), data=data)
    return skill.model_copy(
        update={"skill_md": "SKILL.md", "body": body, "files": (file,), "tree_sha256": tree_digest((file,))}
    )


def _front(skill: Skill) -> str:
    description = " ".join(skill.description.split()).replace("'", "''")
    return f"---\nname: '{skill.name}'\ndescription: '{description}'\n---\n"


def neutral_text(characters: int) -> str:
    """Plain sentences of exactly this many characters, four to a paragraph."""
    text = ""
    number = 0
    while len(text) < characters:
        text += _NEUTRAL[number % len(_NEUTRAL)] + ("\n\n" if number % 4 == 3 else " ")
        number += 1
    return text[:characters]


def own_skill_request(plan: SkillPlan) -> RunRequest | None:
    """The run in which the model writes its own skill for a task family; None where no arm of the plan needs one.

    It sees the prompts of the cases and nothing else of them: no fixture, no check, no expectation, and nothing of the
    author's skill. It works in a sandbox of its own, which nothing but its files leaves.
    """
    wanted = [case.case for case in plan.cases if (arm := case.arm(Arm.SELF_GENERATED)) is not None and arm.runs]
    if not wanted:
        return None
    taken = {case.case.eval_id for case in plan.cases}
    # Shards of one plan each write a skill for their own cases, and their bundles become one.
    stem = f"own-skill-{digest_of(sorted(case.eval_id for case in wanted))[:8]}"
    eval_id = next(name for number in range(len(taken) + 1) if (name := f"{stem}{number or ''}") not in taken)
    return RunRequest(
        key=RunKey(skill_path=plan.change.path, slug=plan.slug, eval_id=eval_id, run=1, arm=Arm.SELF_GENERATED),
        case=Case(eval_id=eval_id, prompt=load_prompt("executor_own_skill", tasks=_tasks(wanted))),
        skill=None,
        skill_type=SkillType.TEXT_GENERATION,
        limits=OWN_SKILL_LIMITS,
        subjects=tuple(version for version in (plan.head, plan.base) if version is not None),
    )


def _tasks(cases: Iterable[Case]) -> str:
    prompts = list(dict.fromkeys(case.asked.strip() for case in cases if case.trigger is None))[:MOST_PROMPTS]
    return "\n\n".join(f"Task {number}:\n{prompt[:PROMPT_CHARACTERS]}" for number, prompt in enumerate(prompts, 1))


def own_skill_files(root: Path, record: RunRecord) -> tuple[SkillFile, ...]:
    """What a run wrote as its own skill, relative to its folder; empty where it wrote nothing.

    Only what an agent under test may read of a skill. Raises EvidenceError where a file is not the one of the record.
    """
    found: list[SkillFile] = []
    for file in record.files:
        path = file.path.removeprefix(f"{FOLDER}/")
        if path == file.path or not is_agent_visible(path) or len(found) == MOST_FILES:
            continue
        data = load_output(root, record, file.path)
        if data is not None:
            mode = EXECUTABLE if file.executable else REGULAR
            found.append(SkillFile(path=path, mode=mode, sha256=file.sha256, size_bytes=len(data), data=data))
    return tuple(found)
