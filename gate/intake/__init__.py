"""Intake: from commits (or a folder) to skills, suites, manifest findings and the policy that holds."""
