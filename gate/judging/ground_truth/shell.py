"""The simple commands of a shell line, without running it.

This is no shell: variables, substitutions and functions are not followed. It serves to tell a command that was run from a
text that was only printed, for which words and quotes are enough.
"""

from __future__ import annotations

import re
import shlex

LINE_LIMIT = 65_536
"""Characters of a line that are looked at."""
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1")
_SEPARATORS = set(";&|()\n")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_OPENERS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"})
_WRAPPERS = frozenset({"exec", "command", "builtin", "nohup", "sudo", "env", "stdbuf", "nice"})
_SHELLS = frozenset({"bash", "sh", "dash", "zsh"})


def simple_commands(line: str, *, depth: int = 3) -> list[list[str]] | None:
    """The words of each simple command, in order; None for a line whose quotes do not close.

    ``bash -c '…'`` gives the commands inside as well; ``sudo``, ``env X=1`` and the like are taken off.
    """
    try:
        words = _words(_without_heredocs(line[:LINE_LIMIT]))
    except ValueError:
        return None
    found: list[list[str]] = []
    current: list[str] = []
    for word in [*words, "\n"]:
        if word and set(word) <= _SEPARATORS:
            if current:
                found += _unwrapped(current, depth)
            current = []
        else:
            current.append(word)
    return found


def plain_words(line: str) -> list[str]:
    """The words of a line with quotes and signs taken off: what a shell could make of any part of it."""
    return [word for word in re.split(r"[\s;&|()<>'\"`$]+", line) if word]


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    comment = skip = False
    for word in lexer:
        if word and set(word) <= _SEPARATORS:
            comment = comment and "\n" not in word
            skip = False
            if not comment:
                words.append(word)
        elif comment or word.startswith("#"):
            comment = True
        elif set(word) <= set("<>&|\n;()") and word:
            skip = True  # a redirection: the next word is a file
        elif skip:
            skip = False
        else:
            words.append(word)
    return words


def _without_heredocs(text: str) -> str:
    lines = text.split("\n")
    kept: list[str] = []
    ends: list[str] = []
    for line in lines:
        if ends:
            if line.strip("\t ") == ends[0]:
                ends.pop(0)
            continue
        kept.append(line)
        ends = [match.group(2) for match in _HEREDOC.finditer(line) if not line[: match.start()].endswith("<")]
    return "\n".join(kept)


def _unwrapped(words: list[str], depth: int) -> list[list[str]]:
    rest = list(words)
    while rest:
        name = rest[0].rsplit("/", 1)[-1]
        if _ASSIGNMENT.match(rest[0]) or name in _OPENERS:
            rest = rest[1:]
        elif name in _WRAPPERS:
            rest = rest[1:]
            while rest and (rest[0].startswith("-") or _ASSIGNMENT.match(rest[0])):
                rest = rest[1:]
        elif name == "timeout":
            rest = rest[1:]
            while rest and (rest[0].startswith("-") or rest[0][:1].isdigit()):
                rest = rest[1:]
        else:
            break
    if not rest:
        return []
    found = [rest]
    if depth and rest[0].rsplit("/", 1)[-1] in _SHELLS:
        for index, word in enumerate(rest[1:-1], 1):
            if re.fullmatch(r"-[a-z]*c", word):
                found += simple_commands(rest[index + 1], depth=depth - 1) or []
                break
    return found


def begins_with(command: list[str], wanted: list[str]) -> bool:
    """Whether a command begins with these words; its program may be written with a folder in front."""
    if len(command) < len(wanted):
        return False
    head = command[0] if "/" in wanted[0] else command[0].rsplit("/", 1)[-1]
    return [head, *command[1 : len(wanted)]] == wanted
