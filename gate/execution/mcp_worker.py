"""A child process that looks at what a fixture's author wrote, so that a pattern or a schema that never ends can be killed.

Run as a script: it imports nothing of the gate, reads one JSON job from standard input and prints one JSON answer. Jobs:
``{"pattern": text, "text": text}`` answers ``{"found": bool}``; ``{"schema": object, "arguments": object}`` answers
``{"invalid": words or null}``. ``{"error": words}`` says that the pattern or the schema itself cannot be used.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """The answer to one job. Never raises for what an author wrote."""
    try:
        if "pattern" in job:
            return {"found": re.search(job["pattern"], job["text"]) is not None}
        return {"invalid": _invalid(job["schema"], job["arguments"])}
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        return {"error": str(error)[:300] or type(error).__name__}
    except Exception as error:  # noqa: BLE001 - jsonschema raises many kinds for a schema that is none
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def _invalid(schema: dict[str, Any], arguments: dict[str, Any]) -> str | None:
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # An empty registry: a reference to an address is an error, never a download.
    validator = Draft202012Validator(schema, registry=Registry())
    validator.check_schema(schema)
    errors = sorted(validator.iter_errors(arguments), key=lambda error: [str(part) for part in error.path])
    return "; ".join(error.message[:200] for error in errors[:3]) or None


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(json.load(sys.stdin))))
