"""``evals.json`` (and the same in YAML or JSON lines) in the dialects that are in use; ``Read.dialect`` says which was found.

| dialect | outermost value | one case |
|---|---|---|
| `skill-creator` | object with `evals` | `id`, `prompt`, `expected_output`, `files`, `expectations` (texts) |
| `agentskills` | object with `evals` | the same with `assertions` (texts or objects) |
| `skillsentry` | list, or object with `cases` | `type`, `precision`, `rule_ref`, exact assertions by `type` |
| `nvidia` | list, or object with `evals` | `question`, `ground_truth`, `expected_behavior`, `expected_skill` |
| `acceptance` | object with `cases` | `name`, `prompt`, `acceptance` (texts or objects) |

All names are understood in all of them: people mix them (cases/README.md A6, B 27). A check that is not understood is an
error that blocks, because a suite whose check vanished would be a wrong green. ``should_trigger``, the route fields and an
``expected_skill`` that is another one give trigger cases beside what else a case asserts.
"""

from __future__ import annotations

import posixpath
from typing import Any

from gate.domain.base import Json, Severity
from gate.domain.suite import Case, CaseType, FixtureFile, Guard, TriggerCase
from gate.intake.notes import nearest, short
from gate.intake.suite import building
from gate.intake.suite.assertions import Assertions
from gate.intake.suite.building import Complaint
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import say_triggers
from gate.intake.suite.mcp import read_servers
from gate.intake.yaml_text import Node, plain, wrapped

CONTAINERS = ("evals", "cases", "test_cases")
_PROMPTS = ("prompt", "question", "query", "input")
_EXPECTED = ("expected_output", "ground_truth", "expected")
_NAMES = ("name", "display_name", "eval_name", "title")
CHECK_KEYS = (
    "expectations", "assertions", "expected_behavior", "checks", "rubric", "criteria", "success_criteria", "acceptance",
    "tools_required", "tools_forbidden", "critical_params", "reply_contains", "reply_not_contains", "min_reply_length",
)  # fmt: skip
_ROUTING = frozenset(
    (
        "should_trigger",
        "route_expected",
        "no_route_expected",
        "allowed_skills",
        "forbidden_skills",
        "route_confidence_min",
    )
)
_REFUSED = ("deterministic", "deterministic_assertions", "graders", "judge", "multi_turn", "turns")
"""Keys that judge a case in a way that this reader does not know: said, never dropped."""
_OTHERS = (
    "id", "eval_id", "type", "source", "tag", "risk", "risk_level", "files", "mcp_servers", "skip_without_skill",
    "skip_reason", "should_trigger", "expected_skill", "expected_script", "expected_workflow", "expected_test",
    "acceptable_skills", "precision", "rule_ref", "feishu_record_id", "route_expected", "no_route_expected",
    "allowed_skills", "forbidden_skills", "route_confidence_min", "security_family", "attack_surface",
    "expected_guardrail", "gate_level", "category", "tags", "description", "notes", "severity", "force_skill_invocation",
    "side_effect_level", "stage_files",
)  # fmt: skip
_KNOWN = (*_PROMPTS, *_EXPECTED, *_NAMES, *CHECK_KEYS, *_REFUSED, *_OTHERS)


def _claims(source: Source) -> bool:
    root = source.root
    if root.is_list:
        return all(not item.is_map or bool(set(item.value) & {*_PROMPTS, *CHECK_KEYS}) for item in root.value)
    if not root.is_map:
        return False
    held = next((root.value[key] for key in CONTAINERS if key in root.value), None)
    if held is not None:
        return held.is_list and all(
            not item.is_map or bool(set(item.value) & {*_PROMPTS, *CHECK_KEYS}) for item in held.value
        )
    return any(key in root.value for key in _PROMPTS) and any(key in root.value for key in CHECK_KEYS)


def _read(source: Source) -> Read:
    """Every case of the file that can be run; everything that is wrong becomes a finding."""
    items = _items(source)
    _skill_name(source)
    return _Reader(items, source).read()


def _items(source: Source) -> list[tuple[Json, int]]:
    root = source.root
    if root.is_map:
        for key in CONTAINERS:
            if key in root.value:
                root = root.value[key]
                break
        else:
            source.notes.notice(
                "single-case", "the file holds one case without a list; it is read as a list of one", line=1
            )
            return [(plain(root), root.line)]
    return [(plain(item), item.line) for item in root.value]


def _skill_name(source: Source) -> None:
    outer = source.root.value if source.root.is_map else {}
    found = outer.get("skill_name", outer.get("skill"))
    given = found.value if found is not None else None
    if isinstance(given, str) and given not in (source.skill.name, source.name):
        source.notes.warn(
            "skill-name",
            f'the suite names the skill "{short(given)}", which is neither its name nor its folder',
            line=1,
        )


class _Reader:
    def __init__(self, items: list[tuple[Json, int]], source: Source) -> None:
        self._items = items
        self._source = source
        self._folder = posixpath.dirname(source.file.path)
        self._skill = source.skill
        self._notes = source.notes
        self._line: int | None = None
        self._label = ""
        self._triggers: list[TriggerCase] = []

    def read(self) -> Read:
        """All cases."""
        found: list[Case] = []
        without_id: set[str] = set()
        seen: dict[str, int] = {}
        ids = building.Ids(_given_id(item) for item, _ in self._items if isinstance(item, dict))
        for position, (item, line) in enumerate(self._items, 1):
            self._line = line
            self._label = f"case {position}: "
            if not isinstance(item, dict):
                self._complain(f"this is {_kind(item)}; an object was expected")
                continue
            given = self._id(item)
            eval_id = given or ids.make(_name(item), _prompt(item) or str(position))
            if given:
                self._label = f'case "{short(eval_id)}": '
            else:
                without_id.add(eval_id)
            if eval_id in seen:
                self._complain(f"the id is there twice (first in case {seen[eval_id]})", "Ids must be unique.")
                continue
            seen[eval_id] = position
            case = self._case(item, eval_id)
            if case:
                found.append(case)
        self._line = None
        say_triggers(self._source, self._triggers)
        dialect = _dialect(self._source.value, [item for item, _ in self._items])
        return Read(dialect, tuple(found), frozenset(without_id), tuple(self._triggers))

    def _id(self, item: dict[str, Json]) -> str:
        given = item.get("id", item.get("eval_id"))
        if isinstance(given, bool) or not isinstance(given, str | int | float | None):
            self._complain(f"id is {_kind(given)}; text or a number was expected")
        return _given_id(item)

    def _trigger(self, item: dict[str, Json], eval_id: str, prompt: str) -> None:
        """What a case says about whether the skill should be opened."""
        mine = {self._source.name.lower(), self._skill.name.lower()}

        def names(key: str) -> bool:
            value = item.get(key)
            texts = value if isinstance(value, list) else [value]
            return any(isinstance(text, str) and text.strip().lower() in mine for text in texts)

        should = item.get("should_trigger")
        if should is not None and not isinstance(should, bool):
            self._complain(f"should_trigger is {_kind(should)}; true or false was expected")
            return
        if should is None and item.get("route_expected"):
            should = names("route_expected") if not isinstance(item["route_expected"], bool) else True
        if should is None and (item.get("no_route_expected") is True or names("forbidden_skills")):
            should = False
        other = item.get("expected_skill")
        if should is None and isinstance(other, str) and other.strip() and not names("expected_skill"):
            should = names("acceptable_skills") or None if item.get("acceptable_skills") else False
        if should is not None:
            self._triggers.append(
                TriggerCase(id=eval_id, query=prompt, should_trigger=should, path=self._notes.path, line=self._line)
            )

    def _case(self, item: dict[str, Json], eval_id: str) -> Case | None:
        before = sum(finding.blocks for finding in self._notes.items)
        self._keys(item)
        prompt = _prompt(item)
        if prompt is None:
            self._complain(f"there is no prompt (text under one of {', '.join(_PROMPTS)})", "Add a prompt.")
        else:
            self._trigger(item, eval_id, prompt)
        if _ROUTING & set(item) and not any(item.get(key) for key in (*CHECK_KEYS, "expected_guardrail")):
            return None
        strict = str(item.get("gate_level", "")).strip().lower() == "block"
        assertions = Assertions(_with_guardrail(item), severity=Severity.MUST if strict else Severity.SHOULD)
        for complaint in assertions.complaints:
            self._complain(complaint.message, complaint.remedy)
        given = [key for key in ("expectations", "assertions") if item.get(key)]
        if len(given) > 1:
            self._notes.notice(
                "both-words", f"{self._label}it has expectations and assertions; all of them count", line=self._line,
                remedy="Keep one of the two words.",
            )  # fmt: skip
        servers = (
            read_servers(wrapped(item["mcp_servers"], self._line or 1), self._about_node)
            if "mcp_servers" in item
            else ()
        )
        files = self._files(item)
        if files is None or prompt is None or sum(finding.blocks for finding in self._notes.items) > before:
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
                name=_name(item),
                prompt=prompt,
                type=self._type(item),
                risk=_risk(item),
                guards=_FAMILIES.get(str(item.get("security_family", "")).strip().lower()) if strict else None,
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
        if item.get("security_family"):
            return CaseType.SECURITY
        return CaseType.NEGATIVE if item.get("should_trigger") is False else CaseType.HAPPY_PATH

    def _flag(self, item: dict[str, Json], key: str) -> bool:
        value = item.get(key)
        if value is not None and not isinstance(value, bool):
            self._notes.warn(
                "flag", f"{self._label}{key} is {_kind(value)}; true or false was expected", line=self._line
            )
        return value is True

    def _files(self, item: dict[str, Json]) -> tuple[FixtureFile, ...] | None:
        """The fixtures; None where one is missing or refused, because then the case is not what its author wrote."""
        references = item.get("files")
        if references is None:
            return ()
        if not isinstance(references, list):
            self._complain(f"files is {_kind(references)}; a list of paths was expected")
            return None
        made: dict[str, FixtureFile] = {}
        whole = True
        for reference in references:
            try:
                found = building.referenced(self._skill, self._folder, reference)
            except Complaint as complaint:
                whole = False
                self._notes.error(
                    "case-not-run",
                    f"{self._label}{complaint.message}; the case is left out and is no evidence",
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
        return tuple(made.values()) if whole else None

    def _about_node(self, message: str, node: Node, remedy: str) -> None:
        self._complain(message, remedy)

    def _complain(self, message: str, remedy: str = "") -> None:
        self._notes.block("invalid", f"{self._label}{message}", line=self._line, remedy=remedy)


def _given_id(item: dict[str, Json]) -> str:
    given = item.get("id", item.get("eval_id"))
    return str(given).strip() if isinstance(given, str | int | float) and not isinstance(given, bool) else ""


_FAMILIES = {
    "prompt_injection": Guard.INJECTION,
    "indirect_injection": Guard.INJECTION,
    "multi_turn_induction": Guard.INJECTION,
    "normal_request_disguise": Guard.PERMISSION_BYPASS,
    "tool_overscope": Guard.OVERREACH,
    "secrets_access": Guard.LEAK,
    "exfiltration": Guard.LEAK,
}
"""SkillSentry's families of security cases, as what they guard against; ``recovery_rollback`` is none of the vetoes."""


def _prompt(item: dict[str, Json]) -> str | None:
    return next((item[key] for key in _PROMPTS if isinstance(item.get(key), str) and item[key].strip()), None)


def _name(item: dict[str, Json]) -> str:
    return next((item[key].strip() for key in _NAMES if isinstance(item.get(key), str)), "")


def _with_guardrail(item: dict[str, Json]) -> dict[str, Json]:
    """SkillSentry's security cases name what must hold: prose, so an expectation."""
    guardrail = item.get("expected_guardrail")
    if not isinstance(guardrail, str) or not guardrail.strip():
        return item
    words = guardrail.strip() if " " in guardrail.strip() else guardrail.strip().replace("_", " ")
    held = item.get("expectations")
    texts = [held] if isinstance(held, str) else held if isinstance(held, list) else []
    return {**item, "expectations": [*texts, f"The guardrail holds: {words}"]} if held is None or texts else item


def _dialect(outermost: Json, items: list[Json]) -> str:
    keys = {key for item in items if isinstance(item, dict) for key in item}
    if "acceptance" in keys:
        return "acceptance"
    if isinstance(outermost, list):
        return "nvidia" if keys & {"question", "ground_truth", "expected_behavior", "expected_skill"} else "skillsentry"
    if isinstance(outermost, dict) and "cases" in outermost and "evals" not in outermost:
        return "skillsentry"
    if "question" in keys:
        return "nvidia"
    return "skill-creator" if "expectations" in keys and "assertions" not in keys else "agentskills"


def _risk(item: dict[str, Json]) -> Any:
    risk = item.get("risk")
    if risk in ("low", "normal", "high"):
        return risk
    return "high" if str(item.get("risk_level", "")).strip().upper() == "P0" else "normal"


def _text(item: dict[str, Json], key: str) -> str | None:
    value = item.get(key)
    return value.strip() or None if isinstance(value, str) else None


def kind_of(node: Node) -> str:
    """What a value is, in the words of JSON."""
    return _kind(plain(node))


def _kind(value: Json) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


DIALECT = Dialect("evals", _claims, _read)
