"""Our own suite format: ``evals/skill-gate.yaml`` (or ``.yml``) in the skill folder.

Top level:

| key | value |
|---|---|
| `version` | `1`, required |
| `generated` | `true`: a program wrote it and nobody has taken it over; the verdict is `conditional` at best |
| `cases` | list of cases |
| `triggers` | list of trigger queries: `query`, `should_trigger` (`true` or `false`), and maybe `id` |

At least one of `cases` and `triggers` is there. A trigger query is asked with the skill offered; only whether the agent opens
the skill is looked at. Good sets hold near misses: queries that sound like the skill's and are none of its business.

A case:

| key | value | default |
|---|---|---|
| `id` | text or number, unique in the file | made from `name`, else from the text of `prompt` |
| `name` | what people call it | empty |
| `prompt` | what the agent is asked, required | |
| `type` | `happy_path`, `edge_case`, `negative`, `robustness`, `security`, `atomic`, `e2e`, `variant`, `regression` | `happy_path` |
| `risk` | `low`, `normal`, `high` | `normal` |
| `guards` | harm that the case is there to catch: `overreach`, `fabrication`, `leak`, `permission_bypass`, `injection`; a failed `must` check is then a veto | none |
| `tag`, `source` | text, such as `golden` | none |
| `files` | workspace path -> text, or `{text: …}` or `{from: file of the skill}`, either with `executable: true` | none |
| `checks` | list of exact checks, decided by a program | none |
| `expectations` | list of texts, or of expectations, decided by a grader that must quote the record | none |
| `mcp_servers` | mock, replayed or real MCP servers (`gate.intake.suite.mcp`) | none |
| `mode` | `offered`: the agent decides whether to open the skill; `loaded`: it has SKILL.md before it begins | `offered` |
| `turns` | list of texts: what the user says next, one after each answer; the last answer is judged | none |
| `service` | what the produced program has to answer, where it is a server: `port`, and maybe `path`, `status`, `contains`, `seconds` | none |
| `skip_without_skill` | `true`: no run without the skill | `false` |
| `skip_reason` | why | none |
| `expected_output` | for people; no model sees it | none |

`from` is looked for below the folder of this file, then below the skill folder; a folder brings all its files.

A check has `kind` and its parameters (`gate.domain.checks`), and may have `id`, `severity` (`must` by default, `should`,
`info`), `rule_ref` (the rule of SKILL.md that it tests), `description`, `arms` (the arms that it is asked of: `with_skill`,
`without_skill`, `base_skill`; all by default) and `known_issue` (`reason`, `expires`, `owner`: until that day a failure only
informs):

| kind | parameters |
|---|---|
| `tool_call_count` | `tool`; `expected_count` or `min` and `max`; `status` (`success`, `error`, `timeout`) |
| `tool_call_order` | `order` (tools); `mode`: `subsequence`, `exact`, `adjacent`; `status` |
| `tool_call_forbidden` | `tools` (`mcp__mail__*` for all of a server) |
| `tool_call_status` | `tool`, `status`; `which`: `any`, `all`, `last` or n |
| `tool_call_repeats` | `max`; `tool` |
| `args_field` | `tool`, `field` (`user.id`, `items[0].id`), `expected`; `which`: `any`, `all` or n |
| `args_matches` | `tool`, `field`; `contains`, `pattern`, `one_of`, `min`, `max`, `present`; `values`, `which` |
| `tool_result_contains` | `tool`; `text` or `pattern`; `which`: `any`, `all`, `none` or n |
| `command_ran` / `command_not_ran` | `text` or `pattern`; `tool`, `field`; `exit_code` |
| `skill_opened` | `opened`; `file` |
| `response_contains` / `response_not_contains` | `keyword` / `pattern` (literal text); `ignore_case` |
| `response_contains_all`, `response_contains_any`, `response_contains_none` | `texts`; `ignore_case` |
| `response_matches` / `response_not_matches` | `pattern` (regular expression); `ignore_case` |
| `response_equals` | `text`; `normalise` |
| `response_word_count` | `min` and/or `max` |
| `response_has_heading` | `level`; `text` |
| `response_headings` | `headings`; `only` |
| `response_no_placeholders` | `forms`, `path`, `allow` |
| `response_links` | `path`, `min`, `hosts` |
| `response_language` | `language` |
| `file_exists` | `path` |
| `file_absent` | `path`; `deleted` |
| `file_contains` | `path`; `text` or `pattern` |
| `file_not_contains` | `path`; `text` or `pattern`; `ignore_case` |
| `file_unchanged` | `path` |
| `files_changed_only` | `paths` |
| `file_golden` | `path`, `expected`; `normalise` |
| `json_field` | `path` (or `response`), `field`, `expected` |
| `json_matches` | `path` (or `response`), `field`; conditions as in `args_matches` |
| `json_schema` | `path` (or `response`), `definition` |
| `csv_cell` | `path`, `column`, `expected`; `row` or `where`; `tolerance`, `delimiter`, `header` |
| `command` | `run`; `expect_exit`, `stdout_contains`, `timeout_s` |
| `oracle_command` | `files`, `script`; `args`, `expect_exit`, `stdout_contains`, `timeout_s` |
| `produced_code` | `entry_point`, `stdout_contains` |
| `run_budget` | `max_steps`, `max_tool_calls`, `max_errors`, `max_tokens`, `max_cost_usd`, `max_seconds` |

`evals/skill-gate.yaml` may start with the line `# yaml-language-server: $schema=…/suite.schema.json`: the schema is
`gate/schemas/suite.schema.json`.

An expectation has `text`, and may have `id`, `severity` (`should` by default), `precision` (`semantic` by default,
`exact_match`, `existence`) and `rule_ref`.

Unknown keys are errors. A case needs a check or an expectation: one without measures nothing and is left out, with a
warning.
"""

from __future__ import annotations

import json
import posixpath
from typing import Any, get_args

from pydantic import ValidationError

from gate.domain.base import Severity
from gate.domain.checks import ArmName, Check, KnownIssue
from gate.domain.suite import Case, CaseType, Expectation, FixtureFile, Guard, ServiceProbe, TriggerCase
from gate.intake.notes import nearest, short
from gate.intake.suite import building
from gate.intake.suite.building import Complaint
from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.mcp import read_servers
from gate.intake.suite_places import FILE_NAMES
from gate.intake.yaml_text import Node, at, plain

DIALECT_NAME = "skill-gate"
_CASE_KEYS = (
    "id", "name", "prompt", "type", "risk", "tag", "source", "files", "checks", "expectations", "mcp_servers",
    "skip_without_skill", "skip_reason", "expected_output", "mode", "turns", "service", "guards",
)  # fmt: skip
_TRIGGER_KEYS = ("id", "query", "should_trigger")
_CHECK_KEYS = ("id", "severity", "rule_ref", "description", "kind", "arms", "known_issue")
_EXPECTATION_KEYS = ("id", "text", "severity", "precision", "rule_ref")
_FILE_KEYS = ("text", "from", "executable")
_PRECISIONS = ("exact_match", "semantic", "existence")
_RISKS = ("low", "normal", "high")
_MODES = ("offered", "loaded")
MOST_TURNS = 20


def _claims(source: Source) -> bool:
    return posixpath.basename(source.file.path).lower() in FILE_NAMES


def _read(source: Source) -> Read:
    """Every case of the file that can be run; everything that is wrong becomes a finding with its line."""
    if not source.root.is_map:
        kind = source.root.kind if source.root.value is not None else "empty"
        source.notes.block("not-understood", f"the suite is {kind}; the keys version and cases were expected", line=1)
        return Read(DIALECT_NAME, (), frozenset())
    return _Reader(source).read()


class _Reader:
    def __init__(self, source: Source) -> None:
        self._root = source.root
        self._folder = posixpath.dirname(source.file.path)
        self._skill = source.skill
        self._notes = source.notes
        self._label = ""

    def read(self) -> Read:
        """All cases."""
        self._known(self._root, ("version", "generated", "cases", "triggers"), "the suite")
        version = self._root.value.get("version")
        if version is None:
            self._complain("version is missing", self._root, "Add version: 1.")
        elif version.value != 1 or isinstance(version.value, bool):
            self._complain(f"version {short(version.source)} is not known to this gate; 1 was expected", version)
        cases = self._root.value.get("cases")
        triggers = self._triggers()
        if cases is None and "triggers" in self._root.value:
            return Read(DIALECT_NAME, (), frozenset(), triggers)
        if cases is None or not (cases.is_list or cases.value is None):
            self._complain(
                f"cases is {cases.kind if cases else 'missing'}; a list was expected",
                cases or self._root,
                "Add cases: and a list.",
            )
            return Read(DIALECT_NAME, (), frozenset())
        found: list[Case] = []
        without_id: set[str] = set()
        lines: dict[str, int] = {}
        ids = building.Ids(self._id(node, say=False) for node in cases.value or [])
        for position, node in enumerate(cases.value or [], 1):
            given = self._id(node)
            eval_id = given or self._made_id(node, position, ids)
            if not given:
                without_id.add(eval_id)
            if eval_id in lines:
                self._complain(
                    f'the id "{short(eval_id)}" is there twice (first at line {lines[eval_id]})',
                    node,
                    "Ids must be unique.",
                )
                continue
            lines[eval_id] = node.line
            self._label = f'case "{short(given)}": ' if given else f"case {position}: "
            case = self._case(node, eval_id)
            self._label = ""
            if case:
                found.append(case)
        return Read(DIALECT_NAME, tuple(found), frozenset(without_id), triggers, self._flag(self._root, "generated"))

    def _triggers(self) -> tuple[TriggerCase, ...]:
        found: list[TriggerCase] = []
        ids = building.Ids(prefix="trigger")
        for item in self._list(self._root, "triggers"):
            if not item.is_map:
                self._complain(f"a trigger query is {item.kind}; query and should_trigger were expected", item)
                continue
            self._known(item, _TRIGGER_KEYS, "a trigger query")
            query, should = self._text(item, "query", required=True), item.value.get("should_trigger")
            if should is None or not isinstance(should.value, bool):
                self._complain("should_trigger must be true or false", should or item)
            elif query:
                given = ids.keep(self._text(item, "id") or "") or ids.make("", query)
                found.append(
                    TriggerCase(
                        id=given, query=query, should_trigger=should.value, path=self._notes.path, line=item.line
                    )
                )
        return tuple(found)

    def _id(self, node: Node, *, say: bool = True) -> str:
        given = node.value.get("id") if node.is_map else None
        if given is not None and not isinstance(given.value, bool) and isinstance(given.value, str | int | float):
            # As written: 007 and 1.10 are names, not numbers.
            return str(given.source.strip())
        if say and given is not None and given.value is not None:
            self._complain(f"id is {given.kind}; text or a number was expected", given)
        return ""

    def _made_id(self, node: Node, position: int, ids: building.Ids) -> str:
        values = [node.value[key].value if node.is_map and key in node.value else None for key in ("name", "prompt")]
        name, prompt = (value if isinstance(value, str) else "" for value in values)
        return ids.make(name, prompt or str(position))

    def _case(self, node: Node, eval_id: str) -> Case | None:
        before = len(self._notes.items)
        if not node.is_map:
            self._complain(f"the case is {node.kind}; keys and values were expected", node)
            return None
        self._known(node, _CASE_KEYS, "a case")
        prompt = self._text(node, "prompt", required=True)
        values: dict[str, Any] = {
            key: self._text(node, key) for key in ("tag", "source", "skip_reason", "expected_output")
        }
        values |= {
            "name": self._text(node, "name") or "",
            "type": self._choice(node, "type", tuple(CaseType), CaseType.HAPPY_PATH),
            "risk": self._choice(node, "risk", _RISKS, "normal"),
            "guards": self._choice(node, "guards", tuple(Guard), None),
            "skip_without_skill": self._flag(node, "skip_without_skill"),
            "mode": self._choice(node, "mode", _MODES, "offered"),
            "turns": self._turns(node),
            "service": self._service(node),
            "files": self._files(node),
            "checks": self._checks(node),
            "expectations": self._expectations(node),
        }
        servers = node.value.get("mcp_servers")
        values["mcp_servers"] = read_servers(servers, self._complain) if servers is not None else ()
        if len(self._notes.items) > before or prompt is None:
            return None
        if not values["checks"] and not values["expectations"]:
            self._notes.warn(
                "case-measures-nothing",
                f"{self._label}it has no check and no expectation, so it measures nothing and is left out",
                line=node.line,
                remedy="Add a check or an expectation.",
            )
            return None
        return building.finished(Case(eval_id=eval_id, prompt=prompt, line=node.line, **values))

    def _turns(self, node: Node) -> tuple[str, ...]:
        found = self._list(node, "turns")
        for item in found:
            if not isinstance(item.value, str) or not item.value.strip():
                self._complain(f"a turn is {item.kind}; text was expected", item, "Put the value in quotes.")
                return ()
        if len(found) > MOST_TURNS:
            self._complain(f"{len(found)} turns are too many; at most {MOST_TURNS} are taken", node.value["turns"])
        return tuple(item.value for item in found)

    def _service(self, node: Node) -> ServiceProbe | None:
        found = node.value.get("service")
        if found is None or found.value is None:
            return None
        try:
            return ServiceProbe.model_validate_json(json.dumps(plain(found)), strict=True)
        except ValidationError as error:
            for wrong in error.errors(include_url=False):
                label = ".".join(str(part) for part in ("service", *wrong["loc"]))
                self._complain(f"{label}: {wrong['msg']}", at(found, wrong["loc"]))
        return None

    def _checks(self, node: Node) -> tuple[Check, ...]:
        found: list[Check] = []
        for item in self._list(node, "checks"):
            if not item.is_map:
                self._complain(f"a check is {item.kind}; kind and parameters were expected", item)
                continue
            check = self._check(item)
            if check:
                found.append(check)
        try:
            return building.numbered_checks(found)
        except Complaint as complaint:
            self._complain(complaint.message, node.value["checks"])
            return ()

    def _check(self, node: Node) -> Check | None:
        kind_node = node.value.get("kind")
        if kind_node is None:
            self._complain("a check has no kind", node, "Add kind: response_contains, or another kind.")
            return None
        try:
            kind = building.known_kind(kind_node.value)
        except Complaint as refused:
            self._complain(refused.message, kind_node)
            return None
        values = {key: plain(item) for key, item in node.value.items() if key not in _CHECK_KEYS}
        parameters, complaints = building.parameters(kind, values)
        for complaint in complaints:
            self._complain(f"{kind}: {complaint.message}", at(node, complaint.place), complaint.remedy)
        values = {
            "id": self._text(node, "id") or "",
            "severity": self._choice(node, "severity", tuple(Severity), Severity.MUST),
            "rule_ref": self._text(node, "rule_ref"),
            "description": self._text(node, "description") or "",
            **self._scope(node),
        }
        return None if complaints else Check(parameters=parameters, **values)

    def _scope(self, node: Node) -> dict[str, Any]:
        """``arms`` and ``known_issue``: when a failure of the check counts."""
        found: dict[str, Any] = {}
        arms = self._list(node, "arms")
        for item in arms:
            if item.value not in get_args(ArmName):
                self._complain(
                    f'the arm "{short(item.source)}" is unknown; one of {", ".join(get_args(ArmName))} was expected',
                    item,
                )
                return {}
        if arms:
            found["arms"] = tuple(item.value for item in arms)
        issue = node.value.get("known_issue")
        if issue is not None and issue.value is not None:
            try:
                found["known_issue"] = KnownIssue.model_validate_json(json.dumps(plain(issue)), strict=True)
            except ValidationError as error:
                for wrong in error.errors(include_url=False):
                    label = ".".join(str(part) for part in ("known_issue", *wrong["loc"]))
                    self._complain(f"{label}: {wrong['msg'].removeprefix('Value error, ')}", at(issue, wrong["loc"]))
        return found

    def _expectations(self, node: Node) -> tuple[Expectation, ...]:
        found: list[Expectation] = []
        taken: set[str] = set()
        for position, item in enumerate(self._list(node, "expectations"), 1):
            if isinstance(item.value, str) and item.value.strip():
                found.append(Expectation(id=_unused(f"e{position}", taken), text=item.value.strip()))
                continue
            if not item.is_map:
                self._complain(f"an expectation is {item.kind}; text was expected", item, "Put the value in quotes.")
                continue
            self._known(item, _EXPECTATION_KEYS, "an expectation")
            text = self._text(item, "text", required=True)
            given = self._text(item, "id")
            if given in taken:
                self._complain(f'two expectations have the id "{short(given)}"', item, "Ids must be unique.")
            if text:
                found.append(
                    Expectation(
                        id=_unused(given or f"e{position}", taken),
                        text=text,
                        severity=self._choice(item, "severity", tuple(Severity), Severity.SHOULD),
                        precision=self._choice(item, "precision", _PRECISIONS, "semantic"),
                        rule_ref=self._text(item, "rule_ref"),
                    )
                )
        return tuple(found)

    def _files(self, node: Node) -> tuple[FixtureFile, ...]:
        files = node.value.get("files")
        if files is None or files.value is None:
            return ()
        if not files.is_map:
            self._complain(
                f"files is {files.kind}; workspace paths with contents were expected", files, "Write data/in.csv: text."
            )
            return ()
        found: dict[str, FixtureFile] = {}
        for name, item in files.value.items():
            try:
                for made in self._file(name, item):
                    found[made.path] = made
            except Complaint as complaint:
                self._complain(f'file "{short(name)}": {complaint.message}', item, complaint.remedy)
        return tuple(found.values())

    def _file(self, name: str, node: Node) -> list[FixtureFile]:
        path = building.safe_path(name)
        if isinstance(node.value, str):
            return [FixtureFile(path=path, data=node.value.encode("utf-8"))]
        if not node.is_map:
            raise Complaint(
                f"this is {node.kind}; text, or text: or from: was expected", remedy="Put the value in quotes."
            )
        self._known(node, _FILE_KEYS, "a file")
        executable = self._flag(node, "executable")
        source, text = node.value.get("from"), node.value.get("text")
        if (source is None) == (text is None):
            raise Complaint("give either text or from")
        if text is not None:
            if not isinstance(text.value, str):
                raise Complaint(f"text is {text.kind}; text was expected", remedy="Put the value in quotes.")
            return [FixtureFile(path=path, data=text.value.encode("utf-8"), executable=executable)]
        files = building.referenced(self._skill, self._folder, source.value if source else None)
        made = [building.fixture(file, posixpath.join(path, below) if below else path) for below, file in files]
        return [item.model_copy(update={"executable": executable or item.executable}) for item in made]

    def _list(self, node: Node, key: str) -> list[Node]:
        found = node.value.get(key)
        if found is None or found.value is None:
            return []
        if not found.is_list:
            self._complain(
                f"{key} is {found.kind}; a list was expected", found, f"Write {key}: and items that start with -."
            )
            return []
        return list(found.value)

    def _text(self, node: Node, key: str, *, required: bool = False) -> str | None:
        found = node.value.get(key)
        if found is None or found.value is None:
            if required:
                self._complain(f"{key} is missing", found or node, f"Add {key}.")
            return None
        if key == "id" and not isinstance(found.value, bool | dict | list):
            return found.source.strip() or None
        if not isinstance(found.value, str):
            self._complain(f"{key} is {found.kind}; text was expected", found, "Put the value in quotes.")
            return None
        if required and not found.value.strip():
            self._complain(f"{key} is empty", found, f"Write a {key}.")
            return None
        return found.value if key == "prompt" else found.value.strip()

    def _choice(self, node: Node, key: str, options: tuple[str, ...], default: Any) -> Any:
        found = node.value.get(key)
        if found is None:
            return default
        if isinstance(found.value, str) and found.value in options:
            return options[options.index(found.value)]
        self._complain(f'{key} "{short(found.source)}" is unknown; one of {", ".join(options)} was expected', found)
        return default

    def _flag(self, node: Node, key: str) -> bool:
        found = node.value.get(key)
        if found is None:
            return False
        if not isinstance(found.value, bool):
            self._complain(f"{key} is {found.kind}; true or false was expected", found)
            return False
        return found.value

    def _known(self, node: Node, known: tuple[str, ...], what: str) -> None:
        for key, value in node.value.items():
            if key not in known:
                likely = nearest(key, known)
                hint = f"did you mean {likely}?" if likely else f"known are {', '.join(known)}"
                self._complain(f'"{short(key)}" is an unknown key of {what}; {hint}', value)

    def _complain(self, message: str, node: Node, remedy: str = "") -> None:
        self._notes.block("invalid", f"{self._label}{message}", line=node.line, column=node.column, remedy=remedy)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "x"
    taken.add(name)
    return name


DIALECT = Dialect(DIALECT_NAME, _claims, _read)
