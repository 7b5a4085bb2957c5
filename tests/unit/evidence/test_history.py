"""Where histories are kept, and who can write whose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate.domain.history import HistoryEntry, HistoryFacts, RecordedCase
from gate.domain.plan import Enforce, Mode
from gate.evidence.cache import Cache, CacheScope, derive_key
from gate.evidence.history import MOST, WITH_CASES, add, recorded, shortened

SKILL = "skills/a"


def cache(folder: Path, scope: str = "default", *, secret: str = "secret", today: str = "2026-01-05") -> Cache:
    return Cache(folder, derive_key(secret), CacheScope(repository="1", name=scope), today=today)


def entry(session: str = "s", *, day: str = "2026-01-05", on_default: bool = True) -> HistoryEntry:
    return HistoryEntry(
        run_at=day, session=session, mode=Mode.FULL, skill_hash=None, eval_count=1, exact_pass_rate=1.0,
        semantic_pass_rate=None, overall_pass_rate=1.0, avg_delta=None, p95_ms=None, verdict="S", git_sha=None,
        skill_gate=HistoryFacts(
            path=SKILL, verdict="pass", passed=1, total=1, enforce=Enforce.STANDARD, on_default=on_default, model="m",
            harness="loop", judge="j", cases=(RecordedCase(eval_id="1", key="d", passed=True, runs=3),),
        ),
    )  # fmt: skip


def sessions(found: tuple[HistoryEntry, ...]) -> list[str]:
    return [item.session for item in found]


def test_a_session_is_kept_once_and_is_none_of_its_own_past(tmp_path: Path) -> None:
    for day, name in (("2026-01-06", "b"), ("2026-01-05", "a"), ("2026-01-06", "b")):
        add(cache(tmp_path), SKILL, entry(name, day=day))
    assert sessions(recorded(cache(tmp_path), [SKILL], "z")[0]) == ["a", "b"]
    assert sessions(recorded(cache(tmp_path), [SKILL], "b")[0]) == ["a"]


def test_a_pull_request_reads_the_default_branch_s_history_and_writes_its_own_only(tmp_path: Path) -> None:
    """Also one that says of itself that it is the default branch."""
    add(cache(tmp_path), SKILL, entry("audit"))
    add(cache(tmp_path, "pull/7"), SKILL, entry("push"))
    default, own = recorded(cache(tmp_path, "pull/7"), [SKILL], "z")
    assert (sessions(default), sessions(own)) == (["audit"], ["push"])
    assert sessions(recorded(cache(tmp_path), [SKILL], "z")[0]) == ["audit"]
    assert recorded(cache(tmp_path, "pull/8"), [SKILL], "z")[1] == ()
    assert cache(tmp_path).problems == ()


@pytest.mark.parametrize("how", ["moved", "changed", "another key"])
def test_what_has_no_mac_for_its_place_counts_for_nothing_and_is_a_finding(tmp_path: Path, how: str) -> None:
    add(cache(tmp_path), SKILL, entry("audit"))
    (kept,) = tmp_path.glob("values/*/*/*.json")
    secret = "secret"
    if how == "moved":
        add(cache(tmp_path, "pull/7"), SKILL, entry("push"))
        (theirs,) = set(tmp_path.glob("values/*/*/*.json")) - {kept}
        kept.write_bytes(theirs.read_bytes())
    elif how == "changed":
        data = json.loads(kept.read_text())
        data["value"]["entries"][0]["skill_gate"]["cases"][0]["passed"] = False
        kept.write_text(json.dumps(data))
    else:
        secret = "somebody else's"
    here = cache(tmp_path, secret=secret)
    assert recorded(here, [SKILL], "z") == ((), ())
    assert {problem.rule for problem in here.problems} <= {"forged", "foreign"}
    assert here.problems


def test_on_a_laptop_only_what_was_the_default_branch_is_its_history(tmp_path: Path) -> None:
    add(cache(tmp_path, "local"), SKILL, entry("main"))
    add(cache(tmp_path, "local"), SKILL, entry("branch", on_default=False))
    default, own = recorded(cache(tmp_path, "local"), [SKILL], "z")
    assert (sessions(default), sessions(own)) == (["main"], ["branch"])


def test_a_skill_that_was_moved_brings_its_history_along(tmp_path: Path) -> None:
    add(cache(tmp_path), "skills/old", entry("audit"))
    assert sessions(recorded(cache(tmp_path), [SKILL, "skills/old"], "z")[0]) == ["audit"]


def test_no_age_takes_a_history_away(tmp_path: Path) -> None:
    add(cache(tmp_path), SKILL, entry("audit"))
    assert sessions(recorded(cache(tmp_path, today="2027-01-05"), [SKILL], "z")[0]) == ["audit"]


def test_a_long_history_keeps_its_last_sessions_and_the_cases_of_the_last_of_these() -> None:
    kept = shortened([entry(str(number)) for number in range(MOST + 20)])
    assert sessions(kept) == [str(number) for number in range(20, MOST + 20)]
    assert [item.skill_gate.cases is not None for item in kept] == [False] * (MOST - WITH_CASES) + [True] * WITH_CASES
