from __future__ import annotations

import base64
import hashlib
import json
import threading
from urllib.parse import quote, quote_plus

import pytest

from gate.evidence.redact import Redactor

SECRET = 'sk-"top/secret+key"=é'
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAo\n-----END KEY-----\n"


def encodings() -> dict[str, str]:
    data = SECRET.encode()
    return {
        "plain": SECRET,
        "base64": base64.b64encode(data).decode(),
        "base64 url": base64.urlsafe_b64encode(data).decode(),
        "base64 after one byte": base64.b64encode(b"k" + data + b" tail").decode(),
        "base64 of basic auth": base64.b64encode(b"me:" + data + b"\n").decode(),
        "base64 after two bytes": base64.b64encode(b"ab" + data).decode(),
        "url": quote(SECRET, safe=""),
        "url path": quote(SECRET),
        "form": quote_plus(SECRET),
        "url lower case": quote(SECRET, safe="").replace("%C3", "%c3").replace("%2F", "%2f").replace("%2B", "%2b"),
        "json": json.dumps(SECRET),
        "json in json": json.dumps(json.dumps(SECRET)),
        "json unescaped": json.dumps(SECRET, ensure_ascii=False),
        "json with slashes": json.dumps(SECRET).replace("/", "\\/"),
        "hex": data.hex(),
        "html": SECRET.replace('"', "&quot;"),
    }


@pytest.mark.parametrize("name", list(encodings()))
def test_a_secret_is_found_in_every_usual_encoding(name: str) -> None:
    redactor = Redactor({"key": SECRET})
    redacted = redactor.text(f"before {encodings()[name]} after")
    digest = hashlib.sha256(SECRET.encode()).hexdigest()[:8]
    assert f"[redacted:key:{digest}]" in redacted
    assert redactor.count >= 1
    for form in encodings().values():
        assert form not in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")


def test_ordinary_text_stays_as_it_is() -> None:
    redactor = Redactor({"key": SECRET})
    text = "sk-something-else-entirely 4111111111111111 AKIAIOSFODNN7EXAMPLE"
    assert redactor.text(text) == text
    assert redactor.count == 0


def test_a_secret_that_is_too_short_is_said_to_be_ignored() -> None:
    redactor = Redactor({"short": "abc12", "empty": "", "long": "abc123"})
    assert redactor.ignored == ("short", "empty")
    assert redactor.text("abc12 x") == "abc12 x"
    assert "abc123" not in redactor.text("abc123")


def test_a_secret_that_holds_another_is_replaced_whole() -> None:
    redactor = Redactor({"inner": "secret-1", "outer": "prefix-secret-1-suffix"})
    assert redactor.text("prefix-secret-1-suffix").startswith("[redacted:outer:")
    assert redactor.text("secret-1").startswith("[redacted:inner:")


def test_a_secret_with_white_space_around_is_found_without_it() -> None:
    assert "token-value" not in Redactor({"token": "token-value\n"}).text("use token-value now")


def test_each_long_line_of_a_secret_of_several_lines_is_found() -> None:
    redacted = Redactor({"pem": PEM}).text("key: MIIEvQIBADANBgkqhkiG9w0 and -----BEGIN KEY-----")
    assert "MIIEvQIBADANBgkqhkiG9w0" not in redacted
    assert "-----BEGIN KEY-----" in redacted


def test_json_is_redacted_in_keys_and_values() -> None:
    redactor = Redactor({"key": "hunter2-hunter2"})
    value = redactor.json({"hunter2-hunter2": ["hunter2-hunter2", 1, None, {"deep": "x hunter2-hunter2"}]})
    assert "hunter2" not in json.dumps(value)
    assert redactor.count == 3


def test_a_kind_cannot_forge_a_marker() -> None:
    assert Redactor({"a]:b\n": "secret-value"}).text("secret-value").startswith("[redacted:a--b-:")


def test_redacting_twice_changes_nothing_more() -> None:
    redactor = Redactor({"key": SECRET})
    once = redactor.text(f"{SECRET} {quote(SECRET)}")
    assert redactor.text(once) == once


def test_threads_count_together() -> None:
    redactor = Redactor({"key": "secret-value"})
    threads = [
        threading.Thread(target=lambda: [redactor.text("secret-value secret-value") for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert redactor.count == 4 * 500 * 2
