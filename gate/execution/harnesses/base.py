"""What an agent program is to the gate: how it is started, what it must have been offered, how its tools read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from gate.domain.chat import ToolUse
from gate.domain.gateway import Asked, Dialect
from gate.domain.skill import Skill
from gate.execution.arms import SKILLS_ROOT, skill_folder

PROGRAMS = "/opt/agent"
"""Where the session's volume with the program lies."""
AGENT_HOME = "/tmp/agent"  # noqa: S108 - a folder in the sandbox, its own and empty
"""Home of the program: what it keeps for itself (logs, settings) is no work, and is not collected."""
TOKEN = "GATE_TOKEN"


class Launch(NamedTuple):
    """What a start depends on. Equal in both arms but for the address of nothing: the token travels apart."""

    url: str
    """Of the gateway inside the sandbox, without a path."""
    model: str
    servers: tuple[str, ...]
    """Names of the case's MCP servers, at ``<url>/mcp/<name>``."""


class Harness(Protocol):
    """One agent program."""

    @property
    def name(self) -> str:
        """As the policy names it."""

    @property
    def program(self) -> str:
        """Name of its executable."""

    @property
    def dialects(self) -> frozenset[Dialect]:
        """What it can speak; one of them must be the model's."""

    @property
    def strips(self) -> tuple[str, ...]:
        """Names of files and folders of a fixture from which it would take instructions or settings."""

    def script(self, launch: Launch) -> str:
        """Shell text that makes its home and becomes the program. The token is in ``$GATE_TOKEN``, the prompt on stdin."""

    def offers(self, text: str, skill: Skill) -> bool:
        """Whether a skill is offered to the model by what the program's first request shows it."""

    def plain(self, use: ToolUse) -> ToolUse:
        """A tool call in the loop's words (``bash``, ``read_file``, ``write_file``), where it means the same."""

    def exit_code(self, use: ToolUse, text: str) -> int | None:
        """What the program says of how a command ended; None where it does not."""

    def mcp_name(self, name: str) -> str:
        """How the gate calls a tool of an MCP server that the program calls ``name``."""


def start_script(launch: Launch, *, exports: Mapping[str, str], files: Mapping[str, str], links: Sequence[str]) -> str:
    """The beginning that all have in common. ``files``: path below the home -> content; ``links``: paths below the home
    that lead to the skills, which are root's and the same in every arm but for what lies in them."""
    del launch
    lines = ["set -eu", f"IFS= read -r {TOKEN}", f"export {TOKEN} HOME={AGENT_HOME}", "umask 077"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in exports.items()]
    folders = sorted({f"{AGENT_HOME}/{path}".rpartition("/")[0] for path in (*files, *links)} | {AGENT_HOME})
    lines.append(f"mkdir -p {' '.join(map(shlex.quote, folders))}")
    lines += [f"ln -s {SKILLS_ROOT} {shlex.quote(f'{AGENT_HOME}/{path}')}" for path in links]
    lines += [f"printf %s {shlex.quote(text)} > {shlex.quote(f'{AGENT_HOME}/{path}')}" for path, text in files.items()]
    return "\n".join(lines)


def on_path(program: str) -> str:
    """Shell text that names the executable: the session's volume first, else the image's own."""
    return f'PATH="{PROGRAMS}:$PATH"\nexport PATH\nexec {shlex.quote(program)}'


def texts(asked: Asked) -> str:
    """Everything that a request shows to the model before its first answer."""
    return "\n".join([asked.system, *(message.text for message in asked.messages)])


def lists_entry(text: str, skill: Skill) -> bool:
    """Whether a text holds a line that lists a skill: its name behind a dash, then what it is for."""
    names = {skill.name, skill_folder(skill)}
    return any(re.search(rf"^\s*[-*] (?:[\w-]+:)?{re.escape(name)}(?::|\s|$)", text, re.MULTILINE) for name in names)
