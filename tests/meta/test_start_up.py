from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.story import gate_environment, make_repository

HEAVY = ("docker", "openai", "anthropic", "github", "scipy", "numpy", "dbos", "sqlalchemy", "starlette", "jsonschema")


def test_nothing_to_evaluate_loads_no_heavy_library(tmp_path: Path) -> None:
    make_repository(tmp_path / "repository", {"README.md": "text"}, {"notes.txt": "text"})
    program = (
        "import json, sys\n"
        "from gate.wiring import main\n"
        f"code = main(['run', '--repository', {str(tmp_path / 'repository')!r}, '--base', 'main', '--out', {str(tmp_path / 'out')!r}])\n"
        "print(json.dumps([code, sorted(sys.modules)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=gate_environment(), capture_output=True, text=True, check=True, timeout=60
    )
    code, loaded = json.loads(done.stdout)
    assert code == 0
    assert [name for name in HEAVY if name in loaded] == []
