"""What a merge is given that it must not take: damage that chooses a result, foreign plans, its own output."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gate.cli.session import alone_in
from gate.domain.plan import SessionPlan
from gate.evidence.bundle import parse_value
from gate.evidence.seal import seal_bundle
from tests.pipeline.test_shards_story import Stage, report, stage, verdicts


def as_attempt(folder: Path, copy: Path, attempt: int) -> Path:
    """The same shard as another attempt of its job would have left it, with an intact seal of the session's key."""
    from gate.evidence.cache import derive_key

    shutil.copytree(folder, copy)
    facts = json.loads((copy / "shard.json").read_text())
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").unlink()
    text = (copy / "shard.json").read_text().replace(f'"attempt": {facts["attempt"]}', f'"attempt": {attempt}')
    (copy / "shard.json").write_text(text)
    seal_bundle(copy, manifest["facts"], derive_key("key"))
    return copy


def damage(folder: Path) -> None:
    response = next(folder.glob("skills/*/*/*/*/outputs/response.md"))
    response.write_bytes(response.read_bytes() + b"!")


def test_damage_to_the_later_attempt_does_not_bring_the_earlier_one_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as here:
        one, two = (here.shard(text) for text in here.plan(capsys, 2))
        later = as_attempt(two, tmp_path / "later", 2)
        assert here.merge(one, two, later)[0] == 0
        damage(later)
        code, merged = here.merge(one, two, later, out="merged-2")
        assert code == 1
        assert "invalid" in {skill["verdict"] for skill in report(merged)["skills"]}


def test_a_damaged_earlier_attempt_is_what_the_later_one_was_made_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as here:
        one, two = (here.shard(text) for text in here.plan(capsys, 2))
        later = as_attempt(two, tmp_path / "later", 2)
        damage(two)
        assert here.merge(one, two, later)[0] == 0


def test_a_damaged_folder_that_could_be_any_attempt_stops_the_merge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as here:
        one, two = (here.shard(text) for text in here.plan(capsys, 2))
        odd = tmp_path / "odd"
        shutil.copytree(two, odd)
        (odd / "shard.json").write_text("{")
        code, merged = here.merge(one, two, odd)
        assert code == 2
        assert not (merged / "report.json").exists()
        assert any("later attempt" in line for line in here.log)


def test_a_merge_that_was_stopped_half_way_is_made_whole_by_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []
    copyfile = shutil.copyfile

    def full(source: Path, target: Path) -> None:
        copied.append(target)
        if len(copied) == 20:
            raise OSError(28, "No space left on device")
        copyfile(source, target)

    with stage(tmp_path) as here:
        parts = [here.shard(text) for text in here.plan(capsys, 2)]
        _, expected = here.merge(*parts, out="undisturbed")
        with monkeypatch.context() as patch:
            patch.setattr("gate.evidence.merge.shutil.copyfile", full)
            code, merged = here.merge(*parts)
        assert code == 3
        assert any("No space left on device" in line for line in here.log)
        assert not (merged / "manifest.json").exists()
        assert here.merge(*parts)[0] == 0
        assert verdicts(merged) == verdicts(expected)
        assert (merged / "manifest.json").read_bytes() == (expected / "manifest.json").read_bytes()


@pytest.mark.parametrize("target", ["shard-1-of-2", "shard-1-of-2/merged", "."])
def test_a_merge_never_overwrites_what_it_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    with stage(tmp_path) as here:
        parts = [here.shard(text) for text in here.plan(capsys, 2)]
        (tmp_path / "session.json").write_text("{}")  # as if an earlier bundle were there
        code, _ = here.merge(*parts, out=target)
        assert code == 2
        assert here.merge(*parts, out="elsewhere")[0] == 0


def test_two_merges_never_write_to_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage(tmp_path) as here:
        parts = [here.shard(text) for text in here.plan(capsys, 2)]
        with alone_in(tmp_path / "merged"):
            assert here.merge(*parts)[0] == 2
        assert here.merge(*parts)[0] == 0


def changed_plan(here: Stage, **changes: object) -> None:
    """The plan's file with something else in it, and no MAC."""
    file = here.folder / "plan.json"
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, **changes}))


def test_a_plan_with_a_key_is_not_taken_where_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage(tmp_path) as here:
        parts = [here.shard(text) for text in here.plan(capsys, 2)]
        arguments = ["merge", *map(str, parts), "--plan", str(tmp_path / "plan.json"), "--out", str(tmp_path / "out")]
        assert here.command(*arguments, key="") == 2
        assert any("none here to check it" in line for line in here.log)


def test_a_plan_without_a_mac_is_not_taken_where_there_is_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as here:
        (text, *_) = here.plan(capsys, 2)
        changed_plan(here, mac="")
        out = tmp_path / "out"
        assert here.command("run", "--plan", str(tmp_path / "plan.json"), "--shard", text, "--out", str(out)) == 2


@pytest.mark.parametrize(
    "name", ["report.json", "skills/other/contract.json", "../x", "skills/sums/eval-1/comparison.json"]
)
def test_a_plan_brings_no_files_but_the_contracts_of_its_skills(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with stage(tmp_path) as here:
        (text, *_) = here.plan(capsys, 2)
        changed_plan(here, files={name: {}}, mac="")
        arguments = ("run", "--plan", str(tmp_path / "plan.json"), "--shard", text, "--out", str(tmp_path / "out"))
        assert here.command(*arguments, key="") == 2
        assert any("no plan of this version has" in line for line in here.log)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "option",
    [
        ("--mode", "full"),
        ("--base", "main"),
        ("--model", "openai:gpt-5-mini"),
        ("skills/sums",),
        ("--seed", "1" * 64),
    ],
    ids=lambda option: option[0],
)
def test_an_option_that_the_plan_has_decided_is_refused_and_not_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    with stage(tmp_path) as here:
        (text, *_) = here.plan(capsys, 2)
        arguments = ("run", "--plan", str(tmp_path / "plan.json"), "--shard", text, "--out", str(tmp_path / "out"))
        assert here.command(*arguments, *option) == 2
        assert any("cannot be given beside it" in line for line in here.log)


def test_a_shard_with_an_agent_program_looks_for_it_where_its_own_machine_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(tmp_path) as here:
        here.models += ["--harness", "codex", "--agent", str(tmp_path / "of-the-planner")]
        (text, *_) = here.plan(capsys, 1)
        arguments = ("run", "--plan", str(tmp_path / "plan.json"), "--shard", text, "--no-cache")
        for number, option in enumerate(((), ("--agent", str(tmp_path / "of-the-runner")))):
            here.log.clear()
            assert here.command(*arguments, "--out", str(tmp_path / f"out-{number}"), *option) == 2
            assert any(("of-the-runner" if option else "of-the-planner") in line for line in here.log)


def test_a_plan_file_is_read_back_as_it_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stage(tmp_path) as here:
        here.plan(capsys, 2)
        plan = parse_value((tmp_path / "plan.json").read_bytes(), SessionPlan)
        assert {skill.slug for skill in plan.whole().skills} == {skill.slug for skill in plan.plan.skills}
        assert plan.mac
