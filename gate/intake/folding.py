"""Findings that the base version has too, on lines that a change does not touch, said in one sentence.

A pull request that mends one rule must not be met with thirty remarks about lines that it never saw. What could be the
change's own doing is never folded: a finding that the base version has not, one whose line is another. Nor is what a
verdict rests on, an error or a finding that blocks: the verdict is about the skill and not about the difference, and a
skill that sends secrets away is not fit because it did so yesterday. Such a finding says whose doing it is not.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Sequence

from gate.domain.findings import Finding, Level
from gate.domain.skill import Skill
from gate.intake.notes import Notes, joined

_LISTED = 6
_NOT_NEW = "the base version has this too: it is not this change's doing"
_Key = tuple[str, str, str, str]


def fold(findings: Sequence[Finding], head: Skill, at_base: Sequence[Finding], base: Skill) -> tuple[Finding, ...]:
    """``findings`` of ``head`` without those that stand in ``at_base`` (of ``base``), and a notice that counts them."""
    left = Counter(_key(item, base) for item in at_base)
    kept, folded = [], []
    for item in findings:
        key = _key(item, head)
        if not left[key]:
            kept.append(item)
            continue
        left[key] -= 1
        if item.level is Level.ERROR or item.blocks:
            kept.append(item.model_copy(update={"message": f"{item.message} ({_NOT_NEW})"}))
        else:
            folded.append(item)
    if not folded:
        return tuple(kept)
    notes = Notes(joined(head.path, head.skill_md), "skill-md")
    places = [f"{item.rule} (line {item.line})" if item.line else item.rule for item in folded]
    names = ", ".join(dict.fromkeys(places[:_LISTED]))
    more = f" and {len(places) - _LISTED} more" if len(places) > _LISTED else ""
    notes.notice(
        "unchanged-lines", f"{len(folded)} {'finding is' if len(folded) == 1 else 'findings are'} about lines that this change "
        f"does not touch: {names}{more}", remedy="skill-gate check shows them in full.",
    )  # fmt: skip
    return (*kept, *notes.all())


def _key(item: Finding, skill: Skill) -> _Key:
    """Equal for the same finding about the same line, wherever the line and the folder have moved to."""
    path = posixpath.relpath(item.path, skill.path) if item.path.startswith(f"{skill.path}/") else item.path
    return item.rule, path, item.message.replace(skill.path, "."), _line(skill, path, item.line)


def _line(skill: Skill, path: str, line: int | None) -> str:
    file = skill.file(path)
    if file is None or not file.is_regular:
        return ""
    if line is None:
        return file.sha256  # about the file as a whole: the same only where the file is
    lines = file.data.decode("utf-8", "replace").splitlines()
    return lines[line - 1] if 0 < line <= len(lines) else ""
