"""Getting an image that a policy names by its digest: whatever the registry answers, these bytes or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gate.adapters.docker_sandbox.engine import Engine, retried, speaking
from gate.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable

_REMEDIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("unauthorized", "denied", "no basic auth"),
        "Log in to its registry first (docker login), or make the image public.",
    ),
    (
        ("toomanyrequests", "rate limit", "429"),
        "The registry limits how often it is asked: log in to it, or try later.",
    ),
    (("no space left",), "Free disk space for the Docker engine (docker system df shows what uses it)."),
    (("manifest unknown", "not found", "does not exist"), "Check the name and the digest in the policy."),
)


def pull(engine: Engine, image: str) -> None:
    """Pull ``name@sha256:…``, again where the engine failed in passing. Raises SandboxError with what the registry said."""
    name, _, digest = image.partition("@")
    with speaking(f"The sandbox image {image} could not be pulled"):
        retried(_pulling(engine, name, digest, image))


def _pulling(engine: Engine, name: str, digest: str, image: str) -> Callable[[], bool]:
    from docker.errors import APIError

    def call() -> bool:
        try:
            for line in engine.api.pull(name, tag=digest, stream=True, decode=True):
                if line.get("error"):
                    raise _refused(image, str(line["error"]))
        except APIError as error:
            if error.status_code is not None and error.status_code >= 500 and not _remedy(str(error)):
                raise
            raise _refused(image, str(error.explanation or error)) from error
        return True

    return call


def _refused(image: str, said: str) -> SandboxError:
    text = " ".join(said.split())[:300]
    return SandboxError(
        f"The sandbox image {image} could not be pulled: {text}", remedy=_remedy(said) or f"Try: docker pull {image}"
    )


def _remedy(said: str) -> str:
    lower = said.lower()
    return next((remedy for words, remedy in _REMEDIES if any(word in lower for word in words)), "")
