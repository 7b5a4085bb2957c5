"""What a session has paid for, written down before anything is made of it, so that one that was killed pays for none twice
and forgets none: every call of a model, before it is sent and with what came of it, and the seal of every run.

A call is served again only from its reply. One that failed is asked anew, unless the session had gone on past it; one whose
answer was lost on its way counts as a call of unknown usage, as the ledger has it. All of them count for the caps.

The journal lies in the session's own output folder and goes when its bundle is sealed. A folder can come from anybody (a
repository can hold one), so nothing of it counts but under a MAC by a secret that people hold (DESIGN.md 3): neither the
seed that fences and controls are drawn from, nor a reply, nor a run. Without such a secret a session begins anew.
"""

from __future__ import annotations

import hashlib
import hmac
import shutil
import threading
from collections import deque
from pathlib import Path

from gate.domain.base import Value, digest_of, sha256_hex
from gate.domain.chat import ChatReply, ChatRequest, Role
from gate.domain.seeding import SessionSeed
from gate.errors import ModelError
from gate.evidence.bundle import SESSION
from gate.evidence.cache import Cache, CacheScope, derive_key, reply_facts
from gate.evidence.files import inside, write_atomic
from gate.evidence.seal import LATER_FILES, SEAL
from gate.llm.ledger import Ledger, is_at_hand
from gate.llm.roles import Models
from gate.protocols import ChatModel

JOURNAL = ".journal"
_VOUCHED = "session.mac"
_RUNS = "runs-before"
_PURPOSE = b"skill-gate journal 1\0"


class _Failed(Value):
    """A ModelError."""

    message: str
    kind: str
    remedy: str
    retryable: bool
    attempts: int
    unknown_attempts: int

    @classmethod
    def of(cls, error: ModelError) -> _Failed:
        return cls.model_validate({name: getattr(error, name) for name in cls.model_fields})

    def error(self, *, paid: bool = False) -> ModelError:
        error = ModelError(**self.model_dump())
        error.paid = paid
        return error


class _Call(Value):
    """One call and who made it; without reply and failure it was sent, and nobody knows what came of it."""

    role: Role
    model: str
    label: str
    facts: str
    """Digest of everything that its reply depends on."""
    number: int
    """Among the calls of these facts, from 0."""
    reply: ChatReply | None = None
    failed: _Failed | None = None


class _Sealed(Value):
    """A run that this session made."""

    seal: str
    """SHA-256 of its seal.json."""


def vouched(out: Path, secret: str) -> bool:
    """Whether a session with this secret wrote the session.json of a folder, and was stopped before it had sealed it."""
    try:
        said = (out / JOURNAL / _VOUCHED).read_bytes()
        return hmac.compare_digest(said, _mac(secret, (out / SESSION).read_bytes()))
    except OSError:
        return False


def _mac(secret: str, session_file: bytes) -> bytes:
    return hmac.new(derive_key(secret), _PURPOSE + session_file, hashlib.sha256).hexdigest().encode()


class Journal:
    """The journal of one session. Thread-safe."""

    def __init__(self, out: Path, seed: SessionSeed, today: str, secret: str) -> None:
        """``out``: the bundle's folder. Entries carry a MAC by a key of the secret and the seed: others are not served."""
        self._out = out
        self._root = out / JOURNAL
        self._secret = secret
        key = derive_key(f"{seed.hex}\0{secret}")
        self._kept = Cache(self._root, key, CacheScope(repository="session", name="journal"), today=today)
        self._lock = threading.Lock()
        self._calls: dict[str, deque[_Call]] = {}
        self._numbers: dict[str, int] = {}
        for _, call in self._kept.values("reply", _Call):
            self._calls.setdefault(call.facts, deque()).append(call)
        for facts, calls in self._calls.items():
            self._calls[facts] = deque(sorted(calls, key=lambda call: call.number))
            self._numbers[facts] = self._calls[facts][-1].number + 1
        self._replies = sum(call.reply is not None for calls in self._calls.values() for call in calls)
        self._runs = 0

    def continues(self, session_file: bytes) -> bool:
        """Whether exactly this session was stopped in the folder."""
        try:
            same = (self._out / SESSION).read_bytes() == session_file
        except OSError:
            return False
        return same and vouched(self._out, self._secret)

    def vouch(self, session_file: bytes) -> None:
        """Say that this session's own session.json is what is going to be written. Raises InfrastructureError (disk)."""
        write_atomic(self._root / _VOUCHED, _mac(self._secret, session_file))

    def charge(self, ledger: Ledger) -> int:
        """Write down what the session had spent before it was killed; returns how many replies it has for that."""
        for call in (call for calls in self._calls.values() for call in calls):
            if call.reply is not None:
                ledger.charge(call.role, call.label, call.reply, call.model)
            else:
                error = call.failed.error() if call.failed else None
                ledger.failed(call.role, call.label, call.model, error)
        return self._replies

    def forget(self) -> None:
        """What is there is another session's: it is neither served nor counted."""
        self._calls.clear()
        self._numbers.clear()
        self._replies = 0

    def put_aside(self) -> int:
        """Take every sealed run out of the bundle until it is asked for, so that the session finds no file of later.

        A layer that looks at all runs of a case must not see one that it has yet to ask for. Returns how many there are that
        this session has written down; what the stop itself has cut off is none.
        """
        for seal in sorted(self._out.glob(f"skills/*/*/*/*/{SEAL}")):
            place = self._root / _RUNS / seal.parent.relative_to(self._out)
            shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            seal.parent.rename(place)
        self._runs = sum(1 for _ in self._kept.values("sealed", _Sealed))
        return self._runs

    def made(self, facts: str, seal: str, label: str) -> None:
        """Write down that this session made a run. ``facts``: digest of all that it depends on, ``seal``: as in RunRecord.

        Raises InfrastructureError where the disk refuses.
        """
        self._kept.keep_value("sealed", facts, _Sealed(seal=seal), label)
        with self._lock:
            self._runs += 1

    def take_back(self, facts: str, folder: str) -> bool:
        """Put a run that was put aside into its place again where this session made it from the same facts; else it goes."""
        place = inside(self._root, f"{_RUNS}/{folder}")
        if not place.is_dir():
            return False
        known = self._kept.take_value("sealed", facts, _Sealed)
        try:
            seal = sha256_hex((place / SEAL).read_bytes())
        except OSError:
            seal = ""
        if known is None or known.seal != seal:
            shutil.rmtree(place)
            return False
        for name in LATER_FILES:
            (place / name).unlink(missing_ok=True)
        target = inside(self._out, folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        place.rename(target)
        return True

    def has(self, model: str, request: ChatRequest) -> bool:
        """Whether ``take`` has something to give."""
        with self._lock:
            return any(call.reply is not None for call in self._calls.get(reply_facts(model, request), ()))

    def take(self, model: str, request: ChatRequest) -> ChatReply | None:
        """The reply that was given before the session was killed, marked as paid; None where there is none (any more).

        Raises ModelError, marked as paid, where the call had failed before it was made again and answered.
        """
        with self._lock:
            calls = self._calls.get(reply_facts(model, request), deque())
            while calls and calls[0].reply is None and calls[0].failed is None:
                calls.popleft()
            if not any(call.reply is not None for call in calls):
                calls.clear()
                return None
            call = calls.popleft()
        if call.reply is None and call.failed is not None:
            raise call.failed.error(paid=True)
        return call.reply.model_copy(update={"paid": True}) if call.reply is not None else None

    def asked(self, role: Role, model: str, request: ChatRequest) -> _Call:
        """Write down that a call is going to be sent; ``answered`` or ``failed`` says what came of it.

        Raises InfrastructureError where the disk refuses; so do those two.
        """
        return self._begin(
            _Call(role=role, model=model, label=request.label, facts=reply_facts(model, request), number=0)
        )

    def asked_elsewhere(self, role: Role, model: str, label: str) -> _Call:
        """The same of a call that goes through the gateway: it is counted, and never served."""
        facts = digest_of({"elsewhere": [role.value, model, label]})
        return self._begin(_Call(role=role, model=model, label=label, facts=facts, number=0))

    def _begin(self, call: _Call) -> _Call:
        with self._lock:
            number = self._numbers.get(call.facts, 0)
            self._numbers[call.facts] = number + 1
        call = call.model_copy(update={"number": number})
        self._write(call)
        return call

    def answered(self, call: _Call, reply: ChatReply) -> None:
        """Write down what a call gave."""
        self._write(call.model_copy(update={"reply": reply}))
        with self._lock:
            self._replies += 1

    def failed(self, call: _Call, error: ModelError) -> None:
        """Write down that a call gave no reply."""
        self._write(call.model_copy(update={"failed": _Failed.of(error)}))

    def _write(self, call: _Call) -> None:
        self._kept.keep_value("reply", digest_of([call.facts, call.number]), call, call.label)

    @property
    def kept(self) -> tuple[int, int]:
        """How many runs and replies are there for a session that continues."""
        with self._lock:
            return self._runs, self._replies

    def end(self) -> None:
        """Remove the journal: the session has ended, its bundle holds what matters."""
        shutil.rmtree(self._root, ignore_errors=True)


class JournalledModel:
    """A ChatModel whose replies are written down."""

    def __init__(self, model: ChatModel, role: Role, journal: Journal) -> None:
        self._model = model
        self._role = role
        self._journal = journal

    @property
    def name(self) -> str:
        """As ChatModel.name."""
        return self._model.name

    @property
    def family(self) -> str:
        """As ChatModel.family."""
        return self._model.family

    def at_hand(self, request: ChatRequest) -> bool:
        """As ``gate.llm.ledger.AtHand``."""
        return self._journal.has(self.name, request) or is_at_hand(self._model, request)

    def complete(self, request: ChatRequest) -> ChatReply:
        """The reply of before, else the model's, written down. Raises ModelError, InfrastructureError (disk)."""
        earlier = self._journal.take(self.name, request)
        if earlier is not None:
            return earlier
        call = self._journal.asked(self._role, self.name, request)
        try:
            reply = self._model.complete(request)
        except ModelError as error:
            self._journal.failed(call, error)
            raise
        self._journal.answered(call, reply)
        return reply


def journalled(models: Models, journal: Journal) -> Models:
    """The same models with a journal. Clients stay one a role."""
    return Models(lambda role: JournalledModel(models.of(role), role, journal))
