"""A child process that validates JSON, so that a schema that never ends can be killed.

Run as a script: it imports nothing of the gate, reads one JSON command a line from standard input and answers with one
JSON line. Command: ``{"schema": schema, "value": value}``; answer ``{"problems": [clause, …]}`` or ``{"error": clause}``.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import Any

MOST = 5
LONGEST = 300


def problems(schema: Any, value: Any) -> list[str]:
    """Up to MOST problems. A reference out of the schema is an error: the registry holds the meta schemas and nothing else."""
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped] # it ships no types

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    validator = kind(schema, registry=REGISTRY)
    found = islice(validator.iter_errors(value), MOST)
    return [f"{error.json_path}: {error.message}"[:LONGEST] for error in found]


def serve() -> None:
    """Answer until standard input ends."""
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    for line in sys.stdin:
        command = json.loads(line)
        answer: dict[str, object]
        try:
            answer = {"problems": problems(command["schema"], command["value"])}
        except SchemaError as error:
            answer = {"error": f"the schema is none: {error.json_path}: {error.message}"[:LONGEST]}
        except Unresolvable as error:
            answer = {"error": f"a reference of the schema leads nowhere: {error}"[:LONGEST]}
        except Exception as error:  # noqa: BLE001 - whatever a schema makes the library do is this schema's, not the gate's
            answer = {"error": f"the schema cannot be evaluated: {type(error).__name__}: {error}"[:LONGEST]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
