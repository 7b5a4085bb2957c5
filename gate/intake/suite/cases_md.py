"""SkillSentry's hand-written cases, ``*.cases.md``: a level-1 heading names a case, quoted lines (``>``) are its prompt,
task-list items (``- [ ]``) are its expectations. Everything else is for people. Headings, quotes and items inside fenced
code do not count.
"""

from __future__ import annotations

import re

from gate.intake.suite.dialect import Dialect, Read, Source
from gate.intake.suite.drafts import File
from gate.intake.yaml_text import Node

_QUOTE = re.compile(r" {0,3}> ?(?P<text>.*)")
_ITEM = re.compile(r"\s*[-*+][ \t]+\[[ xX]?\][ \t]*(?P<text>.*)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_KEY = "cases of a Markdown file"


def document(text: str) -> Node:
    """The cases of a Markdown text as the document that ``DIALECT`` reads."""
    cases: list[Node] = []
    case: dict[str, Node] = {}
    quote: list[str] = []
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1][0] == fence[0] and len(mark[1]) >= len(fence))):
            fence = "" if fence else mark[1]
            continue
        if fence:
            continue
        if line.startswith(("# ", "#\t")):
            name = line[1:].strip().rstrip("#").rstrip()
            case = {"name": Node(number, 1, name, name)}
            cases.append(Node(number, 1, case))
        elif not case:
            continue
        elif quoted := _QUOTE.fullmatch(line):
            if "prompt" not in case:
                case["prompt"] = Node(number, 1, quote := [])
            quote.append(quoted["text"])
        elif (item := _ITEM.fullmatch(line)) and item["text"].strip():
            case.setdefault("expectations", Node(number, 1, [])).value.append(
                Node(number, 1, item["text"], item["text"])
            )
    # A heading without a prompt and without items is a title of the page.
    kept = [item for item in cases if "prompt" in item.value or "expectations" in item.value]
    for prompt in (item.value["prompt"] for item in kept if "prompt" in item.value):
        prompt.value = prompt.source = "\n".join(prompt.value).strip()
    return Node(1, 1, {_KEY: Node(1, 1, kept)})


def _claims(source: Source) -> bool:
    return _KEY in source.outer()


def _read(source: Source) -> Read:
    file = File("cases.md", source)
    for node in file.items(source.root.value[_KEY], "cases"):
        draft = file.draft(node, name=str(node.value["name"].value))
        for text, _ in draft.texts("expectations"):
            draft.expect(text)
        prompt = draft.text("prompt")
        if prompt is None:
            draft.complain("there is no prompt", remedy="Quote the prompt with > under the heading.")
        draft.finish(prompt, source="external", tag="golden")
    return file.done()


DIALECT = Dialect("cases.md", _claims, _read)
