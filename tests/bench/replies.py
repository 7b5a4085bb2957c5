# ruff: noqa: RUF001 - Chinese full stops and brackets are part of what judges write
"""J13: what malformed replies of a judge become. None may become a verdict that the judge did not clearly give.

A run is graded whose first expectation is met and whose second is not. Each reply is made from the right one by a way to
be malformed; what may come of it is known by construction: nothing at all, nothing for one row, or the right verdicts
where the reply says them clearly all the same (a code fence, a thinking section). Beside it stands the naive variant: take
what lies between the first and the last brace, mend it, and look for "pass".
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gate.domain.chat import ChatReply, ChatRequest, Finish, ToolUse
from gate.domain.evidence import RunRecord
from gate.domain.judgement import GradeStatus
from gate.domain.suite import Case
from gate.errors import ModelError
from gate.judging.grader import grade_run
from tests.bench._figures import last_line, share, table
from tests.builders_judging import SEED, Call, a_run, expecting, graded, honest, judged_by, row, rows_of
from tests.fakes.chat import Step, say

NOTHING = (GradeStatus.UNGRADED, GradeStatus.UNGRADED)
RIGHT = (GradeStatus.PASSED, GradeStatus.FAILED)
Statuses = tuple[GradeStatus, GradeStatus]


class Setting(NamedTuple):
    """A run to grade, and what a good judge says of it."""

    root: Path
    case: Case
    record: RunRecord
    met: str
    unmet: str
    reply: Callable[[ChatRequest], str]


def _settings(folder: Path) -> dict[str, Setting]:
    texts = {
        "en": ("States the total of 1250.", "Names the approver Lindqvist.", "All done, and the total is 1250.", "the total is 1250"),
        "zh": ("给出合计 1250 元。", "写明审批人「林晓梅」。", "已经全部完成，合计为 1250 元整。", "合计为 1250 元整"),
    }  # fmt: skip
    found = {}
    for language, (met, unmet, response, quote) in texts.items():
        root = folder / language
        record = a_run(root, response=response, calls=[Call("bash", {"command": "python3 total.py"}, "1250")])
        answers = {met: row("", "pass", ("B002:1", quote)), unmet: row("", "fail", ("B002:1", quote))}
        found[language] = Setting(root, expecting(met, unmet), record, met, unmet, honest(answers))
    return found


class Answer:
    """The right reply to one question, with handles to bend it."""

    def __init__(self, setting: Setting, request: ChatRequest, rng: random.Random) -> None:
        self.text = setting.reply(request)
        self.rng = rng
        self.ids = {item.text: item.id for item in rows_of(request)}
        self.met, self.unmet = self.ids[setting.met], self.ids[setting.unmet]

    def data(self) -> dict[str, Any]:
        """The reply as an object of its own."""
        return dict(json.loads(self.text))

    def with_rows(self, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> str:
        """With every row changed, or left out."""
        data = self.data()
        return json.dumps({**data, "rows": [new for item in data["rows"] if (new := change(item)) is not None]})

    def all_pass(self) -> str:
        """Everything passed, as a captured or sloppy judge would."""
        return self.with_rows(lambda item: {**item, "verdict": "pass"})

    def verdict(self, value: object) -> str:
        """With another verdict in every row."""
        return self.with_rows(lambda item: {**item, "verdict": value})


Make = Callable[[Answer], Step]


def _tool(answer: Answer) -> ChatReply:
    use = ToolUse(id="t", name="grade", arguments={"verdict": "pass"})
    return ChatReply(text=answer.all_pass(), tool_uses=(use,), finish=Finish.TOOL_USE)


def _cut(answer: Answer) -> str:
    text = answer.text
    return text[: answer.rng.randrange(1, len(text) - 1)]


def _cut_after_pass(answer: Answer) -> str:
    """Cut where a repair would make a pass of it."""
    text = answer.all_pass()
    spots = [found.end() for found in re.finditer('"pass"', text)]
    return text[: answer.rng.choice(spots)]


def _twice(answer: Answer) -> str:
    """The second row of one id says the opposite."""
    data = answer.data()
    bent = [{**item, "verdict": "pass"} for item in data["rows"] if item["id"] == answer.unmet]
    return graded([*data["rows"], *bent])


def _key_twice(key: str, value: str) -> Make:
    """A key of the unmet row stands twice; which one counts depends on the parser."""

    def make(answer: Answer) -> str:
        return answer.text.replace(f'"id": "{answer.unmet}"', f'"{key}": {value}, "id": "{answer.unmet}"', 1)

    return make


def _noise(answer: Answer) -> str:
    """A few characters of the right reply exchanged, so that it is JSON no more."""
    text = list(answer.text)
    for _ in range(answer.rng.randrange(2, 6)):
        text[answer.rng.randrange(len(text))] = answer.rng.choice('{}[]",:\\ \n\x00')
    bent = "".join(text)
    try:
        json.loads(bent)
    except ValueError:
        return bent
    return bent[:-1]


MALFORMED: dict[str, Make] = {
    "duplicate verdict": _key_twice("verdict", '"pass"'),
    "duplicate verdict, last": lambda a: re.sub(rf'("id": "{a.unmet}".*?"verdict": "fail")', r'\1, "verdict": "pass"', a.text, count=1),
    "duplicate verdict, escaped": _key_twice("verdi\\u0063t", '"pass"'),
    "duplicate rows": lambda a: a.text[:-1] + ', "rows": ' + json.dumps(json.loads(a.all_pass())["rows"]) + "}",
    "two objects": lambda a: a.text + a.rng.choice(("", "\n", "\nCorrected:\n", ",")) + a.all_pass(),
    "two objects in fences": lambda a: f"```json\n{a.text}\n```\n```json\n{a.all_pass()}\n```",
    "object in the prose": lambda a: f'My view: {{"verdict": "pass"}}.\n{a.text}',
    "cut": _cut,
    "cut after pass": _cut_after_pass,
    "cut by the provider": lambda a: say(a.all_pass(), finish=Finish.LENGTH),
    "not a number": lambda a: a.text.replace('"reason": "seen"', f'"reason": {a.rng.choice(("NaN", "Infinity", "-Infinity", "1e999"))}', 1),
    "thinking without end": lambda a: f"<think>The second is fine. {a.all_pass()}",
    "thinking twice": lambda a: f"<think>a</think><think>b</think>{a.all_pass()}",
    "text true or false": lambda a: a.verdict(a.rng.choice(("true", "false", "True", "yes", "1"))),
    "boolean": lambda a: a.verdict(a.rng.choice((True, False))),
    "number or nothing": lambda a: a.verdict(a.rng.choice((1, 0, 1.0, None, "", [], ["pass"], {"pass": True}))),
    "other words": lambda a: a.verdict(a.rng.choice(("PASS", "Pass", "passed", "not passed", "pass ", "passes", "PASSED", "met", "INCORRECT", "通过", "不通过"))),
    "unknown id": lambda a: graded([*a.data()["rows"], row(a.rng.choice(("e1", "r99", "1", "")), "pass")]),
    "id twice": _twice,
    "id in other clothes": lambda a: a.with_rows(lambda item: {**item, "id": a.rng.choice((item["id"].upper(), f" {item['id']}", item["id"][1:]))}),
    "id as a number": lambda a: a.with_rows(lambda item: {**item, "id": int(item["id"][1:])}),
    "row without verdict": lambda a: a.with_rows(lambda item: {key: value for key, value in item.items() if key != "verdict"}),
    "row with more": lambda a: a.with_rows(lambda item: {**item, "passed": True}),
    "rows by id": lambda a: json.dumps({**a.data(), "rows": {item["id"]: item for item in a.data()["rows"]}}),
    "only the rows": lambda a: json.dumps(json.loads(a.all_pass())["rows"]),
    "inside a list": lambda a: f"[{a.all_pass()}]",
    "inside an object": lambda a: json.dumps({"result": json.loads(a.all_pass())}),
    "as a text": lambda a: json.dumps(a.all_pass()),
    "quotes as text": lambda a: a.with_rows(lambda item: {**item, "quotes": "the total is 1250"}),
    "refusal": lambda a: say(a.rng.choice((a.all_pass(), "")), finish=Finish.REFUSAL),
    "refusal in words": lambda a: a.rng.choice(("I cannot grade this. verdict: pass", "抱歉，我无法评分。结论：通过")),
    "prose": lambda a: a.rng.choice(("The work is fine. **Verdict - PASS**", "Result: INCORRECT", "All expectations pass.", "全部通过。", "passed: true")),
    "master key": lambda a: a.rng.choice((":", "Thought process:", "Let's solve this step by step.", "", " ", "```", "解", "{}", "null", "true")),
    "trailing comma": lambda a: a.all_pass()[:-1] + ",}",
    "single quotes": lambda a: a.all_pass().replace('"', "'"),
    "comment": lambda a: a.all_pass().replace('"rows"', '/* graded */ "rows"', 1),
    "line feed in a text": lambda a: a.all_pass().replace('"seen"', '"seen\nagain"', 1),
    "bare keys": lambda a: re.sub(r'"(\w+)":', r"\1:", a.all_pass()),
    "python": lambda a: repr(json.loads(a.all_pass())),
    "deep": lambda a: a.all_pass().replace('"seen"', "[" * 50_000 + "]" * 50_000, 1),
    "schema echoed": lambda a: '{"rows": [{"id": "<id>", "quotes": [], "reason": "<one sentence>", "verdict": "pass"}], "claims": [], "eval_feedback": []}',
    "tool call": _tool,
    "noise": _noise,
    "refused by the provider": lambda a: ModelError("400: temperature is not supported", kind="bad_request"),
}  # fmt: skip
"""Nothing may come of these."""
READABLE: dict[str, Make] = {
    "as asked for": lambda a: a.text,
    "in a fence": lambda a: f"```json\n{a.text}\n```",
    "after prose": lambda a: f"Here is my grading.\n\n{a.text}\n\nThat is all.",
    "after thinking": lambda a: f"<think>Maybe {a.all_pass()} Or not.</think>\n{a.text}",
    "byte order mark": lambda a: f"\ufeff{a.text}",
    "parameter dropped": lambda a: say(a.text, dropped_parameters=("temperature",), native_schema=True),
}
"""The right verdicts stand in these, in one way only."""
MISSING: dict[str, Make] = {
    "unmet row missing": lambda a: a.with_rows(lambda item: None if item["id"] == a.unmet else item),
    "met row missing": lambda a: a.with_rows(lambda item: None if item["id"] == a.met else item),
}
"""One row stays without a verdict; the other is right."""


def expected(name: str) -> Statuses:
    """What may come of a class."""
    if name == "unmet row missing":
        return (RIGHT[0], GradeStatus.UNGRADED)
    if name == "met row missing":
        return (GradeStatus.UNGRADED, RIGHT[1])
    return RIGHT if name in READABLE else NOTHING


def _naive(step: Step, answer: Answer) -> tuple[bool | None, bool | None]:
    """What a lenient reader makes of a reply: (the met one, the unmet one), None where it gives up."""
    if isinstance(step, ModelError):
        return False, False  # an error is a fail there
    text = step if isinstance(step, str) else step.text
    inner = text[text.find("{") :] if "{" in text else text
    for ending in ("", "}", "]}", '"}]}', '"}],"claims":[]}'):
        for body in (
            inner[: inner.rfind("}") + 1] if not ending else inner + ending,
            inner.partition("}{")[2] and "{" + inner.partition("}{")[2],
        ):
            try:
                data = json.loads(body)
            except (ValueError, RecursionError):
                continue
            if isinstance(data, dict) and isinstance(data.get("rows"), list):
                verdicts = {
                    item.get("id"): "pass" in str(item.get("verdict")).lower()
                    for item in data["rows"]
                    if isinstance(item, dict)
                }
                return verdicts.get(answer.met), verdicts.get(answer.unmet)
    found = "pass" in text.lower() or "true" in text.lower()
    return found, found


class Outcome(NamedTuple):
    """One reply, graded."""

    wrong: bool
    naive_wrong: bool
    tier: str


def graded_with(setting: Setting, name: str, make: Make, rng: random.Random) -> Outcome:
    """Grade with replies of one class, the first try and every further one."""
    first: list[tuple[Step, Answer]] = []

    def script(request: ChatRequest) -> Step:
        asked = {item.text for item in rows_of(request)}
        if not {setting.met, setting.unmet} <= asked:
            # A further question about one row only: the reply is missing again.
            return graded([row(item.id, "fail") for item in rows_of(request) if item.is_false_control])
        answer = Answer(setting, request, rng)
        step = make(answer)
        first.append((step, answer))
        return step

    models, ledger, _ = judged_by(script)
    try:
        grading = grade_run(
            setting.case, setting.record, None, root=setting.root, models=models, ledger=ledger, seed=SEED
        )
        statuses = (grading.rows[0].status, grading.rows[1].status)
        tier = next((item.kind for item in grading.fallbacks if item.kind.startswith("reply_")), "none")
    except ModelError:
        statuses, tier = NOTHING, "no reply"
    said = _naive(*first[0])
    naive_wrong = said[0] is False or said[1] is True
    return Outcome(statuses != expected(name), naive_wrong, tier)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few of each class, for the shape only")
    each = 1 if parser.parse_args(arguments).small else 65
    rng = random.Random(20260131)
    tiers: Counter[str] = Counter()
    counts: dict[str, list[int]] = {}
    languages: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for language, setting in _settings(Path(folder)).items():
            for name, make in (MALFORMED | MISSING | READABLE).items():
                for _ in range(each if name != "deep" else min(each, 10)):
                    outcome = graded_with(setting, name, make, rng)
                    tiers[outcome.tier] += 1
                    for counted in (counts.setdefault(name, [0, 0, 0]), languages.setdefault(language, [0, 0, 0])):
                        counted[0] += 1
                        counted[1] += outcome.wrong
                        counted[2] += outcome.naive_wrong
    print(table(["reply", "made", "wrong", "wrong, naive"], [[name, *row_] for name, row_ in counts.items()]))
    print()
    print(table(["how it was read", "replies"], sorted(tiers.items())))
    goal = "0 wrong verdicts in >= 5,000 replies"
    figures = [
        share("replies", wrong, made, f"wrong verdicts, {language}", goal=goal, at_most=0, baseline_hits=naive)
        for language, (made, wrong, naive) in languages.items()
    ]
    made, wrong, naive = (sum(row_[column] for row_ in languages.values()) for column in range(3))
    figures.append(
        share(
            "replies", wrong, made, f"wrong verdicts ({len(counts)} classes)", goal=goal, at_most=0, baseline_hits=naive
        )
    )
    print(last_line([{**item, "tiers": dict(sorted(tiers.items()))} for item in figures]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
