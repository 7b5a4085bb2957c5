"""Layers 2a, 2b and 3: what the record shows, what a grader can prove from it, and how two outputs compare."""
