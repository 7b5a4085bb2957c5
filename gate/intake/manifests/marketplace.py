"""``marketplace.json`` in its four homes (origins-and-formats.md 6; cases A7).

Local sources are counted from the folder that holds the home (``.claude-plugin/…`` lies one level below it,
``.agents/plugins/…`` and ``.github/plugin/…`` two), and from ``metadata.pluginRoot`` below that where it is set.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, NamedTuple

from gate.domain.base import Json
from gate.domain.findings import Level
from gate.domain.manifest import ManifestState
from gate.intake.manifests.host_plugins import HOSTS
from gate.intake.manifests.reading import Checked, Ground, Index, ancestors, by_form, status, text_of, together
from gate.intake.notes import Notes, joined, short

HOMES = (
    ".claude-plugin/marketplace.json",
    ".agents/plugins/marketplace.json",
    ".cursor-plugin/marketplace.json",
    ".github/plugin/marketplace.json",
)
KIND = "marketplace"
FAMILY = f"manifest/{KIND}"
_PLUGIN_PLACES = (".claude-plugin/plugin.json", *HOSTS.values())
_REMOTE = {"github": "repo", "url": "url", "git-subdir": "url", "npm": "package", "archive": "url", "git": "url"}
"""Kind of a remote source -> the key that it cannot do without."""
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VERSION = re.compile(r"\d+\.\d+\.\d+.*")


class _Entry(NamedTuple):
    name: str
    folder: str | None
    """Repository-relative folder of a local source that is there; None for any other."""
    skills: tuple[str, ...]
    """Repository-relative folders that it names."""


def check(ground: Ground) -> Checked:
    """The nearest marketplace of each home, with what concerns the skill and what is wrong with it as a whole."""
    results: list[Checked] = []
    for home in HOMES:
        nearest = ground.index.nearest(ground.skill_path, home)
        if nearest is None:
            continue
        results.append(_check_one(ground, nearest[0], joined(nearest[0], home)))
    return together(results)


def _check_one(ground: Ground, base: str, path: str) -> Checked:
    document = ground.index.document(path, FAMILY)
    if document.findings:
        return by_form(KIND, path, document.findings)
    key = (KIND, path)
    if key not in ground.index.memory:
        reader = _Marketplace(ground.index, base, path, document.value, document.lines)
        ground.index.memory[key] = (reader.check(), tuple(reader.notes.items))
    entries: list[_Entry]
    entries, found = ground.index.memory[key]
    checked = by_form(KIND, path, found)
    around = set(ancestors(ground.skill_path))
    mine = [entry for entry in entries if entry.folder in around or any(item in around for item in entry.skills)]
    if not mine and checked.statuses[0].state is ManifestState.VERIFIED:
        return Checked((status(KIND, path, ManifestState.VERIFIED, reason="no entry ships this skill"),), found)
    return checked


class _Marketplace:
    def __init__(self, index: Index, base: str, path: str, value: dict[str, Any], lines: dict[str, int]) -> None:
        self.notes = Notes(path, FAMILY)
        self._index = index
        self._value = value
        self._line = lines.get("plugins", 1)
        self._lines = lines
        self._base = base
        metadata = value.get("metadata")
        root = text_of(metadata, "pluginRoot") if isinstance(metadata, dict) else None
        clean = posixpath.normpath(root) if root else "."
        self._root = base if clean in (".", "/") or clean.startswith(("..", "/")) else joined(base, clean)

    def check(self) -> list[_Entry]:
        """All rules; the entries that can be located."""
        if not (text_of(self._value, "name") or "").strip():
            self._error("name", "name is missing, empty or not text", self._lines.get("name", 1))
        owner = self._value.get("owner")
        if (
            owner is not None
            and not (isinstance(owner, dict) and text_of(owner, "name"))
            and not isinstance(owner, str)
        ):
            self._error("owner", "owner is no object with a name", self._lines.get("owner", 1))
        plugins = self._value.get("plugins")
        if not isinstance(plugins, list):
            self._error("plugins", "plugins is missing or no list", self._line)
            return []
        entries = []
        seen: set[str] = set()
        for position, item in enumerate(plugins):
            entry = self._entry(position, item)
            if entry is None:
                continue
            if entry.name in seen:
                self._error("duplicate", f'two plugins are called "{short(entry.name, 40)}"', self._line)
            seen.add(entry.name)
            entries.append(entry)
        return entries

    def _entry(self, position: int, item: Json) -> _Entry | None:
        label = f"plugins[{position}]"
        if not isinstance(item, dict):
            self._error("entry", f"{label} is no object", self._line)
            return None
        name = text_of(item, "name") or ""
        if not name.strip():
            self._error("entry-name", f"{label} has no name", self._line)
        label = f'plugin "{short(name, 40)}"' if name else label
        folder = self._source(label, item.get("source"))
        skills = self._skills(label, item.get("skills"), folder)
        if folder is not None:
            self._compare(label, item, folder)
        return _Entry(name or label, folder, skills)

    def _source(self, label: str, source: Json) -> str | None:
        """The folder of a local source that is there."""
        if isinstance(source, str):
            return self._local(label, source)
        if not isinstance(source, dict):
            self._error("source", f"{label} has no source", self._line, 'Write "source": "./plugins/name".')
            return None
        kind = text_of(source, "source") or ""
        if kind in ("local", "directory", "file", "path"):
            return self._local(label, text_of(source, "path") or "")
        needed = _REMOTE.get(kind)
        if needed is None:
            self._warn("source-kind", f'{label}: source "{short(kind, 40)}" is a kind that is not known here')
        elif not text_of(source, needed):
            self._error("source", f"{label}: source {kind} has no {needed}", self._line)
        else:
            self._pinned(label, kind, source)
        return None

    def _pinned(self, label: str, kind: str, source: dict[str, Any]) -> None:
        if kind == "npm":
            pinned = _VERSION.fullmatch(text_of(source, "version") or "") is not None
            wanted = "an exact version"
        elif kind == "archive":
            pinned = _SHA.fullmatch(text_of(source, "sha256") or "") is not None
            wanted = "its sha256"
        else:
            shas = [text_of(source, "sha"), text_of(source, "ref"), text_of(source, "commit")]
            pinned = any(_SHA.fullmatch(item) for item in shas if item)
            wanted = "a commit as sha"
        if not pinned:
            self._warn(
                "unpinned", f"{label}: its {kind} source is not pinned, so it can change unseen", f"Add {wanted}."
            )

    def _local(self, label: str, source: str) -> str | None:
        clean = posixpath.normpath(source) if source.strip() else ""
        if not clean:
            self._error("source", f"{label} has an empty source", self._line)
            return None
        if clean.startswith("/") or re.match(r"[A-Za-z]:|~", clean) or "\\" in clean:
            self._error("source-form", f'{label}: "{short(source)}" is no path below the marketplace', self._line,
                        'Write "./plugins/name".')  # fmt: skip
            return None
        if clean.startswith(".."):
            self._error("source-outside", f'{label}: "{short(source)}" leads out of the marketplace', self._line)
            return None
        for root in dict.fromkeys((self._root, self._base)):
            folder = root if clean == "." else joined(root, clean)
            if self._index.has_folder(folder):
                return folder
        if self._index.has_file(joined(self._root, clean)):
            self._warn("source-file", f'{label}: "{short(source)}" is a file or a link; a folder was expected')
        else:
            self._warn("source-missing", f'{label}: "{short(source)}" does not exist', "Add it, or remove the entry.")
        return None

    def _skills(self, label: str, skills: Json, folder: str | None) -> tuple[str, ...]:
        """``skills`` is a list or one text; iterating over a text would give letters."""
        items = [skills] if isinstance(skills, str) else skills if isinstance(skills, list) else []
        if skills is not None and not isinstance(skills, str | list):
            self._error("skills", f"{label}: skills is no text and no list of texts", self._line)
        found = []
        for item in items:
            if not isinstance(item, str) or not item.strip():
                self._error("skills", f"{label}: skills holds no path but {short(item, 40)}", self._line)
                continue
            clean = posixpath.normpath(item)
            if clean.startswith(("..", "/")):
                self._error("skill-outside", f'{label}: skills: "{short(item)}" leads out of the plugin', self._line)
                continue
            if folder is None:
                continue
            place = folder if clean == "." else joined(folder, clean)
            if self._index.has_folder(place):
                found.append(place)
            else:
                self._warn("skill-missing", f'{label}: skills: "{short(item)}" does not exist', "Add or remove it.")
        return tuple(found)

    def _compare(self, label: str, item: dict[str, Any], folder: str) -> None:
        """With the plugin's own manifest. A folder that several entries share has none of its own to be compared with."""
        place = next((place for place in _PLUGIN_PLACES if self._index.has_file(joined(folder, place))), None)
        if place is None:
            if item.get("strict") is True:
                self._warn("strict", f"{label} is strict, and {folder} has no plugin.json of its own")
            return
        own = self._index.document(joined(folder, place), "manifest/plugin-json").value
        if not isinstance(own, dict):
            return  # its own kind says why
        for key in ("name", "version"):
            here, there = text_of(item, key), text_of(own, key)
            if here and there and here != there:
                self._warn(
                    f"{key}-differs", f'{label}: {key} is "{short(here, 40)}" here and "{short(there, 40)}" in {place}'
                )

    def _error(self, rule: str, message: str, line: int, remedy: str = "") -> None:
        self.notes.add(Level.ERROR, rule, message, line=line, remedy=remedy)

    def _warn(self, rule: str, message: str, remedy: str = "") -> None:
        self.notes.warn(rule, message, line=self._line, remedy=remedy)
