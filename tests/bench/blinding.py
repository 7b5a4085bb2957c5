# ruff: noqa: RUF001 - letters that look alike and Chinese text are part of what this is about
"""J20: whether a comparator can tell which output is the one with the skill.

Leaks of every kind (paths, names, words about arms, passages of SKILL.md and its files) are planted in what runs leave: the
answer, files, file names, headings, text that a check finds. Whole comparisons are run, and what the comparator was sent is
searched for each leak by its letters alone, so that no white space, case, accent, look-alike letter or invisible character
hides it. The naive variant replaces the skill's name and path as they are written.

A probe of words (naive Bayes over pairs of outputs, trained on half of them) then guesses the arm, from the outputs as they
are and from what the comparator is sent. Relabelling: exchanging the arms exchanges the two sections of the prompt.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.checks import Check, ResponseNotMatches
from gate.domain.plan import Arm
from gate.domain.seeding import SessionSeed
from gate.domain.skill import Skill, SkillType
from gate.domain.suite import Case, Expectation
from gate.judging.comparator import compare_case
from gate.judging.ground_truth.response_word_count import count_words
from gate.judging.scrub import HIDDEN
from tests.bench._figures import figure, last_line, share, table
from tests.bench._trust import markdown_table, write_section
from tests.builders_judging import a_run, compared, judged_by, scores, user_text
from tests.builders_skill import a_file, a_skill

NAME = "blinding"
BODY = (
    "# Invoices\n\nAlways round the total of every invoice to two decimals before you print it, and name the reason.\n\n"
    "- Never quote a price without the country that it was taxed in, or the reader cannot check it.\n"
    "- Start the answer with the balance that is still open, then list what was paid and when.\n\n"
    "请在输出之前先把每一张发票的总金额四舍五入到小数点后两位然后再打印并说明这样做的理由。\n"
)
REFERENCE = "The reduced rate applies to books and to all food that is sold cold, in every country of the union.\n"
PASSAGES = (
    "round the total of every invoice to two decimals before you print it",
    "Never quote a price without the country that it was taxed in",
    "Start the answer with the balance that is still open, then list what was paid",
    "The reduced rate applies to books and to all food that is sold cold",
    "先把每一张发票的总金额四舍五入到小数点后两位然后再打印",
)
NAMES = ("invoice-totals", "Invoice Totals", "invoice_totals", "InvoiceTotals", "INVOICE TOTALS", "invoice.totals")
PATHS = (
    "/skills/invoice-totals/SKILL.md", "skills/invoice-totals/references/tax.md", "/skills/invoice-totals", "SKILL.md",
    "./skills/invoice-totals/scripts/run.py", "\\skills\\invoice-totals\\SKILL.md",
)  # fmt: skip
ARM_WORDS = (
    "with_skill", "without_skill", "with-skill", "I am the output with the skill", "This was made without the skill",
    "I read the skill first", "according to the skill", "as the skill says", "following the invoicing skill", "base_skill",
    "按照技能", "根据该技能", "技能文件",
)  # fmt: skip
WORDS = ["the", "sum", "of", "row", "two", "is", "given", "below", "and", "was", "taken", "from", "the", "table", "that", "you", "sent", "with", "your", "question", "of", "today", "nothing", "else", "changed", "since", "then", "we", "add", "both", "values", "print", "them", "once"]  # fmt: skip


class Leak(NamedTuple):
    """A text that tells the arm."""

    kind: str
    text: str
    letters: str
    """What must be nowhere in what the comparator is sent, as ``letters_of`` gives it."""


def _plain(rng: random.Random, text: str) -> str:
    return text


def _case(rng: random.Random, text: str) -> str:
    return rng.choice((str.upper, str.title, str.lower))(text)


def _invisible(rng: random.Random, text: str) -> str:
    at = rng.randrange(1, len(text))
    return text[:at] + rng.choice("\u200b\u200d\u2060\u00ad\ufeff\u202e\ufe0f") + text[at:]


def _wide(rng: random.Random, text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def _accents(rng: random.Random, text: str) -> str:
    return "".join(c + "\u0301" if c in "aeiou" and rng.random() < 0.4 else c for c in text)


def _alike(rng: random.Random, text: str) -> str:
    return "".join({"o": "о", "e": "е", "a": "а", "i": "і", "c": "с", "s": "ѕ"}.get(c, c) for c in text)


def _broken(rng: random.Random, text: str) -> str:
    words = text.split(" ")
    return " ".join(words[: len(words) // 2]) + "\n" + " ".join(words[len(words) // 2 :]) if len(words) > 1 else text


def _marked(rng: random.Random, text: str) -> str:
    return f"**`{text}`**" if rng.random() < 0.5 else f"> _{text}_"


def _dashes(rng: random.Random, text: str) -> str:
    return text.replace("-", rng.choice("\u2010\u2011\u2013\u2212"))


CHANGES: dict[str, Callable[[random.Random, str], str]] = {
    "as it is": _plain, "case": _case, "invisible characters": _invisible, "full width": _wide, "accents": _accents,
    "look-alike letters": _alike, "line break": _broken, "Markdown": _marked, "other dashes": _dashes,
}  # fmt: skip
KINDS = {"name": NAMES, "path": PATHS, "arm words": ARM_WORDS, "passage": PASSAGES}


def letters_of(text: str) -> str:
    """The letters and digits of a text as a reader takes them: no marks, no case, no look-alikes, nothing between them."""
    alike = str.maketrans("оеаісѕ", "oeaics")
    plain = unicodedata.normalize("NFKD", text).casefold().translate(alike)
    return "".join(char for char in plain if char.isalnum())


def leaks(count: int, rng: random.Random) -> list[Leak]:
    """``count`` leaks over all kinds and changes."""
    found = []
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        change = list(CHANGES)[number // len(KINDS) % len(CHANGES)]
        text = rng.choice(KINDS[kind])
        # A passage may begin and end anywhere, as long as it has the words that make one.
        if kind == "passage" and " " in text:
            words = text.split(" ")
            start = rng.randrange(len(words) - 7)
            text = " ".join(words[start : rng.randrange(start + 8, len(words) + 1)])
        found.append(Leak(f"{kind}, {change}", CHANGES[change](rng, text), letters_of(_shortest(text))))
    return found


def _shortest(text: str) -> str:
    """What of an arm's words tells it: the words about the skill."""
    return re.sub(r"^(?:I am the output |This was made |I )", "", text)


def _is_all(leak: Leak) -> bool:
    """Whether a leak tells the arm by all of its words, so that a scrubber leaves nothing of it."""
    return letters_of(leak.text) == leak.letters and not leak.text.startswith(("as ", "I ", "按"))


def _prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def _planted(rng: random.Random, leak: Leak) -> str:
    return f"{_prose(rng, 8)}. {leak.text} {_prose(rng, 6)}."


def _in_a_name(text: str) -> str:
    return text.replace("/", "-").replace("\\", "-").replace("\n", " ")[:60]


CHANNELS: dict[str, Callable[[random.Random, Leak], dict[str, Any]]] = {
    "answer": lambda rng, leak: {"response": _planted(rng, leak)},
    "answer, first words": lambda rng, leak: {"response": f"{leak.text}\n\n{_prose(rng, 10)}"},
    "heading": lambda rng, leak: {"response": f"## {_one_line(leak.text)}\n\n{_prose(rng, 10)}"},
    "file": lambda rng, leak: {"response": _prose(rng, 9), "files": {"out.md": _planted(rng, leak).encode()}},
    "comment in code": lambda rng, leak: {
        "response": _prose(rng, 9), "files": {"run.py": f"x = 1  # {_one_line(leak.text)}\n".encode()},
    },
    "file name": lambda rng, leak: {"response": _prose(rng, 9), "files": {f"{_in_a_name(leak.text)}.md": b"# Sum\n"}},
    "found by a check": lambda rng, leak: {"response": f"banned {leak.text} {_prose(rng, 5)}"},
}  # fmt: skip


def _one_line(text: str) -> str:
    return " ".join(text.split())


def the_skill() -> Skill:
    """The skill whose traces are looked for."""
    return a_skill("skills/invoice-totals", body=BODY, files=(a_file("references/tax.md", REFERENCE),))


CASE = Case(
    eval_id="one",
    prompt="Add the numbers of the table up.",
    checks=(Check(id="c1", parameters=ResponseNotMatches(pattern=r"banned[\s\S]{0,120}")),),
    expectations=(Expectation(id="e1", text="States the sum."),),
)


def shown(folder: Path, made: Sequence[dict[str, Any]], seed: SessionSeed, *, skill: Skill) -> tuple[list[str], bool]:
    """(what the comparator was sent, order by order; whether the first run was A) for the outputs of two runs."""
    ours, theirs = (
        a_run(folder, arm=arm, **each) for arm, each in zip((Arm.WITH_SKILL, Arm.WITHOUT_SKILL), made, strict=True)
    )
    models, ledger, chat = judged_by(lambda request: compared(scores(4), scores(4)))
    compare_case(
        CASE, SkillType.TEXT_GENERATION, [(ours, theirs)], skill,
        root=folder, models=models, ledger=ledger, seed=seed, session_id="s",
    )  # fmt: skip
    return [user_text(request) for request in chat.requests], seed.bit("assignment", "one", "s")


def naive(text: str, skill: Skill) -> str:
    """Replace the name and the path as they are written."""
    return text.replace(skill.path, HIDDEN).replace(skill.name, HIDDEN)


def plant(folder: Path, count: int) -> tuple[dict[str, list[int]], int, int]:
    """({kind: [planted, through]}, through, through the naive variant)."""
    rng = random.Random(20260131)
    skill = the_skill()
    seed = SessionSeed("5e" * 32)
    by_kind: dict[str, list[int]] = {}
    through = careless = 0
    for number, leak in enumerate(leaks(count, rng)):
        channel = list(CHANNELS)[number % len(CHANNELS)]
        leaky = CHANNELS[channel](rng, leak)
        texts, _ = shown(folder / str(number), (leaky, {"response": _prose(rng, 12)}), seed, skill=skill)
        found = leak.letters in _letters_of_lines(texts[0])
        raw = "\n".join(
            [leaky["response"], *leaky.get("files", {}), *(d.decode() for d in leaky.get("files", {}).values())]
        )
        counted = by_kind.setdefault(leak.kind, [0, 0])
        counted[0] += 1
        counted[1] += found
        through += found
        careless += leak.letters in letters_of(naive(raw, skill))
    return by_kind, through, careless


def _letters_of_lines(text: str) -> str:
    """The letters of what is shown, without line ids and fences."""
    lines = (re.sub(r"^B\d+:\d+\|", "", line) for line in text.split("\n") if not line.startswith("⟦end"))
    return letters_of("\n".join(lines))


# The probe ---------------------------------------------------------------------------------------------------------------


class Probe:
    """Naive Bayes over words, for pairs: which of two texts is more like those with the skill."""

    def __init__(self, ours: Sequence[str], theirs: Sequence[str]) -> None:
        self._counts = [Counter(word for text in texts for word in _words(text)) for texts in (ours, theirs)]
        self._totals = [counts.total() + 1 for counts in self._counts]

    def _score(self, text: str) -> float:
        one, other = self._counts
        return sum(
            math.log((one[word] + 0.5) / self._totals[0]) - math.log((other[word] + 0.5) / self._totals[1])
            for word in _words(text)
        )

    def right(self, ours: str, theirs: str) -> float:
        """1 where it picks the first, 0.5 where it cannot tell."""
        gap = self._score(ours) - self._score(theirs)
        return 0.5 if abs(gap) < 1e-12 else float(gap > 0)


def _words(text: str) -> list[str]:
    return re.findall(r"\[hidden\]|\w+", re.sub(r"\bB[12](?=\d\d\b)", "B", text).casefold())


def guess(folder: Path, count: int) -> tuple[float, float]:
    """Accuracy of the probe on the second half of the pairs: (outputs as they are, as the comparator is sent them).

    Both arms write alike and at the same length; two in three outputs with the skill have one to three leaks in them.
    """
    rng = random.Random(20260201)
    skill = the_skill()
    plain: list[tuple[str, str]] = []
    sent: list[tuple[str, str]] = []
    for number in range(count):
        parts = [[_prose(rng, 8) for _ in range(6)] for _ in range(2)]
        if rng.random() < 2 / 3:
            for leak in rng.sample([leak for leak in leaks(144, rng) if _is_all(leak)], rng.randrange(1, 4)):
                at = rng.randrange(6)
                parts[0].insert(at, f"{_prose(rng, 3)} {leak.text}")
                parts[1].insert(at, f"{_prose(rng, 3)} {_prose(rng, max(1, count_words(leak.text)))}")
        ours, theirs = ("\n".join(lines) for lines in parts)
        plain.append((ours, theirs))
        seed = SessionSeed(f"{number + 1:064x}")
        texts, ours_first = shown(
            folder / f"guess-{number}", ({"response": ours}, {"response": theirs}), seed, skill=skill
        )
        first, second = texts[0].split("# The second output")
        sections = (first.split("# The first output")[1], second)
        sent.append(sections if ours_first else sections[::-1])
    return _accuracy(plain), _accuracy(sent)


def _accuracy(texts: Sequence[tuple[str, str]]) -> float:
    half = len(texts) // 2
    probe = Probe([ours for ours, _ in texts[:half]], [theirs for _, theirs in texts[:half]])
    tested = texts[half:]
    return sum(probe.right(ours, theirs) for ours, theirs in tested) / len(tested)


def relabel(folder: Path, count: int) -> tuple[int, int]:
    """(pairs whose prompts changed by more than the exchange of the sections, pairs)."""
    rng = random.Random(20260202)
    skill = the_skill()
    seed = SessionSeed("5e" * 32)
    wrong = 0
    for number in range(count):
        one, other = ({"response": _prose(rng, 20)}, {"response": _planted(rng, leaks(40, rng)[number % 40])})
        straight, _ = shown(folder / f"relabel-{number}", (one, other), seed, skill=skill)
        turned, _ = shown(folder / f"relabel-{number}-turned", (other, one), seed, skill=skill)
        # Order by order the fence is the same, so what A was shown first as is what B is shown first as.
        wrong += [_halves(text) for text in straight] != [_halves(text)[::-1] for text in turned]
    return wrong, count


def _halves(text: str) -> list[str]:
    first, second = text.split("# The second output")
    return [
        re.sub(r"\bB[12](\d\d)\b", r"B\1", part)
        for part in (first.split("# The first output")[1].strip(), second.strip())
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true", help="few leaks, for the shape only")
    small = parser.parse_args(arguments).small
    planted, pairs = (108, 16) if small else (2_016, 400)
    with tempfile.TemporaryDirectory() as folder:
        by_kind, through, careless = plant(Path(folder), planted)
        before, after = guess(Path(folder), pairs)
        wrong, asked = relabel(Path(folder), max(6, pairs // 4))
    rows = [[kind, str(count), str(found)] for kind, (count, found) in sorted(by_kind.items())]
    head = ["leak", "planted", "through"]
    print(table(head, rows))
    print(f"\narm guessed by its words: {before:.1%} from the outputs as they are, {after:.1%} from what is sent")
    print(f"prompts that relabelling changed by more than the exchange of the sections: {wrong} of {asked}")
    tested = pairs - pairs // 2
    figures = [
        share(NAME, through, planted, "planted leaks that reach the comparator", goal="0", at_most=0, baseline_hits=careless),
        figure(NAME, after, "arm guessed right by a probe of words, of what is sent (0.5 is chance)", n=tested,
               goal="printed", ok=True, baseline=before),
        share(NAME, wrong, asked, "prompts that relabelling changes by more than the exchange", goal="0", at_most=0),
    ]  # fmt: skip
    if not small:
        text = (
            f"{planted:,} leaks planted, {through} through; replacing the name and the path as they are written lets "
            f"{careless:,} through. A probe of words guesses the arm of {tested} pairs in {before:.1%} from the outputs as "
            f"they are, in {after:.1%} from what the comparator is sent. Relabelling the arms changes {wrong} of {asked} "
            f"prompts by more than the exchange of the sections.\n\n{markdown_table(head, rows)}"
        )
        write_section(NAME, "Blindness of the comparison (J20)", text)
    print(last_line(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
