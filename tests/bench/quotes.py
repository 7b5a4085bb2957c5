# ruff: noqa: RUF001 - typographic, full-width and look-alike characters are what this is about
"""J1: how many forged quotes the quote check accepts, and how many honest ones it rejects.

Forgeries and honest quotes are made from recorded runs in English and Chinese. Whether a forgery is one is decided by a
test of its own (``_stands``), which is laxer than the check: what it finds in the named block is thrown away. Beside both
stands the naive variant: a quote is taken where 90 per cent of it stands anywhere in the record.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gate.domain.evidence import Block, Tier
from gate.evidence.quotes import MAXIMUM_GAP, QuoteIndex
from gate.llm.prompting import Fence
from tests.bench._corpus import Recorded, recorded_runs
from tests.bench._figures import last_line, share, table
from tests.bench._naive import Fuzzy

NEARLY = 90.0
ALLOWED = frozenset({1, 2})
SEED = 20260131


class Given(NamedTuple):
    """A quote as a judge would give it."""

    text: str
    source: str


class Place(NamedTuple):
    """An honest quote: what a judge was shown, where, and what stands around it in the record."""

    block: Block
    line: int
    text: str

    @property
    def source(self) -> str:
        return f"{self.block.id}:{self.line}"


Make = Callable[[random.Random, Recorded, Place, Sequence[Recorded]], "Given | None"]

# The test of its own ---------------------------------------------------------------------------------------------------

_CLOTHES = str.maketrans(
    {
        "“": '"',
        "”": '"',
        "‘": "'",
        "’": "'",
        "–": "-",
        "—": "-",
        "…": "...",
        "\u2028": None,
        "\u2029": None,
        "\x85": None,
    }
)


def _bare(text: str, *, undo: bool) -> str:
    """A text without spaces, invisible characters and typography; ``undo``: JSON escapes undone."""
    if undo:
        text = re.sub(r"\\[nrt]", "", _decoded(text)).replace('\\"', '"').replace("\\\\", "\\")
    text = text.translate(_CLOTHES)
    text = re.sub(r"\[U\+[0-9A-F]{4}\]|[\u2400-\u2421]", "", text)
    text = "".join(chr(ord(char) - 0xFEE0) if "！" <= char <= "～" else char for char in text)
    text = unicodedata.normalize("NFC", text)
    return "".join(char for char in text if not char.isspace() and unicodedata.category(char) not in ("Cf", "Cc", "Mn"))


def _decoded(text: str) -> str:
    """``\\uXXXX`` as the letters that they are, two halves of one letter together."""
    return re.sub(
        r"(?:\\u[0-9a-fA-F]{4})+",
        lambda found: bytes.fromhex(found[0].replace("\\u", "")).decode("utf-16-be", "replace"),
        text,
    )


class _Record:
    """A recorded run with what looks at it."""

    def __init__(self, run: Recorded) -> None:
        self.index = QuoteIndex(run.blocks)
        self.fuzzy = Fuzzy("\n".join(block.text for block in run.blocks))
        blocks = [block for block in run.blocks if block.tier is not Tier.NOTES]
        self.bare = {(block.id, undo): _bare(block.text, undo=undo) for block in blocks for undo in (True, False)}

    def stands(self, given: Given) -> bool:
        """Whether the quote, or all pieces of it one after the other, may well stand in the block that it names."""
        return self._in_order(given, undo=True) or self._in_order(given, undo=False)

    def _in_order(self, given: Given, *, undo: bool) -> bool:
        text = self.bare.get((given.source.partition(":")[0], undo), "")
        position = 0
        for piece in re.split(r"\[(?:\.\.\.|…)\]|\.{3,}|…", given.text):
            bare = _bare(piece, undo=undo)
            position = text.find(bare, position)
            if position < 0:
                return False
            position += len(bare)
        return True


# Honest quotes ---------------------------------------------------------------------------------------------------------


def _places(run: Recorded, rng: random.Random) -> Iterator[Place]:
    """Pieces of what a judge is shown, each inside one line, long enough to say something."""
    fence = Fence("5e" * 8)
    for block in run.blocks:
        if block.tier is Tier.NOTES:
            continue
        for number, shown in enumerate(fence.escape(block.text).split("\n"), 1):
            signs = _signs(shown.strip())
            if len(signs) >= 20:
                start = rng.randrange(0, len(signs) - 16)
                text = "".join(signs[start : start + rng.randrange(14, 60)]).strip()
                if _enough(text):
                    yield Place(block, number, text)


# Whoever copies a piece copies whole signs: no half of an escape, no accent without its letter.
_SIGN = re.compile(
    r"(?:\\u[dD][89abAB]..\\u....|\\u[0-9a-fA-F]{4}|\\.|\[U\+....\]|< \||\[ /?INST\]|.)[\u0300-\u036f\u200d\ufe0f]*",
    re.DOTALL,
)


def _signs(text: str) -> list[str]:
    return _SIGN.findall(text)


def _enough(text: str) -> bool:
    seen = "".join(text.split())
    return len(seen) >= 10 and sum(char.isalnum() for char in seen) >= 6


def _cut(text: str, rng: random.Random) -> str | None:
    """With its middle left out, as judges do; None where the ends would be too short."""
    signs = _signs(text)
    if len(signs) < 44:
        return None
    first, second = "".join(signs[:18]), "".join(signs[-18:])
    return f"{first}{rng.choice(('...', ' … ', '[...]'))}{second}" if _enough(first) and _enough(second) else None


HONEST: dict[str, Callable[[str, random.Random], str | None]] = {
    "as shown": lambda text, _: text,
    "carriage returns": lambda text, _: text + "\r\n",
    "two spaces": lambda text, _: text.replace(" ", "  ") if " " in text else None,
    "no-break spaces": lambda text, _: text.replace(" ", "\u00a0") if " " in text else None,
    "decomposed": lambda text, _: (
        unicodedata.normalize("NFD", text) if unicodedata.normalize("NFD", text) != text else None
    ),
    "full width": lambda text, _: (
        "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalnum() else c for c in text)
        if "[U+" not in text and "\u0301" not in text
        else None
    ),
    "plain quotes and dashes": lambda text, _: text.translate(_CLOTHES) if text.translate(_CLOTHES) != text else None,
    "curly quotes": lambda text, _: text.replace('"', "”").replace("'", "’") if set("\"'") & set(text) else None,
    "JSON escapes": lambda text, _: json.dumps(text, ensure_ascii=False)[1:-1],
    "ASCII escapes": lambda text, _: json.dumps(text)[1:-1],
    "unescaped": lambda text, _: text.replace('\\"', '"').replace("\\n", "\n") if '\\"' in text else None,
    "letters unescaped": lambda text, _: _letters(text),
    "zero-width joiner": lambda text, _: "\u200b".join(("".join(_signs(text)[:5]), "".join(_signs(text)[5:]))),
    "left out": _cut,
}


def _letters(text: str) -> str | None:
    """With ``\\uXXXX`` of the record read as the letters they are; None where there are none or one is cut."""
    letters = _decoded(text)
    return letters if letters != text and _enough(letters) else None


# Forgeries -------------------------------------------------------------------------------------------------------------


def _edit(where: Callable[[str], bool], how: Callable[[str, random.Random], str]) -> Make:
    """One character of an honest quote, changed."""

    def make(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
        del run, others
        spots = [at for at, char in enumerate(place.text) if where(char)]
        if not spots:
            return None
        at = rng.choice(spots)
        return Given(place.text[:at] + how(place.text[at], rng) + place.text[at + 1 :], place.source)

    return make


def _swap(pairs: Sequence[tuple[str, str]]) -> Make:
    """A word of an honest quote, exchanged for one that says something else."""

    def make(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
        del run, others
        found = [(one, two) for pair in pairs for one, two in (pair, pair[::-1]) if one and one in place.text]
        if not found:
            return None
        one, two = rng.choice(found)
        return Given(place.text.replace(one, two, 1), place.source)

    return make


def _elsewhere(pick: Callable[[random.Random, Recorded, Sequence[Recorded]], str]) -> Make:
    """A text that is real, but stands somewhere else than in the block that is named."""

    def make(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
        text = _piece(pick(rng, run, others), rng)
        return Given(text, rng.choice((place.source, place.block.id))) if text else None

    return make


def _piece(text: str, rng: random.Random) -> str:
    lines = [line.strip() for line in text.splitlines() if _enough(line)]
    return rng.choice(lines)[: rng.randrange(24, 80)] if lines else ""


def _other_block(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
    del others
    blocks = [block for block in run.blocks if block.id != place.block.id and block.tier is not Tier.NOTES]
    return Given(place.text, f"{rng.choice(blocks).id}:{place.line}")


def _notes(*, named: bool) -> Make:
    def make(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
        del others
        note = rng.choice([block for block in run.blocks if block.tier is Tier.NOTES])
        text = _piece(note.text, rng)
        return Given(text, note.id if named else place.source) if text else None

    return make


def _spliced(how: Callable[[str, str, random.Random], str]) -> Make:
    """Two real pieces, put together to what stands nowhere."""

    def make(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
        del others
        other = _piece(rng.choice([block for block in run.blocks if block.tier is not Tier.NOTES]).text, rng)
        return Given(how(place.text, other, rng), place.source) if other else None

    return make


def _line_skipped(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
    """Two lines of one block as if nothing stood between them."""
    del run, others
    lines = [line.strip() for line in place.block.text.splitlines()]
    if len(lines) < 3:
        return None
    at = rng.randrange(0, len(lines) - 2)
    one, two = lines[at][-40:], lines[at + 2][:40]
    return Given(f"{one}\n{two}", place.source) if _enough(one) and _enough(two) else None


def _too_far(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
    """Two real pieces of one block with far more between them than an ellipsis may leave out."""
    del run, others
    text = place.block.text
    if len(text) < MAXIMUM_GAP + 200:
        return None
    start = rng.randrange(0, len(text) - MAXIMUM_GAP - 100)
    one, two = text[start : start + 24].strip(), text[start + MAXIMUM_GAP + 60 :][:24].strip()
    clear = _enough(one) and _enough(two) and text.count(one) == text.count(two) == 1 and "…" not in one + two
    return Given(f"{one}[...]{two}", place.block.id) if clear else None


def _crumbs(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
    """Any sentence can be put together from crumbs of a record, each really there and in order."""
    del rng, run, others
    text = place.text
    return Given(f"{text[:4]}...{text[6:10]}...{text[-4:]}", place.source)


def _too_little(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
    """A word that stands everywhere."""
    del run, others
    word = rng.choice(
        ("success", "10", "ok", "Status", "draft", "200", '"code"', "EUR", "草稿", "元", "12", "……", "{}")
    )
    return Given(word, place.source) if word in place.block.text else None


def _no_block(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
    del run, others
    return Given(
        place.text, rng.choice(("B999", "", "SKILL.md", "the response", "B000:1", "tool_calls", f"{place.block.id}0"))
    )


def _hidden(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
    """A changed digit behind characters that nobody sees."""
    edited = FORGERIES["digit"](rng, run, place, others)
    if edited is None:
        return None
    at = rng.randrange(1, len(edited.text))
    return edited._replace(text=edited.text[:at] + rng.choice("\u200b\u2060\u202e\u200f\ufe0f") + edited.text[at:])


def _reordered(rng: random.Random, run: Recorded, place: Place, others: Sequence[Recorded]) -> Given | None:
    del rng, run, others
    half = len(place.text) // 2
    one, two = place.text[:half].strip(), place.text[half:].strip()
    return Given(f"{two} [...] {one}", place.source) if _enough(one) and _enough(two) else None


def _other_digit(char: str, rng: random.Random) -> str:
    return str((int(char) + rng.randrange(1, 10)) % 10)


def _is_digit(char: str) -> bool:
    return char in "0123456789"


FORGERIES: dict[str, Make] = {
    "digit": _edit(_is_digit, _other_digit),
    "digit added": _edit(_is_digit, lambda char, rng: char + str(rng.randrange(10))),
    "digit gone": _edit(_is_digit, lambda _, __: ""),
    "decimal point moved": _edit(lambda char: char in ".,", lambda _, __: ""),
    "full-width other digit": _edit(_is_digit, lambda char, rng: chr(ord(_other_digit(char, rng)) + 0xFEE0)),
    "superscript digit": _edit(_is_digit, lambda char, _: "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(char)]),
    "circled digit": _edit(lambda char: char in "123456789", lambda char, _: chr(0x245F + int(char))),
    "Arabic digit": _edit(_is_digit, lambda char, _: chr(0x0660 + int(char))),
    "hidden digit": _hidden,
    "letter": _edit(lambda char: char.isascii() and char.isalpha(), lambda char, rng: rng.choice("qxzjw".replace(char.lower(), ""))),
    "homoglyph": _edit(lambda char: char in "aeopcxy", lambda char, _: "аеорсху"["aeopcxy".index(char)]),
    "case": _edit(lambda char: char.isascii() and char.isalpha(), lambda char, _: char.swapcase()),
    "Chinese character": _edit(lambda char: "\u4e00" <= char <= "\u9fff", lambda char, rng: rng.choice([c for c in "已未提批准草稿通过" if c != char])),
    "traditional character": _swap([("费", "費"), ("单", "單"), ("约", "約"), ("报", "報"), ("审", "審"), ("为", "為"), ("从", "從"), ("发", "發")]),
    "negation gone": _swap([("did not attach", "did attach"), ("never submitted", "submitted"), ("No approval", "An approval"), ("isn’t final", "is final"), ("没有附上", "附上"), ("从未提交", "已经提交"), ("尚未申请", "已经申请"), ("尚未确定", "已经确定")]),
    "opposite": _swap([("success", "failure"), ("error", "success"), ("draft", "final"), ("in cash", "by card"), ("open", "closed"), ("草稿", "正式"), ("现金", "转账"), ("未结", "已结"), ("仅为", "不为")]),
    "paraphrase": _swap([("cost", "was priced at"), ("was paid", "got paid"), ("charged", "billed"), ("receipt", "invoice"), ("费用为", "花费是"), ("收费", "要价"), ("发票", "收据"), ("支付", "付款")]),
    "unit": _swap([("EUR", "USD"), ("元", "美元"), ("two nights", "ten nights"), ("两晚", "十晚")]),
    "translation": _swap([("was paid in cash", "以现金支付"), ("draft only", "仅为草稿状态"), ("receipt for breakfast", "早餐发票"), ("出租车费用", "the taxi cost")]),
    "ending added": lambda rng, run, place, others: Given(place.text + (" and approved by the manager" if run.language == "en" else "，并已获批准"), place.source),
    "beginning added": lambda rng, run, place, others: Given(("Confirmed: " if run.language == "en" else "已确认：") + place.text, place.source),
    "splice": _spliced(lambda one, two, _: one[: len(one) // 2] + two[len(two) // 2 :]),
    "splice by ellipsis": _spliced(lambda one, two, rng: f"{one[:20]}{rng.choice(('...', '…', '[...]'))}{two[:20]}"),
    "line skipped": _line_skipped,
    "ellipsis in other order": _reordered,
    "ellipsis too far": _too_far,
    "ellipsis of crumbs": _crumbs,
    "other block": _other_block,
    "other run": _elsewhere(lambda rng, run, others: rng.choice(rng.choice([o for o in others if o.language == run.language and o is not run]).blocks).text),
    "other arm": _elsewhere(lambda rng, run, others: (rng.choice([o for o in others if o.record.key.arm is not run.record.key.arm]).record.response or "")),
    "notes, named": _notes(named=True),
    "notes, as another block": _notes(named=False),
    "prompt": _elsewhere(lambda _, run, __: run.prompt),
    "SKILL.md": _elsewhere(lambda _, run, __: run.skill),
    "expectation": _elsewhere(lambda _, run, __: run.expectation),
    "no such block": _no_block,
    "too little": _too_little,
}  # fmt: skip


REAL = {"ellipsis too far", "ellipsis of crumbs", "notes, named", "no such block", "too little"}
"""Classes whose text does stand in the record, and must be refused all the same."""

# Measuring -------------------------------------------------------------------------------------------------------------


def measure(runs: Sequence[Recorded], forgeries: int, honest: int) -> tuple[dict[tuple[str, str], list[int]], ...]:
    """Counts by (class, language): of forgeries and of honest quotes (made, decided wrongly, decided wrongly by the naive variant)."""
    rng = random.Random(SEED)
    records = [_Record(run) for run in runs]
    forged: dict[tuple[str, str], list[int]] = {}
    for name, make in FORGERIES.items():

        def forge(at: int, place: Place, make: Make = make) -> Given | None:
            return make(rng, runs[at], place, runs)

        _fill(forged, name, forgeries, forge, runs=runs, rng=rng, records=records, wanted=False)
    true: dict[tuple[str, str], list[int]] = {}
    for name, dress in HONEST.items():

        def copy(at: int, place: Place, dress: Callable[[str, random.Random], str | None] = dress) -> Given | None:
            del at
            text = dress(place.text, rng)
            return Given(text, place.source) if text is not None else None

        _fill(true, name, honest, copy, runs=runs, rng=rng, records=records, wanted=True)
    return forged, true


def _fill(
    counts: dict[tuple[str, str], list[int]],
    name: str,
    wanted_count: int,
    make: Callable[[int, Place], Given | None],
    *,
    runs: Sequence[Recorded],
    rng: random.Random,
    records: Sequence[_Record],
    wanted: bool,
) -> None:
    """Make quotes of a class until there are enough of each language, or the runs give no more."""
    made: Counter[str] = Counter()
    for _ in range(40):
        for at, run in enumerate(runs):
            if made[run.language] * 2 >= wanted_count:
                continue
            for place in _places(run, rng):
                if made[run.language] * 2 >= wanted_count:
                    break
                given = make(at, place)
                if given is None or (not wanted and name not in REAL and records[at].stands(given)):
                    continue
                made[run.language] += 1
                row = counts.setdefault((name, run.language), [0, 0, 0])
                row[0] += 1
                row[1] += records[at].index.check(*given, allowed_tiers=ALLOWED).verdict.accepted is not wanted
                row[2] += (records[at].fuzzy.likeness(given.text) >= NEARLY) is not wanted
        if all(made[language] * 2 >= wanted_count for language in ("en", "zh")):
            break


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a small sample, for its shape only")
    small = parser.parse_args(arguments).small
    with tempfile.TemporaryDirectory() as folder:
        runs = recorded_runs(Path(folder), 8 if small else 40, SEED)
        forged, honest = measure(runs, 6 if small else 340, 6 if small else 440)
    for title, counts, wrong in (("forged", forged, "accepted"), ("honest", honest, "rejected")):
        print(table([title, "made", wrong, f"{wrong} at {NEARLY:.0f} %"], _by_class(counts)))
        print()
    figures = []
    for counts, unit, goal, most in (
        (forged, "forged quotes accepted", "0 of >= 10,000 in >= 20 classes", 0.0),
        (honest, "honest quotes rejected", "<= 0.5 % of >= 5,000", 0.005),
    ):
        for language in ("en", "zh", None):
            made, wrong_here, wrong_naive = (
                sum(row[column] for (_, spoken), row in counts.items() if language in (spoken, None))
                for column in range(3)
            )
            name = f"{unit}, {language}" if language else f"{unit} ({len({kind for kind, _ in counts})} classes)"
            figures.append(share("quotes", wrong_here, made, name, goal=goal, at_most=most, baseline_hits=wrong_naive))
    print(last_line(figures))
    return 0


def _by_class(counts: dict[tuple[str, str], list[int]]) -> list[list[object]]:
    rows = []
    for name in dict.fromkeys(kind for kind, _ in counts):
        parts = [row for (kind, _), row in counts.items() if kind == name]
        rows.append([name, *(sum(row[column] for row in parts) for column in range(3))])
    return rows


if __name__ == "__main__":
    sys.exit(main())
