"""Objects in an S3-compatible store, by boto3 (the extra ``s3``). Read and written whole; nothing here knows what they are."""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gate.adapters.model_calls import plain
from gate.errors import ConfigurationError, InfrastructureError
from gate.protocols import ObjectFacts

if TYPE_CHECKING:
    from pydantic import SecretStr

_ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9!_.*'()/-]{0,500}))?")
_CHUNK = 1 << 20
_IN_MEMORY = 16 * _CHUNK
_DIGEST = "sha256"
"""Name of the metadata that holds an object's own digest."""


class S3Objects:
    """``gate.protocols.Objects`` in one bucket, below a prefix. Thread-safe."""

    def __init__(
        self,
        address: str,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        access_key: SecretStr | None = None,
        secret_key: SecretStr | None = None,
        page: int = 1000,
    ) -> None:
        """Nothing is asked yet. ``page``: keys that are listed at a time.

        ``address``: ``s3://bucket/prefix``. ``endpoint``: of another store than Amazon's. Without keys boto3 looks where it
        always does (the machine's role, its own variables). Raises ConfigurationError for an address that is none, and
        where boto3 is not installed.
        """
        found = _ADDRESS.fullmatch(address)
        if found is None:
            raise ConfigurationError(
                f"The object store is {plain(address)!r}; s3://bucket or s3://bucket/prefix was expected."
            )
        if (access_key is None) != (secret_key is None):
            raise ConfigurationError(
                "Only one of the two keys of the object store is set.",
                remedy="Set SKILL_GATE_S3_ACCESS_KEY and SKILL_GATE_S3_SECRET_KEY, or neither.",
            )
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise ConfigurationError(
                "Bundles in an object store need boto3.", remedy="Install it with: pip install boto3"
            ) from None
        self._page = page
        self._bucket, prefix = found[1], (found[2] or "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        settings = Config(
            connect_timeout=5,
            read_timeout=60,
            retries={"mode": "standard", "max_attempts": 4},
            # Other stores than Amazon's seldom have a name for each bucket.
            s3={"addressing_style": "path"} if endpoint else {},
        )
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=region or ("us-east-1" if endpoint else None),
            aws_access_key_id=access_key.get_secret_value() if access_key else None,
            aws_secret_access_key=secret_key.get_secret_value() if secret_key else None,
            config=settings,
        )

    def put(self, key: str, content: Iterable[bytes]) -> ObjectFacts:
        """See Objects. The store checks the digest itself before it keeps anything."""
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            digest, size = hashlib.sha256(), 0
            for piece in content:
                digest.update(piece)
                size += len(piece)
                file.write(piece)
            file.seek(0)
            with self._asked("kept", key):
                self._client.put_object(
                    Bucket=self._bucket,
                    Key=self._prefix + key,
                    Body=file,
                    ContentLength=size,
                    ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
                    Metadata={_DIGEST: digest.hexdigest()},
                    ContentType="application/octet-stream",
                )
        return ObjectFacts(key=key, sha256=digest.hexdigest(), size=size)

    def get(self, key: str) -> tuple[ObjectFacts, Iterator[bytes]]:
        """See Objects."""
        with self._asked("read", key):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
        facts = ObjectFacts(key=key, sha256=str(answer["Metadata"].get(_DIGEST, "")), size=int(answer["ContentLength"]))
        return facts, self._pieces(key, answer["Body"])

    def _pieces(self, key: str, body: Any) -> Iterator[bytes]:
        try:
            while True:
                with self._asked("read", key):
                    piece = body.read(_CHUNK)
                if not piece:
                    return
                yield piece
        finally:
            body.close()

    def remove(self, key: str) -> None:
        """See Objects."""
        with self._asked("removed", key):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def names(self) -> Iterator[str]:
        """See Objects. All pages."""
        token: dict[str, str] = {}
        while True:
            with self._asked("listed", ""):
                page = self._client.list_objects_v2(
                    Bucket=self._bucket, Prefix=self._prefix, MaxKeys=self._page, **token
                )
            for entry in page.get("Contents", ()):
                yield str(entry["Key"]).removeprefix(self._prefix)
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    @contextmanager
    def _asked(self, what: str, key: str) -> Iterator[None]:
        """Raises LookupError for an object that is not there, InfrastructureError for everything else."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in ("NoSuchKey", "404", "NotFound"):
                raise LookupError(key) from None
            raise InfrastructureError(
                f"The object store {self._bucket} answered {plain(code)}: {plain(key) or 'its list'} could not be {what}.",
                remedy="Check the bucket, its keys and what they may do: get, put, delete, list.",
            ) from None
        except (BotoCoreError, OSError) as error:
            raise InfrastructureError(
                f"The object store {self._bucket} was not reached: {plain(str(error))}.",
                remedy="Check its address, and that it is there.",
            ) from None
