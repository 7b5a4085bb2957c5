"""What every reader of a foreign format needs: cases that grow, complaints with their place, ids that stay."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gate.domain.base import Json, Severity
from gate.domain.checks import CHECK_KINDS, Check
from gate.domain.skill import SkillFile
from gate.domain.suite import Case, CaseType, Expectation, FixtureFile, McpServer, TriggerCase
from gate.intake.notes import nearest, short
from gate.intake.suite import building
from gate.intake.suite.building import Complaint
from gate.intake.suite.dialect import Read, Source
from gate.intake.suite.exact import Spec
from gate.intake.suite.skill_gate_yaml import MOST_TURNS
from gate.intake.yaml_text import Node, plain

SETTINGS = frozenset(
    ("version", "schema_version", "skill", "skill_name", "name", "description", "config", "defaults", "scoring", "metrics",
     "runs", "trials", "timeout", "timeout_seconds", "model", "models", "executor", "agent", "provider", "threshold", "weight",
     "weights", "docker", "tags", "metadata", "author", "license", "$schema", "runner", "runner_options", "parallel", "workers",
     "type", "title", "notes", "id")
)  # fmt: skip
"""Words for how another tool runs a suite, or for people: not about what is judged."""
OURS = "Write the case in evals/skill-gate.yaml with our checks."


class File:
    """One file while it is read."""

    def __init__(self, dialect: str, source: Source) -> None:
        self.dialect = dialect
        self.source = source
        self.notes = source.notes
        self.folder = posixpath.dirname(source.file.path)
        self._cases: list[tuple[Case, bool]] = []
        self._seen: dict[str, int] = {}
        self._triggers: list[TriggerCase] = []
        self._trigger_ids = building.Ids(prefix="trigger")
        self._unapplied: set[str] = set()
        self._position = 0

    def draft(self, node: Node, *, given_id: object = None, name: str = "") -> Draft:
        """The next case. ``given_id``: what the file calls its id; a name alone makes an id that may be made longer."""
        self._position += 1
        text = str(given_id).strip() if isinstance(given_id, str | int | float) and given_id is not True else ""
        label = f'case "{short(text or name, 60)}"' if text or name else f"case {self._position}"
        return Draft(self, node, text, name, label)

    def named(self, node: Node, id_key: str = "id", name_key: str = "name") -> Draft:
        """The next case, with what it says under its keys for an id and a name."""
        values = [node.value[key].value if key in node.value else None for key in (id_key, name_key)]
        written = node.value[id_key].source if values[0] is not None else ""
        name = values[1].strip() if isinstance(values[1], str) else ""
        draft = self.draft(node, given_id=written or None, name=name)
        if id_key in node.value and (isinstance(values[0], bool | dict | list)):
            draft.complain(f"{id_key} is {node.value[id_key].kind}; text or a number was expected", node.value[id_key])
        return draft

    def items(self, node: Node | None, what: str) -> list[Node]:
        """The mappings of a list; everything else is complained about."""
        if node is None or node.value is None:
            return []
        if not node.is_list:
            self.complain(f"{what} is {node.kind}; a list was expected", node)
            return []
        found = []
        for item in node.value:
            if item.is_map:
                found.append(item)
            else:
                self.complain(f"an entry of {what} is {item.kind}; keys and values were expected", item)
        return found

    def complain(self, message: str, node: Node | None, remedy: str = "") -> None:
        """Something that blocks."""
        self.notes.block("invalid", message, line=node.line if node else None, remedy=remedy)

    def settings(self, keys: Iterable[str]) -> None:
        """Settings of the other tool that this gate does not apply: said once a file."""
        self._unapplied |= set(keys)

    def outermost(self, known: Iterable[str], checks: Iterable[str] = ()) -> None:
        """Says what of the outermost keys is not applied; a typo of a key that judges is an error."""
        root = self.source.root
        known, checks = set(known), set(checks)
        for key in root.value if root.is_map else ():
            if key in known:
                continue
            likely = nearest(key, known | checks)
            if likely in checks and key not in SETTINGS:
                self.complain(f'"{short(key)}" is an unknown key; did you mean {likely}?', root.value[key])
            elif key not in ("name", "description", "skill", "skill_name", "version", "schema_version", "$schema"):
                self._unapplied.add(key)

    def trigger(self, query: str, should: bool, node: Node, given_id: str = "") -> None:
        """A prompt that tells when the skill should be opened."""
        self._triggers.append(
            TriggerCase(
                id=self._trigger_ids.keep(given_id) or self._trigger_ids.make("", query),
                query=query,
                should_trigger=should,
                path=self.notes.path,
                line=node.line,
            )
        )

    def add(self, case: Case, given: bool, node: Node) -> None:
        """A finished case. One without an id of its own gets it in ``done``, when all chosen ids are known."""
        if given and case.eval_id in self._seen:
            self.complain(
                f'the id "{short(case.eval_id)}" is there twice (first at line {self._seen[case.eval_id]})',
                node,
                "Ids must be unique.",
            )
            return
        if given:
            self._seen[case.eval_id] = node.line
        self._cases.append((case, given))

    def done(self) -> Read:
        """Everything that was read; what was not applied is said."""
        if self._unapplied:
            names = ", ".join(short(key, 40) for key in sorted(self._unapplied)[:12])
            self.notes.notice(
                "settings",
                f"settings of the tool that this file was written for are not applied: {names}; runs, models and limits "
                "come from this gate's mode and policy, and an exact check that gives no severity counts as must",
            )
        say_triggers(self.source, self._triggers)
        cases: list[Case] = []
        ids = building.Ids(self._seen)
        without_id: set[str] = set()
        for case, given in self._cases:
            if not given:
                name = ids.make(case.name, case.prompt)
                case = case.model_copy(update={"eval_id": name})  # noqa: PLW2901 - the same case, named
                without_id.add(name)
            cases.append(building.finished(case))
        return Read(self.dialect, tuple(cases), frozenset(without_id), tuple(self._triggers))


class Draft:
    """One case while it is read. ``failed``: something about it blocks; ``lost``: it cannot be run as it was meant."""

    def __init__(self, file: File, node: Node, given_id: str, name: str, label: str) -> None:
        self.file = file
        self.node = node
        self.label = label
        self.failed = False
        self.lost = False
        self.fixtures: dict[str, FixtureFile] = {}
        self._given_id = given_id
        self._name = name
        self._checks: list[Check] = []
        self._expectations: list[Expectation] = []
        self._texts: set[str] = set()
        self._triggers = 0
        self._unread: list[str] = []

    def complain(self, message: str, node: Node | None = None, remedy: str = "") -> None:
        """Something about this case that blocks."""
        self.failed = True
        self.file.complain(f"{self.label}: {message}", node or self.node, remedy)

    def lose(self, message: str, node: Node | None = None, remedy: str = "") -> None:
        """The case cannot be run as its author meant it: it is left out, and said to be no evidence."""
        self.lost = True
        self.file.notes.error(
            "case-not-run",
            f"{self.label}: {message}; the case is left out and is no evidence",
            line=(node or self.node).line,
            remedy=remedy,
        )

    def refuse(self, kind: str, instead: str, node: Node | None = None) -> None:
        """A check that nothing here means exactly."""
        self.complain(f'the check "{short(kind, 60)}" has no exact equal in this gate; {instead}', node, OURS)

    def text(self, key: str, node: Node | None = None, *, required: bool = False) -> str | None:
        """A text under a key; numbers count as what was written."""
        found = (node or self.node).value.get(key)
        if found is not None and not found.is_map and not found.is_list and found.value is not None:
            text: str = found.value if isinstance(found.value, str) else found.source
            if text.strip():
                return text
        elif found is not None and found.value is not None:
            self.complain(f"{key} is {found.kind}; text was expected", found)
            return None
        if required:
            self.complain(f"{key} is missing", found or node, f"Add {key}.")
        return None

    def texts(self, key: str, node: Node | None = None) -> list[tuple[str, Node]]:
        """The texts under a key: a list, or one text."""
        found = (node or self.node).value.get(key)
        if found is None or found.value is None:
            return []
        if found.is_list and len(found.value) > building.MAX_ASSERTIONS:
            self.complain(f"{key} holds {len(found.value)} entries; at most {building.MAX_ASSERTIONS} are read", found)
            return []
        result = []
        for item in found.value if found.is_list else [found]:
            if item.is_map or item.is_list or item.value is None or not str(item.source or item.value).strip():
                self.complain(f"{key} holds {item.kind}; text was expected", item)
            else:
                result.append((item.value if isinstance(item.value, str) else item.source, item))
        return result

    def conversation(self, key: str) -> tuple[str | None, tuple[str, ...]]:
        """(prompt, what the user says after each answer) of a list of texts. A case with anything else there is left out."""
        found = self.node.value[key]
        entries = found.value if found.is_list else []
        said = [item.value for item in entries if isinstance(item.value, str) and item.value.strip()]
        if not said or len(said) != len(entries):
            self.lose(f"{key} is no list of texts", found, "Write what the user says as texts, one a turn.")
            return None, ()
        if len(said) > MOST_TURNS + 1:
            self.lose(f"{len(said)} turns are too many; at most {MOST_TURNS + 1} are run", found, "Say more in each.")
            return None, ()
        if len(said) > 1:
            self.file.notes.notice(
                "last-answer",
                f"{self.label}: checks of the answer look at the last one of {len(said)} turns",
                line=found.line,
            )
        return said[0], tuple(said[1:])

    def mapping(self, key: str, node: Node | None = None) -> Node:
        """The mapping under a key; empty where there is none, and where something else is there, which is complained about."""
        found = (node or self.node).value.get(key)
        if found is not None and found.is_map:
            return found  # type: ignore[no-any-return] # nodes hold nodes
        if found is not None and found.value is not None:
            self.complain(f"{key} is {found.kind}; keys and values were expected", found)
        return Node((node or self.node).line, 1, {})

    def flag(self, key: str, node: Node | None = None) -> bool | None:
        """True or false under a key; None where there is none."""
        found = (node or self.node).value.get(key)
        if found is None or found.value is None:
            return None
        if not isinstance(found.value, bool):
            self.complain(f"{key} is {found.kind}; true or false was expected", found)
            return None
        return found.value

    def number(self, key: str, node: Node | None = None) -> int | None:
        """A whole number from 0 under a key."""
        found = (node or self.node).value.get(key)
        if found is None or found.value is None:
            return None
        if isinstance(found.value, bool) or not isinstance(found.value, int) or found.value < 0:
            self.complain(f"{key} is {found.kind}; a whole number was expected", found)
            return None
        return int(found.value)

    def known(self, keys: Iterable[str], judging: Iterable[str], node: Node | None = None) -> None:
        """A typo of a key that judges is an error; other unknown keys are said with ``finish``."""
        keys, judging = set(keys), set(judging)
        for key, item in (node or self.node).value.items():
            if key in keys or key in judging:
                continue
            likely = nearest(key, keys | judging)
            if likely in judging:
                self.complain(
                    f'"{short(key)}" is an unknown key; did you mean {likely}?', item, f"Rename it to {likely}."
                )
            elif key not in SETTINGS:
                self._unread.append(key)

    def only(self, node: Node, kind: str, keys: Iterable[str]) -> bool:
        """Whether a check has no key beyond ``keys`` (and words about it): an unknown one could change what it means."""
        self.file.settings(key for key in ("weight", "pass_threshold") if key in node.value)
        about = {"type", "kind", "name", "id", "description", "weight", "severity", "config", "pass_threshold", "text"}
        extra = [key for key, item in node.value.items() if key not in about | set(keys) and item.value is not None]
        if extra:
            names = ", ".join(f'"{short(key, 40)}"' for key in extra[:5])
            self.refuse(kind, f"its {names} is not understood", node)
        return not extra

    def check(self, specs: Sequence[Spec], node: Node, *, kind: str, instead: str = "", description: str = "") -> None:
        """The first candidate that this version can decide; none: an error that names the kind and what to write."""
        complaints: list[Complaint] = []
        for name, values in specs:
            if name not in CHECK_KINDS:
                continue
            parameters, wrong = building.parameters(name, values)
            if not wrong:
                about = node.value if node.is_map else {}
                severity = _severity(about.get("severity"))
                self._checks.append(Check(id="", severity=severity, description=description, parameters=parameters))
                return
            complaints = complaints or wrong
        if complaints:
            words = "; ".join(complaint.message for complaint in complaints)
            self.complain(f'the check "{short(kind, 60)}": {words}', node, complaints[0].remedy or OURS)
        else:
            self.refuse(kind, instead or "write it with one of " + ", ".join(CHECK_KINDS), node)

    def expect(self, text: str, *, given_id: str = "", severity: Severity = Severity.SHOULD) -> None:
        """Prose: judged by the grader, never matched by words."""
        clean = re.sub(r"\s+", " ", text).strip()
        if clean and clean not in self._texts:
            self._texts.add(clean)
            self._expectations.append(Expectation(id=given_id, text=clean, severity=severity))

    def fixture(self, reference: Json, destination: str | None = None, node: Node | None = None) -> None:
        """A file (or folder) of the suite for the workspace. One that is not there: the case is lost."""
        try:
            target = building.safe_path(destination) if destination is not None else None
            found = self._referenced(reference)
        except Complaint as complaint:
            self.lose(complaint.message, node, complaint.remedy)
            return
        clean = posixpath.normpath(str(reference))
        for below, file in found:
            full = posixpath.join(target or clean, below) if below else target or clean
            path = full if target is not None else building.destination(full)
            self.fixtures[path] = building.fixture(file, path)

    def _referenced(self, reference: Json) -> list[tuple[str, SkillFile]]:
        source = self.file.source
        try:
            return building.referenced(source.skill, self.file.folder, reference)
        except Complaint:
            if source.own is None:
                raise
            return building.referenced(source.own, "", reference)

    def content(self, path: Json, text: str, node: Node | None = None) -> None:
        """A file for the workspace whose text is in the suite."""
        try:
            clean = building.safe_path(path)
        except Complaint as complaint:
            self.lose(complaint.message, node, complaint.remedy)
            return
        self.fixtures[clean] = FixtureFile(path=clean, data=text.encode("utf-8", "replace"))

    def folder(self, reference: Json = None, node: Node | None = None) -> None:
        """Everything in a folder of the suite, put into the workspace's own root; without a reference: what lies beside
        the suite file."""
        folder = self.file.folder
        if reference is not None:
            try:
                found = self._referenced(reference)
            except Complaint as complaint:
                self.lose(complaint.message, node, complaint.remedy)
                return
            for below, file in found:
                path = below or posixpath.basename(file.path)
                self.fixtures[path] = building.fixture(file, path)
            return
        start = f"{folder}/" if folder else ""
        for file in self.file.source.skill.files:
            if file.is_regular and file.path.startswith(start) and file.path != self.file.source.file.path:
                path = file.path.removeprefix(start)
                if posixpath.splitext(path)[0].lower() not in ("eval", "evals", "skill"):
                    self.fixtures[path] = building.fixture(file, path)

    def adopt(self, checks: Iterable[Check], expectations: Iterable[Expectation]) -> None:
        """What another reader made of a part of this case."""
        self._checks += checks
        self._expectations += expectations

    def trigger(self, query: str, should: bool) -> None:
        """This case (also) says whether the skill should be opened."""
        self._triggers += 1
        self.file.trigger(query, should, self.node, self._given_id or building.slug(self._name))

    def finish(
        self,
        prompt: str | None,
        *,
        type_: CaseType = CaseType.HAPPY_PATH,
        risk: str = "normal",
        expected_output: str | None = None,
        mcp_servers: tuple[McpServer, ...] = (),
        **values: Any,
    ) -> None:
        """The case goes to its file, unless something about it blocks, it is lost, or it measures nothing."""
        if self._unread:
            names = ", ".join(f'"{short(key, 40)}"' for key in self._unread[:10])
            self.file.notes.notice(
                "unknown-keys", f"{self.label}: keys that are not read: {names}", line=self.node.line
            )
        if self.failed or self.lost:
            return
        if prompt is None or not prompt.strip():
            self.complain("there is no prompt", remedy="Add a prompt.")
            return
        if not self._checks and not self._expectations:
            if not self._triggers:
                self.file.notes.warn(
                    "case-measures-nothing",
                    f"{self.label}: it has no check and no expectation, so it measures nothing and is left out",
                    line=self.node.line,
                    remedy="Add a check or an expectation.",
                )
            return
        case = Case(
            eval_id=self._given_id,
            name=self._name,
            prompt=prompt,
            type=type_,
            risk=risk,  # type: ignore[arg-type] # checked by the model
            files=tuple(self.fixtures.values()),
            checks=building.numbered_checks(self._checks),
            expectations=building.numbered_expectations(self._expectations),
            expected_output=(expected_output or "").strip() or None,
            mcp_servers=mcp_servers,
            line=self.node.line,
            **values,
        )
        self.file.add(case, bool(self._given_id), self.node)


def say_triggers(source: Source, triggers: Sequence[TriggerCase]) -> None:
    """What trigger queries become is said with counts."""
    if triggers:
        yes = sum(item.should_trigger for item in triggers)
        source.notes.notice(
            "trigger-cases",
            f"{len(triggers)} trigger queries ({yes} should open the skill, {len(triggers) - yes} should not): each is asked "
            "with the skill offered, and only whether it is opened is looked at",
        )


def case_type(word: object) -> CaseType:
    """A case type by its name; happy_path for anything else."""
    clean = str(word).strip().lower().replace("-", "_").replace(" ", "_")
    return CaseType(clean) if clean in tuple(CaseType) else CaseType.HAPPY_PATH


def names_skill(node: Node | None, source: Source) -> bool:
    """Whether a value (text, path or list of them) names the skill that is judged."""
    if node is None or node.value is None:
        return False
    wanted = {source.name.lower(), source.skill.name.lower()}
    values = plain(node)
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, str) and {value.lower(), posixpath.basename(value.rstrip("/")).lower()} & wanted:
            return True
    return False


def _severity(node: Node | None) -> Severity:
    words: Mapping[str, Severity] = {
        "must": Severity.MUST, "critical": Severity.MUST, "gate": Severity.MUST, "required": Severity.MUST,
        "should": Severity.SHOULD, "soft": Severity.SHOULD, "info": Severity.INFO,
    }  # fmt: skip
    return words.get(str(node.value).strip().lower(), Severity.MUST) if node is not None else Severity.MUST
