"""Which runs an earlier session has made already: everything that a run depends on, as one digest (DESIGN.md 4)."""

from __future__ import annotations

from typing import NamedTuple

from gate.domain.base import digest_of, sha256_hex
from gate.domain.evidence import RunRecord, Verification
from gate.domain.plan import RunRequest
from gate.domain.suite import Case
from gate.errors import EvidenceError, InfrastructureError
from gate.evidence.bundle import Bundle, load_events, load_run
from gate.evidence.cache import Cache, Reused, code_digest
from gate.evidence.files import inside
from gate.evidence.seal import REUSE
from gate.execution.arms import builtin_tools, contamination, system_prompt, workspace_files
from gate.protocols import Progress

# What a case says for its judges and its readers: a run is the same run without it.
_FOR_OTHERS = frozenset(
    {
        "name", "type", "risk", "tag", "source", "files", "checks", "expectations", "skip_without_skill", "skip_reason",
        "expected_output", "line", "digest",
    }
)  # fmt: skip


class Around(NamedTuple):
    """What a run depends on beside its request."""

    model: str
    """As named by the user, with its address."""
    harness: str
    image: str
    sandbox: str


def run_facts(request: RunRequest, around: Around) -> str:
    """Digest of everything a run depends on: two requests with one digest would be the same experiment.

    The skill's tree of that arm, what the case hands to the agent, fixtures as they are put down, prompts, tools, model,
    harness, image, limits, run number, and the code that records. A baseline does not depend on the skill's text.
    """
    workspace = workspace_files(request.case, request.subjects)
    facts = {
        "key": request.key.to_json(),
        "purpose": request.purpose,
        "skill": request.skill.tree_sha256 if request.skill else None,
        "skill_type": request.skill_type.value,
        "case": request.case.model_dump(mode="json", exclude=set(_FOR_OTHERS)),
        "files": [(file.path, sha256_hex(file.data), file.executable) for file in workspace.files],
        "stripped": list(workspace.stripped),
        "system": sha256_hex(system_prompt(request.skill).encode("utf-8", "surrogatepass")),
        "tools": [tool.to_json() for tool in builtin_tools()],
        "limits": request.limits.to_json(),
        "around": around._asdict(),
        "code": code_digest(),
    }
    return digest_of(facts)


def repeats(request: RunRequest) -> bool:
    """Whether equal requests are the same experiment: what a real MCP server holds is in no digest."""
    return not request.case.real_servers


class Reuse:
    """Takes runs from a cache into a bundle, and keeps those of a bundle. Thread-safe."""

    def __init__(self, cache: Cache, bundle: Bundle, progress: Progress) -> None:
        self._cache = cache
        self._bundle = bundle
        self._progress = progress

    def has(self, request: RunRequest, around: Around) -> bool:
        """Whether an equal run is kept."""
        return repeats(request) and self._cache.has_run(run_facts(request, around))

    def take(self, request: RunRequest, around: Around) -> RunRecord | None:
        """The record of an equal run, copied into the bundle; None where there is none that may be used.

        A baseline is searched anew for the skill's text, which may have changed since (R23).
        """
        folder = inside(self._bundle.root, request.key.folder)
        if folder.exists() or not repeats(request):
            return None
        kept_on = self._cache.take_run(run_facts(request, around), folder)
        if kept_on is None:
            return None
        record = load_run(self._bundle.root, request.key.folder)
        if record.key != request.key or not record.scored or self._spoiled(request):
            import shutil

            shutil.rmtree(folder)
            return None
        self._bundle.write(f"{request.key.folder}/{REUSE}", Reused(kept_on=kept_on))
        self._progress.run_done(request.key.label, f"{record.outcome.value}, made on {kept_on}")
        return record

    def keep(self, request: RunRequest, around: Around, record: RunRecord) -> None:
        """Keep a run that counts, whatever came of it: keeping only good ones would give bad ones another chance."""
        if not record.scored or not repeats(request):
            return
        try:
            self._cache.keep_run(
                run_facts(request, around), inside(self._bundle.root, record.key.folder), record.key.label
            )
        except (EvidenceError, InfrastructureError) as error:
            self._progress.say(f"{record.key.label} could not be kept for later: {error}")

    def take_verification(self, record: RunRecord, case: Case, around: Around) -> Verification | None:
        """What verification containers gave for exactly this record, case and image; None where nobody kept it."""
        found = self._cache.take_value("verification", _verification_facts(record, case, around), Verification)
        return found if found is not None and found.run_seal == record.seal else None

    def keep_verification(self, record: RunRecord, case: Case, around: Around, made: Verification) -> None:
        """Keep what verification containers gave, unless infrastructure stood in the way of any of it."""
        if any(result.status == "infra" for result in made.commands):
            return
        if made.produced is not None and made.produced.outcome == "infra":
            return
        try:
            self._cache.keep_value("verification", _verification_facts(record, case, around), made, record.key.label)
        except InfrastructureError as error:
            self._progress.say(f"the verification of {record.key.label} could not be kept for later: {error}")

    def _spoiled(self, request: RunRequest) -> bool:
        if not request.is_bare:
            return False
        events = load_events(self._bundle.root, request.key.folder)
        return contamination(request.subjects, events, request.case, request.skill) is not None


def _verification_facts(record: RunRecord, case: Case, around: Around) -> str:
    return digest_of({"seal": record.seal, "case": case.to_json(), "image": around.image, "code": code_digest()})
