from __future__ import annotations

import re
import subprocess

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gate.domain.refs import MAX_NAME, is_name
from gate.service.openapi import DOCUMENT

# In JSON Schema a $ is the end of the text; in Python also what is before a last line feed.
PATTERN = DOCUMENT["components"]["schemas"]["AuditRequest"]["properties"]["ref"]["pattern"].removesuffix("$") + r"\Z"
PIECES = st.sampled_from(
    ["a", "B7", "-", ".", "..", "/", "//", ".lock", ".lock/", "@", "@{", "{", "é", "中", "\x01", "\x7f", " ", "~", "^", ":", "?", "*",
     "[", "]", "\\", "+", "_", "%", "HEAD", "\n", "\x85"]
)  # fmt: skip
NAMES = st.one_of(
    st.lists(PIECES, max_size=6).map("".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
)


def git_takes(name: str) -> bool:
    return subprocess.run(["git", "check-ref-format", f"refs/heads/{name}"], check=False).returncode == 0


@settings(max_examples=150, deadline=None)
@example("release/1.2")
@example("v1.2.3")
@example("feature/a.lock/b")
@example("a.")
@example("a./b")
@example(".a")
@example("a/.b")
@example("@")
@example("a\n")
@example("--upload-pack=x")
@example("")
@given(NAMES)
def test_a_name_is_taken_where_git_takes_it_and_it_begins_with_no_dash(name: str) -> None:
    taken = git_takes(name) and not name.startswith("-")
    assert is_name(name) == taken
    assert bool(re.search(PATTERN, f"refs/heads/{name}")) == bool(re.search(PATTERN, f"refs/tags/{name}")) == taken


def test_a_name_that_no_command_line_can_hold_is_refused() -> None:
    assert not is_name("a\0b")
    assert not is_name("a\ud800")
    assert is_name("a" * MAX_NAME)
    assert not is_name("a" * (MAX_NAME + 1))
