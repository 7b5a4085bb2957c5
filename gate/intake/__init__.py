"""Intake: from commits (or a folder) to skills, suites, manifest findings and the policy that holds."""

from gate.intake.changes import Changes, changed_skills, find_folders
from gate.intake.manifests import ManifestReport, check_manifests, read_manifests
from gate.intake.policy import POLICY_PATH, parse_policy, policy_change, read_policy
from gate.intake.preflight import preflight_facts
from gate.intake.read import read_session
from gate.intake.skill import parse_skill
from gate.intake.sources import CommitTree, FolderTree, Tree
from gate.intake.suite import read_suite, suite_removals
from gate.intake.tree import CheckedSkill, check_folder, check_tree

__all__ = [
    "POLICY_PATH",
    "Changes",
    "CheckedSkill",
    "CommitTree",
    "FolderTree",
    "ManifestReport",
    "Tree",
    "changed_skills",
    "check_folder",
    "check_manifests",
    "check_tree",
    "find_folders",
    "parse_policy",
    "parse_skill",
    "policy_change",
    "preflight_facts",
    "read_manifests",
    "read_policy",
    "read_session",
    "read_suite",
    "suite_removals",
]
