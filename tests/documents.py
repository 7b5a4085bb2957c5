"""The parts of docs/ that are made from the code: ``python -m tests.documents`` writes them, a test holds them to be current.

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``; what is around it is written by hand.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml

from gate.domain import checks
from gate.intake.schema import attribute_texts, policy_schema
from gate.settings import Policy, Way, strict_direction

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_WAYS = {
    Way.HIGHER: "higher only",
    Way.LOWER: "lower only",
    Way.LATER: "later in the list only",
    Way.TRUE: "to true only",
    Way.FEWER: "fewer only",
    Way.LISTED: "only what the policy names",
    Way.NESTED: "as its keys say",
    Way.FREE: "freely",
    Way.POLICY_ONLY: "not",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def policy() -> str:
    """The keys of the policy, then those of each part."""
    schema = policy_schema()
    parts = [
        table(["key", "values", "default", "an input of a pull request may move it", "meaning"], _keys(schema, Policy))
    ]
    for name, part in schema["$defs"].items():
        if "properties" in part:
            text = " ".join(part.get("description", "").replace("``", "`").split())
            rows = [row[:3] + row[4:] for row in _keys(part, None)]
            parts.append(f"### {name}\n\n{text}\n\n" + table(["key", "values", "default", "meaning"], rows))
    return "\n\n".join(parts)


def _keys(part: dict[str, Any], model: type[Policy] | None) -> list[list[str]]:
    rows = []
    for key, value in part["properties"].items():
        needed = key in part.get("required", ())
        default = "needed" if needed else _default(value.get("default"))
        way = _WAYS[strict_direction(model, key).way] if model else ""
        rows.append([f"`{key}`", _values(value), default, way, value.get("description", "")])
    return rows


def _default(value: Any) -> str:
    if value in (None, [], {}, ""):
        return "none"
    return "see below" if isinstance(value, dict) else f"`{json.dumps(value)}`"


def _values(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        part = policy_schema()["$defs"][name]
        return _values(part) if "enum" in part else f"[{name}](#{name.lower()})"
    if "enum" in value:
        return ", ".join(f"`{item}`" for item in value["enum"])
    if "anyOf" in value:
        return " or ".join(_values(item) for item in value["anyOf"] if item.get("type") != "null")
    if value.get("type") == "array":
        return f"list of {_values(value['items'])}"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"mapping to {_values(inner)}" if isinstance(inner, dict) else "mapping"
    bounds = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    said = [f"{word} {value[key]:g}" for key, word in bounds.items() if key in value]
    return " ".join([{"string": "text"}.get(value.get("type", ""), value.get("type", "anything")), *said])


def action() -> str:
    """Inputs and outputs of action.yml."""
    told = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    inputs = [[f"`{name}`", item["description"]] for name, item in told["inputs"].items()]
    outputs = [[f"`{name}`", item["description"]] for name, item in told["outputs"].items()]
    return "\n\n".join(
        ["## Inputs", table(["input", "meaning"], inputs), "## Outputs", table(["output", "meaning"], outputs)]
    )


def check_kinds() -> str:
    """Every kind of check with its parameters."""
    told = attribute_texts(checks)
    parts = []
    for model in get_args(get_args(checks.CheckParameters)[0]):
        kind = model.model_fields["kind"].default
        rows = []
        for name, field in model.model_fields.items():
            if name == "kind":
                continue
            shown = model.model_json_schema()["properties"][name]
            default = "needed" if field.is_required() else _default(shown.get("default"))
            owner = next(base.__name__ for base in model.__mro__ if name in inspect.get_annotations(base))
            rows.append([f"`{name}`", _shape(shown), default, _plain(told.get((owner, name), ""))])
        text = _plain(model.__doc__ or "")
        parts.append(f"### {kind}\n\n{text}\n\n" + table(["parameter", "values", "default", "meaning"], rows))
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """One line without the numbers of requirements, which say nothing to a reader of the page."""
    numbers = r"[RK]\d+(?:[-, ]+[RK]\d+)*"
    return re.sub(rf"^{numbers}\. | \({numbers}\)", "", " ".join(text.replace("``", "`").split()))


def _shape(shown: dict[str, Any]) -> str:
    return _values({key: value for key, value in shown.items() if key != "$ref"}) if "$ref" not in shown else "mapping"


GENERATED: dict[str, tuple[Path, Callable[[], str]]] = {
    "policy": (DOCS / "policy.md", policy),
    "action": (DOCS / "action.md", action),
    "checks": (DOCS / "checks.md", check_kinds),
}


def written(name: str) -> str:
    """The whole file of a generated part, with the part as the code has it now. Raises ValueError without its marks."""
    path, make = GENERATED[name]
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"{path.name} has not exactly one part <!-- generated: {name} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{make()}\n\n{found[2]}", text)


def main() -> None:
    """Write them all."""
    for name, (path, _) in GENERATED.items():
        path.write_text(written(name), encoding="utf-8")


if __name__ == "__main__":
    main()
