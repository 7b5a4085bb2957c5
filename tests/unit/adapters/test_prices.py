from __future__ import annotations

import pytest

from gate.adapters.prices import price_of, price_table
from gate.domain.chat import TokenUsage

USAGE = TokenUsage(input_tokens=1_000_000, output_tokens=100_000)


def test_list_prices_are_known_for_public_models() -> None:
    # List prices of 2025: gpt-4o 2.50 $ in and 10 $ out a million tokens, claude-sonnet-4-5 3 $ and 15 $.
    price = price_table("2025-12-01")
    assert price("openai:gpt-4o", USAGE) == pytest.approx(2.5 + 1.0)
    assert price("anthropic:claude-sonnet-4-5", USAGE.model_copy(update={"input_tokens": 100_000})) == pytest.approx(
        1.8
    )


def test_cached_tokens_cost_less_and_never_nothing() -> None:
    cached = USAGE.model_copy(update={"cached_tokens": 400_000})
    full, less = price_of("openai:gpt-4o", USAGE), price_of("openai:gpt-4o", cached)
    assert full is not None
    assert less is not None
    assert 0 < less < full


def test_more_cached_than_input_tokens_are_no_reason_to_fail() -> None:
    assert price_of("openai:gpt-4o", TokenUsage(input_tokens=10, output_tokens=1, cached_tokens=50)) is not None


@pytest.mark.parametrize(
    "name", ["openai:no-such-model", "openai@http://127.0.0.1/v1:gpt-4o", "openai@server-1:gpt-4o", "replay:x", "x", "openai:"]
)  # fmt: skip
def test_a_price_that_is_not_known_is_unknown_and_not_zero(name: str) -> None:
    assert price_of(name, USAGE) is None


def test_what_is_written_into_a_prompt_cache_has_its_own_price() -> None:
    plain, read, written = (
        price_of(
            "anthropic:claude-sonnet-4-5", TokenUsage(input_tokens=1000, cached_tokens=cached, cache_write_tokens=new)
        )
        for cached, new in ((0, 0), (1000, 0), (0, 1000))
    )
    assert plain is not None
    assert read is not None
    assert written is not None
    assert read < plain < written
