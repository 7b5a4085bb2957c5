"""One skill of a session: read at head, at the merge base and at the tip of the base branch."""

from __future__ import annotations

import functools
import posixpath
import re
import unicodedata

from gate.domain.findings import Finding
from gate.domain.intake import SkillIntake
from gate.domain.numbers import counted
from gate.domain.skill import EXECUTABLE, REGULAR, ChangeKind, Skill, SkillChange, SkillFile, slug_of, tree_digest
from gate.domain.suite import Suite
from gate.intake.body import check_body
from gate.intake.changes import Changes
from gate.intake.folding import fold
from gate.intake.manifests import ManifestReport, read_manifests
from gate.intake.notes import Notes, joined, short, shown
from gate.intake.outside import ENDS, Outside, candidates
from gate.intake.preflight import preflight_facts
from gate.intake.scan import scan_skill
from gate.intake.skill import is_skill_md, name_of, parse_skill, skill_md_of
from gate.intake.sources import CommitTree
from gate.intake.suite import read_suite, suite_removals
from gate.intake.suite_places import is_suite_file
from gate.intake.tree import nested_findings, own_files
from gate.protocols import Repository
from gate.settings import Settings

_FRONT_END = re.compile(rb"^---[ \t]*\r?$", re.MULTILINE)


def one_case(path: str) -> str:
    """What paths share that file systems without case, or with one form of each letter, take for the same."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


class SkillReader:
    """Reads one skill after the other of two commits."""

    def __init__(
        self,
        repo: Repository,
        tree: CommitTree,
        base: str | None,
        tip: str | None,
        changes: Changes,
        *,
        settings: Settings,
        head: str,
    ) -> None:
        self._repo = repo
        self._head = head
        self._outside: dict[str, Outside] = {}
        self._unreadable: set[tuple[str, str]] = set()
        """(skill, commit) with a suite that cannot be read."""
        self._settings = settings
        self._tree = tree
        self._base = base
        self._tip = tip
        self._changes = changes

    def read(self, change: SkillChange) -> SkillIntake:
        """One skill."""
        findings: list[Finding] = []
        head = suite = None
        manifests = ManifestReport((), ())
        folder = self._raw(change.path)
        if change.kind is not ChangeKind.DELETED:
            whole = self._tree.skill_files(folder)
            files = own_files(whole, folder, self._changes.head)
            head, head_findings = parse_skill(change.path, files)
            findings += head_findings
            if head is not None:
                suite, suite_findings = read_suite(head, self._elsewhere(self._head, folder, head))
                findings += (*suite_findings, *self._about(head))
                if suite is None and any(item.blocks for item in suite_findings):
                    self._unreadable.add((change.path, self._head))
            findings += nested_findings(change.path, self._changes.head)
            policy = self._settings.policy.for_skill(change.path)
            manifests = read_manifests(
                self._tree.paths(),
                self._tree.read,
                folder,
                files=whole,  # a signature is over the folder, with every skill in it
                trust=policy.trust,
                require_signed=policy.require_signed,
            )
        if change.path != folder:
            notes = Notes(change.path, "skill-md")
            notes.warn("path-encoding", "the folder's name is not valid UTF-8, so hosts may not find it")
            findings += notes.items
        base, at_base = self._version(change, self._base, findings, say=True)
        of_record = at_base
        if self._tip is not None and self._tip != self._base:
            of_record = self._version(change, self._tip, findings, say=False)[1] or at_base
        if head is not None:
            findings += self._twins(change, folder, head, base)
        if suite is None and head is not None and of_record is not None and self._came_since(change, at_base, findings):
            suite = of_record
        if head is not None and base is not None and change.kind in (ChangeKind.MODIFIED, ChangeKind.RENAMED):
            before = (*parse_skill(base.path, base.files)[1], *read_suite(base)[1], *self._about(base))
            findings = list(fold(findings, head, before, base))
        findings += self._unseen(change, head)
        readable = change.kind is ChangeKind.DELETED or head is not None
        return SkillIntake(
            change=change,
            slug=slug_of(change.path),
            head=head,
            base=base,
            suite=suite,
            base_suite=of_record,
            findings=tuple(findings),
            manifest_findings=manifests.findings,
            manifests=manifests.statuses,
            preflight=preflight_facts(head) if head is not None else (),
            base_preflight=preflight_facts(base) if base is not None else (),
            suite_removals=self._removals(change, at_base, of_record, suite) if readable else (),
        )

    def _unseen(self, change: SkillChange, head: Skill | None) -> tuple[Finding, ...]:
        """What changed outside of the folder that the skill leads to: no arm gets it."""
        outside = self._changes.linked.get(change.path, ())
        if not outside or head is None:
            return ()
        more = f" and {len(outside) - 5} more" if len(outside) > 5 else ""
        notes = Notes(joined(change.path, head.skill_md), "changes")
        notes.warn(
            "linked", f"the skill leads to {', '.join(short(path, 60) for path in outside[:5])}{more}, which changed and lies outside "
            "its folder; the agent under test does not get it, so no run can tell what that change does",
            remedy="Keep what a skill needs in its own folder.",
        )  # fmt: skip
        return notes.all()

    def _twins(self, change: SkillChange, folder: str, head: Skill, base: Skill | None) -> tuple[Finding, ...]:
        """Other live skills that hosts cannot tell from this one: by the path on many file systems, or by the name.

        A path that is new blocks: on such a system a checkout has one of the two in the place of both, whatever ran here.
        """
        notes = Notes(joined(change.path, "SKILL.md"), "skill-md")
        live = self._changes.head.live
        before = self._changes.base.live if self._changes.base is not None else live
        for other in sorted(self._same_paths.get(one_case(folder), ())):
            if other == folder or other not in live:
                continue
            said = f"the path differs from {short(shown(other))} in case or Unicode form only: many file systems keep one of them"
            if folder in before and other in before:
                notes.warn("same-path", said, remedy="Rename one of the folders.")
            else:
                notes.block("same-path", said, remedy="Give the new folder another name.")
        if base is not None and base.name == head.name:
            return notes.all()
        mds = self._live_mds
        # A new byte-for-byte copy is told of by itself.
        copied = mds.get(folder) if change.kind is ChangeKind.ADDED else None
        named = [other for other in self._named(head.name) if other != folder and mds[other] != copied]
        if named:
            notes.warn(
                "same-name",
                f'the name "{short(head.name)}" is also that of {", ".join(short(shown(one)) for one in named[:10])}: where hosts load '
                "both, one takes the place of the other",
                remedy="Give the skill a name of its own.",
            )
        return notes.all()

    @functools.cached_property
    def _live_mds(self) -> dict[str, tuple[str, str]]:
        """Live skill folder -> (mode, blob) of its SKILL.md, the usual spelling where it has several."""
        found: dict[str, tuple[str, str]] = {}
        for path, mode, blob in sorted(
            self._tree.skill_mds(), key=lambda item: posixpath.basename(item[0]) == "SKILL.md"
        ):
            folder = posixpath.dirname(path) or "."
            if folder in self._changes.head.live:
                found[folder] = (mode, blob)
        return found

    @functools.cached_property
    def _same_paths(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for folder in self._changes.head.live:
            found.setdefault(one_case(folder), []).append(folder)
        return found

    def _named(self, name: str) -> list[str]:
        """Live skills of this name, sorted."""
        wanted = name.encode("utf-8", "surrogateescape")
        return sorted(folder for folder, data in self._fronts.items() if wanted in data and name_of(data) == name)

    @functools.cached_property
    def _fronts(self) -> dict[str, bytes]:
        """Live skill folder -> its front matter. Contents are read some at a time: of 13,000 the largest has 294 KB."""
        found: dict[str, bytes] = {}
        plain = sorted(
            (folder, blob) for folder, (mode, blob) in self._live_mds.items() if mode in (REGULAR, EXECUTABLE)
        )
        for at in range(0, len(plain), 200):
            some = plain[at : at + 200]
            contents = self._repo.blobs([blob for _, blob in some])
            for folder, blob in some:
                data = contents[blob]
                end = _FRONT_END.search(data, 4)
                found[folder] = data[: end.end()] if end else b""
        return found

    def _about(self, skill: Skill) -> tuple[Finding, ...]:
        """Findings about the body and the files of a version."""
        policy = self._settings.policy
        scanned = scan_skill(skill, suppressions=policy.suppressions, today=self._settings.run_date)
        return (*check_body(skill), *scanned)

    def _elsewhere(self, commit: str, folder: str, skill: Skill) -> tuple[Skill, ...]:
        """Evals of one version that lie outside the skill's folder and are tied to it by name."""
        if commit not in self._outside:
            paths = set(self._candidates)
            live = set(self._changes.head.live)
            if commit != self._head:
                # What another commit holds follows from head and the differences: its whole tree need not be listed.
                for status, path, old in self._repo.changed_paths(commit, self._head):
                    paths -= {path} if status in "ARC" else set()
                    paths |= set(candidates([old or path])) if status in "DR" else set()
                if (
                    self._changes.base is not None
                ):  # a skill that came since must not take another's evals before it came
                    live = set(self._changes.base.live)
            self._outside[commit] = Outside(paths, live)
        return self._outside[commit].of(folder, skill, lambda room: self._repo.read_skill_files(commit, room))

    @functools.cached_property
    def _candidates(self) -> list[str]:
        return candidates(self._tree.ending(ENDS))

    def _raw(self, path: str) -> str:
        return self._changes.raw.get(path, path)

    def _version(
        self, change: SkillChange, commit: str | None, findings: list[Finding], *, say: bool
    ) -> tuple[Skill | None, Suite | None]:
        """The skill and its suite at another commit; neither where it was not there."""
        if commit is None or change.kind is ChangeKind.ADDED:
            return None, None
        path = change.old_path if change.old_path is not None else change.path
        files = self._repo.read_skill_files(commit, self._raw(path))
        if not any(is_skill_md(item.path) for item in files):
            return None, None
        folder = self._raw(path)
        skill, problems = parse_skill(path, own_files(files, folder, self._changes.head))
        if skill is None and say:
            notes = Notes(joined(path, "SKILL.md"), "skill-md")
            first = next(item for item in problems if item.blocks)
            notes.notice("base-unreadable", f"the base version cannot be read, so it is not run: {first.message}")
            findings += notes.items
        # Without a skill its suite judges head all the same: whoever mends SKILL.md must not take the suite away with it.
        owner = skill or _nameless(path, own_files(files, folder, self._changes.head))
        suite, problems = read_suite(owner, self._elsewhere(commit, folder, owner))
        if suite is None and any(item.blocks for item in problems):
            self._unreadable.add((change.path, commit))
        if say and any(item.blocks for item in problems):
            notes = Notes(joined(path, "evals"), "suite")
            first = next(item for item in problems if item.blocks)
            notes.notice("base-unreadable", f"the base suite has mistakes, so not all of it is run: {first.message}")
            findings += notes.items
        return skill, suite

    def _came_since(self, change: SkillChange, at_base: Suite | None, findings: list[Finding]) -> bool:
        """Whether the base branch got the skill's suite after this branch had left it: then the branch deleted nothing, and
        what a merge would leave, the base branch's suite, judges it. Says so."""
        taken = at_base is not None or (change.path, self._base) in self._unreadable
        if taken or any(item.blocks for item in findings):
            return False
        own = Notes(joined(change.path, "evals"), "suite")
        own.notice(
            "came-since",
            "the base branch got a suite for this skill after this branch had left it; the skill is judged by that one",
            remedy="Update your branch.",
        )
        findings += own.items
        return True

    def _had_suite(self, change: SkillChange) -> bool:
        """Whether suite files stand in the folder at the base, readable or not."""
        folder = self._raw(change.path)
        start = "" if folder == "." else f"{folder}/"
        entries = self._repo.tree(self._base, start) if self._base is not None else []
        return any(is_suite_file(path.removeprefix(start)) for path, _, _ in entries)

    def _removals(
        self, change: SkillChange, at_base: Suite | None, of_record: Suite | None, head: Suite | None
    ) -> tuple[str, ...]:
        """What this change takes away: measured from the merge base, so that news on the base branch are not blamed on
        it, and without what the base branch has taken away itself."""
        found: list[str] = []
        moved = self._changes.hidden.get(change.path) if change.kind is ChangeKind.DELETED else None
        if moved:
            found.append(moved)
        elif change.kind is ChangeKind.DELETED and at_base is not None:
            found.append(f"The skill is deleted with its suite ({counted(len(at_base.cases), 'case')}).")
        elif change.kind is ChangeKind.DELETED and self._had_suite(change):
            found.append("The skill is deleted with its suite (it cannot be read, so its cases are not counted).")
        if change.kind is not ChangeKind.DELETED and at_base is not None:
            waived = set(suite_removals(at_base, of_record)) if of_record is not None else set()
            found += [text for text in suite_removals(at_base, head) if text not in waived]
        elif (
            change.kind is not ChangeKind.DELETED
            and head is None
            and (change.path, self._base) in self._unreadable
            and (change.path, self._head) not in self._unreadable  # a mistake in it is said by itself
        ):
            found.append("The suite is removed (at the base it cannot be read, so its cases are not counted).")
        return tuple(found)


def _nameless(path: str, files: tuple[SkillFile, ...]) -> Skill:
    """Stands for a version whose SKILL.md cannot be read, so that its suite can: nothing else of it is used."""
    found = skill_md_of(files)
    return Skill(
        path=path,
        slug=slug_of(path),
        skill_md=found.path if found is not None else "SKILL.md",
        name=posixpath.basename(path),
        description="",
        body="",
        files=files,
        tree_sha256=tree_digest(files),
    )
