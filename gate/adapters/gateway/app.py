"""What a program in a sandbox can reach: the model, and the mock servers of its case. Nothing else has an address here."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from gate.adapters.gateway import mcp_http
from gate.adapters.gateway.delta import Delta
from gate.adapters.gateway.dialect import LARGEST_ANSWER, BadRequestError, parsed
from gate.adapters.model_calls import Failed, Retry, of_status, plain
from gate.domain.chat import ChatReply, Role, TokenUsage
from gate.domain.gateway import Asked, Ending, Exchange, McpCall
from gate.errors import BudgetError, InfrastructureError, ModelError

if TYPE_CHECKING:
    import httpx2
    from pydantic import SecretStr

    from gate.adapters.gateway.dialect import Collector, Dialect, Prepared
    from gate.llm.ledger import CallElsewhere, Ledger
    from gate.protocols import Clock, GatewayObserver, McpTools, Recorder

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST_BODY = 32 * 1024 * 1024
_LOOK_S = 0.05
"""How often is looked whether the provider takes another request."""
AT_ONCE = 8
"""Answers of one run that are waited for at the same time."""
READING_AT_ONCE = 4
"""Bodies of one run that are read at the same time; each may be as long as LARGEST_BODY."""
MOST_BYTES = 128 * 1024 * 1024
"""Of all questions of one run: they are kept."""
MOST_NOTES = 1_000
"""Lines of the record about requests that went nowhere; more are only counted."""
MOST_COUNTS = 500
"""Requests for a number of tokens that one run may make."""
_COUNT_PATH = "/v1/messages/count_tokens"
_PASSED_ON = (b"anthropic-version", b"anthropic-beta")
_UNKNOWN_SHAPE = (BadRequestError, TypeError, ValueError, AttributeError, KeyError, RecursionError)


class House:
    """What all runs of a session share: the one upstream, its key, the account."""

    def __init__(
        self,
        *,
        name: str,
        model: str,
        base_url: str,
        key: SecretStr,
        dialects: tuple[Dialect, ...],
        client: httpx2.AsyncClient,
        ledger: Ledger,
        clock: Clock,
        retry: Retry,
    ) -> None:
        """``name``: ``provider:model``, for the account. ``client`` belongs to the loop that the doors are used in."""
        self.name = name
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.key = key
        self.dialects = dialects
        self.client = client
        self.ledger = ledger
        self.clock = clock
        self.retry = retry

    def headers(self, dialect: Dialect, given: list[tuple[bytes, bytes]]) -> dict[str, str]:
        """The headers of a request upstream: made here, but for two that say how its body is meant."""
        secret = self.key.get_secret_value()
        own = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "skill-gate"}
        if dialect.name.value.startswith("anthropic"):
            passed = {name.decode(): value.decode("latin-1") for name, value in given if name in _PASSED_ON}
            return {"anthropic-version": "2023-06-01", **own, **passed, "x-api-key": secret}
        return {**own, "authorization": f"Bearer {secret}"}


class _ClientError(Exception):
    """An answer to a request that goes nowhere."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Door:
    """The ASGI application of one sandbox. Lives in the gateway's loop."""

    def __init__(
        self,
        house: House,
        *,
        token: str,
        label: str,
        observer: GatewayObserver,
        log: Recorder,
        mcp: McpTools | None,
    ) -> None:
        """See ``gate.protocols.ModelGateway.serve``."""
        self._house = house
        self._token = token.encode()
        self._label = label
        self._observer = observer
        self._log = log
        self._mcp = mcp_http.Servers(mcp) if mcp is not None else None
        self._paths = {dialect.path: dialect for dialect in house.dialects}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._readers = asyncio.Semaphore(READING_AT_ONCE)
        self._received = 0
        self._notes = 0
        self._delta = Delta()
        self._number = 0
        self._counted = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._since = 0
        self._waited = 0
        self._usage: TokenUsage | None = TokenUsage()
        self._cost: float | None = 0.0
        self.counts: Counter[str] = Counter()
        self.calls: list[McpCall] = []
        self.failure: InfrastructureError | None = None
        """The record could not be written: the run is worth nothing."""

    @property
    def is_busy(self) -> bool:
        """Whether an answer is under way."""
        return self._waiting > 0

    @property
    def model_ms(self) -> int:
        """For how long at least one answer was waited for."""
        now = self._house.clock.monotonic_ms()
        return self._waited + (now - self._since if self._waiting else 0)

    def spending(self) -> tuple[TokenUsage | None, float | None]:
        """Tokens and dollars of this run; None is unknown."""
        return self._usage, self._cost

    async def finish(self) -> None:
        """End what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        try:
            await self._route(scope, receive, send)
        except _ClientError as error:
            dialect = self._paths.get(scope["path"], self._house.dialects[0])
            await _json(send, error.status, dialect.error(error.status, error.message))
        except InfrastructureError as error:
            self.failure = error
            await _json(send, 500, {"error": {"message": "the record of this run cannot be written"}})
        finally:
            if task is not None:
                self._tasks.discard(task)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        if method in ("GET", "HEAD") and path in ("/", "/api/hello"):
            await _json(send, 200, {})  # a program looks whether anybody is there
            return
        self._check_token(scope["headers"])
        if method == "GET" and path == "/v1/models":
            entry = {"id": self._house.model, "object": "model", "type": "model", "display_name": self._house.model}
            await _json(send, 200, {"object": "list", "data": [entry], "has_more": False})
            return
        server = path.removeprefix("/mcp/") if path.startswith("/mcp/") else None
        dialect = self._paths.get(path) or (self._paths.get("/v1/messages") if path == _COUNT_PATH else None)
        if method != "POST" or (server is None and dialect is None):
            raise _ClientError(405 if server is not None else 404, f"there is nothing at {method} {path[:80]}")
        async with self._readers:
            raw = await _body(receive)
        if server is not None:
            await self._serve_mcp(server, raw, send)
        elif dialect is not None and path == _COUNT_PATH:
            await self._count(dialect, raw, scope, send)
        elif dialect is not None:
            await self._ask(dialect, raw, scope, receive, send)

    def _check_token(self, headers: list[tuple[bytes, bytes]]) -> None:
        given = b""
        for name, value in headers:
            if name == b"authorization" and value[:7].lower() == b"bearer ":
                given = value[7:].strip()
            elif name == b"x-api-key" and not given:
                given = value.strip()
        if not hmac.compare_digest(given, self._token):
            self.counts["gateway_token_refused"] += 1
            self._note("turned_away", why="wrong token" if given else "no token")
            raise _ClientError(401, "this is not the token of this run")

    # --- questions to the model

    async def _ask(self, dialect: Dialect, raw: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        prepared, asked = self._understand(dialect, raw)
        self._write_ahead(asked, prepared, raw, scope)
        why = self._observer.admit(asked)
        if why is None:
            try:
                with self._house.ledger.reserved(Role.EXECUTOR, self._label, self._house.name) as call:
                    await self._answer(call, asked, _Passage(self._house, dialect, prepared, scope, send), receive)
                    return
            except BudgetError as error:
                why, kind = error.message, "budget"
        else:
            kind = ""
        self.counts["gateway_request_refused"] += 1
        self._note("refused", number=asked.number, why=why)
        self._observer.ended(Exchange(asked=asked, end=Ending.REFUSED, reason=why, kind=kind))
        raise _ClientError(dialect.final_status, why)

    def _understand(self, dialect: Dialect, raw: bytes) -> tuple[Prepared, Asked]:
        body = parsed(raw)
        try:
            self._received += len(raw)
            if self._received > MOST_BYTES:
                raise BadRequestError(f"a run may send {MOST_BYTES} bytes of questions")
            if body is None:
                raise BadRequestError("the body is no JSON object")
            prepared = dialect.prepare(body, self._house.model)
            talk = dialect.talk(prepared.body)
        except _UNKNOWN_SHAPE as error:
            words = str(error) if isinstance(error, BadRequestError) else "the body is no request of this protocol"
            self.counts["gateway_request_refused"] += 1
            self._note("turned_away", why=words)
            raise _ClientError(400, words) from None
        asked = Asked(
            number=self._number,
            dialect=dialect.name,
            system=talk.system,
            messages=talk.messages,
            tools=talk.tools,
        )
        self._number += 1
        self.counts.update(prepared.stripped)
        return prepared, asked

    def _note(self, kind: str, **data: Any) -> None:
        """A line about a request that went nowhere: a program can make any number of them."""
        self._notes += 1
        if self._notes <= MOST_NOTES:
            self._log.append(kind, **data)

    def _write_ahead(self, asked: Asked, prepared: Prepared, raw: bytes, scope: Scope) -> None:
        """Before anything is sent: a crash in between leaves the question on the record, never an answer without one."""
        agent = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"user-agent"), "")
        self._log.append(
            "asked",
            number=asked.number,
            dialect=asked.dialect.value,
            agent=agent[:200],
            received_sha256=hashlib.sha256(raw).hexdigest(),
            stripped=dict(prepared.stripped),
            body=self._delta.shrink(asked.number, prepared.body),
        )

    async def _answer(self, call: CallElsewhere, asked: Asked, passage: _Passage, receive: Receive) -> None:
        self._begin_waiting()
        try:
            await self._carry(passage, receive)
        finally:
            try:
                self._observer.ended(self._settle(call, asked, passage))
            finally:
                self._end_waiting()

    async def _carry(self, passage: _Passage, receive: Receive) -> None:
        """Until the answer has gone through, or the program has hung up: nobody pays for an answer that nobody reads."""

        async def go() -> None:
            async with self._slots:
                await passage.go()

        work = asyncio.ensure_future(go())
        watch = asyncio.ensure_future(_hung_up(receive))
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, watch):
                task.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            raise error

    def _settle(self, call: CallElsewhere, asked: Asked, passage: _Passage) -> Exchange:
        """What became of it, in the account and on the record."""
        exchange = passage.exchange(asked)
        self.counts["provider_retry"] += passage.retries
        if exchange.reply is not None:
            reply = exchange.reply.model_copy(
                update={
                    "attempts": passage.attempts,
                    "provider_retries": passage.retries,
                    "rate_refusals": passage.refusals,
                }
            )
            call.charge(reply)
            self._spend(reply)
        else:
            error = None
            if exchange.end is Ending.FAILED:
                error = ModelError(exchange.reason, kind=exchange.kind, attempts=max(passage.attempts, 1))
            call.failed(error)
            if exchange.end is not Ending.FAILED:
                self._usage = self._cost = None
        said = exchange.reply
        self._log.append(
            "answered",
            number=asked.number,
            end=exchange.end.value,
            reason=exchange.reason,
            bytes=passage.size,
            sha256=passage.digest.hexdigest(),
            reply=said.model_dump(mode="json", include=_REPLY_FIELDS) if said else None,
        )
        return exchange

    def _spend(self, reply: ChatReply) -> None:
        price = self._house.ledger.price_of(self._house.name, reply.usage) if reply.usage else None
        self._usage = self._usage.plus(reply.usage) if self._usage is not None and reply.usage else None
        self._cost = self._cost + price if self._cost is not None and price is not None else None

    def _begin_waiting(self) -> None:
        if not self._waiting:
            self._since = self._house.clock.monotonic_ms()
        self._waiting += 1

    def _end_waiting(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._waited += self._house.clock.monotonic_ms() - self._since

    async def _count(self, dialect: Dialect, raw: bytes, scope: Scope, send: Send) -> None:
        """The number of tokens of a question. Not a call: providers answer it for nothing."""
        body = parsed(raw)
        self._counted += 1
        self.counts["gateway_tokens_counted"] += 1
        try:
            if body is None or self._counted > MOST_COUNTS:
                raise BadRequestError("the body is no JSON object" if body is None else "that is enough counting")
            prepared = dialect.prepare(body, self._house.model)
        except _UNKNOWN_SHAPE as error:
            raise _ClientError(400, str(error)) from None
        import httpx2

        url = f"{self._house.base_url}{_COUNT_PATH}"
        try:
            response = await self._house.client.post(
                url, content=_bytes(prepared.body), headers=self._house.headers(dialect, scope["headers"])
            )
        except httpx2.HTTPError:
            raise _ClientError(502, "the provider could not be reached") from None
        tokens = (parsed(response.content) or {}).get("input_tokens")
        self._log.append("counted", status=response.status_code, tokens=tokens if isinstance(tokens, int) else None)
        if response.status_code != 200 or not isinstance(tokens, int):
            raise _ClientError(502, f"the provider did not count (status {response.status_code})")
        await _json(send, 200, {"input_tokens": tokens})

    async def _serve_mcp(self, server: str, raw: bytes, send: Send) -> None:
        if self._mcp is None or server not in self._mcp:
            raise _ClientError(404, "this run has no such server")
        status, answer, call = await self._mcp.answer(server, raw)
        if call is not None and len(self.calls) < MOST_NOTES:
            self.calls.append(call)
            self._log.append("mcp", **call.model_dump(mode="json"))
        await (_json(send, status, answer) if answer is not None else _empty(send, status))


_REPLY_FIELDS = {"text", "tool_uses", "finish", "usage", "model"}


class _Passage:
    """One answer on its way from the provider to a program."""

    def __init__(self, house: House, dialect: Dialect, prepared: Prepared, scope: Scope, send: Send) -> None:
        self._house = house
        self._dialect = dialect
        self._scope = scope
        self._send = send
        self._body = _bytes(prepared.body)
        self._collector: Collector = dialect.collector(streamed=prepared.streamed)
        self._begun = False
        self._failed: Failed | None = None
        self._cut = ""
        self.digest = hashlib.sha256()
        self.size = 0
        self.attempts = 0
        self.retries = 0
        self.refusals = 0

    async def go(self) -> None:
        """Ask, again where that can help and nothing has been said yet, and pass the answer on."""
        waited_s = 0.0
        while True:
            self.attempts += 1
            self._failed = await self._at_its_turn()
            if self._failed is None or self._begun:
                break
            retry = self._house.retry
            self.refusals += retry.pace is not None and self._failed.too_many
            counted = self.attempts - self.refusals
            wait = retry.waits(self._failed, counted=counted, refused=self.refusals, waited_s=waited_s)
            if wait is None:
                break
            self.retries += 1
            waited_s += wait
            await asyncio.sleep(min(wait, 30.0))
        if self._failed is not None and not self._begun:
            words = f"the provider gave no answer ({self._failed.kind.replace('_', ' ')})"
            status = self._dialect.final_status
            await _json(self._send, status, self._dialect.error(status, words))

    async def _at_its_turn(self) -> Failed | None:
        pace = self._house.retry.pace
        if pace is None:
            return await self._try()
        while (turn := pace.try_begin()) is None:  # noqa: ASYNC110 - threads of other clients give turns back too
            await asyncio.sleep(_LOOK_S)
        failed: Failed | None = None
        answered = False
        try:
            failed = await self._try()
            answered = failed is None
        finally:
            refused = failed is not None and failed.too_many
            pace.end(turn, answered=answered, refused=refused, retry_after_s=failed.retry_after_s if failed else None)
        return failed

    async def _try(self) -> Failed | None:
        import httpx2

        # The one query that programs send; it names the surface that their headers ask for.
        query = "?beta=true" if self._scope.get("query_string") == b"beta=true" else ""
        url = f"{self._house.base_url}{self._dialect.upstream}{query}"
        headers = self._house.headers(self._dialect, self._scope["headers"])
        try:
            async with self._house.client.stream("POST", url, content=self._body, headers=headers) as response:
                if response.status_code != 200:
                    content = await response.aread()
                    return of_status(response.status_code, response.headers, content)
                await self._pass_on(response)
        except httpx2.TimeoutException:
            return self._broke("timeout", "no answer in time")
        except httpx2.HTTPError as error:
            return self._broke("connection", f"the connection failed: {type(error).__name__}")
        return None

    def _broke(self, kind: str, why: str) -> Failed | None:
        if self._begun:
            if not self._collector.finished:
                self._cut = why
            return None
        return Failed(kind, why, retryable=True, maybe_billed=kind == "timeout")

    async def _pass_on(self, response: httpx2.Response) -> None:
        kind = response.headers.get("content-type", "application/json")
        head = [(b"content-type", kind.encode("latin-1", "replace"))]
        self._begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": head})
        async for piece in response.aiter_bytes():
            self.size += len(piece)
            self.digest.update(piece)
            if self.size > LARGEST_ANSWER:
                self._cut = f"it was longer than {LARGEST_ANSWER} bytes"
                return
            try:
                self._collector.feed(piece)
            except _UNKNOWN_SHAPE:
                self._cut = "it is not of its protocol"
                return
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        with contextlib.suppress(*_UNKNOWN_SHAPE):  # then it is not finished either
            self._collector.end()
        if self._collector.finished or self._collector.failure:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            # Left open: the server then breaks the connection, which is what has happened to the answer.
            self._cut = "the stream ended before the answer did"

    def exchange(self, asked: Asked) -> Exchange:
        """What became of the question."""
        key = self._house.key.get_secret_value()

        def words(text: str) -> str:
            return plain(text.replace(key, "[key]") if key else text)

        name = self._house.name
        if self._failed is not None:
            status = f"status {self._failed.status}: " if self._failed.status else ""
            kind = self._failed.kind
            why = f"{name} gave no answer ({kind.replace('_', ' ')}; {status}{words(self._failed.detail).rstrip('.')})"
            return Exchange(asked=asked, end=Ending.FAILED, reason=why, kind=kind, retryable=self._failed.retryable)
        if self._collector.failure:
            why = f"{name} broke its answer off: {words(self._collector.failure).rstrip('.')}"
            return Exchange(asked=asked, end=Ending.FAILED, reason=why, kind="overload")
        if self._collector.finished:
            reply = None
            with contextlib.suppress(*_UNKNOWN_SHAPE):
                reply = self._collector.reply()
            if reply is not None:
                return Exchange(asked=asked, end=Ending.ANSWERED, reply=reply)
            why = f"{name} gave an answer that is none of its protocol"
            return Exchange(asked=asked, end=Ending.FAILED, reason=why, kind="malformed")
        if self._cut:
            why = f"the answer of {name} was cut: {self._cut}"
            return Exchange(asked=asked, end=Ending.CUT, reason=why)
        return Exchange(asked=asked, end=Ending.ABANDONED, reason="the program hung up before the answer was there")


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive) -> bytes:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        piece = message.get("body", b"")
        size += len(piece)
        if size > LARGEST_BODY:
            raise _ClientError(413, f"a request has at most {LARGEST_BODY} bytes")
        pieces.append(piece)
        if not message.get("more_body"):
            return b"".join(pieces)


def _bytes(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=(",", ":")).encode()


async def _json(send: Send, status: int, value: Any) -> None:
    content = _bytes(value)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    with contextlib.suppress(RuntimeError):  # the answer has begun already; there is nothing more to say
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


async def _empty(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
