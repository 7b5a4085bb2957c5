from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = """
import json, threading
from gate.domain.findings import Finding, Level
from gate.domain.plan import Plan
from gate.domain.report import GateReport
barrier, found = threading.Barrier(16), []
def use():
    barrier.wait()
    try:
        Finding.model_validate({"rule": "a/b", "level": "notice", "path": ".", "message": "m"}).to_json()
        Plan.model_json_schema()
        GateReport.model_validate({})
    except Exception as error:
        found.append(type(error).__name__)
threads = [threading.Thread(target=use) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(found))
"""


def test_values_can_be_used_for_the_first_time_by_many_threads_at_once() -> None:
    """What checks a value is built at its first use (``Value``), and services and sessions have threads."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == ["ValidationError"] * 16, done.stderr
