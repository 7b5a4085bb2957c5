"""What runs after a run was sealed: command checks and the code that the agent produced, each in a fresh container.

The containers get a copy of the collected workspace; the sealed run is never reopened (DESIGN.md 4, Layer 2a).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from gate.domain.base import Json, digest_of, sha256_hex
from gate.domain.checks import Command, OracleCommand
from gate.domain.evidence import CollectedFile, CommandResult, ProducedCode, RunRecord, Verification
from gate.domain.sandbox import OneShotResult, OneShotSpec, PutFile
from gate.domain.suite import Case, ServiceProbe
from gate.errors import SandboxError
from gate.evidence.bundle import Bundle, load_output
from gate.evidence.redact import Redactor
from gate.execution import serve
from gate.execution.starting import Start, is_startable, start_of
from gate.protocols import Sandbox

CODE_SECONDS = 30
"""R187, R190, R210: every execution of produced code ends after 30 s."""
SHOWN = 3000
"""R168: at most 3,000 characters of a file or stream are handed on."""
HTML_CHARACTERS = 200_000
"""As much of a page is parsed; its four parts begin long before."""
LISTEN_SECONDS = 8
"""How long a program that did not end gets to show that it is a server (K18)."""

_SERVER = Path(serve.__file__)
_MAY_SERVE = re.compile(
    rb"\b(?:listen|serve|serve_forever|run_app|uvicorn|gunicorn|flask|fastapi|http\.server|createServer|bind)\b",
    re.IGNORECASE,
)
_NO_MODULE = (
    re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'"),
    re.compile(r"Cannot find (?:module|package) '([^./'][^']*)'"),
)
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
    if commands or any(map(is_startable, produced)):
        room = _Room(record, bundle, sandbox, image, session_id)
        verification = Verification(
            run_seal=record.seal,
            commands=tuple(room.command(check_id, command) for check_id, command in commands),
            produced=room.produced(produced, case.service),
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

    def produced(self, paths: Sequence[str], service: ServiceProbe | None = None) -> ProducedCode | None:
        """Real execution of what the run made (R182-R190); None where it made no program and no page."""
        if not any(map(is_startable, paths)):
            return None
        contents = {file.path: file.data for file in self._files}
        executable = {file.path for file in self._files if file.executable}
        start = start_of(self._record.response or "", paths, contents, executable)
        if start is None:
            return ProducedCode(entry_point=None, priority=None, outcome="no_entrypoint")
        if not start.argv:
            return _looked_at(start, contents[start.path])
        if service is not None:
            return self._served(start, service)
        result = self._once("produced", start.argv, CODE_SECONDS)
        if isinstance(result, str):
            return ProducedCode(entry_point=start.path, priority=start.priority, outcome="infra", stderr=result)
        outcome = _outcome(result, start.program)
        if outcome == "nonzero" and _missing_module(result.stderr, contents):
            outcome = "missing_dependency"
        ports: tuple[int, ...] = ()
        if outcome == "timeout" and _MAY_SERVE.search(contents.get(start.path, b"")):
            ports = self._ports(start)
        return ProducedCode(
            entry_point=start.path,
            priority=start.priority,
            outcome="long_running" if ports else outcome,
            exit_code=None if result.timed_out else result.exit_code,
            stdout=_shown(result.stdout),
            stderr=_shown(result.stderr),
            timed_out=result.timed_out,
            ports=ports,
        )

    def _ports(self, start: Start) -> tuple[int, ...]:
        """The ports that a program opens which did not end: then it is a server and did not hang (K18)."""
        found = self._serve(start, {"seconds": LISTEN_SECONDS})
        return () if isinstance(found, str) else tuple(found["ports"])

    def _served(self, start: Start, service: ServiceProbe) -> ProducedCode:
        """A server that the case says what to ask of: started, asked once, stopped."""
        found = self._serve(start, {"seconds": service.seconds, "port": service.port, "path": service.path})
        if isinstance(found, str):
            return ProducedCode(entry_point=start.path, priority=start.priority, outcome="infra", stderr=found)
        problem = _service_problem(found, service)
        return ProducedCode(
            entry_point=start.path,
            priority=start.priority,
            outcome="service_failed" if problem else "service_ok",
            exit_code=found["ended"],
            stdout=_shown(str(found["output"]).encode("utf-8", "replace")),
            stderr=problem,
            ports=tuple(found["ports"]),
        )

    def _serve(self, start: Start, job: dict[str, Any]) -> dict[str, Any] | str:
        """What ``gate.execution.serve`` saw, or why the engine gave no result.

        What it prints comes out of the same container as the program's doings: a program that is written to deceive it
        could. No verdict rests on it but that of a check which the case's author asks for.
        """
        nonce = sha256_hex(f"{self._record.seal}/serve/{start.path}".encode("utf-8", "surrogatepass"))
        job |= {"argv": list(start.argv), "nonce": nonce, "output": "/tmp/program-output"}  # noqa: S108 - in the sandbox
        files = (PutFile(path="serve.py", data=_SERVER.read_bytes()),)
        argv = ("python3", "-I", "-B", "/oracle/serve.py", json.dumps(job))
        result = self._once("service", argv, float(job["seconds"]) + 15, files)
        if isinstance(result, str):
            return result
        lines = result.stdout.decode("utf-8", "replace").splitlines()
        last = next((line for line in reversed(lines) if line.startswith(nonce)), None)
        try:
            found = json.loads(last.removeprefix(nonce)) if last is not None else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            # The program is of one user with what watches it: it killed it, or used up the memory of both.
            end = "it ran out of memory" if result.oom else "what watches it was stopped"
            return {"ports": [], "status": None, "body": "", "error": end, "ended": result.exit_code, "output": ""}
        return found

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


def _looked_at(start: Start, data: bytes) -> ProducedCode:
    missing = missing_html_parts(data.decode("utf-8", "replace"))
    return ProducedCode(
        entry_point=start.path,
        priority=start.priority,
        outcome="html_broken" if missing else "html_ok",
        stderr=f"missing: {', '.join(missing)}" if missing else "",
    )


def _service_problem(found: Mapping[str, Any], service: ServiceProbe) -> str:
    """What is wrong with what a server answered, as a clause; empty where nothing is."""
    if found["status"] is None:
        ended = f"; the program had ended with exit code {found['ended']}" if found["ended"] is not None else ""
        why = f": {found['error']}" if found["error"] else ""
        opened = f" (open: {', '.join(map(str, found['ports']))})" if found["ports"] else ""
        return f"port {service.port} gave no answer within {service.seconds:g} s{opened}{why}{ended}"
    if found["status"] != service.status:
        return f"port {service.port} answered {found['status']}, {service.status} was expected"
    if service.contains not in str(found["body"]):
        return f"the answer of port {service.port} does not hold {service.contains[:200]!r}"
    return ""


def _missing_module(stderr: bytes, contents: Mapping[str, bytes]) -> str | None:
    """The package that a program misses and that none of the files of the workspace is; None where that is not it."""
    text = stderr.decode("utf-8", "replace")
    for pattern in _NO_MODULE:
        found = pattern.search(text)
        if found is not None:
            name = re.split(r"[./]", found[1])[0]
            own = any(name in (path.split("/")[0], path.rsplit("/", 1)[-1].rsplit(".", 1)[0]) for path in contents)
            return None if own else name
    return None


def _outcome(result: OneShotResult, program: str) -> str:
    if result.timed_out:
        return "timeout"
    if result.oom:
        return "oom"
    if result.exit_code == 0:
        return "ok"
    code = result.exit_code or 0
    if code == 137 and result.truncated:
        return "output_flood"
    if code > 128:
        return "signal"
    # bash gives these codes for a command inside the script too: there they are the script's own failure.
    return "missing_runtime" if not program.endswith("bash") and code in (126, 127) and not result.stdout else "nonzero"


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
