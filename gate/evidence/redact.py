"""Secrets out of everything that is recorded. Exact, known secrets only: guessing would cut holes into evidence."""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

from gate.domain.base import Json, sha256_hex

MINIMUM_LENGTH = 6
"""A shorter secret is not looked for: it would match ordinary text everywhere."""

_LONG_LINE = 16


class Redactor:
    """Replaces each known secret by ``[redacted:<kind>:<first 8 hex digits of its SHA-256>]``. Thread-safe.

    Found as it is, and as base64 (alone, or inside a longer encoded text), URL-quoted, JSON-escaped, HTML-escaped and
    hexadecimal; of a secret of several lines also every long line. Not found: a secret that was cut in two, or put
    through another encoding.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """``secrets``: kind (a word such as ``anthropic-key``) -> secret. ``ignored`` lists the kinds that are too short."""
        self.ignored = tuple(kind for kind, secret in secrets.items() if len(secret.strip()) < MINIMUM_LENGTH)
        self._markers: dict[str, str] = {}
        for kind, secret in secrets.items():
            if kind not in self.ignored:
                marker = f"[redacted:{re.sub('[^A-Za-z0-9_-]', '-', kind)}:{sha256_hex(_bytes(secret.strip()))[:8]}]"
                for form in _forms(secret.strip()):
                    self._markers.setdefault(form, marker)
        # The longest first: a secret that holds another one is replaced whole.
        longest_first = sorted(self._markers, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_pattern_of, longest_first))) if longest_first else None
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """How many places were redacted so far."""
        return self._count

    def text(self, text: str) -> str:
        """``text`` without any known secret."""
        if self._pattern is None:
            return text
        redacted, places = self._pattern.subn(self._marker, text)
        if places:
            with self._lock:
                self._count += places
        return redacted

    __call__ = text

    def _marker(self, found: re.Match[str]) -> str:
        form = found[0]
        return self._markers.get(form) or self._markers[_upper_percent(form)]

    def json(self, value: Json) -> Json:
        """A JSON value with every text in it redacted, keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        return value


def _pattern_of(form: str) -> str:
    """A percent escape may be written in upper or lower case, letter by letter."""
    return re.sub("%([0-9A-F]{2})", lambda found: f"%(?i:{found[1]})", re.escape(form))


def _upper_percent(form: str) -> str:
    return re.sub("%[0-9a-fA-F]{2}", lambda found: found[0].upper(), form)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _forms(secret: str) -> Iterator[str]:
    yield from _encoded(secret)
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) > 1:
        for line in lines:
            if len(line) >= _LONG_LINE and not line.startswith("-----"):
                yield from _encoded(line)


def _encoded(secret: str) -> Iterator[str]:
    data = _bytes(secret)
    yield secret
    for ascii_only in (False, True):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]  # JSON inside JSON
    yield from (quote(data, safe=""), quote(data), quote_plus(data))
    yield html.escape(secret)
    yield data.hex()
    yield data.hex().upper()
    for offset in range(3):
        yield from _base64_core(data, offset)


def _base64_core(data: bytes, offset: int) -> Iterator[str]:
    """The base64 characters that these bytes alone decide where ``offset`` (mod 3) bytes stand before them."""
    first = -(-offset * 8 // 6)
    last = (offset + len(data)) * 8 // 6
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        yield encode(b"\0" * offset + data).decode()[first:last]
