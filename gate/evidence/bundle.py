"""Writing and reading a bundle (layout: DESIGN.md 5). Whatever a later layer reads of a run comes through ``load_run``,
which checks the run's seal first.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from gate.domain.base import FallbackCount, Json, pretty_json, sha256_hex
from gate.domain.chat import TokenUsage
from gate.domain.evidence import Block, CollectedFile, Event, Metrics, Outcome, RunRecord, Timing
from gate.domain.plan import RunKey
from gate.domain.sandbox import Collected, CollectedBlob
from gate.domain.skill import SkillType
from gate.errors import EvidenceError, InfrastructureError
from gate.evidence.events import ZERO_HASH, EventLog, read_events, response_of, tool_calls
from gate.evidence.files import inside, is_unfinished, stored_name, write_atomic
from gate.evidence.seal import SEAL, check_folder, seal_folder
from gate.evidence.transcript import defect, make_blocks, render_transcript
from gate.protocols import Clock

T = TypeVar("T")

RENDERED = {
    "report.md": "md",
    "report.html": "html",
    "junit.xml": "junit",
    "findings.sarif": "sarif",
    "badge.json": "badge",
}
"""Files of a bundle that are report.json in another form -> the format."""

TEXT_OUTPUT_BYTES = 200_000
"""A collected file longer than this is kept, but is no block that a judge reads."""

GATEWAY_LOG = "gateway.jsonl"
SESSION = "session.json"
PLAN = "plan.json"

# What run.json leaves out: the record itself says it (events.jsonl, metrics.json), or it is known only after the seal.
_DERIVED = {"calls", "response", "metrics", "chain_head", "seal"}
_ESCAPES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class Bundle:
    """A bundle's folder. Every name is relative to it, with forward slashes, and cannot leave it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, *parts: str) -> Path:
        """The path of a file of the bundle. Raises EvidenceError for a name that leaves it or passes through a link."""
        return inside(self.root, "/".join(parts))

    def write(self, relative: str, value: Any) -> None:
        """Write a Value or plain JSON as ``pretty_json``, whole or not at all. Raises InfrastructureError (disk)."""
        self.write_bytes(relative, pretty_json(value))

    def write_bytes(self, relative: str, data: bytes) -> None:
        """Write bytes, whole or not at all. Raises InfrastructureError (disk)."""
        write_atomic(self.path(relative), data)

    def read(self, relative: str, kind: type[T]) -> T:
        """A value of type ``kind`` (a Value, or any type pydantic knows). Raises EvidenceError naming the file."""
        raw = self.read_bytes(relative)
        try:
            return parse_value(raw, kind)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise EvidenceError(
                f"{relative} is not what it should be: {place}: {first['msg']}.",
                path=relative,
                remedy="The file was changed or damaged, or another version of the gate wrote it.",
            ) from None

    def read_json(self, relative: str) -> Json:
        """A file's JSON. Raises EvidenceError naming the file."""
        try:
            return json.loads(self.read_bytes(relative).decode("utf-8"))
        except (ValueError, RecursionError):
            raise EvidenceError(f"{relative} is not JSON.", path=relative) from None

    def read_bytes(self, relative: str) -> bytes:
        """A file's bytes. Raises EvidenceError naming the file."""
        try:
            return self.path(relative).read_bytes()
        except FileNotFoundError:
            raise EvidenceError(f"{relative} is missing.", path=relative) from None
        except OSError as error:
            raise EvidenceError(f"{relative} cannot be read: {error.strerror}.", path=relative) from None

    def exists(self, relative: str) -> bool:
        """Whether a file or folder is there."""
        return self.path(relative).exists()

    def clear(self, keep: frozenset[str] = frozenset()) -> None:
        """Remove everything that is in the folder, but for the names ``keep``. Raises InfrastructureError (disk).

        session.json goes last: by it a folder is known as a session's, also when this is killed half way.
        """
        try:
            names = [path for path in self.root.iterdir() if path.name not in keep] if self.root.is_dir() else []
            for path in sorted(names, key=lambda path: (path.name == SESSION, path.name)):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        except OSError as error:
            raise InfrastructureError(f"{self.root} could not be emptied: {error.strerror}.") from error

    def sweep(self) -> None:
        """Remove files that were being written when a session was killed; what agents made is left alone."""
        for path in self.root.rglob("*"):
            if is_unfinished(path.name) and "workspace" not in path.relative_to(self.root).parts[:-1]:
                path.unlink(missing_ok=True)

    def run(self, key: RunKey) -> RunFolder:
        """The folder of a run, for writing."""
        return RunFolder(self, key)


def parse_value(raw: bytes, kind: type[T]) -> T:
    """A value from the bytes that ``pretty_json`` wrote. Raises pydantic's ValidationError.

    JSON mode, because bytes stand as base64 there. Its parser takes no lone surrogate escape, which foreign text can
    bring in; such a one is read as U+FFFD.
    """
    adapter: TypeAdapter[T] = TypeAdapter(kind)
    if b"\\u" in raw:
        with contextlib.suppress(UnicodeDecodeError):  # not what we write; the parser below says so
            raw = _ESCAPES.sub(_without_lone_surrogate, raw.decode("utf-8")).encode()
    return adapter.validate_json(raw)


def _without_lone_surrogate(escape: re.Match[str]) -> str:
    return "\\ufffd" if _SURROGATE_ESCAPE.fullmatch(escape[0]) else escape[0]


class RunFolder:
    """Writes one run: the event log while it happens, the collected files, then everything else and the seal."""

    def __init__(self, bundle: Bundle, key: RunKey) -> None:
        self.bundle = bundle
        self.key = key
        self.path = bundle.path(key.folder)

    def event_log(self, redact: Callable[[str], str], clock: Clock) -> EventLog:
        """A fresh record: what an earlier, failed attempt of the same run left is removed.

        Raises EvidenceError where the run is sealed already: evidence is never overwritten.
        """
        if (self.path / SEAL).exists():
            raise EvidenceError(
                f"{self.key.folder} holds a finished run already.",
                path=self.key.folder,
                remedy="Use an empty output folder.",
            )
        try:
            if self.path.exists():
                shutil.rmtree(self.path)
        except OSError as error:
            raise InfrastructureError(f"{self.key.folder} could not be emptied: {error.strerror}.") from error
        return EventLog(self.path / "events.jsonl", redact=redact, clock=clock)

    def gateway_log(self, redact: Callable[[str], str], clock: Clock) -> EventLog:
        """The record of what an agent program asked of the gateway, beside the events and chained like them."""
        return EventLog(self.path / GATEWAY_LOG, redact=redact, clock=clock)

    def write_outputs(
        self, collected: Collected, fixture: Mapping[str, bytes] | None = None
    ) -> tuple[CollectedFile, ...]:
        """Keep what was taken out of the sandbox below ``workspace/`` and list it, sorted by path.

        ``fixture``: what the gate had put there, by path, to tell new, changed and unchanged files apart. Names are
        made safe by ``stored_name``; a file that cannot be stored is listed with ``kept=False``, never an error: the
        agent chose its name.
        """
        before = {path: sha256_hex(data) for path, data in (fixture or {}).items()}
        return tuple(
            CollectedFile(
                path=blob.path,
                size_bytes=blob.size_bytes,
                sha256=blob.sha256,
                kept=self._keep(blob),
                fixture=_compared(before.get(blob.path), blob.sha256),
            )
            for blob in sorted(collected.files, key=lambda blob: blob.path)
        )

    def _keep(self, blob: CollectedBlob) -> bool:
        name = stored_name(blob.path)
        if name is None or blob.data is None:
            return False
        path = self.path / "workspace" / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(blob.data)
        except OSError:
            return False
        return True

    def finish(
        self,
        *,
        purpose: Literal["planned", "fill", "confirm"],
        skill_type: SkillType,
        outcome: Outcome,
        reason: str,
        metrics: Metrics,
        timing: Timing,
        usage: TokenUsage | None,
        model: str,
        image: str,
        run_date: str,
        files: Sequence[CollectedFile] = (),
        contaminated: str | None = None,
        fallbacks: Sequence[FallbackCount] = (),
        mcp_expected: bool = False,
    ) -> RunRecord:
        """Write what is left of a run, seal its folder and return the record as it reads back from there.

        The event log must be closed and must end with ``run_ended``. ``invalid`` is set from the record (R56);
        ``metrics.output_chars`` and ``transcript_chars`` are counted here. Raises EvidenceError where the event log on
        disk is not intact.
        """
        events = read_events(self.path / "events.jsonl", name=f"{self.key.folder}/events.jsonl")
        transcript = render_transcript(events)
        response = response_of(events)
        self._write("outputs/transcript.md", transcript.encode("utf-8", "backslashreplace"))
        if response is not None:
            self._write("outputs/response.md", response.encode("utf-8", "backslashreplace"))
        counted = {"transcript_chars": len(transcript), "output_chars": len(response or "")}
        metrics = metrics.model_copy(update=counted)
        record = RunRecord(
            key=self.key,
            purpose=purpose,
            skill_type=skill_type,
            outcome=outcome,
            reason=reason,
            calls=(),
            response=None,
            files=tuple(files),
            metrics=metrics,
            usage=usage,
            model=model,
            image=image,
            contaminated=contaminated,
            invalid=defect(skill_type, events, mcp_expected),
            fallbacks=tuple(fallbacks),
            run_date=run_date,
            chain_head="",
            seal="",
        )
        self._write("metrics.json", pretty_json(metrics))
        self._write("timing.json", pretty_json(timing))
        self._write("run.json", pretty_json(record.model_dump(mode="json", exclude=_DERIVED)))
        head = events[-1].hash if events else ZERO_HASH
        seal_folder(self.path, {"chain_head": head, "events": len(events), **self._gateway_facts()})
        return load_run(self.bundle.root, self.key.folder)

    def _gateway_facts(self) -> dict[str, Json]:
        if not (self.path / GATEWAY_LOG).exists():
            return {}
        events = read_events(self.path / GATEWAY_LOG, name=f"{self.key.folder}/{GATEWAY_LOG}")
        return {"gateway_head": events[-1].hash if events else ZERO_HASH, "gateway_events": len(events)}

    def _write(self, name: str, data: bytes) -> None:
        self.bundle.write_bytes(f"{self.key.folder}/{name}", data)


def load_run(root: Path, key_folder: str, *, check: bool = True) -> RunRecord:
    """The record of a finished run; calls and response come from its event log.

    With ``check`` the seal is verified first, file by file. Without, the caller has done so in this process. The event
    chain is verified either way. Raises EvidenceError naming the first file that is not what was sealed.
    """
    bundle = Bundle(root)
    folder = bundle.path(key_folder)
    if not folder.is_dir():
        raise EvidenceError(f"{key_folder} is missing.", path=key_folder)
    if check and (problems := check_folder(folder)):
        more = f" ({len(problems) - 1} more problems in this folder)" if len(problems) > 1 else ""
        raise EvidenceError(
            f"{key_folder}/{problems[0]}{more}.",
            path=f"{key_folder}/{problems[0].split(': ', 1)[0]}",
            remedy="The evidence was changed after it was sealed; run the session again.",
        )
    events, head = _sealed_events(bundle, key_folder)
    if check:
        _check_gateway(bundle, key_folder, events)
    parts = bundle.read_json(f"{key_folder}/run.json")
    if not isinstance(parts, dict):
        raise EvidenceError(f"{key_folder}/run.json is no run.", path=f"{key_folder}/run.json")
    metrics = bundle.read(f"{key_folder}/metrics.json", Metrics)
    derived = {
        "calls": tool_calls(events),
        "response": response_of(events),
        "metrics": metrics,
        "chain_head": head,
        "seal": sha256_hex(bundle.read_bytes(f"{key_folder}/{SEAL}")),
    }
    try:
        return RunRecord.model_validate({**parts, **derived})
    except ValidationError as error:
        raise EvidenceError(
            f"{key_folder}/run.json is no run: {error.errors()[0]['msg']}.", path=f"{key_folder}/run.json"
        ) from None


def load_events(root: Path, key_folder: str) -> tuple[Event, ...]:
    """The events of a run, their chain checked up to the sealed head. Raises EvidenceError."""
    return _sealed_events(Bundle(root), key_folder)[0]


def load_blocks(root: Path, record: RunRecord, events: Sequence[Event] | None = None) -> tuple[Block, ...]:
    """The numbered blocks of a run: its events, then its kept text outputs.

    An output is text where it is UTF-8 without NUL, of at most TEXT_OUTPUT_BYTES. What a fixture brought and the run
    left as it was is no output of the run, so it is no evidence. ``events``: what ``load_events`` gave, so that a long
    record is parsed once. Raises EvidenceError where a file is not the one of the record.
    """
    if events is None:
        events, head = _sealed_events(Bundle(root), record.key.folder)
    else:
        head = events[-1].hash if events else ZERO_HASH
    if head != record.chain_head:
        name = f"{record.key.folder}/events.jsonl"
        raise EvidenceError(f"{name} is not the record of this run.", path=name)
    outputs: dict[str, bytes] = {}
    for file in record.files:
        if file.fixture != "unchanged" and file.size_bytes <= TEXT_OUTPUT_BYTES:
            data = load_output(root, record, file.path)
            if data is not None:
                outputs[file.path] = data
    return make_blocks(events, outputs)


def load_output(root: Path, record: RunRecord, path: str) -> bytes | None:
    """A collected file by its path in the workspace; None where the run has none, or kept only its digest.

    Raises EvidenceError where the file is missing from the bundle or is not the one that the record lists.
    """
    file = next((item for item in record.files if item.path == path), None)
    stored = stored_name(path)
    if file is None or not file.kept or stored is None:
        return None
    name = f"{record.key.folder}/workspace/{stored}"
    data = Bundle(root).read_bytes(name)
    if sha256_hex(data) != file.sha256:
        raise EvidenceError(f"{name} was changed after the run.", path=name)
    return data


def _sealed_events(bundle: Bundle, key_folder: str) -> tuple[tuple[Event, ...], str]:
    name = f"{key_folder}/events.jsonl"
    events = read_events(bundle.path(name), name=name)
    head = events[-1].hash if events else ZERO_HASH
    seal = bundle.read_json(f"{key_folder}/{SEAL}")
    if not isinstance(seal, dict) or seal.get("chain_head") != head:
        raise EvidenceError(f"{name} does not end where the seal of the run says.", path=name)
    return events, head


def _check_gateway(bundle: Bundle, key_folder: str, events: Sequence[Event]) -> None:
    """The gateway's record, where the run has one, is whole, ends where the seal says, and holds every word of the model.

    Raises EvidenceError.
    """
    name = f"{key_folder}/{GATEWAY_LOG}"
    seal = bundle.read_json(f"{key_folder}/{SEAL}")
    wanted = seal.get("gateway_head") if isinstance(seal, dict) else None
    seen = read_events(bundle.path(name), name=name) if bundle.exists(name) else None
    found = None if seen is None else seen[-1].hash if seen else ZERO_HASH
    if found != wanted:
        raise EvidenceError(f"{name} does not end where the seal of the run says.", path=name)
    answers = iter([event.data.get("reply") or {} for event in seen or () if event.kind == "answered"])
    for event in events if seen is not None else ():
        if event.kind == "model_reply" and not any(_same_words(event.data, answer) for answer in answers):
            raise EvidenceError(
                f"{key_folder}/events.jsonl, line {event.seq + 1}: a reply that {GATEWAY_LOG} does not hold.", path=name
            )


def _same_words(recorded: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    uses, answered = recorded.get("tool_uses") or (), answer.get("tool_uses") or ()
    calls = [(use.get("id"), use.get("name"), use.get("arguments")) for use in uses]
    return recorded.get("text") == answer.get("text") and calls == [
        (use.get("id"), use.get("name"), use.get("arguments")) for use in answered
    ]


def _compared(before: str | None, now: str) -> Literal["new", "changed", "unchanged"]:
    if before is None:
        return "new"
    return "unchanged" if before == now else "changed"
