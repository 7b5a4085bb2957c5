"""Sandboxes on a Docker engine. ``DockerSandbox`` is the adapter; the client library is imported when it is first used."""

from gate.adapters.docker_sandbox.sandbox import DockerSandbox

__all__ = ["DockerSandbox"]
