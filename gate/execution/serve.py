"""Starts a program that may be a server, looks which ports it opens, asks one of them once, and ends it.

Run as a script in a sandbox of its own; it imports nothing of the gate. Its argument is a JSON job: ``argv``, ``seconds``,
``nonce``, ``output`` (a file), and maybe ``port`` and ``path``. The last line that it prints is the nonce and a JSON object:
``ports`` (that were open), ``status`` and ``body`` of the answer (or null and empty), ``error``, ``ended`` (the program's exit
code, null while it ran) and ``output`` (the end of what it printed).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

KEPT = 20_000
LISTEN = "0A"


def open_ports(folder: str = "/proc/net") -> list[int]:
    """TCP ports that somebody listens on."""
    found: set[int] = set()
    for name in ("tcp", "tcp6"):
        try:
            rows = [line.split() for line in Path(folder, name).read_text("ascii").splitlines()][1:]
        except OSError:
            continue
        found.update(int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == LISTEN)
    return sorted(found)


def ask(port: int, path: str) -> tuple[int | None, str, str]:
    """(status, body, what went wrong) of one request."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read(KEPT).decode("utf-8", "replace"), ""
    except urllib.error.HTTPError as error:
        return error.code, error.read(KEPT).decode("utf-8", "replace"), ""
    except (OSError, ValueError) as error:
        return None, "", str(error)


def main() -> None:
    """One job."""
    job = json.loads(sys.argv[1])
    found: dict[str, Any] = {"ports": [], "status": None, "body": "", "error": "", "ended": None, "output": ""}
    with Path(job["output"]).open("wb+") as output:
        program = None
        try:
            program = subprocess.Popen(
                job["argv"], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            found["error"], found["ended"] = str(error), 127
        end = time.monotonic() + job["seconds"]
        while program is not None and time.monotonic() < end and program.poll() is None:
            found["ports"] = open_ports()
            if job.get("port") in found["ports"]:
                found["status"], found["body"], found["error"] = ask(job["port"], job.get("path") or "/")
                if found["status"] is not None:
                    break
            elif found["ports"] and not job.get("port"):
                break
            time.sleep(0.1)
        if program is not None:
            found["ended"] = program.poll()
            if found["ended"] is None:
                os.killpg(program.pid, signal.SIGKILL)
        output.seek(0, os.SEEK_END)
        output.seek(max(0, output.tell() - KEPT))
        found["output"] = output.read().decode("utf-8", "replace")
    sys.stdout.write(f"\n{job['nonce']}{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
