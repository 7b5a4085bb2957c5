"""Files that look like manifests and are no standard: detected and reported as not checked, never required."""

from __future__ import annotations

from gate.domain.manifest import ManifestState
from gate.intake.manifests.reading import Checked, Ground, status
from gate.intake.notes import joined

NAMES = ("skills.lock", "skills.lock.json", "skillwarden.lock", "manifest.json", "_meta.json")
KIND = "relative"


def check(ground: Ground) -> Checked:
    """Those in the skill's own folder."""
    found = [
        joined(ground.skill_path, name) for name in NAMES if ground.index.has_file(joined(ground.skill_path, name))
    ]
    reason = "this format is no standard; nothing in it was checked"
    return Checked(tuple(status(KIND, path, ManifestState.SKIPPED, reason=reason) for path in found))
