"""Layer 1: runs in sandboxes, recorded by the gate, sealed when they end."""
