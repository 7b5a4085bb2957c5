"""What became of a manifest: was it checked, against what, and does it still say the truth?"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from gate.domain.base import Value


class ManifestState(StrEnum):
    """One word for a manifest (origins-and-formats.md 6)."""

    VERIFIED = "verified"
    """Everything that was checked (``scope``) holds."""
    UNSIGNED = "unsigned"
    """There is no signature. Not an error unless the policy says so."""
    STALE = "stale"
    """It was true once: files have changed since it was written. It must be written, or signed, again."""
    FAILED = "failed"
    """It cannot be read, contradicts itself or the files, or its signature is by another key."""
    SKIPPED = "skipped"
    """Nothing could be checked; ``reason`` says why."""


class ManifestScope(StrEnum):
    """What a state rests on, weakest first."""

    FORM = "form"
    """Its form, and that the files it names are there."""
    DIGESTS = "digests"
    """The SHA-256 of every file. Whoever changes files can change these too."""
    SIGNATURE = "signature"
    """A signature over the digests, by a key that the base policy names."""


class ManifestStatus(Value):
    """One manifest that concerns a skill."""

    kind: str
    """``plugin-json``, ``marketplace``, ``skills-lock``, ``oms-sig`` …; ``signature`` where a skill has none at all."""
    path: str
    """Repository-relative; the skill's folder where there is no file."""
    state: ManifestState
    scope: ManifestScope = ManifestScope.FORM
    reason: str = ""
    """A sentence without a full stop. Never empty for ``skipped``. May quote the file: untrusted text."""
    files: int = Field(default=0, ge=0)
    """Files whose digest was compared."""

    @property
    def words(self) -> str:
        """The state for people: a digest that matches is never called a signature that holds."""
        if self.state is ManifestState.VERIFIED and self.scope is not ManifestScope.SIGNATURE:
            return "digests match" if self.scope is ManifestScope.DIGESTS else "well-formed"
        return self.state.value
