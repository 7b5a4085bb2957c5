"""The JSON Schema of our suite format, made from the models that read it: for completion and checking in editors.

``python -m gate.intake.suite.schema`` prints it; ``gate/schemas/suite.schema.json`` holds it.
"""

from __future__ import annotations

import sys
from typing import Any, get_args

from pydantic import TypeAdapter

from gate.domain.base import Severity, pretty_json
from gate.domain.checks import ArmName, Check, CheckParameters, KnownIssue
from gate.domain.suite import Case, CaseType, Expectation, Guard, McpCall, McpResponse, McpTool, ServiceProbe
from gate.intake.suite.mcp import MODES

TITLE = "Skill Gate suite"

_CASE_TEXT = {
    "tag": "Such as golden.",
    "source": "Where the case is from.",
    "skip_reason": "Why it has no run without the skill.",
}


def suite_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of ``evals/skill-gate.yaml``.

    What it refuses the reader refuses too; the reader also sees what a schema cannot say (double ids, patterns that are no
    regular expressions, files that are not there).
    """
    checks, definitions = _checks()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "description": "Eval cases of a skill: evals/skill-gate.yaml in the skill's folder.",
        "type": "object",
        "required": ["version"],
        "anyOf": [{"required": ["cases"]}, {"required": ["triggers"]}],
        "additionalProperties": False,
        "properties": {
            "version": {"const": 1},
            "generated": {
                "type": "boolean",
                "description": "Written by a program: conditional at best until it is removed.",
            },
            "cases": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Case"}},
            "triggers": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Trigger"}},
        },
        "$defs": {
            **definitions,
            **{f"check-{name}": item for name, item in _about().items()},
            "Case": _case(),
            "Check": {"description": "An exact check, decided by a program.", "oneOf": checks},
            "Expectation": _expectation(),
            "File": _file(),
            "KnownIssue": _plain(TypeAdapter(KnownIssue).json_schema()),
            "McpServer": _server(),
            "Service": _plain(TypeAdapter(ServiceProbe).json_schema()),
            "Trigger": {
                "description": "A query that should, or should not, make the agent open the skill.",
                "type": "object",
                "required": ["query", "should_trigger"],
                "additionalProperties": False,
                "properties": {
                    "id": {"type": ["string", "number", "null"]},
                    "query": {"type": "string", "pattern": r"\S"},
                    "should_trigger": {"type": "boolean"},
                },
            },
        },
    }


def _checks() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One schema a check kind, with what every check may have, and the definitions that they refer to."""
    kinds: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for model in get_args(get_args(CheckParameters)[0]):
        schema = _plain(TypeAdapter(model).json_schema(ref_template="#/$defs/{model}"))
        definitions |= schema.pop("$defs", {})
        properties = schema.pop("properties")
        kind = properties.pop("kind")["const"]
        schema |= {
            "type": "object",
            "properties": {
                "kind": {"const": kind},
                **properties,
                **{name: {"$ref": f"#/$defs/check-{name}"} for name in _about()},
            },
            "required": ["kind", *schema.get("required", ())],
            "additionalProperties": False,
        }
        kinds.append(schema)
    return kinds, definitions


def _about() -> dict[str, Any]:
    return {
        "id": {"type": ["string", "number", "null"], "description": "Unique in its case."},
        "severity": {
            "enum": [item.value for item in Severity],
            "default": Check.model_fields["severity"].default.value,
        },
        "rule_ref": {"type": ["string", "null"], "description": "The rule of SKILL.md that it tests."},
        "description": {"type": ["string", "null"]},
        "arms": {"type": ["array", "null"], "items": {"enum": list(get_args(ArmName))}},
        "known_issue": {"oneOf": [{"$ref": "#/$defs/KnownIssue"}, {"type": "null"}]},
    }


def _case() -> dict[str, Any]:
    fields = Case.model_fields
    return {
        "type": "object",
        "required": ["prompt"],
        "additionalProperties": False,
        "properties": {
            "id": {"type": ["string", "number", "null"], "description": "Unique in the file."},
            "name": {"type": ["string", "null"], "description": "What people call it."},
            "prompt": {"type": "string", "pattern": r"\S", "description": "What the agent is asked."},
            "type": {"enum": [item.value for item in CaseType], "default": CaseType.HAPPY_PATH.value},
            "risk": {"enum": list(get_args(fields["risk"].annotation)), "default": fields["risk"].default},
            "guards": {
                "enum": [None, *(item.value for item in Guard)],
                "description": "Harm that the case is there to catch: a failed must check is then a veto.",
            },
            **{key: {"type": ["string", "null"], "description": text} for key, text in _CASE_TEXT.items()},
            "files": {
                "type": ["object", "null"],
                "description": "Workspace path to content.",
                "additionalProperties": {"$ref": "#/$defs/File"},
            },
            "checks": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Check"}},
            "expectations": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Expectation"}},
            "mcp_servers": {"type": "array", "items": {"$ref": "#/$defs/McpServer"}},
            "skip_without_skill": {"type": "boolean", "default": False},
            "mode": {"enum": list(get_args(fields["mode"].annotation)), "default": fields["mode"].default},
            "turns": {
                "type": ["array", "null"],
                "items": {"type": "string", "pattern": r"\S"},
                "maxItems": 20,
                "description": "What the user says next, one after each answer.",
            },
            "service": {"oneOf": [{"$ref": "#/$defs/Service"}, {"type": "null"}]},
            "expected_output": {"type": ["string", "null"], "description": "For people; no model sees it."},
        },
    }


def _expectation() -> dict[str, Any]:
    fields = Expectation.model_fields
    return {
        "description": "Prose that a grader decides, with a quote of the record.",
        "oneOf": [
            {"type": "string", "pattern": r"\S"},
            {
                "type": "object",
                "required": ["text"],
                "additionalProperties": False,
                "properties": {
                    "id": {"type": ["string", "number", "null"]},
                    "text": {"type": "string", "pattern": r"\S"},
                    "severity": {
                        "enum": [item.value for item in Severity],
                        "default": fields["severity"].default.value,
                    },
                    "precision": {
                        "enum": list(get_args(fields["precision"].annotation)),
                        "default": fields["precision"].default,
                    },
                    "rule_ref": {"type": ["string", "null"]},
                },
            },
        ],
    }


def _file() -> dict[str, Any]:
    executable: dict[str, Any] = {"executable": {"type": "boolean", "default": False}}
    kinds = {"text": "The content.", "from": "A file or folder of the skill."}
    return {
        "oneOf": [
            {"type": "string"},
            *(
                {
                    "type": "object",
                    "required": [key],
                    "additionalProperties": False,
                    "properties": {key: {"type": "string", "description": words}, **executable},
                }
                for key, words in kinds.items()
            ),
        ]
    }


def _server() -> dict[str, Any]:
    name = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
    modes = list(get_args(McpTool.model_fields["on_unmatched"].annotation))
    conditions: list[dict[str, Any]] = [{key: {"const": True}} for key in ("any", "absent")]
    conditions += [{"equals": {}}, {"contains": {"type": "string"}}, {"regex": {"type": "string", "format": "regex"}}]
    when = {
        "oneOf": [
            {"type": ["string", "number", "boolean", "null", "array"]},
            *(
                {"type": "object", "required": list(item), "properties": item, "additionalProperties": False}
                for item in conditions
            ),
        ]
    }
    result = {"structured": {}, "text": {"type": "string"}, "is_error": {"type": "boolean"}}
    faults = list(get_args(get_args(McpResponse.model_fields["fault"].annotation)[0]))
    times = {"type": "integer", "minimum": 1, "description": McpResponse.__doc__ or ""}
    response = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "when": {"oneOf": [{"const": "any"}, {"type": "null"}, {"type": "object", "additionalProperties": when}]},
            "times": times,
            "fault": {"enum": faults},
            "after": {"type": "string", "description": "A tool that was answered before, in this run."},
            "result": {"type": "object", "properties": result, "additionalProperties": False},
            **result,
        },
        "anyOf": [{"required": [key]} for key in ("structured", "text", "result", "fault")],
    }
    tool = {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {
            "name": name,
            "description": {"type": ["string", "null"]},
            "input_schema": {"type": "object"},
            "on_unmatched": {"enum": modes, "default": McpTool.model_fields["on_unmatched"].default},
            "responses": {"type": "array", "items": response},
        },
    }
    call = {
        "description": McpCall.__doc__ or "",
        "type": "object",
        "required": ["tool"],
        "additionalProperties": False,
        "properties": {"tool": name, "arguments": {"type": "object"}, **result},
        "anyOf": [{"required": [key]} for key in ("structured", "text")],
    }
    return {
        "type": "object",
        "required": ["name", "tools"],
        "additionalProperties": False,
        "properties": {
            "name": name,
            "mode": {"enum": list(MODES), "default": "mock"},
            "tools": {"type": "array", "minItems": 1, "items": tool},
            "cassette": {"type": "array", "items": call},
        },
    }


def _plain(schema: Any) -> Any:
    """Without pydantic's made-up titles, and with descriptions on one line."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "properties" and isinstance(value, dict):
            found[key] = {name: _plain(item) for name, item in value.items()}
        elif key == "description" and isinstance(value, str):
            found[key] = " ".join(value.replace("``", "`").split())
        else:
            found[key] = _plain(value)
    return found


if __name__ == "__main__":
    sys.stdout.buffer.write(pretty_json(suite_schema()))
