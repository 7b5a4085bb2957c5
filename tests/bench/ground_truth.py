"""Layer 2a at size: 1,000 checks of every kind that needs no engine over one run with a transcript of 100 MB.

Each check was made with its answer, so a fast wrong result is no result: one wrong status makes every figure not ok. The
naive variant beside it reads the transcript anew for each check, as a script does that is called once a check.

    python -m tests.bench.ground_truth [--small]
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from pydantic import TypeAdapter

from gate.domain.checks import Check, CheckParameters
from gate.domain.evidence import RunRecord
from gate.domain.judgement import CheckStatus
from gate.domain.suite import Case, FixtureFile
from gate.evidence import bundle, events
from gate.evidence.transcript import parse_transcript
from gate.judging.ground_truth import check_run
from tests.bench._figures import figure, table
from tests.builders_judging import Call, a_run

SIZES_MB = (25, 50, 100)
SMALL_MB = (1, 2, 4)
CHECKS = 1000
RESULT_CHARACTERS = 4000
SECONDS = 60.0
SLOPE = 1.1
"""log(CPU time) over log(size): 1 is linear; what does not grow with the size makes it less."""
NAIVE_SAMPLE = 2
_PARAMETERS: TypeAdapter[CheckParameters] = TypeAdapter(CheckParameters)
_REGEX_KINDS = {"response_matches", "response_not_matches"}


class Timed(NamedTuple):
    """One size."""

    megabytes: float
    load_s: float
    check_s: float
    cpu_s: float
    """Of the same work, child processes included: what other work on the machine changes least."""
    parses: int
    """How often the events were parsed while 1,000 checks were evaluated."""
    wrong: int
    kinds: int
    regexes: int
    naive_s: float
    """1,000 checks that each read the transcript anew, from a few that were measured."""


FIXTURE = {"in.csv": b"k,v\na,1\n", "keep.md": b"keep\n"}


def the_run(root: Path, megabytes: float) -> RunRecord:
    """A run whose results make up the size: half of them of a shell, the others of two more tools."""
    number = int(megabytes * 1_000_000 / (RESULT_CHARACTERS + 500))
    filler = [
        "the quick brown fox jumps over line",
        "value = 12345; status: ok; 报告已保存",
        "GET /index.html 200 1024",
    ]
    calls = []
    for index in range(number):
        lines = (f"{index:06d} {filler[(index + line) % 3]} {line}" for line in range(RESULT_CHARACTERS // 45))
        result = "\n".join(lines)
        if index % 2:
            command = f"cd app && npm run step-{index} -- --level {index % 7}"
            calls.append(Call("bash", {"command": command}, result))
        elif index % 4:
            calls.append(
                Call("read_file", {"path": f"src/f{index}.py", "range": {"from": index, "to": index + 9}}, result)
            )
        else:
            calls.append(Call("save", {"id": index, "state": "10", "items": [{"n": index}, {"n": 1}]}, result))
    rows = "\n".join(f"r{index},{index}.50" for index in range(2000))
    files = {
        **FIXTURE,
        "out.json": json.dumps({"n": 7, "items": [{"n": value} for value in range(1000)]}).encode(),
        "out.csv": f"k,v\n{rows}\n".encode(),
        "out.md": b"# Out\n\n" + b"A line of the report.\n" * 2000,
    }
    # A response grows with the run too, but nobody answers with a hundred megabytes.
    words = int(megabytes * 2000)
    body = "\n".join(
        f"Item {index}: total {index * 3} EUR, see https://x.example/doc/{index}." for index in range(words // 7)
    )
    response = f"# Report\n\n## Risks\n\n{body}\n\n## Costs\n\nThe total is 1250.\n"
    return a_run(root, calls=calls, files=files, fixture=FIXTURE, response=response)


def the_checks(record: RunRecord, number: int) -> list[tuple[Check, CheckStatus]]:
    """Checks of every kind in turn, each with its right answer; half of them fail."""
    counted = Counter(call.tool for call in record.calls)
    made: list[tuple[Check, CheckStatus]] = []
    turn = 0
    while len(made) < number:
        for kind, values, holds in _round(turn, counted):
            if len(made) == number:
                break
            parameters = _PARAMETERS.validate_json(json.dumps({"kind": kind, **values}), strict=True)
            status = CheckStatus.PASSED if holds else CheckStatus.FAILED
            made.append((Check(id=f"c{len(made) + 1}", parameters=parameters), status))
        turn += 1
    return made


def _round(turn: int, counted: Counter[str]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """One check of each kind; odd turns fail. ``turn`` changes every parameter, so that no two checks are one."""
    right = turn % 2 == 0
    item = turn * 3 + 1  # in the response from the smallest size on
    shell = turn * 2 + 1  # the calls of the shell are the odd ones
    missing = f"nowhere-{turn}"
    yield "tool_call_count", {"tool": "save", "expected_count": counted["save"] + (not right)}, right
    yield "args_field", {"tool": "save", "field": "state", "expected": "10" if right else turn, "which": "all"}, right
    yield "tool_call_order", {"order": ["save", "bash", "read_file"] if right else ["save", missing]}, right
    yield "tool_call_forbidden", {"tools": [missing, "sav"] if right else [missing, "save"]}, right
    yield "tool_call_status", {"tool": "bash", "status": "success" if right else "error"}, right
    yield "tool_call_repeats", {"max": 1, "tool": "bash"}, True
    yield "args_matches", {"tool": "save", "field": "items[*].n", "min": 1, "values": "any", "which": "all"}, True
    yield (
        "args_matches",
        {"tool": "read_file", "field": "path", "pattern": rf"^src/f\d+\.{'py' if right else missing}$"},
        right,
    )
    yield "tool_result_contains", {"tool": "save", "text": "brown fox" if right else missing}, right
    yield (
        "tool_result_contains",
        {"tool": "bash", "pattern": rf"status: (?:ok|{missing})", "which": "all" if right else "none"},
        right,
    )
    yield "command_ran", {"text": f"npm run step-{shell}" if right else f"npm run step-{shell}-x"}, right
    yield "command_ran", {"pattern": rf"step-\d+ -- --level {3 if right else missing}"}, right
    yield "command_not_ran", {"text": missing if right else "npm run"}, right
    yield "command_not_ran", {"pattern": rf"\b{missing}+" if right else rf"step-{shell}\s+--"}, right
    yield "response_contains", {"keyword": f"Item {item}:" if right else missing}, right
    yield "response_not_contains", {"pattern": missing if right else f"Item {item}:"}, right
    yield "response_contains_all", {"texts": [f"Item {item}:", "1250"] if right else ["1250", missing]}, right
    yield "response_contains_any", {"texts": [missing, "1250"] if right else [missing, "x" + missing]}, right
    yield "response_contains_none", {"texts": [missing] if right else [missing, "1250"]}, right
    yield "response_matches", {"pattern": rf"total {item * 3} [A-Z]{{3}}" if right else rf"{missing} \d+"}, right
    yield "response_not_matches", {"pattern": rf"{missing} \d+" if right else rf"Item {item}: +total"}, right
    yield "response_word_count", {"min": 10} if right else {"max": 10 + turn}, right
    yield "response_has_heading", {"level": 2, "text": "Risks" if right else missing}, right
    yield "response_headings", {"headings": ["## Risks", "Costs"] if right else ["## Costs", "## Risks"]}, right
    yield "response_no_placeholders", {"forms": ["marks", "lorem"]}, True
    yield "response_links", {"hosts": ["x.example"] if right else [f"{missing}.example"]}, right
    yield "response_language", {"language": "zh"}, False
    yield "file_exists", {"path": "out.md" if right else missing}, right
    yield "file_contains", {"path": "out.csv", "text": f"r{item},{item}.50" if right else missing}, right
    yield (
        "file_contains",
        {"path": "out.md", "pattern": rf"line of (?:the|{missing}) report" if right else rf"{missing}+"},
        right,
    )
    yield "file_not_contains", {"path": "out.md", "text": missing if right else "A line"}, right
    yield "file_absent", {"path": missing if right else "out.*"}, right
    yield "file_unchanged", {"path": "keep.md"}, True
    yield "files_changed_only", {"paths": ["out.*"] if right else ["out.md", missing]}, right
    yield "file_golden", {"path": "keep.md", "expected": "keep\n" if right else "keep"}, right
    yield "json_field", {"path": "out.json", "field": "n", "expected": 7 if right else 7 + turn}, right
    yield "json_matches", {"path": "out.json", "field": "items[*].n", "max": 999 if right else 998}, right
    yield "json_schema", {"path": "out.json", "definition": {"required": ["n" if right else missing]}}, right
    yield "csv_cell", {"path": "out.csv", "column": "v", "row": item + 1, "expected": item + 0.5 + (not right)}, right
    yield "run_budget", {"max_tool_calls": sum(counted.values()) - (not right)}, right


def cpu_seconds() -> float:
    """Of this process and of its children that have ended: those of ``check_run`` have when it returns."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def timed(megabytes: float, number: int) -> Timed:
    """Build a run of this size and judge it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        record = the_run(root, megabytes)
        checks = the_checks(record, number)
        fixture = tuple(FixtureFile(path=path, data=data) for path, data in FIXTURE.items())
        case = Case(eval_id="one", prompt="p", files=fixture, checks=tuple(check for check, _ in checks))
        size = (root / record.key.folder / "events.jsonl").stat().st_size / 1e6
        start = time.perf_counter()
        record = bundle.load_run(root, record.key.folder)
        load_s = time.perf_counter() - start
        with mock.patch.object(bundle, "read_events", side_effect=events.read_events) as parse:
            start, cpu = time.perf_counter(), cpu_seconds()
            results = check_run(case, record, root, None)
            check_s, cpu_s = time.perf_counter() - start, cpu_seconds() - cpu
        wrong = [
            (result, status) for result, (_, status) in zip(results, checks, strict=True) if result.status is not status
        ]
        for result, status in wrong[:10]:
            print(f"wrong: {result.kind} {result.status}, {status} was right: {result.expected}: {result.found}")
        transcript = root / record.key.folder / "outputs" / "transcript.md"
        start = time.perf_counter()
        for _ in range(NAIVE_SAMPLE):
            parse_transcript(transcript.read_text(encoding="utf-8"))
        naive_s = (time.perf_counter() - start) / NAIVE_SAMPLE * number
        kinds = {check.parameters.kind for check, _ in checks}
        regexes = sum(getattr(check.parameters, "pattern", None) is not None for check, _ in checks)
        regexes -= sum(
            check.parameters.kind == "response_not_contains" for check, _ in checks
        )  # a literal of this name
        return Timed(size, load_s, check_s, cpu_s, parse.call_count, len(wrong), len(kinds), regexes, naive_s)


def measure(sizes: tuple[int, ...], number: int) -> list[dict[str, Any]]:
    """The table on standard output; the figures."""
    rows = [timed(size, number) for size in sizes]
    print(
        table(
            ("events", "load_run", "check_run", "CPU", "parsed", "wrong", "kinds", "regexes", "read anew for each check"),
            [
                (
                    f"{row.megabytes:.1f} MB", f"{row.load_s:.2f} s", f"{row.check_s:.2f} s", f"{row.cpu_s:.2f} s", f"{row.parses} x",
                    row.wrong, row.kinds, row.regexes, f"{row.naive_s:.0f} s",
                )
                for row in rows
            ],
        )
    )  # fmt: skip
    first, last = rows[0], rows[-1]
    slope = math.log(last.cpu_s / first.cpu_s) / math.log(last.megabytes / first.megabytes)
    right = not any(row.wrong for row in rows) and last.kinds >= 10 and (last.regexes >= 100 or number < CHECKS)
    return [
        figure(
            "ground_truth", last.check_s, f"s for {last.megabytes:.0f} MB and {number} checks", n=number,
            goal=f"<= {SECONDS:g} s, no wrong status", ok=right and last.check_s <= SECONDS, baseline=last.naive_s,
        ),
        figure(
            "ground_truth", slope, "exponent of CPU time over size", n=len(rows),
            goal=f"<= {SLOPE:g}", ok=right and slope <= SLOPE, baseline=1.0,
        ),
        figure(
            "ground_truth", last.parses, "times that the record was parsed", n=number,
            goal="1", ok=right and all(row.parses == 1 for row in rows), baseline=float(number),
        ),
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """0 whatever the figures, 2 where nothing could be measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--small", action="store_true", help="sizes for make test: shape only")
    small = parser.parse_args(arguments).small
    try:
        figures = measure(SMALL_MB if small else SIZES_MB, 120 if small else CHECKS)
    except OSError as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 2
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
