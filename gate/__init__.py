"""Skill Gate: evidence, before a changed Agent Skill is merged.

The way through: intake -> planning -> execution -> judging -> decision -> reporting. ``gate.pipeline`` is its table of
contents; ``gate.wiring`` is the only place that binds adapters to the seams in ``gate.protocols``.
"""

import gc
import os

# Nearly all that a start makes stays: looking through it every 700 objects for what could go takes a twentieth of the time.
gc.set_threshold(20_000, 20, 20)
# pydantic asks every installed package whether it adds to the checking of values: whoever else is installed beside the gate
# has no say in it, and asking takes a tenth of a start.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"

__version__ = "0.1.0"
