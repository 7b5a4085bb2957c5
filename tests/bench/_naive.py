"""What a gate would do that takes a quote for found where it is nearly found: the naive variant beside the benches."""

from __future__ import annotations

import numpy as np


class Fuzzy:
    """A text in which quotes are looked up with some per cent of likeness."""

    def __init__(self, text: str) -> None:
        self._codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self._places = np.arange(len(self._codes) + 1, dtype=np.int32)

    def likeness(self, quote: str) -> float:
        """100 * (1 - edits / length) of the most alike part of the text (Sellers' alignment, unit costs)."""
        row = np.zeros(len(self._codes) + 1, dtype=np.int32)
        for number, code in enumerate(
            quote.encode("utf-32-le", "surrogatepass")[i : i + 4] for i in range(0, 4 * len(quote), 4)
        ):
            best = np.empty_like(row)
            best[0] = number + 1
            differs = self._codes != np.frombuffer(code, dtype=np.uint32)[0]
            np.minimum(row[:-1] + differs, row[1:] + 1, out=best[1:])
            # Left to right: each place may also be reached from the one before it at the cost of one edit a step.
            row = np.minimum.accumulate(best - self._places) + self._places
        return 100 * (1 - int(row.min()) / len(quote)) if quote else 100.0
