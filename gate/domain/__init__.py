"""Frozen values that the stages hand on. No I/O, no clock, no randomness of their own."""
