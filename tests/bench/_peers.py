"""Other tools to measure beside this one, each version as it is published, in a folder of its own under .cache.

They are never needed: where they cannot be installed a bench says so and shows its own figures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "peers"


def peer_python(name: str, *requirements: str) -> Path | str:
    """The interpreter of an environment that holds a peer, or why there is none."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    done = folder / "installed"
    if done.is_file() and done.read_text("utf-8").split() == sorted(requirements):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, timeout=120)
        subprocess.run(
            [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *requirements],
            check=True, capture_output=True, timeout=300, env={**os.environ, "PIP_REQUIRE_VIRTUALENV": "1"},
        )  # fmt: skip
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        return f"{name} cannot be installed here ({type(error).__name__})"
    done.write_text("\n".join(sorted(requirements)), "utf-8")
    return python
