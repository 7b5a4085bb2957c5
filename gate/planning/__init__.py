"""From what was found to what will be done: Layer 0, modes, plan."""

from gate.planning.dispatch import detect_type
from gate.planning.plan import confirm_requests, fill_requests, plan_session, planned_requests

__all__ = ["confirm_requests", "detect_type", "fill_requests", "plan_session", "planned_requests"]
