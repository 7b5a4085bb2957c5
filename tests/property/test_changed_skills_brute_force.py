from __future__ import annotations

import posixpath
import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from gate.adapters.git_repository import GitRepository
from gate.domain.skill import ChangeKind
from gate.intake.changes import changed_skills
from tests.fakes.repository import Entry, GitFolder

HISTORIES = 200
Files = dict[str, Entry]
FOLDERS = (
    "skills/a", "skills/b", "skills/g/c", "plugins/p/skills/d", "技能/é x", "backups/e", "docs/ja/f", "tests/t",
    "skills/a/references/n", ".", ".claude/skills/h", "skills", "skills/g", "other",
)  # fmt: skip
NAMES = ("references/r.md", "scripts/run.sh", "é.md", "deep/er/x.txt", "README.md", "data.csv")
TARGETS = (
    "skills/b/references/r.md",
    "skills/shared/common.md",
    "skills/shared/two words.md",
    "skills/shared",
    "skills/b",
    "skills/a/é.md",
    "other/data.csv",
)


class Commit(NamedTuple):
    files: Files
    parents: tuple[int, ...]


class History(NamedTuple):
    """Commits by mark; the two tips that are compared."""

    commits: dict[int, Commit]
    tip: int
    head: int


def inside(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def skill_md(rng: random.Random, folder: str) -> Entry:
    links = []
    for target in rng.sample(TARGETS, rng.choice([0, 0, 1, 2])):
        link = posixpath.relpath(target, folder)
        links.append(f"See [it]({link.replace(' ', '%20')}).")
    text = f"---\nname: {rng.choice('pqrstu')}\ndescription: d\n---\nBody {rng.random()}\n" + "\n".join(links) + "\n"
    return Entry(text.encode())


def a_skill(rng: random.Random, folder: str) -> Files:
    spelling = rng.choice(["SKILL.md"] * 5 + ["skill.md", "Skill.MD"])
    files = {inside(folder, spelling): skill_md(rng, folder)}
    for name in rng.sample(NAMES, rng.randrange(4)):
        files[inside(folder, name)] = Entry(f"{rng.randrange(9)}".encode())
    return files


def step(rng: random.Random, before: Files) -> Files:  # noqa: C901 - one line an edit
    """One random edit of a tree."""
    files = dict(before)
    paths = sorted(files)
    folders = sorted({posixpath.dirname(path) for path in paths if posixpath.dirname(path)})
    kinds = [
        "edit",
        "edit",
        "add",
        "delete",
        "mode",
        "link",
        "submodule",
        "move",
        "move",
        "copy",
        "drop",
        "skill",
        "shared",
    ]
    kind = rng.choice(kinds)
    path = rng.choice(paths) if paths else ""
    folder = rng.choice(folders) if folders else ""
    if kind == "skill" or not paths:
        files.update(a_skill(rng, rng.choice(FOLDERS)))
    elif kind == "edit":
        md = posixpath.basename(path).lower() == "skill.md"
        files[path] = skill_md(rng, posixpath.dirname(path) or ".") if md else Entry(f"edit {rng.random()}".encode())
    elif kind == "add":
        files[inside(rng.choice(FOLDERS), rng.choice(NAMES))] = Entry(f"{rng.randrange(9)}".encode())
    elif kind == "delete":
        del files[path]
    elif kind == "unskill":
        files.pop(rng.choice([name for name in paths if is_md(name)] or [path]))
    elif kind == "mode" and files[path].mode in ("100644", "100755"):
        files[path] = files[path]._replace(mode="100755" if files[path].mode == "100644" else "100644")
    elif kind == "link":
        files[path] = Entry(rng.choice(TARGETS).encode(), "120000")
    elif kind == "submodule":
        files[inside(rng.choice(FOLDERS), "vendor")] = Entry(b"%040d" % rng.randrange(1, 9), "160000")
    elif kind == "shared":
        files[rng.choice(["skills/shared/common.md", "skills/shared/two words.md", "other/data.csv"])] = Entry(
            f"{rng.random()}".encode()
        )
    elif kind in ("move", "copy", "drop") and folder:
        below = {name: entry for name, entry in files.items() if name.startswith(f"{folder}/")}
        if kind != "copy":
            files = {name: entry for name, entry in files.items() if name not in below}
        if kind != "drop":
            new = rng.choice([one for one in FOLDERS if one != "."]) + rng.choice(["", "", "-2"])
            files.update({f"{new}/{name.removeprefix(folder + '/')}": entry for name, entry in below.items()})
    return without_clashes(files)


def without_clashes(files: Files) -> Files:
    """A path cannot be a file and a folder: the file goes."""
    around = {parent for path in files for parent in map(str, Path(path).parents)}
    return {path: entry for path, entry in files.items() if path not in around}


def a_history(rng: random.Random, first_mark: int) -> History:
    commits: dict[int, Commit] = {}

    def commit(files: Files, *parents: int) -> int:
        mark = first_mark + len(commits)
        commits[mark] = Commit(files, parents)
        return mark

    files: Files = {}
    for folder in [*rng.sample(FOLDERS, rng.randrange(1, 5)), *rng.choice([(), (), (".",)])]:
        files.update(a_skill(rng, folder))
    tip = head = commit(without_clashes(files))
    for _ in range(rng.randrange(1, 6)):
        what = rng.choice(["head", "head", "head", "main", "merge"])
        if what == "head":
            changed = commits[head].files
            for _ in range(rng.choice([1, 1, 2, 5])):
                changed = step(rng, changed)
            head = commit(changed, head)
        elif what == "main":
            tip = commit(step(rng, commits[tip].files), tip)
        elif tip not in ancestors(commits, head):
            merged = without_clashes({**commits[head].files, **commits[tip].files})
            head = commit(merged, head, tip)
    return History(commits, tip, head)


def ancestors(commits: Mapping[int, Commit], mark: int) -> set[int]:
    found = {mark}
    for parent in commits[mark].parents:
        found |= ancestors(commits, parent)
    return found


def best_common(history: History) -> set[int]:
    common = ancestors(history.commits, history.tip) & ancestors(history.commits, history.head)
    older = {one for other in common for one in ancestors(history.commits, other) - {other}}
    return common - older


def import_stream(histories: list[History]) -> bytes:
    """Everything for one ``git fast-import``: git commands a file would take minutes."""
    parts = []
    for number, history in enumerate(histories):
        for mark, (files, parents) in history.commits.items():
            lines = [
                f"commit refs/heads/h{number}-{mark}\nmark :{mark}\ncommitter A <a@example.org> {mark} +0000\ndata 0\n"
            ]
            for position, parent in enumerate(parents):
                lines.append(f"{'from' if position == 0 else 'merge'} :{parent}\n")
            lines.append("deleteall\n")
            parts.append("".join(lines).encode())
            for path, (data, mode) in files.items():
                if mode == "160000":
                    parts.append(f"M 160000 {data.decode()} {path}\n".encode())
                else:
                    parts.append(f"M {mode} inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
    return b"".join(parts)


# The definition, by looking at everything (DESIGN.md 2 and 3, cases/README.md B 33, B 35).


def is_md(path: str) -> bool:
    return posixpath.basename(path).lower() == "skill.md"


def parents_of(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def live_of(files: Files) -> set[str]:
    everything = {posixpath.dirname(path) or "." for path in files if is_md(path)}

    def is_live(folder: str) -> bool:
        if folder not in everything:
            return False
        above = parents_of(folder)
        names = folder.split("/")[:-1]
        if any(is_live(one) for one in above):
            return False
        if folder != "." and "." in everything and "skills" not in names and not is_hidden(folder):
            return False
        return not ({"backups", "tests"} & set(names) or "docs/ja" in above)

    return {folder for folder in everything if is_live(folder)}


def is_hidden(path: str) -> bool:
    return path.startswith(".")


def owner(path: str, live: set[str]) -> str | None:
    for folder in parents_of(path):
        if folder in live:
            return folder
    return "." if "." in live and not (is_hidden(path) and "/" in path) else None


def owned(files: Files, live: set[str], folder: str) -> Files:
    return {path: entry for path, entry in files.items() if owner(path, live) == folder}


def linked(files: Files, live: set[str], folder: str) -> set[str]:
    mds = sorted((path for path in files if is_md(path) and (posixpath.dirname(path) or ".") == folder),
                 key=lambda path: (posixpath.basename(path) != "SKILL.md", path))  # fmt: skip
    texts = {mds[0]: files[mds[0]]}
    if folder != ".":
        texts |= {path: entry for path, entry in owned(files, live, folder).items() if path.lower().endswith(".md")}
    found = {
        posixpath.normpath(posixpath.join(place, part.split(")")[0].replace("%20", " ")))
        for path, entry in texts.items()
        if entry.mode in ("100644", "100755")
        for part in entry.data.decode("utf-8", "replace").split("](")[1:]
        for place in (folder, posixpath.dirname(path) or ".")
    }
    return {one for one in found if folder == "." or not f"{one}/".startswith(f"{folder}/")}


def links_changed(base: Files, head: Files, live: set[str], folder: str) -> set[str]:
    different = {path for path in base.keys() | head.keys() if base.get(path) != head.get(path)}
    found = set()
    for target in linked(head, live, folder):
        whole = target not in live and folder != "." and not folder.startswith(f"{target}/")
        found |= {path for path in different if path == target or (whole and path.startswith(f"{target}/"))}
    return found


def own_changed(base: Files, old: set[str], head: Files, new: set[str], folder: str) -> set[str]:
    before, after = owned(base, old, folder), owned(head, new, folder)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def name_in(files: Files, folder: str) -> str | None:
    mds = sorted((path for path in files if is_md(path) and (posixpath.dirname(path) or ".") == folder),
                 key=lambda path: (posixpath.basename(path) != "SKILL.md", path))  # fmt: skip
    text = files[mds[0]].data.decode()
    return text.split("name: ")[1].split("\n")[0] if "name: " in text else None


def below(files: Files, folder: str) -> list[tuple[bytes, bool]]:
    entries = [entry for path, entry in files.items() if folder == "." or path.startswith(f"{folder}/")]
    return [(entry.data, True) for entry in entries if entry.mode != "160000"]


def same(base: Files, old: str, head: Files, new: str) -> bool:
    """DESIGN.md 3: same ``name`` or at least half of the blobs equal."""
    name = name_in(base, old)
    if name is not None and name == name_in(head, new):
        return True
    before, after = below(base, old), below(head, new)
    left = list(after)
    equal = 0
    for one in before:
        if one in left:
            left.remove(one)
            equal += 1
    return 2 * equal >= max(len(before), len(after))


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[History], GitRepository, dict[int, str]]:
    histories = []
    mark = 1
    for number in range(HISTORIES):
        histories.append(a_history(random.Random(f"history {number}"), mark))
        mark += len(histories[-1].commits)
    folder = GitFolder(tmp_path_factory.mktemp("histories") / "repo", bare=True)
    marks = folder.folder / "marks"
    folder.git("fast-import", "--quiet", f"--export-marks={marks}", stdin=import_stream(histories))
    ids = {int(line.split()[0][1:]): line.split()[1] for line in marks.read_text().splitlines()}
    return histories, GitRepository(folder.folder), ids


def test_what_changed_equals_a_look_at_everything_in_200_histories(
    imported: tuple[list[History], GitRepository, dict[int, str]],
) -> None:
    histories, repo, ids = imported
    seen: dict[str, int] = {}
    for number, history in enumerate(histories):
        start = repo.merge_base(ids[history.tip], ids[history.head])
        best = best_common(history)
        assert start in {ids[mark] for mark in best}, number
        base = next(history.commits[mark].files for mark in best if ids[mark] == start)
        head = history.commits[history.head].files
        found = changed_skills(repo, start, ids[history.head])
        old, new = live_of(base), live_of(head)
        assert set(found.head.live) == new, number
        changed = {
            folder: own_changed(base, old, head, new, folder) | links_changed(base, head, new, folder)
            for folder in old & new
        }
        by_kind = {kind: {item.path for item in found.skills if item.kind is kind} for kind in ChangeKind}
        modified = {item.path: set(item.changed_files) for item in found.skills if item.kind is ChangeKind.MODIFIED}
        assert modified == {folder: files for folder, files in changed.items() if files}, number
        assert by_kind[ChangeKind.ADDED] | by_kind[ChangeKind.RENAMED] == new - old, number
        moved = {item.old_path for item in found.skills if item.kind is ChangeKind.RENAMED}
        assert by_kind[ChangeKind.DELETED] | moved == old - new, number
        assert not by_kind[ChangeKind.DELETED] & moved, number
        for kind, paths in by_kind.items():
            seen[kind] = seen.get(kind, 0) + len(paths)
        if not found.hidden:  # where a skill went under an ignored path, that took its place
            for one in by_kind[ChangeKind.DELETED]:
                for two in by_kind[ChangeKind.ADDED]:
                    assert not same(base, one, head, two), (number, one, two)
    # A comparison of nothing with nothing would agree too.
    assert all(seen[kind] >= 10 for kind in ("added", "modified", "renamed", "deleted")), seen
