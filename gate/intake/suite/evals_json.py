"""``evals.json`` in the dialects that are in use; which one was found is said in ``Read.dialect``.

| dialect | outermost value | one case |
|---|---|---|
| `skill-creator` | object with `evals` | `id`, `prompt`, `expected_output`, `files`, `expectations` (texts) |
| `agentskills` | object with `evals` | the same with `assertions` (texts or objects) |
| `skillsentry` | list, or object with `cases` | `type`, `precision`, `rule_ref`, exact assertions by `type` |
| `nvidia` | list | `question`, `ground_truth`, `expected_behavior` |

All names are understood in all of them: people mix them (cases/README.md A6, B 27). A check that is not understood is an
error that blocks, because a suite whose check vanished would be a wrong green.
"""

from __future__ import annotations

import posixpath
from typing import Any

from gate.domain.base import Json
from gate.domain.skill import Skill, SkillFile
from gate.domain.suite import Case, CaseType, FixtureFile
from gate.intake.json_text import Lines, decoded, parse_json
from gate.intake.notes import Notes, nearest, short
from gate.intake.suite import building
from gate.intake.suite.assertions import Assertions
from gate.intake.suite.building import Complaint
from gate.intake.suite.mcp import read_servers
from gate.intake.suite.skill_gate_yaml import Read
from gate.intake.yaml_text import Node, wrapped

FILE_NAME = "evals.json"

_CONTAINERS = ("evals", "cases", "test_cases")
_PROMPTS = ("prompt", "question", "query", "input")
_EXPECTED = ("expected_output", "ground_truth", "expected")
_NAMES = ("name", "display_name", "eval_name", "title")
CHECK_KEYS = (
    "expectations", "assertions", "expected_behavior", "checks", "rubric", "criteria", "success_criteria",
    "tools_required", "tools_forbidden", "critical_params", "reply_contains", "reply_not_contains", "min_reply_length",
)  # fmt: skip
_REFUSED = ("deterministic", "deterministic_assertions", "graders", "judge", "multi_turn", "turns")
"""Keys that judge a case in a way that this reader does not know: said, never dropped."""
_OTHERS = (
    "id", "eval_id", "type", "source", "tag", "risk", "risk_level", "files", "mcp_servers", "skip_without_skill",
    "skip_reason", "should_trigger", "expected_skill", "expected_script", "expected_workflow", "expected_test",
    "acceptable_skills", "precision", "rule_ref", "feishu_record_id", "route_expected", "no_route_expected",
    "allowed_skills", "forbidden_skills", "route_confidence_min", "security_family", "attack_surface",
    "expected_guardrail", "gate_level", "category", "tags", "description", "notes", "severity",
)  # fmt: skip
_KNOWN = (*_PROMPTS, *_EXPECTED, *_NAMES, *CHECK_KEYS, *_REFUSED, *_OTHERS)


def read(file: SkillFile, skill: Skill, notes: Notes) -> Read:
    """Every case of the file that can be run; everything that is wrong becomes a finding."""
    text, problem = decoded(file.data)
    parsed = parse_json(text) if problem is None else None
    for item in (problem,) if problem else parsed.problems if parsed else ():
        remedy = item.remedy
        if text.strip().endswith(".json") and "\n" not in text.strip():
            remedy = "The file holds a path: it looks like a link that was checked out without link support."
        notes.block("json", item.message, line=item.line, column=item.column, remedy=remedy)
    if notes.blocked or parsed is None:
        return Read("agentskills", (), frozenset())
    items, lines = _items(parsed.value, text, notes)
    _skill_name(parsed.value, skill, notes)
    return _Reader(items, lines, file, skill, notes).read(parsed.value)


def _items(value: Json, text: str, notes: Notes) -> tuple[list[Json], list[int]]:
    if isinstance(value, list):
        return value, Lines(text).of_items()
    if isinstance(value, dict):
        for key in _CONTAINERS:
            if isinstance(value.get(key), list):
                return value[key], Lines(text).of_items(key)
            if key in value:
                notes.block("not-understood", f"{key} is {_kind(value[key])}; a list of cases was expected", line=1)
                return [], []
        if any(key in value for key in _PROMPTS) and any(key in value for key in CHECK_KEYS):
            notes.notice("single-case", "the file holds one case without a list; it is read as a list of one", line=1)
            return [value], [1]
    keys = (
        f"an object with {', '.join(short(key, 30) for key in list(value)[:6])}"
        if isinstance(value, dict)
        else _kind(value)
    )
    notes.block(
        "not-understood",
        f"the format is not understood: found {keys or 'an empty object'}; a list of cases, or an object with evals or "
        "cases, was expected",
        line=1,
        remedy='Write {"skill_name": "…", "evals": [{"id": 1, "prompt": "…", "expectations": ["…"]}]}.',
    )
    return [], []


def _skill_name(value: Json, skill: Skill, notes: Notes) -> None:
    given = value.get("skill_name", value.get("skill")) if isinstance(value, dict) else None
    if isinstance(given, str) and given not in (skill.name, posixpath.basename(skill.path)):
        notes.warn(
            "skill-name",
            f'the suite names the skill "{short(given)}", which is neither its name nor its folder',
            line=1,
        )


class _Reader:
    def __init__(self, items: list[Json], lines: list[int], file: SkillFile, skill: Skill, notes: Notes) -> None:
        self._items = items
        self._lines = lines
        self._folder = posixpath.dirname(file.path)
        self._skill = skill
        self._notes = notes
        self._line: int | None = None
        self._label = ""
        self._trigger_only = 0

    def read(self, outermost: Json) -> Read:
        """All cases."""
        found: list[Case] = []
        without_id: set[str] = set()
        seen: dict[str, int] = {}
        for position, item in enumerate(self._items, 1):
            self._line = self._lines[position - 1] if position <= len(self._lines) else None
            self._label = f"case {position}: "
            if not isinstance(item, dict):
                self._complain(f"this is {_kind(item)}; an object was expected")
                continue
            eval_id = self._id(item, position, without_id)
            self._label = f'case "{short(eval_id)}": '
            if eval_id in seen:
                self._complain(f"the id is there twice (first in case {seen[eval_id]})", "Ids must be unique.")
                continue
            seen[eval_id] = position
            case = self._case(item, eval_id)
            if case:
                found.append(case)
        self._line = None
        if self._trigger_only:
            self._notes.notice(
                "trigger-cases", f"{self._trigger_only} trigger cases are not run by this version (they have no checks)"
            )
        return Read(_dialect(outermost, self._items), tuple(found), frozenset(without_id))

    def _id(self, item: dict[str, Json], position: int, without_id: set[str]) -> str:
        given = item.get("id", item.get("eval_id"))
        if isinstance(given, bool) or not isinstance(given, str | int | float | None):
            self._complain(f"id is {_kind(given)}; text or a number was expected")
        elif given is not None and str(given).strip():
            return str(given).strip()
        without_id.add(f"case-{position}")
        return f"case-{position}"

    def _case(self, item: dict[str, Json], eval_id: str) -> Case | None:
        before = sum(finding.blocks for finding in self._notes.items)
        self._keys(item)
        if "should_trigger" in item and not any(item.get(key) for key in CHECK_KEYS):
            self._trigger_only += 1
            return None
        prompt = next((item[key] for key in _PROMPTS if isinstance(item.get(key), str) and item[key].strip()), None)
        if prompt is None:
            self._complain(f"there is no prompt (text under one of {', '.join(_PROMPTS)})", "Add a prompt.")
        assertions = Assertions(item)
        for complaint in assertions.complaints:
            self._complain(complaint.message, complaint.remedy)
        servers = (
            read_servers(wrapped(item["mcp_servers"], self._line or 1), self._about_node)
            if "mcp_servers" in item
            else ()
        )
        files = self._files(item)
        if prompt is None or sum(finding.blocks for finding in self._notes.items) > before:
            return None
        if not assertions.checks and not assertions.expectations:
            self._notes.warn(
                "case-measures-nothing",
                f"{self._label}it has no check and no expectation"
                + (", only an expected output" if any(item.get(key) for key in _EXPECTED) else "")
                + ", so it measures nothing and is left out",
                line=self._line,
                remedy="Add expectations.",
            )
            return None
        return building.finished(
            Case(
                eval_id=eval_id,
                name=next((item[key].strip() for key in _NAMES if isinstance(item.get(key), str)), ""),
                prompt=prompt,
                type=self._type(item),
                risk=_risk(item),
                tag=_text(item, "tag"),
                source=_text(item, "source"),
                files=files,
                checks=assertions.checks,
                expectations=assertions.expectations,
                mcp_servers=servers,
                skip_without_skill=self._flag(item, "skip_without_skill"),
                skip_reason=_text(item, "skip_reason"),
                expected_output=next((text for key in _EXPECTED if (text := _text(item, key))), None),
                line=self._line,
            )
        )

    def _keys(self, item: dict[str, Json]) -> None:
        unknown = []
        for key, value in item.items():
            if key in _REFUSED and value:
                self._complain(
                    f"{key} judges the case in a way that this version does not read", "Write expectations or checks."
                )
            elif key not in _KNOWN:
                likely = nearest(key, _KNOWN)
                if likely in CHECK_KEYS:
                    self._complain(
                        f'"{short(key)}" is an unknown key; did you mean {likely}?', f"Rename it to {likely}."
                    )
                else:
                    unknown.append(f'"{short(key, 40)}"' + (f" (did you mean {likely}?)" if likely else ""))
        if unknown:
            self._notes.notice(
                "unknown-keys", f"{self._label}keys that are not read: {', '.join(unknown)}", line=self._line
            )

    def _type(self, item: dict[str, Json]) -> CaseType:
        given = item.get("type")
        word = str(given).strip().lower().replace("-", "_").replace(" ", "_") if given is not None else ""
        if word in tuple(CaseType):
            return CaseType(word)
        if word:
            self._notes.warn(
                "case-type", f'{self._label}type "{short(given)}" is unknown, so the case counts as happy_path; known are '
                f"{', '.join(CaseType)}", line=self._line,
            )  # fmt: skip
        return CaseType.NEGATIVE if item.get("should_trigger") is False else CaseType.HAPPY_PATH

    def _flag(self, item: dict[str, Json], key: str) -> bool:
        value = item.get(key)
        if value is not None and not isinstance(value, bool):
            self._notes.warn(
                "flag", f"{self._label}{key} is {_kind(value)}; true or false was expected", line=self._line
            )
        return value is True

    def _files(self, item: dict[str, Json]) -> tuple[FixtureFile, ...]:
        references = item.get("files")
        if references is None:
            return ()
        if not isinstance(references, list):
            self._complain(f"files is {_kind(references)}; a list of paths was expected")
            return ()
        made: dict[str, FixtureFile] = {}
        for reference in references:
            try:
                found = building.referenced(self._skill, self._folder, reference)
            except Complaint as complaint:
                self._notes.warn(
                    "file-missing",
                    f"{self._label}{complaint.message}; the case is run without it",
                    line=self._line,
                    remedy=complaint.remedy,
                )
                continue
            for below, file in found:
                clean = posixpath.normpath(str(reference))
                path = building.destination(posixpath.join(clean, below) if below else clean)
                if path in made:  # two references with the same end: the whole reference tells them apart
                    path = posixpath.join(clean, below) if below else clean
                made[path] = building.fixture(file, path)
        return tuple(made.values())

    def _about_node(self, message: str, node: Node, remedy: str) -> None:
        self._complain(message, remedy)

    def _complain(self, message: str, remedy: str = "") -> None:
        self._notes.block("invalid", f"{self._label}{message}", line=self._line, remedy=remedy)


def _dialect(outermost: Json, items: list[Json]) -> str:
    keys = {key for item in items if isinstance(item, dict) for key in item}
    if isinstance(outermost, list):
        return "nvidia" if keys & {"question", "ground_truth", "expected_behavior", "expected_skill"} else "skillsentry"
    if isinstance(outermost, dict) and "cases" in outermost and "evals" not in outermost:
        return "skillsentry"
    return "skill-creator" if "expectations" in keys and "assertions" not in keys else "agentskills"


def _risk(item: dict[str, Json]) -> Any:
    risk = item.get("risk")
    if risk in ("low", "normal", "high"):
        return risk
    return "high" if str(item.get("risk_level", "")).strip().upper() == "P0" else "normal"


def _text(item: dict[str, Json], key: str) -> str | None:
    value = item.get(key)
    return value.strip() or None if isinstance(value, str) else None


def _kind(value: Json) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")
