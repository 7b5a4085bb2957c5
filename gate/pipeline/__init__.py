"""Every stage in order, and the one loop (``measuring``). ``sessions`` is the table of contents; it ends at a GateReport."""

from gate.pipeline.deciding import decide, decided
from gate.pipeline.past import history_with, read_past
from gate.pipeline.sessions import make_plan, merge, run, run_shard
from gate.pipeline.world import World

__all__ = [
    "World",
    "decide",
    "decided",
    "history_with",
    "make_plan",
    "merge",
    "read_past",
    "run",
    "run_shard",
]
