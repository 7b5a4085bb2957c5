from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from gate.domain.skill import SkillFile
from gate.intake.profiles import Profile, profile_findings, refused
from tests.builders_skill import a_file

skills_ref = pytest.importorskip(
    "skills_ref.validator", reason="PyPI skills-ref is not installed: its profile is not held against it"
)

# What skills-ref 0.1.1 says -> the rule that says it here.
SAID = (
    ("Missing required file", "missing"),
    ("SKILL.md must start", "front-matter"),
    ("SKILL.md frontmatter not properly closed", "front-matter"),
    ("Invalid YAML", "yaml"),
    ("SKILL.md frontmatter must be a YAML mapping", "yaml"),
    ("Unexpected fields", "unexpected-fields"),
    ("Missing required field in frontmatter: name", "name"),
    ("Field 'name'", "name"),
    ("exceeds 64", "name-length"),
    ("must be lowercase", "name-case"),
    ("start or end with a hyphen", "name-edge"),
    ("consecutive hyphens", "name-hyphens"),
    ("invalid characters", "name-characters"),
    ("must match skill name", "name-folder"),
    ("Missing required field in frontmatter: description", "description"),
    ("Field 'description'", "description"),
    ("Description exceeds", "description-length"),
    ("Field 'compatibility'", "compatibility"),
    ("Compatibility exceeds", "compatibility-length"),
)


def oracle(folder: str, file_name: str, data: bytes) -> set[str]:
    """Rules by which the reference validator refuses a skill; a crash of it refuses too, as ``crash``."""
    with tempfile.TemporaryDirectory() as around:
        place = Path(around) / folder
        place.mkdir()
        (place / file_name).write_bytes(data)
        try:
            said = skills_ref.validate(place)
        except Exception:  # noqa: BLE001 - it raises what its YAML library raises, ReaderError's AttributeError too
            return {"crash"}
    return {next((rule for start, rule in SAID if start in line), line) for line in said}


def ours(folder: str, file_name: str, data: bytes) -> set[str]:
    file = a_file(file_name).model_copy(update={"data": data, "size_bytes": len(data)})
    found = profile_findings(Profile.SKILLS_REF, f"skills/{folder}", (file,))
    return {item.rule.removeprefix("profile/skills-ref/") for item in found}


def agree(folder: str, file_name: str, data: bytes) -> None:
    theirs, mine = oracle(folder, file_name, data), ours(folder, file_name, data)
    if theirs != {"crash"}:  # it says nothing then; that ours says something, whatever it is, was shown
        assert mine == theirs, (data, mine, theirs)


VALUES = st.sampled_from(
    ["sums", "Sums", "求和", "a--b", "-a", "a_b", "ﬁx", "sums ", "42", "yes", "null", "", "~", "1.0", "2026-02-30", "a: b", "a # b",
     "'a: b'", '"a\\tb"', "|\n  text\n  more", ">-\n  folded\n  text", "> \n  a\n\n  b", "[a, b]", "{a: b}", "[", "*a", "&a x", "!!int 3", "@x", "`x`",
     "%x", "- a", "\n  - a\n  - b", "\n  k: v\n  l: w", "\n  k:\n    x: 1\n  l:\n      y: 2", "x --- y", "d" * 1025, "d" * 1024, "e" * 501, "a" * 65,
     "\n  k: 1\n  k: 2", "'", "plain\n  continued", "\tx", "x\t# c", "é", "a,b", "?", "? x", "a:b", "http://x", ":", "a\u2028b", "a\x85b", "|+\n  x\n\n"]
)  # fmt: skip
KEYS = st.sampled_from(
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools", "version", "Name", "x y", "1", "'q'", "<<", "? a"]
)  # fmt: skip
LINES = st.tuples(KEYS, VALUES).map(lambda pair: f"{pair[0]}: {pair[1]}\n") | st.sampled_from(
    ["# comment\n", "\n", "  \n", "stray\n", "  indented: 1\n", "...\n", "--- \n", "%YAML 1.1\n"]
)
MATTER = st.lists(LINES, max_size=5).map("".join)
GOOD = st.just("name: sums\ndescription: Adds.\n") | st.just("name: sums\n") | st.just("")
SHAPES = st.sampled_from(
    [
        "---\n{}---\n",
        "---\n{}---",
        "---\r\n{}---\r\n",
        "\n---\n{}---\n",
        "---{}---\n",
        "---\n{}",
        "﻿---\n{}---\n",
        "--- \n{}--- \n",
    ]
)


@given(
    SHAPES,
    GOOD,
    MATTER,
    st.sampled_from(["SKILL.md", "SKILL.md", "skill.md", "Skill.md"]),
    st.sampled_from(["sums", "求和", "fix"]),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@example("---\n{}---\n", "", "name: a\ndescription: x\nmetadata:\n  k:\n    x: 1\n  l:\n      y: 2\n", "SKILL.md", "a")
@example("---\n{}---\n", "name: sums\ndescription: Adds.\n", "metadata: |\n  a --- b\n", "SKILL.md", "sums")
@example("---\n{}---\n", "name: ﬁx\ndescription: Adds.\n", "", "SKILL.md", "fix")
def test_the_profile_says_what_the_reference_validator_says(
    shape: str, good: str, matter: str, file_name: str, folder: str
) -> None:
    agree(folder, file_name, shape.replace("{}", good + matter).encode("utf-8"))


@given(st.text(st.sampled_from("abc :-#'\"[]{}&*!|>%@`,?\n\t~é\\."), max_size=12))
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
def test_it_takes_and_refuses_the_same_odd_values(value: str) -> None:
    # The one known difference: strictyaml wants a space between a block scalar's sign and a comment.
    assume(not re.search("[|>]#", value))
    data = f"---\nname: sums\ndescription: Adds.\nlicense: {value}\n---\n".encode()
    theirs = oracle("sums", "SKILL.md", data)
    assert theirs == {"crash"} or bool(theirs) == bool(ours("sums", "SKILL.md", data))


@given(st.binary(max_size=60))
@settings(max_examples=60)
def test_bytes_that_nobody_meant_are_refused_with_a_reason(data: bytes) -> None:
    assert ours("sums", "SKILL.md", b"---\n" + data + b"\n---\n")


def test_it_agrees_on_every_skill_of_the_corpus(shared_dir: Path) -> None:
    count = refusals = 0
    for path in sorted((shared_dir / "corpus").rglob("*")):
        if path.name in ("SKILL.md", "skill.md") and path.is_file() and not path.is_symlink():
            count += 1
            agree(path.parent.name, path.name, path.read_bytes())
            file = SkillFile(
                path=path.name, mode="100644", sha256="", size_bytes=path.stat().st_size, data=path.read_bytes()
            )
            refusals += refused(profile_findings(Profile.SKILLS_REF, f"x/{path.parent.name}", (file,)))
    assert count >= 40
    assert 0 < refusals < count, "both answers were compared"
