"""The look into a fresh sandbox, while the model thinks about its first answer: it costs as much as a command, and nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from gate.domain.sandbox import BoxFacts, Collected, ExecResult, PutFile
from gate.errors import BoxDeadError, SandboxError
from gate.protocols import Box, Channel


class LookedInto:
    """A Box that lets nothing be run in it before somebody has looked, and has found what must be there.

    ``look`` runs at once, in a thread of its own; ``seen`` gets what it returned, in the thread that uses the box and before
    the first command. What the look raises, the first command raises. Use it as a block: no look outlasts it.
    """

    def __init__(self, box: Box, look: Callable[[], dict[str, Any]], seen: Callable[[dict[str, Any]], object]) -> None:
        self._box = box
        self._look = look
        self._seen = seen
        self._found: dict[str, Any] | None = None
        self._error: BaseException | None = None
        self._settled = False
        self._thread = threading.Thread(target=self._run, name="look", daemon=True)

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the end of the look, whatever became of it."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._found = self._look()
        except BaseException as error:  # noqa: BLE001 - raised where the box is used
            self._error = error

    def settle(self) -> None:
        """Wait until it is known that everything is right. Raises what the look raised, once and for all."""
        if self._settled:
            return
        self._thread.join()
        if isinstance(self._error, BoxDeadError):
            # Nobody but the gate has run anything in it.
            raise SandboxError(self._error.message, remedy=self._error.remedy) from self._error
        if self._error is not None:
            raise self._error
        self._settled = True
        self._seen(self._found or {})

    # --- the seam

    def facts(self) -> BoxFacts:
        """See ``gate.protocols.Box``."""
        return self._box.facts()

    def put_skill(self, files: Sequence[PutFile], *, name: str) -> None:
        """See ``gate.protocols.Box``."""
        self.settle()
        self._box.put_skill(files, name=name)

    def put_workspace(self, files: Sequence[PutFile]) -> None:
        """See ``gate.protocols.Box``."""
        self.settle()
        self._box.put_workspace(files)

    def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", output_cap_bytes: int = 262_144
    ) -> ExecResult:
        """See ``gate.protocols.Box``."""
        self.settle()
        return self._box.exec(argv, timeout_s=timeout_s, stdin=stdin, output_cap_bytes=output_cap_bytes)

    def connect(self, argv: Sequence[str]) -> AbstractContextManager[Channel]:
        """See ``gate.protocols.Box``."""
        self.settle()
        return self._box.connect(argv)

    def collect(self, *, max_bytes: int = 20_000_000, max_files: int = 2_000) -> Collected:
        """See ``gate.protocols.Box``."""
        self.settle()
        return self._box.collect(max_bytes=max_bytes, max_files=max_files)
