"""How models are named (DESIGN.md 6) and how a name becomes a client."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from gate.adapters.model_calls import Retry
from gate.adapters.pace import Pace
from gate.domain.base import Value
from gate.domain.chat import Role
from gate.errors import ConfigurationError
from gate.protocols import ChatModel
from gate.settings import ModelChoice

if TYPE_CHECKING:
    import httpx2

    from gate.adapters.replay_model import RecordedModel, Recording

Provider = Literal["openai", "openai-responses", "anthropic", "replay"]
PROVIDERS: tuple[Provider, ...] = ("openai", "openai-responses", "anthropic")
"""Who can be named; ``openai-responses`` is OpenAI's other protocol, with the same keys and of the same family."""

_FORMS = (
    "Write anthropic:MODEL, openai:MODEL, openai-responses:MODEL, openai@http://HOST:PORT/v1:MODEL, "
    "openai-responses@http://HOST:PORT/v1:MODEL, anthropic@http://HOST:PORT:MODEL "
    "or replay:FOLDER."
)
_AT_ADDRESS = re.compile(
    r"(?P<url>https?://(?:\[[0-9A-Fa-f:.]+\]|[^/:\[\]@?#\s]+)(?::\d{1,5}(?=[:/]))?(?:/[^:?#\s]*)?):(?P<model>.+)"
)
_PLACEHOLDER_KEY = "none"  # local servers ask for no key, but the SDKs want a text
_KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY", "openai-responses": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY",
}  # fmt: skip


class ModelName(Value):
    """A parsed model name."""

    text: str
    """As the user wrote it."""
    provider: Provider
    model: str = ""
    """Empty for a replay."""
    base_url: str | None = None
    """None: the provider's own."""
    folder: str | None = None
    """Of a replay."""

    @property
    def host(self) -> str:
        """Host of the base address, lower case; empty for the provider's own."""
        return (urlsplit(self.base_url).hostname or "") if self.base_url else ""

    @property
    def is_local(self) -> bool:
        """Whether the address is this machine."""
        return self.host in ("localhost", "::1") or re.fullmatch(r"127(\.\d{1,3}){3}", self.host) is not None

    @property
    def family(self) -> str:
        """As ChatModel.family."""
        vendor = self.provider.removesuffix("-responses")
        return f"{vendor}@{self.host}" if self.host else vendor


def parse_model_name(text: str) -> ModelName:
    """The parts of a model name. Raises ConfigurationError that says which part is wrong and how names are written."""
    if text != text.strip() or not text or not text.isprintable():
        raise ConfigurationError(f"{text!r} is not a model name.", remedy=_FORMS)
    provider, at, rest = text.partition("@") if "@" in text.partition(":")[0] else (text.partition(":")[0], "", "")
    if provider == "replay" and not at:
        folder = text.partition(":")[2]
        if not folder:
            raise ConfigurationError(
                "replay: names no folder.", remedy="Write replay:FOLDER with a recording's folder."
            )
        return ModelName(text=text, provider="replay", folder=folder)
    known = next((name for name in PROVIDERS if name == provider), None)
    if known is None:
        raise ConfigurationError(f"{text!r} names no provider that is known here.", remedy=_FORMS)
    if at:
        return _at_address(text, known, rest)
    model = text.partition(":")[2]
    if not model or model.startswith("//"):
        raise ConfigurationError(f"{text!r} names no model.", remedy=_FORMS)
    return ModelName(text=text, provider=known, model=model)


def _at_address(text: str, provider: Provider, rest: str) -> ModelName:
    if "@" in rest.partition("://")[2].partition("/")[0]:  # not shown: it may hold a password
        raise ConfigurationError(
            "A model's address must not hold a user name or a password.",
            remedy=f"Put the key into {_KEY_VARIABLES[provider]} and write {provider}@http://HOST:PORT/PATH:MODEL.",
        )
    found = _AT_ADDRESS.fullmatch(rest)
    if found is None or (found["model"].isdigit() and not re.search(r":\d+$|/[^/]", found["url"][8:])):
        raise ConfigurationError(
            f"{text!r} is not an address and a model.",
            remedy=f"Write {provider}@http://HOST:PORT/PATH:MODEL, without user name, query or fragment.",
        )
    url = found["url"].rstrip("/")
    try:
        port = urlsplit(url).port
    except ValueError:
        port = 0
    if port == 0:
        raise ConfigurationError(f"{text!r} has a port that does not exist.", remedy=_FORMS)
    return ModelName(text=text, provider=provider, model=found["model"], base_url=url)


@dataclass(frozen=True)
class Keys:
    """The provider keys of a session; None where there is none. Their text never shows in a repr."""

    openai: SecretStr | None = None
    anthropic: SecretStr | None = None

    def of(self, name: ModelName) -> SecretStr:
        """The key to send to the place that ``name`` means.

        Addresses on this machine and plain-http ones need no key and get a placeholder: a key never travels unencrypted
        off this machine. Raises ConfigurationError where a key is needed and missing.
        """
        own = self.anthropic if name.provider == "anthropic" else self.openai
        plain_http = name.base_url is not None and name.base_url.startswith("http://")
        if plain_http and not name.is_local:
            return SecretStr(_PLACEHOLDER_KEY)
        if own is not None and own.get_secret_value().strip():
            return SecretStr(own.get_secret_value().strip())
        if name.is_local:
            return SecretStr(_PLACEHOLDER_KEY)
        raise ConfigurationError(
            f"The model {name.text} needs a key and there is none.",
            remedy=f"Set {_KEY_VARIABLES[name.provider]}, or name a local server ({name.provider}@http://…:MODEL).",
        )


class ModelFactory:
    """Builds the client of each role of a session; pass it to ``gate.llm.roles.Models``."""

    def __init__(
        self,
        choice: ModelChoice,
        keys: Keys,
        *,
        record: Path | None = None,
        timeout_s: float = 300.0,
        sleep: Callable[[float], object] = time.sleep,
        stopped: Callable[[], bool] = lambda: False,
        transport: Callable[[], httpx2.BaseTransport] | None = None,
    ) -> None:
        """Check every name at once, before anything is asked.

        ``record``: an empty folder for the exchanges. ``sleep`` waits between retries (a replay never waits), ``stopped`` says whether the session is to end.
        ``transport`` makes what stands in for the network. Raises ConfigurationError for a wrong name, a missing key, a
        replay folder that is none, a record folder that is not empty, and recording a replay.
        """
        self._choice = choice
        self._keys = keys
        self._record = record
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._transport = transport
        self._stopped = stopped
        self._paces: dict[tuple[str, str], Pace] = {}
        self._names = {role: parse_model_name(choice.of(role)) for role in Role}
        self._recordings: dict[str, Recording] = {}
        for name in self._names.values():
            if name.folder is None:
                keys.of(name)
            elif name.folder not in self._recordings:
                from gate.adapters.replay_model import read_recording

                self._recordings[name.folder] = read_recording(Path(name.folder))
        if record is not None:
            from gate.adapters.replay_model import check_empty

            if self._recordings:
                raise ConfigurationError("A replay cannot be recorded.", remedy="Leave out --record or the replay.")
            check_empty(record)

    def __call__(self, role: Role) -> ChatModel:
        """A fresh client for a role. Opens no connection yet."""
        name = self._names[role]
        if name.folder is not None:
            return self._replayed(name.folder, self._recordings[name.folder].of(role))
        inner = self._transport() if self._transport else None
        if self._record is not None:
            import httpx2

            from gate.adapters.replay_model import RecordingTransport

            inner = RecordingTransport(inner or httpx2.HTTPTransport(), self._record)
        return _client(
            name.provider,
            name.text,
            name.model,
            key=self._keys.of(name),
            base_url=name.base_url,
            family=name.family,
            transport=inner,
            timeout_s=self._timeout_s,
            retry=Retry(sleep=self._sleep, pace=self._pace_of(name)),
            label_calls=self._record is not None,
            proxies=not name.is_local,
        )

    def _pace_of(self, name: ModelName) -> Pace:
        """One for each account: all roles that ask there with one key have it together."""
        vendor = name.provider.removesuffix("-responses")  # which is told apart by its key
        return self._paces.setdefault((vendor, name.base_url or ""), Pace(stopped=self._stopped))

    @property
    def recording(self) -> Recording | None:
        """The facts of the recording that is replayed (seed, run date), or None where nothing is."""
        return next(iter(self._recordings.values()), None)

    def describe(self, *, seed: str, run_date: str) -> Recording:
        """What ``write_recording`` keeps of this session's models. Raises ValueError for a session that is a replay."""
        from gate.adapters.replay_model import Recording

        if self._recordings:
            raise ValueError("a replay is not recorded")
        hosts: list[str] = []
        executor = self._recorded(parse_model_name(self._choice.executor), hosts)
        judge = self._recorded(parse_model_name(self._choice.judge), hosts)
        own = {role: self._recorded(self._names[role], hosts) for role in Role if self._choice.roles.get(role)}
        return Recording(seed=seed, run_date=run_date, executor=executor, judge=judge, models=own)

    @staticmethod
    def _recorded(name: ModelName, hosts: list[str]) -> RecordedModel:
        from gate.adapters.replay_model import RecordedModel

        if name.provider == "replay":
            raise ValueError("a replay is not recorded")
        if name.base_url is None:
            return RecordedModel(provider=name.provider, model=name.model)
        if name.host not in hosts:
            hosts.append(name.host)
        path, server = urlsplit(name.base_url).path, hosts.index(name.host) + 1
        return RecordedModel(provider=name.provider, model=name.model, path=path, server=server)

    @staticmethod
    def _replayed(folder: str, recorded: RecordedModel) -> ChatModel:
        from gate.adapters.replay_model import ReplayTransport

        return _client(
            recorded.provider,
            recorded.name,
            recorded.model,
            key=SecretStr(_PLACEHOLDER_KEY),
            base_url=f"http://replay.invalid{recorded.path}" if recorded.server else None,
            family=recorded.family,
            transport=ReplayTransport(Path(folder)),
            timeout_s=60.0,
            retry=Retry(sleep=lambda seconds: None),
            label_calls=True,
            proxies=False,
        )


def _client(
    provider: Provider,
    name: str,
    model: str,
    *,
    key: SecretStr,
    base_url: str | None,
    family: str,
    transport: httpx2.BaseTransport | None,
    timeout_s: float,
    retry: Retry,
    label_calls: bool,
    proxies: bool,
) -> ChatModel:
    if provider == "openai":
        from gate.adapters import openai_model

        return openai_model.OpenAIModel(
            name,
            model,
            api_key=key,
            base_url=base_url or openai_model.BASE_URL,
            family=family,
            transport=transport,
            timeout_s=timeout_s,
            retry=retry,
            label_calls=label_calls,
            proxies=proxies,
        )
    if provider == "openai-responses":
        from gate.adapters import openai_responses_model

        return openai_responses_model.OpenAIResponsesModel(
            name,
            model,
            api_key=key,
            base_url=base_url or openai_responses_model.BASE_URL,
            family=family,
            transport=transport,
            timeout_s=timeout_s,
            retry=retry,
            label_calls=label_calls,
            proxies=proxies,
        )
    from gate.adapters import anthropic_model

    return anthropic_model.AnthropicModel(
        name,
        model,
        api_key=key,
        base_url=base_url or anthropic_model.BASE_URL,
        family=family,
        transport=transport,
        timeout_s=timeout_s,
        retry=retry,
        label_calls=label_calls,
        proxies=proxies,
    )


def build_model(text: str, keys: Keys, *, role: Role = Role.EXECUTOR) -> ChatModel:
    """One client from one name, for checks such as ``doctor``. Raises ConfigurationError as ModelFactory."""
    return ModelFactory(ModelChoice(executor=text, judge=text), keys)(role)
