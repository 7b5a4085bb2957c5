"""The checks and expectations of one case of an ``evals.json``: every spelling that is in use, as ours.

A text is an expectation (Layer 2b). An object with a known exact ``type`` is a check (Layer 2a). Anything else is a
complaint, because a check that vanished would be a wrong green.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gate.domain.base import Json, Severity
from gate.domain.checks import CHECK_KINDS, Check
from gate.domain.suite import Expectation
from gate.intake.notes import nearest, short
from gate.intake.suite import building
from gate.intake.suite.building import Complaint

_LISTS = (
    "expectations", "assertions", "expected_behavior", "checks", "rubric", "criteria", "success_criteria", "acceptance",
)  # fmt: skip
_TEXTS = ("text", "description", "expectation", "assertion", "criterion", "check", "name", "phrase")
_PRECISIONS = ("exact_match", "semantic", "existence")
_JUDGED = {"llm", "llm_rubric", "judge", "rubric", "model", "behavior", "behaviour", "qualitative", "manual"}
_ABOUT = {"id", "name", "severity", "rule_ref", "description", "type", "kind", "weight", "precision"}
_SEVERITIES = {"critical": "must", "required": "must", "high": "must", "medium": "should", "low": "info"}

# Names of other tools for our kinds, and under which of their keys the parameter may stand.
_ALIASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "contains": ("response_contains", "keyword", ("keyword", "value", "pattern", "phrase", "expected", "text")),
    "not_contains": ("response_not_contains", "pattern", ("pattern", "value", "keyword", "phrase", "expected", "text")),
    "matches": ("response_matches", "pattern", ("pattern", "value", "regex", "expected", "text")),
    "not_matches": ("response_not_matches", "pattern", ("pattern", "value", "regex", "expected", "text")),
    "file_exists": ("file_exists", "path", ("path", "file", "value", "pattern", "expected")),
    "file_absent": ("file_absent", "path", ("path", "file", "value", "expected")),
    "equals": ("response_equals", "text", ("value", "expected", "text")),
}
_SPELLINGS = {
    "contains": "contains", "output_contains": "contains", "includes": "contains", "response_contains": "contains",
    "not_contains": "not_contains", "output_not_contains": "not_contains", "excludes": "not_contains",
    "response_not_contains": "not_contains",
    "regex": "matches", "matches": "matches", "output_matches": "matches", "pattern": "matches",
    "not_regex": "not_matches", "not_matches": "not_matches", "output_not_matches": "not_matches",
    "file_exists": "file_exists", "file_not_exists": "file_absent", "equals": "equals", "output_equals": "equals",
}  # fmt: skip
_LITERAL = {"contains": "matches", "not_contains": "not_matches"}
_REGEX_SIGNS = re.compile(r"[\\|*+?^$\[\](){}]")


class Assertions:
    """What a case asserts. Read at once; ``complaints`` holds everything that was not understood."""

    def __init__(self, case: Mapping[str, Json], *, severity: Severity = Severity.SHOULD) -> None:
        """``severity``: of an expectation that gives none."""
        self.complaints: list[Complaint] = []
        self._severity = severity
        self._texts: set[str] = set()
        self._checks: list[Check] = []
        self._expectations: list[Expectation] = []
        for key in _LISTS:
            self._list(key, case.get(key))
        self._shorthands(case)
        self.checks: tuple[Check, ...] = self._numbered_checks()
        self.expectations: tuple[Expectation, ...] = self._numbered_expectations()

    def _list(self, key: str, value: Json) -> None:
        if value is None:
            return
        if isinstance(value, str):
            value = [value]  # iterating a text would give letters
        elif (
            isinstance(value, dict)
            and key in ("rubric", "criteria")
            and all(isinstance(v, str) for v in value.values())
        ):
            value = [{"name": name, "text": text} for name, text in value.items()]
        if not isinstance(value, list):
            self.complaints.append(Complaint(f"{key} is not a list", remedy="Write a list of texts."))
            return
        if len(value) > building.MAX_ASSERTIONS:
            message = f"{key} holds {len(value)} entries; at most {building.MAX_ASSERTIONS} are read"
            self.complaints.append(Complaint(message, remedy="Write several cases."))
            return
        for position, item in enumerate(value, 1):
            try:
                self._item(item)
            except Complaint as complaint:
                self.complaints.append(Complaint(f"{key} {position}: {complaint.message}", remedy=complaint.remedy))

    def _item(self, item: Json) -> None:
        if isinstance(item, str):
            if not item.strip():
                raise Complaint("the text is empty")
            self._expect(item.strip(), {})
        elif isinstance(item, dict):
            self._object(item)
        else:
            raise Complaint(f'"{short(item)}" is neither text nor an object')

    def _object(self, item: dict[str, Json]) -> None:
        kind = item.get("kind", item.get("type"))
        word = str(kind).strip().lower().replace("-", "_") if kind is not None else ""
        if word in _PRECISIONS or word in _JUDGED:
            self._expect(_text_of(item), {**item, "precision": word if word in _PRECISIONS else item.get("precision")})
        elif not word and ("cmd" in item or "command" in item):
            command = {"run": item.get("cmd", item.get("command")), "expect_exit": item.get("expect_exit", 0)}
            rest = {
                key: value
                for key, value in item.items()
                if key not in ("cmd", "command", "expect_exit", "check", "text")
            }
            about = {**rest, "description": item.get("check", item.get("text", item.get("description", "")))}
            self._check("command", {**command, **_parameters_of(rest)}, about)
        elif not word:
            unknown = [key for key in item if key not in _ABOUT and key not in _TEXTS]
            if unknown:
                raise Complaint(
                    f"an assertion without type has keys that are not understood: {', '.join(short(k, 40) for k in unknown[:5])}",
                    remedy="Give it a type, or keep only its text.",
                )
            self._expect(_text_of(item), item)
        elif word in CHECK_KINDS and self._fits(word, item):
            self._check(word, _parameters_of(item), item)
        elif word in _SPELLINGS:
            self._alias(_SPELLINGS[word], item)
        elif word in CHECK_KINDS:
            self._check(word, _parameters_of(item), item)
        else:
            likely = nearest(word, (*CHECK_KINDS, *_SPELLINGS, *_PRECISIONS))
            hint = (
                f"did you mean {likely}?"
                if likely
                else f"known are {', '.join(CHECK_KINDS)} and {', '.join(_PRECISIONS)}"
            )
            raise Complaint(f'the type "{short(kind)}" is not known; {hint}', remedy="Use a known type, or plain text.")

    def _fits(self, kind: str, item: dict[str, Json]) -> bool:
        return not building.parameters(kind, _parameters_of(item))[1]

    def _alias(self, spelling: str, item: dict[str, Json]) -> None:
        kind, parameter, keys = _ALIASES[spelling]
        value = next((item[key] for key in keys if isinstance(item.get(key), str) and item[key]), None)
        if value is None:
            raise Complaint(f"an assertion of type {short(item.get('type', kind))} has no {parameter}")
        used = next(key for key in keys if item.get(key) == value)
        if used == "pattern" and spelling in _LITERAL and _REGEX_SIGNS.search(value):
            # Other tools mean a regular expression here; taken literally, a "not contains" would always pass.
            kind, parameter, _ = _ALIASES[_LITERAL[spelling]]
        rest = {key: found for key, found in item.items() if key != used and key not in _TEXTS and key not in _ABOUT}
        description = item.get("description") or item.get("name") or (item.get("text") if used != "text" else "")
        self._check(kind, {parameter: value, **rest}, {**item, "description": description or ""})

    def _check(self, kind: str, values: Mapping[str, Json], about: Mapping[str, Json]) -> None:
        parameters, complaints = building.parameters(kind, values)
        if complaints:
            text = "; ".join(complaint.message for complaint in complaints)
            raise Complaint(f"{kind}: {text}", remedy=complaints[0].remedy)
        description = about.get("description") or about.get("name") or ""
        self._checks.append(
            Check(
                id=_id_of(about),
                severity=_severity_of(about, Severity.MUST),
                rule_ref=_text_or_none(about.get("rule_ref")),
                description=str(description),
                parameters=parameters,
            )
        )

    def _expect(self, text: str, about: Mapping[str, Json]) -> None:
        if text in self._texts:
            return  # the same sentence under two keys
        precision: Any = about.get("precision")
        if precision is not None and precision not in _PRECISIONS:
            raise Complaint(f'precision "{short(precision)}" is unknown; one of {", ".join(_PRECISIONS)} was expected')
        self._texts.add(text)
        self._expectations.append(
            Expectation(
                id=_id_of(about),
                text=text,
                severity=_severity_of(about, self._severity),
                precision=precision or "semantic",
                rule_ref=_text_or_none(about.get("rule_ref")),
            )
        )

    def _shorthands(self, case: Mapping[str, Json]) -> None:
        """SkillSentry's keys beside the assertions (origins-and-formats.md 1.4)."""
        self._each(case, "tools_required", lambda tool: self._check("tool_call_count", {"tool": tool, "min": 1}, {}))
        self._each(case, "tools_forbidden", lambda tool: self._check("tool_call_count", {"tool": tool, "max": 0}, {}))
        self._each(case, "reply_contains", lambda text: self._check("response_contains", {"keyword": text}, {}))
        self._each(case, "reply_not_contains", lambda text: self._check("response_not_contains", {"pattern": text}, {}))
        params = case.get("critical_params")
        if params is not None:
            self._each(
                {"critical_params": list(params.items()) if isinstance(params, dict) else params},
                "critical_params",
                self._param,
            )
        length = case.get("min_reply_length")
        if length is not None:
            if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= 1_000_000:
                self.complaints.append(Complaint("min_reply_length is not a whole number", remedy="Write a number."))
            elif length:
                # In characters: a regular expression counts them exactly, also over several lines.
                pattern = f"(?s)\\A.{{{length},}}"
                self._check("response_matches", {"pattern": pattern}, {"description": f"at least {length} characters"})

    def _each(self, case: Mapping[str, Json], key: str, make: Callable[[Any], None]) -> None:
        value = case.get(key)
        if value is None:
            return
        if not isinstance(value, str | list):
            self.complaints.append(Complaint(f"{key}: a list of texts was expected"))
            return
        for item in [value] if isinstance(value, str) else value:
            try:
                make(item)
            except Complaint as complaint:
                self.complaints.append(Complaint(f"{key}: {complaint.message}", remedy=complaint.remedy))

    def _param(self, entry: Any) -> None:
        if not isinstance(entry, tuple):
            raise Complaint('an object was expected, such as {"tool.param": value}')
        name, expected = entry
        tool, dot, field = name.partition(".")
        if not dot:
            raise Complaint(f'"{short(name)}" names no parameter', remedy="Write tool.param.")
        self._check("args_field", {"tool": tool, "field": field, "expected": expected}, {})

    def _numbered_checks(self) -> tuple[Check, ...]:
        try:
            return building.numbered_checks(self._checks)
        except Complaint as complaint:
            self.complaints.append(complaint)
            return ()

    def _numbered_expectations(self) -> tuple[Expectation, ...]:
        try:
            return building.numbered_expectations(self._expectations)
        except Complaint as complaint:
            self.complaints.append(complaint)
            return ()


def _parameters_of(item: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in item.items() if key not in _ABOUT}


def _text_of(item: Mapping[str, Json]) -> str:
    """The sentence of an assertion. A short name is put before it, an expected value behind it."""
    texts: list[tuple[str, str]] = [
        (key, item[key].strip()) for key in _TEXTS if isinstance(item.get(key), str) and item[key].strip()
    ]
    if not texts:
        raise Complaint("the assertion has no text", remedy="Add text.")
    key, text = texts[0]
    name = item.get("name")
    if key != "name" and isinstance(name, str) and name.strip() and name.strip() not in text and " " in name.strip():
        text = f"{name.strip()}: {text}"
    expected = item.get("expected")
    if expected is not None and str(expected) not in text:
        text = f"{text} (expected: {expected})"
    return text


def _id_of(about: Mapping[str, Json]) -> str:
    given = about.get("id")
    return str(given).strip() if isinstance(given, str | int) and not isinstance(given, bool) else ""


def _severity_of(about: Mapping[str, Json], default: Severity) -> Severity:
    given = about.get("severity")
    if given is None:
        return default
    word = str(given).strip().lower()
    word = _SEVERITIES.get(word, word)
    if word not in tuple(Severity):
        raise Complaint(f'severity "{short(given)}" is unknown; must, should or info was expected')
    return Severity(word)


def _text_or_none(value: Json) -> str | None:
    return re.sub(r"\s+", " ", str(value)).strip() or None if value is not None else None
