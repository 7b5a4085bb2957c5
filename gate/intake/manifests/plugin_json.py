"""``.claude-plugin/plugin.json``: the plugin that a skill is shipped in (origins-and-formats.md section 6)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection
from typing import Any

from gate.domain.findings import Finding, Level
from gate.intake.json_text import Lines, decoded, parse_json
from gate.intake.notes import Notes, joined, nearest, short

PLACE = ".claude-plugin/plugin.json"

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# The grammar of semver.org 2.0.0.
_NUMBER = r"(0|[1-9]\d*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?", re.ASCII
)
_COMPONENTS = ("skills", "commands", "agents", "hooks", "mcpServers", "lspServers", "outputStyles", "monitors")
_INLINE = ("hooks", "mcpServers", "lspServers", "monitors")
"""Components that may stand in the manifest itself, as an object."""
_KNOWN = (
    "$schema", "name", "version", "description", "author", "homepage", "repository", "license", "keywords",
    *_COMPONENTS, "userConfig", "channels", "dependencies", "displayName", "settings",
)  # fmt: skip


def owner(tree_paths: Collection[str], skill_path: str) -> str | None:
    """The folder of the nearest plugin around a skill (``.``: the root), or None."""
    folder = skill_path
    while True:
        if joined(folder, PLACE) in tree_paths:
            return folder
        if folder == ".":
            return None
        folder = posixpath.dirname(folder) or "."


def check(
    tree_paths: Collection[str],
    read: Callable[[str], bytes | None],
    skill_path: str,
    *,
    exists: Callable[[str], bool] | None = None,
) -> tuple[Finding, ...]:
    """Everything that is wrong with the manifest that owns the skill; empty where there is none.

    ``exists`` says whether a file or a folder is there, for trees so large that looking through all paths takes long.
    """
    folder = owner(tree_paths, skill_path)
    if folder is None:
        return ()
    path = joined(folder, PLACE)
    notes = Notes(path, "manifest/plugin-json")
    data = read(path)
    if data is None:
        notes.add(
            Level.ERROR, "link", "the manifest is a link; links are never followed", remedy="Commit a plain file."
        )
        return notes.all()
    text, problem = decoded(data)
    parsed = parse_json(text) if problem is None else None
    for item in (problem,) if problem else parsed.problems if parsed else ():
        remedy = item.remedy or "Write it again, or remove it."
        notes.add(Level.ERROR, "json", item.message, line=item.line, column=item.column, remedy=remedy)
    if notes.items or parsed is None:
        return notes.all()
    if not isinstance(parsed.value, dict):
        notes.add(Level.ERROR, "no-object", "an object was expected", line=1, remedy='Start it with {"name": "…"}.')
        return notes.all()
    _Manifest(parsed.value, Lines(text).of_keys(), folder, exists or _among(tree_paths), notes).check(skill_path)
    return notes.all()


def _among(tree_paths: Collection[str]) -> Callable[[str], bool]:
    def exists(path: str) -> bool:
        return path == "." or path in tree_paths or any(item.startswith(f"{path}/") for item in tree_paths)

    return exists


class _Manifest:
    def __init__(
        self, value: dict[str, Any], lines: dict[str, int], folder: str, exists: Callable[[str], bool], notes: Notes
    ) -> None:
        self._value = value
        self._lines = lines
        self._folder = folder
        self._exists = exists
        self._notes = notes

    def check(self, skill_path: str) -> None:
        """All rules."""
        self._name()
        self._version()
        self._author()
        self._texts()
        for key in _COMPONENTS:
            if key in self._value:
                self._component(key)
        for key in self._value:
            if key not in _KNOWN:
                likely = nearest(key, _KNOWN)
                hint = f"; did you mean {likely}?" if likely else "; hosts drop it"
                self._warn("unknown-key", key, f'"{short(key)}" is an unknown key{hint}')
        self._reaches(skill_path)

    def _name(self) -> None:
        name = self._value.get("name")
        if not isinstance(name, str) or not name.strip():
            what = "name is missing" if "name" not in self._value else "name is not text, or empty"
            self._error("name", "name", what, "Add a name like pdf-tools.")
        elif not _NAME.fullmatch(name):
            self._warn("name-form", "name", f'name "{short(name)}" is not made of a-z, 0-9 and single inner hyphens')

    def _version(self) -> None:
        version = self._value.get("version")
        if version is None and "version" not in self._value:
            return
        if not isinstance(version, str):
            self._error("version", "version", "version is not text", 'Write "version": "1.0.0".')
        elif not _SEMVER.fullmatch(version):
            self._warn("version-form", "version", f'version "{short(version)}" is no semantic version (1.2.3)')

    def _author(self) -> None:
        author = self._value.get("author")
        if author is None or isinstance(author, str):
            return
        if not isinstance(author, dict) or not isinstance(author.get("name"), str) or not author["name"].strip():
            self._error(
                "author", "author", "author is no text and no object with a name", 'Write "author": {"name": "…"}.'
            )

    def _texts(self) -> None:
        for key in ("description", "homepage", "license"):
            if key in self._value and not isinstance(self._value[key], str):
                self._warn("type", key, f"{key} is not text")
        if "repository" in self._value and not isinstance(self._value["repository"], str | dict):
            self._warn("type", "repository", "repository is no text and no object")
        keywords = self._value.get("keywords", [])
        if not isinstance(keywords, list) or not all(isinstance(item, str) for item in keywords):
            self._warn("type", "keywords", "keywords is no list of texts")

    def _component(self, key: str) -> None:
        value = self._value[key]
        if isinstance(value, dict) and key in _INLINE:
            return
        items = value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, dict) and key in _INLINE:
                continue
            if not isinstance(item, str):
                self._error("path-type", key, f"{key} holds no path but {short(item, 40)}", f'Write "{key}": "./path".')
            else:
                self._path(key, item)

    def _path(self, key: str, path: str) -> None:
        if "\\" in path:
            self._error("path-form", key, f'{key}: "{short(path)}" has a backslash', "Use forward slashes.")
        elif ".." in path.split("/"):
            self._error(
                "path-outside", key, f'{key}: "{short(path)}" leads out of the plugin', "Use a path in the plugin."
            )
        elif not path.startswith("./"):
            self._error(
                "path-form", key, f'{key}: "{short(path)}" does not start with ./', f"Write ./{path.lstrip('/')}."
            )
        elif not self._exists(self._inside(path)):
            self._error("path-missing", key, f'{key}: "{short(path)}" does not exist', "Add it, or remove the entry.")

    def _inside(self, path: str) -> str:
        """Repository-relative form of a plugin path."""
        clean = posixpath.normpath(path)
        return self._folder if clean == "." else joined(self._folder, clean)

    def _reaches(self, skill_path: str) -> None:
        """Hosts load the children of ``skills/``, and each path of the key ``skills`` with its children."""
        listed = self._value.get("skills", [])
        listed = listed if isinstance(listed, list) else [listed]
        places = {self._inside(item) for item in listed if isinstance(item, str) and ".." not in item.split("/")}
        parent = posixpath.dirname(skill_path) or "."
        if parent == joined(self._folder, "skills") or skill_path in places or parent in places:
            return
        if skill_path == self._folder:
            return  # a plugin that is one skill
        self._warn(
            "unreachable",
            "skills",
            f"this plugin does not load {short(skill_path)}: it is not a child of skills/ and skills does not name it",
            "Move the skill below skills/, or name its folder under skills.",
        )

    def _error(self, rule: str, key: str, message: str, remedy: str = "") -> None:
        self._notes.add(Level.ERROR, rule, message, line=self._lines.get(key, 1), remedy=remedy)

    def _warn(self, rule: str, key: str, message: str, remedy: str = "") -> None:
        self._notes.warn(rule, message, line=self._lines.get(key, 1), remedy=remedy)
