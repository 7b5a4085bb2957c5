from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.domain.manifest import ManifestState
from gate.intake.manifests.global_lock import tree_id
from gate.intake.manifests.locale_order import known_order, locale_key
from gate.intake.manifests.skills_lock import folder_hash
from tests.builders_manifests import MD, SKILL, SKILL_FILES, Tree, report_of, skill_file
from tests.fakes.repository import GitFolder

FILES: Tree = {f"{SKILL}/{path}": content for path, content in SKILL_FILES.items()}


def test_names_are_sorted_as_javascript_sorts_them_and_not_by_their_bytes() -> None:
    # What a JavaScript engine with full ICU answers; bytes would give SKILL.md, _x, assets/x, ….
    names = ["SKILL.md", "references/a.md", "_x", "-a", ".z", "A1", "a1", "assets/x", "références/a", "Z", "scripts/x"]
    assert sorted(names, key=locale_key) == [
        "_x", "-a", ".z", "a1", "A1", "assets/x", "références/a", "references/a.md", "scripts/x", "SKILL.md", "Z",
    ]  # fmt: skip


NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="no node on this machine to compare the order of names with")
def test_the_order_is_that_of_a_real_javascript_engine() -> None:
    signs = st.text(
        st.sampled_from("abcABCzZ019 _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$éÉèêëàâäöüñçåøßæ"), min_size=1, max_size=6
    )

    @settings(max_examples=8, deadline=None)
    @given(st.lists(signs, min_size=60, max_size=120, unique=True))
    def check(names: list[str]) -> None:
        known = [name for name in names if known_order(name)]
        script = (
            "let n=JSON.parse(require('fs').readFileSync(0,'utf8'));"
            "console.log(JSON.stringify(n.sort((a,b)=>a.localeCompare(b))))"
        )
        done = subprocess.run(
            [NODE or "", "-e", script], input=json.dumps(known), capture_output=True, text=True, check=True, timeout=30
        )
        assert sorted(known, key=locale_key) == json.loads(done.stdout)

    check()


def test_a_hash_over_names_whose_order_is_not_known_is_skipped_and_not_called_wrong() -> None:
    lock = {"version": 1, "skills": {"pdf": {"source": "o/r", "sourceType": "github", "computedHash": "0" * 64}}}
    tree: Tree = {**FILES, f"{SKILL}/参考.md": "x", "skills-lock.json": json.dumps(lock)}
    report = report_of(tree)
    assert [(item.kind, item.state) for item in report.statuses] == [
        ("skills-lock", ManifestState.SKIPPED),
        ("signature", ManifestState.UNSIGNED),
    ]
    assert [item.rule for item in report.findings] == ["manifest/skills-lock/order"]


def test_an_unfinished_merge_in_a_lock_is_named_with_its_line() -> None:
    text = '{\n "version": 1,\n "skills": {\n<<<<<<< HEAD\n  "a": {}\n=======\n  "b": {}\n>>>>>>> b\n }\n}\n'
    report = report_of({**FILES, "skills-lock.json": text})
    assert [(item.rule, item.line) for item in report.findings] == [("manifest/skills-lock/merge-markers", 4)]
    assert report.statuses[0].state is ManifestState.FAILED


def test_a_source_in_somebodys_home_is_a_warning() -> None:
    hashed = folder_hash([skill_file(path, content) for path, content in SKILL_FILES.items()])
    entry = {"source": "/Users/ana/skills/pdf", "sourceType": "local", "computedHash": hashed}
    report = report_of({**FILES, "skills-lock.json": json.dumps({"version": 1, "skills": {"pdf": entry}})})
    assert [item.rule for item in report.findings] == ["manifest/skills-lock/source-home"]
    assert report.statuses[0].state is ManifestState.VERIFIED


def test_a_lock_without_an_entry_for_the_skill_says_nothing_about_it() -> None:
    lock = json.dumps({"version": 1, "skills": {"other": {"computedHash": ""}}})
    assert [item.kind for item in report_of({**FILES, "skills-lock.json": lock}).statuses] == ["signature"]
    own: Tree = {**FILES, "skills/pdf/SKILL.md": MD, "skills-lock.json": lock.replace("other", "pdf")}
    assert [item.kind for item in report_of(own, "skills/pdf").statuses] == ["signature"], "a repository's own skill"


def test_links_and_node_modules_do_not_count_in_a_lock() -> None:
    entry = {"computedHash": folder_hash([skill_file(path, content) for path, content in SKILL_FILES.items()])}
    lock = json.dumps({"version": 1, "skills": {"pdf": entry}})
    tree: Tree = {
        **FILES,
        f"{SKILL}/node_modules/x.js": "1",
        f"{SKILL}/l": ("link", "SKILL.md"),
        "skills-lock.json": lock,
    }
    assert report_of(tree).findings == ()


def test_an_old_global_lock_is_said_to_be_of_no_use() -> None:
    report = report_of({**FILES, ".agents/.skill-lock.json": '{"version": 2, "skills": {}}'})
    assert [item.rule for item in report.findings] == ["manifest/global-lock/version"]
    assert report.statuses[0].state is ManifestState.SKIPPED


def test_the_tree_id_is_the_one_that_git_gives(tmp_path: object) -> None:
    files = {"a.txt": "x", "a/b.md": "y", "a-b": "z", "z/deep/f": "", "é": "1"}
    repo = GitFolder(tmp_path)  # type: ignore[arg-type] # a Path
    commit = repo.commit(files, branch="main")
    wanted = subprocess.run(
        ["git", "-C", str(tmp_path), "rev-parse", f"{commit}^{{tree}}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert tree_id([skill_file(path, content) for path, content in files.items()]) == wanted
