"""Manifests that ship a skill, verified before any model is asked (R219). One kind a file.

Git blobs are hashed, never a checkout; schemas, keys and artefacts are never fetched. What blocks is the policy's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from gate.domain.findings import Finding, Level
from gate.domain.manifest import ManifestScope, ManifestState, ManifestStatus
from gate.domain.skill import SkillFile
from gate.intake.manifests import (
    agent_plugin,
    global_lock,
    host_plugins,
    marketplace,
    oms,
    packages,
    plugin_json,
    relatives,
    schemapin,
    sigstore,
    skills_lock,
    well_known,
)
from gate.intake.manifests.reading import Checked, Ground, Index, by_form, status
from gate.intake.notes import Notes, joined
from gate.settings import SigningTrust

__all__ = ["ManifestReport", "check_manifests", "read_manifests"]

SIGNATURE = "signature"
_KINDS: tuple[Callable[[Ground], Checked], ...] = (
    host_plugins.check,
    agent_plugin.check,
    marketplace.check,
    skills_lock.check,
    global_lock.check,
    well_known.check,
    packages.check,
    relatives.check,
)
_SIGNATURES: tuple[Callable[[Ground], Checked], ...] = (oms.check, sigstore.check, schemapin.check)


class ManifestReport(NamedTuple):
    """Everything about the manifests of one skill."""

    statuses: tuple[ManifestStatus, ...]
    """One a manifest; one of kind ``signature`` where the skill has no signature."""
    findings: tuple[Finding, ...]


def check_manifests(
    tree_paths: Collection[str], read: Callable[[str], bytes | None], skill_path: str
) -> tuple[Finding, ...]:
    """The findings of ``read_manifests`` without the skill's files: no digest is compared."""
    return read_manifests(tree_paths, read, skill_path).findings


def read_manifests(
    tree_paths: Collection[str],
    read: Callable[[str], bytes | None],
    skill_path: str,
    *,
    files: tuple[SkillFile, ...] | None = None,
    committed: bool = True,
    trust: SigningTrust | None = None,
    require_signed: bool = False,
) -> ManifestReport:
    """What is wrong with the manifests that a skill is shipped by, and the status of each. Never raises for any content.

    ``tree_paths`` are all files of the version, ``read`` gives the content of one (None: a link or a submodule);
    ``files`` the skill's own with their contents; ``committed``: they are Git blobs, not a checkout's files;
    ``trust`` and ``require_signed`` are the base policy's.
    """
    ground = Ground(_index(tree_paths, read), skill_path, files, committed, trust or SigningTrust(), require_signed)
    claude = plugin_json.owner(tree_paths, skill_path)
    results = []
    if claude is not None:
        found = plugin_json.check(tree_paths, read, skill_path, exists=ground.index.exists)
        results.append(by_form("plugin-json", joined(claude, plugin_json.PLACE), found))
    results += [kind(ground) for kind in _KINDS]
    signatures = [kind(ground) for kind in _SIGNATURES]
    results += [*signatures, _whether_signed(ground, [item for one in signatures for item in one.statuses])]
    return ManifestReport(
        tuple(item for one in results for item in one.statuses), tuple(item for one in results for item in one.findings)
    )


def _whether_signed(ground: Ground, found: list[ManifestStatus]) -> Checked:
    """That a skill has no signature; and, where the policy asks for one, that none was proven."""
    notes = Notes(joined(ground.skill_path, "SKILL.md"), f"manifest/{SIGNATURE}")
    proven = any(item.state is ManifestState.VERIFIED and item.scope is ManifestScope.SIGNATURE for item in found)
    if ground.require_signed and not proven:
        rule, what = (
            ("unproven", "no signature of this skill was proven") if found else ("unsigned", "this skill is unsigned")
        )
        notes.add(Level.ERROR, rule, f"{what}, and the policy asks for a signature by a key that it trusts",
                  remedy="Sign the skill folder with model-signing, by a key that trust.public_keys names.")  # fmt: skip
    unsigned = () if found else (status(SIGNATURE, ground.skill_path, ManifestState.UNSIGNED),)
    return Checked(unsigned, notes.all())


_last: list[Index] = []


def _index(paths: Collection[str], read: Callable[[str], bytes | None]) -> Index:
    """The index of a version, kept while the same version is asked about: a repository may hold 13,000 skills."""
    for index in _last:
        if index.paths is paths and index.read == read:
            return index
    _last[:] = [Index(paths, read)]
    return _last[0]
