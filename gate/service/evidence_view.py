"""Bundles opened for looking: unpacked once, checked while that is done, read by the code that wrote them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.evidence import RunRecord
from gate.domain.report import GateReport
from gate.errors import EvidenceError
from gate.evidence.bundle import Bundle, load_blocks, load_run
from gate.evidence.pack import digest_in, read_one, unpack
from gate.evidence.seal import MANIFEST

OPEN = 16
"""Bundles that are kept unpacked."""
REPORT_BYTES = 64 * 1024 * 1024
SHOWN_LINES = 4000
"""Of one file or one block of the record."""
SHOWN_BYTES = 4 * 1024 * 1024
_KEY = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


class Figures(NamedTuple):
    """What the report of one run says of one skill."""

    passed: int
    total: int
    interval: tuple[float, float] | None
    won: int
    lost: int
    tied: int
    mode: str


class SeenRun(NamedTuple):
    """A run in the list of evidence."""

    eval_id: str
    run: int
    arm: str
    outcome: str
    passed: int
    total: int
    folder: str


class SeenSkill(NamedTuple):
    """A skill in the list of evidence."""

    path: str
    verdict: str
    reasons: tuple[str, ...]
    runs: tuple[SeenRun, ...]


class SeenQuote(NamedTuple):
    """A quote, and where it stands on the page."""

    text: str
    source: str
    anchor: str
    """Empty where the line is not on the page."""


class SeenRow(NamedTuple):
    """What was asked of a run and how that ended."""

    text: str
    status: str
    method: str
    evidence: str
    quotes: tuple[SeenQuote, ...]


class SeenBlock(NamedTuple):
    """A block of the record."""

    id: str
    title: str
    kind: str
    tier: int
    lines: list[str]
    left: int
    """Lines that are not shown."""


class Seen(NamedTuple):
    """One run, ready to be shown."""

    record: RunRecord
    rows: tuple[SeenRow, ...]
    blocks: tuple[SeenBlock, ...]
    cited: frozenset[str]
    """Line ids."""


class SeenFile(NamedTuple):
    """One file."""

    path: str
    size: int
    sha256: str
    lines: list[str] | None
    """None: it is no text."""
    left: int


def figures_in(packed: Iterable[bytes]) -> dict[str, Figures]:
    """By path of the skill, out of the report of a packed bundle. Raises LookupError, EvidenceError."""
    raw = read_one(packed, "report.json", max_bytes=REPORT_BYTES)
    try:
        report = GateReport.model_validate_json(raw)
    except ValueError:
        raise EvidenceError("The bundle's report is none of this version.", path="report.json") from None
    return {
        skill.path: Figures(
            skill.authoritative.passed,
            skill.authoritative.total,
            skill.authoritative_interval,
            skill.won,
            skill.lost,
            skill.tied,
            report.mode.value,
        )
        for skill in report.skills
    }


class Shelf:
    """Where bundles are unpacked. Thread-safe; the ones that were looked at longest ago go first."""

    def __init__(self, folder: Path, *, most: int = OPEN) -> None:
        self._folder = folder
        self._most = most
        self._open: OrderedDict[str, Opened] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, key: str, packed: Callable[[], Iterator[bytes]]) -> Opened:
        """A bundle by its key; ``packed`` is asked where it is not open. Raises LookupError, EvidenceError."""
        if not _KEY.fullmatch(key):
            raise LookupError(key)
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
            root = self._folder / key
            shutil.rmtree(root, ignore_errors=True)
            try:
                unpack(packed(), root)
            except BaseException:
                shutil.rmtree(root, ignore_errors=True)
                raise
            self._open[key] = found = Opened(root)
            while len(self._open) > self._most:
                _, old = self._open.popitem(last=False)
                shutil.rmtree(old.root, ignore_errors=True)
            return found


class Opened:
    """An unpacked bundle. Every method raises LookupError for what is not in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.digest = digest_in(root)
        listed: Any = json.loads((root / MANIFEST).read_bytes())["files"]
        self._files: dict[str, tuple[int, str]] = {one["path"]: (one["size_bytes"], one["sha256"]) for one in listed}

    def files(self) -> list[tuple[str, int]]:
        """(path, bytes) of every file, by path."""
        return [(path, size) for path, (size, _) in sorted(self._files.items())]

    def bytes_of(self, path: str) -> bytes:
        """A file that the manifest lists, as it was sealed."""
        if path not in self._files:
            raise LookupError(path)
        data = Bundle(self.root).read_bytes(path)
        if hashlib.sha256(data).hexdigest() != self._files[path][1]:
            raise EvidenceError(f"{path!r} was changed after the bundle was opened.", path=path)
        return data

    def file(self, path: str) -> SeenFile:
        """A file to be shown."""
        data = self.bytes_of(path)
        size, sha256 = self._files[path]
        try:
            text = None if b"\0" in data else data[:SHOWN_BYTES].decode("utf-8")
        except UnicodeDecodeError as error:
            # A character that the limit has cut is no sign of another encoding.
            text = data[: error.start].decode("utf-8") if error.start > SHOWN_BYTES - 4 else None
        if text is None:
            return SeenFile(path, size, sha256, None, 0)
        lines = text.split("\n")
        left = max(0, len(lines) - SHOWN_LINES) + data[SHOWN_BYTES:].count(b"\n")
        return SeenFile(path, size, sha256, lines[:SHOWN_LINES], left)

    def skills(self) -> list[SeenSkill]:
        """Every skill with its runs, as the report has them."""
        report = Bundle(self.root).read("report.json", GateReport)
        return [
            SeenSkill(skill.path, skill.verdict.value, skill.reasons, tuple(self._runs(skill.slug)))
            for skill in report.skills
        ]

    def _runs(self, slug: str) -> Iterator[SeenRun]:
        for path in sorted(self._files):
            if path.startswith(f"skills/{slug}/") and path.endswith("/run.json") and "/workspace/" not in path:
                folder = path.removesuffix("/run.json")
                rows = self._rows(folder)
                facts = self._json(path)
                key = facts.get("key", {})
                passed = sum(1 for row in rows if row.status == "passed")
                yield SeenRun(
                    str(key.get("eval_id", "")),
                    int(key.get("run", 0)),
                    str(key.get("arm", "")),
                    str(facts.get("outcome", "")),
                    passed,
                    len(rows),
                    folder,
                )

    def run(self, folder: str) -> Seen:
        """One run: its seal and its chain of events are checked once more by the code that judges by them."""
        if f"{folder}/run.json" not in self._files or "/workspace/" in folder:
            raise LookupError(folder)
        record = load_run(self.root, folder)
        blocks = load_blocks(self.root, record)
        shown = tuple(
            SeenBlock(
                block.id,
                block.title,
                block.kind,
                int(block.tier),
                (lines := block.text.split("\n"))[:SHOWN_LINES],
                max(0, len(lines) - SHOWN_LINES),
            )
            for block in blocks
        )
        there = {f"{block.id}:{number}" for block in shown for number in range(1, len(block.lines) + 1)}
        rows = self._rows(folder, there)
        cited = frozenset(quote.source for row in rows for quote in row.quotes if quote.anchor)
        return Seen(record, rows, shown, cited)

    def _rows(self, folder: str, there: set[str] | frozenset[str] = frozenset()) -> tuple[SeenRow, ...]:
        """What exact checks and the grader said; the quotes with their places."""
        grading = self._json(f"{folder}/grading.json") if f"{folder}/grading.json" in self._files else {}
        own = grading.get("skill_gate")
        rows = own.get("rows", []) if isinstance(own, dict) else []
        quotes = {str(row.get("text", "")): row for row in rows if isinstance(row, dict)}
        expected = grading.get("expectations", [])
        return tuple(
            _row(one, quotes.get(str(one.get("text", ""))), there) for one in expected if isinstance(one, dict)
        )

    def _json(self, path: str) -> dict[str, Any]:
        found: Any = Bundle(self.root).read_json(path)
        return found if isinstance(found, dict) else {}


def _row(said: Mapping[str, Any], graded: Mapping[str, Any] | None, there: set[str] | frozenset[str]) -> SeenRow:
    passed = said.get("passed")
    status = "passed" if passed is True else "failed" if passed is False else "ungraded"
    if graded is not None:
        status = str(graded.get("status", status))
    quotes = []
    for quote in (graded or {}).get("quotes", ()):
        source = str(quote.get("source", ""))
        anchor = source.replace(":", "-") if source in there else ""
        quotes.append(SeenQuote(str(quote.get("expanded") or quote.get("text", "")), source, anchor))
    return SeenRow(
        str(said.get("text", "")), status, str(said.get("method", "")), str(said.get("evidence", "")), tuple(quotes)
    )
