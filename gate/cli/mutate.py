"""``skill-gate mutate``: which instructions of a skill no case guards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gate.cli.app import App
from gate.cli.options import asked_settings, session_options
from gate.cli.terminal import visible

if TYPE_CHECKING:
    from gate.audit.mutants import Mutant
    from gate.audit.mutate import MutantResult, MutationReport
    from gate.domain.report import GateReport, SkillReport
    from gate.domain.skill import Skill
    from gate.protocols import Repository
    from gate.settings import Settings

MUTATION = "mutation.json"
PATCHES = "patches"
UNCHANGED = "unchanged"
REPLAY = "replay:"
MUTANTS = 20
"""So many are run where nobody says how many: each costs about what a pull request costs."""


@click.command()
@session_options
@click.option("--list", "only_list", is_flag=True, help="Print the mutants and run nothing.")
@click.option(
    "--out", default=".skill-gate-mutants", show_default=True, metavar="DIR",
    help="Where patches, one bundle a mutant and mutation.json go.",
)  # fmt: skip
@click.option("--operator", "operators", multiple=True, metavar="NAME", help="Only this operator (repeatable).")
@click.option(
    "--max-mutants", type=click.IntRange(1, 100_000), metavar="N",
    help="Draw at most so many, in turn from every operator, by --seed.  [default: 20; with --list: all]",
)  # fmt: skip
@click.option(
    "--max-usd", type=click.FloatRange(min=0, min_open=True), metavar="USD",
    help="Begin no further mutant once so much is spent, all together.  [default: the policy's usd_per_session]",
)  # fmt: skip
@click.option("--max-calls", type=click.IntRange(1), metavar="N", help="The same for calls of models.")
@click.option(
    "--min-score",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit with 1 where fewer harmful mutants are killed.",
)
@click.option("--record", metavar="DIR", help="Write every exchange with a model to a folder a mutant, for replay:DIR.")
@click.option("--cache", "cache_folder", metavar="DIR", help="As with run: the base version's runs are made once.")
@click.option("--no-cache", is_flag=True, help="Use and keep nothing of earlier sessions.")
@click.option("--json", "as_json", is_flag=True, help="Print mutation.json on standard output.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print the survivors as SARIF 2.1.0 on standard output.")
@click.pass_obj
def mutate(
    app: App,
    /,
    *,
    paths: tuple[str, ...],
    only_list: bool,
    out: str,
    operators: tuple[str, ...],
    max_mutants: int | None,
    max_usd: float | None,
    max_calls: int | None,
    min_score: float | None,
    as_json: bool,
    as_sarif: bool,
    **given: Any,
) -> int:
    """Change one instruction of the skill in PATH at a time and see whether its suite notices.

    Every mutant is judged like a pull request on top of --head. A change that harms and that no case notices names a line
    of SKILL.md that nothing guards; neutral changes must be noticed by nothing. Exits 0 whatever survives, unless
    --min-score says more.
    """
    from gate.audit.operators import NAMES
    from gate.errors import ConfigurationError

    if as_json and as_sarif:
        raise ConfigurationError("--json and --sarif cannot be used together.", remedy="Choose one of them.")
    if len(paths) != 1:
        raise ConfigurationError("mutate takes one skill folder.", remedy="Name it: skill-gate mutate skills/NAME.")
    if given.pop("base", None):
        raise ConfigurationError("--base cannot be given: a mutant's base is --head.", remedy="Leave it out.")
    wrong = [name for name in operators if name not in NAMES]
    if wrong:
        raise ConfigurationError(f"There is no operator {wrong[0]}.", remedy=f"There are: {', '.join(NAMES)}.")
    work = _Work(app, paths[0], Path(out), dict(given))
    found = work.mutants(operators or NAMES)
    picked = work.drawn(found, max_mutants or (len(found) if only_list else MUTANTS))
    if only_list:
        return _listed(work, picked, as_json=as_json)
    work.write_patches(picked)
    report = work.judge(picked, left=len(found) - len(picked), max_usd=max_usd, max_calls=max_calls)
    _say(app, report, Path(out), as_json=as_json, as_sarif=as_sarif)
    short = min_score is not None and (report.score is None or report.score < min_score)
    return 1 if short else 0


def with_mutation(app: App, settings: Settings, file: Path) -> Settings:
    """Settings of a session whose report says what ``mutate`` found of a skill, as far as its SKILL.md is still the same.

    Raises ConfigurationError for a file that is no mutation.json.
    """
    from pydantic import ValidationError

    from gate.audit.mutate import MutationReport, findings_of, killed_lines
    from gate.domain.base import sha256_hex
    from gate.domain.findings import Finding, Level
    from gate.errors import ConfigurationError
    from gate.intake.skill import parse_skill

    try:
        report = MutationReport.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        raise ConfigurationError(
            f"{file} is no {MUTATION} of skill-gate mutate.", remedy="Name the file that it wrote to its --out folder."
        ) from None
    repository = app.open_repository(settings.repository)
    files = repository.read_skill_files(repository.resolve(settings.head), report.skill)
    skill, _ = parse_skill(report.skill, files)
    if skill is not None and sha256_hex(skill.text.encode("utf-8", "replace")) == report.skill_md_sha256:
        found, lines = findings_of(report), {report.skill: killed_lines(report)}
    else:
        path = f"{report.skill}/{report.skill_md}" if report.skill != "." else report.skill_md
        message = "the mutants are of another version of this file, so nothing is said of them"
        found = (Finding(rule="mutation/outdated", level=Level.NOTICE, path=path, message=message),)
        lines = {}
    return settings.model_copy(update={"input_findings": (*settings.input_findings, *found), "guarded_lines": lines})


class _Work:
    """One skill and its mutants."""

    def __init__(self, app: App, path: str, out: Path, given: dict[str, Any]) -> None:
        from gate.cli.session import in_repository
        from gate.errors import ConfigurationError
        from gate.intake.skill import parse_skill

        self.app = app
        self.out = out
        self.given = given
        self.repository: Repository = app.open_repository(given["repository"])
        self.commit = self.repository.resolve(given["head"])
        self.path = in_repository(app, given["repository"], path)
        skill, findings = parse_skill(self.path, self.repository.read_skill_files(self.commit, self.path))
        if skill is None:
            why = findings[0].message if findings else "there is no SKILL.md"
            raise ConfigurationError(f"{path} holds no skill that can be read: {why}.", remedy="Name a skill folder.")
        self.skill: Skill = skill

    def mutants(self, operators: Sequence[str]) -> tuple[Mutant, ...]:
        from gate.audit.operators import mutants_of

        return mutants_of(self.skill, tuple(operators))

    def drawn(self, mutants: Sequence[Mutant], most: int) -> tuple[Mutant, ...]:
        from gate.audit.mutate import drawn

        return drawn(mutants, most, str(self.given.get("seed") or "mutants"))

    def write_patches(self, mutants: Sequence[Mutant]) -> None:
        """A file a mutant, which ``git apply`` takes. Raises ConfigurationError where the folder is in use."""
        from gate.evidence.files import write_atomic

        folder = self.out / PATCHES
        folder.mkdir(parents=True, exist_ok=True)
        for mutant in mutants:
            write_atomic(folder / f"{mutant.id}.patch", mutant.patch(self.path).encode("utf-8", "surrogatepass"))

    def judge(
        self, mutants: Sequence[Mutant], *, left: int, max_usd: float | None, max_calls: int | None
    ) -> MutationReport:
        """A session of the unchanged skill, then one a mutant until a cap is reached; mutation.json."""
        from gate.audit.mutate import USABLE, MutationReport, result_of, scores_of, unknown
        from gate.domain.base import pretty_json, sha256_hex
        from gate.errors import ConfigurationError
        from gate.evidence.files import write_atomic

        first = self._session(UNCHANGED, None)
        if first is None:
            raise ConfigurationError("The recording holds no session of the unchanged skill.", remedy="Record it anew.")
        unchanged = self._own(first)
        if unchanged.verdict not in USABLE:
            raise ConfigurationError(
                f"The unchanged skill is {unchanged.verdict.value}: {'; '.join(unchanged.reasons[:1])}.",
                remedy="A suite can kill nothing before it passes the skill as it is; see "
                f"{self.out / UNCHANGED / 'report.md'}.",
            )
        spent = _Spent(first)
        cap = max_usd if max_usd is not None else self._policy_cap()
        results: list[MutantResult] = []
        for number, mutant in enumerate(mutants, 1):
            if spent.usd >= cap or (max_calls is not None and spent.calls >= max_calls):
                left += len(mutants) - number + 1
                self.app.say(f"over budget after {spent.calls} calls and {spent.usd:.2f} $: {left} mutants are not run")
                break
            report = self._session(mutant.id, mutant)
            if report is None:
                results.append(unknown(mutant, "the recording holds no session of this mutant"))
                continue
            spent.add(report)
            results.append(result_of(mutant, unchanged.verdict, self._own(report)))
            self.app.say(f"{number}/{len(mutants)} {mutant.id}: {results[-1].fate} ({results[-1].verdict})")
        found = MutationReport(
            skill=self.path,
            skill_md=self.skill.skill_md,
            skill_md_sha256=sha256_hex(self.skill.text.encode("utf-8", "replace")),
            commit=self.commit,
            unchanged=unchanged.verdict.value,
            mutants=tuple(results),
            scores=scores_of(results),
            not_run=left,
            calls=spent.calls,
            cost_usd=spent.usd,
        )
        write_atomic(self.out / MUTATION, pretty_json(found))
        return found

    def _policy_cap(self) -> float:
        from gate.cli.session import session_policy

        return session_policy(self.app, self.given["repository"], None).caps.usd_per_session

    def _own(self, report: GateReport) -> SkillReport:
        return next(skill for skill in report.skills if skill.path == self.path)

    def _session(self, name: str, mutant: Mutant | None) -> GateReport | None:
        """One session through the code of every run; None where a replay has no recording of it."""
        from gate.audit.mutate import MutatedRepository
        from gate.cli.session import cache_settings, run_session

        given = {**self.given}
        folder, no_cache = given.pop("cache_folder"), given.pop("no_cache")
        model = given["model"]
        if model is not None and model.startswith(REPLAY):
            own = Path(model.removeprefix(REPLAY)) / name
            if not own.is_dir():
                return None
            given["model"] = f"{REPLAY}{own}"
        if given["record"]:
            given["record"] = str(Path(given["record"]) / name)
        app = replace(self.app, quiet=True)
        if mutant is not None:
            place = mutant.path if self.path == "." else f"{self.path}/{mutant.path}"
            over = MutatedRepository(
                self.repository, self.commit, place, mutant.after.encode("utf-8", "surrogatepass"), head=given["head"]
            )
            app = replace(app, open_repository=lambda folder: over)
        settings = asked_settings(
            app,
            paths=(str(self.repository.root / self.path),),
            base=self.commit,
            exact_base=True,
            out=str(self.out / "sessions" / name if mutant else self.out / UNCHANGED),
            cache=cache_settings(self.app, folder=folder, no_cache=no_cache),
            **given,
        )
        return run_session(app, settings)


class _Spent:
    """Calls and known dollars of several sessions."""

    def __init__(self, report: GateReport) -> None:
        self.calls, self.usd = 0, 0.0
        self.add(report)

    def add(self, report: GateReport) -> None:
        self.calls += sum(use.calls for use in report.usage)
        self.usd += sum(use.known_cost_usd for use in report.usage)


def _listed(work: _Work, mutants: Sequence[Mutant], *, as_json: bool) -> int:
    if as_json:
        values = [
            {
                "id": item.id, "operator": item.operator, "harmful": item.harmful, "file": item.path, "line": item.line,
                "rule": item.rule, "patch": item.patch(work.path),
            }
            for item in mutants
        ]  # fmt: skip
        click.echo(json.dumps(values, indent=1, ensure_ascii=True))
        return 0
    for item in mutants:
        kind = "harmful" if item.harmful else "neutral"
        click.echo(f"{item.id}: {kind}: line {item.line}: {visible(item.rule)[:120]}")
    click.echo(f"{len(mutants)} mutants; their patches: skill-gate mutate --out DIR, or --list --json")
    return 0


def _say(app: App, report: MutationReport, out: Path, *, as_json: bool, as_sarif: bool) -> None:
    from gate.audit.mutate import findings_of

    findings = findings_of(report)
    if as_json:
        click.echo((out / MUTATION).read_text(encoding="utf-8"), nl=False)
    elif as_sarif:
        click.echo(app.render_findings(list(findings)), nl=False)
    else:
        for item in findings:
            click.echo(f"{visible(item.path)}:{item.line}: {item.level.value}: {visible(item.message)} [{item.rule}]")
            click.echo(f"  what to do: {visible(item.remedy)}")
    for score in report.scores:
        counts = f"{score.killed} killed, {score.survived} survived" + (
            f", {score.unknown} unknown" if score.unknown else ""
        )
        bounds = f" ({score.interval[0]:.0%} to {score.interval[1]:.0%})" if score.interval else ""
        what = "harmful" if score.harmful else "neutral: a kill is a false alarm"
        app.say(f"  {score.operator}: {counts}{bounds}; {what}")
    shown = "nothing is known" if report.score is None else f"{report.score:.0%}"
    app.say(
        f"mutation score {shown} of harmful mutants; {report.not_run} mutants not run; {report.calls} calls of models; "
        f"patches, bundles and {MUTATION}: {out}"
    )
