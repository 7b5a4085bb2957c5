"""The image of the container that the gate itself runs in: in the Action, sandboxes are made from the same image.

The runner builds or pulls the Action's image under a name that it does not tell, so the container is asked for it.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate.adapters.docker_sandbox.engine import Engine, speaking
from gate.adapters.docker_sandbox.sandbox import DockerSandbox
from gate.settings import DEFAULT_IMAGE, OWN_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNTS = Path("/proc/self/mountinfo")
_IN_MOUNTS = re.compile(r"/containers/([0-9a-f]{64})/(hostname|hosts|resolv\.conf) /etc/\2 ")
_SHORT_ID = re.compile(r"[0-9a-f]{12}")


def own_image(engine: Engine, *, mounts: Path = MOUNTS) -> str | None:
    """The id (``sha256:…``) of the image of this process's container; None where it is in none of this engine's.

    The container is found by the files that an engine mounts into every container from that container's own folder, else
    by the host name, which an engine makes of the id. Raises SandboxError where the engine does not answer.
    """
    from docker.errors import NotFound

    for container in _candidates(mounts):
        with speaking("The Docker engine does not say which image this container is made from"):
            try:
                seen: dict[str, Any] = engine.api.inspect_container(container)
            except NotFound:
                continue
        if str(seen["Id"]).startswith(container):  # a name may look like an id
            return str(seen["Image"])
    return None


def _candidates(mounts: Path) -> Iterator[str]:
    try:
        text = mounts.read_text(encoding="utf-8", errors="replace")
        found = [match[1] for match in _IN_MOUNTS.finditer(text)]
    except OSError:
        found = []
    yield from dict.fromkeys(found)
    name = socket.gethostname()
    if _SHORT_ID.fullmatch(name):
        yield name


class OwnImageSandbox(DockerSandbox):
    """A DockerSandbox that knows one name more: ``OWN_IMAGE``."""

    def resolve_image(self, image: str) -> str:
        """As DockerSandbox; ``OWN_IMAGE`` outside of any container means ``DEFAULT_IMAGE``."""
        if image == OWN_IMAGE:
            self.facts()
            image = own_image(self._engine) or DEFAULT_IMAGE
        return super().resolve_image(image)
