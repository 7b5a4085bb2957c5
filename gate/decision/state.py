"""From verdicts to the state of the gate, its exit code and its words: the state table of DESIGN.md 4.

Several skills: failure before error before pending before success. A failure is certain, so an error elsewhere does not
hide it (and the other way round: the headline names both); an error says that the gate does not know, so it comes before
everything that is green.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from gate.decision.cost import cost_words
from gate.domain.base import FallbackCount
from gate.domain.findings import Finding
from gate.domain.plan import Enforce, NotMeasuredCause, Plan
from gate.domain.report import (
    STATE_ORDER,
    VERDICT_ORDER,
    GateReport,
    ModelUse,
    Override,
    SkillReport,
    State,
    Verdict,
)

HEADLINE_LIMIT = 140
"""A commit status takes no longer description (github-action.md 1.7)."""
EXIT_CODES = {State.SUCCESS: 0, State.PENDING: 0, State.FAILURE: 1, State.ERROR: 3}
WORDS = {
    Verdict.FAIL: ("fails", "fail"),
    Verdict.INVALID: ("is invalid", "are invalid"),
    Verdict.ERROR: ("could not be judged", "could not be judged"),
    Verdict.INCONCLUSIVE: ("is inconclusive", "are inconclusive"),
    Verdict.NOT_MEASURED: ("was not measured", "were not measured"),
    Verdict.BLOCKED: ("is blocked", "are blocked"),
    Verdict.NO_EVALS: ("has no evals", "have no evals"),
    Verdict.CONDITIONAL: ("is conditional", "are conditional"),
    Verdict.PASS: ("passes", "pass"),
}
WAITS_FOR = {
    NotMeasuredCause.FORK: "a run started by a maintainer: a change from a fork gets no key",
    NotMeasuredCause.DEPENDABOT: "a run started by a maintainer: a Dependabot change gets no key",
    NotMeasuredCause.DRAFT: "ready for review: a draft gets the static layers only",
    NotMeasuredCause.OVER_BUDGET: "a higher cap in the base policy, or an audit run",
}
"""What ``pending`` waits for; every other cause of ``not_measured`` waits for nothing."""
TO_DO = {
    Verdict.FAIL: "fix the rule that the first reason names, then push; the evidence folder of each case holds the record",
    Verdict.INVALID: "correct what the first reason names; nothing was judged on it",
    Verdict.ERROR: "nothing was judged: see the first reason, check model provider and container engine, then run again",
    Verdict.INCONCLUSIVE: "add cases or runs (mode full), or make the named check pass in every run",
    Verdict.BLOCKED: "provide what the cases need (a mock for each MCP server, a tool, a key), then run again",
    Verdict.NO_EVALS: "write evals: skill-gate init begins evals/skill-gate.yaml, with --draft a model drafts it; evals/evals.json is read as it is",
    Verdict.CONDITIONAL: "read the reasons before you rely on it; strict enforcement does not accept it",
}
NOT_MEASURED_TO_DO = {
    NotMeasuredCause.NO_KEY: "give the workflow a model key (or --model), then run again",
    NotMeasuredCause.NOT_OPENED: "say in the skill's description when it should be used, so that an agent opens it",
}


class GateDecision(NamedTuple):
    """What the gate says."""

    state: State
    exit_code: int
    headline: str
    """At most 140 characters, none outside of the Basic Multilingual Plane, no control character."""
    what_to_do: tuple[str, ...]


def skill_state(report: SkillReport, enforce: Enforce) -> State:
    """The state that one skill asks for: one row of the table."""
    return state_of(report.verdict, enforce, cause=report.not_measured_cause, caused_by_change=report.caused_by_change)


def state_of(
    verdict: Verdict, enforce: Enforce, *, cause: NotMeasuredCause | None = None, caused_by_change: bool = False
) -> State:
    """One row of the table: ``cause`` counts for ``not_measured`` only, ``caused_by_change`` for ``no_evals``, ``blocked``."""
    if enforce is Enforce.ADVISORY or verdict is Verdict.PASS:
        return State.SUCCESS
    if verdict is Verdict.ERROR:
        return State.ERROR
    if enforce is Enforce.STRICT or verdict in (Verdict.FAIL, Verdict.INVALID):
        return State.FAILURE
    if verdict in (Verdict.NO_EVALS, Verdict.BLOCKED):
        return State.FAILURE if caused_by_change else State.SUCCESS
    if verdict is Verdict.NOT_MEASURED:
        return _not_measured_state(cause)
    return State.SUCCESS


def _not_measured_state(cause: NotMeasuredCause | None) -> State:
    if cause in WAITS_FOR:
        return State.PENDING
    if cause in (NotMeasuredCause.NO_AGENT_FILE, NotMeasuredCause.DELETED):
        return State.SUCCESS
    return State.FAILURE


def decide_gate(
    skills: Sequence[SkillReport],
    *,
    enforce: Enforce,
    exit_conditional: Literal[0, 1] = 0,
    session_errors: Sequence[str] = (),
) -> GateDecision:
    """State, exit code and words over all skills.

    ``exit_conditional`` 1 makes the exit code (not the state) 1 where the state is success and a skill is conditional or
    inconclusive. ``session_errors`` are infrastructure errors of no single skill: they count as an ``error`` verdict.
    """
    states = [skill_state(skill, enforce) for skill in skills]
    if session_errors and enforce is not Enforce.ADVISORY:
        states.append(State.ERROR)
    state = next((item for item in STATE_ORDER if item in states), State.SUCCESS)
    exit_code = EXIT_CODES[state]
    if exit_conditional and state is State.SUCCESS:
        unsure = (Verdict.CONDITIONAL, Verdict.INCONCLUSIVE)
        exit_code = int(any(skill.verdict in unsure for skill in skills))
    return GateDecision(
        state, exit_code, _headline(skills, state, enforce, session_errors), _what_to_do(skills, session_errors)
    )


def _headline(skills: Sequence[SkillReport], state: State, enforce: Enforce, session_errors: Sequence[str]) -> str:
    lead = state.value
    if enforce is Enforce.ADVISORY:
        lead = "advisory"
    elif state is State.SUCCESS and any(skill.verdict is Verdict.INCONCLUSIVE for skill in skills):
        lead = "inconclusive"
    if not skills and not session_errors:
        return f"{lead}: nothing to evaluate, no skill changed"
    groups = [
        (verdict, [plain(skill.path) for skill in skills if skill.verdict is verdict]) for verdict in VERDICT_ORDER
    ]
    groups = [(verdict, paths) for verdict, paths in groups if paths]
    if not groups or session_errors:
        return _cut(f"{lead}: {plain(session_errors[0])}" + "".join(f"; {_group(v, p, named=0)}" for v, p in groups))
    # As many names as fit, worst verdict first; the counts of all verdicts always stand.
    for named in (3, 2, 1, 0):
        for with_names in range(len(groups), 0, -1):
            text = f"{lead}: " + ", ".join(
                _group(verdict, paths, named=named if index < with_names else 0)
                for index, (verdict, paths) in enumerate(groups)
            )
            if len(text) <= HEADLINE_LIMIT:
                return text
    return _cut(f"{lead}: " + ", ".join(_group(verdict, paths, named=0) for verdict, paths in groups))


def _group(verdict: Verdict, paths: Sequence[str], *, named: int) -> str:
    word = WORDS[verdict][0 if len(paths) == 1 else 1]
    if not named or verdict is Verdict.PASS:
        return f"{len(paths)} {word}"
    more = f" and {len(paths) - named} more" if len(paths) > named else ""
    return f"{len(paths)} {word} ({', '.join(paths[:named])}{more})"


def plain(text: str) -> str:
    """Untrusted text for a status description: one line, printable, nothing beyond U+FFFF (a four-byte character is refused)."""
    return "".join(char if char.isprintable() and ord(char) <= 0xFFFF else "?" for char in text)


def _cut(text: str) -> str:
    return text if len(text) <= HEADLINE_LIMIT else text[: HEADLINE_LIMIT - 1] + "…"


def _what_to_do(skills: Sequence[SkillReport], session_errors: Sequence[str]) -> tuple[str, ...]:
    ordered = [skill for verdict in VERDICT_ORDER for skill in skills if skill.verdict is verdict]
    advice = [(skill.path, _advice(skill)) for skill in ordered]
    return (*session_errors, *(f"{path}: {text}" for path, text in advice if text))


def _advice(skill: SkillReport) -> str:
    if skill.verdict is Verdict.INVALID and skill.reasons and "judge's batch is void" in skill.reasons[0]:
        return "the judge model cannot be believed, the skill is not to blame: name another one with --judge-model"
    if skill.verdict is not Verdict.NOT_MEASURED:
        return TO_DO.get(skill.verdict, "")
    cause = skill.not_measured_cause or NotMeasuredCause.NO_KEY
    return f"waits for {WAITS_FOR[cause]}" if cause in WAITS_FOR else NOT_MEASURED_TO_DO.get(cause, "")


def overridden(decision: GateDecision, override: Override) -> GateDecision:
    """A decision that somebody set aside: success, in words that nobody can take for a pass."""
    headline = _cut(f"overridden by {plain(override.login)}, was {decision.headline}")
    return GateDecision(State.SUCCESS, EXIT_CODES[State.SUCCESS], headline, decision.what_to_do)


def _override_note(override: Override, head: str | None, state: State) -> str:
    who = f"the label {plain(override.label)} by {plain(override.login)} ({override.permission})"
    if override.head_commit != head:
        return f"{who} is for commit {plain(override.head_commit[:12])}, not for this one: it counts for nothing"
    if state is State.SUCCESS:
        return f"{who} changes nothing: the gate lets this change through by itself"
    return (
        f"{who} sets {state.value} aside for commit {plain(override.head_commit[:12])}; the verdicts stand as they are"
    )


def sum_fallbacks(parts: Iterable[Iterable[FallbackCount]]) -> tuple[FallbackCount, ...]:
    """Counts added by kind and role, sorted."""
    sums: dict[tuple[str, str], int] = {}
    for item in (count for part in parts for count in part):
        sums[item.kind, item.role] = sums.get((item.kind, item.role), 0) + item.count
    return tuple(FallbackCount(kind=kind, role=role, count=count) for (kind, role), count in sorted(sums.items()))


def summarise(
    plan: Plan,
    skills: Sequence[SkillReport],
    *,
    gate_version: str,
    models: str,
    sandbox: str,
    usage: Sequence[ModelUse] = (),
    session_findings: Sequence[Finding] = (),
    session_fallbacks: Sequence[FallbackCount] = (),
    session_errors: Sequence[str] = (),
    notes: Sequence[str] = (),
    exit_conditional: Literal[0, 1] = 0,
    override: Override | None = None,
    kept: bool = False,
) -> GateReport:
    """The whole result of a session. Skills are listed worst verdict first, then by path.

    ``session_fallbacks`` are those of no single skill (a weaker sandbox, say); the report holds them with those of all
    skills. ``kept``: runs are kept for the next push. ``models`` says what answered (``scripted, no model was called`` for a replay), ``sandbox`` what the runs were
    kept in.
    """
    ordered = tuple(sorted(skills, key=lambda skill: (VERDICT_ORDER.index(skill.verdict), skill.path)))
    decision = decide_gate(
        ordered, enforce=plan.enforce, exit_conditional=exit_conditional, session_errors=session_errors
    )
    notes = [*plan.notes, *notes]
    if override is not None:
        notes.append(_override_note(override, plan.head_commit, decision.state))
        if override.head_commit != plan.head_commit or decision.state is State.SUCCESS:
            override = None
        else:
            decision = overridden(decision, override)
    return GateReport(
        gate_version=gate_version,
        session_id=plan.session_id,
        mode=plan.mode,
        enforce=plan.enforce,
        state=decision.state,
        exit_code=decision.exit_code,
        headline=decision.headline,
        what_to_do=decision.what_to_do,
        base_commit=plan.base_commit,
        head_commit=plan.head_commit,
        skills=ordered,
        session_findings=tuple(session_findings),
        fallbacks=sum_fallbacks([session_fallbacks, *(skill.fallbacks for skill in ordered)]),
        usage=tuple(usage),
        notes=tuple(notes),
        cost=cost_words(plan, usage, ordered, kept=kept),
        override=override,
        models=models,
        sandbox=sandbox,
        run_date=plan.run_date,
    )
