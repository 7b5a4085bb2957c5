"""Does a sandbox hold? Asked from inside, on the machine at hand: a few of the attempts that the isolation tests make.

Nothing but a shell is needed in the image. What cannot be seen counts as not held.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from gate.domain.sandbox import BoxSpec, Examined, PutFile
from gate.errors import SandboxError
from gate.protocols import Box, Sandbox

GIBIBYTE = 1 << 30
_THE_GATES_OWN = ("ANTHROPIC", "OPENAI", "GITHUB_", "GH_", "ACTIONS_", "INPUT_", "SKILL_GATE_", "DOCKER_")
"""How variables begin that nobody but the gate has. What an image sets itself (GPG_KEY and the like) is part of the image."""

# One line a fact: its name, a tab, what was seen. The marker proves where it ran.
_LOOK = r"""
say() { printf '%s\t%s\n' "$1" "$(printf '%s' "$2" | tr '\n\t' '  ')"; }
first() { for f in "$@"; do if [ -r "$f" ]; then cat "$f"; return; fi; done; }
wrote() { if (echo probe > "$1") 2>/dev/null; then rm -f "$1"; echo yes; else echo no; fi; }
say marker "$(cat /work/marker)"
say interfaces "$(ls /sys/class/net 2>/dev/null || sed -n 's/^ *\([^:]*\):.*/\1/p' /proc/net/dev)"
say routes "$(sed 1d /proc/net/route)"
for name in Uid CapEff CapBnd NoNewPrivs Seccomp; do say "$name" "$(sed -n "s/^$name:[[:space:]]*//p" /proc/self/status)"; done
say etc "$(wrote /etc/probe)"
say root "$(wrote /probe)"
say usr "$(wrote /usr/probe)"
say skills "$(wrote /skills/probe)"
say work "$(wrote /work/probe)"
say keeper "$( (cat /proc/1/environ >/dev/null) 2>/dev/null && echo yes || echo no)"
say names "$(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p')"
say socket "$(ls /var/run/docker.sock /run/docker.sock 2>/dev/null)"
say memory "$(first /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes)"
say pids "$(first /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max)"
say room "$(df -P -k /work | sed 1d)"
say disk "$(df -P -k / | sed 1d)"
"""
_LINGER = 'setsid sh -c "sleep 4242" & sleep 60'
_LINGERS = "grep -l '[s]leep.4242' /proc/[0-9]*/cmdline 2>/dev/null | sed 1q"


def examine_sandbox(sandbox: Sandbox, image: str, *, session_id: str) -> tuple[Examined, ...]:
    """Open one sandbox of an image and look from inside whether it holds. Never raises SandboxError."""
    weaker = sandbox.facts().weaker
    try:
        with sandbox.open(BoxSpec(session_id=session_id, label="doctor", image=image)) as box:
            seen = _look(box)
            return (*_judged(seen, weaker=weaker), _ended(box), _collected(box))
    except SandboxError as error:
        return (Examined(name="sandbox", state="failure", text=error.message, remedy=error.remedy),)


def _look(box: Box) -> dict[str, str]:
    marker = secrets.token_hex(8)
    box.put_workspace([PutFile(path="marker", data=marker.encode())])
    result = box.exec(["sh", "-c", _LOOK], timeout_s=30)
    lines = result.stdout.decode("utf-8", "replace").splitlines()
    seen = {name: value.strip() for name, _, value in (line.partition("\t") for line in lines)}
    if seen.get("marker") != marker:
        raise SandboxError("What was asked inside the sandbox was not answered from there.", remedy="Check the image.")
    return seen


def _judged(seen: Mapping[str, str], *, weaker: bool) -> list[Examined]:
    names = sorted(set(seen.get("names", "").split()))
    facts: list[tuple[str, bool, str]] = [
        ("no network", seen.get("interfaces") == "lo" and not seen.get("routes"), f"interfaces: {seen.get('interfaces')}"),
        ("no way to the engine", not seen.get("socket"), "there is no socket of an engine"),
        ("no privilege", _zero(seen, "CapEff") and _zero(seen, "CapBnd") and seen.get("NoNewPrivs") == "1",
         f"user {seen.get('Uid', '?').partition(' ')[0]}, capabilities {seen.get('CapBnd')}"),
        ("system read-only", [seen.get(name) for name in ("etc", "root", "usr")] == ["no"] * 3, "/, /etc and /usr"),
        ("skill read-only", seen.get("skills") == "no", "/skills"),
        ("workspace writable", seen.get("work") == "yes", "/work"),
        ("no key inside", bool(names) and not any(name.startswith(_THE_GATES_OWN) for name in names), f"variables: {' '.join(names)}"),
    ]  # fmt: skip
    of_engines: list[tuple[str, bool, str]] = [
        ("system calls filtered", seen.get("Seccomp") == "2", f"seccomp mode {seen.get('Seccomp')}"),
        ("keeper out of reach", seen.get("keeper") == "no", "another user's"),
        ("memory limited", _number(seen.get("memory")) < 1 << 50, f"{_number(seen.get('memory')) >> 20} MiB"),
        ("processes limited", _number(seen.get("pids")) < 1 << 22, str(seen.get("pids"))),
        ("workspace limited", _kilobytes(seen.get("room"), 1) * 1024 <= GIBIBYTE, f"{_kilobytes(seen.get('room'), 1) >> 10} MiB"),
    ]  # fmt: skip
    found = [_fact(name, held, text) for name, held, text in facts]
    if not weaker:
        found += [_fact(name, held, text) for name, held, text in of_engines]
    free = _kilobytes(seen.get("disk"), 3) * 1024
    if free < 2 * GIBIBYTE:
        text = f"{free / GIBIBYTE:.1f} GiB are free where the engine keeps its data."
        remedy = "Free some: docker system df shows what uses it, docker image prune removes what no container needs."
        found.append(Examined(name="disk", state="warning", text=text, remedy=remedy))
    else:
        found.append(Examined(name="disk", state="ok", text=f"{free / GIBIBYTE:.0f} GiB free"))
    return found


def _fact(name: str, held: bool, text: str) -> Examined:
    if held:
        return Examined(name=name, state="ok", text=text)
    return Examined(
        name=name,
        state="failure",
        text=f"does not hold: {text}",
        remedy="Do not run skills on this engine before that is mended; compare its settings with a fresh Docker installation.",
    )


def _ended(box: Box) -> Examined:
    result = box.exec(["sh", "-c", _LINGER], timeout_s=1)
    left = box.exec(["sh", "-c", _LINGERS], timeout_s=20).stdout.strip()
    held = result.timed_out and not left
    return _fact("time-out ends everything", held, "a process that left its group is gone")


def _collected(box: Box) -> Examined:
    box.exec(["sh", "-c", "echo made > /work/made"], timeout_s=20)
    files = {file.path: file.data for file in box.collect().files}
    return _fact("files come out", files.get("made") == b"made\n", "what was written was collected")


def _zero(seen: Mapping[str, str], name: str) -> bool:
    return seen.get(name, "").strip("0") == "" and bool(seen.get(name))


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 1 << 62


def _kilobytes(line: str | None, column: int) -> int:
    words = (line or "").split()
    return int(words[column]) if len(words) > column and words[column].isdigit() else 0
