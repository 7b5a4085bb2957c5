"""Where an agent program is on this machine. Package managers install a small launcher; a sandbox needs what it launches."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gate.domain.sandbox import ProgramFile
from gate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ELF = b"\x7fELF"
_BESIDE = {"claude": (), "codex": ("rg",)}
"""Program -> further executables that it calls by name."""
_PACKAGE_LEVELS = 4
"""How far above a launcher its packages may lie."""


def find_program(program: str, named: str | None, *, path: str | None = None) -> tuple[ProgramFile, ...]:
    """The files of a program, the executable first; empty where this machine has none.

    ``named``: a file, or a folder to look in; None: what the search path finds (``path``: instead of PATH). The executable
    is a Linux binary of this machine's architecture: the file itself, or one of its name in the package of the launcher or
    in the packages beside that. Any other program is taken as it is when it was named. Raises ConfigurationError where what was named is none.
    """
    if named is not None:
        place = Path(named)
        if not place.exists():
            raise ConfigurationError(f"There is nothing at {named}.", remedy="Name the agent program with --agent.")
        found = next(_binaries(place, program), None) if place.is_dir() else _binary_of(place, program)
        if found is None and place.is_file():
            found = place
        if found is None:
            raise ConfigurationError(
                f"{named} holds no Linux program {program} for {platform.machine()}.",
                remedy="Name the executable itself, or the folder of its package.",
            )
        return _with_company(found, program)
    launcher = shutil.which(program, path=path)
    found = _binary_of(Path(launcher), program) if launcher else None
    return _with_company(found, program) if found is not None else ()


def _binary_of(launcher: Path, program: str) -> Path | None:
    """The binary that a launcher starts: itself, or one in its own package or a package of the same maker beside it."""
    real = launcher.resolve()
    if _is_binary(real):
        return real
    folder = real.parent
    for _ in range(_PACKAGE_LEVELS):
        if folder.parent.name == "node_modules" or folder.parent.name.startswith("@"):
            places = [folder, *sorted(other for other in folder.parent.iterdir() if other.name.startswith(folder.name))]
            return next((found for place in places for found in _binaries(place, program)), None)
        folder = folder.parent
    return None


def _binaries(folder: Path, program: str) -> Iterator[Path]:
    for found in sorted(folder.rglob(program)):
        if found.is_file() and _is_binary(found.resolve()):
            yield found.resolve()


def _is_binary(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == _ELF
    except OSError:
        return False


def _with_company(found: Path, program: str) -> tuple[ProgramFile, ...]:
    files = [ProgramFile(name=program, source=found)]
    for name in _BESIDE.get(program, ()):
        # In its own folder, or in a folder beside a package's ``bin`` or program folder: never further away, where anybody's
        # file of that name may lie.
        places = [found.parent / name]
        if found.parent.name in ("bin", program):
            places += [*sorted(found.parent.parent.glob(f"{program}*/{name}")), found.parent.parent / "path" / name]
        beside = next((place.resolve() for place in places if place.is_file() and _is_binary(place.resolve())), None)
        if beside is not None:
            files.append(ProgramFile(name=name, source=beside))
    return tuple(files)
