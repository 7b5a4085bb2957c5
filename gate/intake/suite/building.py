"""What every dialect of suites needs: files of the skill by reference, checks from their parameters, finished cases."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from gate.domain.base import Json, digest_of, sha256_hex
from gate.domain.checks import CHECK_KINDS, Check, CheckParameters
from gate.domain.skill import Skill, SkillFile
from gate.domain.suite import Case, Expectation, FixtureFile
from gate.intake.notes import nearest, short

_PARAMETERS: TypeAdapter[Any] = TypeAdapter(CheckParameters)
_MODELS: dict[str, Any] = {
    model.model_fields["kind"].default: model for model in get_args(get_args(CheckParameters)[0])
}
MAX_ASSERTIONS = 2_000
"""In one list of a case; real ones have under fifty."""
_STRIPPED = ("evals", "files", "fixtures")


class Complaint(ValueError):  # noqa: N818 - what a file's author did wrong, not a failure of the program
    """One thing that is wrong with a case. ``place`` leads from the value that was read to the wrong one."""

    def __init__(self, message: str, *, place: tuple[str | int, ...] = (), remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.remedy = remedy


def parameters(kind: str, values: Mapping[str, Json]) -> tuple[Any, list[Complaint]]:
    """The parameters of a check of a known kind, or everything that is wrong with them."""
    model = _MODELS[kind]
    try:
        # As JSON and strict: "3" is no number and true is no 1, but a list may stand for a tuple.
        found = _PARAMETERS.validate_json(json.dumps({**values, "kind": kind}), strict=True)
    except ValidationError as error:
        return None, _complaints(error, model)
    if "pattern" in model.model_fields and kind != "response_not_contains" and found.pattern is not None:
        try:
            re.compile(found.pattern)
        except (re.error, OverflowError, RecursionError) as problem:
            return None, [Complaint(f"pattern is no regular expression: {short(problem)}", place=("pattern",))]
    return found, []


def known_kind(kind: Json) -> str:
    """A check kind. Raises Complaint naming the nearest."""
    if isinstance(kind, str) and kind in CHECK_KINDS:
        return kind
    likely = nearest(str(kind), CHECK_KINDS)
    hint = f"did you mean {likely}?" if likely else f"known are {', '.join(CHECK_KINDS)}"
    raise Complaint(f'"{short(kind)}" is no kind of check; {hint}', place=("kind",))


def _complaints(error: ValidationError, model: Any) -> list[Complaint]:
    """pydantic's errors in the words of this house, one for each place."""
    found: dict[tuple[str | int, ...], Complaint] = {}
    for item in error.errors(include_url=False):
        place = tuple(item["loc"][1:])  # the first part is the kind
        if item["type"] == "extra_forbidden":
            likely = nearest(str(place[-1]), [name for name in model.model_fields if name != "kind"])
            hint = f"did you mean {likely}?" if likely else f"known are {', '.join(_fields(model))}"
            complaint = Complaint(f'"{short(place[-1])}" is an unknown key; {hint}', place=place)
        elif item["type"] == "missing":
            complaint = Complaint(f"{place[-1]} is missing", place=place[:-1], remedy=f"Add {place[-1]}.")
        else:
            place = tuple(part for part in place if part in model.model_fields or isinstance(part, int))
            message = item["msg"].removeprefix("Value error, ")
            label = f"{place[-1]}: " if place else ""
            remedy = "Put the value in quotes." if item["type"] == "string_type" else ""
            complaint = Complaint(f"{label}{message[:1].lower()}{message[1:]}", place=place, remedy=remedy)
        found.setdefault(complaint.place, complaint)
    return list(found.values())


def _fields(model: Any) -> list[str]:
    return [name for name in model.model_fields if name != "kind"]


def safe_path(path: Json, *, place: tuple[str | int, ...] = ()) -> str:
    """A workspace path as it may be used: relative, forward slashes, no ``..``. Raises Complaint."""
    if not isinstance(path, str) or not path.strip():
        raise Complaint(f'"{short(path)}" is no path; text was expected', place=place)
    cleaned = posixpath.normpath(path.strip())
    parts = cleaned.split("/")
    if "\\" in path or "\0" in path or cleaned.startswith("/") or ".." in parts or cleaned == "." or ".git" in parts:
        raise Complaint(
            f'the path "{short(path)}" is refused',
            place=place,
            remedy="Use a path below the workspace, such as data/in.csv.",
        )
    return cleaned


def referenced(skill: Skill, suite_folder: str, reference: Json) -> list[tuple[str, SkillFile]]:
    """The files that a reference names: looked for below the suite's folder, then below the skill's; a folder names all.

    Each with its path below the reference (empty for the file that is named itself). Raises Complaint where there is none, or where it is a link.
    """
    cleaned = safe_path(reference)
    tried = []
    for folder in dict.fromkeys((suite_folder, "")):
        full = posixpath.join(folder, cleaned)
        tried.append(full)
        found = skill.file(full)
        if found is not None and found.is_regular:
            return [("", found)]
        if found is not None:
            raise Complaint(f'"{short(reference)}" is a link; links are not followed', remedy="Commit a plain file.")
        inside = [item for item in skill.files if item.path.startswith(f"{full}/") and item.is_regular]
        if inside:
            return [(item.path.removeprefix(f"{full}/"), item) for item in inside]
    raise Complaint(
        f'the file "{short(reference)}" does not exist (looked for {" and ".join(tried)} in the skill folder)',
        remedy="Commit the file, or correct the path.",
    )


def destination(path: str) -> str:
    """Where a referenced file goes: its path without leading ``evals/``, ``files/`` and ``fixtures/``."""
    parts = path.split("/")
    while len(parts) > 1 and parts[0] in _STRIPPED:
        parts = parts[1:]
    return "/".join(parts)


def fixture(file: SkillFile, path: str) -> FixtureFile:
    """A file of the skill as a fixture."""
    return FixtureFile(path=path, data=file.data, executable=file.mode == "100755")


def numbered_checks(found: list[Check]) -> tuple[Check, ...]:
    """Checks with ids: given ones kept, the others ``c1`` … by position, none twice. Raises Complaint for a double id."""
    taken: set[str] = {item.id for item in found if item.id}
    if len(taken) != sum(1 for item in found if item.id):
        twice = next(item.id for index, item in enumerate(found) if item.id in [other.id for other in found[:index]])
        raise Complaint(f'two checks have the id "{short(twice)}"', place=("checks",))
    return tuple(
        item if item.id else item.model_copy(update={"id": _free(f"c{index}", taken)})
        for index, item in enumerate(found, 1)
    )


def numbered_expectations(found: Sequence[Expectation]) -> tuple[Expectation, ...]:
    """Expectations with ids: given ones kept, the others ``e1`` … by position. Raises Complaint for a double id."""
    taken = {item.id for item in found if item.id}
    if len(taken) != sum(1 for item in found if item.id):
        raise Complaint("two expectations have the same id", remedy="Ids must be unique in a case.")
    return tuple(
        item if item.id else item.model_copy(update={"id": _free(f"e{position}", taken)})
        for position, item in enumerate(found, 1)
    )


def slug(name: str) -> str:
    """A name as an id: lower-case ASCII letters, digits and hyphens, at most 48; empty where too little of it is left."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48].strip("-")
    return plain if len(plain) >= (1 if name.isascii() else 3) else ""


class Ids:
    """Makes ids for cases that have none. An id does not move when another case is put before its own.

    It is the slug of the case's name where there is one (with the digest behind it where that is taken), else ``case-`` and
    the first 8 hex digits of SHA-256 over the prompt with white space collapsed. Only equal prompts are told apart by
    position (``-2`` …).
    """

    def __init__(self, taken: Iterable[str] = (), prefix: str = "case") -> None:
        """``taken``: every id that a file gives itself, also further down."""
        self._taken = set(taken)
        self._prefix = prefix
        self._next: dict[str, int] = {}

    def keep(self, given: str) -> str:
        """``given``, which is taken now; empty where it was taken already."""
        if not given or given in self._taken:
            return ""
        self._taken.add(given)
        return given

    def make(self, name: str, prompt: str) -> str:
        """An id that nobody has; it is taken now."""
        digest = sha256_hex(" ".join(prompt.split()).encode("utf-8", "backslashreplace"))[:8]
        readable = slug(name)
        first = readable or f"{self._prefix}-{digest}"
        if readable and first in self._taken:
            first = f"{readable}-{digest}"
        found = first
        while found in self._taken:
            self._next[first] = self._next.get(first, 1) + 1
            found = f"{first}-{self._next[first]}"
        self._taken.add(found)
        return found


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "x"
    taken.add(name)
    return name


def finished(case: Case) -> Case:
    """A case with its digest: over what it says, not over where it stands (``line``)."""
    return case.model_copy(update={"digest": digest_of(case.model_copy(update={"line": None, "digest": ""}))})
