"""Every command that README and docs/ show is run as it stands there, or the table below says who runs it and why not here.

A command that is in no row of the table fails: whoever documents one says how it is held to work.
"""

from __future__ import annotations

import ast
import http.client
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import IN_CI
from tests.scripted import demo, generic
from tests.scripted.scenarios import Scenario
from tests.scripted.server import ScriptedServer
from tests.service_rig import Running
from tests.story import gate_environment, git, make_repository
from tests.unit.evidence.test_foreign import CLAUDE

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", *sorted(ROOT.glob("docs/**/*.md"))]
SHELLS, TEXTS = {"sh", "bash"}, {"yaml"}
"""Languages of code blocks: what is typed, and what is read."""
PROGRAMS = r"(?:skill-gate|make|python3?|pip|docker|npm|curl|openssl|\.venv/\S+)"


@dataclass(frozen=True)
class Runs:
    """A command that is run here, in a copy of a repository that was judged before."""

    says: tuple[str, ...]
    """Regular expressions, each found in what it prints or in the file that ``makes`` names."""
    code: int = 0
    given: Mapping[str, str] = field(default_factory=dict)
    """What is put for the placeholders of the page. {server}: the address of a scripted model, {service}: of a service."""
    adds: str = ""
    """Said after it, so that it ends soon or meets nobody else's port."""
    after: tuple[str, ...] = ()
    """Documented commands that come before it."""
    makes: str = ""
    at: str = "repository"
    """``repository``, or ``source``: this repository."""
    serves: bool = False
    """It works until it is told to stop."""


@dataclass(frozen=True)
class Elsewhere:
    """A command that is not run here."""

    why: str
    tests: tuple[str, ...]
    """Tests that hold it to work: ``file::name``."""


JUDGE = "openai@{server}/v1:judge"
FIRST = "skill-gate run --base main"
KEYS = ("openssl genpkey -algorithm ed25519 -out key.pem", "openssl pkey -in key.pem -pubout -out key.pub")
ATTEST = "skill-gate attest .skill-gate --key key.pem --out statement.json"
TOKEN = "skill-gate token add NAME --repository OWNER/NAME --write"
SERVE = (
    "SKILL_GATE_WEBHOOK_SECRET=… GITHUB_TOKEN=… ANTHROPIC_API_KEY=… "
    "skill-gate serve --repository OWNER/NAME --accept-runc"
)
BUILT = ("tests/docker/test_action_image.py::test_building_again_builds_nothing_and_says_what_the_image_is_made_of",)
COMPOSE = tuple(
    f"tests/meta/test_service_example.py::{name}"
    for name in (
        "test_it_fits_the_schema_of_compose_files",
        "test_its_command_lines_are_ones_that_the_program_takes",
        "test_what_the_page_of_the_service_says_of_it_is_in_it",
    )
)
CLAUDE_CODE = (
    "tests/docker/test_claude_code.py::test_a_case_runs_with_and_without_the_skill_and_the_record_is_what_the_model_said",
)
SHARDS = ("tests/pipeline/test_shards_story.py::test_two_shards_give_the_verdict_bytes_of_the_whole_session",)

COMMANDS: Mapping[str, Runs | Elsewhere] = {
    # What is made of the source.
    "make demo": Elsewhere("it is run once for all tests of what it leaves", ("tests/docker/test_demo.py::test_make_demo_ends_well_and_says_where_everything_is",)),
    "make test": Elsewhere("it is what runs these tests", ()),
    "make lint": Elsewhere("`make test` runs it first", ("tests/docker/test_documented_commands.py::test_make_test_begins_with_what_else_is_documented",)),
    "make image": Elsewhere("`make test` runs it first", (*BUILT, "tests/docker/test_documented_commands.py::test_make_test_begins_with_what_else_is_documented")),
    "docker build --tag skill-gate .": Elsewhere("`make image` builds the same file", BUILT),
    "make bench": Elsewhere("it takes hours; each bench is run small", ("tests/bench/test_trust_document.py::", "tests/bench/test_small_arithmetic.py::")),
    "python -m tests.bench.NAME": Elsewhere("each bench is run small", ("tests/bench/test_small_arithmetic.py::",)),
    "python -m tests.bench.debate": Elsewhere("it is run small", ("tests/bench/test_small_debate.py::",)),
    "python -m tests.docker.test_isolation": Elsewhere("its attempts are tests", ("tests/docker/test_isolation.py::test_no_attempt_gets_out_of_a_sandbox_and_each_succeeds_without_one", "tests/docker/test_isolation.py::test_there_are_sixty_attempts_and_their_table_is_shown")),
    "python tests/requirements.py": Runs((r"226 of 226 requirements shown, by \d+ tests; 0 missing",), at="source"),
    "pip install .": Runs((r"Successfully installed skill-gate-\d",), at="source"),
    "pip install '.[s3]'": Runs((r"Would install skill-gate-\d", r"satisfied: boto3\S* in .*\(from skill-gate"), at="source", adds="--dry-run"),
    "pip install '.[signing]'": Runs((r"Would install skill-gate-\d", r"satisfied: model-signing\S* in .*\(from skill-gate", r"satisfied: pyOpenSSL\S* in "), at="source", adds="--dry-run"),
    ".venv/bin/python examples/demo/run_demo.py --model openai@http://127.0.0.1:8000/v1:my-model": Runs(("FAIL.* `skills/release-notes`", r"CONDITIONAL.* `skills/csv-totals`", r"The gate said no \(exit code 1\), as it should"), given={"http://127.0.0.1:8000": "{demo}"}, at="source", adds="--mode quick"),
    # Judging.
    FIRST: Runs((r"planned: 1 case, 4 runs", r"success: 1 passes", r"skills/my-skill: pass: 1 case x 2 runs", r"page: \.skill-gate/report\.html")),
    "skill-gate run skills/my-skill --mode full": Runs((r"planned: 1 case, 9 runs", r"skills/my-skill: pass: 1 case x 3 runs")),
    "skill-gate run skills/my-skill --mode quick": Runs((r"skills/my-skill: conditional: .*quick",)),
    "skill-gate mutate skills/my-skill": Runs((r"1/1 \S+: (killed|survived)",), adds="--max-mutants 1 --mode smoke"),
    "skill-gate run --harness claude-code --model anthropic:claude-sonnet-4-5": Elsewhere("it asks a paid model; the same with a scripted one", CLAUDE_CODE),
    "npm install -g @anthropic-ai/claude-code": Elsewhere("it changes the machine; the same package below a folder", CLAUDE_CODE),
    "skill-gate run --plan plan.json --shard 2/4": Elsewhere("a plan, its parts and what they are merged to belong together", SHARDS),
    "skill-gate merge DIR… --plan plan.json": Elsewhere("a plan, its parts and what they are merged to belong together", SHARDS),
    # Reading.
    "skill-gate init": Runs((r"written: \.github/workflows/skill-gate\.yml", r"kept: skills/my-skill: evals are there"), after=()),
    "skill-gate init [PATH]": Runs((r"written: \.github/workflows/skill-gate\.yml",), given={"[PATH]": "skills/my-skill"}),
    "skill-gate check skills": Runs((r"1 skill, 1 eval case, 0 unusable",)),
    "skill-gate check skills --null": Runs((r"null agent hijacker: stopped by case \"two\": ",)),
    "skill-gate check --explain-suite PATH": Runs((r"could be a check|a program could decide",), given={"PATH": "skills/my-skill"}),
    "skill-gate check --explain-suite": Runs((r"could be a check|a program could decide",)),
    "skill-gate doctor": Runs((r"ok +files come out:", r"ok +policy:", r"ok +keys: there is a key for anthropic")),
    "skill-gate cache ls": Runs((r"^history +local .* skills/my-skill$", r"^[1-9]\d* entries, ")),
    "skill-gate cache prune --older-than DAYS": Runs((r"^removed 0 entries, 0 bytes$",), given={"DAYS": "30"}),
    # What a bundle shows.
    "skill-gate verify .skill-gate": Runs((r"4 runs, \d+ quotes, 4 checks: everything holds",)),
    "skill-gate report .skill-gate --format junit": Runs((r'<testsuites name="Skill Gate" tests="2" failures="0"',)),
    "skill-gate lock .skill-gate": Runs((r"skill-gate\.lock: 1 skill",)),
    "skill-gate verify run.jsonl": Runs((r"format: claude_stream_json", r"tier 2")),
    KEYS[0]: Runs((r"BEGIN PRIVATE KEY",), makes="key.pem"),
    KEYS[1]: Runs((r"BEGIN PUBLIC KEY",), makes="key.pub", after=KEYS[:1]),
    "skill-gate attest .skill-gate --key key.pem": Runs((r'"payloadType": "application/vnd\.in-toto\+json"', r'"sig": '), after=KEYS),
    "python -m tests.bench.sabotage --patches DIR": Elsewhere("it is run on a folder of its own", ("tests/bench/test_small_sabotage.py::test_the_corpus_can_be_read_as_patches",)),
    "skill-gate verify --statement": Elsewhere("named for its option only; the command with its arguments is the row below", ("tests/pipeline/test_audit_story.py::",)),
    ATTEST: Runs((r'"sig": ',), makes="statement.json", after=KEYS),
    "skill-gate verify .skill-gate --tree skills/my-skill --policy .github/skill-gate.yml --statement statement.json --key key.pub": Runs((r"everything holds",), after=(*KEYS, ATTEST)),
    # Judges and decisions.
    "skill-gate calibrate --judge-model NAME": Runs((r"written to calibration\.json; for the base branch's policy", r"^calibration:"), given={"NAME": JUDGE}),
    "skill-gate calibrate --simulate": Runs((r"^caving: clean: 1 [a-z_]+$",), adds="--cases 3 --changes 1"),
    # The service.
    "skill-gate serve --repository OWNER/NAME": Runs((r"listening on http://127\.0\.0\.1:\d+",), adds="--port 0 --accept-runc", serves=True),
    SERVE: Runs((r"listening on http://127\.0\.0\.1:\d+",), adds="--port 0", serves=True),
    "skill-gate token add ci --repository OWNER/NAME": Runs((r"^[\w-]{20,}$",)),
    TOKEN: Runs((r"^[\w-]{20,}$",)),
    "curl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' -d '{\"repository\": \"OWNER/NAME\", \"mode\": \"full\"}' http://127.0.0.1:8080/api/v1/audits": Runs((r'"state": ?"(waiting|working|running)"', r'"repository": ?"OWNER/NAME"'), given={"http://127.0.0.1:8080": "{service}"}),
    "skill-gate worker": Elsewhere("it belongs to a service on PostgreSQL, on another machine", ("tests/pipeline/test_service_kills.py::test_on_postgresql_the_job_of_a_killed_worker_ends_elsewhere",)),
    "POSTGRES_PASSWORD=… docker compose --file examples/service/compose.yaml up --detach": Elsewhere("it pulls PostgreSQL and needs a secret of GitHub; file, command lines and variables are held by tests", COMPOSE),
}  # fmt: skip
RUN = [text for text, how in COMMANDS.items() if isinstance(how, Runs)]


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, text) of the code blocks of a page, however deep they are indented."""
    return re.findall(r"^ *```([^\n]*)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)


def typed(block: str) -> list[str]:
    """The command lines of a block: comments gone, continued lines in one, white space single."""
    joined = re.sub(r"\s*\\\n\s*", " ", block)
    lines = (re.sub(r"(^|\s+)#\s.*$", "", line) for line in joined.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def spans(text: str) -> list[str]:
    """Commands in running text. A bare ``skill-gate NAME`` names a command: tests/meta/test_docs.py holds it to exist."""
    outside = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", outside))
    return [
        span for span in found if re.match(rf"{PROGRAMS} \S", span) and not re.fullmatch(r"skill-gate [a-z]+", span)
    ]


def documented() -> dict[str, str]:
    """Command -> the page that shows it first; ``export`` lines set what the lines below them need."""
    found: dict[str, str] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for language, block in blocks(text) if language in SHELLS for line in typed(block)]
        for line in [*lines, *spans(text)]:
            if not line.startswith("export "):
                found.setdefault(line, str(page.relative_to(ROOT)))
    return found


def test_every_documented_command_is_run_or_says_who_runs_it() -> None:
    shown = documented()
    assert {text: page for text, page in shown.items() if text not in COMMANDS} == {}, "write a row for each"
    assert [text for text in COMMANDS if text not in shown] == [], "no page shows these"


def test_every_block_of_a_page_is_one_that_is_typed_or_read() -> None:
    """A block without a language, or of another one, could hide a command."""
    for page in PAGES:
        languages = {language for language, _ in blocks(page.read_text(encoding="utf-8"))}
        assert languages <= SHELLS | TEXTS, page.name
    assert len(documented()) > 40


@pytest.mark.parametrize("text", [text for text, how in COMMANDS.items() if isinstance(how, Elsewhere)])
def test_who_runs_a_command_elsewhere_is_there(text: str) -> None:
    how = COMMANDS[text]
    assert isinstance(how, Elsewhere)
    assert how.tests or text == "make test"
    for test in how.tests:
        file, _, name = test.partition("::")
        names = {
            node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)
        }
        assert name in names if name else any(one.startswith("test_") for one in names), test


def test_make_test_begins_with_what_else_is_documented() -> None:
    rule = re.search(r"^test: ([^#\n]*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None
    assert {"venv", "image", "lint"} <= set(rule[1].split())


SKILL = "---\nname: my-skill\ndescription: Adds numbers. Use when somebody asks for a sum.\n---\n# Sums\n\n- Name the part `Sums`.\n"
SUITE = """version: 1
cases:
  - id: two
    prompt: What is 1 and 2?
    checks: [{kind: response_contains, keyword: It has the part Sums}]
    expectations: ['The answer contains the word "Sums".']
"""


@dataclass
class World:
    """What the commands meet: a judged repository, scripted models, an installer without a network."""

    folder: Path
    server: ScriptedServer
    demo: ScriptedServer
    first: subprocess.CompletedProcess[str]

    def shell(self, text: str, at: Path, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", text], cwd=at, env=_environment(self.folder, **extra), capture_output=True, text=True,
            timeout=280, check=False,
        )  # fmt: skip

    def typed(self, text: str, how: Runs, at: Path, **extra: str) -> subprocess.CompletedProcess[str]:
        return self.shell(self.line(text, how), at, **extra)

    def line(self, text: str, how: Runs, service: str = "") -> str:
        """The command with something put for what a page leaves open."""
        line = f"{text} {how.adds}".strip()
        for placeholder, value in how.given.items():
            assert placeholder in line
            line = line.replace(placeholder, value)
        for name, value in (("{server}", self.server.url), ("{demo}", self.demo.url), ("{service}", service)):
            line = line.replace(name, value)
        return line.replace("=…", "=documented")


def _environment(folder: Path, **extra: str) -> dict[str, str]:
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    around = {
        "PATH": path,
        "ANTHROPIC_API_KEY": "documented",  # README: export
        "SKILL_GATE_WEBHOOK_SECRET": "documented",
        "GITHUB_TOKEN": "documented",
        "GITHUB_API_URL": "http://127.0.0.1:9",
        "GITHUB_SERVER_URL": "http://127.0.0.1:9",
        "SKILL_GATE_CACHE": str(folder / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "false",  # means that it is not isolated: pip negates the option
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "SKILL_GATE_DEMO": str(folder / "demo"),
    }
    made = {**gate_environment(), **around, **extra}
    return {
        name: value for name, value in made.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "CI", "GITHUB_ACTIONS")
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("documented")
    with _scripted(generic.scenario()) as server, _scripted(demo.scenario()) as other:
        policy = f"models: {{executor: 'anthropic@{server.url}:agent', grader: '{JUDGE}'}}\n".replace(
            "{server}", server.url
        )
        main = {
            ".github/skill-gate.yml": policy,
            "skills/my-skill/SKILL.md": SKILL,
            "skills/my-skill/evals/skill-gate.yaml": SUITE,
        }
        make_repository(folder / "repository", main, {"skills/my-skill/SKILL.md": SKILL + "- Keep it short.\n"})
        (folder / "repository/run.jsonl").write_text(CLAUDE)
        _installer(folder)
        found = World(folder, server, other, subprocess.CompletedProcess([], 0))
        found.first = found.typed(FIRST, Runs(()), folder / "repository")
        yield found


@contextmanager
def _scripted(scenario: Scenario) -> Iterator[ScriptedServer]:
    with ScriptedServer(scenario) as server:
        yield server


def _installer(folder: Path) -> None:
    """A ``pip`` of an environment of its own in which all dependencies are there already, and the source beside it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=60)
    (place,) = (folder / "venv/lib").glob("python*/site-packages")
    ours = next(entry for entry in sys.path if entry.endswith("site-packages"))
    (place / "dependencies.pth").write_text(ours + "\n")
    (folder / "bin").mkdir()
    (folder / "bin/pip").write_text(f'#!/bin/sh\nexec {shlex.quote(str(folder / "venv/bin/python"))} -m pip "$@"\n')
    (folder / "bin/pip").chmod(0o755)
    source = folder / "source"
    for name in ("gate", "reporters"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE", "README.md", "entrypoint.py"):
        shutil.copy(ROOT / name, source / name)


@pytest.mark.docker
@pytest.mark.timeout(300)
@pytest.mark.parametrize("text", [text for text in RUN if not COMMANDS[text].serves and not text.startswith("curl ")])  # type: ignore[union-attr]
def test_a_documented_command_does_what_its_page_says(world: World, tmp_path: Path, text: str) -> None:
    how = COMMANDS[text]
    assert isinstance(how, Runs)
    if text == FIRST:
        _held(how, world.first, "")
        return
    _needs(text, *how.after)
    at = _place(world, how, tmp_path, text)
    for earlier in how.after:
        before = COMMANDS[earlier]
        assert isinstance(before, Runs)
        assert world.typed(earlier, before, at).returncode == before.code, earlier
    done = world.typed(text, how, at, SKILL_GATE_CACHE=str(tmp_path / "cache"))
    _held(how, done, (at / how.makes).read_text() if how.makes else "")
    if text == "pip install .":
        installed = world.shell(f"{world.folder / 'venv/bin/skill-gate'} --version", tmp_path)
        assert re.search(r"\d+\.\d+", installed.stdout), installed.stderr


def _needs(*commands: str) -> None:
    """Skip where a program of the machine's own is missing; fail in CI."""
    for program in ("curl", "openssl"):
        if any(text.startswith(f"{program} ") for text in commands) and shutil.which(program) is None:
            (pytest.fail if IN_CI else pytest.skip)(f"{program} is not installed on this machine")


def _place(world: World, how: Runs, tmp_path: Path, text: str) -> Path:
    """Where a command is typed."""
    if how.at == "source":
        return world.folder / "source" if text.startswith("pip ") else ROOT
    for name in ("cache", "repository"):
        shutil.copytree(world.folder / name, tmp_path / name)
    return tmp_path / "repository"


def _held(how: Runs, done: subprocess.CompletedProcess[str], made: str) -> None:
    said = f"{done.stdout}\n{done.stderr}\n{made}"
    assert done.returncode == how.code, said
    for words in how.says:
        assert re.search(words, said, re.MULTILINE), f"{words}\n{said}"


@pytest.mark.docker
@pytest.mark.timeout(300)
@pytest.mark.parametrize("text", [text for text in RUN if COMMANDS[text].serves])  # type: ignore[union-attr]
def test_a_documented_service_answers_and_ends_when_it_is_told_to(world: World, tmp_path: Path, text: str) -> None:
    with _service(world, tmp_path, text) as (address, lines):
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200, lines
        connection.close()


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_the_documented_request_starts_an_audit_with_the_documented_token(world: World, tmp_path: Path) -> None:
    text, how = next((text, COMMANDS[text]) for text in RUN if text.startswith("curl "))
    assert isinstance(how, Runs)
    _needs(text)
    token = world.typed(TOKEN, Runs(()), tmp_path).stdout.strip()
    with _service(world, tmp_path, SERVE) as (address, lines):
        done = world.shell(world.line(text, how, service=address), tmp_path, TOKEN=token)
        _held(how, done, "\n".join(lines))
        refused = world.shell(world.line(text, how, service=address), tmp_path, TOKEN="another")
        assert "a bearer token of this service is needed" in refused.stdout


@contextmanager
def _service(world: World, at: Path, text: str) -> Iterator[tuple[str, list[str]]]:
    """A documented service on a free port, with a mirror in which nothing is to be judged."""
    how = COMMANDS[text]
    assert isinstance(how, Runs)
    mirror = make_repository(at / "plain", {"README.md": "x\n"}, {"README.md": "y\n"})
    git(at, "clone", "--quiet", "--bare", str(mirror), str(at / "mirrors/OWNER/NAME.git"))
    line = f"exec env {world.line(text, how)} --mirrors mirrors"
    process = subprocess.Popen(
        ["bash", "-c", line], cwd=at, env=_environment(world.folder), stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    running = Running(process)
    try:
        address = f"http://127.0.0.1:{running.port}"
        for words in how.says:
            assert any(re.search(words, one) for one in running.lines), running.lines
        yield address, running.lines
    finally:
        code = running.stop()
    assert code == 0, running.lines


def test_what_is_found_on_a_page_is_what_a_reader_would_type() -> None:
    page = "Say `skill-gate run`, or `make\nimage`.\n\n```sh\na --b \\\n  c # why\n# only words\n\nX=… e#f\n```\n"
    ((language, block),) = blocks(page)
    assert language == "sh"
    assert typed(block) == ["a --b c", "X=… e#f"]
    assert spans(page) == ["make image"]
