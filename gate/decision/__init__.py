"""From what the layers found to a verdict per skill and a state of the gate. Pure functions: no model, no I/O, no clock."""
