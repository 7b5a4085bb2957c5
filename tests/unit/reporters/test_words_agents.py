"""What an agent program's runs count beside fallbacks is none."""

from __future__ import annotations

from gate.domain.base import FallbackCount
from reporters import words


def test_runs_of_an_agent_program_and_its_side_calls_are_counted_and_are_no_fallbacks() -> None:
    counts = [
        FallbackCount(kind="agent_program claude-code 2.1.197 (sha256 0123456789ab)", count=4),
        FallbackCount(kind="gateway_side_call", role="executor", count=9),
        FallbackCount(kind="gateway_tool_stripped", role="executor", count=2),
    ]
    assert words.fallback_total(counts) == 2
    assert words.fallback_words(counts[0]) == "agent_program claude-code 2.1.197 (sha256 0123456789ab): 4"
