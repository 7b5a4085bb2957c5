"""J22: honest words. What every rendered comment must say about a skill that was measured, and what none may say.

It reads the text that people read, not the report behind it.
"""

from __future__ import annotations

import re

MEASURED = ("PASS", "CONDITIONAL", "FAIL", "INCONCLUSIVE")
FORBIDDEN = {
    "no regression": r"\bno regressions?\b(?![^.\n]{0,40}\bMDE\b)",
    "guaranteed": r"\bguarantee[sd]?\b",
    "proven": r"\bproves? that the skill\b|\bproven to\b",
    "all good": r"\b(?:looks good|all good|perfect)\b",
}
NEEDED = {
    "n and R": r"\b\d+ cases? x (?:\d+ to )?\d+ runs?\b",
    "an interval": r"\b95 % interval \d\.\d\d to \d\.\d\d\b",
    "the MDE": r"drop under \d\.\d\d \(MDE\) would not be seen",
    "judge health": r"controls answered|judge health unknown|no judge needed|stored calibration of",
    "what was not tested": r"Not tested",
    "figures with counts": r"\b\d+/\d+\b",
}
SESSION = {
    "a fallback count": r"Fallbacks: \d+",
    "the cost": r"^Cost: .*(?:\$|&#36;)\d|^Cost: .*unknown|^Cost: no model was called",
    "what the next push costs": r"^Cost: .*next push|^Cost: no model was called",
    "who can check it": r"Check it yourself",
}


def lint(comment: str) -> list[str]:
    """What is wrong, as sentences; nothing for an honest comment."""
    problems = [
        f"says {found[0]!r}" for pattern in FORBIDDEN.values() if (found := re.search(pattern, comment, re.IGNORECASE))
    ]
    problems += [f"lacks {what}" for what, pattern in SESSION.items() if not re.search(pattern, comment, re.MULTILINE)]
    details = re.findall(r"<details><summary>([A-Z ]+): (.*?)</summary>\n(.*?)\n</details>", comment, re.DOTALL)
    for verdict, path, body in details:
        if verdict in MEASURED:
            problems += [f"{path} lacks {what}" for what, pattern in NEEDED.items() if not re.search(pattern, body)]
    named = {path for _, path, _ in details}
    rows = re.findall(r"^\| `([^`]+)` \| \*\*(PASS|CONDITIONAL|FAIL|INCONCLUSIVE)\*\*", comment, re.MULTILINE)
    problems += [f"{path} has a verdict and no details" for path, _ in rows if path not in named]
    return problems
