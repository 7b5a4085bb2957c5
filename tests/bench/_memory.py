"""Peak memory of this process, by the kernel's own account."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Peak:
    """How far memory went up while the block ran."""

    megabytes: float = 0.0


def resident_bytes() -> int:
    """Resident memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@contextlib.contextmanager
def peak_above() -> Iterator[Peak]:
    """The most that was resident in the block, above what was before it.

    Looked at every few milliseconds: the kernel's own high-water mark can only be reset where /proc/self/clear_refs can be
    written, and what lasts shorter than that is not what a machine runs out of.
    """
    found, over, before = Peak(), threading.Event(), resident_bytes()

    def watch() -> None:
        highest = before
        while not over.is_set():
            highest = max(highest, resident_bytes())
            found.megabytes = (highest - before) / 1e6
            time.sleep(0.005)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
