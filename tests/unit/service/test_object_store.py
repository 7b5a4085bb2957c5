from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pydantic import SecretStr

from gate.adapters.object_store import S3Objects
from gate.errors import ConfigurationError, EvidenceError, InfrastructureError
from gate.service.bundles import BundleStore, FolderBundles
from gate.service.object_bundles import ObjectBundles

KEY, SECRET = SecretStr("an-access-key"), SecretStr("a-secret-key")
_numbers = count()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def client(endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEY.get_secret_value(),
        aws_secret_access_key=SECRET.get_secret_value(),
    )


@pytest.fixture
def bucket(client: Any) -> str:
    name = f"bundles-{next(_numbers)}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def objects(endpoint: str, bucket: str) -> S3Objects:
    return _objects(endpoint, bucket)


def _objects(endpoint: str, bucket: str) -> S3Objects:
    return S3Objects(f"s3://{bucket}/gate/team", endpoint=endpoint, access_key=KEY, secret_key=SECRET, page=3)


@pytest.fixture(params=["folder", "objects"])
def bundles(request: pytest.FixtureRequest, tmp_path: Path) -> BundleStore:
    if request.param == "folder":
        return FolderBundles(tmp_path / "bundles")
    return ObjectBundles(request.getfixturevalue("objects"))


def test_what_is_kept_is_given_back_in_pieces_and_once_removed_is_gone(bundles: BundleStore) -> None:
    content = [b"a" * 700_000, b"", b"b" * 1_500_000]
    kept = bundles.put("job-1", iter(content))
    assert kept == (hashlib.sha256(b"".join(content)).hexdigest(), 2_200_000)
    pieces = list(bundles.get("job-1"))
    assert b"".join(pieces) == b"".join(content)
    assert max(map(len, pieces)) <= 1 << 20
    bundles.put("job-1", [b"later"])
    assert b"".join(bundles.get("job-1")) == b"later"
    bundles.remove("job-1")
    bundles.remove("job-1")
    with pytest.raises(LookupError):
        bundles.get("job-1")


@pytest.mark.parametrize("key", ["", "../x", "a/b", "A", "é", "x" * 101, ".hidden"])
def test_a_key_that_is_none_reaches_nothing(bundles: BundleStore, key: str) -> None:
    with pytest.raises(LookupError):
        bundles.get(key)
    with pytest.raises(LookupError):
        bundles.put(key, [b"x"])
    with pytest.raises(LookupError):
        bundles.remove(key)


def test_nothing_is_kept_of_a_bundle_that_breaks_off(bundles: BundleStore) -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        bundles.put("job-1", broken())
    with pytest.raises(LookupError):
        bundles.get("job-1")


def test_an_object_that_somebody_exchanged_is_noticed_at_its_end(client: Any, bucket: str, objects: S3Objects) -> None:
    bundles = ObjectBundles(objects)
    kept = bundles.put("job-1", [b"right"])
    for metadata in ({}, {"sha256": kept.sha256}):
        client.put_object(Bucket=bucket, Key="gate/team/job-1.bundle", Body=b"wrong", Metadata=metadata)
        with pytest.raises(EvidenceError, match="not what was put there"):
            list(bundles.get("job-1"))


def test_every_page_is_listed_and_what_nobody_knows_is_swept(client: Any, bucket: str, objects: S3Objects) -> None:
    bundles = ObjectBundles(objects)
    client.put_object(Bucket=bucket, Key="elsewhere/job-9.bundle", Body=b"x")
    client.put_object(Bucket=bucket, Key="gate/team/notes.txt", Body=b"x")
    names = [f"job-{number}" for number in range(8)]
    for name in names:
        client.put_object(Bucket=bucket, Key=f"gate/team/{name}.bundle", Body=b"")
    assert sorted(objects.names()) == [*(f"{name}.bundle" for name in names), "notes.txt"]
    assert bundles.sweep(set(names[2:])) == names[:2]
    assert len(list(objects.names())) == 7


def test_a_store_that_refuses_or_is_not_there_is_infrastructure(endpoint: str, bucket: str) -> None:
    for objects in (_objects(endpoint, f"{bucket}-no-such"), _objects("http://127.0.0.1:9", bucket)):
        with pytest.raises(InfrastructureError) as error:
            objects.put("x", [b"x"])
        assert SECRET.get_secret_value() not in str(error.value)
        with pytest.raises(InfrastructureError):
            list(objects.names())


@pytest.mark.parametrize("address", ["", "bucket", "https://bucket", "s3://", "s3://UPPER", "s3://a/b?c", "s3://a b"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError):
        S3Objects(address)


def test_one_key_without_the_other_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="Only one"):
        S3Objects("s3://bucket", access_key=KEY)
