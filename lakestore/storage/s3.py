"""S3, and what speaks like it, through s3fs. Owns how each request is made and how it failed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from lakestore.errors import InputError, UnsupportedStoreError
from lakestore.storage.bucket import BucketStore, Page
from lakestore.storage.client import Client
from lakestore.storage.failures import Failure
from lakestore.storage.places import Place
from lakestore.storage.store import PAGE, StoredObject
from lakestore.storage.uploads import Upload

_CONNECTIONS = 64
_PARTIAL = 206

_OF_A_PART = ("ETag", "ChecksumCRC32", "ChecksumCRC32C", "ChecksumCRC64NVME")

# What botocore raises before anything is on its way.
_NOT_SENT = (
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ProxyConnectionError",
    "SSLError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "CredentialRetrievalError",
    "NoAuthTokenError",
    "UnauthorizedSSOTokenError",
    "SSOTokenLoadError",
    "TokenRetrievalError",
)


class S3Store(BucketStore):
    """Objects in a bucket that speaks S3."""

    def __init__(self, place: Place, options: Mapping[str, Any]) -> None:
        super().__init__(place)
        settings = _settings(options)
        self._client = Client(lambda: _filesystem(settings), _end, _forget)

    @override
    def _put(self, name: str, body: bytes) -> None:
        self._request("put_object", Key=name, Body=body, IfNoneMatch="*")

    @override
    def _upload(self, name: str, content_type: str) -> Upload:
        return _Upload(self, name, content_type)

    @override
    def _sign(self, name: str, seconds: int) -> str:
        async def sign(fs: Any) -> str:
            if fs.anon:
                raise InputError("without credentials (anon) there is nothing to sign with")
            signed: str = await fs.s3.generate_presigned_url(
                "get_object",
                Params={"Bucket": self._bucket, "Key": name, **fs.req_kw},
                ExpiresIn=seconds,
            )
            return signed

        return self._client.run(sign)

    @override
    def _get(self, name: str, first: int, last: int | None) -> bytes:
        asked = {} if last is None else {"Range": f"bytes={first}-{last}"}

        async def get(fs: Any) -> bytes:
            reply = await self._call(fs, "get_object", Key=name, **asked)
            try:
                content: bytes = await reply["Body"].read()
            finally:
                reply["Body"].close()
            if last is not None and reply["ResponseMetadata"]["HTTPStatusCode"] != _PARTIAL:
                return content[first : last + 1]  # the server takes no ranges
            return content

        return self._client.run(get)

    @override
    def _size(self, name: str) -> int:
        return int(self._request("head_object", Key=name)["ContentLength"])

    @override
    def _page(self, prefix: str, start: str, token: str) -> Page:
        asked: dict[str, Any] = {"Prefix": prefix, "MaxKeys": PAGE}
        if token:
            asked["ContinuationToken"] = token
        elif start:
            asked["StartAfter"] = start

        async def page(fs: Any) -> Page:
            reply = await self._call(fs, "list_objects_v2", **asked)
            found = [
                StoredObject(each["Key"], each["Size"], each["LastModified"].timestamp())
                for each in reply.get("Contents", ())
            ]
            more = reply.get("NextContinuationToken", "") if reply.get("IsTruncated") else ""
            return Page(found, more)

        return self._client.run(page)

    @override
    def _remove(self, name: str) -> None:
        self._request("delete_object", Key=name)

    def _request(self, method: str, **asked: Any) -> Any:
        return self._client.run(lambda fs: self._call(fs, method, **asked))

    async def _call(self, fs: Any, method: str, **asked: Any) -> Any:
        # Older releases of s3fs leave it to the caller to say that the requester pays.
        return await fs._call_s3(method, fs.req_kw, Bucket=self._bucket, **asked)

    @override
    def _failure(self, error: Exception) -> Failure:
        met = error
        # s3fs raises an error of its own from the client's, and says less.
        while not hasattr(met, "response") and isinstance(met.__cause__, Exception):
            met = met.__cause__
        answer = getattr(met, "response", None)
        if isinstance(answer, dict):
            status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return Failure(str(answer.get("Error", {}).get("Code", status)), int(status))
        name = type(met).__name__
        return Failure(name, sent=name not in _NOT_SENT)

    @override
    def close(self) -> None:
        self._client.close()


class _Upload(Upload):
    """A PUT, or the parts of a multipart upload."""

    def __init__(self, store: S3Store, name: str, content_type: str) -> None:
        self._store = store
        self._name = name
        self._content_type = content_type
        self._id = ""
        self._sent: list[dict[str, Any]] = []

    @override
    def whole(self, body: bytes) -> None:
        self._ask("put_object", Body=body, IfNoneMatch="*", ContentType=self._content_type)

    @override
    def begin(self) -> None:
        self._id = self._ask("create_multipart_upload", ContentType=self._content_type)["UploadId"]

    @override
    def add(self, part: bytes) -> None:
        number = len(self._sent) + 1
        reply = self._ask("upload_part", UploadId=self._id, PartNumber=number, Body=part)
        # Where botocore adds checksums of parts, the end of the upload must name them.
        told = {name: reply[name] for name in reply if name in _OF_A_PART}
        self._sent.append({"PartNumber": number, **told})

    @override
    def finish(self) -> None:
        sent = {"Parts": self._sent}
        self._ask("complete_multipart_upload", UploadId=self._id, MultipartUpload=sent)

    @override
    def abort(self) -> None:
        if self._id:
            self._ask("abort_multipart_upload", UploadId=self._id)

    def _ask(self, method: str, **asked: Any) -> Any:
        return self._store._request(method, Key=self._name, **asked)


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what s3fs is made with: the caller's options, and what a lake needs besides."""
    settings = dict(options)
    client = dict(settings.pop("client_kwargs", {}))
    region = settings.pop("region", None)
    if region:
        client["region_name"] = region
    # Signed addresses would else have the old signature, which new buckets refuse.
    config = {"max_pool_connections": _CONNECTIONS, "signature_version": "s3v4"}
    config |= settings.pop("config_kwargs", {})
    # Ours are the only retries, so that what is counted is what was sent.
    config["retries"] = {"total_max_attempts": 1, "mode": "standard"}
    return {
        **settings,
        "client_kwargs": client,
        "config_kwargs": config,
        "use_listings_cache": False,
        "skip_instance_cache": True,
    }


def _filesystem(settings: Mapping[str, Any]) -> Any:
    """Return a file system that is connected, which asks no server for anything.

    Raises:
        UnsupportedStoreError: botocore is so old that s3fs would leave the condition of a PUT out
            without a word.
    """
    import s3fs

    known = _session_key(settings)
    filesystem = s3fs.S3FileSystem(session=_sessions.get(known), **settings)
    filesystem.retries = 1
    filesystem.connect()
    if known is not None:
        _sessions[known] = filesystem.session
    shape = filesystem.s3.meta.service_model.operation_model("PutObject").input_shape
    if "IfNoneMatch" not in shape.members:
        raise UnsupportedStoreError(
            "botocore is too old to create exclusively: upgrade aiobotocore"
        )
    for method in ("PutObject", "UploadPart"):
        filesystem.s3.meta.events.register(f"before-sign.s3.{method}", _send_at_once)
    return filesystem


def _send_at_once(request: Any, **_event: object) -> None:
    """Leave out `Expect: 100-continue`, which makes each write wait for one more round trip."""
    del request.headers["Expect"]


_sessions: dict[object, Any] = {}
"""Sessions of botocore, which takes longer to read its own models than a request takes."""


def _session_key(settings: Mapping[str, Any]) -> object:
    """Return what a session depends on, None where it looks for credentials by itself.

    Those may have been renewed since, in a file that it has read already.
    """
    if not (settings.get("key") and settings.get("secret")):
        return None
    environment = tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith("AWS_")))
    return settings.get("profile"), environment


async def _end(fs: Any) -> None:
    await fs.s3.close()


def _forget(fs: Any) -> None:
    """Leave a parent's connections alone: s3fs ends none that are not on a running loop."""
