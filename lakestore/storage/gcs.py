"""Google Cloud Storage through gcsfs. Owns how each request is made and how it failed.

Requests go through the session and the credentials of gcsfs, not through its calls: those send
again by themselves, and hide which status a refusal had.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from typing_extensions import override

from lakestore.clock import NewToken, new_token
from lakestore.errors import InputError
from lakestore.storage.bucket import BucketStore, Page
from lakestore.storage.client import Client, keep_for_good
from lakestore.storage.failures import Failure
from lakestore.storage.places import Place
from lakestore.storage.store import PAGE, StoredObject
from lakestore.storage.uploads import Upload

_PARTIAL = 206
_NOT_THERE = 404
_GO_ON = 308
_GONE = (404, 410)
_ABORTED = 499
_JSON = "application/json; charset=UTF-8"
_FIELDS = "items(name,size,timeCreated),nextPageToken"
_EMULATOR = "STORAGE_EMULATOR_HOST"

# What aiohttp and google-auth raise before anything is on its way.
_NOT_SENT = (
    "ClientConnectorError",
    "ClientConnectorDNSError",
    "ClientConnectorSSLError",
    "ClientConnectorCertificateError",
    "ClientProxyConnectionError",
    "ConnectionTimeoutError",
    "DefaultCredentialsError",
    "RefreshError",
    "TransportError",
)


class _RefusedError(Exception):
    """An answer that is not the one asked for."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes
    headers: Mapping[str, str]


class GcsStore(BucketStore):
    """Objects in a bucket of Google Cloud Storage."""

    def __init__(
        self, place: Place, options: Mapping[str, Any], *, new_token: NewToken = new_token
    ) -> None:
        super().__init__(place)
        settings = _settings(options)
        self._new_token = new_token
        self._client = Client(lambda: _filesystem(settings), _end, _forget)
        self._objects = f"b/{quote(place.bucket, safe='')}/o"

    @override
    def _put(self, name: str, body: bytes) -> None:
        self._create({"name": name}, "application/octet-stream", body)

    def _create(self, about: Mapping[str, str], content_type: str, body: bytes) -> None:
        """Create an object by one request, only if nothing is there."""
        # A part of the content must never look like the boundary, so it cannot be guessed.
        boundary = self._new_token() + self._new_token()
        head = (
            f"--{boundary}\r\nContent-Type: {_JSON}\r\n\r\n{json.dumps(about)}\r\n"
            f"--{boundary}\r\nContent-Type: {content_type}\r\n\r\n"
        )
        self._send(
            "POST",
            f"/upload/storage/v1/{self._objects}",
            {"uploadType": "multipart", "ifGenerationMatch": "0", "fields": "generation"},
            {"Content-Type": f"multipart/related; boundary={boundary}"},
            b"".join([head.encode(), body, f"\r\n--{boundary}--\r\n".encode()]),
        )

    @override
    def _upload(self, name: str, content_type: str) -> Upload:
        return _Upload(self, name, content_type)

    @override
    def _sign(self, name: str, seconds: int) -> str:
        filesystem = self._client.filesystem
        if not hasattr(filesystem.credentials.credentials, "sign_bytes"):
            raise InputError(
                "these credentials cannot sign; give those of a service account, a file or"
                " dictionary with its private key, as `token` in storage_options"
            )
        signed: str = filesystem.sign(f"{self._bucket}/{name}", seconds, version="v4")
        return signed

    @override
    def _get(self, name: str, first: int, last: int | None) -> bytes:
        headers = {} if last is None else {"Range": f"bytes={first}-{last}"}
        reply = self._send("GET", self._path(name), {"alt": "media"}, headers)
        if last is not None and reply.status != _PARTIAL:
            return reply.body[first : last + 1]  # the server takes no ranges
        return reply.body

    @override
    def _size(self, name: str) -> int:
        return int(json.loads(self._send("GET", self._path(name), {"fields": "size"}).body)["size"])

    @override
    def _page(self, prefix: str, start: str, token: str) -> Page:
        asked = {"prefix": prefix, "maxResults": str(PAGE), "fields": _FIELDS}
        if start:
            asked["startOffset"] = start
        if token:
            asked["pageToken"] = token
        reply = self._send("GET", f"/storage/v1/{self._objects}", asked)
        listed = json.loads(reply.body)
        found = [
            StoredObject(
                each["name"],
                int(each.get("size", 0)),
                datetime.fromisoformat(each["timeCreated"]).timestamp(),
            )
            for each in listed.get("items", ())
        ]
        return Page(found, listed.get("nextPageToken", ""))

    @override
    def _remove(self, name: str) -> None:
        try:
            self._send("DELETE", self._path(name), {})
        except _RefusedError as refused:
            if refused.failure.status != _NOT_THERE:
                raise

    def _path(self, name: str) -> str:
        return f"/storage/v1/{self._objects}/{quote(name, safe='')}"

    def _send(
        self,
        method: str,
        path: str,
        asked: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        good: Container[int] = range(300),
    ) -> _Reply:
        """Send one request and return its reply, which is a good one."""
        sent = dict(headers or {})
        # Here and not on the loop: renewing them waits for another server.
        self._client.filesystem.credentials.apply(sent)
        reply = self._client.run(lambda fs: _request(fs, method, path, asked, sent, body))
        if reply.status not in good:
            raise _RefusedError(_failure_in(reply))
        return reply

    @override
    def _failure(self, error: Exception) -> Failure:
        if isinstance(error, _RefusedError):
            return error.failure
        name = type(error).__name__
        status = getattr(error, "code", None)  # of gcsfs, when credentials cannot be renewed
        if isinstance(status, int):
            return Failure(name, status)
        return Failure(name, sent=name not in _NOT_SENT)

    @override
    def close(self) -> None:
        self._client.close()


class _Upload(Upload):
    """One request, or the chunks of a resumable upload."""

    def __init__(self, store: GcsStore, name: str, content_type: str) -> None:
        self._store = store
        self._about = {"name": name, "contentType": content_type}
        self._content_type = content_type
        self._session = ""
        self._sent = 0

    @override
    def whole(self, body: bytes) -> None:
        self._store._create(self._about, self._content_type, body)

    @override
    def begin(self) -> None:
        reply = self._store._send(
            "POST",
            f"/upload/storage/v1/{self._store._objects}",
            {"uploadType": "resumable", "ifGenerationMatch": "0"},
            {"Content-Type": _JSON, "X-Upload-Content-Type": self._content_type},
            json.dumps(self._about).encode(),
        )
        # Where this request went: what the server takes for its own address need not lead to it.
        self._session = urlunsplit(("", "", *urlsplit(reply.headers["Location"])[2:]))

    @override
    def add(self, part: bytes) -> None:
        end = self._sent + len(part)
        reply = self._put(f"bytes {self._sent}-{end - 1}/*", part)
        # It may have kept less. Of what is sent again it passes over what it has.
        if reply.headers.get("Range") != f"bytes=0-{end - 1}":
            raise _RefusedError(Failure("RequestTimeout", reply.status))
        self._sent = end

    @override
    def finish(self) -> None:
        reply = self._put(f"bytes */{self._sent}", b"")
        if reply.status == _GO_ON:
            raise _RefusedError(Failure("RequestTimeout", reply.status))
        if int(json.loads(reply.body)["size"]) != self._sent:
            raise _RefusedError(Failure("OtherSize", reply.status))

    def _put(self, place: str, body: bytes) -> _Reply:
        headers = {"Content-Range": place, "Content-Type": self._content_type}
        try:
            return self._store._send(
                "PUT", self._session, {}, headers, body, good=(200, 201, _GO_ON)
            )
        except _RefusedError as refused:
            if refused.failure.status in _GONE:
                raise _RefusedError(Failure("NoSuchUpload", refused.failure.status)) from refused
            raise

    @override
    def abort(self) -> None:
        if self._session:
            self._store._send("DELETE", self._session, {}, good=(204, *_GONE, _ABORTED))


class _Body(BytesIO):
    """A body that may be sent twice: a PUT over another connection, where the first broke.

    Older releases of aiohttp close what they have sent, and go on with it all the same.
    """

    @override
    def close(self) -> None:
        self.seek(0)


async def _request(
    fs: Any,
    method: str,
    path: str,
    asked: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes | None,
) -> _Reply:
    import aiohttp

    session = fs.session
    timeout = aiohttp.ClientTimeout(total=fs.requests_timeout, sock_connect=5, sock_read=15)
    async with session.request(
        method,
        fs.base.removesuffix("/storage/v1/") + path,
        params=fs._get_params(dict(asked)),
        headers=headers,
        data=None if body is None else _Body(body),
        timeout=timeout,
    ) as reply:
        return _Reply(reply.status, await reply.read(), reply.headers)


def _failure_in(reply: _Reply) -> Failure:
    """Return what an answer says went wrong: Google's reason where there is one."""
    if b"bucket does not exist" in reply.body[:1_000]:
        return Failure("NoSuchBucket", reply.status)
    try:
        code = json.loads(reply.body)["error"]["errors"][0]["reason"]
    except (ValueError, KeyError, TypeError, IndexError):
        code = reply.status
    return Failure(str(code), reply.status)


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what gcsfs is made with: the caller's options, and what a lake needs besides."""
    settings = dict(options)
    endpoint = settings.get("endpoint_url") or os.environ.get(_EMULATOR, "")
    if "token" not in settings and endpoint not in ("", "default"):
        # As Google's own clients do: an emulator knows no credentials, and asking for some is slow.
        plain = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}").scheme == "http"
        settings.update({"token": "anon"} if plain else {})
    return {**settings, "use_listings_cache": False, "skip_instance_cache": True}


def _filesystem(settings: Mapping[str, Any]) -> Any:
    # With it each call to an emulator first asks what kind of bucket it is, and hangs.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    import gcsfs
    from fsspec.asyn import sync

    filesystem = gcsfs.GCSFileSystem(**settings)
    sync(filesystem.loop, filesystem._set_session)
    return filesystem


async def _end(fs: Any) -> None:
    await fs.session.close()


def _forget(fs: Any) -> None:
    keep_for_good(fs.session.connector)
    fs.session.detach()  # so that gcsfs has nothing to end
