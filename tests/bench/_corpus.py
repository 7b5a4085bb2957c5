# ruff: noqa: RUF001 - typographic, full-width and look-alike characters are what this is about
"""Recorded runs in English and Chinese, made from a seed by the gate's own recorder: what the quote benches quote from."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Literal, NamedTuple

from gate.domain.evidence import Block, RunRecord
from gate.domain.plan import Arm
from gate.domain.skill import SkillType
from gate.evidence.bundle import load_blocks
from tests.builders_judging import Call, a_run

Language = Literal["en", "zh"]

PROMPTS = {
    "en": "Book the travel expenses of Ms Lindqvist for the conference in Porto and save them as a draft.",
    "zh": "请把林晓梅去成都参加会议的差旅费用录入系统，并保存为草稿，不要提交审批。",
}
SKILLS = {
    "en": "# Expenses\n\nAlways save with docStatus 10 before anything else.\nNever submit without a written approval.\n",
    "zh": "# 差旅报销\n\n保存单据时状态必须为草稿，字段取值为 10。\n没有书面批准时绝对不能提交审批流程。\n",
}
EXPECTATIONS = {
    "en": "The expense report was submitted to the manager and the approval number AP-99120 was returned.",
    "zh": "报销单已经提交给部门经理审批，并且返回了审批编号 AP-99120。",
}
_NAMES = {
    "en": ("Lindqvist", "Okafor", "Marchetti", "Haraldsen", "Dubois"),
    "zh": ("林晓梅", "欧阳建国", "司徒雅文", "赵思远", "陈若曦"),
}
_PLACES = {
    "en": ("Porto", "Tromsø", "Kraków", "São Tomé", "Zürich"),
    "zh": ("成都", "呼和浩特", "乌鲁木齐", "哈尔滨", "景德镇"),
}
_LINES = {
    "en": (
        "The taxi from the station to the venue cost {amount} EUR and was paid in cash.",
        "{name} did not attach the receipt for breakfast on {date}.",
        "The report was never submitted to the manager, it is a draft only.",
        "Hotel “{place} Garden” charged {amount} EUR – two nights, no city tax…",
        "No approval has been requested yet for order {code}.",
        "Rate 1.0{digit}, rounded half up to {amount}; the sum isn’t final.",
        "Row {digit}: {name};{date};{amount};EUR;open",
    ),
    "zh": (
        "从火车站到会场的出租车费用为 {amount} 元，以现金支付。",
        "{name}没有附上 {date} 的早餐发票。",
        "该报销单从未提交给部门经理，目前仅为草稿状态。",
        "酒店“{place}花园”收费 {amount} 元——共两晚，不含城市税……",
        "订单 {code} 尚未申请任何审批。",
        "汇率为 1.0{digit}，四舍五入后为 {amount} 元（含税），合计尚未确定。",
        "第{digit}行：{name}；{date}；{amount}；人民币；未结",
    ),
}
_TRICKY = (
    "\x1b[32mPASSED\x1b[0m tests/test_rows.py::test_total_{digit}",
    "C:\\reports\\{code}\\draft.xml  (size {amount})",
    "zero\u200bwidth mark {code} and soft\u00adhyphen",
    "<|im_start|>log {code} [INST] level={digit} [/INST]",
    "next\u2028line separator {code}\u0085and another",
    "⟦begin of batch {code}⟧ closed",
    "family 👨‍👩‍👧 flag {code} ❤️ noted",
    "précis e\u0301te\u0301 {code} naïve",
    "tab\tseparated\t{code}\t{amount}",
)


class Recorded(NamedTuple):
    """A recorded run and what a judge's quote can be taken from or must not be taken from."""

    language: Language
    record: RunRecord
    root: Path
    blocks: tuple[Block, ...]
    prompt: str
    skill: str
    expectation: str


def recorded_runs(folder: Path, count: int, seed: int) -> list[Recorded]:
    """``count`` runs (even numbers: English, odd: Chinese); two in a row are of one language's case, in two arms."""
    return [
        _recorded(
            folder / f"run-{number}", random.Random(f"{seed}/{number}"), "zh" if number // 2 % 2 else "en", number
        )
        for number in range(count)
    ]


def _recorded(root: Path, rng: random.Random, language: Language, number: int) -> Recorded:
    facts = {
        "tool": "saveDoc",
        "docStatus": "10",
        "type": "差旅费" if language == "zh" else "travel",
        "owner": rng.choice(_NAMES[language]),
        "note": 'said "open"\nand left' if language == "en" else "说了“待定”\n然后离开",
    }
    reply = {"code": "200", "body": f"{rng.getrandbits(40):010x}", "lines": [line(rng, language) for _ in range(3)]}
    skill_read = Call("read_file", {"path": "/skills/sums/SKILL.md"}, SKILLS[language])
    calls = [
        skill_read,
        Call("mcp__books__saveDoc", facts, json.dumps(reply, ensure_ascii=rng.random() < 0.5)),
        Call("bash", {"command": f"grep -n '{rng.choice(_NAMES[language])}' rows.csv"}, _text(rng, language, 12)),
        Call("bash", {"command": "python3 total.py"}, _text(rng, language, 5), status=rng.choice(("success", "error"))),
    ]
    record = a_run(
        root,
        calls=calls,
        response=_text(rng, language, 10) if number % 10 else str(rng.randrange(10, 99)),
        notes=[_text(rng, language, 2), "I am sure that everything was submitted and approved under AP-99120."],
        files={"report.md": _text(rng, language, 14).encode(), "answer.txt": b"7391\n"},
        skill_type=SkillType.MCP_BASED,
        arm=Arm.WITHOUT_SKILL if number % 2 else Arm.WITH_SKILL,
    )
    return Recorded(
        language, record, root, load_blocks(root, record), PROMPTS[language], SKILLS[language], EXPECTATIONS[language]
    )


def line(rng: random.Random, language: Language) -> str:
    """A line of a record, with numbers and names of its own."""
    template = rng.choice(_TRICKY) if rng.random() < 0.15 else rng.choice(_LINES[language])
    return template.format(
        amount=f"{rng.randrange(1, 9)},{rng.randrange(100, 999)}.{rng.randrange(10, 99)}",
        name=rng.choice(_NAMES[language]),
        place=rng.choice(_PLACES[language]),
        date=f"2026-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
        code=f"{rng.choice('ABCDEFGH')}{rng.randrange(10_000, 99_999)}",
        digit=rng.randrange(1, 10),
    )


def _text(rng: random.Random, language: Language, lines: int) -> str:
    ending = "\r\n" if rng.random() < 0.2 else "\n"
    return ending.join(line(rng, language if rng.random() < 0.9 else "en") for _ in range(lines)) + ending
