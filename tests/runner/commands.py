"""The runner's ear: every line that a step prints, on either stream, may be a command (github-action.md 1.12)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

KNOWN = frozenset(
    {
        "add-mask",
        "add-matcher",
        "add-path",
        "debug",
        "echo",
        "endgroup",
        "error",
        "group",
        "notice",
        "remove-matcher",
        "save-state",
        "set-env",
        "set-output",
        "stop-commands",
        "warning",
    }
)
LEVELS = ("error", "warning", "notice")
MOST_OF_A_LEVEL = 10
"""Annotations of each level that a step can make; what comes after is only text."""
_NO_TOKEN = frozenset({"", "pause-logging"})
_AUTO_MASK_LENGTH = 6
# The order matters: the percent sign last, so that an escaped percent sign cannot make another escape.
_DATA = (("%0D", "\r"), ("%0A", "\n"), ("%25", "%"))
_PROPERTY = (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))
_OLD = (("%3B", ";"), ("%0D", "\r"), ("%0A", "\n"), ("%5D", "]"), ("%25", "%"))


@dataclass(frozen=True)
class Annotation:
    """A message beside the job."""

    level: str
    message: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """A command as it was understood."""

    name: str
    data: str
    properties: Mapping[str, str]


def parse(line: str, known: frozenset[str]) -> Command | None:
    """The command that a line is. ``::name key=value,…::data`` at its start, else ``##[name key=value;…]data`` anywhere."""
    return _parse_new(line, known) or _parse_old(line, known)


def _parse_new(line: str, known: frozenset[str]) -> Command | None:
    text = line.lstrip()
    if not text.startswith("::"):
        return None
    info, found, data = text[2:].partition("::")
    if not found:
        return None
    name, _, rest = info.partition(" ")
    if name.lower() not in known:
        return None
    return Command(name.lower(), _unescape(data, _DATA), _properties(rest.strip(), ",", _PROPERTY))


def _parse_old(line: str, known: frozenset[str]) -> Command | None:
    _, found, rest = line.partition("##[")
    info, closed, data = rest.partition("]")
    if not found or not closed:
        return None
    name, _, properties = info.partition(" ")
    if name.lower() not in known:
        return None
    return Command(name.lower(), _unescape(data, _OLD), _properties(properties, ";", _OLD))


def _properties(text: str, separator: str, escapes: tuple[tuple[str, str], ...]) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(separator))
    return {name: _unescape(value, escapes) for name, found, value in pairs if found and name and value}


def _unescape(text: str, escapes: tuple[tuple[str, str], ...]) -> str:
    for escaped, plain in escapes:
        text = text.replace(escaped, plain)
    return text


class Commands:
    """What the lines of one step came to. ``feed`` may be called from the threads of both streams.

    Attributes:
        annotations: Those that the runner would have kept.
        commands: Every command that was carried out, in order, the ends of stops included.
        problems: What the runner would have reported as an error of the step itself; any of these fails the step.
        output: ``(stream, line)`` of all that was printed, before masks.
    """

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        """``secrets``: what the workflow registered before the step began."""
        self.annotations: list[Annotation] = []
        self.commands: list[Command] = []
        self.problems: list[str] = []
        self.outputs: dict[str, str] = {}
        """By the old command."""
        self.state: dict[str, str] = {}
        """By the old command."""
        self.output: list[tuple[str, str]] = []
        self._shown: list[str] = []
        self._lock = threading.Lock()
        self._masks = {secret for secret in secrets if secret}
        self._token: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether the step has ended with commands still stopped."""
        return self._token is not None

    @property
    def masks(self) -> frozenset[str]:
        """Everything that is blotted out."""
        return frozenset(self._masks)

    @property
    def log(self) -> str:
        """What people see: commands that were carried out are gone, secrets are ``***``."""
        return "\n".join(self._shown)

    @property
    def raw(self) -> str:
        """All that was printed, before masks: what a leak would be looked for in."""
        return "\n".join(line for _, line in self.output)

    def feed(self, line: str, stream: str = "stdout") -> None:
        """One line, without its end."""
        with self._lock:
            self.output.append((stream, line))
            known = KNOWN if self._token is None else KNOWN | {self._token.lower()}
            command = parse(line, known)
            if command is None or not self._carry_out(command, line):
                self._show(line)

    def _carry_out(self, command: Command, line: str) -> bool:
        if self._token is not None:
            if command.name != self._token.lower():
                return False
            self._token = None
            self._show(line)
        elif command.name == "stop-commands":
            if command.data.lower() in _NO_TOKEN | KNOWN:
                self.problems.append(f"stop-commands with the token {command.data!r}")
                return True
            self._token = command.data
            if len(command.data) > _AUTO_MASK_LENGTH:
                self._masks.add(command.data)
            self._show(line)
        else:
            self._obey(command, line)
        self.commands.append(command)
        return True

    def _obey(self, command: Command, line: str) -> None:
        if command.name in LEVELS:
            self.annotate(command.name, command.data, command.properties)
        elif command.name in ("set-env", "add-path"):
            self.problems.append(f"the {command.name} command is disabled")
        elif command.name in ("set-output", "save-state"):
            name = command.properties.get("name", "")
            if not name:
                self.problems.append(f"{command.name} without a name")
                return
            (self.outputs if command.name == "set-output" else self.state)[name] = command.data
            self.annotate("warning", f"The {command.name} command is deprecated", {})
        elif command.name == "add-mask":
            if not command.data.strip():
                self.annotate("warning", "Can't add secret mask for empty string in ##[add-mask] command.", {})
            self._masks.update(part for part in command.data.splitlines() if part.strip())
        elif command.name in ("group", "endgroup", "debug"):
            self._show(line)

    def annotate(self, level: str, message: str, properties: Mapping[str, str]) -> None:
        """An annotation, as long as the step may make one."""
        if sum(one.level == level for one in self.annotations) < MOST_OF_A_LEVEL:
            self.annotations.append(Annotation(level, self.mask(message), dict(properties)))
        self._show(f"##[{level}]{message}")

    def mask(self, text: str) -> str:
        """Blot out secrets, the longest first."""
        for secret in sorted(self._masks, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _show(self, line: str) -> None:
        self._shown.append(self.mask(line))
