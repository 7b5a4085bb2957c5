"""Every stage in order, and the one loop. ``sessions`` is the table of contents of the program; it ends at a GateReport."""

from gate.pipeline.deciding import decide, write_benchmarks
from gate.pipeline.sessions import make_plan, merge, run, run_shard
from gate.pipeline.world import World

__all__ = ["World", "decide", "make_plan", "merge", "run", "run_shard", "write_benchmarks"]
