"""SKILL.md and the files of its folder: bytes in, a Skill or the findings that say why not.

Rules are those of the open specification (profile ``spec``; origins-and-formats.md section 4), at the levels that counts
over real skills suggest (cases/README.md A1, A2, A8): only an unreadable file and a missing name or description make a
skill invalid.
"""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from gate.domain.findings import Finding, Level
from gate.domain.skill import (
    SUBMODULE,
    SYMLINK,
    Skill,
    SkillFile,
    SkillType,
    slug_of,
    tree_digest,
)
from gate.intake.json_text import decoded
from gate.intake.notes import Notes, joined, nearest, short
from gate.intake.yaml_text import Node, parse_yaml, plain

MAX_SKILL_MD_BYTES = 4 * 1024 * 1024
"""The largest of 13,373 real files has 294 KB."""
MAX_FILES = 5_000
"""The largest of 13,373 real folders has 1,379."""
_SMALLER = "Keep large data and dependencies out of the skill folder."

SPEC_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
HOST_KEYS = (
    # Keys of hosts and registries that real skills carry (cases/README.md A2): no rule of the specification, no mistake.
    "agent", "argument-hint", "author", "category", "context", "dependencies", "disable-model-invocation",
    "disallowed-tools", "effort", "homepage", "hooks", "keywords", "license-url", "model", "origin", "paths",
    "repository", "requires", "shell", "skill_type", "source", "tags", "tools", "triggers", "type", "user-invocable",
    "version", "when_to_use",
)  # fmt: skip
RESERVED_WORDS = ("claude", "anthropic")
MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 64, 1024, 500

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FENCE = re.compile(r"^\s*(```|~~~)")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class Front(NamedTuple):
    """What every reading of a SKILL.md starts with: the file, its front matter as nodes, and what is wrong so far."""

    file: SkillFile | None
    matter: Matter | None
    mapping: Node | None
    findings: tuple[Finding, ...]


class Matter(NamedTuple):
    """The front matter block of a text, in lines counted from 1."""

    text: str
    first_line: int
    body: str
    body_line: int


def is_skill_md(name: str) -> bool:
    """Whether a file name is that of a SKILL.md, in any case (``skill.md`` and others exist)."""
    return name.casefold() == "skill.md"


def read_front(path: str, files: tuple[SkillFile, ...]) -> Front:
    """The front matter of a skill folder. Never raises."""
    found = skill_md_of(files)
    notes = Notes(joined(path, found.path if found else "SKILL.md"), "skill-md")
    if found is None:
        notes.block("missing", "the folder holds no SKILL.md", remedy="Add a SKILL.md, or remove the folder.")
        return Front(None, None, None, notes.all())
    _other_spellings(files, found, notes)
    matter = _front_matter(found, notes)
    mapping = _mapping(matter, notes) if matter else None
    return Front(found, matter, mapping, notes.all())


def parse_skill(
    path: str, files: tuple[SkillFile, ...], *, folder_name: str | None = None, front: Front | None = None
) -> tuple[Skill | None, tuple[Finding, ...]]:
    """A skill from every file of its folder. Never raises.

    ``path`` is the repository-relative folder (``.`` for the root, whose name is ``folder_name`` if known). ``front``:
    ``read_front`` of the same files, where it was read already. The skill is None if and only if a finding blocks.
    """
    found, matter, mapping, findings = front or read_front(path, files)
    notes = Notes(joined(path, found.path if found else "SKILL.md"), "skill-md")
    notes.items += findings
    if found is None or matter is None or mapping is None or notes.blocked:
        return None, notes.all()
    folder = folder_name if path == "." else posixpath.basename(path)
    name, description = _name(mapping, folder, notes), _description(mapping, notes)
    _other_keys(mapping, notes)
    _entries(path, files, notes)
    if name is None or description is None or notes.blocked:
        return None, notes.all()
    skill = Skill(
        path=path,
        slug=slug_of(path),
        skill_md=found.path,
        name=name,
        description=description,
        declared_type=_declared_type(mapping, notes),
        allowed_tools=_allowed_tools(mapping, notes),
        frontmatter=plain(mapping),
        body=matter.body,
        body_line=matter.body_line,
        files=files,
        tree_sha256=tree_digest(files),
    )
    return skill, notes.all()


def name_of(data: bytes) -> str | None:
    """The name in the front matter of a SKILL.md, or None where it has none that can be read. Never raises."""
    notes = Notes("SKILL.md", "skill-md")
    file = SkillFile(path="SKILL.md", mode="100644", sha256="", size_bytes=len(data), data=data)
    matter = _front_matter(file, notes)
    mapping = _mapping(matter, notes) if matter else None
    node = mapping.value.get("name") if mapping else None
    return node.value.strip() or None if node and isinstance(node.value, str) else None


def skill_md_of(files: tuple[SkillFile, ...]) -> SkillFile | None:
    """The SKILL.md of a folder, in any case; the usual spelling first."""
    candidates = [item for item in files if is_skill_md(item.path)]
    return min(candidates, key=lambda item: (item.path != "SKILL.md", item.path), default=None)


def _other_spellings(files: tuple[SkillFile, ...], found: SkillFile, notes: Notes) -> None:
    others = sorted(item.path for item in files if is_skill_md(item.path) and item.path != found.path)
    if others:
        notes.warn(
            "two-spellings",
            f"{', '.join(others)} stands beside {found.path}: hosts on some systems see only one of them",
            remedy=f"Keep {found.path} only.",
        )


def _front_matter(file: SkillFile, notes: Notes) -> Matter | None:
    """The first front matter block; what follows, ``---`` lines too, is the body."""
    if file.mode == SYMLINK:
        target = short(file.data.decode("utf-8", "replace"))
        notes.block(
            "link",
            f"SKILL.md is a symbolic link (to {target}); links are never followed",
            remedy="Commit a plain file.",
        )
    elif not file.is_regular:
        notes.block("no-file", "SKILL.md is a submodule; a plain file was expected", remedy="Commit a plain file.")
    elif file.size_bytes > MAX_SKILL_MD_BYTES or file.size_bytes != len(file.data):
        notes.block("too-large", f"SKILL.md has {file.size_bytes} bytes; at most {MAX_SKILL_MD_BYTES} are read")
    if notes.blocked:
        return None
    text, problem = decoded(file.data)
    if problem:
        notes.block("encoding", problem.message, line=problem.line, column=problem.column, remedy=problem.remedy)
        return None
    if file.data.startswith(b"\xef\xbb\xbf"):
        notes.notice("byte-order-mark", "the file starts with a byte order mark, which some hosts do not skip", line=1)
    return _split(text.split("\n"), notes)


def _split(lines: list[str], notes: Notes) -> Matter | None:
    start = next((index for index, line in enumerate(lines) if line.strip()), None)
    if start is None:
        notes.block("empty", "the file is empty", line=1, remedy="Start it with front matter: name and description.")
        return None
    if lines[start].rstrip() != "---":
        _no_front_matter(lines, start, notes)
        return None
    if start:
        notes.notice(
            "blank-lines", "blank lines before the front matter; some hosts expect it on line 1", line=1,
            remedy="Remove the blank lines.",
        )  # fmt: skip
    end = next((index for index in range(start + 1, len(lines)) if lines[index].rstrip() == "---"), None)
    if end is None:
        notes.block(
            "unclosed", "the front matter that starts here has no closing --- line", line=start + 1,
            remedy="Add a line --- after the last key.",
        )  # fmt: skip
        return None
    return Matter("\n".join(lines[start + 1 : end]) + "\n", start + 2, "\n".join(lines[end + 1 :]), end + 2)


def _no_front_matter(lines: list[str], start: int, notes: Notes) -> None:
    later = next((index for index in range(start + 1, len(lines)) if lines[index].rstrip() == "---"), None)
    after = next((index for index in range(start + 1, len(lines)) if lines[index].strip()), None)
    if _FENCE.match(lines[start]) and after is not None and lines[after].strip() == "---":
        notes.block(
            "fenced", "the front matter stands in a code fence, so it is not front matter", line=start + 1,
            remedy="Remove the fence lines around it.",
        )  # fmt: skip
    elif later is not None and lines[start].lstrip().startswith("#"):
        notes.block(
            "not-first", f"a heading stands before the front matter (the --- at line {later + 1})", line=start + 1,
            remedy="Front matter must start on line 1: move it above the heading.",
        )  # fmt: skip
    else:
        notes.block(
            "no-front-matter", f'front matter (a line ---) was expected, found "{short(lines[start], 60)}"',
            line=start + 1, remedy="Start the file with --- and the keys name and description, then --- again.",
        )  # fmt: skip


def _mapping(matter: Matter, notes: Notes) -> Node | None:
    root, problems = parse_yaml(matter.text, first_line=matter.first_line)
    for problem in problems:
        notes.block(
            "yaml",
            f"the front matter is not valid YAML: {problem.message}",
            line=problem.line,
            column=problem.column,
            remedy=problem.remedy,
        )
    if problems:
        return None
    if root is None or root.value is None:
        notes.block(
            "no-keys", "the front matter is empty; name and description were expected", line=matter.first_line - 1
        )
        return None
    if not root.is_map:
        notes.block(
            "no-mapping", f"the front matter is {root.kind}; keys and values were expected", line=root.line,
            column=root.column, remedy="Write name: … and description: … on lines of their own.",
        )  # fmt: skip
        return None
    return root


def _text(mapping: Node, key: str, notes: Notes) -> tuple[str, Node] | None:
    """The trimmed text of a required key."""
    node = mapping.value.get(key)
    if node is None:
        likely = next((item for item in mapping.value if item not in SPEC_KEYS and nearest(item, (key,))), None)
        where = mapping.value[likely].line if likely else None
        remedy = f'Rename "{short(likely)}" to {key}.' if likely else f"Add a {key}."
        notes.block(f"{key}-missing", f"the front matter has no {key}", line=where or mapping.line, remedy=remedy)
        return None
    if not isinstance(node.value, str):
        remedy = f'Put it in quotes: {key}: "{short(node.source, 60)}"' if node.source else f"Write a {key}."
        notes.block(
            f"{key}-type", f"{key} is {node.kind}; text was expected", line=node.line, column=node.column, remedy=remedy
        )
        return None
    text = node.value.strip()
    if not text:
        notes.block(f"{key}-missing", f"{key} is empty", line=node.line, remedy=f"Write a {key}.")
        return None
    return text, node


def _name(mapping: Node, folder: str | None, notes: Notes) -> str | None:
    found = _text(mapping, "name", notes)
    if found is None:
        return None
    name, node = found
    if len(name) > MAX_NAME:
        notes.warn("name-length", f"name has {len(name)} characters; the limit is {MAX_NAME}", line=node.line)
    if not _NAME.fullmatch(name):
        notes.warn(
            "name-form", f'name "{short(name)}" is not made of a-z, 0-9 and single inner hyphens', line=node.line,
            remedy="Write it like pdf-forms.",
        )  # fmt: skip
    if folder is not None and name != folder:
        notes.warn("name-folder", f'name "{short(name)}" differs from the folder "{short(folder)}"', line=node.line)
    reserved = [word for word in RESERVED_WORDS if word in name.lower()]
    if reserved:
        notes.notice("name-reserved", f"name holds the reserved word {reserved[0]}", line=node.line)
    return name


def _description(mapping: Node, notes: Notes) -> str | None:
    found = _text(mapping, "description", notes)
    if found is None:
        return None
    text, node = found
    if len(text) > MAX_DESCRIPTION:
        notes.warn(
            "description-length",
            f"description has {len(text)} characters; the limit is {MAX_DESCRIPTION}",
            line=node.line,
            remedy="Say what it does and when to use it; move the rest into the body.",
        )
    return text


def _other_keys(mapping: Node, notes: Notes) -> None:
    unknown = []
    for key in mapping.value:
        if key in SPEC_KEYS or key in HOST_KEYS:
            continue
        likely = nearest(key, (*SPEC_KEYS, *HOST_KEYS))
        if likely:
            notes.warn(
                "near-miss", f'the key "{short(key)}" is unknown; did you mean {likely}?', line=mapping.value[key].line
            )
        else:
            unknown.append(key)
    if unknown:
        notes.notice(
            "unknown-keys",
            f"keys outside the specification: {', '.join(short(key, 40) for key in unknown[:20])}",
            line=mapping.value[unknown[0]].line,
        )
    metadata = mapping.value.get("metadata")
    if metadata is not None and metadata.value is not None and not metadata.is_map:
        notes.warn("metadata-type", f"metadata is {metadata.kind}; keys and values were expected", line=metadata.line)
    compatibility = mapping.value.get("compatibility")
    if compatibility is not None and isinstance(compatibility.value, str):
        length = len(compatibility.value.strip())
        if length > MAX_COMPATIBILITY:
            notes.warn(
                "compatibility-length",
                f"compatibility has {length} characters; the limit is {MAX_COMPATIBILITY}",
                line=compatibility.line,
            )


def _declared_type(mapping: Node, notes: Notes) -> SkillType | None:
    """``skill_type``, ``metadata.skill_type`` or ``type``; the last means other things to other hosts, so it may fail."""
    metadata = mapping.value.get("metadata")
    nested = metadata.value.get("skill_type") if metadata is not None and metadata.is_map else None
    for key, node in (("skill_type", mapping.value.get("skill_type")), ("metadata.skill_type", nested),
                      ("type", mapping.value.get("type"))):  # fmt: skip
        if node is None:
            continue
        word = str(node.value).strip().lower().replace("-", "_")
        if word in tuple(SkillType):
            return SkillType(word)
        if key != "type":
            notes.warn(
                "skill-type",
                f'{key} "{short(node.value)}" is no skill type; {", ".join(SkillType)} were expected',
                line=node.line,
            )
    return None


def _allowed_tools(mapping: Node, notes: Notes) -> tuple[str, ...]:
    key = "allowed-tools" if "allowed-tools" in mapping.value else "tools"
    node = mapping.value.get(key)
    if node is None or node.value is None:
        return ()
    if key == "tools":
        notes.notice("tools", "tools is read as allowed-tools, the name of the specification", line=node.line)
    parts = node.value if node.is_list else [node]
    if node.is_map or any(not isinstance(part.value, str) for part in parts):
        notes.warn(
            "allowed-tools-type", f"{key} is {node.kind}; text or a list of texts was expected, so it is not used",
            line=node.line,
        )  # fmt: skip
        return ()
    found: list[str] = []
    for part in parts:
        tools, balanced = split_tools(part.value, only_commas=node.is_list)
        found += tools
        if not balanced:
            notes.warn(
                "allowed-tools-brackets", f'{key} has an unmatched bracket: "{short(part.value)}"', line=part.line
            )
    return tuple(dict.fromkeys(found))


def split_tools(text: str, *, only_commas: bool = False) -> tuple[list[str], bool]:
    """Tool names of a text, split at commas, or at white space where it has none outside brackets.

    Brackets keep commas and spaces together (``Bash(git:*, gh:*) Read``). The second value tells whether they match.
    """
    stack: list[str] = []
    commas: list[str] = [""]
    spaces: list[str] = [""]
    balanced = True
    for char in text:
        if char in _PAIRS:
            stack.append(_PAIRS[char])
        elif char in _PAIRS.values():
            balanced = balanced and bool(stack) and stack[-1] == char
            if stack:
                stack.pop()
        if not stack and char == ",":
            commas.append("")
            spaces.append("")
            continue
        commas[-1] += char
        if not stack and char.isspace():
            spaces.append("")
        else:
            spaces[-1] += char
    parts = commas if only_commas or len(commas) > 1 else spaces
    return [part.strip() for part in parts if part.strip()], balanced and not stack


def _entries(path: str, files: tuple[SkillFile, ...], notes: Notes) -> None:
    """Links and submodules: refused, said, never followed. What is over a limit makes the skill unreadable."""
    if len(files) > MAX_FILES:
        notes.block(
            "too-many-files", f"the folder has {len(files)} files; at most {MAX_FILES} are read", remedy=_SMALLER
        )
    large = next((item for item in files if item.is_regular and item.size_bytes != len(item.data)), None)
    if large is not None and large.size_bytes < 0:
        notes.block("unreadable", f"{short(large.path)} cannot be read", remedy="Check its permissions.")
    elif large is not None:
        notes.block(
            "folder-too-large",
            f"the folder is too large: {short(large.path)} ({large.size_bytes} bytes) and what follows was not read",
            remedy=_SMALLER,
        )
    for item in files:
        where = joined(path, item.path)
        if item.mode == SUBMODULE:
            notes.add(
                Level.WARNING, "submodule", "a submodule: its files are not read and not given to the agent", path=where
            )
        elif item.mode == SYMLINK:
            target = item.data.decode("utf-8", "replace")
            resolved = posixpath.normpath(posixpath.join(posixpath.dirname(item.path), target))
            if posixpath.isabs(target) or resolved == ".." or resolved.startswith("../"):
                notes.add(
                    Level.ERROR,
                    "link-outside",
                    f"a symbolic link out of the skill folder (to {short(target)}); it is refused",
                    path=where,
                    remedy="Commit a copy of the file, or remove the link.",
                )
            else:
                notes.add(
                    Level.WARNING,
                    "link-inside",
                    f"a symbolic link (to {short(target)}); links are not followed, so the agent does not get it",
                    path=where,
                    remedy="Commit a copy of the file.",
                )
