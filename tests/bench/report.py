"""``python -m tests.bench.report``. The page of 60 skills with 20 cases each, as a reader's browser meets it: until it is
loaded, until a filter has hidden what it does not ask for and the rest is laid out again, and what it asks of the network.
Every case has cited lines of its record in three arms, and answers of 4 KB with emoji and Chinese side by side as far as the
room for answers that a report has goes. The naive page is the same without the rules that let a browser leave out what is not
on the screen. Beside it the length of the comment.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate.domain.base import Severity
from gate.domain.forge import COMMENT_CHARACTERS
from gate.domain.plan import Arm
from gate.domain.report import (
    Citation,
    CitedBlock,
    CitedLine,
    GateReport,
    GradedRow,
    RunEvidence,
    SkillReport,
)
from gate.evidence.cited import ANSWER_CHARACTERS, ANSWERS_CHARACTERS
from reporters.comment import render as render_comment
from reporters.html import render as render_page
from tests.bench._figures import figure, last_line, table
from tests.bench._performance import write_table
from tests.builders_report import sample_report
from tests.webdriver import Browser, browser

NAME = "report"
LOAD_MS, FILTER_MS = 1000.0, 100.0
_LINE = "数据 2,150 件 ✅ shipped to Łódź, see ticket #17 and `out/clean.csv` 🚚; "
_FILTER = """
const field = document.getElementById("filter");
const begun = performance.now();
field.value = arguments[0];
field.dispatchEvent(new Event("input"));
document.body.getBoundingClientRect();
return performance.now() - begun;
"""
_LOADED = "const it = performance.getEntriesByType('navigation')[0]; return it.loadEventEnd || it.domComplete;"
_ASKED = "return performance.getEntriesByType('resource').length;"


def large_report(skills: int, cases: int) -> GateReport:
    """A report of so many skills and cases, each with answers and cited lines."""
    sample = sample_report()
    kinds = [skill for skill in sample.skills if skill.cases]
    room = ANSWERS_CHARACTERS // skills // ANSWER_CHARACTERS
    made = tuple(_skill(kinds[at % len(kinds)], at, cases, room) for at in range(skills))
    return sample.model_copy(update={"skills": made})


def _skill(like: SkillReport, at: int, cases: int, answers: int) -> SkillReport:
    slug = f"skills-team-{at}"
    listed = tuple(
        like.cases[number % len(like.cases)].model_copy(
            update={"eval_id": str(number), "folder": f"skills/{slug}/eval-{number}", "name": f"case {number} 案例"}
        )
        for number in range(cases)
    )
    evidence = tuple(
        _evidence(case.folder, case.eval_id, arm, answer=2 * number < answers)
        for number, case in enumerate(listed)
        for arm in (Arm.WITH_SKILL, Arm.WITHOUT_SKILL, Arm.BASE_SKILL)
    )
    return like.model_copy(
        update={"path": f"skills/team/{at}", "slug": slug, "name": f"team-{at}", "cases": listed, "evidence": evidence}
    )


def _evidence(case_folder: str, eval_id: str, arm: Arm, *, answer: bool) -> RunEvidence:
    text = _LINE * (4000 // len(_LINE))
    lines = tuple(CitedLine(number=number, text=_LINE, marks=((0, 9),) if number == 2 else ()) for number in (1, 2, 3))
    return RunEvidence(
        eval_id=eval_id,
        arm=arm,
        run=1,
        folder=f"{case_folder}/run-1/{arm.value}",
        rows=(
            GradedRow(
                number=0,
                kind="expectation",
                id="e1",
                severity=Severity.SHOULD,
                text="Every shipment has its city",
                status="passed",
                reason="quoted",
                cites=(Citation(block="B003", line=2, accepted_as="T0"),),
            ),
        ),
        blocks=(CitedBlock(id="B003", tier=1, kind="response", title="response", total_lines=3, lines=lines),),
        answer=text.replace("; ", ";\n") + arm.value if answer and arm is not Arm.BASE_SKILL else None,
    )


def naive_page(page: str) -> str:
    """The page without ``content-visibility``, its policy adapted to the changed style sheet."""
    found = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert found is not None
    changed = re.sub(r"content-visibility: auto; contain-intrinsic-size: [^;]+;", "", found[1])
    assert changed != found[1]
    digests = [base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in (found[1], changed)]
    return page.replace(found[1], changed).replace(digests[0], digests[1])


def measure(window: Browser, page: Path, rounds: int) -> dict[str, Any]:
    """Medians in milliseconds, and how many requests the page made."""
    loads, filters = [], []
    for _ in range(rounds):
        window.open(f"file://{page}")
        loads.append(float(window.run(_LOADED)))
        filters += [float(window.run(_FILTER, text)) for text in ("team/7", "", "案例 19")]
    return {"load": statistics.median(loads), "filter": statistics.median(filters), "asked": window.run(_ASKED)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{NAME}", description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args(arguments).small
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        print("not measured: there is no chromium with its chromedriver here")
        return 2
    report = large_report(*((6, 5) if small else (60, 20)))
    page = render_page(report)
    comment = len(render_comment(report))
    found = {}
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as window:
        window.resize(1280, 900)
        for name, text in (("gate", page), ("naive", naive_page(page))):
            file = Path(folder) / f"{name}.html"
            file.write_text(text, encoding="utf-8")
            found[name] = measure(window, file, 1 if small else 5)
    head = ["page", "MB", "loaded after ms", "filtered after ms", "requests"]
    rows = [
        [name, f"{len(page.encode()) / 1e6:.1f}", f"{item['load']:.0f}", f"{item['filter']:.1f}", str(item["asked"])]
        for name, item in found.items()
    ]
    print(table(head, rows))
    print(f"comment: {comment} characters")
    if not small:
        write_table(NAME, "What the page costs its reader", (__doc__ or "").split("``. ", 1)[1], head, rows)
    gate, naive = found["gate"], found["naive"]
    if gate["asked"]:
        print(f"not measured: the page made {gate['asked']} requests")
        return 2
    n = len(report.skills)
    print(last_line([
        figure("report_load", gate["load"], "ms", n=n, goal=f"<= {LOAD_MS:.0f}", ok=gate["load"] <= LOAD_MS, baseline=naive["load"]),
        figure("report_filter", gate["filter"], "ms", n=n, goal=f"<= {FILTER_MS:.0f}", ok=gate["filter"] <= FILTER_MS, baseline=naive["filter"]),
        figure("report_comment", comment, "characters", n=n, goal=f"<= {COMMENT_CHARACTERS}", ok=comment <= COMMENT_CHARACTERS),
    ]))  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
