"""Agent Plugins 1.0.0: ``plugin.json`` in the plugin's root with ``mcp.json`` beside it (origins-and-formats.md 6).

The manifest is recognised by its ``$schema``, which is a name and never fetched. Unknown keys are reported and ignored;
everything else that the specification forbids makes hosts reject the plugin.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from gate.domain.base import Json
from gate.domain.findings import Level
from gate.intake.manifests.reading import Checked, Ground, Index, by_form
from gate.intake.notes import Notes, joined, short

PLACE = "plugin.json"
MCP_PLACE = "mcp.json"
SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
KIND = "agent-plugin"
MCP_KIND = "agent-plugin-mcp"

_HOME = "https://agent-plugins.org/schemas/"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)
_TEXTS = ("version", "description", "homepage", "repository", "license")
_KNOWN = ("$schema", "name", *_TEXTS, "author", "keywords", "extensions")
_TRANSPORTS = ("stdio", "streamable-http", "sse")
_RESERVED = ("PLUGIN_ROOT", "PLUGIN_DATA")


def is_agent_plugin(value: Json) -> bool:
    """Whether a ``plugin.json`` says that it is of this specification."""
    schema = value.get("$schema") if isinstance(value, dict) else None
    return isinstance(schema, str) and schema.startswith(_HOME)


def check(ground: Ground) -> Checked:
    """The plugin whose root is nearest around the skill."""
    index = ground.index
    nearest = index.nearest(ground.skill_path, PLACE)
    if nearest is None:
        return Checked()
    folder = nearest[0]
    path = joined(folder, PLACE)
    document = index.document(path, f"manifest/{KIND}")
    if not is_agent_plugin(document.value):
        return Checked()
    notes = Notes(path, f"manifest/{KIND}")
    _Plugin(document.value, document.lines, notes).check()
    if posixpath.dirname(ground.skill_path) != joined(folder, "skills").removeprefix("./"):
        notes.warn(
            "unreachable",
            f"this plugin does not load {short(ground.skill_path)}: only the children of skills/ are loaded",
            remedy="Move the skill to skills/<name>.",
        )
    plugin = by_form(KIND, path, notes.all())
    servers = _servers(index, folder)
    return Checked((*plugin.statuses, *servers.statuses), (*plugin.findings, *servers.findings))


class _Plugin:
    def __init__(self, value: dict[str, Any], lines: dict[str, int], notes: Notes) -> None:
        self._value = value
        self._lines = lines
        self._notes = notes

    def check(self) -> None:
        """All rules but the reach."""
        value = self._value
        if value["$schema"] != SCHEMA:
            self._warn("schema", "$schema", f'"{short(value["$schema"])}" is not version 1.0.0; read as if it were')
        name = value.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or "--" in name or ".." in name:
            self._error(
                "name", "name", f'name "{short(name)}" is not 1 to 64 of a-z, 0-9, - and . with alphanumeric ends'
            )
        for key in _TEXTS:
            if key in value and not isinstance(value[key], str):
                self._error("type", key, f"{key} is not text")
        self._author()
        keywords = value.get("keywords", [])
        if not isinstance(keywords, list) or not all(isinstance(item, str) for item in keywords):
            self._error("type", "keywords", "keywords is no list of texts")
        extensions = value.get("extensions", {})
        if not isinstance(extensions, dict) or not all(
            _DOMAIN.fullmatch(key) and isinstance(item, dict) for key, item in extensions.items()
        ):
            self._error("extensions", "extensions", "extensions is no mapping of reversed domain names to objects")
        for key in value:
            if key not in _KNOWN:
                self._warn("unknown-key", key, f'"{short(key)}" is an unknown key; hosts ignore it')

    def _author(self) -> None:
        author = self._value.get("author")
        if "author" not in self._value:
            return
        if not isinstance(author, dict) or not isinstance(author.get("name"), str):
            self._error("author", "author", "author is no object with a name")
        elif any(key not in ("name", "email", "url") or not isinstance(item, str) for key, item in author.items()):
            self._error("author", "author", "author holds something else than the texts name, email and url")

    def _error(self, rule: str, key: str, message: str) -> None:
        self._notes.add(Level.ERROR, rule, message, line=self._lines.get(key, 1), remedy="Hosts reject the plugin.")

    def _warn(self, rule: str, key: str, message: str) -> None:
        self._notes.warn(rule, message, line=self._lines.get(key, 1))


def _servers(index: Index, folder: str) -> Checked:
    """``mcp.json``; ``.mcp.json`` beside it is another host's and not read."""
    path = joined(folder, MCP_PLACE)
    if not index.has_file(path):
        return Checked()
    document = index.document(path, f"manifest/{MCP_KIND}")
    if document.findings:
        return by_form(MCP_KIND, path, document.findings)
    notes = Notes(path, f"manifest/{MCP_KIND}")
    servers = document.value.get("mcpServers")
    if not isinstance(servers, dict):
        notes.add(Level.ERROR, "servers", "mcpServers is missing or no object", line=1)
    line = document.lines.get("mcpServers", 1)
    for name, server in servers.items() if isinstance(servers, dict) else ():
        _server(index, folder, str(name), server, notes, line)
    return by_form(MCP_KIND, path, notes.all())


def _command(index: Index, folder: str, command: Json) -> tuple[str, str, str] | None:
    """(rule, message, remedy) about a command; None for a good one."""
    if not isinstance(command, str) or not command:
        return "command", "command is missing or not text", ""
    if command.startswith("./"):
        place = posixpath.normpath(command)
        if place.startswith(".."):
            return "path-outside", f'command "{short(command)}" leads out of the plugin', ""
        if not index.has_file(joined(folder, place)):
            return "path-missing", f'command "{short(command)}" does not exist', "Add it, or correct the path."
    elif "/" in command or "\\" in command:
        return "command", f'command "{short(command)}" is neither a bare name nor a path that starts with ./', ""
    return None


def _server(index: Index, folder: str, name: str, server: Json, notes: Notes, line: int) -> None:
    label = f'server "{short(name, 40)}"'

    def wrong(rule: str, message: str, remedy: str = "") -> None:
        notes.add(Level.ERROR, rule, f"{label}: {message}", line=line, remedy=remedy)

    if not isinstance(server, dict):
        wrong("server", "no object")
        return
    kind = server.get("type", "stdio" if "command" in server else "streamable-http")
    if kind not in _TRANSPORTS:
        wrong("transport", f'type "{short(kind, 40)}" is none of {", ".join(_TRANSPORTS)}')
    elif kind != "stdio":
        url = server.get("url")
        if not isinstance(url, str) or not url.startswith(("https://", "http://")):
            wrong("url", "url is missing or no http address")
    elif problem := _command(index, folder, server.get("command")):
        wrong(*problem)
    env = server.get("env", {})
    if not isinstance(env, dict):
        wrong("env", "env is no object")
    elif taken := sorted(set(env) & set(_RESERVED)):
        wrong("env", f"env sets {taken[0]}, which belongs to the host")
