from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gate.domain.base import canonical_json
from gate.domain.findings import Level
from gate.domain.manifest import ManifestState
from gate.intake.manifests.marketplace import HOMES
from gate.intake.policy import parse_policy
from gate.intake.preflight import preflight_facts
from gate.intake.scan import scan_skill
from gate.intake.skill import parse_skill
from tests.builders_manifests import (
    MD,
    SKILL_FILES,
    Content,
    Tree,
    a_global_lock,
    a_schemapin,
    a_sigstore,
    a_statement,
    report_of,
    skill_file,
)

SKILL = ".agents/skills/pdf"
PLACES = (
    ".claude-plugin/plugin.json", ".codex-plugin/plugin.json", ".plugin/plugin.json", "plugin.json", "mcp.json", *HOMES,
    "skills-lock.json", ".agents/.skill-lock.json", ".well-known/agent-skills/index.json", ".well-known/skills/index.json",
    f"{SKILL}/skill.oms.sig", f"{SKILL}/SKILL.sigstore", f"{SKILL}/.schemapin.sig",
)  # fmt: skip
WORDS = st.sampled_from(
    ["name", "version", "skills", "plugins", "source", "sha", "ref", "owner", "metadata", "pluginRoot", "computedHash", "digest",
     "url", "type", "archive", "skill-md", "files", "pdf", "mcpServers", "command", "env", "./x", "../x", "/etc/x", "", "github",
     "$schema", "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "skillFolderHash", "dsseEnvelope", "payload",
     "messageSignature", "messageDigest", "file_manifest", "skill_hash", "sha256:" + "a" * 64, "a" * 64, "extensions", "author"]
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 5) | WORDS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=6),
    max_leaves=20,
)
DOCUMENTS = (
    st.dictionaries(WORDS, VALUES, max_size=6).map(lambda value: json.dumps(value).encode())
    | VALUES.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=80)
)
NAMES = st.sampled_from(["SKILL.md", "a.md", "b/c.md", "scripts/x.py", "é.md", "Z"])
CONTENTS: st.SearchStrategy[Content] = (
    st.sampled_from([MD, "x", "", "y\r\n"]) | st.binary(max_size=5) | st.just(("link", "a.md"))
)


@settings(max_examples=250)
@given(st.dictionaries(st.sampled_from(PLACES), DOCUMENTS, min_size=1, max_size=5), st.booleans())
def test_no_bytes_in_any_manifest_raise_and_all_that_is_said_can_be_stored(files: Tree, committed: bool) -> None:
    tree: Tree = {f"{SKILL}/SKILL.md": MD, **files}
    report = report_of(tree, SKILL, committed=committed, require_signed=True)
    canonical_json([item.to_json() for item in (*report.statuses, *report.findings)])
    for status in report.statuses:
        assert status.reason or status.state is not ManifestState.SKIPPED
        assert status.path in tree or status.kind == "signature"
    for item in report.findings:
        assert not item.blocks, "the policy decides what blocks"
        assert item.line is None or item.line >= 1
    # A manifest with an error is never called verified.
    wrong = {item.path for item in report.findings if item.level is Level.ERROR}
    for status in report.statuses:
        assert status.path not in wrong or status.state in (ManifestState.FAILED, ManifestState.STALE), (status, wrong)


@settings(max_examples=80)
@given(
    st.dictionaries(NAMES, CONTENTS, max_size=5), st.sampled_from([a_statement, a_sigstore, a_schemapin, a_global_lock])
)
def test_only_the_files_that_were_signed_are_verified(files: dict[str, Content], make: Any) -> None:
    places = {a_statement: "skill.oms.sig", a_sigstore: "SKILL.sigstore", a_schemapin: ".schemapin.sig"}
    place = f"{SKILL}/{places[make]}" if make in places else ".agents/.skill-lock.json"
    tree: Tree = {**{f"{SKILL}/{path}": content for path, content in files.items()}, place: make(SKILL_FILES)}
    states = [item.state for item in report_of(tree, SKILL).statuses if item.kind != "signature"]
    plain = {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}
    signed = {path: str(content).encode() for path, content in SKILL_FILES.items()}
    assert states == [ManifestState.VERIFIED if plain == signed else ManifestState.STALE]


@settings(max_examples=150)
@given(st.text(max_size=200) | st.lists(st.sampled_from(
    ["curl ", "~/.ssh/id_rsa", " | ", "$(cat ", "env", "https://x", "\n", "send ", " to ", "ssh keys", "::error ::", "!`x`", "\u200b",
     "\u202e", "`", "```", "# ", "\\\n", "\r\n", "\x0b", "İ", "\U000e0041", "ghp_", "dear grader", "-d @", ".env", "pip install x"]
), max_size=40).map("".join))  # fmt: skip
def test_no_text_makes_the_scan_or_the_preflight_raise_and_lines_are_in_the_file(body: str) -> None:
    data = f"---\nname: a\ndescription: d\n---\n{body}".encode("utf-8", "replace")
    skill, _ = parse_skill("s", (skill_file("SKILL.md", data),))
    if skill is None:
        return
    lines = data.decode().replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    for item in scan_skill(skill):
        canonical_json(item)
        assert item.line is None or 1 <= item.line <= lines, (item, lines)
    for fact in preflight_facts(skill):
        canonical_json(fact)
        assert fact.sentence


@settings(max_examples=100)
@given(
    st.dictionaries(
        st.sampled_from(["skills", "suppressions", "trust", "thresholds", "require_signed", "models"]), VALUES
    )
)
def test_no_value_in_the_newer_policy_keys_raises(keys: dict[str, Any]) -> None:
    policy, findings = parse_policy(json.dumps(keys).encode())
    assert all(item.message for item in findings)
    policy.for_skill("skills/a")
    policy.available_to("skills/a")
