"""Bounds in time, and what a workspace held that could not be taken out of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from gate.adapters.docker_sandbox import archives
from gate.domain.checks import Check, CheckParameters, FileAbsent, FilesChangedOnly, FileUnchanged, JsonSchema
from gate.domain.evidence import CollectedFile, Event, Metrics, Outcome, RunRecord
from gate.domain.judgement import CheckStatus
from gate.domain.plan import Arm, RunKey
from gate.domain.skill import SkillType
from gate.domain.suite import Case, FixtureFile
from gate.evidence.events import ZERO_HASH, make_event
from gate.judging.ground_truth import regex
from gate.judging.ground_truth.facts import Facts
from gate.judging.ground_truth.regex import RegexError, RegexSearch
from gate.judging.ground_truth.run import check_facts
from gate.judging.ground_truth.schemas import SchemaError, SchemaValidator
from gate.judging.ground_truth.wildcards import path_matches

PASSED, FAILED, NOT_RUN = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.NOT_RUN
BOMB = "(a+)+$"
VICTIM = "a" * 40 + "!"


def a_file(path: str, fixture: str = "new") -> CollectedFile:
    return CollectedFile.model_validate(
        {"path": path, "size_bytes": 1, "sha256": "0" * 64, "kept": True, "fixture": fixture}
    )


def status(
    parameters: CheckParameters,
    *,
    files: Sequence[CollectedFile] = (),
    refused: Sequence[str] = (),
    stripped: Sequence[str] = (),
    fixture: Sequence[str] = (),
) -> CheckStatus:
    record = RunRecord(
        key=RunKey(skill_path="skills/a", slug="a", eval_id="one", run=1, arm=Arm.WITH_SKILL),
        purpose="planned",
        skill_type=SkillType.CODE_EXECUTION,
        outcome=Outcome.COMPLETED,
        reason="",
        calls=(),
        response="Done.",
        files=tuple(files),
        metrics=Metrics(),
        usage=None,
        model="m",
        image="i",
        run_date="2026-01-31",
        chain_head="",
        seal="",
    )
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("run_started", {"stripped": list(stripped)}),
        ("collected", {"files": len(files), "kept": len(files), "refused": list(refused)}),
    ]
    events: list[Event] = []
    for seq, (kind, data) in enumerate(kinds):
        events.append(make_event(seq, kind, 0, data, events[-1].hash if events else ZERO_HASH))
    case = Case(
        eval_id="one",
        prompt="p",
        files=tuple(FixtureFile(path=path, data=b"x") for path in fixture),
        checks=(Check(id="c1", parameters=parameters),),
    )
    with RegexSearch() as search:
        facts = Facts(
            case=case,
            record=record,
            verification=None,
            load_file=lambda path: None,
            load_blocks=tuple,
            regex=search,
            load_events=lambda: tuple(events),
        )
        (result,) = check_facts(facts)
    return result.status


LINK = "'out/ERRORS.md' is a symbolic link to '/etc/passwd'; links are not followed."
ODD = "'it\\'s \"odd\"' is neither a file nor a folder."
CUT = "What follows 'a' was not read."


@pytest.mark.parametrize(
    ("path", "refused", "expected"),
    [
        ("out/ERRORS.md", [], PASSED),
        ("out/ERRORS.md", [LINK], FAILED),
        ("out/*.md", [LINK], FAILED),
        ("out/other.md", [LINK], PASSED),
        ('it\'s "odd"', [ODD], FAILED),
        ("out/other.md", [CUT], NOT_RUN),
        ("out/other.md", ["3 more entries were refused."], NOT_RUN),
        ("out/other.md", ["Recorded without their content: 3 files; at most 2,000 files are kept."], PASSED),
        ("out/ERRORS.md", [CUT, LINK], FAILED),
    ],
)
def test_a_link_is_there_and_what_was_not_read_may_be_there(
    path: str, refused: list[str], expected: CheckStatus
) -> None:
    assert status(FileAbsent(path=path), refused=refused) is expected


@pytest.mark.parametrize(
    ("refused", "expected"), [([], PASSED), ([LINK], FAILED), ([CUT], NOT_RUN), ([CUT, LINK], FAILED)]
)
def test_a_link_is_a_change_and_what_was_not_read_may_be_one(refused: list[str], expected: CheckStatus) -> None:
    parameters = FilesChangedOnly(paths=("a.md",))
    assert status(parameters, files=[a_file("a.md")], refused=refused) is expected


def test_the_collector_still_words_its_refusals_as_they_are_read_here() -> None:
    import io
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        link = tarfile.TarInfo("work/it's a link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        bad = tarfile.TarInfo("work/bad\nname")
        tar.addfile(bad)
    collected, _ = archives.collect_members(
        iter([buffer.getvalue()]), root="work", max_bytes=10, max_files=10, quota_bytes=100
    )
    assert len(collected.refused) == 2
    assert status(FileAbsent(path="it's a link"), refused=collected.refused) is FAILED
    assert status(FileAbsent(path="bad\nname"), refused=collected.refused) is FAILED
    assert status(FileAbsent(path="other"), refused=collected.refused) is PASSED


def test_a_fixture_file_that_the_gate_left_out_was_never_there() -> None:
    stripped = [".claude/skills/a/SKILL.md: a skill of an agent host"]
    fixture = ["in.csv", ".claude/skills/a/SKILL.md"]
    files = [a_file("in.csv", "unchanged")]
    assert status(FilesChangedOnly(paths=()), files=files, fixture=fixture, stripped=stripped) is PASSED
    assert status(FilesChangedOnly(paths=()), files=files, fixture=fixture) is FAILED
    for path, expected in (("in.csv", PASSED), (".claude/skills/a/SKILL.md", NOT_RUN)):
        assert status(FileUnchanged(path=path), files=files, fixture=fixture, stripped=stripped) is expected
    gone = FileAbsent(path=".claude/skills/a/SKILL.md", deleted=True)
    assert status(gone, files=files, fixture=fixture, stripped=stripped) is FAILED


# Bounds --------------------------------------------------------------------------------------------------------------------


def test_a_pattern_is_asked_of_many_texts_at_once() -> None:
    texts = ["a1", "b", "c22", "\ud800 3"]
    with RegexSearch() as search:
        assert search.matches(r"\d+", texts) == [True, False, True, True]
        assert search.matches("b", texts) == [False, True, False, False]
        assert search.first(r"\d{2}", texts) == (2, (1, 3))
        assert search.first(r"\d+", texts, matching=False) == (1, None)
        assert search.first("x+", texts) is None
        assert search.first("x", ()) is None
        assert search.matches("x+", ()) == []


def test_one_child_serves_all_searches_and_gets_each_text_once() -> None:
    with RegexSearch() as search:
        search.search("a+", "text one")
        process = search._child._process
        for number in range(20):
            search.search(f"x{{{number + 1}}}", "text one")
        assert search._child._process is process
        assert len(search._sent) == 1


def test_patterns_that_never_end_use_up_a_common_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "LOST_S", 0.5)
    with RegexSearch(deadline_s=0.3) as search:
        for _ in range(2):
            with pytest.raises(RegexError, match="did not end"):
                search.search(BOMB, VICTIM)
        with pytest.raises(RegexError, match="earlier patterns used up"):
            search.search("b+", "b")
        assert search.search("b", "abc") == (1, 2), "what cannot run away is still answered"


def test_too_many_characters_in_all_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "GROUP_LIMIT", 10)
    with RegexSearch() as search, pytest.raises(RegexError, match="the texts have 12 characters"):
        search.matches("a+", ["aaaa", "aaaa", "aaaa"])


def test_a_schema_that_never_ends_is_stopped_and_the_next_one_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gate.judging.ground_truth.schemas.FIRST_S", 0.0)
    with contextlib.closing(SchemaValidator(deadline_s=3.0)) as schemas:
        assert schemas.problems(1, True) == []
        with pytest.raises(SchemaError, match="did not end within 3 s"):
            schemas.problems(VICTIM, {"pattern": BOMB})
        assert schemas.problems({"n": 0}, {"properties": {"n": {"minimum": 1}}}) == [
            "$.n: 0 is less than the minimum of 1"
        ]


@pytest.mark.parametrize(
    "definition",
    [
        {"$ref": "#"},
        {"$dynamicRef": "#x"},
        {"type": 12},
        {"pattern": "("},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/none"},
    ],
)
def test_a_schema_that_cannot_be_evaluated_is_no_answer(definition: dict[str, Any]) -> None:
    with contextlib.closing(SchemaValidator()) as schemas, pytest.raises(SchemaError):
        schemas.problems("x", definition)


def test_no_reference_is_ever_fetched_even_where_a_schema_got_past_the_reader() -> None:
    parameters = JsonSchema.model_construct(
        kind="json_schema", path="response", definition={"$ref": "https://x.example/s.json"}
    )
    with contextlib.closing(SchemaValidator()) as schemas, pytest.raises(SchemaError, match="leads nowhere"):
        schemas.problems({}, parameters.definition)


def test_the_child_process_of_a_validator_ends_with_it() -> None:
    schemas = SchemaValidator()
    schemas.problems(1, True)
    child = schemas._child
    assert child.poll() is None
    schemas.close()
    assert child.poll() is not None


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/b.md", "a/*.md", True),
        ("a/b/c.md", "a/*.md", False),
        ("a/b/c.md", "a/**/*.md", True),
        ("a/c.md", "a/**/*.md", True),
        ("a/b", "a/**", True),
        ("b", "**", True),
        ("ab", "a?", True),
        ("a/b", "a?b", False),
        ("[x].md", "[x].md", True),
        ("x.md", "[x].*", False),
        ("a" * 2000, "*a" * 1000 + "b", False),
    ],
)
def test_a_path_pattern_is_about_the_whole_path(path: str, pattern: str, expected: bool) -> None:
    assert path_matches(path, pattern) is expected
