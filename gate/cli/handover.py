"""The Action of a repository without keys: a gate service does the work, the Action checks the answer and reports it.

Nothing of what comes back is believed as it is. The service's signature must cover this bundle, this head and the number
drawn for this question; then everything in the bundle is derived again, as ``skill-gate verify`` does; then it must be as
strict as this job itself would have been.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gate.cli.app import App
from gate.cli.inputs import ActionInputs
from gate.domain.event import Event, PullRequestEvent
from gate.domain.findings import Finding, Level
from gate.domain.handover import Handed, Progressed
from gate.domain.report import GateReport
from gate.errors import Cancelled, ConfigurationError, EvidenceError, InfrastructureError
from gate.protocols import GateService
from gate.settings import LEVELS, MODES, HandOver, Policy, Settings

MAX_WAIT_S = 6 * 3600
"""GitHub ends a job of a hosted runner after so long."""
HANDED_INPUTS = ("mode", "enforce", "exit-conditional", "model", "judge-model", "harness", "image")


def asked_service(
    event: Event, inputs: ActionInputs, policy: Policy, *, static_only: bool, workflow: str
) -> tuple[HandOver | None, Finding | None]:
    """Who does the work of this event, or why nobody else does although ``service-url`` says so.

    ``inputs``: those that the policy lets through. A change of a stranger is looked at here, without running anything.
    """
    if inputs.service_url is None or static_only:
        return None, None
    if not isinstance(event, PullRequestEvent):
        return None, Finding(
            rule="input/service-url",
            level=Level.WARNING,
            path=workflow,
            message="the input service-url was not followed: only the work of a pull request can be handed over",
            remedy="Give this workflow a key of its own, or let the service run the audit.",
        )
    given = {name: getattr(inputs, name.replace("-", "_")) for name in HANDED_INPUTS}
    asked = {name: str(value) for name, value in given.items() if value}
    return HandOver(url=inputs.service_url, keys=policy.service_keys, inputs=asked), None


def hand_over(app: App, settings: Settings, event: PullRequestEvent, payload: Mapping[str, Any]) -> GateReport:
    """Hand the work over, wait, and put the answer where this job's own bundle would be.

    Raises ConfigurationError and InfrastructureError where there is no answer, EvidenceError for one that does not hold,
    Cancelled.
    """
    work = settings.hand_over
    if work is None:
        raise ValueError("nothing says who does the work")
    service = app.connect_service(work.url)
    nonce = app.random_hex(16)
    handed = service.hand_over(payload, nonce, work.inputs)
    app.say(f"handed over to {work.url} as job {handed.job}")
    ended = _wait(app, service, handed)
    if ended.state != "done":
        why = f": {ended.reason}" if ended.reason else ""
        raise InfrastructureError(
            f"The service has no report; the job there is {ended.state}{why}.",
            remedy="Start this job again; whoever runs the service finds the job by its id.",
        )
    out = Path(settings.out)
    with service.bundle(handed) as (signature, packed):
        digest = _unpacked(packed, out)
    _signed(service, work, signature, event, nonce, digest)
    return _checked(app, settings, event, out)


def _wait(app: App, service: GateService, handed: Handed) -> Progressed:
    clock = app.make_clock(None)
    began, said = clock.monotonic_ms(), ""
    while True:
        found = service.progress(handed)
        if found.ended:
            return found
        if found.state != said:
            said = found.state
            app.say(f"the service says: {said}")
        if app.cancelled.wait(handed.poll_s):
            service.cancel(handed)
            raise Cancelled("The run was cancelled while the service worked on it.")
        if clock.monotonic_ms() - began > MAX_WAIT_S * 1000:
            service.cancel(handed)
            raise InfrastructureError(f"The service gave no answer within {MAX_WAIT_S // 3600} hours.")


def _unpacked(packed: Iterator[bytes], out: Path) -> str:
    from gate.evidence.bundle import Bundle
    from gate.evidence.pack import unpack

    Bundle(out).clear()
    return unpack(packed, out)


def _signed(
    service: GateService, work: HandOver, signature: str, event: PullRequestEvent, nonce: str, digest: str
) -> None:
    from gate.evidence.origin import Answer, check_answer

    answer = Answer(
        repository_id=event.repository_id, number=event.number, head_sha=event.head_sha, nonce=nonce, digest=digest
    )
    check_answer(signature, work.keys or service.keys(), answer)


def _checked(app: App, settings: Settings, event: PullRequestEvent, out: Path) -> GateReport:
    """The report of a bundle in which everything holds, about this head, as strict as this job."""
    from gate import __version__
    from gate.audit.verify import verify_bundle
    from gate.evidence.bundle import Bundle

    report = Bundle(out).read("report.json", GateReport)
    result = verify_bundle(out, app.render)
    if result.problems:
        other = (
            ""
            if report.gate_version == __version__
            else f" It runs version {report.gate_version}, this is {__version__}."
        )
        raise EvidenceError(
            f"The service's bundle does not hold: {result.problems[0]}.{other}",
            path=str(out),
            remedy="Let the service and this action run the same version; a bundle that was changed is never reported.",
        )
    if report.head_commit != event.head_sha:
        raise EvidenceError(
            f"The service judged {(report.head_commit or 'nothing')[:12]}, not {event.head_sha[:12]}.", path=str(out)
        )
    for name, order, found, wanted in (
        ("mode", MODES, report.mode, settings.mode),
        ("enforce", LEVELS, report.enforce, settings.enforce),
    ):
        if found != wanted and not _as_strict(order, found, wanted):
            raise ConfigurationError(
                f"The service judged with {name} {found}, this job asks for {wanted}.",
                remedy="The policy of the base branch may have changed meanwhile: start the job again.",
            )
    return report


def _as_strict(order: tuple[Any, ...], found: object, wanted: object) -> bool:
    return found in order and wanted in order and order.index(found) >= order.index(wanted)
