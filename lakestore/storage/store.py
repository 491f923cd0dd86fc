"""The storage seam: bytes under keys, and what a store must guarantee. No rows, no retries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from lakestore.errors import InputError, StorageError


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
    """Immutable objects under `/`-separated ASCII keys below one root.

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
