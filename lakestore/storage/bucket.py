"""A prefix in a bucket as a store, whatever the client is. Owns keys, ranges and listings in pages.

A client's own store says how one request is made, and how a failed one ended. Nothing is sent
twice here: `RetryingStore` does that.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from typing_extensions import override

from lakestore.errors import LakeError, UnsupportedStoreError
from lakestore.storage.failures import Failure, Verb, error_of
from lakestore.storage.places import Place
from lakestore.storage.store import (
    ObjectStore,
    StoredObject,
    check_body,
    check_expires,
    check_range,
)
from lakestore.storage.uploads import AroundUpload, Upload

R = TypeVar("R")

_PAST_THE_END = 416
_BEFORE_A_SLASH = re.compile(r"[!-/]")


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the objects of a listing, names as in the bucket."""

    objects: list[StoredObject]
    token: str
    """What the next page is asked with; empty after the last one."""


class BucketStore(ObjectStore):
    """Objects below one prefix of a bucket."""

    near = False

    def __init__(self, place: Place) -> None:
        self._bucket = place.bucket
        self._root = place.root
        self.url = place.url

    @abstractmethod
    def _put(self, name: str, body: bytes) -> None:
        """Create the object, only if nothing is there, by one request."""

    @abstractmethod
    def _upload(self, name: str, content_type: str) -> Upload:
        """Return what uploads the object."""

    @abstractmethod
    def _sign(self, name: str, seconds: int) -> str:
        """Return a signed address, by no request."""

    @abstractmethod
    def _get(self, name: str, first: int, last: int | None) -> bytes:
        """Return the bytes from `first` to `last` inclusive (None: the end), by one request."""

    @abstractmethod
    def _size(self, name: str) -> int:
        """Return the size."""

    @abstractmethod
    def _page(self, prefix: str, start: str, token: str) -> Page:
        """Return a page of what begins with `prefix`: the one of `token`, or the first.

        The first may begin anywhere up to the first name that comes after `start`.
        """

    @abstractmethod
    def _remove(self, name: str) -> None:
        """Delete the object, if it is there."""

    @abstractmethod
    def _failure(self, error: Exception) -> Failure:
        """Say how a request ended that raised `error`."""

    def _do(self, verb: Verb, key: str, call: Callable[[], R]) -> R:
        """Make a request, and raise our error for the client's."""
        try:
            return call()
        except LakeError:
            raise
        except Exception as error:  # noqa: BLE001 - the errors of clients have no common base
            failure = self._failure(error)
            raise error_of(failure, verb, key, self.url) from self._shown(error)

    def _shown(self, error: Exception) -> Exception | None:
        """Return what may stand in a traceback as the cause."""
        return error

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        check_body(key, body)
        self._do("write", key, lambda: self._put(self._root + key, body))

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        upload = self._upload(self._root + key, content_type)
        return AroundUpload(upload, lambda _kind, _sent, call: self._do("upload", key, call))

    @override
    def sign(self, key: str, expires: float) -> str:
        seconds = check_expires(expires)
        return self._do("sign", key, lambda: self._sign(self._root + key, seconds))

    @override
    def get(self, key: str) -> bytes:
        return self._do("read", key, lambda: self._get(self._root + key, 0, None))

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        if length == 0:  # no request can say this
            self.size(key)
            return b""

        def read() -> bytes:
            try:
                return self._get(self._root + key, start, start + length - 1)
            except Exception as error:
                if self._failure(error).status == _PAST_THE_END:
                    return b""
                raise

        return self._do("read", key, read)

    @override
    def size(self, key: str) -> int:
        return self._do("read", key, lambda: self._size(self._root + key))

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        for found in self._ordered(prefix, after):
            key = found.key.removeprefix(self._root)
            if key > after:
                yield StoredObject(key, found.size, found.modified)

    def _ordered(self, prefix: str, after: str) -> Iterator[StoredObject]:
        """Yield in byte order, whatever the server's is.

        Servers that keep folders walk them, so that `a/x` comes before `a-b`. Their token is the
        last name as it stands, and what they list in pages is gathered before it is passed on.
        """
        start = start_before(prefix, after)
        start = self._root + start if start else ""
        page = self._ask(prefix, start, "")
        gathered = page.objects
        if page.token and gathered and page.token == gathered[-1].key:
            while page.token:
                page = self._ask(prefix, start, page.token)
                gathered += page.objects
        last = ""
        while True:
            gathered.sort(key=_name)
            if gathered and gathered[0].key <= last:
                raise UnsupportedStoreError(
                    f"the store lists in no order; use another one. {prefix=} url={self.url!r}"
                )
            yield from gathered
            if not page.token:
                return
            last = gathered[-1].key if gathered else last
            page = self._ask(prefix, start, page.token)
            gathered = page.objects

    def _ask(self, prefix: str, start: str, token: str) -> Page:
        return self._do("list", prefix, lambda: self._page(self._root + prefix, start, token))

    @override
    def delete(self, key: str) -> None:
        self._do("delete", key, lambda: self._remove(self._root + key))


def _name(stored: StoredObject) -> str:
    return stored.key


def start_before(prefix: str, after: str) -> str:
    """Return a start of a listing, not above `after`, from which no server leaves out a later key.

    A server that walks folders takes `a` for the folder too, and skips `a/x` when it starts after
    `a-`. So a start ends before the first letter that sorts below a slash, and one letter earlier.
    Empty when the listing cannot start later than it does anyway.
    """
    folder = prefix[: prefix.rfind("/") + 1]
    if not after.startswith(folder):
        # Byte order: nothing under the prefix is skipped, or all of it is, which the caller sees.
        return ""
    name = _BEFORE_A_SLASH.split(after[len(folder) :], maxsplit=1)[0]
    return folder + name[:-1] if len(name) > 1 else ""
