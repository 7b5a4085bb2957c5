"""What a call cost, from genai-prices' table as it was installed. Nothing is fetched."""

from __future__ import annotations

from datetime import UTC, datetime

from gate.domain.chat import TokenUsage
from gate.llm.ledger import Price

_PRICED = ("anthropic", "openai")


def price_table(run_date: str) -> Price:
    """``price_of`` frozen at a run date (ISO): a replay on another day gives the same figures."""
    at = datetime.fromisoformat(run_date).replace(tzinfo=UTC)
    return lambda model_name, usage: price_of(model_name, usage, at=at)


def price_of(model_name: str, usage: TokenUsage, *, at: datetime | None = None) -> float | None:
    """US dollars for one call of ``provider:model`` at list price; None where the table does not know it.

    Servers at an address of their own (``openai@…``) have no list price: None, never zero. ``at`` is when the call was
    made (prices change); None is now. What is read from a prompt cache, or written into one, has its own price.
    """
    provider, _, model = model_name.partition(":")
    provider = provider.removesuffix("-responses")
    if provider not in _PRICED or not model:
        return None
    from genai_prices import Usage, calc_price

    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    tokens = Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=written,
    )
    try:
        price = calc_price(tokens, model, provider_id=provider, genai_request_timestamp=at)
    except LookupError:
        return None
    return float(price.total_price)
