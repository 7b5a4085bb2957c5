"""A child process that searches with regular expressions, so that a pattern that never ends can be killed.

Run as a script: it imports nothing of the gate, reads one JSON command a line from standard input and answers with one
JSON line. Commands: ``{"text": name, "value": text}`` stores a text and answers ``{}``; ``{"search": pattern,
"flags": int, "in": name}`` answers ``{"span": [start, end]}``, ``{"span": null}`` or ``{"error": words}``.
"""

from __future__ import annotations

import json
import re
import sys


def serve() -> None:
    """Answer until standard input ends."""
    texts: dict[str, str] = {}
    for line in sys.stdin:
        command = json.loads(line)
        answer: dict[str, object] = {}
        if "text" in command:
            texts[command["text"]] = command["value"]
        else:
            try:
                found = re.compile(command["search"], command["flags"]).search(texts[command["in"]])
                answer["span"] = list(found.span()) if found else None
            except (re.error, RecursionError, OverflowError, MemoryError) as error:
                answer["error"] = str(error) or type(error).__name__
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
