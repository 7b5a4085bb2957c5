"""What a provider's protocol is to the server, and the checks that both protocols share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.scripted.faults import HttpError
from tests.scripted.values import DialectName, Json, Message, Reply, Request, wire_json

PIECE_CHARS = 16
"""How much text one event of a stream carries."""


class BadRequestError(Exception):
    """The client broke the provider's protocol.

    Attributes:
        message: What is wrong, beginning with the place in the body.
        param: The parameter that ``openai`` would name, if it is one.
    """

    def __init__(self, message: str, param: str | None = None) -> None:
        """Keep message and parameter."""
        super().__init__(message)
        self.message = message
        self.param = param


@dataclass(frozen=True)
class Parsed:
    """The part of a request that the body alone decides; fields as in ``Request``."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: Mapping[str, Mapping[str, Json]]
    schema: Mapping[str, Json] | None
    stream: bool
    max_tokens: int | None


class Dialect(Protocol):
    """One provider's protocol: reads bodies strictly, writes replies exactly. Holds no state."""

    name: DialectName
    request_id_header: str

    def parse(self, body: Mapping[str, Json], headers: Mapping[str, str], *, counting: bool = False) -> Parsed:
        """Read a body; ``counting`` when it only asks for the number of tokens.

        Raises:
            BadRequestError: The provider would refuse this body for its form.
        """
        ...

    def reply(self, request: Request, reply: Reply) -> Json:
        """Return the body of a reply that is not streamed."""
        ...

    def events(self, request: Request, reply: Reply) -> list[bytes]:
        """Return the events of a streamed reply, each one complete."""
        ...

    def endless_events(self, request: Request, text: str) -> Iterator[bytes]:
        """Yield the beginning of a stream and then ``text`` for ever."""
        ...

    def error(self, request_id: str, error: HttpError) -> Json:
        """Return the body of an error response."""
        ...

    def error_event(self, request_id: str, error: HttpError) -> bytes:
        """Return the event that breaks off a stream."""
        ...

    def models(self, ids: Sequence[str]) -> Json:
        """Return the body of the list of models."""
        ...

    def model(self, name: str) -> Json:
        """Return the body that describes one model."""
        ...


def pieces(text: str) -> list[str]:
    """Cut a text the way a stream sends it."""
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]


def event(data: Json, name: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = b"" if name is None else f"event: {name}\n".encode()
    return head + b"data: " + wire_json(data) + b"\n\n"


def an_object(value: Json, where: str) -> Mapping[str, Json]:
    """Return ``value`` if it is a JSON object.

    Raises:
        BadRequestError: It is not.
    """
    if not isinstance(value, dict):
        raise BadRequestError(f"{where}: expected an object", where)
    return value


def a_list(value: Json, where: str) -> list[Json]:
    """Return ``value`` if it is a list with something in it.

    Raises:
        BadRequestError: It is not.
    """
    if not isinstance(value, list):
        raise BadRequestError(f"{where}: expected a list", where)
    if not value:
        raise BadRequestError(f"{where}: the list is empty", where)
    return value


def a_text(value: Json, where: str, *, empty: bool = False) -> str:
    """Return ``value`` if it is a text, and not an empty one unless ``empty``.

    Raises:
        BadRequestError: It is not.
    """
    if not isinstance(value, str):
        raise BadRequestError(f"{where}: expected a string", where)
    if not value and not empty:
        raise BadRequestError(f"{where}: the string is empty", where)
    return value


def a_flag(value: Json, where: str) -> bool:
    """Return ``value`` if it is a boolean; None is False.

    Raises:
        BadRequestError: It is neither.
    """
    if value is not None and not isinstance(value, bool):
        raise BadRequestError(f"{where}: expected a boolean", where)
    return bool(value)


def a_count(value: Json, where: str, *, least: int) -> int:
    """Return ``value`` if it is a whole number of at least ``least``.

    Raises:
        BadRequestError: It is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadRequestError(f"{where}: expected an integer of at least {least}", where)
    return value


def a_name(value: Json, where: str, *, longest: int) -> str:
    """Return ``value`` if a tool or a schema may be called so.

    Raises:
        BadRequestError: It may not.
    """
    name = a_text(value, where)
    if not re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{longest}}}", name):
        raise BadRequestError(f"{where}: {name!r} does not match [a-zA-Z0-9_-]{{1,{longest}}}", where)
    return name


def check_strict_schema(schema: Json, where: str, *, all_required: bool) -> None:
    """Check what providers ask of a schema they are to enforce: closed objects; with ``all_required`` nothing optional.

    Raises:
        BadRequestError: An object in it allows more properties, or one of its properties is optional.
    """
    if isinstance(schema, list):
        for number, item in enumerate(schema):
            check_strict_schema(item, f"{where}.{number}", all_required=all_required)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            raise BadRequestError(f"{where}: an enforced object needs 'additionalProperties': false", where)
        optional = set(schema.get("properties", {})) - set(schema.get("required", []))
        if all_required and optional:
            raise BadRequestError(f"{where}: 'required' must name every property; missing {sorted(optional)}", where)
    for keyword in ("properties", "$defs", "definitions"):
        for name, part in an_object(schema.get(keyword, {}), f"{where}.{keyword}").items():
            check_strict_schema(part, f"{where}.{keyword}.{name}", all_required=all_required)
    for keyword in ("items", "prefixItems", "anyOf", "allOf", "oneOf"):
        check_strict_schema(schema.get(keyword), f"{where}.{keyword}", all_required=all_required)
