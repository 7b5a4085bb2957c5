"""Would this validator take the skill? Three that disagree: the text of the specification, its reference validator, and
Claude Code (origins-and-formats.md 4).

A profile only says what its validator would; it never decides. Whether a skill is ``invalid`` is ``parse_skill``'s word.
An ``error`` is a refusal by that validator, a ``warning`` is something that it takes and that breaks elsewhere.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import yaml

from gate.domain.findings import Finding, Level
from gate.domain.skill import SkillFile
from gate.intake.notes import Notes, joined, short
from gate.intake.skill import (
    HOST_KEYS,
    MAX_COMPATIBILITY,
    MAX_DESCRIPTION,
    MAX_NAME,
    RESERVED_WORDS,
    SPEC_KEYS,
    Front,
    read_front,
    split_tools,
)
from gate.intake.yaml_text import Node

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DOCUMENT_END = re.compile(r"^\.\.\.(?=\s|$)", re.MULTILINE)
_TAG = re.compile(r"<[A-Za-z/!][^>]*>")
MAX_LISTED = 1536
"""Claude Code cuts description and when_to_use together to this many characters in its list of skills."""
CLAUDE_CODE_KEYS = (
    "name", "description", "when_to_use", "argument-hint", "arguments", "disable-model-invocation", "user-invocable",
    "allowed-tools", "disallowed-tools", "model", "effort", "context", "agent", "hooks", "paths", "shell", "license",
    "compatibility", "metadata", "version",
)  # fmt: skip
_WORDS = {
    "context": ("fork",),
    "effort": ("low", "medium", "high", "xhigh", "max"),
    "shell": ("bash", "powershell"),
}


class Profile(StrEnum):
    """A validator."""

    SPEC = "spec"
    SKILLS_REF = "skills-ref"
    CLAUDE_CODE = "claude-code"


def profile_findings(
    profile: Profile,
    path: str,
    files: tuple[SkillFile, ...],
    *,
    folder_name: str | None = None,
    front: Front | None = None,
) -> tuple[Finding, ...]:
    """What a validator says of a skill folder; no ``error`` among it: it takes the skill. Never raises.

    Arguments as in ``parse_skill``. Rules are ``profile/<profile>/…``; nothing blocks.
    """
    read = front or read_front(path, files)
    notes = Notes(joined(path, read.file.path if read.file else "SKILL.md"), f"profile/{profile.value}")
    if read.file is None:
        _error(notes, "missing", "there is no SKILL.md")
        return notes.all()
    folder = folder_name if path == "." else posixpath.basename(path)
    _CHECKS[profile](read, folder, notes)
    return notes.all()


def _error(notes: Notes, rule: str, message: str, *, line: int | None = None, remedy: str = "") -> None:
    notes.add(Level.ERROR, rule, message, line=line, remedy=remedy)


def _unreadable(front: Front, notes: Notes) -> bool:
    """What makes the file unreadable for everybody, in this profile's name."""
    for item in front.findings:
        if item.blocks:
            rule = item.rule.rpartition("/")[2]
            notes.add(Level.ERROR, rule, item.message, line=item.line, column=item.column, remedy=item.remedy)
    return front.mapping is None or any(item.blocks for item in front.findings)


# The text of the specification.


def _spec(front: Front, folder: str | None, notes: Notes) -> None:
    if front.file is not None and front.file.path != "SKILL.md":
        _error(notes, "file-name", f"the file is called {front.file.path}; SKILL.md was expected", remedy="Rename it.")
    if _unreadable(front, notes) or front.mapping is None:
        return
    _first_line(front, notes)
    keys = front.mapping.value
    _spec_name(keys.get("name"), folder, front.mapping, notes)
    _spec_text(keys.get("description"), "description", MAX_DESCRIPTION, front.mapping, notes)
    if "compatibility" in keys:
        _spec_text(keys["compatibility"], "compatibility", MAX_COMPATIBILITY, front.mapping, notes)
    _spec_rest(keys, notes)
    others = [key for key in keys if key not in SPEC_KEYS]
    for key in others:
        _error(
            notes, "unknown-key", f'the key "{short(key)}" is none of the specification', line=keys[key].line,
            remedy="Put it below metadata.",
        )  # fmt: skip


def _first_line(front: Front, notes: Notes) -> None:
    if front.matter is not None and front.matter.first_line != 2:
        _error(
            notes, "first-line", "the front matter does not start on line 1", line=1, remedy="Remove what stands before it."
        )  # fmt: skip


def _spec_name(node: Node | None, folder: str | None, mapping: Node, notes: Notes) -> None:
    name = _spec_text(node, "name", MAX_NAME, mapping, notes)
    if name is None or node is None:
        return
    if not _NAME.fullmatch(name):
        _error(
            notes, "name-form", f'name "{short(name)}" is not made of a-z, 0-9 and single inner hyphens', line=node.line,
            remedy="Write it like pdf-forms.",
        )  # fmt: skip
    if folder is not None and name != folder:
        _error(notes, "name-folder", f'name "{short(name)}" differs from the folder "{short(folder)}"', line=node.line)


def _spec_text(node: Node | None, key: str, limit: int, mapping: Node, notes: Notes) -> str | None:
    """The text of a key of 1 to ``limit`` code points; None, and a finding, where it is none."""
    if node is None:
        _error(notes, f"{key}-missing", f"there is no {key}", line=mapping.line, remedy=f"Add a {key}.")
        return None
    if not isinstance(node.value, str):
        _error(notes, f"{key}-type", f"{key} is {node.kind}; text was expected", line=node.line)
        return None
    text = node.value.strip()
    if not text:
        _error(notes, f"{key}-missing", f"{key} is empty", line=node.line)
    elif len(text) > limit:
        _error(notes, f"{key}-length", f"{key} has {len(text)} characters; the limit is {limit}", line=node.line)
    return text or None


def _spec_rest(keys: dict[str, Node], notes: Notes) -> None:
    licence = keys.get("license")
    if licence is not None and not isinstance(licence.value, str):
        _error(notes, "license-type", f"license is {licence.kind}; text was expected", line=licence.line)
    metadata = keys.get("metadata")
    if metadata is not None and not metadata.is_map:
        _error(notes, "metadata-type", f"metadata is {metadata.kind}; texts by name were expected", line=metadata.line)
    elif metadata is not None:
        other = [key for key, item in metadata.value.items() if not isinstance(item.value, str)]
        if other:
            names = ", ".join(short(key, 40) for key in other[:10])
            notes.warn(
                "metadata-values", f"metadata holds values that are no text: {names}", line=metadata.value[other[0]].line,
                remedy="Put them in quotes.",
            )  # fmt: skip
    tools = keys.get("allowed-tools")
    if tools is not None and not isinstance(tools.value, str):
        _error(
            notes, "allowed-tools-type", f"allowed-tools is {tools.kind}; text with spaces between the tools was expected",
            line=tools.line,
        )  # fmt: skip
    elif tools is not None and len(split_tools(tools.value, only_commas=True)[0]) > 1:
        notes.warn(
            "allowed-tools-commas", "allowed-tools is separated by commas; the specification separates by spaces",
            line=tools.line,
        )  # fmt: skip


# The reference validator, PyPI skills-ref 0.1.1: what it does, not what it should do. Known not to be followed: a comment
# right behind the sign of a block scalar (``|#``), and U+2028 or U+0085 at the start of a value.


def _skills_ref(front: Front, folder: str | None, notes: Notes) -> None:
    file = front.file
    if file is None or file.path not in ("SKILL.md", "skill.md"):
        _error(notes, "missing", "SKILL.md or skill.md was expected, spelt so")
        return
    if not file.is_regular or file.size_bytes != len(file.data):
        _unreadable(front, notes)
        return
    try:
        text = file.data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        _error(notes, "encoding", f"this is no UTF-8 text (byte {error.start})")
        return
    # It cuts at the first two --- wherever they stand, in a value too.
    parts = text.split("---", 2)
    if not text.startswith("---") or len(parts) < 3:
        _error(notes, "front-matter", "the file does not start with --- and a second --- after it", line=1)
        return
    keys = _strict_yaml(parts[1], notes)
    if keys is None:
        return
    extra = sorted(set(keys) - set(SPEC_KEYS))
    if extra:
        names = ", ".join(short(key, 40) for key in extra[:20])
        _error(notes, "unexpected-fields", f"keys that it does not know: {names}", line=1)
    _ref_name(keys, folder, notes)
    description = keys.get("description")
    if not isinstance(description, str) or not description.strip():
        _error(notes, "description", "description is missing, empty or no text", line=1)
    elif len(description) > MAX_DESCRIPTION:
        _error(
            notes, "description-length",
            f"description has {len(description)} characters with its white space; the limit is {MAX_DESCRIPTION}", line=1,
        )  # fmt: skip
    compatibility = keys.get("compatibility", "")
    if not isinstance(compatibility, str):
        _error(notes, "compatibility", "compatibility is no text", line=1)
    elif len(compatibility) > MAX_COMPATIBILITY:
        _error(notes, "compatibility-length", f"compatibility has more than {MAX_COMPATIBILITY} characters", line=1)


def _ref_name(keys: dict[str, Any], folder: str | None, notes: Notes) -> None:
    value = keys.get("name")
    if not isinstance(value, str) or not value.strip():
        _error(notes, "name", "name is missing, empty or no text", line=1)
        return
    name = unicodedata.normalize("NFKC", value.strip())
    if len(name) > MAX_NAME:
        _error(notes, "name-length", f"name has {len(name)} characters; the limit is {MAX_NAME}", line=1)
    if name != name.lower():
        _error(notes, "name-case", f'name "{short(name)}" is not in lower case', line=1)
    if name.startswith("-") or name.endswith("-"):
        _error(notes, "name-edge", f'name "{short(name)}" starts or ends with a hyphen', line=1)
    if "--" in name:
        _error(notes, "name-hyphens", f'name "{short(name)}" holds two hyphens in a row', line=1)
    if not all(char.isalnum() or char == "-" for char in name):
        _error(notes, "name-characters", f'name "{short(name)}" holds more than letters, digits and hyphens', line=1)
    if folder is not None and unicodedata.normalize("NFKC", folder) != name:
        _error(notes, "name-folder", f'name "{short(name)}" differs from the folder "{short(folder)}"', line=1)


_MERGE = object()
_NO_LINE_ENDS = dict.fromkeys((0x85, 0x2028, 0x2029), "\N{MIDDLE DOT}")


class _StrictError(Exception):
    """Internal: strictyaml would refuse this."""


def _strict_yaml(text: str, notes: Notes) -> dict[str, Any] | None:
    """The top keys as strictyaml reads them (every scalar is text); None, and a finding, where it refuses."""
    root: Any = None
    try:
        root = _Strict().read(text)
    except (_StrictError, yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        message = getattr(error, "problem", None) or error
        _error(notes, "yaml", f"strictyaml does not take the front matter: {short(message)}", line=line)
        return None
    if not isinstance(root, dict):
        _error(notes, "yaml", "the front matter is no mapping", line=1)
        return None
    return root


class _Strict:
    """strictyaml over a parser's events: block style only, no tags, no anchors, each key once, and mappings that stand in
    one mapping at one column.
    """

    def read(self, text: str) -> Any:
        """The value: dict, list or text. Raises _StrictError and what the parser raises."""
        stack: list[list[Any]] = []  # [dict or list, key that waits for its value, column of mappings in it]
        root: Any = ""
        documents = 0
        if len(_DOCUMENT_END.findall(text)) > 1:
            raise _StrictError("a second document")
        # Two ways in which its scanner differs from libyaml: a tab separates nothing, and these signs end no line.
        loader = yaml.SafeLoader if "\t" in text else _LOADER
        for event in yaml.parse(text.translate(_NO_LINE_ENDS), Loader=loader):
            value: Any
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _StrictError("a second document")
                continue
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise _StrictError("anchors are not allowed")
            if isinstance(event, yaml.ScalarEvent):
                _refuse_tag(event)
                value = event.value
                if (
                    value == "<<"
                    and event.implicit[0]
                    and stack
                    and isinstance(stack[-1][0], dict)
                    and stack[-1][1] is None
                ):
                    stack[-1][1] = _MERGE
                    continue
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._open(event, stack)
                continue
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                value = stack.pop()[0]
            else:
                continue
            if not stack:
                root = value
            else:
                _put(stack[-1], value)
        return root

    def _open(self, event: Any, stack: list[list[Any]]) -> None:
        _refuse_tag(event)
        if event.flow_style:
            raise _StrictError("flow style ({…} and […]) is not allowed")
        is_map = isinstance(event, yaml.MappingStartEvent)
        if is_map and stack and isinstance(stack[-1][0], dict) and stack[-1][1] is not None:
            column = event.start_mark.column
            if stack[-1][2] not in (None, column):
                raise _StrictError("mappings stand at different columns")
            stack[-1][2] = column
        stack.append([{} if is_map else [], None, None])


def _refuse_tag(event: Any) -> None:
    if event.tag is not None:
        raise _StrictError("tags are not allowed")


def _put(frame: list[Any], value: Any) -> None:
    into, key, _ = frame
    if isinstance(into, list):
        into.append(value)
    elif key is _MERGE:
        # What is merged in is no key of its own for it, and anything but mappings cannot be.
        if not (isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, dict) for one in value))):
            raise _StrictError("<< without a mapping")
        frame[1] = None
    elif key is None:
        if not isinstance(value, str):
            raise _StrictError("a key that is no text")
        if value in into:
            raise _StrictError(f'the key "{short(value)}" is there twice')
        frame[1] = value
    else:
        into[key] = value
        frame[1] = None


# Claude Code.


def _claude_code(front: Front, folder: str | None, notes: Notes) -> None:
    if _unreadable(front, notes) or front.mapping is None:
        return
    _first_line(front, notes)
    keys = front.mapping.value
    name = keys.get("name")
    if name is None:
        notes.notice("name-missing", f"there is no name; the folder's is used ({short(folder or 'unknown')})", line=1)
    elif not isinstance(name.value, str) or not name.value.strip():
        notes.warn("name-type", f"name is {name.kind}; text was expected", line=name.line)
    else:
        _claude_name(name.value.strip(), name, notes)
    _claude_description(keys, front.mapping, notes)
    _claude_words(keys, notes)
    uploads = [key for key in keys if key in CLAUDE_CODE_KEYS and key not in SPEC_KEYS]
    if uploads:
        names = ", ".join(uploads)
        notes.warn(
            "upload", f"keys that Claude Code reads and an upload of the skill refuses: {names}", line=keys[uploads[0]].line
        )  # fmt: skip
    unknown = [key for key in keys if key not in CLAUDE_CODE_KEYS]
    if unknown:
        names = ", ".join(short(key, 40) for key in unknown[:20])
        other = " (some are keys of other hosts)" if any(key in HOST_KEYS for key in unknown) else ""
        notes.notice("unknown-keys", f"keys that it does not read: {names}{other}", line=keys[unknown[0]].line)


def _claude_name(text: str, node: Node, notes: Notes) -> None:
    if len(text) > MAX_NAME or not _NAME.fullmatch(text):
        notes.warn(
            "name-form", f'name "{short(text)}" is not 1 to {MAX_NAME} of a-z, 0-9 and single inner hyphens', line=node.line
        )  # fmt: skip
    reserved = [word for word in RESERVED_WORDS if word in text.lower()]
    if reserved:
        notes.warn("name-reserved", f"name holds the reserved word {reserved[0]}; an upload refuses it", line=node.line)


def _claude_description(keys: dict[str, Node], mapping: Node, notes: Notes) -> None:
    node, more = keys.get("description"), keys.get("when_to_use")
    if node is None or not isinstance(node.value, str) or not node.value.strip():
        notes.warn(
            "description-missing", "there is no description; the first paragraph is used to decide when the skill is opened",
            line=node.line if node else mapping.line, remedy="Add a description.",
        )  # fmt: skip
        return
    text = node.value.strip()
    extra = more.value.strip() if more is not None and isinstance(more.value, str) else ""
    if len(text) + len(extra) > MAX_LISTED:
        notes.warn(
            "description-cut", f"description and when_to_use have {len(text) + len(extra)} characters; what is over "
            f"{MAX_LISTED} is cut off in the list of skills", line=node.line, remedy="Put the main use first.",
        )  # fmt: skip
    elif len(text) > MAX_DESCRIPTION:
        notes.warn(
            "description-length", f"description has {len(text)} characters; an upload takes {MAX_DESCRIPTION}", line=node.line
        )  # fmt: skip
    if _TAG.search(text):
        notes.warn(
            "description-tag", "description holds something that looks like a tag; an upload refuses it", line=node.line
        )


def _claude_words(keys: dict[str, Node], notes: Notes) -> None:
    for key in ("disable-model-invocation", "user-invocable"):
        node = keys.get(key)
        if node is not None and not isinstance(node.value, bool):
            notes.warn(f"{key}-type", f"{key} is {node.kind}; true or false was expected", line=node.line)
    for key, words in _WORDS.items():
        node = keys.get(key)
        if node is not None and node.value not in words:
            notes.warn(f"{key}-word", f'{key} is "{short(node.source)}"; expected: {", ".join(words)}', line=node.line)
    agent = keys.get("agent")
    if agent is not None and "context" not in keys:
        notes.warn("agent-context", "agent counts only beside context: fork", line=agent.line)
    hooks = keys.get("hooks")
    if hooks is not None and not hooks.is_map:
        notes.warn("hooks-type", f"hooks is {hooks.kind}; keys and values were expected", line=hooks.line)
    silent, hidden = keys.get("disable-model-invocation"), keys.get("user-invocable")
    if silent is not None and hidden is not None and silent.value is True and hidden.value is False:
        notes.warn("nobody", "neither the model nor a user can open this skill", line=hidden.line)


_CHECKS: dict[Profile, Callable[[Front, str | None, Notes], None]] = {
    Profile.SPEC: _spec,
    Profile.SKILLS_REF: _skills_ref,
    Profile.CLAUDE_CODE: _claude_code,
}


def refused(findings: Sequence[Finding]) -> bool:
    """Whether a profile's validator refuses the skill."""
    return any(item.level is Level.ERROR for item in findings)
