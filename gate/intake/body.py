"""The body of a SKILL.md and the files around it: facts that a program can count, and what is wrong with its links.

Real skills link out of their folder (455 of 13,373) and to files that are not there (229): cases/README.md A3.
"""

from __future__ import annotations

import functools
import math
import posixpath
import re
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gate.domain.findings import Finding
from gate.domain.skill import EXECUTABLE, Link, Skill, SkillFacts, is_agent_visible
from gate.intake.notes import Notes, joined, short

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_LINES, MAX_TOKENS = 500, 5000
"""What the specification recommends to stay below (origins-and-formats.md 4)."""
PROGRAMS = (
    ".bash", ".bat", ".c", ".cjs", ".cpp", ".cs", ".go", ".java", ".js", ".jsx", ".kt", ".lua", ".mjs", ".php", ".pl", ".ps1", ".py",
    ".r", ".rb", ".rs", ".sh", ".sql", ".swift", ".ts", ".tsx", ".zsh",
)  # fmt: skip
_LISTED = 10

_TOOL_ID = re.compile(r"\bmcp__[A-Za-z0-9_-]+?__[A-Za-z0-9_-]+\b")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
# A body without one of these holds no link to a file, and then Markdown need not be parsed at all: seven in eight skills.
_MAYBE = re.compile(r"\]\(\s*(?:<|(?![A-Za-z][A-Za-z0-9+.-]*:|//|#)\S)|^ {0,3}\[[^\]\n]+\]:", re.MULTILINE)
_PLACEHOLDER = re.compile(r"[{}<>$*]|\.\.\.|…")


def facts_of(skill: Skill) -> SkillFacts:
    """Everything that can be counted. Deterministic; a link in code is no link."""
    seen = [item for item in skill.files if item.is_regular and is_agent_visible(item.path)]
    cjk = len(_CJK.findall(skill.body)) if not skill.body.isascii() else 0
    ids = _TOOL_ID.findall(f"{skill.body}\n{' '.join(skill.allowed_tools)}")
    return SkillFacts(
        lines=len(skill.body.splitlines()),
        tokens=cjk + math.ceil((len(skill.body) - cjk) / 4),
        links=_links(skill),
        scripts=tuple(sorted(item.path for item in seen if item.path.lower().endswith(PROGRAMS))),
        executables=tuple(sorted(item.path for item in seen if item.mode == EXECUTABLE)),
        tool_ids=tuple(dict.fromkeys(ids)),
    )


def check_body(skill: Skill, facts: SkillFacts | None = None) -> tuple[Finding, ...]:
    """What is wrong with the body's links and size. ``facts``: of this skill, where they are known already."""
    known = facts or facts_of(skill)
    notes = Notes(joined(skill.path, skill.skill_md), "body")
    names = {item.path.lower(): item.path for item in skill.files}
    for kind, rule in (("broken", "broken-link"), ("outside", "outside-link")):
        links = [link for link in known.links if link.kind == kind]
        for link in links[:_LISTED]:
            if kind == "broken":
                likely = names.get(link.resolved.lower())
                remedy = f"Write {short(likely)}." if likely else "Add the file, or remove the link."
                message = f'the link "{short(link.target)}" leads to nothing in the skill folder'
            else:
                remedy = "Keep what the skill needs in its own folder."
                message = f'the link "{short(link.target)}" leads out of the skill folder; the agent under test does not get it'
            notes.warn(rule, message, line=link.line, remedy=remedy)
        if len(links) > _LISTED:
            notes.notice(rule, f"{len(links) - _LISTED} more links like these", line=links[_LISTED].line)
    if known.lines > MAX_LINES or known.tokens > MAX_TOKENS:
        notes.notice(
            "long", f"the body has {known.lines} lines and about {known.tokens} tokens; under {MAX_LINES} lines and "
            f"{MAX_TOKENS} tokens are recommended", line=skill.body_line,
            remedy="Move details into files of references/ that are read when they are needed.",
        )  # fmt: skip
    return notes.all()


def _links(skill: Skill) -> tuple[Link, ...]:
    if not _MAYBE.search(skill.body):
        return ()
    there = {item.path for item in skill.files}
    there |= {parent for path in there for parent in _parents(path)}
    found = []
    for written, line in link_targets(skill.body):
        target = _local(written)
        if target is None:
            continue
        resolved = posixpath.normpath(target) if target else "."
        outside = resolved == ".." or resolved.startswith(("../", "/"))
        kind = "outside" if outside else "file" if resolved in there or resolved == "." else "broken"
        found.append(
            Link.model_validate({"target": written, "line": skill.body_line + line, "resolved": resolved, "kind": kind})
        )
    return tuple(found)


def _local(written: str) -> str | None:
    """The path that a link names; None for an address, an anchor, and a placeholder that nobody means as a path."""
    if _SCHEME.match(written) or written.startswith("#"):
        return None
    path = urllib.parse.unquote(re.split(r"[#?]", written, maxsplit=1)[0], errors="replace").replace("\\", "/")
    return None if not path or _PLACEHOLDER.search(path) or "\0" in path else path


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def link_targets(text: str) -> Iterator[tuple[str, int]]:
    """(target as written, line counted from 0) of every link and image of a Markdown text, code left out."""
    parser = _parser()
    env: dict[str, object] = {}
    for block in parser.parse(text, env):
        if block.type != "inline" or not ("](" in block.content or (env.get("references") and "[" in block.content)):
            continue
        line = block.map[0] if block.map else 0
        children: list[Token] = []
        parser.inline.parse(block.content, parser, env, children)
        for child in children:
            if child.type in ("softbreak", "hardbreak"):
                line += 1
            value = child.attrGet("href" if child.type == "link_open" else "src")
            if child.type in ("link_open", "image") and child.markup != "autolink" and isinstance(value, str):
                yield value, line


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Only the blocks are parsed; a block is looked into where it can hold a link.
    parser = MarkdownIt("commonmark").disable("inline")
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign] # as written: it becomes a path, not an address
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser
