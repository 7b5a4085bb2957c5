"""A skill, its files, and how it changed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from gate.domain.base import Value, digest_of

EXECUTABLE = "100755"
REGULAR = "100644"
SYMLINK = "120000"
SUBMODULE = "160000"


class SkillFile(Value):
    """One entry of a skill folder, read from Git by mode. Links are never followed."""

    path: str
    """Relative to the skill folder, forward slashes."""
    mode: str
    """Git mode: 100644, 100755, 120000 (symlink) or 160000 (submodule)."""
    sha256: str
    """Of ``data``."""
    size_bytes: int
    data: bytes = Field(repr=False, exclude=True, default=b"")
    """Content; for a symlink its target; for a submodule empty."""

    @property
    def is_regular(self) -> bool:
        """True for a plain file, executable or not."""
        return self.mode in (REGULAR, EXECUTABLE)


class Link(Value):
    """A link of SKILL.md that names a file or a folder."""

    target: str
    """As written."""
    line: int
    """1-based line of SKILL.md."""
    resolved: str
    """Relative to the skill folder; ``../`` at its start leads out."""
    kind: Literal["file", "broken", "outside"]
    """``broken``: nothing of the skill is there. ``outside``: it leads out of the folder, so no agent under test gets it."""


class SkillFacts(Value):
    """What can be counted in a skill without asking anybody."""

    lines: int
    """Of the body."""
    tokens: int
    """Of the body, estimated: a quarter of its characters, and each CJK character one."""
    links: tuple[Link, ...]
    scripts: tuple[str, ...]
    """Program files that the agent gets."""
    executables: tuple[str, ...]
    """Files with the exec bit that the agent gets."""
    tool_ids: tuple[str, ...]
    """``mcp__server__tool`` in the body or in allowed-tools, each once."""


class SkillType(StrEnum):
    """R6. The order of declaration is the order of precedence (DESIGN.md 4, Layer 0)."""

    MCP_BASED = "mcp_based"
    CODE_EXECUTION = "code_execution"
    TEXT_GENERATION = "text_generation"


class Skill(Value):
    """A parsed SKILL.md and every file of its folder."""

    path: str
    """Repository-relative folder; ``.`` for a root skill. The identity of the skill, never its name."""
    slug: str
    """Collision-free name for files and containers, made from the path (``slug_of``)."""
    skill_md: str
    """File name of the SKILL.md inside the folder (``SKILL.md``, ``skill.md`` …)."""
    name: str
    description: str
    declared_type: SkillType | None = None
    allowed_tools: tuple[str, ...] = ()
    frontmatter: dict[str, Any] = Field(default_factory=dict)
    """The whole front matter as JSON (dates as ISO text)."""
    body: str
    """Markdown after the front matter, line feeds normalised."""
    body_line: int = 1
    """1-based line of SKILL.md at which ``body`` starts."""
    files: tuple[SkillFile, ...]
    tree_sha256: str
    """``tree_digest(files)``."""

    def file(self, path: str) -> SkillFile | None:
        """The file at a path relative to the skill folder, or None."""
        return next((item for item in self.files if item.path == path), None)

    @property
    def text(self) -> str:
        """SKILL.md as text (undecodable bytes replaced)."""
        found = self.file(self.skill_md)
        return found.data.decode("utf-8-sig", "replace") if found else ""


def tree_digest(files: tuple[SkillFile, ...]) -> str:
    """SHA-256 over (path, mode, sha256) of all files, sorted by path."""
    return digest_of([[item.path, item.mode, item.sha256] for item in sorted(files, key=lambda item: item.path)])


def slug_of(path: str) -> str:
    """A file and container name for a skill path: readable, lower-case ASCII, at most 60 characters, collision-free.

    Eight hex digits of the path's SHA-256 keep different paths apart (``a/b`` and ``a-b`` differ).
    """
    from gate.domain.base import sha256_hex

    readable = "".join(c if c.isascii() and c.isalnum() else "-" for c in path.lower()).strip("-") or "root"
    while "--" in readable:
        readable = readable.replace("--", "-")
    return f"{readable[-51:].strip('-')}-{sha256_hex(path.encode('utf-8', 'surrogateescape'))[:8]}"


# Folders and files of a skill that judge it. Whoever is judged must not read them (R221).
JUDGING_FOLDERS = ("evals", "eval", "evaluations", "tests", "test", "ground_truth", "fixtures", "graders", ".sklab")
JUDGING_SUFFIXES = (".oms.sig", ".sigstore", ".schemapin.sig", ".eval.yaml", ".eval.yml")
JUDGING_FILES = (
    "eval.yaml", "eval.yml", "evals.json", "evals.yaml", "evals.yml", "eval_set.json", "eval_queries.json",
    "trigger_eval.json", "trigger-eval.json", "trigger-queryset.json", "evals.jsonl", "skill-gate.yaml", "skill-gate.yml", "BENCHMARK.md", "skill-card.md", "plugin.json",
    "marketplace.json", "skills-lock.json", "manifest.json", "_meta.json",
)  # fmt: skip


_JUDGING_NAMES = frozenset(name.casefold() for name in JUDGING_FILES)
_EVALS_FOLDERS = frozenset(JUDGING_FOLDERS[:3])
_JUDGING_PLACES = ("references/evals.yaml", "references/evals.yml", "references/evals.json")


def is_agent_visible(path: str) -> bool:
    """Whether a file of a skill folder is handed to the agent: evals, ground truth, manifests and ``.git`` are not.

    Names hide a file only where such files are looked for: at the skill's root and in folders of evals. Whoever uses the
    skill gets ``references/manifest.json`` too, so the agent under test gets it.
    """
    # Some file systems and all readers of evals take ``Evals/EVALS.JSON`` for the same file.
    parts = path.casefold().split("/")
    if ".git" in parts or parts[0] in JUDGING_FOLDERS or parts[0] in (".claude-plugin", ".codex-plugin"):
        return False
    if len(parts) > 1 and _EVALS_FOLDERS.isdisjoint(parts[:-1]):
        return "/".join(parts) not in _JUDGING_PLACES
    name = parts[-1]
    return not (name in _JUDGING_NAMES or name.endswith(JUDGING_SUFFIXES) or name.endswith(".cases.md"))


TEXT_BYTES = 200_000
"""A longer file of a skill is no text that judges look into."""
TEXTS_BYTES = 1_000_000
"""Of all texts of a skill together."""


def texts_of(skill: Skill) -> dict[str, str]:
    """The texts that an agent can read, by path in the skill folder: SKILL.md, then the others by name, line feeds only.

    What is no UTF-8, too long, or past the sum of all is left out; SKILL.md never is, its undecodable bytes are replaced.
    """
    texts = {skill.skill_md: skill.text.replace("\r\n", "\n")}
    left = TEXTS_BYTES - len(skill.text)
    for file in sorted(skill.files, key=lambda item: item.path):
        if file.path == skill.skill_md or not file.is_regular or not is_agent_visible(file.path):
            continue
        if len(file.data) > min(TEXT_BYTES, left) or b"\0" in file.data:
            continue
        try:
            texts[file.path] = file.data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError:
            continue
        left -= len(file.data)
    return texts


def with_texts(skill: Skill, texts: Mapping[str, str]) -> Skill:
    """A skill that was read back without the content of its files, with the texts that were kept beside it."""
    files = tuple(
        item.model_copy(update={"data": texts[item.path].encode("utf-8", "surrogatepass")})
        if item.path in texts
        else item
        for item in skill.files
    )
    return skill.model_copy(update={"files": files})


PROGRAM_SUFFIXES = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".rb", ".pl", ".ps1", ".go", ".rs")
"""Ends of the names of program files."""


class ChangeKind(StrEnum):
    """What happened to a skill between base and head."""

    ADDED = "added"
    MODIFIED = "modified"
    RENAMED = "renamed"
    DELETED = "deleted"
    UNCHANGED = "unchanged"
    """Asked for by path, not changed."""


class SkillChange(Value):
    """One skill that a change touches."""

    path: str
    """Skill folder at head (at base for a deleted one)."""
    kind: ChangeKind
    old_path: str | None = None
    changed_files: tuple[str, ...] = ()
    """Repository-relative, sorted."""
    agent_visible: bool = True
    """False where no file changed that an agent reads."""
