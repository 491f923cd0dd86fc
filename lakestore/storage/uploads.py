"""Payloads on their way to a store: one request where they are short, else parts.

Owns how bytes are cut into parts, that a failure takes back what was sent, and when an upload whose
reply was lost counts. How a request is made is the store's, whether it is sent again
`RetryingStore`'s.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import override

from lakestore.errors import (
    AlreadyExistsError,
    InputError,
    LakeError,
    StorageError,
    UnknownOutcomeError,
)

if TYPE_CHECKING:
    from lakestore.storage.store import ObjectStore

logger = logging.getLogger(__name__)

PART = 8 * 2**20
"""Bytes of each part but the last: some servers want them equal, and GCS multiples of 256 KiB."""
MOST_PARTS = 10_000
"""As many as S3 takes: 78 GiB."""

Request: TypeAlias = Callable[[str, int, Callable[[], None]], None]
"""Is given the kind of a request (PUT or DELETE), how many bytes it sends, and what makes it."""


class NotDurableError(UnknownOutcomeError):
    """A write has landed, and may be gone after a crash of the machine."""


class Upload(ABC):
    """One object on its way to a store, which nobody sees before it is whole.

    Either `whole`, or `begin`, `add` for each part and `finish`; `abort` in place of what is left.
    Each is one request, and may be made again when it failed.
    """

    @abstractmethod
    def whole(self, body: bytes) -> None:
        """Create the object by one request, only if nothing is there."""

    @abstractmethod
    def begin(self) -> None:
        """Begin an upload in parts."""

    @abstractmethod
    def add(self, part: bytes) -> None:
        """Send the next `PART` bytes, or what is left."""

    @abstractmethod
    def finish(self) -> None:
        """Make an object of the parts, durably and all at once."""

    @abstractmethod
    def abort(self) -> None:
        """Remove the parts; nothing happens when there are none."""


class AroundUpload(Upload):
    """Passes every request of an upload through `request`, which makes it."""

    def __init__(self, inner: Upload, request: Request) -> None:
        self._inner = inner
        self._request = request

    @override
    def whole(self, body: bytes) -> None:
        self._request("PUT", len(body), lambda: self._inner.whole(body))

    @override
    def begin(self) -> None:
        self._request("PUT", 0, self._inner.begin)

    @override
    def add(self, part: bytes) -> None:
        self._request("PUT", len(part), lambda: self._inner.add(part))

    @override
    def finish(self) -> None:
        self._request("PUT", 0, self._inner.finish)

    @override
    def abort(self) -> None:
        self._request("DELETE", 0, self._inner.abort)


def send(
    store: ObjectStore,
    key: str,
    parts: Iterable[bytes],
    content_type: str,
    *,
    part_bytes: int = PART,
    most_parts: int = MOST_PARTS,
) -> int:
    """Do what `ObjectStore.upload` says, in at most so many parts of that size."""
    if not (content_type.isascii() and content_type.isprintable() and content_type.strip()):
        raise InputError(f"a content type is a line of ASCII, and not blank. {content_type=}")
    upload = store.open_upload(key, content_type)
    blocks = in_blocks(parts, part_bytes)
    begun = [*islice(blocks, 2)]
    if len(begun) < 2:
        body = b"".join(begun)
        _send_whole(store, upload, key, body)
        return len(body)
    return _send_parts(store, upload, key, _limited(begun, blocks, most_parts))


def in_blocks(parts: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the same bytes in blocks of `size`, the last of which may be shorter, but not empty.

    Raises:
        InputError: something in `parts` is not bytes.
    """
    block = bytearray()
    for part in parts:
        if not isinstance(part, bytes | bytearray | memoryview):
            raise InputError(f"what is uploaded comes as bytes. type={type(part).__name__}")
        # Views are released before the next part: its source may use the same buffer again.
        with memoryview(part) as given, given.cast("B") as view:
            start = 0
            while start < len(view):
                end = min(start + size - len(block), len(view))
                if end - start == size:  # not gathered first: that would be one more copy
                    yield bytes(view[start:end])
                else:
                    block += view[start:end]
                start = end
                if len(block) == size:
                    yield bytes(block)
                    block.clear()
    if block:
        yield bytes(block)


def _limited(begun: list[bytes], blocks: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield what is in `begun`, which holds nothing of it any longer, and what follows."""
    for _ in range(most):
        block = begun.pop(0) if begun else next(blocks, None)
        if block is None:
            return
        yield block
    if begun or next(blocks, None) is not None:
        raise InputError(f"a payload is too long to be sent in {most} parts")


def _send_whole(store: ObjectStore, upload: Upload, key: str, body: bytes) -> None:
    try:
        upload.whole(body)
    except NotDurableError:  # to read it back tells nothing
        raise
    except (AlreadyExistsError, StorageError):
        # Sent twice, it is refused by itself; and a lost reply says nothing.
        with suppress(LakeError):
            if store.get(key) == body:
                return
        raise


def _send_parts(store: ObjectStore, upload: Upload, key: str, blocks: Iterator[bytes]) -> int:
    size = 0
    try:
        upload.begin()
        for block in blocks:
            upload.add(block)
            size += len(block)
    except BaseException:
        _abort(upload, key)
        raise
    try:
        upload.finish()
    except BaseException as error:
        is_in_doubt = isinstance(error, LakeError) and not isinstance(error, NotDurableError)
        if is_in_doubt and _is_stored(store, key, size):
            return size
        _abort(upload, key)
        if not isinstance(error, AlreadyExistsError):  # else it is something else that stands
            with suppress(LakeError):  # a request that was late, or parts taken for all of it
                store.delete(key)
        raise
    return size


def _is_stored(store: ObjectStore, key: str, size: int) -> bool:
    """Tell whether the object stands all the same: the name is nobody else's."""
    try:
        return store.size(key) == size
    except LakeError:
        return False


def _abort(upload: Upload, key: str) -> None:
    try:
        upload.abort()
    except LakeError as error:  # what went wrong before is what the caller gets to see
        logger.warning("parts of an upload may be left. key=%r reason=%s", key, error)
