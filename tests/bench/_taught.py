"""Skills made from a seed, each with its suite: what the benches of sabotage change and judge.

A skill teaches how to report a small table. Which rules it has, their words, their literals and numbers are drawn. Its
suite is made as authors make theirs: from the answers of somebody who does all that the skill says, one assertion a rule
and case, most of them exact checks, some expectations for a judge, and some rules that nobody tests. Each assertion knows
how to tell from an answer whether it holds: so a bench knows what a changed text breaks without asking the gate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from gate.domain.skill import Skill
from gate.intake.skill import parse_skill
from tests.bench._follower import LOOSE_WORD, Chance, Row, Steady, Task, Work, listing_of, plan, task_of
from tests.builders_skill import a_file

CASES = 10
NAMES = (
    "cedar", "maple", "birch", "willow", "hazel", "rowan", "alder", "aspen", "linden", "poplar", "larch", "spruce", "walnut",
    "juniper", "laurel", "myrtle",
)  # fmt: skip
OWNERS = ("lind", "okafor", "marchetti", "haraldsen", "dubois", "novak")
READERS = ("Ines", "Tomas", "Priya", "Jonas", "Amara", "Wei")
PHRASES = (
    "Weekly figures", "Stock of the yard", "Open orders", "Prepared by the desk", "Checked against the ledger", "For the file",
    "End of report", "No further action", "Sent to accounting", "Amounts at a glance",
)  # fmt: skip
MARKS = ("NEEDS APPROVAL", "LARGE", "SEE MANAGER", "ON HOLD")
UNITS = ("EUR", "USD", "kg", "CHF")
FILLERS = (
    "The report goes to people who read it between two meetings.", "Most tables come from the warehouse system.",
    "Owners are short names, as in the staff directory.", "The yard closes at six, so late tables are rare.",
    "Nobody prints these reports any more.", "Amounts come with four places from the scales.",
)  # fmt: skip
SCRIPT = """import sys

lines = open(sys.argv[1], encoding="utf-8").read().splitlines()[1:]
print(f"{len(lines)} rows read")
"""
COUNTED = "{count} rows read"


@dataclass(frozen=True)
class Done:
    """What an agent left of one case."""

    answer: str
    calls: tuple[tuple[str, str, str], ...]
    files: Mapping[str, str]


@dataclass(frozen=True)
class Assertion:
    """One assertion of the suite, and how to tell without the gate whether it holds."""

    rule: str
    value: dict[str, Any]
    """A check as the suite format has it, or ``{"text": …}``."""
    holds: Callable[[Done], bool] = field(repr=False)

    @property
    def exact(self) -> bool:
        """Whether it is a check."""
        return "kind" in self.value


@dataclass(frozen=True)
class TaughtCase:
    """One case."""

    eval_id: str
    prompt: str
    task: Task
    assertions: tuple[Assertion, ...]


@dataclass(frozen=True)
class Taught:
    """One skill with its suite."""

    name: str
    text: str
    cases: tuple[TaughtCase, ...]
    skill: Skill
    """As the gate reads it: what operators work on."""

    @property
    def folder(self) -> str:
        """In the repository."""
        return f"skills/{self.name}"

    def files(self) -> dict[str, str]:
        """The repository."""
        return {
            f"{self.folder}/SKILL.md": self.text,
            f"{self.folder}/scripts/count.py": SCRIPT,
            f"{self.folder}/evals/skill-gate.yaml": json.dumps(
                {"version": 1, "cases": [_case(case) for case in self.cases]}
            ),
        }


def taught(seed: str, number: int, *, rare: bool = False) -> Taught:
    """Skill ``number`` of a corpus. ``rare``: one to three of the ten cases test a rule, not all that could."""
    rng = Random(f"{seed}/{number}")
    name = f"table-{number}"
    rules = _rules(rng, name)
    text = _text(rng, name, rules)
    level = {
        rule: "none" if (drawn := rng.random()) < 0.1 else "expectation" if drawn < 0.35 else "check" for rule in rules
    }
    cases = tuple(_made(rng, at, text, rules, level, name) for at in range(CASES))
    if rare:
        cases = _thinned(Random(f"{seed}/{number}/rare"), cases)
    skill, _ = parse_skill(f"skills/{name}", (a_file("SKILL.md", text), a_file("scripts/count.py", SCRIPT)))
    assert skill is not None
    return Taught(name, text, cases, skill)


def _thinned(rng: Random, cases: Sequence[TaughtCase]) -> tuple[TaughtCase, ...]:
    """Each rule's assertions in one to three of the cases that have one; no case is left without any."""
    rules = sorted({item.rule for case in cases for item in case.assertions} - {"table"})
    kept = {("table", case.eval_id) for case in cases}
    for rule in rules:
        able = [case.eval_id for case in cases if any(item.rule == rule for item in case.assertions)]
        kept |= {(rule, eval_id) for eval_id in rng.sample(able, min(len(able), rng.randrange(1, 4)))}
    return tuple(
        replace(
            case,
            assertions=tuple(item for item in case.assertions if (item.rule, case.eval_id) in kept)
            or case.assertions[:1],
        )
        for case in cases
    )


def _rules(rng: Random, name: str) -> dict[str, str]:
    """Rule -> statement; steps are those that ``_STEPS`` names."""
    phrases, marks = rng.sample(PHRASES, 4), rng.choice(MARKS)
    unit, places, most = rng.choice(UNITS), rng.choice((1, 2)), rng.choice((2, 3))
    column, way = rng.choice((("amount", "descending"), ("name", "ascending"), ("amount", "ascending")))
    output = f"out/{rng.choice(('report', 'summary', 'table'))}.md"
    every = {
        "begin": (f"Always begin with the line `{phrases[0]}`.", f"The first line must be the line `{phrases[0]}`: begin with it."),
        "end": (f"End with the line `{phrases[1]}`.", f"You must end every answer with the line `{phrases[1]}`."),
        "decimals": (f"Round amounts to {places} decimals.", f"Amounts must have exactly {places} decimals."),
        "sort": (f"Sort by the column `{column}`, {way}.", f"Always sort rows by `{column}`, {way}."),
        "most": (f"List at most {most} rows.", f"Never list more rows than this: at most {most} rows."),
        "word": (f"Never write the word `{LOOSE_WORD}`.", f"The word `{LOOSE_WORD}` must not be in it."),
        "unit": (f"Write the unit `{unit}` after every amount.", f"Every amount must have the unit `{unit}`."),
        "mark": (f"Mark rows of more than 100 with `{marks}`.", f"A row of more than 100 must get the mark `{marks}`."),
        "skip": ("Leave out rows whose status is `void`.", "You must leave out rows with the status `void`."),
        "heading": (f"Write the heading `{phrases[2]}` above the rows.", f"The rows must have the heading `{phrases[2]}`."),
        "reader": ("Address the reader by name.", "Always address the reader by the name in the task."),
        "reason": ("Give a reason for the largest amount, with `because`.", "You must give a reason with `because` for the largest amount."),
        "total": ("Add a line with the total, named `Total`.", "There must be a line `Total` with the total of all amounts."),
        "empty": (f"When there are no rows, write `{phrases[3]}`.", f"If there are no rows the answer must say `{phrases[3]}`."),
        "source": ("Read the notes in `notes.txt`.", "Read `notes.txt`, the notes of the desk."),
        "script": (f"Run `python3 /skills/{name}/scripts/count.py input.csv` and say what it found.",),
        "save": (f"Save the answer to `{output}`.", f"Save your report to `{output}`."),
        "template": ("Use this template for every row:",),
        "example": ("For example, a row ends like this:",),
    }  # fmt: skip
    chosen = rng.sample(sorted(set(every) - set(_STEPS)), rng.randrange(8, 11)) + rng.sample(
        _STEPS, rng.randrange(2, 4)
    )
    return {rule: rng.choice(every[rule]) for rule in every if rule in chosen}


_STEPS = ("source", "script", "save")
_FENCES = {"template": "* {name}: {amount}", "example": "12.5 (@owner)"}


def _text(rng: Random, name: str, rules: Mapping[str, str]) -> str:
    fillers = rng.sample(FILLERS, 3)
    bullets = [rule for rule in rules if rule not in _STEPS and rule not in _FENCES]
    rng.shuffle(bullets)
    steps = [rules[rule] for rule in _STEPS if rule in rules]
    # Two rules of some skills stand in paragraphs of their own.
    prose = [bullets.pop() for _ in range(2)] if rng.random() < 0.5 else []
    parts = [
        f"---\nname: {name}\ndescription: Writes reports of small tables. Use when somebody asks for a report of input.csv.\n---\n",
        f"# Reports of tables\n\n{fillers[0]}\n",
        "## Steps\n\n" + "\n".join(f"{at}. {step}" for at, step in enumerate(steps, 1)) + "\n",
        "## Rules\n\n" + "\n".join(f"- {rules[rule]}" for rule in bullets) + "\n",
    ]
    if prose:
        parts.append("## Style\n\n" + "\n\n".join([fillers[1], *(rules[rule] for rule in prose)]) + "\n")
    for rule, fence in _FENCES.items():
        if rule in rules:
            parts.append(f"{rules[rule]}\n\n```\n{fence}\n```\n")
    parts.append(f"## Background\n\n{fillers[2]}\n")
    return "\n".join(parts)


def _made(rng: Random, at: int, text: str, rules: Mapping[str, str], level: Mapping[str, str], name: str) -> TaughtCase:
    count = 0 if at == 9 and "empty" in rules else rng.randrange(4, 7)
    names = rng.sample(NAMES, count)
    rows = [
        Row(item, rng.choice(OWNERS), "void" if rng.random() < 0.25 else "open", round(rng.uniform(5, 195), 4) + 0.0006)
        for item in names
    ]
    if rows:
        rows[0] = Row(rows[0].name, rows[0].owner, "open", 100 + rng.randrange(3, 90) + 0.2346)
        rows[-1] = Row(rows[-1].name, rows[-1].owner, "void", rng.randrange(10, 90) + 0.5678)
    prompt = f"Report the table input.csv. The reader is {rng.choice(READERS)}."
    task = task_of(prompt, listing_of(rows))
    gold = done_by(text, task, Steady(), name)
    found = [
        item for rule in rules if level[rule] != "none" for item in _assertions(rule, rules, gold, task, level[rule])
    ]
    # What nobody reaches who does no work: a figure of this very table.
    wanted = gold.answer.splitlines()
    row = next((line for line in wanted if task.rows and any(line.count(item.name) for item in task.rows)), None)
    if row is not None:
        words = next(item.name for item in task.rows if item.name in row)
        found.append(Assertion("table", {"kind": "response_contains", "keyword": words}, _has(words)))
    return TaughtCase(f"case-{at + 1}", prompt, task, tuple(found))


def done_by(text: str, task: Task, chance: Chance, name: str, script: str = SCRIPT) -> Done:
    """What an agent leaves of a task; the script works unless it was changed."""
    work: Work = plan(text, task, chance)
    outputs = {}
    for kind, what, _ in work.calls:
        if kind == "run" and script == SCRIPT and what == f"python3 /skills/{name}/scripts/count.py input.csv":
            outputs[what] = COUNTED.format(count=len(task.rows))
    answer = work.answer(outputs)
    return Done(answer, work.calls, {what: answer for kind, what, _ in work.calls if kind == "write"})


def _has(words: str) -> Callable[[Done], bool]:
    return lambda done: words in done.answer


def _lacks(words: str) -> Callable[[Done], bool]:
    return lambda done: words not in done.answer


def _assertions(rule: str, rules: Mapping[str, str], gold: Done, task: Task, level: str) -> list[Assertion]:
    """At most one of a rule: what the answer of a case must hold or must not, seen from the right answer."""
    literal = next(iter(re.findall("`([^`]+)`", rules[rule])), "")
    if rule == "save":
        return [Assertion(rule, {"kind": "file_exists", "path": literal}, lambda done: literal in done.files)]
    if rule == "source":
        return [_in_order(rules)] if {"script", "save"} & set(rules) else []
    if rule in ("word", "skip", "most"):
        word = _unwanted(rule, literal, gold, task)
        return [Assertion(rule, {"kind": "response_not_contains", "pattern": word}, _lacks(word))] if word else []
    text = _wanted(rule, literal, gold, task)
    if not text:
        return []
    if level == "expectation" and "\n" not in text:
        return [Assertion(rule, {"text": f'The answer holds "{text}".'}, _has(text))]
    return [Assertion(rule, {"kind": "response_contains", "keyword": text}, _has(text))]


def _unwanted(rule: str, literal: str, gold: Done, task: Task) -> str:
    if rule == "word":
        return literal
    void = [row.name for row in task.rows if row.status == "void"]
    if rule == "skip":
        return next(iter(void), "")
    return next((row.name for row in task.rows if row.name not in void and row.name not in gold.answer), "")


def _wanted(rule: str, literal: str, gold: Done, task: Task) -> str:
    """The part of the right answer that shows the rule; empty where this case does not."""
    lines = gold.answer.splitlines()
    shown = [
        at for at, line in enumerate(lines) if any(row.name in line for row in task.rows) and "largest" not in line
    ]
    if rule in ("begin", "end", "heading", "empty"):
        return literal if literal in gold.answer else ""
    if rule == "script":
        return COUNTED.format(count=len(task.rows))
    if rule == "reader":
        return f"Dear {task.reader}"
    if rule == "reason":
        return next((line.split(literal)[0] + literal for line in lines if line.startswith("The largest")), "")
    if rule in ("total", "mark"):
        return next((line for line in lines if (literal in line if rule == "mark" else line.startswith("Total: "))), "")
    if rule == "sort":
        return "\n".join(lines[at] for at in shown) if len(shown) > 1 else ""
    if rule == "decimals":
        return "\n".join(lines[shown[0] : shown[0] + 2]) if shown else ""
    return lines[shown[0]] if shown else ""


def _in_order(rules: Mapping[str, str]) -> Assertion:
    """The steps in the order in which they stand."""
    tools = {"source": "read_file", "script": "bash", "save": "write_file"}
    order = [tools[step] for step in _STEPS if step in rules]

    def holds(done: Done) -> bool:
        made = [{"read": "read_file", "run": "bash", "write": "write_file"}[kind] for kind, _, _ in done.calls]
        rest = iter(made)
        return all(tool in rest for tool in order)

    return Assertion("source", {"kind": "tool_call_order", "order": order}, holds)


def _case(case: TaughtCase) -> dict[str, Any]:
    checks = [{"id": f"c{at}", **item.value} for at, item in enumerate(case.assertions) if item.exact]
    expectations = [{"id": f"e{at}", **item.value} for at, item in enumerate(case.assertions) if not item.exact]
    return {
        "id": case.eval_id,
        "prompt": case.prompt,
        "type": "happy_path" if int(case.eval_id[5:]) <= 4 else "edge_case",
        "files": {"input.csv": listing_of(case.task.rows), "notes.txt": "Nothing special this week.\n"},
        "checks": checks,
        "expectations": expectations,
    }


def broken_by(skill: Taught, text: str, script: str = SCRIPT) -> str:
    """What a changed text breaks, told without the gate: by an agent that keeps every rule and has no habits.

    ``check``: an exact check of some case no longer holds; ``expectation``: only expectations do not; ``untested``: the
    work differs, and no assertion sees it; ``nothing``: the work is the same.
    """
    differs, kinds = False, set()
    for case in skill.cases:
        now = done_by(text, case.task, Steady(), skill.name, script)
        differs |= now != done_by(skill.text, case.task, Steady(), skill.name)
        kinds |= {item.exact for item in case.assertions if not item.holds(now)}
    return "check" if True in kinds else "expectation" if kinds else "untested" if differs else "nothing"
