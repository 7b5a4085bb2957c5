"""Boxes on a real engine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.domain.sandbox import BoxSpec
from gate.protocols import Box

IMAGE = "skill-gate-sandbox:dev"
OpenBox = Callable[..., AbstractContextManager[Box]]


@pytest.fixture(scope="session")
def real_sandbox() -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox()
    yield sandbox
    sandbox.close()


@pytest.fixture
def session_id() -> str:
    return f"docker-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def open_box(real_sandbox: DockerSandbox, session_id: str) -> OpenBox:
    """Opens a box with the given limits."""

    def opener(**limits: float) -> AbstractContextManager[Box]:
        made = {"session_id": session_id, "label": "skill/eval-1/run-1/with_skill", "image": IMAGE, **limits}
        return real_sandbox.open(BoxSpec.model_validate(made))

    return opener
