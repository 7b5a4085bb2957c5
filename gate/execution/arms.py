"""What each arm gets. Both arms are the same but for the skill, and that is asserted inside each container (R222, R223)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gate.domain.base import sha256_hex
from gate.domain.chat import ToolSpec
from gate.domain.evidence import Event
from gate.domain.sandbox import PutFile
from gate.domain.skill import EXECUTABLE, JUDGING_FILES, Skill, is_agent_visible
from gate.domain.suite import Case
from gate.errors import SandboxError
from gate.llm.prompting import load_prompt
from gate.protocols import Box

SKILLS_ROOT = "/skills"
GATE_FOLDER = ".skill-gate"
"""Inside ``/work``: where a sandbox keeps what it needs itself. No fixture and no listing shows it."""

TELLING_CHARACTERS = 40
"""From this length on a line of prose is taken for a skill's own."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_HOSTS = (".agents", ".claude", ".cursor", ".gemini", ".github", ".opencode", ".windsurf")


def skill_folder(skill: Skill) -> str:
    """Name of the skill's folder inside the sandbox: the folder's own name, made safe for a path."""
    last = skill.path.rstrip("/").rsplit("/", 1)[-1]
    name = last if last not in ("", ".") else skill.name
    return _UNSAFE.sub("-", name).strip("-.") or "skill"


def skill_files(skill: Skill) -> list[PutFile]:
    """Every file of the skill that an agent may read, exec bits kept. Links, evals, manifests and ``.git`` stay out."""
    return [
        PutFile(path=file.path, data=file.data, executable=file.mode == EXECUTABLE)
        for file in skill.files
        if file.is_regular and is_agent_visible(file.path)
    ]


class Workspace(NamedTuple):
    """What is put into ``/work`` before a run: the same for every arm of a case."""

    files: tuple[PutFile, ...]
    stripped: tuple[str, ...]
    """Why a file of the fixture was left out, one sentence each without a full stop."""

    @property
    def contents(self) -> dict[str, bytes]:
        """Path -> content, to tell what a run made from what it was given."""
        return {file.path: file.data for file in self.files}


def workspace_files(case: Case, subjects: Iterable[Skill]) -> Workspace:
    """The fixture of a case without what would let the baseline in on the skill or on the answers.

    Left out in every arm alike (DESIGN.md 3): ``.git``; skills of agent hosts (``.claude/skills`` and its kin); a copy of
    the SKILL.md of any of ``subjects``; an eval file that holds the case's own prompt. Other files that a case lists
    are its material, whatever their names: a case about a manifest needs its manifest.
    """
    texts = {text.sha256 for skill in subjects if (text := skill.file(skill.skill_md)) is not None}
    files, stripped = [], []
    for file in case.files:
        reason = _unfit(file.path, file.data, case.prompt, texts)
        if reason is None:
            files.append(PutFile(path=file.path, data=file.data, executable=file.executable))
        else:
            stripped.append(f"{file.path}: {reason}")
    return Workspace(tuple(files), tuple(stripped))


def _unfit(path: str, data: bytes, prompt: str, skill_texts: set[str]) -> str | None:
    parts = path.split("/")
    if ".git" in parts:
        return "the history of a repository can hold the skill"
    if parts[0] == GATE_FOLDER:
        return "this folder belongs to the gate"
    if ".codex" in parts or any(pair in _HOST_SKILLS for pair in itertools.pairwise(parts)):
        return "no skill of an agent host may be in reach"
    if sha256_hex(data) in skill_texts:
        return "it is a copy of the SKILL.md under test"
    if parts[-1] in JUDGING_FILES and _holds_prompt(data, prompt):
        return "it holds the evals"
    return None


_HOST_SKILLS = frozenset((host, "skills") for host in _HOSTS)


def _holds_prompt(data: bytes, prompt: str) -> bool:
    """Whether a text file holds a prompt: as JSON writes it, or with white space as it may be wrapped in YAML."""
    text = data.decode("utf-8", "replace")
    if any(json.dumps(prompt, ensure_ascii=ascii_only)[1:-1] in text for ascii_only in (False, True)):
        return True
    return " ".join(prompt.split()) in " ".join(text.split())


def system_prompt(skill: Skill | None) -> str:
    """The executor's system prompt. Arms differ in one section: the listing of the skill, or the ban in words (R22)."""
    if skill is None:
        section = load_prompt("executor_without_skill")
    else:
        section = load_prompt(
            "executor_with_skill",
            name=_one_line(skill.name),
            description=_one_line(skill.description),
            location=f"{SKILLS_ROOT}/{skill_folder(skill)}/{skill.skill_md}",
        )
    return load_prompt("executor", skill_section=section)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def builtin_tools() -> tuple[ToolSpec, ...]:
    """The tools that every arm has."""
    return (
        _tool(
            "bash",
            "Run a command with bash in /work. Gives its output and exit code. There is no network.",
            required=("command",),
        ),
        _tool("read_file", "Read a text file. The path is absolute or relative to /work.", required=("path",)),
        _tool(
            "write_file",
            "Write a text file, making folders as needed. The path is relative to /work.",
            required=("path", "content"),
        ),
        _tool(
            "list_files",
            "List the files below a folder. The path is absolute or relative to /work; without one, /work.",
            optional=("path",),
        ),
    )


def _tool(name: str, description: str, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": {field: {"type": "string"} for field in (*required, *optional)},
            "required": list(required),
            "additionalProperties": False,
        },
    )


# What lies in the sandbox, seen by the uid that runs the agent's commands. Prints nothing that depends on the machine.
SURVEY = """\
import hashlib, json, os, stat
def survey(root):
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISREG(mode):
                found[os.path.relpath(path, root)] = ["no plain file", False]
                continue
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            found[os.path.relpath(path, root)] = [digest, bool(mode & 0o100)]
    return found
print(json.dumps({
    "skills": survey("/skills"), "work": survey("/work"),
    "writable": os.access("/skills", os.W_OK), "environment": sorted(os.environ),
}))
"""
SURVEY_COMMAND = ("python3", "-I", "-B", "-c", SURVEY)


def assert_arm(box: Box, skill: Skill | None, workspace: Workspace) -> dict[str, Any]:
    """Check from inside the container that exactly the right files are there, and say what was seen.

    Returns ``skills_seen`` (folders below ``/skills``), ``skill_files``, ``skill_md_sha256`` (hex or None),
    ``workspace_files`` and ``environment`` (names of the variables that commands see). Raises SandboxError where the
    baseline holds any skill file, where another arm holds not exactly its one skill, where a byte or an exec bit
    differs, where ``/work`` holds anything but the fixture (evals, repository files, another run's files), or where the
    agent could change its skill: such a run would measure something else.
    """
    seen = _survey(box)
    expected_skill = _expected(skill_files(skill), skill_folder(skill)) if skill is not None else {}
    _same(seen["skills"], expected_skill, SKILLS_ROOT)
    in_work = {path: facts for path, facts in seen["work"].items() if path.split("/")[0] != GATE_FOLDER}
    _same(in_work, _expected(workspace.files), "/work")
    if seen["writable"]:
        raise SandboxError(f"The agent could change {SKILLS_ROOT} in the sandbox.")
    text = skill.file(skill.skill_md) if skill is not None else None
    return {
        "skills_seen": len({path.split("/")[0] for path in seen["skills"]}),
        "skill_files": len(seen["skills"]),
        "skill_md_sha256": text.sha256 if text else None,
        "workspace_files": len(in_work),
        "environment": seen["environment"],
    }


def _survey(box: Box) -> dict[str, Any]:
    result = box.exec(SURVEY_COMMAND, timeout_s=60, output_cap_bytes=16_000_000)
    problem = result.stderr.decode("utf-8", "replace").strip()[-300:] or "no output"
    if result.exit_code == 0 and not result.truncated:
        try:
            seen: dict[str, Any] = json.loads(result.stdout)
        except ValueError:
            problem = "its output is no JSON"
        else:
            return seen
    raise SandboxError(
        f"What lies in the sandbox could not be checked from inside: {problem}.",
        remedy="Use a sandbox image that holds python3.",
    )


def _expected(files: Iterable[PutFile], under: str = "") -> dict[str, list[Any]]:
    prefix = f"{under}/" if under else ""
    return {f"{prefix}{file.path}": [sha256_hex(file.data), file.executable] for file in files}


def _same(seen: Mapping[str, Any], expected: Mapping[str, Any], root: str) -> None:
    for path in sorted({*seen, *expected}):
        if path not in expected:
            raise SandboxError(f"The sandbox holds {root}/{path}, which its arm must not have.")
        if path not in seen:
            raise SandboxError(f"The sandbox does not hold {root}/{path}, which its arm must have.")
        if list(seen[path]) != expected[path]:
            raise SandboxError(f"{root}/{path} in the sandbox is not what was put there.")


def contamination(subjects: Iterable[Skill], events: Sequence[Event], case: Case) -> str | None:
    """Why a baseline run is void (R23), as a clause; None where it is not.

    It is void where a tool gave it a long line of prose of a SKILL.md. A line does not count that the case itself holds
    (prompt, fixture, mock answers) or that the model had written before the tool gave it back; a line of a code block
    does not either, because ordinary programs print such lines.
    """
    telling = sorted({line for skill in subjects for line in prose_lines(skill.text)})
    said: list[str] = []
    for event in events:
        if event.kind == "tool_result":
            text = str(event.data.get("text", ""))
            for line in telling:
                if line in text and not any(line in words for words in said) and not case_holds(case, line):
                    return f"the baseline read a line of the skill: {line[:80]}"
        elif event.kind in ("model_reply", "tool_call"):
            said.extend(_texts(event.data))
    return None


def case_holds(case: Case, line: str) -> bool:
    """Whether the case itself hands a text to every arm: in its prompt, its fixture or its mock answers."""
    if line in case.prompt or any(line.encode("utf-8", "replace") in file.data for file in case.files):
        return True
    return any(line in text for server in case.mcp_servers for text in _texts(server.to_json()))


def prose_lines(markdown: str) -> list[str]:
    """The lines of a Markdown text, outside code blocks, that are long enough to be its own; stripped, in order."""
    lines, fence = [], ""
    for line in markdown.splitlines():
        stripped = line.strip()
        mark = stripped[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        elif not fence and len(stripped) >= TELLING_CHARACTERS:
            lines.append(stripped)
    return lines


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
