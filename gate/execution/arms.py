"""What each arm gets. Both arms are the same but for the skill, and that is asserted inside each container (R222, R223)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

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


def workspace_files(case: Case, subjects: Iterable[Skill], strips: Sequence[str] = ()) -> Workspace:
    """The fixture of a case without what would let the baseline in on the skill or on the answers.

    Left out in every arm alike (DESIGN.md 3): ``.git``; skills of agent hosts (``.claude/skills`` and its kin); a copy of
    the SKILL.md of any of ``subjects``; an eval file that holds the case's own prompt. Other files that a case lists
    are its material, whatever their names: a case about a manifest needs its manifest. ``strips``: names of files and
    folders from which the agent program of this session would take instructions or settings.
    """
    texts = {text.sha256 for skill in subjects if (text := skill.file(skill.skill_md)) is not None}
    files, stripped = [], []
    for file in case.files:
        reason = _unfit(file.path, file.data, case.prompt, texts)
        if reason is None and not set(strips).isdisjoint(file.path.split("/")):
            reason = "the agent program would take instructions or settings from it"
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


def system_prompt(skill: Skill | None, mode: Literal["offered", "loaded"] = "offered") -> str:
    """The executor's system prompt. Arms differ in one section: the listing of the skill (``loaded``: with its SKILL.md,
    front matter left out as hosts do), or the ban in words (R22)."""
    if skill is None:
        return load_prompt("executor", skill_section=load_prompt("executor_without_skill"))
    listing = {
        "name": _one_line(skill.name),
        "description": _one_line(skill.description),
        "location": f"{SKILLS_ROOT}/{skill_folder(skill)}/{skill.skill_md}",
    }
    if mode == "loaded":
        section = load_prompt("executor_with_skill_loaded", **listing, text=skill.body.strip())
    else:
        section = load_prompt("executor_with_skill", **listing)
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


# What lies in the sandbox, seen by the uid that runs the agent's commands; in parts that end with an empty record: kind, mode
# and path of everything that is no folder, digest and path of every file, a line where /skills could be changed, variables.
# Coreutils rather than a program of our own: an interpreter would take as long to start as everything else here together.
SURVEY = """\
set -e
find /skills /work -mindepth 1 ! -type d -printf '%y %m %p\\0'
printf '\\0'
find /skills /work -mindepth 1 -type f -exec sha256sum -z -- {} +
printf '\\0'
if test -w /skills; then printf 'writable\\0'; fi
printf '\\0'
env -0
"""
SURVEY_COMMAND = ("sh", "-c", SURVEY)


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


# Prints the files of the image itself that hold one of its arguments as a line's part, then a line that says that it has
# looked. The system's own folders, which package managers fill, are left out; so is what is mounted.
IMAGE_SEARCH = """\
for line in "$@"; do set -- "$@" -e "$line"; shift; done
find / -xdev \\( -path /usr/bin -o -path /usr/sbin -o -path /usr/lib -o -path /usr/lib64 -o -path /usr/libexec \
  -o -path /usr/share -o -path /usr/include -o -path /proc -o -path /sys -o -path /dev \\) -prune \
  -o -type f -size -2048k -exec grep -lsF "$@" -- {} + 2>/dev/null
echo searched
"""
_SEARCHED_LINES = 8
_LINE_CHARACTERS = 300


def search_image(box: Box, subjects: Iterable[Skill]) -> int:
    """Look from inside whether the image itself holds the skill; returns how many of its lines were looked for.

    An image of one's own may have the skill, or the whole repository, built in: then the baseline could read it, though
    nobody put it there. Lines of prose of each version's SKILL.md, the longest first; 0 where a skill has none. Raises
    SandboxError where a file holds one.
    """
    lines: set[str] = set()
    for skill in subjects:
        own = sorted(prose_lines(skill.text), key=lambda line: (-len(line), line))
        lines.update(line[:_LINE_CHARACTERS] for line in own[:_SEARCHED_LINES])
    if not lines:
        return 0
    result = box.exec(("sh", "-c", IMAGE_SEARCH, "sh", *sorted(lines)), timeout_s=120)
    found = result.stdout.decode("utf-8", "replace").splitlines()
    if found[-1:] != ["searched"]:
        said = result.stderr.decode("utf-8", "replace").strip()[-300:] or "it gave no reason"
        raise SandboxError(f"The sandbox image could not be searched for the skill: {said}.", remedy=_GNU)
    if len(found) > 1:
        raise SandboxError(
            f"The sandbox image itself holds the skill under test: {found[0]}. A baseline in it is none.",
            remedy="Use an image without the skill; the gate puts it there itself.",
        )
    return len(lines)


_GNU = "Use a sandbox image with find, grep, sha256sum and env of GNU."


def _survey(box: Box) -> dict[str, Any]:
    result = box.exec(SURVEY_COMMAND, timeout_s=60, output_cap_bytes=16_000_000)
    problem = result.stderr.decode("utf-8", "replace").strip()[-300:] or "it printed something else"
    if result.exit_code == 0 and not result.truncated:
        try:
            return _read_survey(result.stdout)
        except ValueError:
            pass
    raise SandboxError(
        f"What lies in the sandbox could not be checked from inside: {problem}.",
        remedy=_GNU,
    )


def _read_survey(output: bytes) -> dict[str, Any]:
    """What SURVEY printed; ``skills`` and ``work``: relative path -> [digest, whether it can be executed]. Raises ValueError."""
    records = output.decode("utf-8", "surrogateescape").split("\0")
    listed, rest = _until_empty(records)
    digests, rest = _until_empty(rest)
    writable, environment = _until_empty(rest)
    by_path = {path: digest for digest, _, path in (record.partition("  ") for record in digests)}
    seen: dict[str, Any] = {"skills": {}, "work": {}}
    for record in listed:
        kind, mode, path = record.split(" ", 2)
        root, relative = path.lstrip("/").split("/", 1)
        digest = by_path[path] if kind == "f" and path in by_path else "no plain file"
        seen[root][relative] = [digest, kind == "f" and bool(int(mode, 8) & 0o100)]
    names = sorted({record.partition("=")[0] for record in environment if record})
    return {**seen, "writable": bool(writable), "environment": names}


def _until_empty(records: list[str]) -> tuple[list[str], list[str]]:
    """What stands before the next empty record, and what stands behind it. Raises ValueError where there is none."""
    at = records.index("")
    return records[:at], records[at + 1 :]


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


def contamination(
    subjects: Iterable[Skill], events: Sequence[Event], case: Case, own: Skill | None = None
) -> str | None:
    """Why a run that must not see the author's skill is void (R23), as a clause; None where it is not.

    It is void where a tool gave it a long line of prose of a SKILL.md. A line does not count that the case itself holds
    (prompt, fixture, mock answers) or that the model had written before the tool gave it back; a line of a code block
    does not either, because ordinary programs print such lines. ``own``: the skill that stands in for the author's in this
    arm; what that says itself tells nothing.
    """
    given = own.text if own is not None else ""
    telling = sorted({line for skill in subjects for line in prose_lines(skill.text) if line not in given})
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
    if any(line in said for said in (case.request, *case.turns)) or any(
        line.encode("utf-8", "replace") in file.data for file in case.files
    ):
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
