"""What can be done to a SKILL.md: operators that harm, and neutral ones that must make no difference (judging.md 8.2).

Each takes a page and yields mutants in the order of the file. No model is asked, nothing is drawn: the same skill gives the
same mutants. English and Chinese words are known; a statement in another language is still deleted, swapped and cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from gate.audit.mutants import MARKER, Block, Mutant, Page, mutant_id, page_of
from gate.domain.skill import Skill

_STATEMENTS = ("step", "bullet", "paragraph")
_ORDERS = re.compile(
    r"\b(must|never|always|do not|don't|only|shall|ensure|avoid|at most|at least|exactly|required)\b"
    r"|必须|不得|禁止|严禁|务必|不要|不能|应当|只能|至少|最多",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`\n]+`")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?|\b[\w-]+\.(?:md|py|sh|json|csv|ya?ml|txt|html?|js|ts|sql|xml|toml)\b")
_TOOL = re.compile(r"\bmcp__[A-Za-z0-9_-]+|`(?:[a-z]+_[a-z_]+)`|(?<=`)(?:python3?|node|bash|jq|git|curl|npm|make)(?= )")
_NUMBER = re.compile(r"(?<![\w.`])\d+(?![\w.]*\w)")
_EXAMPLE = re.compile(r"\b(?:examples?|e\.g\.|for instance|sample)\b|示例|例如|例子", re.IGNORECASE)
_TEMPLATE = re.compile(r"\b(?:templates?|format|layout|looks? like this|form)\b|模板|格式", re.IGNORECASE)

_NEGATED: tuple[tuple[str, str], ...] = (
    (r"\bmust not\b", "must"), (r"\bmust\b", "must not"), (r"\bdo not\b|\bdon't\b", "do"), (r"\bnever\b", "always"),
    (r"\balways\b", "never"), (r"\bshall\b", "shall not"), (r"\bavoid\b", "prefer"), (r"\bonly\b", "not only"),
    ("不得|禁止|严禁", "必须"), ("必须|务必", "不得"), ("不要", "要"), ("不能", "能"),
)  # fmt: skip
_WEAKENED: tuple[tuple[str, str], ...] = (
    (r"\bmust not\b", "preferably do not"), (r"\bmust\b", "may"), (r"\bnever\b", "preferably do not"),
    (r"\balways\b", "sometimes"), (r"\bshall\b", "may"), (r"\bexactly\b", "roughly"), (r"\brequired\b", "optional"),
    (r"\bensure\b", "consider"), ("必须|务必|应当", "可以"), ("不得|禁止|严禁|不要|不能", "最好不要"),
)  # fmt: skip
_INVERTED: tuple[tuple[str, str], ...] = (
    (r"\bat most\b", "at least"), (r"\bat least\b", "at most"), (r"\bmore than\b", "less than"),
    (r"\bless than\b", "more than"), (r"\bascending\b", "descending"), (r"\bdescending\b", "ascending"),
    (r"\bbefore\b", "after"), (r"\bafter\b", "before"), (r"\bfirst\b", "last"), (r"\blast\b", "first"),
    (r"\babove\b", "below"), (r"\bbelow\b", "above"), ("最多", "至少"), ("至少", "最多"), ("大于", "小于"), ("小于", "大于"),
    ("之前", "之后"), ("之后", "之前"),
)  # fmt: skip
_SYNONYMS: tuple[tuple[str, str], ...] = (
    (r"\bshow\b", "display"), (r"\blist\b", "enumerate"), (r"\bbegin\b", "start"), (r"\bstart\b", "begin"),
    (r"\bend\b", "finish"), (r"\banswer\b", "reply"), (r"\bround\b", "round off"), (r"\bleave out\b", "omit"),
    (r"\bcreate\b", "make"), (r"\buse\b", "employ"), (r"\bcheck\b", "verify"), (r"\bsave\b", "store"),
    ("使用", "采用"), ("检查", "核对"), ("创建", "新建"),
)  # fmt: skip

Made = Iterator[Mutant]


class Operator(NamedTuple):
    """One way to change a skill."""

    name: str
    harmful: bool
    words: str
    """What it does, for the list."""
    make: Callable[[Page], Made]


# Harmful ---------------------------------------------------------------------------------------------------------------


def _delete_step(page: Page) -> Made:
    for block in page.of("step"):
        yield page.mutant("delete-step", block, page.replaced(block.start, block.end, []), harmful=True)


def _delete_rule(page: Page) -> Made:
    for block in page.of("bullet", "paragraph"):
        if block.kind == "bullet" or _ORDERS.search(page.text(block)):
            yield page.mutant("delete-rule", block, page.replaced(block.start, block.end, []), harmful=True)


def _by_table(name: str, table: tuple[tuple[str, str], ...], *, harmful: bool) -> Callable[[Page], Made]:
    """Replace the first words of the table that a statement holds, once a statement; code stays as it is."""

    def make(page: Page) -> Made:
        for block in page.of(*_STATEMENTS):
            text = page.text(block)
            found = _first(text, table)
            if found is not None:
                yield page.mutant(name, block, page.rewritten(block, found), harmful=harmful)

    return make


def _first(text: str, table: tuple[tuple[str, str], ...]) -> str | None:
    spared = [match.span() for match in _CODE.finditer(text)]
    for pattern, new in table:
        for match in re.finditer(pattern, text, re.IGNORECASE):
            if any(start <= match.start() < end for start, end in spared):
                continue
            word = new[:1].upper() + new[1:] if match[0][:1].isupper() else new
            return text[: match.start()] + word + text[match.end() :]
    return None


def _negate(page: Page) -> Made:
    for block in page.of(*_STATEMENTS):
        text = page.text(block)
        new = _first(text, _NEGATED)
        if new is None and block.kind != "paragraph" and re.match(r"[A-Z][a-z]+\b", text):
            new = f"Do not {text[:1].lower()}{text[1:]}"
        if new is not None:
            yield page.mutant("negate", block, page.rewritten(block, new), harmful=True)


def _weaken(page: Page) -> Made:
    for block in page.of(*_STATEMENTS):
        text = page.text(block)
        new = _first(text, _WEAKENED)
        if new is None and block.kind != "paragraph" and re.match(r"[A-Z][a-z]+\b", text):
            new = f"If you like, {text[:1].lower()}{text[1:]}"
        if new is not None:
            yield page.mutant("weaken", block, page.rewritten(block, new), harmful=True)


def _change_number(page: Page) -> Made:
    for block in page.of(*_STATEMENTS):
        text = page.text(block)
        match = _NUMBER.search(text)
        if match is not None:
            new = text[: match.start()] + str(int(match[0]) * 2 or 1) + text[match.end() :]
            yield page.mutant("change-number", block, page.rewritten(block, new), harmful=True)


def _change_literal(page: Page) -> Made:
    """Another literal of the same skill in its place: what stands there is plausible and wrong."""
    known = list(dict.fromkeys(word for block in page.of(*_STATEMENTS) for word in _CODE.findall(page.text(block))))
    for block in page.of(*_STATEMENTS):
        text = page.text(block)
        for match in _CODE.finditer(text):
            if _PATH.search(match[0]) or _TOOL.search(match[0]):
                continue
            others = [word for word in known if word != match[0] and not _PATH.search(word) and not _TOOL.search(word)]
            here = known.index(match[0])
            new = others[here % len(others)] if others else f"{match[0][:-1]}_2`"
            after = text[: match.start()] + new + text[match.end() :]
            yield page.mutant("change-literal", block, page.rewritten(block, after), harmful=True)
            break


def _change_path(page: Page) -> Made:
    for block in page.of(*_STATEMENTS):
        text = page.text(block)
        match = _PATH.search(text)
        if match is not None:
            folder, _, name = match[0].rstrip("/").rpartition("/")
            new = f"{folder}/other-{name}" if folder else f"other-{name}"
            after = text[: match.start()] + new + text[match.end() :]
            yield page.mutant("change-path", block, page.rewritten(block, after), harmful=True)


def _change_tool(page: Page) -> Made:
    for block in page.of(*_STATEMENTS):
        text = page.text(block)
        match = _TOOL.search(text)
        if match is not None:
            quoted = match[0].startswith("`")
            new = f"`other_{match[0][1:]}" if quoted else f"{match[0]}_other"
            after = text[: match.start()] + new + text[match.end() :]
            yield page.mutant("change-tool", block, page.rewritten(block, after), harmful=True)


def _swap(page: Page, kind: str, name: str, *, harmful: bool) -> Made:
    for one, two in pairwise(page.of(kind)):
        if one.group != two.group or one.end != two.start or page.text(one) == page.text(two):
            continue
        first, second = page.lines[one.start : one.end], page.lines[two.start : two.end]
        marks = [MARKER.match(part[0]) for part in (first, second)]
        if None in marks:
            continue
        lead_1, lead_2 = (mark[0] for mark in marks if mark is not None)
        swapped = [lead_1 + second[0][len(lead_2) :], *second[1:], lead_2 + first[0][len(lead_1) :], *first[1:]]
        if not swapped[len(second) - 1].endswith("\n"):
            swapped[len(second) - 1] += "\n"
        yield page.mutant(name, one, page.replaced(one.start, two.end, swapped), harmful=harmful)


def _swap_steps(page: Page) -> Made:
    return _swap(page, "step", "swap-steps", harmful=True)


def _drop_fence(name: str, about: re.Pattern[str]) -> Callable[[Page], Made]:
    """A fence whose lead (the block before it) is about this goes, with the lead where that is no heading."""

    def make(page: Page) -> Made:
        for lead, fence in pairwise(page.blocks):
            if fence.kind != "fence" or not about.search(page.text(lead)):
                continue
            start = fence.start if lead.kind == "heading" else lead.start
            yield page.mutant(name, lead, page.replaced(start, fence.end, []), harmful=True)

    return make


def _delete_section(page: Page) -> Made:
    headings = page.of("heading")
    for at, block in enumerate(headings):
        level = _level(page, block)
        later = [other.start for other in headings[at + 1 :] if _level(page, other) <= level]
        end = later[0] if later else len(page.lines)
        if block.start > page.body + 1 and end > block.end:
            yield page.mutant("delete-section", block, page.replaced(block.start, end, []), harmful=True)


def _level(page: Page, block: Block) -> int:
    line = page.lines[block.start].lstrip()
    return len(line) - len(line.lstrip("#")) or 2


def _truncate(page: Page) -> Made:
    statements = page.of(*_STATEMENTS)
    if len(statements) > 2:
        block = statements[len(statements) // 2]
        yield page.mutant("truncate", block, page.replaced(block.start, len(page.lines), []), harmful=True)


def _corrupt_front_matter(page: Page) -> Made:
    for at, line in enumerate(page.lines[: page.body]):
        if line.startswith(("description:", "name:")):
            key, _, value = line.partition(":")
            block = Block("front matter", at, at + 1, -1)
            after = page.replaced(at, at + 1, [f'{key}: "{value.strip()}: [\n'])
            yield page.mutant("corrupt-front-matter", block, after, harmful=True)


def _break_script(page: Page) -> Made:
    for path, stop in ((".py", 'raise SystemExit("out of order")\n'), (".sh", "exit 1\n")):
        for file in page.skill.files:
            if not file.path.endswith(path) or not file.is_regular or b"\0" in file.data:
                continue
            try:
                before = file.data.decode("utf-8")
            except UnicodeDecodeError:
                continue
            first, _, rest = before.partition("\n") if before.startswith("#!") else ("", "", before)
            after = f"{first}\n{stop}{rest}" if first else f"{stop}{rest}"
            line = next((at for at, text in enumerate(page.lines, 1) if file.path in text), 1)
            yield Mutant(
                mutant_id("break-script", line, after), "break-script", True, file.path, line, file.path, before, after
            )


# Neutral ---------------------------------------------------------------------------------------------------------------


def _reflow(page: Page) -> Made:
    for block in page.of(*_STATEMENTS):
        words = page.text(block).split(" ")
        if len(words) < 6 or "`" in " ".join(words[len(words) // 2 - 1 : len(words) // 2 + 1]):
            continue
        if " ".join(words[: len(words) // 2]).count("`") % 2:
            continue  # a line end in code would change the code
        lead = MARKER.match(page.lines[block.start])
        indent = " " * len(lead[0]) if lead else ""
        second = " ".join(words[len(words) // 2 :])
        if re.match(r"[-*+#>\d=~|]", second):
            continue  # at the start of a line this would mean something else
        after = page.rewritten(block, " ".join(words[: len(words) // 2]) + f"\n{indent}" + second)
        yield page.mutant("reflow", block, after, harmful=False)


def _typo(page: Page) -> Made:
    """Two letters inside a long word change places; words that order, forbid or count are left alone."""
    for block in page.of(*_STATEMENTS):
        text = page.text(block)
        spared = [match.span() for match in (*_CODE.finditer(text), *_ORDERS.finditer(text), *_PATH.finditer(text))]
        words = [
            match
            for match in re.finditer(r"\b[a-z]{6,}\b", text)
            if not any(start <= match.start() < end for start, end in spared)
            and not any(re.search(pattern, match[0]) for pattern, _ in _INVERTED)
        ]
        if words:
            word = max(words, key=lambda match: len(match[0]))
            at = next((at for at in range(word.start() + 2, word.end() - 2) if text[at] != text[at + 1]), None)
            if at is not None:
                new = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
                yield page.mutant("typo", block, page.rewritten(block, new), harmful=False)


def _heading_level(page: Page) -> Made:
    for block in page.of("heading"):
        line = page.lines[block.start]
        if line.startswith(("## ", "### ")):
            after = page.replaced(block.start, block.end, [f"#{line}"])
            yield page.mutant("heading-level", block, after, harmful=False)


def _comment(page: Page) -> Made:
    for block in page.of("heading"):
        new = [*page.lines[block.start : block.end], "\n", "<!-- Last looked through this month. -->\n"]
        yield page.mutant("comment", block, page.replaced(block.start, block.end, new), harmful=False)


def _reorder_bullets(page: Page) -> Made:
    return _swap(page, "bullet", "reorder-bullets", harmful=False)


def _bullet_sign(page: Page) -> Made:
    for group in sorted({block.group for block in page.of("bullet")}):
        own = [block for block in page.of("bullet") if block.group == group]
        lines = list(page.lines)
        for block in own:
            mark = MARKER.match(lines[block.start])
            if mark:
                lines[block.start] = (
                    f"{mark[1]}{'*' if mark[2] == '-' else '-'}{lines[block.start][len(mark[1]) + 1 :]}"
                )
        yield page.mutant("bullet-sign", own[0], "".join(lines), harmful=False)


def _emphasis(page: Page) -> Made:
    for block in page.of(*_STATEMENTS):
        text = page.text(block)
        match = _ORDERS.search(text) or re.match(r"[A-Z][a-z]+\b", text)
        if match and "`" not in text[: match.start()] and "*" not in text:
            new = f"{text[: match.start()]}**{match[0]}**{text[match.end() :]}"
            yield page.mutant("emphasis", block, page.rewritten(block, new), harmful=False)


OPERATORS: tuple[Operator, ...] = (
    Operator("delete-step", True, "a numbered step is gone", _delete_step),
    Operator("delete-rule", True, "a rule is gone", _delete_rule),
    Operator("negate", True, "a rule says the opposite", _negate),
    Operator("weaken", True, "a rule became a suggestion", _weaken),
    Operator("invert-condition", True, "a condition or an order is turned round", _by_table("invert-condition", _INVERTED, harmful=True)),
    Operator("change-number", True, "a number is twice as large", _change_number),
    Operator("change-literal", True, "a literal is another one of the same skill", _change_literal),
    Operator("change-path", True, "a path leads elsewhere", _change_path),
    Operator("change-tool", True, "a tool or a program has another name", _change_tool),
    Operator("swap-steps", True, "two numbered steps changed places", _swap_steps),
    Operator("drop-example", True, "an example is gone", _drop_fence("drop-example", _EXAMPLE)),
    Operator("drop-template", True, "a template is gone", _drop_fence("drop-template", _TEMPLATE)),
    Operator("delete-section", True, "a section is gone", _delete_section),
    Operator("truncate", True, "the second half is gone", _truncate),
    Operator("corrupt-front-matter", True, "the front matter is no YAML any more", _corrupt_front_matter),
    Operator("break-script", True, "a script of the skill stops at once", _break_script),
    Operator("reflow", False, "a line is broken elsewhere", _reflow),
    Operator("synonym", False, "a word is another word for the same", _by_table("synonym", _SYNONYMS, harmful=False)),
    Operator("typo", False, "two letters of a word changed places", _typo),
    Operator("heading-level", False, "a heading is one level deeper", _heading_level),
    Operator("comment", False, "an HTML comment is added", _comment),
    Operator("reorder-bullets", False, "two bullets changed places", _reorder_bullets),
    Operator("bullet-sign", False, "the sign of a list is another one", _bullet_sign),
    Operator("emphasis", False, "a word is bold", _emphasis),
)  # fmt: skip
NAMES = tuple(operator.name for operator in OPERATORS)


def mutants_of(skill: Skill, operators: tuple[str, ...] = NAMES) -> tuple[Mutant, ...]:
    """Every mutant of a skill by these operators, in their order; a text that two of them make is kept once."""
    page = page_of(skill)
    made: dict[tuple[str, str], Mutant] = {}
    for operator in OPERATORS:
        if operator.name in operators:
            for mutant in operator.make(page):
                if mutant.after != mutant.before:
                    made.setdefault((mutant.path, mutant.after), mutant)
    return tuple(made.values())
