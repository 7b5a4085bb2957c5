"""Run one bench as ``make bench`` does, and keep its figures for the table of docs/trust.md.

    python -m tests.bench._run NAME

What the bench prints is printed. Ends as the bench does; its figures are kept only where it could measure.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Sequence

from tests.bench import _trust


class _Tee(io.TextIOBase):
    """Standard output that is remembered."""

    def __init__(self) -> None:
        self.lines = io.StringIO()

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)  # type: ignore[union-attr]
        return self.lines.write(text)

    def flush(self) -> None:
        sys.__stdout__.flush()  # type: ignore[union-attr]


def main(arguments: Sequence[str] | None = None) -> int:
    (name,) = sys.argv[1:] if arguments is None else arguments
    tee = _Tee()
    with contextlib.redirect_stdout(tee):
        code = importlib.import_module(f"tests.bench.{name}").main([])
    if code == 0 and name in _trust.GOALS:
        last = json.loads(tee.lines.getvalue().strip().splitlines()[-1])
        _trust.keep_figures(name, last if isinstance(last, list) else [last])
        _trust.write_summary()
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
