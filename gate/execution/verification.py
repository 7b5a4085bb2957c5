"""What runs after a run was sealed: command checks and the code that the agent produced, each in a fresh container.

The containers get a copy of the collected workspace; the sealed run is never reopened (DESIGN.md 4, Layer 2a).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser

from gate.domain.base import Json, digest_of
from gate.domain.checks import Command, OracleCommand
from gate.domain.evidence import CollectedFile, CommandResult, ProducedCode, RunRecord, Verification
from gate.domain.sandbox import OneShotResult, OneShotSpec, PutFile
from gate.domain.suite import Case
from gate.errors import SandboxError
from gate.evidence.bundle import Bundle, load_output
from gate.evidence.redact import Redactor
from gate.protocols import Sandbox

CODE_SECONDS = 30
"""R187, R190, R210: every execution of produced code ends after 30 s."""
SHOWN = 3000
"""R168: at most 3,000 characters of a file or stream are handed on."""
HTML_CHARACTERS = 200_000
"""As much of a page is parsed; its four parts begin long before."""
CONVENTIONAL = ("main.py", "app.py", "index.py", "server.py")
PROGRAMS = (".py", ".sh")
PAGES = (".html", ".htm")

_MAIN_GUARD = re.compile(rb"^if\s+__name__\s*==\s*['\"]__main__['\"]\s*:", re.MULTILINE)
_HOME = "home/"
# -P (no folder of the script on the path) is part of -I only in newer interpreters; the folder is root's either way.
_PYTHON = ("/usr/bin/python3", "-I", "-B")
_BASH = ("/bin/bash", "--noprofile", "--norc", "-p")
_ORACLE_ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108 - a folder in the sandbox, its own and empty
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}


def verify_run(
    record: RunRecord,
    case: Case,
    *,
    bundle: Bundle,
    sandbox: Sandbox,
    image: str,
    session_id: str,
    redactor: Redactor | None = None,
) -> Verification:
    """Run the command checks of a case and the produced code of a run; writes verification.json.

    Engine trouble is retried once, then recorded as ``infra``: never a failed check. Raises EvidenceError where a
    collected file is not the one that was sealed.
    """
    arm = record.key.arm.value
    commands = [
        (check.id, check.parameters)
        for check in case.checks
        if isinstance(check.parameters, Command | OracleCommand) and check.applies_to(arm)
    ]
    produced = [file.path for file in record.files if _is_produced(file)]
    verification = Verification(run_seal=record.seal)
    if commands or any(path.lower().endswith((*PROGRAMS, *PAGES)) for path in produced):
        room = _Room(record, bundle, sandbox, image, session_id)
        verification = Verification(
            run_seal=record.seal,
            commands=tuple(room.command(check_id, command) for check_id, command in commands),
            produced=room.produced(produced),
        )
    if redactor is not None:
        verification = Verification.model_validate(redactor.json(verification.to_json()))
    verification = verification.model_copy(update={"chain_head": chain_head(verification)})
    bundle.write(f"{record.key.folder}/verification.json", verification)
    return verification


def chain_head(verification: Verification) -> str:
    """The last link of a verification's own hash chain, which starts from the run's seal.

    Link n = SHA-256 over canonical JSON of [link n-1, result n]; link 0 is ``run_seal``; results are the commands in
    their order, then ``produced``. Whoever has the record can compute it again.
    """
    results: list[Json] = [result.to_json() for result in verification.commands]
    results.append(verification.produced.to_json() if verification.produced else None)
    link = verification.run_seal
    for result in results:
        link = digest_of([link, result])
    return link


def _is_produced(file: CollectedFile) -> bool:
    return file.kept and file.fixture != "unchanged" and not file.path.startswith(_HOME)


class _Room:
    """One run's workspace as it was collected, and fresh containers over copies of it."""

    def __init__(self, record: RunRecord, bundle: Bundle, sandbox: Sandbox, image: str, session_id: str) -> None:
        self._record = record
        self._sandbox = sandbox
        self._image = image
        self._session_id = session_id
        kept = [(file, load_output(bundle.root, record, file.path)) for file in record.files]
        self._files = tuple(
            PutFile(path=file.path, data=data, executable=file.executable) for file, data in kept if data is not None
        )
        missing = sum(data is None for _, data in kept)
        self._note = f"{missing} files of the workspace were over a cap and not there" if missing else ""

    def command(self, check_id: str, command: Command | OracleCommand) -> CommandResult:
        name = f"check-{check_id}"
        if isinstance(command, Command):
            result = self._once(name, ("/bin/bash", "-c", command.run), command.timeout_s)
        else:
            files = tuple(PutFile(path=path, data=text.encode()) for path, text in sorted(command.files.items()))
            result = self._once(name, oracle_argv(command), command.timeout_s, files)
        if isinstance(result, str):
            return CommandResult(check_id=check_id, status="infra", exit_code=None, stdout="", stderr="", reason=result)
        return CommandResult(
            check_id=check_id,
            status="timeout" if result.timed_out else "oom" if result.oom else "ran",
            exit_code=None if result.timed_out else result.exit_code,
            stdout=result.stdout.decode("utf-8", "replace"),
            stderr=result.stderr.decode("utf-8", "replace"),
            truncated=result.truncated,
            reason=self._note,
        )

    def produced(self, paths: Sequence[str]) -> ProducedCode | None:
        """Real execution of what the run made (R182-R190); None where it made no program and no page."""
        if not any(path.lower().endswith((*PROGRAMS, *PAGES)) for path in paths):
            return None
        contents = {file.path: file.data for file in self._files}
        found = entry_point(self._record.response or "", paths, contents)
        if found is None:
            return ProducedCode(entry_point=None, priority=None, outcome="no_entrypoint")
        path, priority = found
        if path.lower().endswith(PAGES):
            missing = missing_html_parts(contents[path].decode("utf-8", "replace"))
            return ProducedCode(
                entry_point=path,
                priority=priority,
                outcome="html_broken" if missing else "html_ok",
                stderr=f"missing: {', '.join(missing)}" if missing else "",
            )
        program = "python3" if path.endswith(".py") else "bash"
        # A name that starts with a dash would be taken for an option.
        result = self._once("produced", (program, f"./{path}" if path.startswith("-") else path), CODE_SECONDS)
        if isinstance(result, str):
            return ProducedCode(entry_point=path, priority=priority, outcome="infra", stderr=result)
        return ProducedCode(
            entry_point=path,
            priority=priority,
            outcome=_outcome(result, program),
            exit_code=None if result.timed_out else result.exit_code,
            stdout=_shown(result.stdout),
            stderr=_shown(result.stderr),
            timed_out=result.timed_out,
        )

    def _once(
        self, what: str, argv: tuple[str, ...], timeout_s: float, oracle_files: tuple[PutFile, ...] = ()
    ) -> OneShotResult | str:
        """The result, or the reason why the engine gave none in two tries."""
        spec = OneShotSpec(
            session_id=self._session_id,
            label=f"{self._record.key.label}/{what}",
            image=self._image,
            argv=argv,
            files=self._files,
            oracle_files=oracle_files,
            timeout_s=timeout_s,
        )
        problem = ""
        for _ in range(2):
            try:
                result = self._sandbox.run_once(spec)
            except SandboxError as error:
                problem = str(error)
                continue
            if result.exit_code is not None or result.timed_out or result.oom:
                return result
            problem = "the engine gave no exit code"
        return problem


def oracle_argv(oracle: OracleCommand) -> tuple[str, ...]:
    """How an oracle is run, so that nothing in the workspace is found, imported or sourced in its place (DESIGN.md 4, 2a).

    In ``/tmp``, which is empty in a fresh container; with an environment of constants alone; by an interpreter that is named
    by its absolute path and takes neither its environment nor its folder nor start-up files into account.
    """
    isolated = _PYTHON if oracle.script.endswith(".py") else _BASH
    environment = tuple(f"{name}={value}" for name, value in sorted(_ORACLE_ENVIRONMENT.items()))
    in_empty_folder = ("/bin/sh", "-c", 'cd /tmp && exec "$@"', "sh", "/usr/bin/env", "-i", *environment)
    return (*in_empty_folder, *isolated, f"/oracle/{oracle.script}", *oracle.args)


def entry_point(response: str, paths: Sequence[str], contents: Mapping[str, bytes]) -> tuple[str, int] | None:
    """Which produced file to run and by which of the five priorities (R183-R187), or None.

    1 named in the final answer, 2 a conventional name, 3 a Python file with a main guard, 4 a page (structure only),
    5 a shell script. Among equals a program comes before a page, then what is nearest to the workspace's root, then the
    shortest, then the first by name.
    """
    ordered = sorted(paths, key=lambda path: (path.count("/"), len(path), path))
    python = [path for path in ordered if path.endswith(".py")]
    pages = [path for path in ordered if path.lower().endswith(PAGES)]
    scripts = [path for path in ordered if path.endswith(".sh")]
    programs = [path for path in ordered if path in python or path in scripts]
    names = [path.rsplit("/", 1)[-1] for path in paths]
    ranked = (
        [path for path in [*programs, *pages] if _is_named(path, response, names)],
        [path for name in CONVENTIONAL for path in python if path.rsplit("/", 1)[-1] == name],
        [path for path in python if _MAIN_GUARD.search(contents.get(path, b""))],
        pages,
        scripts,
    )
    return next(((found[0], priority) for priority, found in enumerate(ranked, 1) if found), None)


def _is_named(path: str, response: str, names: Sequence[str]) -> bool:
    """Whether the answer names a file by its path, or by its bare name where only one file has it."""
    name = path.rsplit("/", 1)[-1]
    spellings = {path, name} if names.count(name) == 1 else {path}
    return any(
        re.search(rf"(?:(?<![\w./-])|(?<=/work/)|(?<=\./)(?<![\w./-]\./)){re.escape(one)}(?![\w/-]|\.\w)", response)
        for one in spellings
    )


def _outcome(result: OneShotResult, program: str) -> str:
    if result.timed_out:
        return "timeout"
    if result.oom:
        return "oom"
    if result.exit_code == 0:
        return "ok"
    code = result.exit_code or 0
    if code > 128:
        return "signal"
    # bash gives these codes for a command inside the script too: there they are the script's own failure.
    return "missing_runtime" if program != "bash" and code in (126, 127) and not result.stdout else "nonzero"


def _shown(stream: bytes) -> str:
    """Start and end of a stream, SHOWN characters at most: what went wrong stands at the end."""
    text = stream.decode("utf-8", "replace")
    if len(text) <= SHOWN:
        return text
    mark = "\n[...]\n"
    half = (SHOWN - len(mark)) // 2
    return f"{text[:half]}{mark}{text[-half:]}"


class _Structure(HTMLParser):
    """Notes which of the parts of R186 a page opens."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_decl(self, decl: str) -> None:
        if decl.lower().split()[:2] == ["doctype", "html"]:
            self.seen.add("DOCTYPE")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.seen.add(tag)


def missing_html_parts(text: str) -> list[str]:
    """Which of DOCTYPE, html, head and body a page lacks (R186). The page is parsed, never run."""
    parser = _Structure()
    parser.feed(text[:HTML_CHARACTERS])
    parser.close()
    return [part for part in ("DOCTYPE", "html", "head", "body") if part not in parser.seen]
