"""Anybody can check what the gate said: offline, from a bundle alone."""
