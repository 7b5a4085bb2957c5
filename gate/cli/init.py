"""``skill-gate init``: a policy, a workflow and a first suite for every skill that has none."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from gate import __version__
from gate.cli.app import App, choose_models
from gate.cli.terminal import visible

if TYPE_CHECKING:
    from gate.domain.skill import Skill
    from gate.domain.suite import Case
    from gate.intake.tree import CheckedSkill

POLICY = ".github/skill-gate.yml"
WORKFLOW = ".github/workflows/skill-gate.yml"
SUITE = "evals/skill-gate.yaml"
SKELETON_RULES = 4
"""Rules of SKILL.md in a skeleton: more is for its author to add."""

_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(\S.{11,200})$")

POLICY_TEXT = """\
# The policy of Skill Gate. It is read from the base branch: a change to it takes effect after it is merged.
# All keys are in docs/policy.md of Skill Gate; an unknown one is an error.

# How much is run on a pull request: smoke, quick, standard or full.
mode: standard

# advisory: never blocks, for the first weeks. standard: fail blocks. strict: for releases.
enforce: standard

thresholds:
  # Share of cases that must pass.
  threshold: 0.80

caps:
  # US dollars that one skill, and one session, may cost.
  usd_per_skill: 2.0
  usd_per_session: 10.0
"""
WORKFLOW_TEXT = """\
name: skill-gate
# No paths filter: a required status would wait for ever where no skill changed. Such a change is done in a second.
on:
  pull_request:
    types: [opened, synchronize, reopened, ready_for_review]
  workflow_dispatch:
permissions:
  contents: read # the checkout
  pull-requests: write # the comment
  statuses: write # the status, which is what branch protection should require
jobs:
  skill-gate:
    runs-on: ubuntu-latest
    steps:
      # Pin both actions by commit.
      - uses: actions/checkout@v7
        with:
          fetch-depth: 0 # the merge base is needed
          persist-credentials: false
      - uses: OWNER/skill-gate@vVERSION
        with:
          anthropic-api-key: ${{ secrets.ANTHROPIC_API_KEY }}
          openai-api-key: ${{ secrets.OPENAI_API_KEY }}
""".replace("vVERSION", f"v{__version__}")
IGNORE = ".gitignore"
BUNDLES = ".skill-gate/"
"""Where `skill-gate run` leaves its bundle: no file of the repository."""


class _Done(NamedTuple):
    """What became of one file."""

    path: str
    written: bool
    words: str


@click.command()
@click.argument("path", default=".", metavar="[PATH]")
@click.option("--draft", is_flag=True, help="Let two models draft cases for skills without evals, and agree on them.")
@click.option("--model", metavar="NAME", help="With --draft, drafts: provider:model, openai@URL:model or replay:DIR.")
@click.option("--judge-model", metavar="NAME", help="With --draft, reviews; default: a key of another family.")
@click.option("--seed", metavar="HEX", help="With --draft: 64 hex digits from which all randomness comes.")
@click.pass_obj
def init(app: App, path: str, *, draft: bool, model: str | None, judge_model: str | None, seed: str | None) -> int:
    """Set Skill Gate up in the repository of PATH: a policy, a workflow, and evals for every skill that has none.

    PATH is a repository or a skill folder (default: the current folder). Nothing that is there is overwritten (.gitignore
    gets a line for the bundles), and evals of any dialect count as there. A suite that was made here says generated: true and is conditional at best; edit it, then
    remove that line.
    """
    from gate.errors import ConfigurationError
    from gate.intake.tree import each_in_folder

    folder = Path(path)
    found = [item for item in each_in_folder(path, orphans=True) if not item.orphan]
    if not found:
        raise ConfigurationError(
            f"There is no SKILL.md in or below {path}.", remedy="Name a skill folder, or a folder that holds some."
        )
    root = _root(app, folder)
    done = [_place(root, POLICY, POLICY_TEXT, taken=(".github/skill-gate.yaml",)), _workflow(root), _ignored(root)]
    wanting = [item for item in found if item.skill is not None and not _has_evals(item)]
    drafted: dict[str, tuple[str, str]] = {}
    if draft and wanting:
        drafted = _draft(app, root, [item.skill for item in wanting if item.skill], model, judge_model, seed)
    done += [_suite(item, folder, drafted.get(item.skill.slug) if item.skill else None) for item in found]
    for one in done:
        click.echo(f"{'written' if one.written else 'kept'}: {visible(one.path)}{visible(one.words)}")
    # What has cases can be run at once; a skeleton waits for its prompt.
    ready = [item for item in found if item.skill is not None and _has_evals(item)]
    tried = next(iter([*ready, *wanting, *found]))
    for line in _next(
        done, _named(tried.path, root), any(item.written for item in done[len(done) - len(found) :]), draft=draft
    ):
        click.echo(line)
    return 0


def _root(app: App, folder: Path) -> Path:
    """The repository's folder; the named folder where there is no repository."""
    from gate.errors import RepositoryError

    try:
        return app.open_repository(str(folder)).root
    except RepositoryError:
        return folder.resolve()


def _place(root: Path, name: str, text: str, *, taken: Sequence[str] = ()) -> _Done:
    """Write a file that is not there. Raises ConfigurationError where a link stands in its way or the disk refuses."""
    from gate.errors import ConfigurationError, EvidenceError
    from gate.evidence.files import inside

    there = next((other for other in (name, *taken) if (root / other).exists() or (root / other).is_symlink()), None)
    if there is not None:
        return _Done(there, False, " (it is there already)")
    try:
        place = inside(root, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except (OSError, EvidenceError) as error:
        raise ConfigurationError(
            f"{name} cannot be written below {root}: {error}", remedy="Look at its folder, then run init again."
        ) from None
    return _Done(name, True, "")


def _workflow(root: Path) -> _Done:
    """The workflow, unless one of the repository runs the gate already."""
    folder = root / ".github/workflows"
    for file in sorted(folder.glob("*.y*ml")) if folder.is_dir() else []:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if re.search(r"uses:\s*\S*skill-gate|skill-gate (?:run|action)", text):
            return _Done(f".github/workflows/{file.name}", False, " (it runs Skill Gate already)")
    return _place(root, WORKFLOW, WORKFLOW_TEXT)


def _ignored(root: Path) -> _Done:
    """Bundles stay out of the repository: a line in ``.gitignore``, after what it holds already."""
    from gate.errors import ConfigurationError, EvidenceError
    from gate.evidence.files import inside

    if not (root / IGNORE).exists() and not (root / IGNORE).is_symlink():
        return _place(root, IGNORE, f"{BUNDLES}\n")
    try:
        place = inside(root, IGNORE)
        data = place.read_bytes()
        if any(line.strip().strip(b"/") == BUNDLES.strip("/").encode() for line in data.splitlines()):
            return _Done(IGNORE, False, f" (it names {BUNDLES} already)")
        with place.open("ab") as file:
            file.write((b"" if not data or data.endswith(b"\n") else b"\n") + f"{BUNDLES}\n".encode())
    except (OSError, EvidenceError) as error:
        raise ConfigurationError(
            f"{IGNORE} cannot be written below {root}: {error}", remedy="Look at it, then run init again."
        ) from None
    return _Done(IGNORE, True, f" (the line {BUNDLES})")


def _named(path: str, root: Path) -> str:
    """A skill's folder as `skill-gate run` takes it in the repository, quoted for a shell where that is needed."""
    with contextlib.suppress(ValueError, OSError):
        return shlex.quote(Path(path).resolve().relative_to(root.resolve()).as_posix())
    return shlex.quote(path)


def _has_evals(item: CheckedSkill) -> bool:
    return item.suite is not None or bool(item.triggers) or bool(item.sources)


def _suite(item: CheckedSkill, folder: Path, drafted: tuple[str, str] | None) -> _Done:
    from gate.domain.numbers import counted

    place = item.path if item.path != "." else str(folder)
    if _has_evals(item):
        words = ", ".join(
            f"{source.path} ({source.dialect}, {counted(len(source.cases), 'case')})" for source in item.sources
        )
        return _Done(place, False, f": evals are there: {words}")
    if item.skill is None:
        first = next((found.message for found in item.findings if found.blocks), "SKILL.md cannot be read")
        return _Done(place, False, f": no evals were written: {first}")
    text, words = drafted or (skeleton_text(item.skill), ": a skeleton: write the prompt")
    done = _place(Path(place), SUITE, text) if text else _Done(SUITE, False, "")
    return _Done(
        f"{place}/{done.path}" if text else place, done.written, words if done.written or not text else done.words
    )


def skeleton_text(skill: Skill) -> str:
    """A first suite without a model: one case whose expectations are the skill's own rules, its prompt still to be written."""
    from gate.decision.coverage import rules_of
    from gate.domain.suite import UNWRITTEN_PROMPT, Case, Expectation
    from gate.intake.suite.writing import suite_text

    rules = [(rule.line, rule.text) for rule in rules_of(skill.body, skill.body_line)] or _bullets(skill)
    # Without quotation marks: what stands in them would have to occur word for word in the evidence.
    expectations = tuple(
        Expectation(id=f"e{number}", text=f"The work keeps to this rule: {_plain(text)}", rule_ref=f"line {line}")
        for number, (line, text) in enumerate(rules[:SKELETON_RULES], 1)
    ) or (Expectation(id="e1", text='The answer contains "TODO: what only a right answer holds".'),)
    case = Case(
        eval_id="first",
        name="TODO: what this case is about",
        prompt=f"{UNWRITTEN_PROMPT} It says of itself: {_plain(skill.description)}",
        expectations=expectations,
    )
    return suite_text(
        [case],
        generated=True,
        comments=(
            f"First evals of {_plain(skill.name)}. Write the prompt, keep what matters, add exact checks",
            "(docs/cases.md of Skill Gate): what a program can check is never asked of a model.",
            "Then remove the line generated: until then the verdict is conditional at best.",
        ),
    )


def _bullets(skill: Skill) -> list[tuple[int, str]]:
    """(line, text) of list items, where a SKILL.md orders and forbids nothing in so many words."""
    lines = enumerate(skill.body.split("\n"), skill.body_line)
    return [(number, found[1]) for number, line in lines if (found := _BULLET.match(line))]


def _plain(text: str) -> str:
    """Text of a skill on one line, without quotation marks."""
    return " ".join(re.sub(r"[\"\u201c\u201d\u300c\u300d`]", "", text).split())[:300]


def _draft(
    app: App, root: Path, skills: Sequence[Skill], model: str | None, judge_model: str | None, seed: str | None
) -> dict[str, tuple[str, str]]:
    """Slug -> (text of the suite or empty, words) by generator and reviewer."""
    from gate.domain.numbers import counted
    from gate.domain.seeding import SessionSeed
    from gate.errors import ConfigurationError
    from gate.judging.ground_truth.trivial import idle_passes
    from gate.planning.contract import Parties, draft
    from gate.settings import Settings

    choice = choose_models(app, model=model, judge_model=judge_model, policy_models={})
    if choice is None:
        raise ConfigurationError(
            "--draft asks models, and there is no key for one.",
            remedy="Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a model with --model; or leave --draft out.",
        )
    settings = Settings(repository=str(root), models=choice, seed=seed)
    if choice.executor.startswith("replay:"):
        settings = app.replay_settings(settings, choice.executor.removeprefix("replay:"))
    clock = app.make_clock(settings.run_date)
    today = clock.today_iso()
    drawn = SessionSeed(settings.seed or app.random_hex(32))
    ledger = app.make_ledger(settings, today)
    parties = Parties(app.bind_models(settings, drawn, today).models, ledger, lambda digest: drawn)
    made: dict[str, tuple[str, str]] = {}
    for skill in skills:
        app.say(f"drafting evals for {visible(skill.path)}")
        result = draft(skill, parties, trivial=lambda case: idle_passes(case, run_date=today))
        made[skill.slug] = _drafted(skill, result)
    spent = ledger.spent()
    cost = "cost unknown" if spent.cost_usd is None else f"${spent.cost_usd:.4f}"
    app.say(f"{counted(spent.calls, 'model call')}, {cost}")
    return made


def _drafted(skill: Skill, result: object) -> tuple[str, str]:
    from gate.domain.base import NotRun
    from gate.domain.numbers import counted
    from gate.intake.suite.writing import suite_text
    from gate.planning.contract import Drafted

    if isinstance(result, NotRun):
        return "", f": no evals were written: {result.not_run}"
    if not isinstance(result, Drafted) or result.suite is None:
        refused = result.contract.refused if isinstance(result, Drafted) else ()
        return "", f": no evals were written: {'; '.join(refused) or 'there was no usable task'}"
    comments = [
        f"Drafted by a model for {_plain(skill.name)}, from SKILL.md, and reviewed by another one. Read every case: is it what",
        "somebody would ask, and would a bad answer fail it? Add exact checks. Then remove the line generated: until then",
        "the verdict is conditional at best.",
        "",
        *(_review(case, result) for case in result.suite.cases),
    ]
    count = len(result.suite.cases)
    return suite_text(
        result.suite.cases, generated=True, comments=comments
    ), f": {counted(count, 'drafted case')}, to be reviewed"


def _review(case: Case, result: object) -> str:
    from gate.planning.contract import Drafted

    task = result.contract.task(case.eval_id) if isinstance(result, Drafted) else None
    if task is None:
        return f"{case.eval_id}: no review"
    path = " then ".join("none" if score is None else f"{score:.2f}" for score in task.score_path)
    return f"{case.eval_id}: review {path}{', FORCED: nobody agreed' if task.forced else ''}"


def _next(done: Sequence[_Done], skill: str, suites: bool, *, draft: bool) -> list[str]:
    lines = ["", "Next:"]
    if suites:
        what = "read the drafted cases" if draft else "write the prompts of the new evals"
        lines.append(f"  - {what}, then look at them with: skill-gate check --explain-suite")
    if any(item.path == WORKFLOW and item.written for item in done):
        lines.append(
            "  - put the name of the action's owner and a pinned commit into the workflow, and a key into the secrets"
        )
    lines += [
        "  - commit everything on the base branch: policy and evals of record are read from there",
        f"  - try it: skill-gate doctor, then skill-gate run {visible(skill)} --mode smoke",
    ]
    return lines
