"""Recorded provider exchanges: written and served below the official SDKs, so that the real adapters run.

A recording is a folder: ``recording.json`` (seed, run date, models) and one file per request, named
``<label>-<sha256[:16]>.json``. A request is served only by an exchange with the same method, path, query, JSON body,
call label and attempt number: nothing is matched loosely. Hosts, ports, headers and times are not recorded.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import threading
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import httpx2
from pydantic import Field, ValidationError

from gate.adapters.model_calls import ATTEMPT_HEADER, CALL_HEADER, LIMIT, plain
from gate.domain.base import Value, sha256_hex
from gate.domain.chat import Role
from gate.errors import ConfigurationError, ModelError

RECORDING = "recording.json"
_KEPT_HEADERS = ("content-type", "retry-after")
_DIFF_LINES = 60
_DIFF_LINE_CHARACTERS = 160
_SLUG_CHARACTERS = 120


class RecordedModel(Value):
    """A model as a recording names it: without host, port or key."""

    provider: Literal["openai", "openai-responses", "anthropic"]
    model: str
    path: str = ""
    """Path of the base address (``/v1``); empty for the provider's own."""
    server: int = Field(default=0, ge=0)
    """0: the provider itself; else a number per other server, so that different hosts stay different families."""

    @property
    def family(self) -> str:
        """As ChatModel.family."""
        vendor = self.provider.removesuffix("-responses")
        return vendor if self.server == 0 else f"{vendor}@server-{self.server}"

    @property
    def name(self) -> str:
        """As ChatModel.name."""
        return f"{self.provider}{self.family.removeprefix(self.provider.removesuffix('-responses'))}:{self.model}"


class Recording(Value):
    """recording.json: everything beside the exchanges that a session needs to be replayed to the byte."""

    version: Literal[1] = 1
    seed: str = Field(pattern=r"^[0-9a-f]{64}$")
    run_date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    executor: RecordedModel
    judge: RecordedModel
    models: dict[Role, RecordedModel] = Field(default_factory=dict)
    """Roles with a model of their own."""

    def of(self, role: Role) -> RecordedModel:
        """The model of a role, by the rule of ModelChoice."""
        named = self.models.get(role)
        if named is not None:
            return named
        return self.executor if role in (Role.EXECUTOR, Role.GENERATOR, Role.DEFENDER) else self.judge


def read_recording(folder: Path) -> Recording:
    """The facts of a recording. Raises ConfigurationError where the folder holds none, or one that is not understood."""
    path = folder / RECORDING
    try:
        return Recording.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{folder} is not a recording: it has no {RECORDING}.",
            remedy="Name a folder that --record wrote.",
        ) from error
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigurationError(
            f"{path} is not understood: {where}: {first['msg']}.",
            remedy="Record the session anew with this version (--record DIR).",
        ) from error


def write_recording(folder: Path, recording: Recording) -> None:
    """Write recording.json; makes the folder. Raises ConfigurationError where it cannot be written."""
    _write(folder / RECORDING, recording.to_json())


def check_empty(folder: Path) -> None:
    """Raise ConfigurationError where ``folder`` holds anything: two sessions must not mix in one recording."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} is not an empty folder.", remedy="Record into a new or empty folder.")


class _Key(Value):
    """What a request is matched by."""

    label: str
    attempt: int
    method: str
    path: str
    query: str
    body: Any

    @property
    def digest(self) -> str:
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return sha256_hex(text.encode())

    @property
    def file_name(self) -> str:
        slug = re.sub(r"-{2,}", "-", re.sub(r"[^A-Za-z0-9_.]", "-", self.label)).strip("-.")[-_SLUG_CHARACTERS:]
        return f"{slug.lstrip('-.') or 'call'}-{self.digest[:16]}.json"

    @property
    def request(self) -> dict[str, Any]:
        return {"method": self.method, "path": self.path, "query": self.query, "body": self.body}


def _take_key(request: httpx2.Request) -> _Key:
    """The key of a request; its internal headers are taken off."""
    label = unquote(request.headers.pop(CALL_HEADER, ""))
    attempt = request.headers.pop(ATTEMPT_HEADER, "1")
    content = request.read()
    try:
        body = json.loads(content)
    except ValueError:
        body = content.decode("utf-8", "replace")
    return _Key(
        label=label,
        attempt=int(attempt) if attempt.isdigit() else 1,
        method=request.method,
        path=request.url.path,
        query=request.url.query.decode("ascii", "replace"),
        body=body,
    )


class RecordingTransport(httpx2.BaseTransport):
    """Sends with ``inner`` and writes every exchange into ``folder``, failures of the network included. Thread-safe."""

    def __init__(self, inner: httpx2.BaseTransport, folder: Path) -> None:
        """``folder`` is made when the first exchange is written."""
        self._inner = inner
        self._folder = folder

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """As ``inner``, with the body read whole. Raises what ``inner`` raises, after it was recorded."""
        key = _take_key(request)
        try:
            response = self._inner.handle_request(request)
            try:
                content = _read(response, request)
            finally:
                response.close()
        except httpx2.TimeoutException:
            self._keep(key, {"failure": "timeout"})
            raise
        except httpx2.RequestError:
            self._keep(key, {"failure": "connection"})
            raise
        headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        content = _without_keys(content, request)
        self._keep(key, {"status": response.status_code, "headers": headers, **_body_json(content)})
        # The SDK gets what a replay will give it, so that recorded and replayed sessions go the same way.
        return httpx2.Response(response.status_code, headers=headers, content=content, request=request)

    def close(self) -> None:
        """Close ``inner``."""
        self._inner.close()

    def _keep(self, key: _Key, response: dict[str, Any]) -> None:
        exchange = {"label": key.label, "attempt": key.attempt, "request": key.request, "response": response}
        _write(self._folder / key.file_name, exchange)


def _read(response: httpx2.Response, request: httpx2.Request) -> bytes:
    """The whole body, decoded; the limits of ``http_client`` hold for it too."""
    limit = request.extensions.get(LIMIT)
    if limit is not None:
        response.stream = limit(response.stream)
    return response.read()


def _without_keys(content: bytes, request: httpx2.Request) -> bytes:
    """``content`` without the key that the request carried, which some error bodies repeat."""
    for name in ("authorization", "x-api-key"):
        key = request.headers.get(name, "").removeprefix("Bearer ").encode()
        if len(key) >= 8:
            content = content.replace(key, b"[key]")
    return content


def _body_json(content: bytes) -> dict[str, Any]:
    """``{"body": JSON}`` where writing the JSON again gives an equal value, else ``{"text": …}``."""
    try:
        return {"body": json.loads(content, parse_constant=_refuse)}
    except (ValueError, RecursionError):
        return {"text": content.decode("utf-8", "replace")}


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class ReplayTransport(httpx2.BaseTransport):
    """Serves the exchanges of a folder and nothing else. Thread-safe; opens no connection."""

    def __init__(self, folder: Path) -> None:
        """``folder``: one that a RecordingTransport wrote."""
        self._folder = folder
        self._lock = threading.Lock()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """The recorded response. Raises ModelError (``replay_miss``) with a diff where there is none."""
        key = _take_key(request)
        path = self._folder / key.file_name
        exchange = _read_exchange(path)
        if exchange is None or _key_of(exchange).digest != key.digest:
            raise self._miss(key)
        response = exchange["response"]
        failure = response.get("failure")
        if failure == "timeout":
            raise httpx2.ReadTimeout("recorded time-out", request=request)
        if failure is not None:
            raise httpx2.ReadError("recorded connection failure", request=request)
        content = response["text"] if "text" in response else json.dumps(response.get("body"))
        return httpx2.Response(
            response["status"],
            headers=response.get("headers") or {},
            content=content.encode("utf-8", "surrogatepass"),
            request=request,
        )

    def _miss(self, key: _Key) -> ModelError:
        with self._lock:  # building a diff is slow: one thread pays for the index
            recorded = self._recorded
        near = _nearest(key, recorded)
        if near is None:
            what = f"The recording {self._folder} holds no exchange at all."
        else:
            what = f"The nearest recorded request is {near.file_name}; the difference:\n{_diff(near, key)}\n"
        return ModelError(
            f"The recording holds no reply to the call {plain(key.label) or 'without a label'} "
            f"(request {key.attempt}). {what}",
            kind="replay_miss",
            remedy="What is judged, or the gate, has changed since the recording: record anew with --record DIR.",
        )

    @cached_property
    def _recorded(self) -> list[_Key]:
        exchanges = (_read_exchange(path) for path in sorted(self._folder.glob("*.json")) if path.name != RECORDING)
        return [_key_of(exchange) for exchange in exchanges if exchange is not None]


def _read_exchange(path: Path) -> dict[str, Any] | None:
    """The exchange in a file; None where there is none. Raises ConfigurationError for a file that is not one."""
    try:
        exchange = json.loads(path.read_bytes())
        if isinstance(exchange["request"], dict) and isinstance(exchange["response"], dict):
            _key_of(exchange)
            return dict(exchange)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    raise ConfigurationError(f"{path} is not a recorded exchange.", remedy="Record the session anew (--record DIR).")


def _key_of(exchange: dict[str, Any]) -> _Key:
    return _Key(label=exchange["label"], attempt=exchange["attempt"], **exchange["request"])


def _nearest(key: _Key, recorded: list[_Key]) -> _Key | None:
    """The recorded request to show beside a miss: of the same label where there is one, else of the likeliest label."""
    if not recorded:
        return None
    same = [other for other in recorded if other.label == key.label]
    if not same:
        labels = sorted({other.label for other in recorded})
        label = max(labels, key=lambda text: difflib.SequenceMatcher(None, text, key.label).ratio())
        same = [other for other in recorded if other.label == label]
    own = _lines(key)
    return max(same, key=lambda other: difflib.SequenceMatcher(None, _lines(other), own, autojunk=False).quick_ratio())


def _diff(recorded: _Key, asked: _Key) -> str:
    """A unified diff of two requests, at most 60 lines, safe to print."""
    lines = difflib.unified_diff(_lines(recorded), _lines(asked), "recorded", "asked", lineterm="", n=2)
    shown: list[str] = []
    for line in lines:
        if len(shown) == _DIFF_LINES:
            shown.append("… (more differences follow)")
            break
        shown.append(line)
    return "\n".join(shown)


def _lines(key: _Key) -> list[str]:
    """A request as lines for people: JSON with the line feeds inside texts as real lines."""
    facts = {"label": key.label, "attempt": key.attempt, **key.request}
    return [_safe(line) for line in _readable(facts, "")]


def _readable(value: Any, indent: str) -> Iterable[str]:
    if isinstance(value, dict) and value:
        for name in sorted(value):
            yield f"{indent}{name}:"
            yield from _readable(value[name], indent + "  ")
    elif isinstance(value, list) and value:
        for item in value:
            yield f"{indent}-"
            yield from _readable(item, indent + "  ")
    elif isinstance(value, str):
        for line in value.split("\n"):
            # Long lines are cut into pieces, so that a difference far inside one is still seen.
            for start in range(0, len(line) or 1, _DIFF_LINE_CHARACTERS):
                yield f"{indent}| {line[start : start + _DIFF_LINE_CHARACTERS]}"
    else:
        yield indent + json.dumps(value)


def _safe(line: str) -> str:
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in line)


def _write(path: Path, value: Any) -> None:
    """Pretty JSON with sorted keys, whole or not at all. Numbers stay as they are: this is wire JSON, not a report."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    unfinished = path.with_name(f".{path.name}.{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A lone surrogate has no UTF-8 form; backslashreplace turns it into the JSON escape that it came from.
        unfinished.write_bytes(text.encode("utf-8", "backslashreplace"))
        os.replace(unfinished, path)  # noqa: PTH105 - replaces on every system
    except OSError as error:
        raise ConfigurationError(
            f"The recording {path} cannot be written ({error.strerror}).", remedy="Choose another folder for --record."
        ) from error
