"""Google Cloud Storage through gcsfs. Owns how each request is made and how it failed.

Requests go through the session and the credentials of gcsfs, not through its calls: those send
again by themselves, and hide which status a refusal had.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any
from urllib.parse import quote, urlsplit

from typing_extensions import override

from lakestore.clock import NewToken, new_token
from lakestore.storage.bucket import BucketStore, Page
from lakestore.storage.client import Client, keep_for_good
from lakestore.storage.failures import Failure
from lakestore.storage.places import Place
from lakestore.storage.store import PAGE, StoredObject

_PARTIAL = 206
_NOT_THERE = 404
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
        # A part of the content must never look like the boundary, so it cannot be guessed.
        boundary = self._new_token() + self._new_token()
        about = json.dumps({"name": name})
        head = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{about}\r\n"
            f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
        )
        self._send(
            "POST",
            f"/upload/storage/v1/{self._objects}",
            {"uploadType": "multipart", "ifGenerationMatch": "0", "fields": "generation"},
            {"Content-Type": f"multipart/related; boundary={boundary}"},
            b"".join([head.encode(), body, f"\r\n--{boundary}--\r\n".encode()]),
        )

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
    ) -> _Reply:
        """Send one request and return its reply, which is a good one."""
        sent = dict(headers or {})
        # Here and not on the loop: renewing them waits for another server.
        self._client.filesystem.credentials.apply(sent)
        reply = self._client.run(lambda fs: _request(fs, method, path, asked, sent, body))
        if reply.status >= 300:
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
        data=None if body is None else BytesIO(body),
        timeout=timeout,
    ) as reply:
        return _Reply(reply.status, await reply.read())


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
