from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate.domain.base import FallbackCount
from gate.domain.evidence import Metrics, Outcome, Tier, Timing
from gate.domain.judgement import Claim
from gate.domain.plan import Arm
from gate.domain.suite import FixtureFile
from gate.errors import EvidenceError
from gate.evidence.bundle import Bundle, load_blocks, load_events, load_output, load_run
from gate.evidence.files import stored_name
from gate.evidence.transcript import parse_transcript
from tests.builders import TickingClock, a_call, a_collection, a_run_key, run_entries, write_run_folder

FOLDER = a_run_key().folder


def test_a_value_comes_back_as_it_was_written(tmp_path: Path) -> None:
    fixture = FixtureFile(path="data.bin", data=b"\x00\xff")
    Bundle(tmp_path).write("skills/a/fixture.json", fixture)
    assert Bundle(tmp_path).read("skills/a/fixture.json", FixtureFile) == fixture
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["fixture.json"]


@pytest.mark.parametrize("text", ["\\ud800", "\\\ud800", "\ud800\\ude00", "a\ud83d\ude00b", "\\u0041", "\x01\\"])
def test_text_with_escapes_and_surrogates_can_be_read_back(tmp_path: Path, text: str) -> None:
    Bundle(tmp_path).write("claim.json", Claim(text=text, type="factual", verified="unknown"))
    read = Bundle(tmp_path).read("claim.json", Claim).text
    assert read.replace("\ufffd", "") == text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../out.json", "a/../../b", "a//b", "./a", "a\0b"])
def test_no_name_leaves_the_bundle(tmp_path: Path, name: str) -> None:
    with pytest.raises(EvidenceError, match="no path inside a bundle"):
        Bundle(tmp_path).write(name, {})


def test_a_link_inside_the_bundle_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "skills").symlink_to(tmp_path)
    with pytest.raises(EvidenceError, match="passes through a link"):
        Bundle(tmp_path / "bundle").write("skills/a.json", {})


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"{", "Invalid JSON"), (b'{"files_created": 3}', "files_created"), (b"\xff\\u0041", "Invalid")],
)
def test_a_file_that_is_not_what_it_should_be_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "metrics.json").write_bytes(content)
    with pytest.raises(EvidenceError, match=rf"metrics\.json is not what it should be.*{why}"):
        Bundle(tmp_path).read("metrics.json", Metrics)


def test_a_finished_run_reads_back_with_calls_and_response_from_its_events(tmp_path: Path) -> None:
    record = write_run_folder(
        tmp_path,
        entries=run_entries(*a_call(args={"amount": 1234567.89}, text="ok"), response="All saved."),
        files={"report.md": b"# Report\n"},
        metrics=Metrics(tool_calls={"bash": 1}, total_tool_calls=1, cost_usd=0.001),
        fallbacks=(FallbackCount(kind="run_retried", count=1),),
    )
    assert record == load_run(tmp_path, FOLDER)
    assert (record.outcome, record.invalid, record.response) == (Outcome.COMPLETED, None, "All saved.")
    assert record.calls[0].args == {"amount": 1234567.89}
    assert record.chain_head == load_events(tmp_path, FOLDER)[-1].hash
    assert record.metrics.output_chars == len("All saved.")
    assert sorted(
        str(path.relative_to(tmp_path / FOLDER)) for path in (tmp_path / FOLDER).rglob("*") if path.is_file()
    ) == [
        "events.jsonl",
        "metrics.json",
        "outputs/response.md",
        "outputs/transcript.md",
        "run.json",
        "seal.json",
        "timing.json",
        "workspace/report.md",
    ]


def test_the_written_files_are_what_the_record_says(tmp_path: Path) -> None:
    write_run_folder(tmp_path, entries=run_entries(*a_call(text="a\r\n## [end]"), response="Fine.\ud800"))
    folder = tmp_path / FOLDER
    assert (folder / "outputs/response.md").read_bytes() == b"Fine.\\ud800"
    sections = parse_transcript((folder / "outputs/transcript.md").read_bytes().decode())
    assert sections[0].fields["Return"] == "a\r\n## [end]"
    assert Timing.model_validate_json((folder / "timing.json").read_bytes()).duration_ms == 1200


@pytest.mark.requirements("R56")
def test_a_run_whose_record_is_incomplete_is_invalid(tmp_path: Path) -> None:
    entries = [entry for entry in run_entries() if entry[0] != "response"]
    record = write_run_folder(tmp_path, entries=entries)
    assert record.invalid == "the run is recorded as completed, but the record holds no response"
    assert not record.scored
    assert not (tmp_path / FOLDER / "outputs/response.md").exists()


@pytest.mark.parametrize(
    "name",
    ["events.jsonl", "run.json", "metrics.json", "outputs/transcript.md", "outputs/response.md", "workspace/a.txt"],
)
def test_a_changed_byte_in_any_file_of_a_run_is_named(tmp_path: Path, name: str) -> None:
    write_run_folder(tmp_path, files={"a.txt": b"one"})
    path = tmp_path / FOLDER / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(EvidenceError, match="changed") as caught:
        load_run(tmp_path, FOLDER)
    assert caught.value.path == f"{FOLDER}/{name}"


def test_a_record_with_another_end_than_the_sealed_one_is_refused_even_unchecked(tmp_path: Path) -> None:
    write_run_folder(tmp_path)
    path = tmp_path / FOLDER / "events.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(EvidenceError, match="does not end where the seal of the run says"):
        load_run(tmp_path, FOLDER, check=False)


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="is missing"):
        load_run(tmp_path, FOLDER)


def test_later_layers_may_write_beside_the_sealed_files(tmp_path: Path) -> None:
    record = write_run_folder(tmp_path)
    for name in ("verification.json", "checks.json", "grading.json"):
        Bundle(tmp_path).write(f"{FOLDER}/{name}", {})
    assert load_run(tmp_path, FOLDER) == record


def test_an_attempt_that_did_not_end_makes_way_for_the_next_one(tmp_path: Path) -> None:
    folder = Bundle(tmp_path).run(a_run_key())
    with folder.event_log(lambda text: text, TickingClock()) as log:
        log.append("run_started")
    folder.write_outputs(a_collection({"left.txt": b"over"}))
    record = write_run_folder(tmp_path)
    assert record.files == ()
    assert not (tmp_path / FOLDER / "workspace").exists()


def test_a_finished_run_is_never_overwritten(tmp_path: Path) -> None:
    write_run_folder(tmp_path)
    with pytest.raises(EvidenceError, match="holds a finished run already"):
        write_run_folder(tmp_path)


def test_arms_do_not_share_a_folder(tmp_path: Path) -> None:
    one = write_run_folder(tmp_path)
    other = write_run_folder(tmp_path, key=a_run_key(arm=Arm.WITHOUT_SKILL))
    assert load_run(tmp_path, one.key.folder).key.arm is Arm.WITH_SKILL
    assert load_run(tmp_path, other.key.folder).key.arm is Arm.WITHOUT_SKILL


def test_collected_files_are_told_apart_from_what_the_gate_had_put_there(tmp_path: Path) -> None:
    record = write_run_folder(
        tmp_path,
        files={"same.txt": b"a", "edited.txt": b"new", "made.txt": b"b"},
        fixture={"same.txt": b"a", "edited.txt": b"old", "gone.txt": b"c"},
    )
    assert {file.path: file.fixture for file in record.files} == {
        "same.txt": "unchanged",
        "edited.txt": "changed",
        "made.txt": "new",
    }


@pytest.mark.parametrize(
    "path",
    [
        "a b.txt",
        "报告/总计.md",
        'q"uote:?.md',
        "back\\slash",
        "trailing. ",
        "nul\x01",
        "x" * 250,
        "d/" * 120 + "f",
        "\udcff",
        "%41",
    ],
)
def test_a_file_is_kept_whatever_the_agent_called_it(tmp_path: Path, path: str) -> None:
    record = write_run_folder(tmp_path, files={path: b"content"})
    assert record.files[0].path == path
    assert load_output(tmp_path, record, path) == b"content"
    stored = [
        str(item.relative_to(tmp_path / FOLDER))
        for item in (tmp_path / FOLDER / "workspace").rglob("*")
        if item.is_file()
    ]
    assert not set('":<>|*?\\\r\n') & set("".join(stored))


@pytest.mark.parametrize("path", ["../../escape", "/etc/passwd", "a/../b", ""])
def test_a_file_with_a_path_that_is_none_is_listed_but_not_kept(tmp_path: Path, path: str) -> None:
    record = write_run_folder(tmp_path, files={path: b"content", "good": b"1"})
    kept = {file.path: file.kept for file in record.files}
    assert kept == {path: False, "good": True}
    assert load_output(tmp_path, record, path) is None
    assert not (tmp_path.parent / "escape").exists()


def test_a_file_over_a_cap_has_no_content_but_its_digest(tmp_path: Path) -> None:
    blob = a_collection({"big.bin": b"x"}).files[0].model_copy(update={"data": None, "size_bytes": 10**9})
    collected = a_collection({}).model_copy(update={"files": (blob,)})
    folder = Bundle(tmp_path).run(a_run_key())
    (file,) = folder.write_outputs(collected)
    assert (file.kept, file.size_bytes, file.sha256) == (False, 10**9, blob.sha256)


def test_an_output_that_was_changed_after_the_run_is_refused(tmp_path: Path) -> None:
    record = write_run_folder(tmp_path, files={"a.txt": b"one"})
    (tmp_path / FOLDER / "workspace/a.txt").write_bytes(b"two")
    with pytest.raises(EvidenceError, match="changed after the run"):
        load_output(tmp_path, record, "a.txt")
    with pytest.raises(EvidenceError, match="changed after the run"):
        load_blocks(tmp_path, record)


def test_blocks_hold_what_the_run_made_not_what_it_was_given(tmp_path: Path) -> None:
    record = write_run_folder(
        tmp_path,
        files={"given.csv": b"a,b", "made.md": "总计".encode(), "big.txt": b"x" * 200_001, "image.png": b"\x89PNG\xff"},
        fixture={"given.csv": b"a,b"},
    )
    blocks = load_blocks(tmp_path, record)
    assert [(block.title, block.tier) for block in blocks if block.kind == "outputs"] == [("made.md", Tier.OUTPUT)]
    assert blocks == load_blocks(tmp_path, record)


def test_stored_names_never_meet() -> None:
    paths = ["a:b", "a%3Ab", "a%3ab", "a%b", "x" * 200, "x" * 201, "a.", "a%2E", "a/b", "a%2Fb", "%long/1"]
    names = [stored_name(path) for path in paths]
    assert len(set(names)) == len(paths)


def test_run_json_repeats_nothing_that_the_events_say(tmp_path: Path) -> None:
    write_run_folder(tmp_path)
    parts = json.loads((tmp_path / FOLDER / "run.json").read_bytes())
    assert not {"calls", "response", "metrics", "chain_head", "seal"} & set(parts)
