"""Each of the forty complaints about actions of this kind (github-action.md, section 3) has tests named after the behaviour."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from gate.adapters.git_repository import GitRepository
from tests.story import git, make_repository

ROOT = Path(__file__).resolve().parents[2]
ACTION = "pipeline/test_action.py"
EVENTS = "pipeline/test_action_events.py"
STAGES = "pipeline/test_action_stages.py"
TABLE = "pipeline/test_action_table.py"
BY_API = "pipeline/test_action_by_api.py"
FORGE = "unit/adapters/test_github_forge.py"
CONTRACT = "contract/test_forge_contract.py"
IMAGE = "docker/test_action_image.py"
STORY = "docker/test_action_story.py"
WORKFLOWS = "meta/test_workflows.py"
HERE = "meta/test_known_complaints.py"

ROWS: Mapping[int, tuple[tuple[str, str], ...]] = {
    1: ((STAGES, "test_two_pull_requests_of_one_head_are_never_mixed_up"),),
    2: (
        (ACTION, "test_a_token_that_only_reads_leaves_the_verdict_to_the_exit_code_with_one_notice"),
        (STAGES, "test_dependabots_pull_request_gets_its_report_from_the_second_stage"),
    ),
    3: (
        (ACTION, "test_a_pull_request_gets_one_comment_one_status_on_its_head_a_summary_and_every_output"),
        (STAGES, "test_a_check_run_has_a_name_of_its_own_and_annotations_at_the_lines_of_the_findings"),
    ),
    4: ((FORGE, "test_a_secondary_limit_without_a_time_waits_a_minute"),),
    5: ((FORGE, "test_a_wait_beyond_all_patience_is_not_begun_and_says_how_long_it_would_be"),),
    6: (
        (ACTION, "test_our_comment_is_found_on_the_third_page_whoever_the_token_is"),
        (FORGE, "test_each_kind_of_token_finds_its_own_comment_again"),
    ),
    7: ((ACTION, "test_several_gates_of_one_repository_keep_a_comment_and_a_status_each"),),
    8: (
        (STAGES, "test_a_crash_is_a_check_that_failed_and_never_neutral"),
        (ACTION, "test_a_crash_resolves_the_status_and_says_that_nothing_was_judged"),
    ),
    9: ((ACTION, "test_what_fails_is_said_everywhere_and_ends_with_1"),),
    10: (
        (FORGE, "test_on_an_enterprise_server_nothing_goes_to_the_public_one"),
        (ACTION, "test_on_an_enterprise_server_everything_goes_to_its_own_address"),
    ),
    11: ((BY_API, "test_a_change_that_github_does_not_list_in_full_is_never_green"), (CONTRACT, "test_all_pages_of_changed_files_are_read")),
    12: ((CONTRACT, "test_beyond_three_thousand_files_the_list_says_that_it_is_not_all"),),
    13: ((STAGES, "test_hundreds_of_findings_are_sent_fifty_at_a_time_up_to_what_a_page_bears"),),
    14: ((STAGES, "test_hundreds_of_findings_are_sent_fifty_at_a_time_up_to_what_a_page_bears"),),
    15: (
        ("unit/reporters/test_summary.py", "test_what_has_no_room_is_counted_and_every_verdict_comes_first"),
        ("unit/cli/test_runner.py", "test_a_page_that_is_full_gets_no_more"),
    ),
    16: (
        ("unit/reporters/test_comment.py", "test_a_large_report_stays_under_the_limit_and_keeps_every_skills_verdict"),
        (CONTRACT, "test_a_body_at_the_limit_is_taken_and_one_over_it_is_refused"),
    ),
    17: ((CONTRACT, "test_our_comment_is_found_behind_hundreds_of_others"),),
    18: ((HERE, "test_nothing_is_handed_on_by_the_jobs_environment"),),
    19: ((HERE, "test_no_shell_ever_runs_what_an_input_says"),),
    20: (
        ("unit/reporters/test_commands.py", "test_no_value_forges_or_breaks_an_entry"),
        ("unit/reporters/test_commands.py", "test_a_delimiter_that_is_in_the_value_is_drawn_again"),
    ),
    21: (
        (ACTION, "test_hostile_names_and_model_words_run_no_command_forge_no_output_and_ping_nobody"),
        ("unit/reporters/test_commands.py", "test_what_was_made_harmless_is_no_command_anywhere"),
    ),
    22: ((IMAGE, "test_a_checkout_of_another_user_stops_plain_git_but_not_the_gate"),),
    23: ((STORY, "test_a_pull_request_gets_one_comment_one_status_on_its_head_outputs_and_summary_and_nothing_is_left"),),
    24: ((IMAGE, "test_what_earlier_steps_set_for_the_runners_machine_does_not_reach_the_gate"),),
    25: (("unit/cli/test_inputs.py", "test_dashes_are_kept_by_the_runner_and_lost_by_others"),),
    26: (
        ("unit/adapters/test_git_repository.py", "test_a_shallow_clone_is_deepened_until_the_merge_base_is_there"),
        (BY_API, "test_a_checkout_without_history_is_judged_by_what_github_has_and_that_is_said"),
        (ACTION, "test_a_checkout_without_history_that_github_cannot_help_out_says_fetch_depth_0"),
    ),
    27: (("unit/intake/test_changes.py", "test_names_that_are_not_ascii_and_not_utf8_are_found"),),
    28: ((HERE, "test_a_file_that_is_called_like_an_option_is_a_file"),),
    29: (
        (ACTION, "test_nothing_to_evaluate_is_success_without_models_engine_or_empty_outputs"),
        (WORKFLOWS, "test_a_required_status_never_waits_for_a_workflow_that_a_filter_kept_from_starting"),
    ),
    30: ((EVENTS, "test_a_merge_group_gets_its_status_on_its_own_head_and_no_comment"),),
    31: ((WORKFLOWS, "test_no_run_is_cancelled_on_the_same_commit"),),
    32: ((STAGES, "test_a_second_attempt_opens_a_check_of_its_own"),),
    33: (
        (ACTION, "test_the_post_step_takes_back_what_a_killed_run_left"),
        (STAGES, "test_a_check_that_a_killed_run_left_is_completed_by_the_post_step"),
    ),
    34: ((CONTRACT, "test_a_description_is_cut_to_what_github_takes"),),
    35: (
        (CONTRACT, "test_a_pull_request_from_another_repository_or_from_one_that_is_gone_is_a_fork"),
        (TABLE, "test_what_is_written_where_for_every_event_token_and_outcome"),
    ),
    36: (("unit/service/test_webhooks.py", "test_one_changed_byte_or_another_secret_breaks_a_signature"),),
    37: ((IMAGE, "test_files_reach_a_sibling_by_copy_while_a_bind_of_the_containers_own_path_would_be_empty"),),
    38: ((WORKFLOWS, "test_the_release_is_built_for_both_architectures_attested_and_listed"),),
    39: (
        ("unit/adapters/test_docker_engine.py", "test_a_folder_in_place_of_the_socket_is_explained"),
        (ACTION, "test_an_engine_that_is_not_there_is_an_error_that_says_what_to_do"),
    ),
    40: (
        (STAGES, "test_a_push_while_a_maintainers_run_goes_on_voids_its_result"),
        (STAGES, "test_a_maintainer_run_of_another_commit_or_branch_is_refused_before_anything_runs"),
    ),
}  # fmt: skip
"""Row -> its tests. None is left out; of row 38 (each architecture started once) the release workflow itself is the test."""


@functools.cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_row_is_listed() -> None:
    assert list(ROWS) == list(range(1, 41))


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_of_a_complaint_exist(row: int) -> None:
    assert ROWS[row]
    for file, name in ROWS[row]:
        assert name in names_in(file), (file, name)


def trees() -> list[tuple[str, ast.Module]]:
    paths = [ROOT / "entrypoint.py", *(ROOT / "gate").rglob("*.py"), *(ROOT / "reporters").rglob("*.py")]
    return [(str(path), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def test_no_shell_ever_runs_what_an_input_says() -> None:
    """Row 19: programs are started with lists of arguments only."""
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword):
                on = isinstance(node.value, ast.Constant) and node.value.value is False
                assert node.arg != "shell" or on, path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {("os", "system"), ("os", "popen")}, path


def test_nothing_is_handed_on_by_the_jobs_environment() -> None:
    """Row 18: what one call leaves there, the next call of the job reads as its own."""
    for path, tree in trees():
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not texts & {"GITHUB_ENV", "GITHUB_PATH"}, path


def test_a_file_that_is_called_like_an_option_is_a_file(tmp_path: Path) -> None:
    """Row 28."""
    names = ("--output=pwned", "-c", "skills/--config=x/SKILL.md")
    folder = make_repository(tmp_path / "repository", {"a.txt": "a"}, dict.fromkeys(names, "text"))
    repository = GitRepository(folder)
    base, head = git(folder, "rev-parse", "main"), git(folder, "rev-parse", "feature")
    assert [path for _, path, _ in repository.changed_paths(base, head)] == sorted(names)
    assert repository.read_skill_files(head, "skills/--config=x")[0].data == b"text"
    assert not list(tmp_path.rglob("pwned"))
