"""The public complaints about intake (cases/README.md B), each as its own input asks for it, through the whole command."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate.cli import main as run_command
from gate.wiring import bind
from tests.fakes.repository import Entry, GitFolder, link

CANARY = "canary-9d2f1c"


def md(name: str, body: str = "Steps.", description: str = "Does it. Use for it.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n# {name}\n{body}\n"


def evals(*cases: Mapping[str, Any]) -> str:
    return json.dumps({"skill_name": "a", "evals": list(cases)})


CASE = {"id": 1, "prompt": "p", "expectations": ["The answer is polite."]}
Files = dict[str, "str | bytes | Entry"]


def judged(
    folder: Path, main: Files, change: Files, *, newer: Files | None = None, out: str = "out"
) -> tuple[int, dict[str, Any], str]:
    """(exit code, report.json, all that was written) of the static layers; ``newer``: main's tip after the branch was cut."""
    repo = GitFolder(folder / "repo")
    start = repo.commit(main, branch="main")
    if newer is not None:
        repo.commit(newer, parent=start, branch="main")
    repo.commit(change, parent=start, branch="topic")
    log: list[str] = []
    app = replace(bind({"HOME": str(folder)}, threading.Event()), say=log.append, abort=lambda: None)
    place = folder / out
    arguments = ["run", "--repository", str(repo.folder), "--base", "main", "--head", "topic", "--out", str(place)]
    code = run_command(app, arguments)
    report = json.loads((place / "report.json").read_text("utf-8"))
    written = "\n".join(path.read_text("utf-8", "replace") for path in sorted(place.rglob("*")) if path.is_file())
    return code, report, written + "\n".join(log)


def skills(report: dict[str, Any]) -> dict[str, str]:
    return {skill["path"]: skill["verdict"] for skill in report["skills"]}


def findings(report: dict[str, Any], path: str = "skills/a") -> list[dict[str, Any]]:
    (skill,) = [item for item in report["skills"] if item["path"] == path]
    return list(skill["findings"])


def test_27_both_words_for_checks_work_and_a_typo_is_an_error_with_file_and_case(tmp_path: Path) -> None:
    cases = [
        {"id": 1, "prompt": "p", "assertions": ["x"]},
        {"id": 2, "prompt": "p", "expectations": ["x"]},
        {"id": 3, "prompt": "p", "assertion": ["x"]},
    ]
    base: Files = {"skills/a/SKILL.md": md("a"), "skills/a/evals/evals.json": evals(CASE)}
    code, report, _ = judged(tmp_path, base, {**base, "skills/a/evals/evals.json": evals(CASE, *cases[1:])})
    assert code == 1
    assert skills(report) == {"skills/a": "invalid"}
    (found,) = [item for item in findings(report) if item["blocks"]]
    assert found["path"] == "skills/a/evals/evals.json"
    assert 'case "3"' in found["message"]
    assert "did you mean assertions?" in found["message"]


def test_29_a_skill_md_that_is_a_link_to_a_secret_is_refused_and_nothing_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SECRET", CANARY)
    (tmp_path / "secret").write_text(CANARY)
    base: Files = {"skills/a/SKILL.md": md("a"), "skills/a/evals/evals.json": evals(CASE)}
    change: Files = {
        **base,
        "skills/a/SKILL.md": link("/proc/self/environ"),
        "skills/a/references/x": link("../../../.git/config"),
        "skills/a/references/y": link(str(tmp_path / "secret")),
    }
    code, report, written = judged(tmp_path, base, change)
    assert code == 1
    assert skills(report) == {"skills/a": "invalid"}
    assert "skill-md/link" in {item["rule"] for item in findings(report)}
    assert CANARY not in written
    assert "[core]" not in written
    inside: Files = {
        **base,
        "skills/a/references/x": link("../../../.git/config"),
        "skills/a/SKILL.md": md("a", "New."),
    }
    _, report, written = judged(tmp_path / "two", base, inside)
    assert [item["path"] for item in findings(report) if "link" in item["rule"]] == ["skills/a/references/x"]
    assert "[core]" not in written


def test_33_a_skill_that_changed_on_main_only_is_not_this_changes(tmp_path: Path) -> None:
    base: Files = {f"skills/{name}/SKILL.md": md(name) for name in ("a", "b", "c")}
    newer: Files = {**base, "skills/b/SKILL.md": md("b", "main moved on")}
    _, report, _ = judged(tmp_path, base, {**base, "skills/a/SKILL.md": md("a", "New.")}, newer=newer)
    assert set(skills(report)) == {"skills/a"}


def test_35_a_skill_md_among_anothers_references_is_no_skill_and_changes_the_outer_one(tmp_path: Path) -> None:
    base: Files = {"skills/a/SKILL.md": md("a"), "skills/a/references/b/SKILL.md": "no front matter at all"}
    code, report, _ = judged(tmp_path, base, {**base, "skills/a/references/b/SKILL.md": "still none, edited"})
    assert code == 0
    assert set(skills(report)) == {"skills/a"}
    assert report["skills"][0]["change"] == "modified"
    assert not [item for item in findings(report) if item["level"] == "error"]


def test_43_a_signed_skill_that_moved_on_has_a_finding_for_each_file_and_must_be_signed_again(tmp_path: Path) -> None:
    from tests.builders_manifests import a_statement

    signed = {"SKILL.md": md("a"), "scripts/x.py": "print(1)\n"}
    start: Files = {f"skills/a/{path}": text for path, text in signed.items()}
    base: Files = {**start, "skills/a/skill.oms.sig": a_statement(signed)}
    change: Files = {**base, "skills/a/SKILL.md": md("a", "New."), "skills/a/scripts/y.py": "print(2)\n"}
    del change["skills/a/scripts/x.py"]
    _, report, _ = judged(tmp_path, base, change)
    about = {
        (item["rule"].rpartition("/")[2], item["path"]) for item in findings(report) if "/oms-sig/" in item["rule"]
    }
    assert about == {
        ("changed", "skills/a/SKILL.md"),
        ("extra", "skills/a/scripts/y.py"),
        ("missing", "skills/a/scripts/x.py"),
    }
    remedies = [item["remedy"] for item in findings(report) if "/oms-sig/" in item["rule"]]
    assert all("sign" in remedy.lower() for remedy in remedies), remedies
    (status,) = [item for item in report["skills"][0]["manifests"] if item["kind"] == "oms-sig"]
    assert status["state"] == "stale"


def test_45_keys_of_hosts_are_fine_unknown_ones_a_notice_near_misses_a_warning(tmp_path: Path) -> None:
    more = "version: 1.0.0\nauthor: me\ntags: [x]\nuser-invocable: true\nmine: 1\ndescripton: d\n"
    base: Files = {"skills/a/SKILL.md": md("a")}
    code, report, _ = judged(tmp_path, base, {"skills/a/SKILL.md": md("a", more=more)})
    assert code == 0
    levels = {item["rule"]: item["level"] for item in findings(report)}
    assert levels == {"skill-md/unknown-keys": "notice", "skill-md/near-miss": "warning"}, findings(report)
    (warning,) = [item for item in findings(report) if item["level"] == "warning"]
    assert "description" in warning["message"] + warning["remedy"]


@pytest.mark.parametrize(
    ("description", "refused"),
    [("能" * 342, False), ("😀" * 1024, False), ("😀" * 1025, True), (f"  {'x' * 1024}  ", False)],
)
def test_47_limits_count_the_characters_of_the_value_and_not_bytes(
    tmp_path: Path, description: str, refused: bool
) -> None:
    base: Files = {"skills/a/SKILL.md": md("a")}
    _, report, _ = judged(tmp_path, base, {"skills/a/SKILL.md": md("a", description=f'"{description}"')})
    about = [item for item in findings(report) if "1024" in item["message"] or "1,024" in item["message"]]
    assert bool(about) == refused, findings(report)
    assert not refused or ("1025" in about[0]["message"] and "description" in about[0]["message"])


def test_49_a_skill_whose_yaml_is_broken_is_listed_counted_as_changed_and_fails(tmp_path: Path) -> None:
    base: Files = {"skills/a/SKILL.md": md("a")}
    broken = md("a", description="Review along two axes: standards and tests")
    code, report, _ = judged(tmp_path, base, {"skills/a/SKILL.md": broken})
    assert code == 1
    assert skills(report) == {"skills/a": "invalid"}
    (found,) = [item for item in findings(report) if item["blocks"]]
    assert (found["line"], found["path"]) == (3, "skills/a/SKILL.md")
    assert found["column"]
    assert "quotes" in found["message"] + found["remedy"]
    assert report["skills"][0]["change"] == "modified"


def test_manifest_states_stand_in_comment_page_and_bundle_and_the_findings_as_sarif(tmp_path: Path) -> None:
    base: Files = {
        "skills/a/SKILL.md": md("a"),
        ".claude-plugin/plugin.json": json.dumps({"name": "p", "version": "1.0.0"}),
    }
    change = {**base, "skills/a/SKILL.md": md("a", "See [it](none.md).")}
    _, report, _ = judged(tmp_path, base, change)
    states = {(item["kind"], item["state"]) for item in report["skills"][0]["manifests"]}
    assert states == {("plugin-json", "verified"), ("signature", "unsigned")}
    comment, page = ((tmp_path / "out" / name).read_text("utf-8") for name in ("report.md", "report.html"))
    assert "**Manifests: 2**" in comment
    assert "- `plugin-json` at `.claude-plugin/plugin.json`: verified" in comment
    assert "- `signature` at `skills/a`: unsigned" in comment
    assert "<code>signature</code> at <code>skills/a</code>: unsigned" in page
    stored = json.loads((tmp_path / "out/skills" / report["skills"][0]["slug"] / "manifests.json").read_text("utf-8"))
    assert {item["state"] for item in stored["manifests"]} == {"verified", "unsigned"}
    log = json.loads((tmp_path / "out/findings.sarif").read_text("utf-8"))
    assert [item["ruleId"] for item in log["runs"][0]["results"]] == ["body/broken-link"]
    sealed = json.loads((tmp_path / "out/manifest.json").read_text("utf-8"))
    assert "findings.sarif" in json.dumps(sealed)
