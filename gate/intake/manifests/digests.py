"""What a list of digests says about a skill's files: each difference is a finding of its own (cases B 43)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping

from gate.domain.findings import Level
from gate.domain.skill import SkillFile
from gate.intake.manifests.reading import Ground
from gate.intake.notes import Notes, joined, short, shown

MAX_NAMED = 50
"""Files that get a finding of their own, per kind of difference."""
SIGN_AGAIN = "Look at the difference; then the skill must be re-signed."


def incomplete(files: Collection[SkillFile]) -> SkillFile | None:
    """A file whose content was too large to be read: no digest over it can be computed."""
    return next((item for item in files if item.is_regular and item.size_bytes != len(item.data)), None)


def compare(
    ground: Ground,
    listed: Mapping[str, str],
    files: Collection[SkillFile],
    notes: Notes,
    *,
    digest: Callable[[SkillFile], str],
    remedy: str = SIGN_AGAIN,
) -> tuple[bool, bool]:
    """Hold ``files`` (all that must be listed) against ``listed`` (path in the skill -> digest).

    Returns (everything matches, all differences are line ends that a checkout may have made). Findings: ``changed``,
    ``line-ends``, ``extra``, ``missing``, ``renamed``, ``link``; each names the file.
    """
    present = {item.path: item for item in files}
    regular = {path: item for path, item in present.items() if item.is_regular}
    changed = [path for path in listed if path in regular and digest(regular[path]) != listed[path]]
    links = [path for path in present if path not in regular]
    extra = [path for path in regular if path not in listed]
    missing = [path for path in listed if path not in present]
    moved = _moved(regular, listed, extra, missing)
    only_ends = [path for path in changed if _only_line_ends(regular[path], listed[path], digest)]

    def say(rule: str, paths: Collection[str], level: Level, words: Callable[[str], str], todo: str) -> None:
        for path in sorted(paths)[:MAX_NAMED]:
            notes.add(level, rule, words(path), path=joined(ground.skill_path, path), remedy=todo)
        if len(paths) > MAX_NAMED:
            notes.add(level, rule, f"{len(paths) - MAX_NAMED} further files as well", remedy=todo)

    ends = Level.ERROR if ground.committed else Level.WARNING
    say(
        "changed",
        set(changed) - set(only_ends),
        Level.ERROR,
        lambda _: "this is not the content that was signed",
        remedy,
    )
    say(
        "line-ends",
        only_ends,
        ends,
        lambda _: "this differs in its line ends only from the content that was signed",
        remedy if ground.committed else "Check a commit instead of this checkout: Git may have changed the line ends.",
    )
    say("extra", set(extra) - set(moved.values()), Level.ERROR, lambda _: "this file is not among those signed", remedy)
    say("missing", set(missing) - set(moved), Level.ERROR, lambda _: "this file was signed and is missing", remedy)
    say(
        "renamed",
        list(moved),
        Level.ERROR,
        lambda path: f"this file was signed; its content is now in {short(shown(moved[path]))}",
        remedy,
    )
    say("link", links, Level.ERROR, lambda _: "this is a link or a submodule; only plain files can be signed", remedy)
    differences = changed or extra or missing or links
    harmless = not ground.committed and not (set(changed) - set(only_ends) or extra or missing or links)
    return not differences, bool(differences) and harmless


def _moved(
    regular: Mapping[str, SkillFile], listed: Mapping[str, str], extra: Collection[str], missing: Collection[str]
) -> dict[str, str]:
    """Old path -> new path, where exactly one missing and one extra file have the same content. Only for plain digests
    of the content: where the path is part of the digest, a renamed file cannot be told from another one."""
    by_digest: dict[str, list[str]] = {}
    for path in extra:
        by_digest.setdefault(regular[path].sha256, []).append(path)
    wanted = [listed[path] for path in missing]
    return {
        path: by_digest[listed[path]][0]
        for path in missing
        if len(by_digest.get(listed[path], [])) == 1 and wanted.count(listed[path]) == 1
    }


def _only_line_ends(file: SkillFile, wanted: str, digest: Callable[[SkillFile], str]) -> bool:
    plain = file.data.replace(b"\r\n", b"\n")
    for data in (plain, plain.replace(b"\n", b"\r\n")):
        if data != file.data and digest(file.model_copy(update={"data": data, "sha256": _sha256(data)})) == wanted:
            return True
    return False


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def content_digest(file: SkillFile) -> str:
    """SHA-256 of the content alone."""
    return file.sha256
