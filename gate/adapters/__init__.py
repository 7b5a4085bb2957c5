"""Bindings of the seams to the outside world: engines, providers, Git, forges. Only ``gate.wiring`` imports them."""
