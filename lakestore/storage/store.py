"""The storage seam: bytes under keys, and what a store must guarantee. No rows, no retries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakestore.errors import InputError, StorageError
from lakestore.storage.uploads import Upload, send


class UnreadableError(StorageError):
    """What is there and cannot be read, for a reason that is its own; all else may be readable."""

    def __init__(self, text: str, *keys: str) -> None:
        super().__init__(text)
        self.keys = keys
        """The object, or the folders (ending in `/`) that were to be listed."""


PAGE = 1_000
"""How many objects a bucket lists at a time; each further page is a request of its own."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as a listing shows it."""

    key: str
    size: int
    """Bytes."""
    modified: float
    """When the object was created, in seconds since 1970 UTC, by the clock of the store."""


class ObjectStore(ABC):
    """Immutable objects under `/`-separated keys below one root.

    A subset of what file systems and buckets can do, chosen so that each promise holds on all of
    them. Reads and listings see every object whose creation returned before they began. Safe to
    use from many threads; after a fork each process makes its own.
    """

    url: str
    """The root as people write it, without credentials."""

    near: bool
    """Whether a request is quicker than handing it to another thread (a local disk, memory)."""

    @abstractmethod
    def put_if_absent(self, key: str, body: bytes) -> None:
        """Create `key` with `body`, durably and all at once, if nothing is there.

        When it returns, the object survives a crash of the machine (of the process, in memory).
        Of any number of racers exactly one returns. Nobody ever sees a part of `body`.

        Raises:
            AlreadyExistsError: an object stands under `key`. It may be this very one, when a client
                sent the request twice: read it back before believing that another writer won.
            InputError: `body` is empty.
            ReadOnlyError: the store was opened for reading.
            UnknownOutcomeError: the object may or may not be there.
            StorageError: the object is not there.
        """

    def upload(self, key: str, parts: Iterable[bytes], *, content_type: str) -> int:
        """Create a payload durably and all at once; return how many bytes it has.

        It may be empty. One of several megabytes is sent in parts as they come, of which no more
        than a few are held at a time. Nobody sees any of it before all of it is there.

        Args:
            key: A name that was just drawn, so that nobody else ever writes there. Only some stores
                would notice.
            parts: The bytes, cut anyhow.
            content_type: The MIME type that the store is told, if it takes note of any.

        Raises:
            AlreadyExistsError: the store has noticed that something else stands under `key`.
            InputError: the content type is no line of ASCII, `parts` holds something else than
                bytes, or too many of them.
            ReadOnlyError: the store was opened for reading.
            StorageError: it is not known to be there. To try again, draw another name.
            Exception: whatever `parts` raises. Nothing is there, and parts were removed.
        """
        return send(self, key, parts, content_type)

    @abstractmethod
    def open_upload(self, key: str, content_type: str) -> Upload:
        """Return what `upload` makes its requests by; asks nothing of the store yet.

        Raises:
            ReadOnlyError: the store was opened for reading.
        """

    def uri(self, key: str) -> str:
        """Return where the object is, as fsspec opens it: URL and key, nothing percent-encoded."""
        return f"{self.url}/{key}"

    def sign(self, key: str, expires: float) -> str:
        """Return an HTTP address by which anybody can read the object, until it expires.

        It need not be there. Credentials that expire sooner end the address with them.

        Args:
            key: The object.
            expires: Seconds from now, up to a week.

        Raises:
            InputError: `expires` is out of bounds, or this store or its credentials sign nothing.
            StorageError: the credentials could not be found or renewed.
        """
        raise InputError(f"only buckets sign addresses: s3:// and gs://. url={self.url!r}")

    @abstractmethod
    def get(self, key: str) -> bytes:
        """Return the whole object.

        Raises:
            NotFoundError: no object under `key`.
            UnreadableError: this object is closed to us, or damaged.
            StorageError: it could not be read.
        """

    @abstractmethod
    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from offset `start`, fewer where the object ends.

        Raises:
            InputError: `start` or `length` is negative.
            NotFoundError: no object under `key`.
            StorageError: it could not be read.
        """

    @abstractmethod
    def size(self, key: str) -> int:
        """Return the object's size in bytes.

        Raises:
            NotFoundError: no object under `key`.
            StorageError: the store could not say.
        """

    @abstractmethod
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        """Yield the objects whose keys begin with `prefix` and come after `after`, ascending.

        A prefix under which nothing is stored yields nothing.

        Raises:
            UnreadableError: when all else was yielded: some folders are closed to us, or damaged.
            StorageError: the store could not list.
        """

    def names(self, prefix: str, after: str = "") -> Iterator[str]:
        """Yield the keys that `list` yields, which is cheaper where sizes and times cost extra.

        Raises:
            StorageError: the store could not list.
        """
        return (stored.key for stored in self.list(prefix, after))

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; nothing happens when it is not there.

        Raises:
            ReadOnlyError: the store was opened for reading.
            StorageError: it may still be there.
        """

    def clear_leftovers(self, grace: float) -> None:  # noqa: B027 - most stores leave nothing
        """Let the first write also remove what writers that were killed left behind.

        Args:
            grace: Seconds for which a leftover may still be someone's, by the store's own time.
        """

    def clear_folders(self, prefix: str) -> None:  # noqa: B027 - most stores have no folders
        """Remove empty folders, whose names are all that is left of what was deleted.

        Args:
            prefix: That of a folder, ending in `/`: it goes, too, if nothing is below it. What
                others create there meanwhile stays.
        """

    def close(self) -> None:  # noqa: B027 - most stores hold nothing
        """Release connections. Using the store afterwards is an error of the caller."""


def check_body(key: str, body: bytes) -> None:
    """Refuse an empty object, which some stores would write over another one without a word.

    Raises:
        InputError: `body` is empty.
    """
    if not body:
        raise InputError(f"an object may not be empty. {key=}")


def check_range(start: int, length: int) -> None:
    """Refuse a range that does not exist.

    Raises:
        InputError: `start` or `length` is negative.
    """
    if start < 0 or length < 0:
        raise InputError(f"a range needs a start and a length of 0 or more. {start=} {length=}")


LONGEST_SIGNED = 7 * 24 * 3600
"""Seconds; neither S3 nor Google Cloud Storage takes signatures that hold longer."""


def check_expires(expires: float) -> int:
    """Return the whole seconds for which an address is signed.

    Raises:
        InputError: they are none, or more than a week.
    """
    if not 1 <= expires <= LONGEST_SIGNED:
        raise InputError(f"an address is signed for 1 to {LONGEST_SIGNED} seconds. {expires=}")
    return int(expires)
