"""Layer 2a, ground truth: exact checks over sealed evidence. No model, no network, no clock (R9, R10, R30)."""

from gate.judging.ground_truth.run import check_run

__all__ = ["check_run"]
