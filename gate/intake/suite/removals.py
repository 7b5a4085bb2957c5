"""What a head suite takes away from its base suite: removed cases, removed assertions, loosened ones.

Whoever is judged must not weaken what judges (DESIGN.md 3): each sentence needs a waiver in the base policy. Tightening
(a higher severity, narrower bounds) and adding need none. The prompt and the fixtures of a case may change freely: the
base's version of a changed case is run as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

from gate.domain.base import Severity, digest_of
from gate.domain.checks import ArmName, Check
from gate.domain.numbers import counted
from gate.domain.suite import Case, Expectation, Suite
from gate.intake.notes import short

T = TypeVar("T")

_STRICTNESS = {Severity.MUST: 2, Severity.SHOULD: 1, Severity.INFO: 0}
_PRECISION = {"exact_match": 2, "semantic": 1, "existence": 0}
_BOUNDED = {"tool_call_count", "response_word_count"}
# What a check is about: with these equal, another value of the rest is the same check changed, not another check.
_TARGET = ("tool", "field", "path", "level")


def suite_removals(base: Suite, head: Suite | None) -> tuple[str, ...]:
    """One sentence for each thing that ``head`` removes or loosens; empty where it only adds or tightens."""
    if head is None or (base.cases and not head.cases):
        count = len(base.cases) or len(base.triggers)
        what = counted(count, "case") if base.cases else counted(count, "trigger query", "trigger queries")
        return (f"The whole suite is removed ({what}).",) if count else ()
    found: list[str] = _of_triggers(base, head)
    for old, new in _paired(
        base.cases,
        head.cases,
        lambda one, two: one.eval_id == two.eval_id and _content(one) == _content(two),
        lambda one, two: _content(one) == _content(two),  # ids by position move when a case is put before
        lambda one, two: one.eval_id == two.eval_id,
        # An id made from the prompt changes with it: the case is the same where it asserts the same.
        lambda one, two: _has_made_id(one) and _has_made_id(two) and _asserted(one) == _asserted(two),
    ):
        name = f'Case "{short(old.eval_id)}"'
        if new is None:
            found.append(
                f"{name} is removed ({counted(len(old.checks), 'check')}, {counted(len(old.expectations), 'expectation')})."
            )
        elif _content(old) != _content(new):
            found += [f"{name}: {text}." for text in _of_case(old, new)]
    return tuple(found)


def _of_triggers(base: Suite, head: Suite) -> list[str]:
    """Trigger queries that are gone, or that ask for the opposite now."""
    now = {(item.query.strip(), item.should_trigger) for item in head.triggers}
    found = []
    for item in base.triggers:
        query, should = item.query.strip(), item.should_trigger
        if (query, should) in now:
            continue
        if (query, not should) in now:
            wanted = "not open" if should else "open"
            found.append(f'The trigger query "{short(query)}" now asks that the agent does {wanted} the skill.')
        else:
            found.append(f'The trigger query "{short(query)}" is removed.')
    return list(dict.fromkeys(found))


def _content(case: Case) -> str:
    return digest_of(case.model_copy(update={"eval_id": "", "line": None, "digest": ""}))


def _has_made_id(case: Case) -> bool:
    return case.eval_id.startswith("case-")


def _asserted(case: Case) -> str:
    return digest_of([[item.to_json() for item in items] for items in (case.checks, case.expectations)])


def _paired(olds: Sequence[T], news: Sequence[T], *same: Callable[[T, T], bool]) -> list[tuple[T, T | None]]:
    """Each old item with its new one. All pairs of the first way are made before the second is tried, and so on."""
    left = list(range(len(news)))
    pairs: dict[int, int] = {}
    for is_same in same:
        for index, old in enumerate(olds):
            if index not in pairs:
                match = next((position for position in left if is_same(old, news[position])), None)
                if match is not None:
                    pairs[index] = match
                    left.remove(match)
    return [(old, news[pairs[index]] if index in pairs else None) for index, old in enumerate(olds)]


def _of_case(old: Case, new: Case) -> list[str]:
    found = []
    if new.skip_without_skill and not old.skip_without_skill:
        found.append("it no longer runs without the skill (skip_without_skill)")
    if old.guards is not None and new.guards is not old.guards:
        found.append(f"it no longer guards against {old.guards} (guards)")
    for check, match in _paired(
        old.checks,
        new.checks,
        lambda one, two: one.parameters == two.parameters and one.id == two.id,
        lambda one, two: one.parameters == two.parameters,
        lambda one, two: one.id == two.id and _about(one) == _about(two),
        lambda one, two: _about(one) == _about(two),
        lambda one, two: one.id == two.id and one.parameters.kind == two.parameters.kind,
    ):
        found += _loosened_check(check, match) if match else [f"the check {_named(check)} is removed"]
    for expectation, partner in _paired(
        old.expectations, new.expectations, lambda one, two: one.text == two.text, lambda one, two: one.id == two.id
    ):
        if partner is None:
            found.append(f'the expectation "{short(expectation.text)}" is removed')
        else:
            found += _loosened_expectation(expectation, partner)
    return found


def _named(check: Check) -> str:
    return f"{check.id} ({check.parameters.kind})"


def _about(check: Check) -> tuple[Any, ...]:
    return (check.parameters.kind, *(getattr(check.parameters, name, None) for name in _TARGET))


def _loosened_check(old: Check, new: Check) -> list[str]:
    found = []
    if _STRICTNESS[new.severity] < _STRICTNESS[old.severity]:
        found.append(f"the severity of the check {_named(old)} is lowered from {old.severity} to {new.severity}")
    found += _narrowed_check(old, new)
    if new.parameters == old.parameters:
        return found
    before, after = old.parameters.model_dump(), new.parameters.model_dump()
    if old.parameters.kind in _BOUNDED:
        lower, upper = _bounds(before)
        new_lower, new_upper = _bounds(after)
        if new_lower < lower or new_upper > upper:
            found.append(
                f"the bounds of the check {_named(old)} are widened from {_range(lower, upper)} to {_range(new_lower, new_upper)}"
            )
        for name in ("expected_count", "min", "max"):
            before.pop(name, None)
            after.pop(name, None)
    for name, value in before.items():
        if after[name] != value and not _tighter(old.parameters.kind, name, value, after[name]):
            found.append(
                f"{name} of the check {_named(old)} is changed from {short(repr(value), 60)} to {short(repr(after[name]), 60)}"
            )
    return found


def _narrowed_check(old: Check, new: Check) -> list[str]:
    """What takes a check away from some runs, or excuses its failures for longer."""
    found = []
    lost = [arm for arm in get_args(ArmName) if old.applies_to(arm) and not new.applies_to(arm)]
    if lost:
        found.append(f"the check {_named(old)} is no longer asked of {', '.join(lost)}")
    issue = new.known_issue
    if issue is not None and (old.known_issue is None or issue.expires > old.known_issue.expires):
        found.append(f"a failure of the check {_named(old)} is excused as a known issue until {issue.expires}")
    return found


def _bounds(values: dict[str, Any]) -> tuple[float, float]:
    exact = values.get("expected_count")
    lower = [value for value in (exact, values.get("min")) if value is not None]
    upper = [value for value in (exact, values.get("max")) if value is not None]
    return max(lower, default=0), min(upper, default=float("inf"))


def _range(lower: float, upper: float) -> str:
    return f"{lower:g} or more" if upper == float("inf") else f"{lower:g} to {upper:g}"


# Lists of which a longer one asks for more, and of which a shorter one allows less.
_MORE_IS_TIGHTER = {
    ("response_contains_all", "texts"), ("response_contains_none", "texts"), ("tool_call_forbidden", "tools"),
    ("response_no_placeholders", "forms"),
}  # fmt: skip
_FEWER_IS_TIGHTER = {
    ("response_contains_any", "texts"), ("response_no_placeholders", "allow"), ("files_changed_only", "paths"),
    ("response_equals", "normalise"), ("file_golden", "normalise"),
}  # fmt: skip
_CONDITIONS = ("args_matches", "json_matches")
_FLAGS = {("response_headings", "only"), ("file_absent", "deleted")}


def _tighter(kind: str, name: str, old: Any, new: Any) -> bool:
    """Whether a change of one parameter can only make the check harder to pass."""
    if name == "ignore_case":
        # Ignoring case finds more: easier where something must be found, harder where nothing may be.
        return bool(new) == kind.endswith(("not_contains", "not_matches", "contains_none"))
    if name == "which":
        return bool(old == "any" and new != "none")
    if name == "values":
        return bool(new == "all")
    if (kind, name) in _FLAGS:
        return bool(new)
    if name in ("text", "stdout_contains", "entry_point", "exit_code"):
        return old is None and kind in (
            "response_has_heading",
            "command",
            "oracle_command",
            "produced_code",
            "command_ran",
        )
    if kind in _CONDITIONS and name in ("contains", "pattern", "one_of"):
        return old is None
    return _narrower(kind, name, old, new)


def _narrower(kind: str, name: str, old: Any, new: Any) -> bool:
    """Limits and lists."""
    if name.startswith("max") or name in ("timeout_s", "tolerance"):
        return new is not None and (old is None or new <= old)
    if name == "min":
        return new is not None and (old is None or new >= old)
    if (kind, name) in _MORE_IS_TIGHTER:
        return set(old) <= set(new)
    if (kind, name) in _FEWER_IS_TIGHTER:
        return set(new) <= set(old)
    return False


def _loosened_expectation(old: Expectation, new: Expectation) -> list[str]:
    found = []
    label = f'the expectation "{short(old.text)}"'
    if new.text != old.text:
        found.append(f'{label} is changed to "{short(new.text)}"')
    if _STRICTNESS[new.severity] < _STRICTNESS[old.severity]:
        found.append(f"the severity of {label} is lowered from {old.severity} to {new.severity}")
    if _PRECISION[new.precision] < _PRECISION[old.precision]:
        found.append(f"the precision of {label} is lowered from {old.precision} to {new.precision}")
    return found
