from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import NotFound

from gate.adapters.docker_sandbox.engine import Engine
from gate.adapters.docker_sandbox.own_image import OwnImageSandbox, own_image
from gate.settings import DEFAULT_IMAGE, OWN_IMAGE

OWN, OTHER = "0a" * 32, "1b" * 32
MOUNTS = f"""\
100 99 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/X
101 100 0:53 / /proc rw - proc proc rw
102 100 8:1 /home/runner/work/_temp /github/runner_temp rw - ext4 /dev/sda1 rw
103 100 8:1 /var/lib/docker/containers/{OWN}/resolv.conf /etc/resolv.conf rw - ext4 /dev/sda1 rw
104 100 8:1 /var/lib/docker/containers/{OWN}/hostname /etc/hostname rw - ext4 /dev/sda1 rw
"""


class Containers:
    """An engine of containers: id -> image id."""

    def __init__(self, images: dict[str, str]) -> None:
        self.images = images
        self.api = self

    def inspect_container(self, name: str) -> dict[str, Any]:
        for container, image in self.images.items():
            if container.startswith(name):
                return {"Id": container, "Image": image}
        raise NotFound("no such container")


def image_in(tmp_path: Path, mounts: str | None, images: dict[str, str]) -> str | None:
    place = tmp_path / "mountinfo"
    if mounts is not None:
        place.write_text(mounts)
    return own_image(Containers(images), mounts=place)  # type: ignore[arg-type]


def test_the_container_is_found_by_what_the_engine_mounts_into_it(tmp_path: Path) -> None:
    assert image_in(tmp_path, MOUNTS, {OTHER: "sha256:other", OWN: "sha256:own"}) == "sha256:own"


def test_a_folder_of_the_workspace_that_looks_like_a_container_is_none(tmp_path: Path) -> None:
    planted = f"105 100 8:1 /work/containers/{OTHER}/hostname /github/workspace rw - ext4 /dev/sda1 rw\n"
    assert image_in(tmp_path, planted + MOUNTS, {OTHER: "sha256:other", OWN: "sha256:own"}) == "sha256:own"


def test_where_mounts_do_not_tell_the_host_name_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: OWN[:12])
    assert image_in(tmp_path, None, {OWN: "sha256:own"}) == "sha256:own"


@pytest.mark.parametrize("name", ["runner-7", "0a0a0a0a0a0"])
def test_in_no_container_there_is_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    assert image_in(tmp_path, "100 99 0:50 / / rw - overlay overlay rw\n", {OWN: "sha256:own"}) is None


def test_a_container_of_another_engine_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert image_in(tmp_path, MOUNTS, {OTHER: "sha256:other"}) is None


@pytest.mark.docker
def test_a_real_container_finds_its_own_image(engine: docker.DockerClient, tmp_path: Path) -> None:
    container = engine.containers.create(DEFAULT_IMAGE, ["cat", "/proc/self/mountinfo"], network_mode="none")
    try:
        container.start()
        container.wait(timeout=60)
        place = tmp_path / "mountinfo"
        place.write_bytes(container.logs())
        found = own_image(Engine(), mounts=place)
    finally:
        container.remove(force=True)
    assert found == engine.images.get(DEFAULT_IMAGE).id


@pytest.mark.docker
def test_outside_of_any_container_the_default_image_is_meant(
    engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gate.adapters.docker_sandbox.own_image.own_image", lambda engine: None)
    assert OwnImageSandbox().resolve_image(OWN_IMAGE) == engine.images.get(DEFAULT_IMAGE).id
