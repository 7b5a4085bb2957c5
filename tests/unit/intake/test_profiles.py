from __future__ import annotations

import pytest

from gate.domain.findings import Level
from gate.intake.profiles import Profile, profile_findings, refused
from tests.builders_skill import a_file

MD = "---\nname: sums\ndescription: Adds numbers.\n---\nBody\n"


def said(
    profile: Profile, text: str | bytes, *, name: str = "SKILL.md", mode: str = "100644", path: str = "skills/sums"
) -> dict[str, Level]:
    data = text if isinstance(text, bytes) else text.encode()
    file = a_file(name, mode=mode).model_copy(update={"data": data, "size_bytes": len(data)})
    found = profile_findings(profile, path, (file,))
    assert not any(item.blocks for item in found), "a profile never blocks"
    assert all(item.rule.startswith(f"profile/{profile}/") for item in found)
    return {item.rule.rpartition("/")[2]: item.level for item in found}


def with_keys(keys: str) -> str:
    return f"---\nname: sums\ndescription: Adds numbers.\n{keys}\n---\nBody\n"


@pytest.mark.parametrize("profile", list(Profile))
def test_a_plain_skill_is_taken_by_every_validator(profile: Profile) -> None:
    assert said(profile, MD) == {}


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize(
    "text",
    [
        "",
        "# no front matter",
        "---\nname: a\n",
        "---\nname: a: b\ndescription: d\n---\n",
        "---\n- a\n---\n",
        b"---\nname: \xff\n---\n",
    ],
)
def test_what_nobody_can_read_is_refused_by_every_validator(profile: Profile, text: str | bytes) -> None:
    assert Level.ERROR in said(profile, text).values()


@pytest.mark.parametrize("profile", list(Profile))
def test_no_skill_md_and_a_link_are_refused(profile: Profile) -> None:
    assert refused(profile_findings(profile, "skills/a", (a_file("other.md"),)))
    assert Level.ERROR in said(profile, "../x", mode="120000").values()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (with_keys("version: '1'"), "unknown-key"),
        (with_keys("user-invocable: true"), "unknown-key"),
        (MD.replace("sums", "Sums"), "name-form"),
        (MD.replace("sums", "求和"), "name-form"),
        (MD.replace("sums", "a--b"), "name-form"),
        (MD.replace("sums", "other"), "name-folder"),
        (MD.replace("sums", "a" * 65), "name-length"),
        (MD.replace("name: sums", "name: 42"), "name-type"),
        (MD.replace("name: sums\n", ""), "name-missing"),
        (MD.replace("Adds numbers.", "''"), "description-missing"),
        (MD.replace("Adds numbers.", "数" * 1025), "description-length"),
        (with_keys("compatibility: ''"), "compatibility-missing"),
        (with_keys("compatibility: [a]"), "compatibility-type"),
        (with_keys("compatibility: " + "x" * 501), "compatibility-length"),
        (with_keys("metadata: [a]"), "metadata-type"),
        (with_keys("license: 1.0"), "license-type"),
        (with_keys("allowed-tools: [Read]"), "allowed-tools-type"),
        ("\n" + MD, "first-line"),
    ],
)  # fmt: skip
def test_the_specification_refuses(text: str, rule: str) -> None:
    assert said(Profile.SPEC, text).get(rule) is Level.ERROR


@pytest.mark.parametrize(
    ("keys", "rule"),
    [("metadata:\n  version: 1.0", "metadata-values"), ("allowed-tools: Read, Write", "allowed-tools-commas")],
)
def test_the_specification_takes_with_a_warning(keys: str, rule: str) -> None:
    assert said(Profile.SPEC, with_keys(keys)) == {rule: Level.WARNING}


def test_another_spelling_of_the_file_name_is_refused_by_the_specification_and_taken_by_the_reference_validator() -> (
    None
):
    assert said(Profile.SPEC, MD, name="skill.md") == {"file-name": Level.ERROR}
    assert said(Profile.SKILLS_REF, MD, name="skill.md") == {}
    assert said(Profile.SKILLS_REF, MD, name="Skill.md") == {"missing": Level.ERROR}


def test_a_limit_counts_characters_and_not_bytes() -> None:
    for profile in Profile:
        assert said(profile, MD.replace("Adds numbers.", "数" * 1024)) == {}, profile


def test_the_reference_validator_takes_unicode_names_and_reads_every_value_as_text() -> None:
    assert said(Profile.SKILLS_REF, MD.replace("sums", "求和"), path="skills/求和") == {}
    assert said(Profile.SKILLS_REF, MD.replace("name: sums", "name: 42"), path="skills/42") == {}
    assert said(Profile.SPEC, MD.replace("name: sums", "name: 42"), path="skills/42") == {"name-type": Level.ERROR}


def test_the_reference_validator_refuses_what_strict_yaml_refuses() -> None:
    for keys in (
        "metadata: {a: b}",
        "metadata: &x y",
        "license: !!str x",
        "license: a\nlicense: b",
    ):
        assert Level.ERROR in said(Profile.SKILLS_REF, with_keys(keys)).values(), keys


def test_unknown_keys_are_fine_in_claude_code_and_refused_by_the_two_others() -> None:
    text = with_keys("version: 1.0\nauthor: me\ntags: [a]\nuser-invocable: true")
    assert said(Profile.CLAUDE_CODE, text) == {"upload": Level.WARNING, "unknown-keys": Level.NOTICE}
    assert said(Profile.SPEC, text) == {"unknown-key": Level.ERROR}
    assert Level.ERROR in said(Profile.SKILLS_REF, text).values()


@pytest.mark.parametrize(
    ("keys", "rule"),
    [
        ("user-invocable: 'false'", "user-invocable-type"),
        ("disable-model-invocation: 1", "disable-model-invocation-type"),
        ("effort: extreme", "effort-word"),
        ("context: inline", "context-word"),
        ("shell: zsh", "shell-word"),
        ("agent: Explore", "agent-context"),
        ("hooks: [a]", "hooks-type"),
        ("disable-model-invocation: true\nuser-invocable: false", "nobody"),
        ("when_to_use: " + "x" * 1530, "description-cut"),
    ],
)
def test_claude_code_keys_with_values_that_it_ignores_are_warned_of(keys: str, rule: str) -> None:
    assert said(Profile.CLAUDE_CODE, with_keys(keys))[rule] is Level.WARNING


def test_claude_code_needs_neither_name_nor_description_but_says_what_it_takes_instead() -> None:
    found = said(Profile.CLAUDE_CODE, "---\nmodel: opus\n---\nBody\n")
    assert found == {"name-missing": Level.NOTICE, "description-missing": Level.WARNING, "upload": Level.WARNING}
    assert said(Profile.CLAUDE_CODE, MD.replace("Adds numbers.", "Use <b>this</b>.")) == {
        "description-tag": Level.WARNING
    }
    assert said(Profile.CLAUDE_CODE, MD.replace("sums", "claude-sums")) == {"name-reserved": Level.WARNING}


def test_a_root_skill_is_held_to_its_folder_only_where_that_is_known() -> None:
    file = a_file("SKILL.md", MD)
    assert profile_findings(Profile.SPEC, ".", (file,)) == ()
    assert refused(profile_findings(Profile.SPEC, ".", (file,), folder_name="clone-7"))
