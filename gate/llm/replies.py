"""The five guards on a model's reply (R198-R202): nothing but one complete, well-formed JSON object is ever a value.

Guard 1 is the prompt (the caller's); then: 2 native schema, 3 extraction, 4 field validation, 5 one re-ask with the
validator's message. What the rules may fill in afterwards is the caller's, and marked. No repair of broken JSON: a
repaired duplicate key or a second object turns a fail into a pass (judging.md 4).

Every ask counts exactly one of ``reply_native``, ``reply_whole``, ``reply_fenced``, ``reply_balanced``,
``reply_reasked``, ``reply_invalid``: the histogram is complete. Beside it: ``refusal``, ``truncation``,
``provider_retry``, ``parameter_dropped``.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from gate.domain.base import FallbackCount
from gate.domain.chat import ChatReply, ChatRequest, Finish, Message, Role
from gate.llm.ledger import Ledger
from gate.protocols import ChatModel

T = TypeVar("T")

MAX_REPLY_CHARACTERS = 1_000_000
"""A longer reply is invalid unread."""
_ECHO_CHARACTERS = 20_000  # of a bad reply, given back to the model for its second try
_MESSAGE_CHARACTERS = 2_000
_MAX_RETRY_TOKENS = 16_384


class ReplyProblem(Exception):  # noqa: N818 - a value of the conversation, not an error of the program
    """What is wrong with a reply, in words that the model can act on. Raised by ``parse`` functions."""

    def __init__(self, message: str, *, kind: str = "invalid") -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        """``invalid``, ``refused`` or ``truncated``."""


@dataclass(frozen=True)
class Found:
    """The one JSON object of a reply and how plainly it stood there."""

    value: dict[str, Any]
    tier: str
    """``whole``, ``fenced`` or ``balanced``."""


@dataclass(frozen=True)
class Asked(Generic[T]):
    """The outcome of one question."""

    value: T | None
    """None exactly where ``tier`` is ``invalid``, ``refused`` or ``truncated``."""
    tier: str
    """``native``, ``whole``, ``fenced``, ``balanced``, ``reasked``, ``invalid``, ``refused`` or ``truncated``."""
    fallbacks: tuple[FallbackCount, ...]
    """Sorted by kind, all with the role that asked."""
    reply_model: str
    """The provider's own name of the model that answered last."""
    problem: str = ""
    """Why there is no value, or why the first reply had to be asked again. Untrusted text; empty where all was well."""
    text: str = ""
    """The last reply. Untrusted."""


def ask(
    model: ChatModel,
    request: ChatRequest,
    parse: Callable[[dict[str, Any]], T],
    *,
    role: Role,
    ledger: Ledger,
) -> Asked[T]:
    """Ask ``model`` for one JSON object and give what ``parse`` makes of it; ask a second time at most.

    ``parse`` gets an object of plain JSON without duplicate keys or non-finite numbers. It validates types strictly
    (the text "false" is not false) and raises ReplyProblem, or pydantic's ValidationError, for what it does not take.
    The second try continues the conversation with the bad reply and the validator's message, under the label
    ``<label>/reask``. Raises ModelError and BudgetError; both leave the calls made so far in the ledger.
    """
    counts: Counter[str] = Counter()
    reply = ledger.call(model, request, role=role)
    try:
        value, tier = _value(reply, parse, counts)
        problem = ""
    except ReplyProblem as first:
        problem = first.message
        reply = ledger.call(model, _reask(request, reply, first), role=role)
        try:
            value, _ = _value(reply, parse, counts)
            tier = "reasked"
        except ReplyProblem as second:
            counts["reply_invalid"] += 1
            return Asked(None, second.kind, _fallbacks(counts, role), reply.model, second.message, reply.text)
    counts[f"reply_{tier}"] += 1
    return Asked(value, tier, _fallbacks(counts, role), reply.model, problem, reply.text)


def find_object(text: str) -> Found:
    """The one JSON object in ``text``. Raises ReplyProblem where there is none, a broken one, or a choice.

    Tiers: the whole text; the whole content of one code fence; one balanced object in prose. Text outside the object
    may hold no brace at all, and the object may not be an item of something larger that is broken or cut off. One
    ``<think>`` section at the start is set aside; what is left counts as ``balanced``.
    """
    if len(text) > MAX_REPLY_CHARACTERS:
        raise ReplyProblem(f"The reply is longer than {MAX_REPLY_CHARACTERS} characters.")
    thought, body = _after_thinking(text)
    body = body.strip().lstrip("\ufeff").strip()
    if not body:
        raise ReplyProblem("The reply is empty.")
    start, end = _only_region(body)
    value = _decode(body[start:end])
    whole, fenced = (start, end) == (0, len(body)), _is_fenced(body, start, end)
    if not thought and (whole or fenced):
        return Found(value, "whole" if whole else "fenced")
    _refuse_fragment(body[:start], body[end:])
    return Found(value, "balanced")


def _value(reply: ChatReply, parse: Callable[[dict[str, Any]], T], counts: Counter[str]) -> tuple[T, str]:
    counts["provider_retry"] += reply.provider_retries
    counts["parameter_dropped"] += len(reply.dropped_parameters)
    if reply.finish is Finish.REFUSAL:
        counts["refusal"] += 1
        raise ReplyProblem("The reply is a refusal, not the JSON object that was asked for.", kind="refused")
    if reply.finish is Finish.LENGTH:
        counts["truncation"] += 1
        raise ReplyProblem("The reply was cut off at its length limit. Answer more briefly.", kind="truncated")
    if reply.tool_uses or reply.finish is Finish.TOOL_USE:
        raise ReplyProblem("The reply calls a tool; there are no tools here. Answer with the JSON object only.")
    found = find_object(reply.text)
    try:
        value = parse(found.value)
    except ValidationError as error:
        raise ReplyProblem(_words(error)) from error
    return value, "native" if reply.native_schema and found.tier == "whole" else found.tier


def _words(error: ValidationError) -> str:
    """A pydantic error as one line per field, without the model's own text in it."""
    lines = [
        f"{'.'.join(str(part) for part in item['loc']) or 'the object'}: {item['msg']}"
        for item in error.errors(include_input=False, include_url=False, include_context=False)
    ]
    shown = lines[:20]
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown)} more")
    return "These fields are not as asked for: " + "; ".join(shown) + "."


def _reask(request: ChatRequest, reply: ChatReply, problem: ReplyProblem) -> ChatRequest:
    said = reply.text[:_ECHO_CHARACTERS].strip() or "(no text)"
    again = (
        f"That reply could not be used. {problem.message[:_MESSAGE_CHARACTERS]} "
        "Answer again with exactly one JSON object as it was asked for, and nothing before or after it."
    )
    limit = request.max_output_tokens
    if problem.kind == "truncated":
        limit = max(limit, min(2 * limit, _MAX_RETRY_TOKENS))
    return request.model_copy(
        update={
            "label": f"{request.label}/reask",
            "messages": (*request.messages, Message(role="assistant", text=said), Message(role="user", text=again)),
            "max_output_tokens": limit,
        }
    )


def _fallbacks(counts: Counter[str], role: Role) -> tuple[FallbackCount, ...]:
    return tuple(
        FallbackCount(kind=kind, role=role.value, count=count) for kind, count in sorted(counts.items()) if count
    )


def _after_thinking(text: str) -> tuple[bool, str]:
    """(whether there was one, the rest). Only one well-formed section at the very start is set aside."""
    stripped = text.lstrip().lstrip("\ufeff").lstrip()
    if not stripped.startswith("<think>"):
        return False, text
    if stripped.count("<think>") != 1 or stripped.count("</think>") != 1:
        raise ReplyProblem("The reply has more than one thinking section, or one that does not end.")
    return True, stripped.partition("</think>")[2]


# In one pass: JSON strings are skipped inside braces only, where they are JSON; outside, a quote is prose.
_TOKEN = re.compile(r'[{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|"', re.DOTALL)
_BRACE = re.compile(r"[{}]")


def _only_region(text: str) -> tuple[int, int]:
    """Start and end of the only balanced ``{…}`` region. Linear in the length of ``text``."""
    regions: list[tuple[int, int]] = []
    position, depth, start = 0, 0, 0
    while True:
        found = (_TOKEN if depth else _BRACE).search(text, position)
        if found is None:
            break
        position = found.end()
        if found[0] == "{":
            start = start if depth else found.start()
            depth += 1
        elif found[0] == "}":
            if not depth:
                raise ReplyProblem("The reply closes a JSON object that it never opened.")
            depth -= 1
            if not depth:
                regions.append((start, position))
        elif found[0] == '"':
            raise ReplyProblem("The reply is not complete: a text in its JSON object does not end.")
        if len(regions) > 1:
            raise ReplyProblem("The reply holds more than one JSON object.")
    if depth:
        raise ReplyProblem("The reply is not complete: its JSON object does not end.")
    if not regions:
        raise ReplyProblem("The reply holds no JSON object.")
    return regions[0]


def _is_fenced(text: str, start: int, end: int) -> bool:
    """Whether the region is the whole content of one code fence, and there is no other fence."""
    before, after = text[:start].rstrip(), text[end:].lstrip()
    opening = before.rpartition("\n")[2].strip()
    return (
        re.fullmatch(r"(`{3,}|~{3,})[A-Za-z0-9_+-]*", opening) is not None
        and after.startswith(opening.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-"))
        and before.count(opening[:3]) == 1
        and after.count(opening[:3]) == 1
    )


def _refuse_fragment(before: str, after: str) -> None:
    """An object that stands in a list or behind a key is a piece of something that is not there: never a value."""
    before, after = before.rstrip(), after.lstrip()
    if before.endswith(("[", ",", '":')) or after.startswith(("]", ",")):
        raise ReplyProblem("The JSON object in the reply is a piece of something larger that is not complete.")


def _decode(text: str) -> dict[str, Any]:
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole
        )
    except json.JSONDecodeError as error:
        raise ReplyProblem(f"The JSON object is not well formed: {error.msg} at character {error.pos}.") from error
    except RecursionError as error:
        raise ReplyProblem("The JSON object is nested too deeply.") from error
    if not isinstance(value, dict):  # cannot happen for text in braces; kept because everything rests on it
        raise ReplyProblem("The reply is not a JSON object.")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ReplyProblem(f"The JSON object has the key {json.dumps(twice[:60])} more than once.")
    return value


def _no_constant(name: str) -> Any:
    raise ReplyProblem(f"{name} is not a JSON number.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ReplyProblem("A number in the JSON object is too large.")
    return number


def _whole(text: str) -> int:
    if len(text) > 300:
        raise ReplyProblem("A number in the JSON object is too large.")
    return int(text)
