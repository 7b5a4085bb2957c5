"""The commands, one a file. They get the outside world as an ``App`` from ``gate.wiring``."""

from gate.cli.app import App
from gate.cli.main import main

__all__ = ["App", "main"]
