"""A child process that searches with regular expressions, so that a pattern that never ends can be killed.

Run as a script: it imports nothing of the gate, reads one JSON command a line from standard input and answers with one
JSON line. Commands: ``{"texts": name, "values": [text, …]}`` stores texts and answers ``{}``; ``{"search": pattern,
"flags": int, "in": name, "matching": bool}`` answers ``{"index": int, "span": [start, end] or null}`` for the first text
that matches (or does not), ``{"index": null}`` where there is none; with ``"each": true`` it answers ``{"each": [0 or 1,
…]}``, one for each text. ``{"error": words}`` where the search fails.
"""

from __future__ import annotations

import json
import re
import sys


def first(pattern: re.Pattern[str], texts: list[str], matching: bool) -> dict[str, object]:
    """The first text in which the pattern is, or is not, found."""
    for index, text in enumerate(texts):
        found = pattern.search(text)
        if (found is not None) is matching:
            return {"index": index, "span": list(found.span()) if found else None}
    return {"index": None}


def serve() -> None:
    """Answer until standard input ends."""
    texts: dict[str, list[str]] = {}
    for line in sys.stdin:
        command = json.loads(line)
        answer: dict[str, object] = {}
        if "texts" in command:
            texts[command["texts"]] = command["values"]
        else:
            try:
                pattern = re.compile(command["search"], command["flags"])
                if command.get("each"):
                    answer["each"] = [int(pattern.search(text) is not None) for text in texts[command["in"]]]
                else:
                    answer = first(pattern, texts[command["in"]], command["matching"])
            except (re.error, RecursionError, OverflowError, MemoryError) as error:
                answer["error"] = str(error) or type(error).__name__
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
