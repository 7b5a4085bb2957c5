"""GitHub's own OpenAPI description: fetched once with npm, slimmed to the paths in use, and asked what is wrong."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tests.github.npm import ContractUnavailableError, member_of

__all__ = [
    "CACHE",
    "PACKAGE",
    "Contract",
    "ContractUnavailableError",
    "Match",
    "contract",
    "is_here",
    "slim",
    "slim_file",
]

Json = Any
_Keep = Callable[[str], None]

VERSION = "23.0.2"
PACKAGE = f"@octokit/openapi@{VERSION}"
MEMBER = "package/generated/api.github.com.json"
SHA512 = "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg=="
"""Of the package's archive: what was fetched is compared with it before it is opened."""
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "openapi"

_FORM = 3
"""Of the slim file; part of its name, so that an older one is not read."""
_REDIRECTIONS = (301, 302, 307)
_COMPONENT = "#/components/"
_ROOM = "skill-gate:github"


# --- getting it


def slim_file(paths: Iterable[str]) -> Path:
    """Where the slim description of these paths is, made now if need be.

    Fetching takes a few seconds and happens once a machine; afterwards the file is found in ``.cache``. Processes that
    ask at the same time wait for one another.

    Raises:
        ContractUnavailableError: No npm, no answer, or another archive than the one that was pinned.
    """
    wanted = sorted(set(paths))
    target = _slim_path(wanted)
    if target.is_file():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_file():
            whole = json.loads(_whole().read_bytes())
            part = CACHE / f"{target.name}.{os.getpid()}.part"
            part.write_text(json.dumps(slim(whole, wanted), separators=(",", ":")), encoding="utf-8")
            part.replace(target)
    return target


def is_here(paths: Iterable[str]) -> bool:
    """Whether ``slim_file`` would fetch nothing."""
    return _slim_path(sorted(set(paths))).is_file() or _whole_path().is_file()


def _slim_path(wanted: Sequence[str]) -> Path:
    digest = hashlib.sha256("\n".join([str(_FORM), VERSION, *wanted]).encode()).hexdigest()[:16]
    return CACHE / f"github-{VERSION}-{digest}.json"


def _whole_path() -> Path:
    return CACHE / f"api.github.com-{VERSION}.json"


def _whole() -> Path:
    """The whole description of api.github.com. It stays in the cache, so that another set of paths costs no fetch."""
    target = _whole_path()
    if target.is_file():
        return target
    part = CACHE / f"{target.name}.{os.getpid()}.part"
    part.write_bytes(member_of(PACKAGE, MEMBER, sha512=SHA512, folder=CACHE))
    part.replace(target)
    return target


# --- making it small


def slim(whole: Mapping[str, Json], paths: Iterable[str]) -> dict[str, Json]:
    """The operations of ``paths`` and the schemas that they reach, as JSON Schema.

    Raises:
        ValueError: GitHub has no such path.
    """
    schemas: dict[str, Json] = {}
    operations: dict[str, Json] = {}

    def keep(name: str) -> None:
        if name in schemas:
            return
        schemas[name] = None  # holds the place: schemas refer to one another in circles
        schemas[name] = _schema(whole["components"]["schemas"][name], keep)

    for path in paths:
        item = whole["paths"].get(path)
        if item is None:
            raise ValueError(f"GitHub's description has no path {path}")
        for method in ("get", "post", "put", "patch", "delete"):
            if method in item:
                shared = item.get("parameters", [])
                operations[f"{method.upper()} {path}"] = _operation(whole, item[method], shared, keep)
    keep("basic-error")
    _correct(schemas)
    return {"version": VERSION, "operations": operations, "schemas": schemas}


def _correct(schemas: dict[str, Json]) -> None:
    """Where the description is stricter than GitHub itself."""
    for name in ("pull-request", "pull-request-simple"):
        pull = schemas.get(name)
        if pull is None:
            continue
        # A deleted fork leaves null here (github/rest-api-description#161, shakacode/react_on_rails#3979).
        repository = pull["properties"]["head"]["properties"]["repo"]
        pull["properties"]["head"]["properties"]["repo"] = {"anyOf": [repository, {"type": "null"}]}


def _operation(
    whole: Mapping[str, Json], operation: Mapping[str, Json], shared: Sequence[Json], keep: _Keep
) -> dict[str, Json]:
    parameters = []
    for given in [*shared, *operation.get("parameters", [])]:
        parameter = _resolved(whole, given)
        parameters.append({
            "name": parameter["name"],
            "in": parameter["in"],
            "required": bool(parameter.get("required")),
            "many": bool(parameter.get("x-multi-segment")),
            "schema": _schema(parameter["schema"], keep),
        })  # fmt: skip
    body = _resolved(whole, operation.get("requestBody", {}))
    responses = {}
    for status, given in operation["responses"].items():
        responses[status] = _content(_resolved(whole, given), keep)
    return {
        "parameters": parameters,
        "body": _content(body, keep),
        "body_required": bool(body.get("required")),
        "responses": responses,
    }


def _resolved(whole: Mapping[str, Json], given: Mapping[str, Json]) -> Mapping[str, Json]:
    while "$ref" in given:
        kind, name = given["$ref"].removeprefix(_COMPONENT).split("/")
        given = whole["components"][kind][name]
    return given


def _content(part: Mapping[str, Json], keep: _Keep) -> Json:
    """The JSON schema of a body; None where there is none."""
    content = part.get("content", {})
    named = content.get("application/json") or next(
        (value for kind, value in content.items() if kind.endswith("+json")), None
    )
    return _schema(named["schema"], keep) if named and "schema" in named else None


def _schema(given: Mapping[str, Json], keep: _Keep) -> dict[str, Json]:
    """An OpenAPI 3.0 schema as JSON Schema 2020-12, without what only people read."""
    if "$ref" in given:
        name = given["$ref"].removeprefix(f"{_COMPONENT}schemas/")
        keep(name)
        return {"$ref": f"#/schemas/{name}"}
    made: dict[str, Json] = {}
    for keyword, value in given.items():
        if keyword in ("properties", "patternProperties"):
            made[keyword] = {name: _schema(part, keep) for name, part in value.items()}
        elif keyword in ("allOf", "anyOf", "oneOf"):
            made[keyword] = [_schema(part, keep) for part in value]
        elif keyword in ("items", "not") or (keyword == "additionalProperties" and isinstance(value, dict)):
            made[keyword] = _schema(value, keep)
        elif keyword in _KEPT:
            made[keyword] = value
    if not given.get("nullable"):
        return made
    if isinstance(made.get("type"), str) and not made.keys() & {"allOf", "anyOf", "oneOf"}:
        made["type"] = [made["type"], "null"]
        if "enum" in made and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
        return made
    return {"anyOf": [made, {"type": "null"}]}


_KEPT = frozenset({
    "type", "enum", "format", "required", "additionalProperties", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "pattern", "uniqueItems", "multipleOf",
})  # fmt: skip


# --- asking it


@dataclass(frozen=True)
class Match:
    """A request that GitHub knows."""

    operation: str
    """``GET /repos/{owner}/{repo}``."""
    path: Mapping[str, str]
    """Values of the path's parameters, decoded."""


class Contract:
    """Says what is wrong with a request or a response; nothing is right because nobody described it."""

    def __init__(self, description: Mapping[str, Json]) -> None:
        """``description``: as ``slim`` makes it."""
        self._operations: Mapping[str, Json] = description["operations"]
        self.schemas: Mapping[str, Json] = description["schemas"]
        document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "schemas": description["schemas"]}
        self._registry: Registry[Any] = Registry().with_resource(_ROOM, DRAFT202012.create_resource(document))
        self._routes = sorted(
            ((_pattern(name, entry), name) for name, entry in self._operations.items()),
            key=lambda route: (-_literals(route[1]), route[1]),
        )
        self._validators: dict[str, Validator] = {}

    def match(self, method: str, path: str) -> Match | None:
        """The operation of a request; None: GitHub knows none, or this test's selection does not."""
        for pattern, name in self._routes:
            found = pattern.fullmatch(f"{method} {path}")
            if found:
                names = re.findall(r"{(\w+)}", name)
                return Match(name, dict(zip(names, map(unquote, found.groups()), strict=True)))
        return None

    def request_problems(self, match: Match, query: Sequence[tuple[str, str]], body: Json, *, sent: bool) -> list[str]:
        """What is wrong with a request. ``sent``: whether there was a body at all."""
        entry = self._operations[match.operation]
        problems = []
        parameters = {(one["in"], one["name"]): one for one in entry["parameters"]}
        for where, given in (("path", match.path.items()), ("query", query)):
            for name, text in given:
                parameter = parameters.get((where, name))
                if parameter is None:
                    problems.append(f"{where} parameter {name}: GitHub has none of this name here")
                else:
                    key = f"{match.operation} {where} {name}"
                    problems += self._problems(key, parameter["schema"], _typed(text, parameter["schema"]))
        asked = {name for name, _ in query}
        problems += [
            f"query parameter {name} is missing"
            for (where, name), one in parameters.items()
            if where == "query" and one["required"] and name not in asked
        ]
        schema = entry["body"]
        if not sent:
            return [*problems, "the body is missing"] if entry["body_required"] else problems
        if schema is None:
            return [*problems, "there is a body, and GitHub takes none here"]
        problems += self._problems(f"{match.operation} body", schema, body)
        if isinstance(body, dict) and "properties" in schema:
            problems += [
                f"body: GitHub knows no property {name!r} here" for name in body.keys() - schema["properties"].keys()
            ]
        return problems

    def response_problems(self, operation: str, status: int, body: Json, *, sent: bool) -> list[str]:
        """What is wrong with a response.

        GitHub's description leaves out many error statuses; where it does, an error must be its ``basic-error``
        with a message. A repository that has moved redirects whatever is asked of it.
        """
        responses = self._operations[operation]["responses"]
        if str(status) in responses:
            schema = responses[str(status)]
            if schema is None:
                return [f"status {status} has a body, and GitHub sends none here"] if sent else []
            return self._problems(f"{operation} {status}", schema, body)
        if status < 400 and status not in _REDIRECTIONS:
            return [f"GitHub does not answer {operation} with status {status}"]
        problems = self._problems("basic-error", {"$ref": "#/schemas/basic-error"}, body)
        if not problems and not (isinstance(body, dict) and body.get("message")):
            problems = ["an error without a message"]
        return problems

    def _problems(self, key: str, schema: Json, value: Json) -> list[str]:
        validator = self._validators.get(key)
        if validator is None:
            rooted = _rooted(schema)
            validator = Draft202012Validator(rooted, registry=self._registry, format_checker=_FORMATS)
            self._validators[key] = validator
        return [f"{key}: {error.json_path}: {_short(error.message)}" for error in validator.iter_errors(value)]


def _short(message: str) -> str:
    """The start names the value, the end what is wrong with it."""
    return message if len(message) <= 300 else f"{message[:140]} … {message[-140:]}"


def _rooted(schema: Json) -> Json:
    """A schema outside of the document, whose references point into it."""
    if isinstance(schema, dict):
        return {
            name: f"{_ROOM}{value}" if name == "$ref" and isinstance(value, str) else _rooted(value)
            for name, value in schema.items()
        }
    return [_rooted(value) for value in schema] if isinstance(schema, list) else schema


def _pattern(operation: str, entry: Mapping[str, Json]) -> re.Pattern[str]:
    many = {one["name"] for one in entry["parameters"] if one["many"]}
    pieces = re.split(r"{(\w+)}", operation)
    return re.compile(
        "".join(
            re.escape(piece) if i % 2 == 0 else "(.+)" if piece in many else "([^/]+)" for i, piece in enumerate(pieces)
        )
    )


def _literals(operation: str) -> int:
    return sum(not piece.startswith("{") for piece in operation.split("/"))


def _typed(text: str, schema: Json) -> Json:
    """A parameter's text as the JSON value that its schema means."""
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "integer" in kinds and re.fullmatch(r"-?\d+", text):
        return int(text)
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    return text


_FORMATS = FormatChecker(formats=())


@_FORMATS.checks("date-time", raises=ValueError)
def _date_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


@_FORMATS.checks("uri", raises=ValueError)
def _uri(value: object) -> bool:
    return not isinstance(value, str) or bool(urlsplit(value).scheme)


@functools.cache
def _loaded(paths: tuple[str, ...]) -> Contract:
    return Contract(json.loads(slim_file(paths).read_bytes()))


def contract(paths: Iterable[str]) -> Contract:
    """The contract of these paths. Where it cannot be had the test is skipped with the reason; with CI=true it fails."""
    try:
        return _loaded(tuple(sorted(paths)))
    except ContractUnavailableError as error:
        _unavailable(f"GitHub's OpenAPI description: {error}")


def _unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
