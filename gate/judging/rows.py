"""What code makes of a grader's row. The one place where an expectation can become PASSED."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from gate.domain.evidence import Block, Tier
from gate.domain.judgement import GradeStatus, Quote, QuoteVerdict
from gate.domain.suite import Expectation
from gate.evidence.suspicious import speaks_to_judges
from gate.judging.expectations import (
    TOOL_CALLS_ONLY,
    Evidence,
    Literal,
    about_judging,
    about_printing,
    allowed_tiers,
    literals,
    makes_a_file,
)
from gate.judging.ground_truth.shell import simple_commands
from gate.judging.showing import for_a_judge

_BLOCK = re.compile(r"[Bb](\d{1,6})")
_TITLE = re.compile(r"Step \d+: (.+)")


_FILE = re.compile(r"(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z][A-Za-z0-9]{0,7}")
_HARMLESS = frozenset({"echo", "printf", "true", ":", "ls", "cd", "pwd", "sleep", "date", "exit"})
"""Commands that run nothing else."""
_LONG_LINE = 400
"""A longer line holds more than what speaks to a judge, such as a whole page in one field: then the quote alone counts."""


class Said(NamedTuple):
    """What a grader said of a row: pass (True), fail (False), or neither."""

    passed: bool | None
    unsure: bool = False


MISSING = Said(None)
"""No row, or no valid reply."""


class Decision(NamedTuple):
    """What code decides, and why."""

    status: GradeStatus
    reason: str
    """A sentence without a full stop."""
    ask_again: str = ""
    """What to tell the grader where a second answer could change the decision; empty where none could."""
    forced: str = ""
    """Kind of the fallback to count where the grader's pass was refused."""


class RowRules:
    """The rules for one run's record. Pure: the same record, answer and quotes give the same decision."""

    def __init__(self, blocks: Sequence[Block], tools: Sequence[str], *, cut: bool, made: Collection[str] = ()) -> None:
        """``blocks``: all of the record. ``tools``: names of tools of this run. ``cut``: the grader saw a part only.
        ``made``: paths of the files that the run made or changed, those that are no text, too."""
        self._made = frozenset(made)
        self._blocks = {int(block.id[1:]): block for block in blocks}
        self._tools = tuple(tools)
        self._cut = cut
        self._record: Evidence | None = None

    def tiers(self, expectation: Expectation) -> frozenset[int]:
        """Source tiers that can carry a pass of this expectation."""
        return allowed_tiers(expectation.text, self._tools)

    def decide(self, expectation: Expectation, said: Said, quotes: Sequence[Quote]) -> Decision:
        """PASSED only with the grader's pass, an accepted quote of an allowed tier, and the literals in the evidence.

        A line that was put there for a judge carries nothing, unless the expectation is about such text.

        Unsure is FAILED (R37, origins 1.6), no answer is UNGRADED. Where the grader saw a part of the record only, what
        it did not find is UNGRADED: it may stand in the rest.
        """
        if said.passed is None and not said.unsure:
            return Decision(
                GradeStatus.UNGRADED, "the grader gave no valid row for it", "There was no row for it: give one."
            )
        if not said.passed:
            words = "the grader could not tell" if said.unsure else "the grader found that it is not met"
            if self._cut:
                return Decision(GradeStatus.UNGRADED, f"{words}, but saw a part of the record only: it is too long")
            return Decision(GradeStatus.FAILED, words)
        tiers = self.tiers(expectation)
        carrying = [quote for quote in quotes if quote.verdict.accepted and quote.tier in tiers]
        if not carrying:
            return self._unproven(quotes, tiers)
        carrying = [quote for quote in carrying if not _is_for_a_judge(quote, expectation)]
        if not carrying:
            return Decision(
                GradeStatus.UNGRADED,
                "every verified quote stands in text that speaks to a judge",
                "Your quotes stand in text that speaks to you and not to a user. Quote other lines, or answer fail.",
                "quote_speaks_to_judge",
            )
        evidence = Evidence([part for quote in carrying for part in (quote.expanded, self._title(quote))])
        missing = [item for item in literals(expectation) if not evidence.holds(item)]
        if not missing:
            refused = self._unmade(expectation)
            if tiers == TOOL_CALLS_ONLY:
                refused = refused or self._uncalled(expectation, carrying) or self._only_printed(expectation)
            if refused:
                return refused
            return Decision(
                GradeStatus.PASSED, f"{len(carrying)} verified {'quote' if len(carrying) == 1 else 'quotes'}"
            )
        words = ", ".join(" or ".join(item.options) for item in missing)
        nowhere = [item for item in missing if not self._whole().holds(item)]
        if nowhere:
            absent = ", ".join(" or ".join(item.options) for item in nowhere)
            return Decision(
                GradeStatus.FAILED,
                f"the expectation names {absent}, which the record does not contain",
                "",
                "literal_absent",
            )
        return Decision(
            GradeStatus.UNGRADED,
            f"the cited evidence does not contain {words}, which the expectation names",
            f"Your quotes do not contain {words}. Quote the lines that do, or answer fail.",
            "literal_not_cited",
        )

    def _uncalled(self, expectation: Expectation, carrying: Sequence[Quote]) -> Decision | None:
        """The decision where a tool that the expectation names was not called, or none of its calls is cited.

        Only the gate writes which tool a call was of. That its name stands in what some other tool was given or printed
        shows nothing.
        """
        called = {self._tool(block) for block in self._blocks.values() if block.kind == "tool_calls"}
        cited = {self._tool(block) for quote in carrying if (block := self._block(quote)) is not None}
        for item in literals(expectation):
            named = {
                tool for tool in self._tools for option in item.options if option in (tool, tool.rsplit("__", 1)[-1])
            }
            if not named or named & cited:
                continue
            words = " or ".join(item.options)
            if not named & called:
                return Decision(GradeStatus.FAILED, f"the record holds no call of {words}", "", "forced_fail_uncalled")
            return Decision(
                GradeStatus.UNGRADED,
                f"none of the cited tool calls is a call of {words}",
                f"Quote a line of the call of {words} itself, or answer fail.",
                "call_not_cited",
            )
        return None

    def _unmade(self, expectation: Expectation) -> Decision | None:
        """The decision where a file is said to be made, and nothing but the agent's own words knows of it."""
        names = [name for item in literals(expectation) for name in item.options if _FILE.fullmatch(name)]
        if not names or not makes_a_file(expectation.text) or self._cut:
            return None
        known = [text for block in self._blocks.values() if _is_deed(block) for text in (block.text, block.title)]
        known += self._made
        if any(name.rsplit("/", 1)[-1].casefold() in text.casefold() for name in names for text in known):
            return None
        words = " or ".join(names)
        return Decision(
            GradeStatus.FAILED,
            f"the run left no file {words}, and no call names it",
            "",
            "forced_fail_unmade",
        )

    def _only_printed(self, expectation: Expectation) -> Decision | None:
        """The decision where what is said to have been run stands only in what a command was told to print."""
        if about_printing(expectation.text):
            return None
        calls = [block for block in self._blocks.values() if self._tool(block)]
        for item in literals(expectation):
            named = any(option in (tool, tool.rsplit("__", 1)[-1]) for tool in self._tools for option in item.options)
            if named or not any(character.isalpha() for option in item.options for character in option):
                continue
            holding = [block for block in calls if Evidence([block.text]).holds(item)]
            if holding and all(_prints(block, item) for block in holding):
                return Decision(
                    GradeStatus.FAILED,
                    f"{' or '.join(item.options)} stands only in what a command was told to print",
                    "",
                    "forced_fail_printed",
                )
        return None

    def _tool(self, block: Block) -> str:
        """The tool of a call's block, from the gate's own title of it; a reported result is no call."""
        found = _TITLE.fullmatch(block.title) if block.kind == "tool_calls" and block.tier is Tier.TOOL_CALLS else None
        return found[1] if found else ""

    def _unproven(self, quotes: Sequence[Quote], tiers: frozenset[int]) -> Decision:
        accepted = [quote for quote in quotes if quote.verdict.accepted]
        if quotes and all(quote.verdict is QuoteVerdict.NOTES_ONLY or quote.tier == 3 for quote in quotes):
            return Decision(
                GradeStatus.FAILED,
                "the only evidence is what the agent said about itself",
                "Notes of the agent are no evidence. Quote a tool call, the response or an output, or answer fail.",
                "forced_fail_notes",
            )
        if accepted or (tiers == {1} and any(quote.verdict is QuoteVerdict.WRONG_SOURCE for quote in quotes)):
            return Decision(
                GradeStatus.FAILED,
                "no verified quote from a tool call, which an expectation about what was called or run needs",
                "It is about what was called or run. Quote a tool_calls block, or answer fail.",
                "forced_fail_source",
            )
        return Decision(
            GradeStatus.FAILED,
            "no verified quote",
            "None of your quotes stands in the named block word for word. Copy from one line, or answer fail.",
            "forced_fail_quote",
        )

    def rests_on_what_speaks(self, expectation: Expectation, quotes: Sequence[Quote]) -> bool:
        """Whether a pass must stand without the lines that speak to a judge, too: unless the expectation is about such
        text, or a quote holds what it names word for word."""
        if about_judging(expectation.text):
            return False
        named = literals(expectation)
        own = Evidence([quote.text for quote in quotes if quote.verdict.accepted])
        return not (named and all(own.holds(item) for item in named))

    def from_response(self, quote: Quote) -> bool:
        """Whether a quote is from the agent's final answer."""
        block = self._block(quote)
        return block is not None and block.kind == "response"

    def _block(self, quote: Quote) -> Block | None:
        named = _BLOCK.search(quote.source)
        return self._blocks.get(int(named[1])) if named else None

    def _title(self, quote: Quote) -> str:
        """The gate's own title of the cited block: the tool or the file that a literal may name."""
        block = self._block(quote)
        return block.title if block else ""

    def _whole(self) -> Evidence:
        if self._record is None:
            shown = for_a_judge(tuple(self._blocks.values()))
            self._record = Evidence([part for block in shown for part in (block.text, block.title)])
        return self._record


def _is_deed(block: Block) -> bool:
    """Whether a block shows something done: a call, or a file that was made; not what the agent says of itself."""
    return block.tier is not Tier.NOTES and block.kind in ("tool_calls", "outputs")


def _prints(block: Block, item: Literal) -> bool:
    """Whether a call names something only as a text to print. Whatever could be more than that is no printing: a line that
    is written to a file or handed on, a document in the line, a program that prints by itself."""
    line = _command(block)
    if not any(option.casefold() in line.casefold() for option in item.options) or re.search(r"[|>]|<<|`|\$\(", line):
        return False
    commands = simple_commands(line)
    if commands is None:
        return False
    # Any other command of the line could have run it, and its output could say so.
    return all(words[0].rsplit("/", 1)[-1] in _HARMLESS for words in commands)


def _command(block: Block) -> str:
    """The shell line of a call, or nothing."""
    args = next((line for line in block.text.split("\n")[:3] if line.startswith("Args: ")), "")
    try:
        value = json.loads(args.removeprefix("Args: "))
    except ValueError:
        return ""
    line = value.get("command") if isinstance(value, dict) else None
    return line if isinstance(line, str) else ""


def _is_for_a_judge(quote: Quote, expectation: Expectation) -> bool:
    """Whether a quote is of text that was put there for a judge.

    A quote that holds what the expectation names and is harmless itself counts, whatever else its line says: a page that
    an agent read may hold anything.
    """
    if about_judging(expectation.text):
        return False
    if speaks_to_judges(quote.text):
        return True
    named = literals(expectation)
    own = Evidence([quote.text])
    if named and any(own.holds(item) for item in named):
        return False
    return len(quote.expanded) <= _LONG_LINE and speaks_to_judges(quote.expanded)
