"""How a produced program is started: the five priorities of the source document, then what manifests say (sandbox.md 5)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

CONVENTIONAL = ("main.py", "app.py", "index.py", "server.py")
PAGES = (".html", ".htm")
INTERPRETERS = {
    ".py": "python3", ".sh": "bash", ".bash": "bash", ".js": "node", ".mjs": "node", ".cjs": "node", ".rb": "ruby", ".pl": "perl",
}  # fmt: skip
"""End of a file's name -> the program that runs it."""
MANIFESTS = ("package.json", "pyproject.toml", "Makefile", "Cargo.toml", "go.mod")
MANIFEST, EXECUTABLE, ONLY = 6, 7, 8
"""Priorities behind the five of R183-R187: a manifest says it; a file with the exec bit and a shebang; the only program."""

_MAIN_GUARD = re.compile(rb"^if\s+__name__\s*==\s*['\"]__main__['\"]\s*:", re.MULTILINE)
_RUN_TARGET = re.compile(r"^run\s*:(?!=)", re.MULTILINE)
_SCRIPT = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")


class Start(NamedTuple):
    """A program and how it is started."""

    path: str
    priority: int
    argv: tuple[str, ...]
    """Empty for a page, which is looked at and not run."""

    @property
    def program(self) -> str:
        """Name of the program that has to be there for it."""
        return self.argv[0] if self.argv else ""


def is_startable(path: str) -> bool:
    """Whether a file may be, or may tell of, something to run or to look at."""
    name = path.rsplit("/", 1)[-1]
    return path.lower().endswith((*INTERPRETERS, *PAGES)) or name in MANIFESTS


def start_of(
    response: str, paths: Sequence[str], contents: Mapping[str, bytes], executable: Collection[str] = ()
) -> Start | None:
    """What to start of the files that a run made, or None where nothing tells."""
    found = entry_point(response, paths, contents)
    if found is not None:
        path, priority = found
        return Start(path, priority, () if path.lower().endswith(PAGES) else argv_of(path))
    ordered = sorted(paths, key=lambda path: (path.count("/"), len(path), path))
    for name in MANIFESTS:
        if name in paths and (argv := _declared(name, contents)):
            return Start(name, MANIFEST, argv)
    for path in ordered:
        if path in executable and contents.get(path, b"").startswith(b"#!"):
            return Start(path, EXECUTABLE, (f"./{path}",))
    # A lone Python file without a guard is a module: running it shows nothing. Other languages have no such form.
    alone = [path for path in ordered if path.lower().endswith(tuple(INTERPRETERS))]
    if len(alone) == 1 and not alone[0].endswith(".py"):
        return Start(alone[0], ONLY, argv_of(alone[0]))
    return None


def argv_of(path: str) -> tuple[str, ...]:
    """The command that runs a file, in ``/work``. A name that starts with a dash would be taken for an option."""
    program = next(program for end, program in INTERPRETERS.items() if path.lower().endswith(end))
    return (program, f"./{path}" if path.startswith("-") else path)


def entry_point(response: str, paths: Sequence[str], contents: Mapping[str, bytes]) -> tuple[str, int] | None:
    """Which produced file to run and by which of the five priorities (R183-R187), or None.

    1 named in the final answer, 2 a conventional name, 3 a Python file with a main guard, 4 a page (structure only),
    5 a shell script. Among equals a program comes before a page, then what is nearest to the workspace's root, then the
    shortest, then the first by name.
    """
    ordered = sorted(paths, key=lambda path: (path.count("/"), len(path), path))
    python = [path for path in ordered if path.endswith(".py")]
    pages = [path for path in ordered if path.lower().endswith(PAGES)]
    scripts = [path for path in ordered if path.endswith(".sh")]
    programs = [path for path in ordered if path.lower().endswith(tuple(INTERPRETERS))]
    names = [path.rsplit("/", 1)[-1] for path in paths]
    ranked = (
        [path for path in [*programs, *pages] if _is_named(path, response, names)],
        [path for name in CONVENTIONAL for path in python if path.rsplit("/", 1)[-1] == name],
        [path for path in python if _MAIN_GUARD.search(contents.get(path, b""))],
        pages,
        scripts,
    )
    return next(((found[0], priority) for priority, found in enumerate(ranked, 1) if found), None)


def _is_named(path: str, response: str, names: Sequence[str]) -> bool:
    """Whether the answer names a file by its path, or by its bare name where only one file has it."""
    name = path.rsplit("/", 1)[-1]
    spellings = {path, name} if names.count(name) == 1 else {path}
    return any(
        re.search(rf"(?:(?<![\w./-])|(?<=/work/)|(?<=\./)(?<![\w./-]\./)){re.escape(one)}(?![\w/-]|\.\w)", response)
        for one in spellings
    )


def _declared(name: str, contents: Mapping[str, bytes]) -> tuple[str, ...]:
    """The command that a manifest declares; empty where it declares none or cannot be read."""
    text = contents.get(name, b"").decode("utf-8", "replace")
    try:
        if name == "package.json":
            return _of_package(json.loads(text), contents)
        if name == "pyproject.toml":
            return _of_pyproject(tomllib.loads(text))
    except (ValueError, RecursionError):
        return ()
    if name == "Makefile":
        return ("make", "run") if _RUN_TARGET.search(text) else ()
    if name == "Cargo.toml":
        return ("cargo", "run", "--offline", "--quiet")
    return ("go", "run", ".") if "main.go" in contents else ()


def _of_package(package: Any, contents: Mapping[str, bytes]) -> tuple[str, ...]:
    if not isinstance(package, dict):
        return ()
    scripts, binary, main = package.get("scripts"), package.get("bin"), package.get("main")
    line = scripts.get("start") if isinstance(scripts, dict) else None
    if isinstance(line, str) and line.strip():
        return ("/bin/bash", "-c", f'PATH="$PWD/node_modules/.bin:$PATH"; {line}')
    if isinstance(binary, dict):
        binary = next(iter(binary.values()), None)
    for file in (binary, main):
        if isinstance(file, str) and file.removeprefix("./") in contents:
            return ("node", f"./{file.removeprefix('./')}")
    return ()


def _of_pyproject(project: Mapping[str, Any]) -> tuple[str, ...]:
    table = project.get("project")
    scripts = table.get("scripts") if isinstance(table, dict) else None
    target = next(iter(scripts.values()), None) if isinstance(scripts, dict) else None
    found = _SCRIPT.fullmatch(target.strip()) if isinstance(target, str) else None
    if found is None:
        return ()
    code = f"import sys; sys.path[:0] = ['src', '.']; from {found[1]} import {found[2].split('.')[0]}; sys.exit({found[2]}())"
    return ("python3", "-c", code)
