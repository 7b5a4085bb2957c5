"""Manifests that ship a skill, verified before any model is asked (R219). One kind a file."""

from __future__ import annotations

from collections.abc import Callable, Collection

from gate.domain.findings import Finding
from gate.intake.manifests import plugin_json

__all__ = ["check_manifests"]


def check_manifests(
    tree_paths: Collection[str], read: Callable[[str], bytes | None], skill_path: str
) -> tuple[Finding, ...]:
    """What is wrong with the manifests that own a skill; empty where none owns it. Never raises for any content.

    ``tree_paths`` are all files of the commit, ``read`` gives the content of one (None: a link or a submodule).
    """
    return plugin_json.check(tree_paths, read, skill_path)
