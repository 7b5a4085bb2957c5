"""What code makes of a grader's row. The one place where an expectation can become PASSED."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gate.domain.evidence import Block, Tier
from gate.domain.judgement import GradeStatus, Quote, QuoteVerdict
from gate.domain.suite import Expectation
from gate.judging.expectations import TOOL_CALLS_ONLY, Evidence, allowed_tiers, literals
from gate.judging.showing import for_a_judge

_BLOCK = re.compile(r"[Bb](\d{1,6})")
_TITLE = re.compile(r"Step \d+: (.+)")


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

    def __init__(self, blocks: Sequence[Block], tools: Sequence[str], *, cut: bool) -> None:
        """``blocks``: all of the record. ``tools``: names of tools of this run. ``cut``: the grader saw a part only."""
        self._blocks = {int(block.id[1:]): block for block in blocks}
        self._tools = tuple(tools)
        self._cut = cut
        self._record: Evidence | None = None

    def tiers(self, expectation: Expectation) -> frozenset[int]:
        """Source tiers that can carry a pass of this expectation."""
        return allowed_tiers(expectation.text, self._tools)

    def decide(self, expectation: Expectation, said: Said, quotes: Sequence[Quote]) -> Decision:
        """PASSED only with the grader's pass, an accepted quote of an allowed tier, and the literals in the evidence.

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
        evidence = Evidence([part for quote in carrying for part in (quote.expanded, self._title(quote))])
        missing = [item for item in literals(expectation) if not evidence.holds(item)]
        if not missing:
            uncalled = self._uncalled(expectation, carrying) if tiers == TOOL_CALLS_ONLY else None
            if uncalled:
                return uncalled
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
