"""An image that the policy names by its digest comes from its registry: a small one, on this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from gate.adapters.docker_sandbox import DockerSandbox
from gate.errors import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """Serves one image of one file, or answers every manifest with an error."""

    def __init__(self) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            data = uuid.uuid4().hex.encode()
            info = tarfile.TarInfo("file")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        layer = gzip.compress(buffer.getvalue(), mtime=0)
        config = json.dumps(
            {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [digest(buffer.getvalue())]}}
        ).encode()  # fmt: skip
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest(config)},
                "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(layer), "digest": digest(layer)}],
            }
        ).encode()  # fmt: skip
        self.blobs = {digest(config): config, digest(layer): layer}
        self.refusal: tuple[int, str] | None = None
        self.refusals_left = 0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind = "application/json"
                status, body = 200, b"{}"
                if "/manifests/" in self.path and registry.refusal and registry.refusals_left:
                    registry.refusals_left -= 1
                    status, code = registry.refusal
                    body = json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode()
                elif self.path.endswith(f"/manifests/{digest(registry.manifest)}"):
                    kind, body = MANIFEST, registry.manifest
                elif "/manifests/" in self.path:
                    status, body = 404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
                elif "/blobs/" in self.path:
                    kind, body = "application/octet-stream", registry.blobs[self.path.rpartition("/")[2]]
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def image(self) -> str:
        return f"127.0.0.1:{self.server.server_port}/tools@{digest(self.manifest)}"


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def fresh() -> Iterator[DockerSandbox]:
    sandbox = DockerSandbox()
    yield sandbox
    sandbox.close()


def test_an_image_named_by_its_digest_is_pulled_once(
    engine: DockerClient, registry: Registry, fresh: DockerSandbox
) -> None:
    image_id = fresh.resolve_image(registry.image)
    try:
        assert image_id == json.loads(registry.manifest)["config"]["digest"]
        registry.refusal, registry.refusals_left = (500, "UNKNOWN"), 99
        assert DockerSandbox().resolve_image(registry.image) == image_id, "it is there now"
    finally:
        engine.api.remove_image(registry.image, force=True)


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        ((404, "MANIFEST_UNKNOWN"), "Check the name and the digest"),
        ((403, "DENIED"), "docker login"),
        ((429, "TOOMANYREQUESTS"), "limits how often"),
    ],
)
def test_what_a_registry_refuses_is_said_with_what_to_do(
    registry: Registry, fresh: DockerSandbox, refusal: tuple[int, str], remedy: str
) -> None:
    registry.refusal, registry.refusals_left = refusal, 99

    with pytest.raises(SandboxError, match="could not be pulled") as caught:
        fresh.resolve_image(registry.image)
    assert remedy in caught.value.remedy


def test_an_image_named_by_a_tag_is_never_pulled(registry: Registry, fresh: DockerSandbox) -> None:
    with pytest.raises(SandboxError, match="is not on the Docker engine"):
        fresh.resolve_image(f"127.0.0.1:{registry.server.server_port}/tools:latest")
