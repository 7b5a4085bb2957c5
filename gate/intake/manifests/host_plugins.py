"""Plugin manifests of other hosts: ``.codex-plugin``, ``.cursor-plugin``, ``.plugin``, ``.kimi-plugin``, ``.grok-plugin``,
and a bare ``plugin.json`` in the plugin's folder (cases A7).

None of these hosts has published every key, so only what all of them share is held against the files: a name, a version
that is text, component paths that stay inside and exist. Unknown keys are not findings.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from gate.domain.findings import Level
from gate.intake.manifests.agent_plugin import is_agent_plugin
from gate.intake.manifests.reading import Checked, Document, Ground, Index, by_form, together
from gate.intake.notes import Notes, joined, short

HOSTS = {
    "codex-plugin": ".codex-plugin/plugin.json",
    "cursor-plugin": ".cursor-plugin/plugin.json",
    "open-plugin": ".plugin/plugin.json",
    "kimi-plugin": ".kimi-plugin/plugin.json",
    "grok-plugin": ".grok-plugin/plugin.json",
    "bare-plugin": "plugin.json",
}
"""Kind -> place in the plugin's folder."""
_COMPONENTS = ("skills", "commands", "agents", "hooks", "mcpServers", "rules", "apps")
_TEMPLATE = re.compile(r"\$\{[^}]*\}|\{\{")


def check(ground: Ground) -> Checked:
    """Every other host's manifest that is nearest around the skill."""
    results: list[Checked] = []
    for kind, place in HOSTS.items():
        nearest = ground.index.nearest(ground.skill_path, place)
        if nearest is None:
            continue
        folder = nearest[0]
        path = joined(folder, place)
        document = ground.index.document(path, f"manifest/{kind}")
        if kind == "bare-plugin" and not _is_bare_plugin(ground.index, folder, document):
            continue  # another kind's, or nobody's: plenty of programs have a plugin.json
        found = document.findings or _findings(ground.index, kind, path, folder, document)
        results.append(by_form(kind, path, found))
    return together(results)


def _is_bare_plugin(index: Index, folder: str, document: Document) -> bool:
    value = document.value
    if document.findings:
        return index.has_folder(joined(folder, "skills"))  # where skills are beside it, a broken one is not passed over
    return not is_agent_plugin(value) and "name" in value and any(key in value for key in _COMPONENTS)


def _findings(index: Index, kind: str, path: str, folder: str, document: Document) -> tuple[Any, ...]:
    memory = ("host", path)
    if memory not in index.memory:
        notes = Notes(path, f"manifest/{kind}")
        _check(index, folder, document, notes)
        index.memory[memory] = notes.all()
    found: tuple[Any, ...] = index.memory[memory]
    return found


def _check(index: Index, folder: str, document: Document, notes: Notes) -> None:
    value, lines = document.value, document.lines
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        what = "name is missing" if "name" not in value else "name is not text, or empty"
        notes.add(Level.ERROR, "name", what, line=lines.get("name", 1), remedy="Add a name like pdf-tools.")
    if "version" in value and not isinstance(value["version"], str):
        notes.add(Level.ERROR, "version", "version is not text", line=lines["version"], remedy='Write "1.0.0".')
    for key in _COMPONENTS:
        found = value.get(key)
        for item in found if isinstance(found, list) else [found]:
            if isinstance(item, str):
                check_path(index, folder, key, item, notes, lines.get(key, 1))


def check_path(index: Index, folder: str, key: str, path: str, notes: Notes, line: int) -> None:
    """A path in a manifest, relative to the plugin's folder: inside, and there. Glob patterns and variables are let by."""
    if _TEMPLATE.search(path) or "*" in path:
        return
    clean = posixpath.normpath(path.replace("\\", "/"))
    if clean.startswith(("/", "..")) or re.match(r"[A-Za-z]:", clean):
        notes.add(Level.ERROR, "path-outside", f'{key}: "{short(path)}" leads out of the plugin', line=line,
                  remedy="Use a path in the plugin.")  # fmt: skip
    elif not index.exists(joined(folder, clean) if clean != "." else folder):
        notes.add(Level.ERROR, "path-missing", f'{key}: "{short(path)}" does not exist', line=line,
                  remedy="Add it, or remove the entry.")  # fmt: skip
