from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from gate.adapters.model_names import Keys, ModelFactory
from gate.adapters.replay_model import RECORDING, RecordedModel, Recording, read_recording, write_recording
from gate.domain.chat import ChatReply, ChatRequest, Message, ReplySchema, Role, ToolSpec
from gate.errors import ConfigurationError, ModelError
from gate.settings import ModelChoice
from tests import scripted
from tests.scripted import Reply, ScriptedServer, Step

SEED = "ab" * 32
KEY = "sk-canary-4f1b9c2e77"
BASH = ToolSpec(name="bash", description="Run.", input_schema={"type": "object", "properties": {}})
SCHEMA = ReplySchema(
    name="grade", json_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
)
SKILL = "Step 1: read the file.\nStep 2: round to 10 digits.\nStep 3: write the result.\n"


def request(label: str = "skill-a/eval-1/turn-1", text: str = SKILL, **more: object) -> ChatRequest:
    messages = (Message(role="user", text=text),)
    return ChatRequest(label=label, system="Answer in JSON.", messages=messages, **more)  # type: ignore[arg-type]


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def factory(provider: str, server: ScriptedServer, folder: Path, timeout_s: float = 60.0) -> ModelFactory:
    address = server.openai_url if provider == "openai" else server.url
    name = f"{provider}@{address}:scripted-1"
    keys = Keys(openai=SecretStr(KEY), anthropic=SecretStr(KEY))
    choice = ModelChoice(executor=name, judge=name)
    return ModelFactory(choice, keys, record=folder, timeout_s=timeout_s, sleep=lambda seconds: None)


def record(
    provider: str, scenario: Step, folder: Path, *requests: ChatRequest, timeout_s: float = 60.0
) -> list[ChatReply | ModelError]:
    with ScriptedServer(scenario) as server:
        making = factory(provider, server, folder, timeout_s)
        said = outcomes(making, *requests)
        write_recording(folder, making.describe(seed=SEED, run_date="2026-11-30"))
    return said


def outcomes(making: ModelFactory, *requests: ChatRequest) -> list[ChatReply | ModelError]:
    model = making(Role.EXECUTOR)
    said: list[ChatReply | ModelError] = []
    for asked in requests:
        try:
            said.append(model.complete(asked))
        except ModelError as error:
            said.append(error)
    return said


def replaying(folder: Path) -> ModelFactory:
    return ModelFactory(ModelChoice(executor=f"replay:{folder}", judge=f"replay:{folder}"), Keys())


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


SCENARIOS: dict[str, Step] = {
    "text": Reply("Hello 你好 \u2028 🙂"),
    "a tool call": Reply.calling("bash", {"z": 1.23456789012, "a": "b"}),
    "no usage": Reply("x", usage="omitted"),
    "a refusal": Reply("No.", finish="refusal"),
    "429, then a reply": scripted.first(1, scripted.rate_limited(1), then=Reply("At last.")),
    "a lost connection, then a reply": scripted.first(2, scripted.Dropped("middle"), then=Reply("At last.")),
    "no connection at all": scripted.Dropped("before"),
    "not JSON": scripted.Malformed(),
    "a web page": scripted.bad_gateway(),
    "a wrong key": scripted.unauthorized(),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_a_replay_gives_what_was_recorded_failures_and_retries_included(
    provider: str, scenario: Step, tmp_path: Path
) -> None:
    asked = request(tools=(BASH,))
    (recorded,) = record(provider, scenario, tmp_path / "rec", asked)
    (replayed,) = outcomes(replaying(tmp_path / "rec"), asked)
    if isinstance(recorded, ModelError):
        assert isinstance(replayed, ModelError)
        assert (replayed.kind, replayed.attempts) == (recorded.kind, recorded.attempts)
        assert replayed.unknown_attempts == recorded.unknown_attempts
    else:
        assert replayed == recorded


@pytest.mark.parametrize(
    "slow", [scripted.Delayed(3600), scripted.SlowDrip(Reply("x" * 500), pause_s=0.05, piece_bytes=1)]
)
def test_a_time_out_is_recorded_as_one(provider: str, slow: scripted.Fault, tmp_path: Path) -> None:
    (recorded,) = record(provider, slow, tmp_path, request(), timeout_s=0.3)
    (replayed,) = outcomes(replaying(tmp_path), request())
    assert isinstance(recorded, ModelError)
    assert isinstance(replayed, ModelError)
    assert (recorded.kind, replayed.kind) == ("timeout", "timeout")
    assert replayed.unknown_attempts == recorded.unknown_attempts == 3


def test_two_recordings_of_the_same_are_equal_bytes_and_hold_no_address_and_no_key(
    provider: str, tmp_path: Path
) -> None:
    scenario = scripted.turns(Reply.calling("bash", {"b": 1, "a": [2.5]}))
    requests = [request(f"skill-a/eval-{number}/turn-1", tools=(BASH,)) for number in range(3)]
    record(provider, scenario, tmp_path / "one", *requests)
    record(provider, scenario, tmp_path / "two", *reversed(requests))
    one, two = files(tmp_path / "one"), files(tmp_path / "two")
    assert one == two
    assert len(one) == 4
    everything = b"".join(one.values())
    assert KEY.encode() not in everything
    assert b"127.0.0.1" not in everything
    assert sorted(one)[1].startswith("skill-a-eval-0-turn-1-")


def test_one_changed_line_is_a_miss_that_shows_the_line(provider: str, tmp_path: Path) -> None:
    record(provider, Reply("Done."), tmp_path, request())
    changed = SKILL.replace("10 digits", "20 digits")
    (miss,) = outcomes(replaying(tmp_path), request(text=changed))
    assert isinstance(miss, ModelError)
    assert miss.kind == "replay_miss"
    assert "skill-a/eval-1/turn-1" in miss.message
    lines = [line.strip() for line in miss.message.splitlines() if line.startswith(("-", "+"))]
    assert [line.replace(" ", "") for line in lines] == [
        "---recorded",
        "+++asked",
        "-|Step2:roundto10digits.",
        "+|Step2:roundto20digits.",
    ]
    assert "--record" in miss.remedy


@pytest.mark.parametrize(
    "other",
    [
        request("skill-a/eval-1/turn-2"),
        request(text=SKILL + " "),
        request(text=SKILL[:-1]),
        request(max_output_tokens=4095),
        request(tools=(BASH,)),
        request(reply_schema=SCHEMA),
    ],
)
def test_nothing_is_matched_loosely(provider: str, other: ChatRequest, tmp_path: Path) -> None:
    record(provider, Reply("Done."), tmp_path, request())
    (miss,) = outcomes(replaying(tmp_path), other)
    assert isinstance(miss, ModelError)
    assert miss.kind == "replay_miss"


def test_a_miss_in_a_large_prompt_is_bounded_and_safe_to_print(tmp_path: Path) -> None:
    long = "x" * 5000 + "\x1b[2J" + "y" * 5000 + "\n" + "\n".join(f"line {n}" for n in range(3000))
    record("openai", Reply("Done."), tmp_path, request(text=long))
    (miss,) = outcomes(replaying(tmp_path), request(text=long.replace("y", "z").replace("line", "row")))
    assert isinstance(miss, ModelError)
    assert len(miss.message) < 20_000
    assert "\x1b" not in miss.message
    assert "more differences follow" in miss.message


def test_a_miss_of_another_label_shows_the_nearest_one(tmp_path: Path) -> None:
    record("openai", Reply("Done."), tmp_path, request("skill-a/grader"), request("skill-b/eval-7/turn-1"))
    (miss,) = outcomes(replaying(tmp_path), request("skill-b/eval-7/turn-2"))
    assert isinstance(miss, ModelError)
    assert "skill-b-eval-7-turn-1" in miss.message


def test_an_empty_recording_says_so(tmp_path: Path) -> None:
    record("openai", Reply("Done."), tmp_path)
    (miss,) = outcomes(replaying(tmp_path), request())
    assert isinstance(miss, ModelError)
    assert "no exchange at all" in miss.message


def test_every_recorded_call_finds_out_for_itself_what_the_server_refuses(provider: str, tmp_path: Path) -> None:
    refused = "response_format" if provider == "openai" else "output_config"

    def old_server(asked: scripted.Request) -> scripted.Answer:
        return scripted.unsupported_parameter(refused) if refused in asked.body else Reply('{"ok": true}')

    requests = [request(f"skill-a/grader-{n}", reply_schema=SCHEMA) for n in range(3)]
    recorded = record(provider, old_server, tmp_path, *requests)
    # In another order, as threads would have it: the same requests, so no miss.
    replayed = outcomes(replaying(tmp_path), *reversed(requests))
    assert list(reversed(replayed)) == recorded
    assert all(isinstance(reply, ChatReply) and reply.dropped_parameters and reply.attempts > 1 for reply in recorded)


def test_parallel_calls_are_recorded_whole(provider: str, tmp_path: Path) -> None:
    requests = [request(f"skill-a/eval-{number}") for number in range(30)]
    with ScriptedServer(lambda asked: Reply(asked.derive("text"))) as server:
        making = factory(provider, server, tmp_path)
        model = making(Role.EXECUTOR)
        with ThreadPoolExecutor(8) as pool:
            recorded = list(pool.map(model.complete, requests))
        write_recording(tmp_path, making.describe(seed=SEED, run_date="2026-11-30"))
    replayed = replaying(tmp_path)(Role.GRADER)
    assert [replayed.complete(asked) for asked in requests] == recorded
    assert not [name for name in files(tmp_path) if name.endswith(".tmp")]


def test_a_key_that_an_error_repeats_is_not_recorded(provider: str, tmp_path: Path) -> None:
    record(provider, scripted.HttpError(401, f"Wrong key {KEY}."), tmp_path, request())
    assert KEY.encode() not in b"".join(files(tmp_path).values())


def test_an_edited_exchange_is_not_served(provider: str, tmp_path: Path) -> None:
    record(provider, Reply("Done."), tmp_path, request())
    (path,) = (path for path in tmp_path.iterdir() if path.name != RECORDING)
    exchange = json.loads(path.read_bytes())
    exchange["request"]["body"]["model"] = "another"
    path.write_text(json.dumps(exchange))
    (miss,) = outcomes(replaying(tmp_path), request())
    assert isinstance(miss, ModelError)
    assert miss.kind == "replay_miss"
    path.write_text("{broken")
    with pytest.raises(ConfigurationError, match=r"is not a recorded exchange"):
        replaying(tmp_path)(Role.EXECUTOR).complete(request())


def test_the_facts_of_a_session_are_kept_and_read_back(tmp_path: Path) -> None:
    own = RecordedModel(provider="openai", model="gpt", path="", server=0)
    server = RecordedModel(provider="openai", model="llama3:8b", path="/v1", server=1)
    facts = Recording(seed=SEED, run_date="2026-11-30", executor=server, judge=own, models={Role.GRADER: server})
    write_recording(tmp_path / "new" / "folder", facts)
    again = read_recording(tmp_path / "new" / "folder")
    assert again == facts
    assert (again.of(Role.EXECUTOR), again.of(Role.DEFENDER), again.of(Role.COMPARATOR)) == (server, server, own)
    assert again.of(Role.GRADER) == server
    assert (server.name, server.family, own.name) == ("openai@server-1:llama3:8b", "openai@server-1", "openai:gpt")


@pytest.mark.parametrize(
    "content",
    [None, "{", "[]", "{}", '{"version": 2}', json.dumps({"version": 1, "seed": "x", "run_date": "today"})],
)
def test_a_folder_that_is_no_recording_is_refused_with_what_to_do(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / RECORDING).write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        replaying(tmp_path)
    assert caught.value.remedy
    assert str(tmp_path) in str(caught.value)


def test_a_recording_begins_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    with ScriptedServer(Reply("x")) as server, pytest.raises(ConfigurationError, match="not an empty folder"):
        factory("openai", server, tmp_path)


def test_a_replay_cannot_be_recorded(tmp_path: Path) -> None:
    record("openai", Reply("Done."), tmp_path / "rec")
    name = f"replay:{tmp_path / 'rec'}"
    with pytest.raises(ConfigurationError, match="cannot be recorded"):
        ModelFactory(ModelChoice(executor=name, judge=name), Keys(), record=tmp_path / "new")
    with pytest.raises(ValueError, match="replay"):
        replaying(tmp_path / "rec").describe(seed=SEED, run_date="2026-11-30")


def test_each_role_is_replayed_with_the_model_that_it_was_recorded_with(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: Reply(asked.model)) as server:
        choice = ModelChoice(
            executor=f"openai@{server.openai_url}:exec-1",
            judge=f"anthropic@{server.url}:judge-1",
            roles={Role.COMPARATOR: f"openai@{server.openai_url}:compare-1"},
        )
        making = ModelFactory(choice, Keys(), record=tmp_path)
        for role in (Role.EXECUTOR, Role.GRADER, Role.COMPARATOR):
            making(role).complete(request(f"s/{role.value}"))
        write_recording(tmp_path, making.describe(seed=SEED, run_date="2026-11-30"))
    again = replaying(tmp_path)
    said = {role: again(role).complete(request(f"s/{role.value}")).text for role in (Role.EXECUTOR, Role.GRADER)}
    assert said == {Role.EXECUTOR: "exec-1", Role.GRADER: "judge-1"}
    assert again(Role.COMPARATOR).name == "openai@server-1:compare-1"
    assert again.recording is not None
    assert again.recording.seed == SEED
