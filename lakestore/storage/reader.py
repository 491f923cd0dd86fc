"""Any other file system of fsspec, for reading only: it cannot create exclusively, so never writes.

Owns which of them can show a lake as it is, and why the others cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn

from typing_extensions import override

from lakestore.errors import NotFoundError, ReadOnlyError, StorageError, UnsupportedStoreError
from lakestore.storage.store import ObjectStore, StoredObject, check_range

_REFUSED = {
    "http": "it lists nothing that can be relied on",
    "https": "it lists nothing that can be relied on",
    "data": "it lists nothing",
    "ftp": "its listings leave out what is deep",
    "simplecache": "it shows what was once there",
    "filecache": "it shows what was once there",
    "blockcache": "it shows what was once there",
    "cached": "it shows what was once there",
}
_NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError, KeyError)


def open_reader(protocol: str, url: str, options: Mapping[str, Any]) -> ObjectStore:
    """Return a store that reads what is at `url` through fsspec.

    Raises:
        UnsupportedStoreError: fsspec does not know the protocol, or cannot list with it.
        StorageError: the file system cannot be opened.
    """
    import fsspec

    if protocol in _REFUSED:
        raise UnsupportedStoreError(
            f"a lake cannot be read through {protocol}://: {_REFUSED[protocol]}"
        )
    if protocol not in fsspec.available_protocols():
        raise UnsupportedStoreError(f"there is no store for {protocol}://; mind the spelling")
    try:
        filesystem, root = fsspec.url_to_fs(
            url, **{"use_listings_cache": False, "skip_instance_cache": True, **options}
        )
    except Exception as error:  # noqa: BLE001 - file systems raise what they like
        # What it says may quote the URL, in which credentials may stand.
        raise StorageError(
            f"could not open the lake through {protocol}://; check the URL, storage_options and"
            f" that its fsspec package is installed. reason={type(error).__name__}"
        ) from None
    return FsspecReader(protocol, filesystem, root)


class FsspecReader(ObjectStore):
    """Objects below a folder of a file system that fsspec knows."""

    near = False

    def __init__(self, protocol: str, filesystem: Any, root: str) -> None:
        self._fs = filesystem
        self._root = root.rstrip("/") + "/" if root.strip("/") else root
        self.url = f"{protocol}://…/{root.rpartition('/')[2]}"

    @override
    def put_if_absent(self, key: str, body: bytes) -> NoReturn:
        raise ReadOnlyError(f"this store can only be read. url={self.url!r}")

    @override
    def open_upload(self, key: str, content_type: str) -> NoReturn:
        raise ReadOnlyError(f"this store can only be read. url={self.url!r}")

    @override
    def delete(self, key: str) -> NoReturn:
        raise ReadOnlyError(f"this store can only be read. url={self.url!r}")

    @override
    def get(self, key: str) -> bytes:
        return self._read(key, None, None)

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        end = min(start + length, self.size(key))
        return self._read(key, start, end) if end > start else b""

    def _read(self, key: str, start: int | None, end: int | None) -> bytes:
        try:
            body: bytes = self._fs.cat_file(self._root + key, start=start, end=end)
        except Exception as error:
            raise _translated(error, "read", key) from error
        return body

    @override
    def size(self, key: str) -> int:
        try:
            found = self._fs.info(self._root + key)
        except Exception as error:
            raise _translated(error, "read", key) from error
        if found["type"] != "file":
            raise NotFoundError(f"no such object. {key=}")
        return int(found["size"])

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        folder = self._root + prefix[: prefix.rfind("/") + 1]
        try:
            self._fs.invalidate_cache()
            found = self._fs.find(folder.rstrip("/"), detail=True)
        except _NOT_THERE:
            return
        except Exception as error:
            raise _translated(error, "list", prefix) from error
        root = self._root.lstrip("/")
        for path in sorted(found, key=lambda path: str(path).lstrip("/")):
            key = path.lstrip("/").removeprefix(root)
            if key.startswith(prefix) and key > after:
                yield StoredObject(key, int(found[path]["size"]), _modified(found[path]))


def _translated(error: Exception, verb: str, key: str) -> NotFoundError | StorageError:
    if isinstance(error, _NOT_THERE):
        return NotFoundError(f"no such object. {key=}")
    return StorageError(f"could not {verb}. {key=} reason={type(error).__name__}")


def _modified(found: Mapping[str, Any]) -> float:
    """Return when it was stored, as far as the file system says; it only ages what is swept."""
    for name in ("created", "mtime", "last_modified", "LastModified"):
        time = found.get(name)
        if isinstance(time, datetime):
            return time.timestamp()
        if isinstance(time, int | float):
            return float(time)
    return 0.0
