"""S3 through obstore, an extra: the same URLs, options and errors, quicker on small objects.

Owns how each request is made, how it failed, and how options of fsspec's names are passed on.
Google Cloud Storage is left to gcsfs: there is no server here on which obstore's way to it can be
proved, as it speaks Google's XML interface.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from typing_extensions import override

from lakestore.errors import InputError, StorageError, UnsupportedStoreError
from lakestore.storage.bucket import BucketStore, Page, start_before
from lakestore.storage.failures import Failure, TransientError, Verb
from lakestore.storage.places import Place
from lakestore.storage.retrying import ATTEMPTS
from lakestore.storage.store import StoredObject
from lakestore.storage.uploads import Upload

R = TypeVar("R")

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_ELSEWHERE = re.compile(r"redirect without LOCATION")
_NOT_SENT = re.compile(r"kind: Connect\b")
_NO_CREDENTIALS = re.compile(r"Error performing token request|169\.254\.169\.254")

_NAMES = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "anon": "skip_signature",
    "endpoint_url": "endpoint",
    "region": "region",
    "requester_pays": "request_payer",
}
"""Options that both clients know, by fsspec's names and obstore's."""


_started: list[int] = []
"""The process in which obstore's threads run, once they do."""


def _stay_in_one_process() -> None:
    """Refuse to go on in a forked child of a process that has used obstore.

    Its threads stay with the parent, with whom the child would share their sockets: both hang.

    Raises:
        UnsupportedStoreError: this is such a child.
    """
    if not _started:
        _started.append(os.getpid())
    if _started[0] != os.getpid():
        raise UnsupportedStoreError(
            "obstore does not survive a fork: start processes with spawn, or leave"
            ' client="obstore" out'
        )


class ObstoreStore(BucketStore):
    """Objects in a bucket that speaks S3, by way of obstore."""

    def __init__(self, place: Place, options: Mapping[str, Any]) -> None:
        super().__init__(place)
        if place.protocol != "s3":
            raise UnsupportedStoreError(
                f'client="obstore" is for s3:// only; leave it out for {place.protocol}://'
            )
        self._config = _config(options)
        self._clients: dict[int, Any] = {}

    @property
    def _store(self) -> Any:
        """The client. Ours are the only retries, so that what is counted is what was sent."""
        return self._connected(retries=0)

    def _connected(self, retries: int) -> Any:
        """Return the client that sends again so many times, made on first use."""
        _stay_in_one_process()
        if retries not in self._clients:
            from obstore.store import S3Store

            self._clients[retries] = S3Store(
                self._bucket,
                client_options={"connect_timeout": "5s", "timeout": "30s", "allow_http": True},
                retry_config={"max_retries": retries},
                **self._config,
            )
        return self._clients[retries]

    @override
    def _do(self, verb: Verb, key: str, call: Callable[[], R]) -> R:
        try:
            return super()._do(verb, key, call)
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # which is no Exception
                raise
            raise StorageError(
                f"could not {verb}: obstore broke off; look at the storage options. {key=}"
                f" url={self.url!r}"
            ) from None

    @override
    def _put(self, name: str, body: bytes) -> None:
        import obstore

        # One request, whatever the size: of uploads in parts several may win.
        obstore.put(self._store, name, body, mode="create", use_multipart=False)

    @override
    def _upload(self, name: str, content_type: str) -> Upload:
        return _Upload(self, name, content_type)

    @override
    def _sign(self, name: str, seconds: int) -> str:
        import obstore

        if self._config.get("skip_signature"):
            raise InputError("without credentials (anon) there is nothing to sign with")
        signed: str = obstore.sign(self._store, "GET", name, timedelta(seconds=seconds))
        return signed

    @override
    def _get(self, name: str, first: int, last: int | None) -> bytes:
        import obstore

        if last is None:
            return bytes(obstore.get(self._store, name).bytes())
        return bytes(obstore.get_range(self._store, name, start=first, end=last + 1))

    @override
    def _size(self, name: str) -> int:
        import obstore

        return int(obstore.head(self._store, name)["size"])

    @override
    def _page(self, prefix: str, start: str, token: str) -> Page:
        raise NotImplementedError  # obstore lists in pages by itself

    @override
    def _ordered(self, prefix: str, after: str) -> Iterator[StoredObject]:
        start = start_before(prefix, after)
        yield from self._do("list", prefix, lambda: self._all(prefix, start))

    def _all(self, prefix: str, start: str) -> list[StoredObject]:
        """Return a listing in byte order; obstore does not say whether the server's is."""
        import obstore

        # It takes a prefix for a folder, and finds what is deeper, not what begins like it; and it
        # takes no empty parts, which no key has either.
        folder = (self._root + prefix[: prefix.rfind("/") + 1]).partition("//")[0]
        offset = (self._root + start).partition("//")[0] if start else None
        found = [
            StoredObject(each["path"], each["size"], each["last_modified"].timestamp())
            for batch in obstore.list(self._store, folder or None, offset=offset, chunk_size=1_000)
            for each in batch
            if each["path"].startswith(self._root + prefix)
        ]
        return sorted(found, key=lambda stored: stored.key)

    @override
    def _remove(self, name: str) -> None:
        import obstore

        try:
            obstore.delete(self._store, name)
        except FileNotFoundError as error:
            if self._failure(error).code == "NoSuchBucket":
                raise

    @override
    def _failure(self, error: Exception) -> Failure:
        text = str(error)
        status, code = _STATUS.search(text), _CODE.search(text)
        number = int(status[1]) if status else 0
        if _NO_CREDENTIALS.search(text):
            return Failure("NoCredentialsError", sent=False)
        if _ELSEWHERE.search(text):
            return Failure("PermanentRedirect", 301)
        name = str(number) if number else type(error).__name__
        return Failure(code[1] if code else name, number, sent=not _NOT_SENT.search(text))

    @override
    def _shown(self, error: Exception) -> Exception | None:
        return None  # it quotes whole answers, in which keys and signatures may stand


class _Upload(Upload):
    """A PUT, or a writer of obstore's, which begins with the first part."""

    def __init__(self, store: ObstoreStore, name: str, content_type: str) -> None:
        self._store = store
        self._name = name
        self._attributes = {"Content-Type": content_type}
        self._writer: Any = None

    @override
    def whole(self, body: bytes) -> None:
        import obstore

        obstore.put(
            self._store._store,
            self._name,
            body,
            mode="create",
            use_multipart=False,
            attributes=self._attributes,
        )

    @override
    def begin(self) -> None:
        self._writer = None

    @override
    def add(self, part: bytes) -> None:
        self._once(lambda: self._opened(len(part)).write(part))

    def _opened(self, part_bytes: int) -> Any:
        import obstore

        if self._writer is None:
            self._writer = obstore.open_writer(
                self._store._connected(ATTEMPTS - 1),
                self._name,
                attributes=self._attributes,
                buffer_size=part_bytes,
                max_concurrency=1,
            )
        return self._writer

    @override
    def finish(self) -> None:
        self._once(lambda: self._writer.close())

    def _once(self, call: Callable[[], object]) -> None:
        """Let obstore send parts again: a writer that has failed takes no more."""
        try:
            self._store._do("upload", self._name, call)
        except TransientError as error:
            raise StorageError(str(error)) from None

    @override
    def abort(self) -> None:
        if self._writer is not None:
            # Told of an error, it removes the parts where it would else make an object of them.
            self._writer.__exit__(StorageError, None, None)


def _config(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return obstore's options for fsspec's.

    Raises:
        InputError: an option is s3fs's alone.
    """
    given = dict(options)
    client = dict(given.pop("client_kwargs", {}))
    if "region_name" in client:
        given.setdefault("region", client.pop("region_name"))
    unknown = sorted([*(name for name in given if name not in _NAMES), *client])
    if unknown:
        raise InputError(
            f"storage options that obstore does not know. {unknown=} known={sorted(_NAMES)}"
        )
    return {_NAMES[name]: value for name, value in given.items()}
