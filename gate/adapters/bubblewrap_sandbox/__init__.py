"""Sandboxes by bubblewrap, for a laptop without a container engine. Weaker than a container, and says so."""

from gate.adapters.bubblewrap_sandbox.sandbox import BubblewrapSandbox

__all__ = ["BubblewrapSandbox"]
