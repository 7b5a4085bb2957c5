"""A skill's evals: found in its folder (and tied to it by name elsewhere), read in every dialect, united into one Suite."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gate.domain.findings import Finding, Level
from gate.domain.numbers import counted
from gate.domain.skill import Skill, SkillFile
from gate.domain.suite import UNWRITTEN_PROMPT, Case, Suite, SuiteSource, TriggerCase
from gate.intake.notes import Notes, joined, short
from gate.intake.suite import (
    agent_crucible,
    axis,
    cases_md,
    documents,
    dotnet_scenarios,
    evals_json,
    must_find,
    nvidia_expects,
    openai_evaluations,
    plugin_eval,
    skill_eval_harness,
    skill_gate_yaml,
    skill_lens,
    skillgrade,
    skillproof,
    table,
    tool_settings,
    triggers,
    uipath,
    vally,
    waza,
)
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.lint import lint
from gate.intake.suite.removals import suite_removals
from gate.intake.suite_places import EVAL_ENDS, FILE_NAMES, FOLDERS, LOOSE, PLACES, rank_of
from gate.intake.yaml_text import Node, Problem

__all__ = [
    "DIALECTS",
    "Reading",
    "read_evals",
    "read_suite",
    "suite_removals",
]

MAX_SUITE_BYTES = 8 * 1024 * 1024
MAX_CASES = 5_000
"""In one file; the largest real one has 169."""

DIALECTS: tuple[Dialect, ...] = (
    skill_gate_yaml.DIALECT,
    cases_md.DIALECT,
    vally.DIALECT,
    dotnet_scenarios.DIALECT,
    skillgrade.DIALECT,
    waza.DIALECT,
    plugin_eval.DIALECT,
    uipath.DIALECT,
    must_find.DIALECT,
    axis.DIALECT,
    skill_eval_harness.DIALECT,
    skillproof.DIALECT,
    skill_lens.DIALECT,
    agent_crucible.DIALECT,
    nvidia_expects.DIALECT,
    waza.TASK,
    triggers.DIALECT,
    openai_evaluations.DIALECT,
    table.DIALECT,
    evals_json.DIALECT,
)
"""The first that claims a document reads it: shapes that say more come before shapes that say less."""


class Reading(NamedTuple):
    """Everything that was found about a skill's evals."""

    suite: Suite | None
    """None where nothing can be run. A set of trigger queries alone is a suite without cases."""
    findings: tuple[Finding, ...]
    triggers: tuple[TriggerCase, ...] = ()
    sources: tuple[SuiteSource, ...] = ()
    """Every file that was read, also where it gave nothing."""


def read_suite(skill: Skill, outside: Sequence[Skill] = ()) -> tuple[Suite | None, tuple[Finding, ...]]:
    """The suite of a skill, or None where nothing of it can be run. See ``read_evals``."""
    reading = read_evals(skill, outside)
    return reading.suite, reading.findings


def read_evals(skill: Skill, outside: Sequence[Skill] = ()) -> Reading:
    """Everything about the evals of a skill. Never raises.

    Looked for: ``evals/skill-gate.yaml`` (or ``.yml``), ``evals/evals.json``, ``evals.json``, then every other file that
    looks like evals; cases of all are united, and the file named first wins an id that two files use. ``outside``: folders
    elsewhere that are tied to the skill, as copies of it with their own ``path`` and ``files`` (``outside.tied``).

    A finding that blocks means that the suite cannot be judged by as its author wrote it. Files that look like evals and
    are not understood are named, never passed over.
    """
    findings: list[Finding] = []
    read: list[tuple[Source, Read]] = []
    for room in (skill, *outside):
        found, said = _Room(room, skill, inside=room is skill).read()
        findings += said
        for source, result in found:
            written, unwritten = _written(source, result)
            read.append((source, written))
            findings += unwritten
    if not read:
        return Reading(None, tuple(findings))
    notes = Notes(read[0][0].path, "suite")
    cases, owners = _united(read, notes)
    found_triggers = tuple(item for _, result in read for item in result.triggers)
    sources = tuple(
        SuiteSource(
            path=source.path,
            dialect=result.dialect,
            cases=tuple(name for name, owner in owners.items() if owner is source),
            triggers=len(result.triggers),
        )
        for source, result in read
    )
    if not cases and not found_triggers and not any(item.level is Level.ERROR for item in findings):
        notes.warn(
            "no-case",
            "the suite holds no case that can be run, so it is no evidence",
            remedy="Add a case with a prompt and a check or an expectation.",
        )
    findings += notes.items
    if not cases and not found_triggers:
        return Reading(None, tuple(findings), found_triggers, sources)
    if cases:
        findings += lint(cases, {name: source.path for name, source in owners.items()})
    first, result = next((source, item) for source, item in read if (item.cases if cases else item.triggers))
    suite = Suite(
        path=first.path,
        dialect=result.dialect,
        cases=cases,
        generated=any(item.generated for _, item in read),
        triggers=found_triggers,
        sources=sources,
    )
    return Reading(suite, tuple(findings), found_triggers, sources)


def _written(source: Source, result: Read) -> tuple[Read, tuple[Finding, ...]]:
    """Without the cases of a skeleton that nobody has written yet, and a finding for each: a run of one would be a number
    about a question that nobody asks."""
    missing = [case for case in result.cases if _is_unwritten(case, generated=result.generated)]
    notes = Notes(joined(source.skill.path, source.file.path), "suite")
    for case in missing:
        notes.error(
            "unwritten",
            f'the prompt of case "{short(case.eval_id, 60)}" is still the TODO of a skeleton, so the case is not run',
            line=case.line,
            remedy="Write what somebody would ask who has not heard of the skill, then remove the line generated.",
        )
    return result._replace(cases=tuple(case for case in result.cases if case not in missing)), notes.all()


def _is_unwritten(case: Case, *, generated: bool) -> bool:
    prompt = case.prompt.strip()
    return prompt.startswith(UNWRITTEN_PROMPT) or (generated and prompt.startswith("TODO:"))


class _Room:
    """One folder with evals: the skill's own, or one that is tied to it."""

    def __init__(self, room: Skill, skill: Skill, *, inside: bool) -> None:
        self._room = room
        self._own = None if inside else skill
        self._inside = inside
        self._name = skill.name if skill.path == "." else posixpath.basename(skill.path)
        self._findings: list[Finding] = []

    def read(self) -> tuple[list[tuple[Source, Read]], list[Finding]]:
        """Every file that a dialect claims, in the order of precedence, and the findings."""
        ranked = sorted(
            (rank, file.path.count("/"), file.path, file)
            for file in self._room.files
            if (rank := rank_of(file.path.lower(), inside=self._inside)) is not None
        )
        if self._inside:
            self._say_unread(anything=bool(ranked))
        if not ranked:
            return [], self._findings
        siblings: dict[str, Node] = {}
        parsed: list[tuple[int, SkillFile, Node | None, tuple[Problem, ...]]] = []
        for rank, _, path, file in ranked:
            root, problems = self._parse(file)
            parsed.append((rank, file, root, problems))
            if root is not None:
                siblings[path] = root
        used: set[str] = set()
        claimed: list[tuple[int, Source, Read]] = []
        unclaimed: list[tuple[int, Source | SkillFile, tuple[Problem, ...]]] = []
        for rank, file, root, problems in parsed:
            if file.path in used:
                continue
            if root is None:
                unclaimed.append((rank, file, problems))
                continue
            notes = Notes(joined(self._room.path, file.path), "suite")
            source = Source(file, self._room, notes, root, used, siblings, self._own, self._name)
            other = tool_settings.suite_of_another_tool(source)
            if other is not None and rank >= len(PLACES):
                self._say_other(file, other)
                continue
            dialect = next((item for item in DIALECTS if item.claims(source)), None)
            if dialect is None:
                unclaimed.append((rank, source, ()))
            else:
                claimed.append((rank, source, dialect.read(source)))
        fixtures = {item.data for _, _, found in claimed for case in found.cases for item in case.files}
        kept = []
        for rank, source, found in claimed:
            # A file that a case hands to the agent is data, whatever it looks like.
            if rank < len(PLACES) or source.file.data not in fixtures:
                kept.append((source, found))
                self._findings += source.notes.items
        self._say_unclaimed(unclaimed, used, fixtures)
        return kept, self._findings

    def _say_other(self, file: SkillFile, tool: str) -> None:
        notes = Notes(joined(self._room.path, file.path), "suite")
        notes.warn(
            "other-tool",
            f"this is a suite of {tool}, which is named and not read: nothing in it judges the skill",
            remedy="Write its cases in evals/skill-gate.yaml: each with a prompt and checks or expectations.",
        )
        self._findings += notes.items

    def _say_unread(self, *, anything: bool) -> None:
        """Files that no rank is for. Somebody wrote evals and none was found: never the same as no evals."""
        for file in self._room.files:
            other = tool_settings.named_by_another_tool(file.path)
            if other is not None and file.is_regular and rank_of(file.path.lower()) is None:
                self._say_other(file, other)
        if anything:
            return
        left = [
            file.path
            for file in self._room.files
            if file.path.lower().split("/", maxsplit=1)[0] in FOLDERS and file.path.lower().endswith(EVAL_ENDS)
        ]
        if left:
            notes = Notes(joined(self._room.path, left[0].split("/", maxsplit=1)[0]), "suite")
            more = f" and {len(left) - 10} more" if len(left) > 10 else ""
            notes.warn(
                "none-found",
                f"no file here is where a suite is looked for, so the skill has no evals: {', '.join(short(path, 60) for path in left[:10])}{more}",
                remedy="Put the cases into evals/skill-gate.yaml or evals/evals.json, or into evals/cases/, one a file.",
            )
            self._findings += notes.items

    def _parse(self, file: SkillFile) -> tuple[Node | None, tuple[Problem, ...]]:
        if not file.is_regular:
            return None, (Problem("the suite is a link; links are never followed", None, None, "Commit a plain file."),)
        if file.size_bytes > MAX_SUITE_BYTES or file.size_bytes != len(file.data):
            return None, (Problem(f"the suite has {file.size_bytes} bytes; at most {MAX_SUITE_BYTES} are read"),)
        root, text, problems = documents.parse_document(file)
        lists = [root] if root and root.is_list else list(root.value.values()) if root and root.is_map else []
        most = max((len(item.value) for item in lists if item.is_list), default=0)
        if most > MAX_CASES:
            return None, (Problem(f"this holds a list of {most} entries; at most {MAX_CASES} are read", 1),)
        if root is None and not problems and _is_ours(file):
            root = Node(1, 1, None)
        if problems and text.strip().endswith(".json") and "\n" not in text.strip():
            remedy = "The file holds a path: it looks like a link that was checked out without link support."
            problems = tuple(item._replace(remedy=remedy) for item in problems)
        return root, problems

    def _say_unclaimed(
        self,
        unclaimed: Sequence[tuple[int, Source | SkillFile, tuple[Problem, ...]]],
        used: set[str],
        fixtures: set[bytes],
    ) -> None:
        others: list[str] = []
        for rank, item, problems in unclaimed:
            file = item.file if isinstance(item, Source) else item
            if file.path in used or (rank >= len(PLACES) and file.data in fixtures):
                continue
            notes = Notes(joined(self._room.path, file.path), "suite")
            if problems:
                self._say_problems(file, problems, notes, sure=rank < LOOSE)
            elif isinstance(item, Source) and (words := tool_settings.recognised(item)) and rank >= len(PLACES):
                notes.notice("not-a-suite", f"this is {words}; nothing in it judges a case here")
            elif isinstance(item, Source) and rank < len(PLACES):
                _not_understood(item, notes)
            else:
                keys = ", ".join(short(key, 24) for key in sorted(item.outer())[:4]) if isinstance(item, Source) else ""
                others.append(f"{short(file.path, 60)} ({f'keys {keys}' if keys else 'no keys'})")
            self._findings += notes.items
        if others:
            notes = Notes(joined(self._room.path, "evals" if self._inside else ""), "suite")
            more = " …" if len(others) > 10 else ""
            notes.notice(
                "not-read",
                f"{len(others)} files look like evals in a format that is not understood: {', '.join(others[:10])}{more}",
                remedy="Move the cases into evals/skill-gate.yaml or evals/evals.json.",
            )
            self._findings += notes.items

    def _say_problems(self, file: SkillFile, problems: tuple[Problem, ...], notes: Notes, *, sure: bool) -> None:
        rule, words = ("link", "") if not file.is_regular else ("too-large", "")
        if file.is_regular and file.size_bytes == len(file.data) <= MAX_SUITE_BYTES:
            end = posixpath.splitext(file.path)[1].lower().lstrip(".")
            rule = {"yml": "yaml", "jsonl": "json", "ndjson": "json"}.get(end, end)
            words = "the suite is not valid YAML: " if rule == "yaml" else ""
        for item in problems:
            if sure:
                notes.block(rule, words + item.message, line=item.line, column=item.column, remedy=item.remedy)
            else:
                notes.warn(rule, f"{words}{item.message}; if it holds evals, they are not read", line=item.line)


def _is_ours(file: SkillFile) -> bool:
    return posixpath.basename(file.path).lower() in FILE_NAMES


def _not_understood(source: Source, notes: Notes) -> None:
    root = source.root
    for key in evals_json.CONTAINERS:
        if key in source.outer() and not root.value[key].is_list:
            kind = evals_json.kind_of(root.value[key])
            notes.block("not-understood", f"{key} is {kind}; a list of cases was expected", line=1)
            return
    keys = ", ".join(short(key, 30) for key in list(root.value)[:6]) if root.is_map else ""
    found = f"an object with {keys}" if keys else "an empty object" if root.is_map else evals_json.kind_of(root)
    notes.block(
        "not-understood",
        f"the format is not understood: found {found}; a list of cases, or an object with evals or cases, was expected",
        line=1,
        remedy='Write {"skill_name": "…", "evals": [{"id": 1, "prompt": "…", "expectations": ["…"]}]}.',
    )


def _united(read: Sequence[tuple[Source, Read]], notes: Notes) -> tuple[tuple[Case, ...], dict[str, Source]]:
    """All cases, and where each is from. An id that nobody chose gives way, so that no case is lost by it."""
    cases: dict[str, Case] = {}
    owners: dict[str, Source] = {}
    for source, item in read:
        twice = []
        for case in item.cases:
            if case.eval_id not in cases:
                cases[case.eval_id], owners[case.eval_id] = case, source
            elif case.digest == cases[case.eval_id].digest:
                continue  # the same case in two files
            elif case.eval_id in item.without_id:
                name = next(_other_names(case.eval_id, source.file.path, cases))
                cases[name] = case.model_copy(update={"eval_id": name})
                owners[name] = source
            else:
                twice.append(case.eval_id)
        if twice:
            ids = ", ".join(f'"{short(eval_id, 40)}"' for eval_id in twice[:10])
            notes.notice(
                "same-id",
                f"{counted(len(twice), 'id')} of cases in {source.file.path} {'is' if len(twice) == 1 else 'are'} used by {owners[twice[0]].file.path} too, which "
                f"wins: {ids}",
                remedy="Use different ids to keep both.",
            )
    return tuple(cases.values()), owners


def _other_names(eval_id: str, path: str, taken: dict[str, Case]) -> Iterator[str]:
    name = f"{eval_id}-of-{posixpath.basename(path).lower().replace('.', '-')}"
    number = 1
    while True:
        found = name if number == 1 else f"{name}-{number}"
        if found not in taken:
            yield found
        number += 1
