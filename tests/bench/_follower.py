"""An agent that knows of its work only what SKILL.md says: it reads the text, makes directives of it, and works by them.

It stands for a model in the benches that change a skill's text. Nothing tells it which version of a skill it reads. It
copes with what models cope with (typing errors, other words for the same, bold words, broken lines, comments, another
order of bullets), takes "may" and "if you like" for what they say, and without a rule it does what people do by habit. It
does not always do as it is told: each directive is missed in some share of the runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

STRONG, WEAK = 1.0, 0.4
"""How often an agent keeps a rule, and a suggestion; the misses of the former are ``miss``."""
_WEAK = re.compile(
    r"\b(?:may|can|could|if you like|sometimes|preferably|optional|optionally|consider|roughly|when possible)\b"
)
_NOT = re.compile(r"\b(?:do not|don't|never|must not|shall not|not|avoid)\b")
_SAME: tuple[tuple[str, str], ...] = (
    (r"\b(?:start|starts|beginning|opens?)\b", "begin"), (r"\b(?:finish|closes?|ends)\b", "end"),
    (r"\b(?:store|put)\b", "save"), (r"\bomit\b", "leave out"), (r"\b(?:make|makes|creates?)\b", "create"),
    (r"\b(?:employ|uses)\b", "use"), (r"\bverify\b", "check"), (r"\b(?:display|enumerate|lists)\b", "list"),
    (r"\bround off\b", "round"), (r"\breply\b", "answer"),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One row of the input."""

    name: str
    owner: str
    status: str
    amount: float


@dataclass(frozen=True)
class Task:
    """What the prompt says and the file holds."""

    reader: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Directive:
    """One thing that SKILL.md asks for."""

    what: str
    value: str = ""
    wanted: bool = True
    strength: float = STRONG
    at: int = 0
    """Its place among the statements: what comes first is done first."""


@dataclass(frozen=True)
class Work:
    """What the agent does: files and commands in order, then the answer."""

    calls: tuple[tuple[str, str, str], ...]
    """(kind, name or command, content): ``read``, ``run`` or ``write``."""
    answer: Callable[[Mapping[str, str]], str] = field(repr=False)
    """From the outputs of the commands."""


def statements(text: str) -> list[tuple[str, str]]:
    """(statement, the fence that follows it) of a Markdown text, on one line each, without what only shows it."""
    text = re.sub(r"<!--.*?-->", "", re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL), flags=re.DOTALL)
    found: list[list[str]] = []
    fence: list[str] | None = None
    fresh = True
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            if fence is None:
                fence = []
            else:
                if found:
                    found[-1][1] = "\n".join(fence)
                fence = None
            fresh = True
        elif fence is not None:
            fence.append(line)
        elif not line.strip():
            fresh = True
        elif re.match(r"\s*(?:[-*+]|\d+[.)])\s", line) or line.startswith("#") or fresh:
            found.append([re.sub(r"^\s*(?:[-*+]|\d+[.)]|#+)\s+", "", line).strip(), ""])
            fresh = line.startswith("#")
        else:
            found[-1][0] += " " + line.strip()
    return [(re.sub(r"\*\*|__", "", words), block) for words, block in found]


def understood(words: str) -> str:
    """A statement in the agent's own words: small letters, synonyms, spelling put right; literals as they are."""
    parts = re.split(r"(`[^`]*`)", words)
    for at in range(0, len(parts), 2):
        text = parts[at].lower()
        text = re.sub(r"[a-z]{4,}", lambda match: _spelt(match[0]), text)
        for pattern, same in _SAME:
            text = re.sub(pattern, same, text)
        parts[at] = text
    return "".join(parts)


@cache
def _spelt(word: str) -> str:
    """The known word that has the same letters in another order of two neighbours, else the word itself."""
    if word in _VOCABULARY:
        return word
    for known in _VOCABULARY:
        if len(known) == len(word) and sorted(known) == sorted(word):
            differ = [at for at, (one, two) in enumerate(zip(known, word, strict=True)) if one != two]
            if len(differ) == 2 and differ[1] == differ[0] + 1:
                return known
    return word


_KINDS: tuple[tuple[str, str], ...] = (
    ("begin", r"\bbegin\b.*\bline\b"), ("end", r"\bend\b.*\bline\b"), ("script", r"\brun\b.*python3"),
    ("save", r"\bsave\b.*\b(?:answer|result|report)\b"), ("source", r"\bread\b.*\bnotes\b"),
    ("most", r"\b(?:at most|at least)\b.*\brows\b|\brows\b.*\b(?:at most|at least)\b"), ("decimals", r"\bdecimals?\b"),
    ("sort", r"\bsort\b"), ("word", r"\bword\b"), ("unit", r"\bunit\b"), ("mark", r"\bmark\b.*\bthan\b|\bthan\b.*\bmark\b"),
    ("skip", r"\bleave out\b.*\bstatus\b"), ("heading", r"\bheading\b"), ("reader", r"\baddress\b.*\breader\b"),
    ("reason", r"\breason\b"), ("total", r"\btotal\b.*\bline\b|\bline\b.*\btotal\b"), ("empty", r"\bno rows\b"),
)  # fmt: skip


_VOCABULARY: tuple[str, ...] = (
    *tuple(
        dict.fromkeys(
            word
            for pattern in (
                _WEAK.pattern,
                _NOT.pattern,
                *(pattern for _, pattern in _KINDS),
                *(same for _, same in _SAME),
            )
            for word in re.findall(r"(?<!\\)[a-z]{4,}", pattern.replace("\\b", " "))
        )
    ),
    "ascending",
    "descending",
    "template",
    "example",
    "more",
    "less",
    "than",
)
"""Every word that the agent acts on: it reads these in spite of a typing error."""


@lru_cache(maxsize=512)
def directives(text: str) -> tuple[Directive, ...]:
    """What a SKILL.md asks for, as the agent understands it; where two rules clash, the first one counts."""
    found: dict[str, Directive] = {}
    for at, (words, block) in enumerate(statements(text)):
        plain = understood(words)
        if block and re.search(r"\btemplate\b", plain):
            found.setdefault("template", Directive("template", block, at=at))
        elif block and re.search(r"\bexample\b", plain):
            found.setdefault("example", Directive("example", block, at=at))
        outside = re.sub(r"`[^`]*`", "`", plain)
        kind = next(
            (name for name, pattern in _KINDS if re.search(pattern, plain if name == "script" else outside)), None
        )
        if kind is None:
            continue
        wanted = not _NOT.search(outside)
        if kind == "word":  # "never write the word X" is what is wanted
            wanted = not wanted
        strength = WEAK if _WEAK.search(outside) else STRONG
        found.setdefault(kind, Directive(kind, _value(kind, words, outside), wanted, strength, at))
    return tuple(found.values())


def _value(kind: str, words: str, plain: str) -> str:
    literals = re.findall(r"`([^`]*)`", words)
    number = re.search(r"\d+", plain)
    if kind in ("most", "decimals"):
        return ("least " if "at least" in plain else "") + (number[0] if number else "")
    if kind == "mark":
        return f"{'less' if 'less than' in plain else 'more'} {number[0] if number else 0} {literals[0] if literals else ''}"
    if kind == "sort":
        return f"{literals[0] if literals else 'name'} {'descending' if 'descending' in plain else 'ascending'}"
    return literals[0] if literals else ""


HABITS: Mapping[str, float] = {"word": 0.3, "reader": 0.15, "reason": 0.1, "total": 0.2}
"""How often an agent does by itself what no rule asks for, as far as one can do it without being told what. What would change
the rows is left out: a suite whose skill says nothing of it would be flaky for everybody."""
LOOSE_WORD = "approximately"
"""What the agent says of sums where nobody forbids it."""


class Chance:
    """What happens in one run: the same seed, the same answers. Nothing but the run's own label is in the seed."""

    def __init__(self, seed: str, miss: float) -> None:
        self._seed = seed
        self._miss = miss

    def of(self, what: str) -> float:
        """A number in [0, 1) for one thing of this run."""
        return int.from_bytes(hashlib.sha256(f"{self._seed}/{what}".encode()).digest()[:6], "big") / 2**48

    def keeps(self, directive: Directive) -> bool:
        """Whether the agent acts on it."""
        likely = directive.strength if directive.strength < STRONG else 1 - self._miss
        return self.of(directive.what) < likely

    def habit(self, what: str) -> bool:
        """Whether the agent does it by itself."""
        return self.of(f"habit {what}") < HABITS.get(what, 0.0)


class Steady(Chance):
    """An agent that keeps every rule, no suggestion, and has no habits: what a text asks for, without luck."""

    def __init__(self) -> None:
        super().__init__("", 0)

    def keeps(self, directive: Directive) -> bool:
        return directive.strength == STRONG

    def habit(self, what: str) -> bool:
        del what
        return False


def plan(text: str, task: Task, chance: Chance) -> Work:
    """What the agent does with a task, having read this SKILL.md (empty: it has none)."""
    known = {item.what: item for item in directives(text)}
    kept = {name: item for name, item in known.items() if chance.keeps(item)}

    def does(what: str) -> bool:
        item = kept.get(what)
        return item.wanted if item is not None else chance.habit(what)

    def value(what: str) -> str:
        return kept[what].value if what in kept and kept[what].wanted else ""

    ordered = sorted((item for item in kept.values() if item.wanted), key=lambda item: item.at)
    calls = []
    for item in ordered:
        if item.what == "source" and item.value:
            calls.append(("read", item.value, ""))
        elif item.what == "script":
            command = re.search(r"python3 .*", item.value)
            if command:
                calls.append(("run", command[0], ""))
        elif item.what == "save" and item.value:
            calls.append(("write", item.value, ""))
    return Work(tuple(calls), lambda outputs: _answer(task, does, value, outputs))


Does = Callable[[str], bool]
Value = Callable[[str], str]


def _answer(task: Task, does: Does, value: Value, outputs: Mapping[str, str]) -> str:
    rows = _kept_rows(task, does, value)
    total = sum(row.amount for row in rows)
    rows = rows[: int(value("most"))] if value("most").isdigit() else rows
    places = int(value("decimals")) if value("decimals").isdigit() else 3
    unit = f" {value('unit')}" if value("unit") else ""
    lines = [value("begin")] if value("begin") else []
    lines += [f"Dear {task.reader},"] if does("reader") else []
    lines += [f"## {value('heading')}"] if value("heading") else []
    lines += [value("empty")] if value("empty") and not rows else []
    lines += [_row_line(row, value, places, unit) for row in rows]
    lines += [f"{value('total') or 'Sum'}: {total:.{places}f}{unit}"] if does("total") else []
    lines += [] if does("word") else [f"These figures are {LOOSE_WORD} right."]
    if does("reason") and rows:
        top = max(rows, key=lambda row: row.amount)
        lines.append(f"The largest is {top.name}, {value('reason') or 'as'} {top.owner} ordered it.")
    lines += [f"The script says {text.strip()}." for text in outputs.values() if text.strip()]
    lines += [value("end")] if value("end") else []
    return "\n".join(lines)


def _kept_rows(task: Task, does: Does, value: Value) -> list[Row]:
    rows = [row for row in task.rows if not does("skip") or row.status != (value("skip") or "void")]
    if does("sort"):
        column, _, way = (value("sort") or "amount ascending").partition(" ")
        rows.sort(key=lambda row: getattr(row, column, row.name), reverse=way == "descending")
    return rows


def _row_line(row: Row, value: Value, places: int, unit: str) -> str:
    template = value("template").splitlines()[0] if value("template") else "- {name} {amount}"
    line = template.replace("{name}", row.name).replace("{owner}", row.owner)
    line = line.replace("{amount}", f"{row.amount:.{places}f}{unit}")
    way, _, rest = value("mark").partition(" ")
    limit, _, mark = rest.partition(" ")
    if limit.isdigit() and (row.amount > int(limit) if way == "more" else row.amount < int(limit)):
        line += f" {mark}"
    return f"{line} (@{row.owner})" if "(@" in value("example") else line


def task_of(prompt: str, listing: str) -> Task:
    """A task as the agent finds it: the reader in the prompt, the rows in the input file."""
    reader = re.search(r"The reader is (\w+)", prompt)
    rows = []
    for line in listing.splitlines()[1:]:
        cells = line.split(";")
        if len(cells) == 4:
            rows.append(Row(cells[0], cells[1], cells[2], float(cells[3])))
    return Task(reader[1] if reader else "", tuple(rows))


def listing_of(rows: Sequence[Row]) -> str:
    """The input file."""
    return "name;owner;status;amount\n" + "".join(
        f"{row.name};{row.owner};{row.status};{row.amount:.4f}\n" for row in rows
    )
