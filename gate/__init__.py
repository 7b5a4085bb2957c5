"""Skill Gate: evidence, before a changed Agent Skill is merged.

The way through: intake -> planning -> execution -> judging -> decision -> reporting. ``gate.pipeline`` is its table of
contents; ``gate.wiring`` is the only place that binds adapters to the seams in ``gate.protocols``.
"""

__version__ = "0.1.0"
