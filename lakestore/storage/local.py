"""A folder as a store. Owns exclusive creation and durability on a local file system.

fsspec's local `mode="create"` lets several racers win and its `xb` shows half-written files, so
this store calls the operating system itself: write aside, fsync, link, fsync the folder.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from typing_extensions import override

from lakestore.clock import NewToken, new_token
from lakestore.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    UnsupportedStoreError,
)
from lakestore.storage.aside import ASIDE, Aside, sweep_aside
from lakestore.storage.store import (
    ObjectStore,
    StoredObject,
    UnreadableError,
    check_body,
    check_range,
)
from lakestore.storage.uploads import NotDurableError, Upload

_NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_CANNOT_LINK = (errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK)
_ITS_OWN = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.EIO)
"""Errors that tell something of one file or folder, and nothing of the others."""
_FOLDERS_REMEMBERED = 16_384
_DEEPEST = 16
_LINKS = 3


class LocalStore(ObjectStore):
    """Objects as files below a folder, which is made when the first object is.

    Folders stay when they are empty, but for those that `clear_folders` is told of. Half-written
    files live in `.tmp/`, which no listing shows; those of killed writers go when a later process
    first writes.
    """

    near = True

    def __init__(self, root: str | Path, *, new_token: NewToken = new_token) -> None:
        self._root = os.path.abspath(root)
        self._prefix = self._root.rstrip(os.sep) + os.sep
        self._new_token = new_token
        self.url = Path(self._root).as_posix()
        # Folders whose own entry this process has made durable, oldest use first.
        self._durable: OrderedDict[str, None] = OrderedDict()
        self._grace: float | None = None

    @override
    def put_if_absent(self, key: str, body: bytes) -> None:
        check_body(key, body)
        self.open_upload(key, "").whole(body)

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        return _Upload(self, key)

    def _open_aside(self, key: str) -> Aside:
        try:
            return Aside(self._prefix, self._new_token, self._make_folder)
        except OSError as error:
            raise _failed("write", key, error) from error

    def _publish(self, aside: Aside, key: str) -> None:
        """Give what was written aside its name, durably, and see to leftovers of others."""
        path = self._path(key)
        try:
            self._link(aside.path, path, key)
        finally:
            aside.remove()
        _make_durable(os.path.dirname(path), key)
        if self._grace is not None:
            grace, self._grace = self._grace, None
            sweep_aside(self._prefix, path, grace)

    @override
    def uri(self, key: str) -> str:
        return f"file://{Path(self._path(key)).as_posix()}"

    @override
    def clear_leftovers(self, grace: float) -> None:
        self._grace = grace

    @override
    def clear_folders(self, prefix: str) -> None:
        for folder, _, _ in os.walk(self._path(prefix.rstrip("/")), topdown=False):
            with suppress(OSError):  # it is not empty, or not ours to remove
                os.rmdir(folder)
                self._durable.pop(folder, None)

    def _link(self, aside: str, path: str, key: str) -> None:
        """Give a file its name.

        Its folder may be empty, and go as soon as it is made: it is made once more, with all that
        may have gone with it.
        """
        for attempt in range(1, _LINKS + 1):
            try:
                self._link_once(aside, path, key)
                return
            except _NOT_THERE as error:
                if attempt == _LINKS:
                    raise _failed("write", key, error) from error
                self._durable.clear()

    def _link_once(self, aside: str, path: str, key: str) -> None:
        folder = os.path.dirname(path)
        try:
            if folder not in self._durable or not os.path.isdir(folder):
                self._make_folder(folder)
        except _NOT_THERE:
            raise
        except OSError as error:
            raise _failed("make the folder of", key, error) from error
        try:
            os.link(aside, path)
        except FileExistsError:
            # Who believes in what is there acknowledges it, perhaps before its creator has.
            _make_durable(folder, key)
            raise AlreadyExistsError(f"the name is taken. {key=}") from None
        except _NOT_THERE:
            raise
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise _failed("write", key, error) from error
            raise UnsupportedStoreError(
                "this file system cannot create a file exclusively (no hard links);"
                f" use a folder on another one. url={self.url!r} reason={error}"
            ) from error

    def _make_folder(self, folder: str) -> None:
        """Make the folder and see to it that it survives a crash, whoever made it.

        Of the folders above the root only those that had to be made: others are not ours.
        """
        parent = os.path.dirname(folder)
        if folder != parent:
            within = len(folder) > len(self._root) and parent not in self._durable
            if within or not os.path.isdir(parent):
                self._make_folder(parent)
        with suppress(FileExistsError):
            os.mkdir(folder)
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, "a file stands in place of a folder", folder)
        _fsync_folder(parent)
        self._durable[folder] = None
        while len(self._durable) > _FOLDERS_REMEMBERED:
            self._durable.popitem(last=False)

    @override
    def get(self, key: str) -> bytes:
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                return file.read()
        except _NOT_THERE:
            raise NotFoundError(f"no such object. {key=}") from None
        except OSError as error:
            raise _failed("read", key, error) from error

    @override
    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(start, length)
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                there = os.fstat(file.fileno()).st_size - start
                file.seek(start)
                return file.read(max(0, min(length, there)))
        except _NOT_THERE:
            raise NotFoundError(f"no such object. {key=}") from None
        except OSError as error:
            raise _failed("read", key, error) from error

    @override
    def size(self, key: str) -> int:
        try:
            found = os.stat(self._path(key))
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(key)
            return found.st_size
        except _NOT_THERE:
            raise NotFoundError(f"no such object. {key=}") from None
        except OSError as error:
            raise _failed("read", key, error) from error

    @override
    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        for key in self.names(prefix, after):
            try:
                found = os.stat(self._path(key))
            except _NOT_THERE:  # deleted since the folder was read
                continue
            except OSError as error:
                raise _failed("list", prefix, error) from error
            # Its bytes were written before it got its name; only the latter's time tells its age.
            yield StoredObject(key, found.st_size, max(found.st_mtime, found.st_ctime))

    @override
    def names(self, prefix: str, after: str = "") -> Iterator[str]:
        folder, _, _ = prefix.rpartition("/")
        closed: dict[str, OSError] = {}
        try:
            yield from self._walk(folder + "/" if folder else "", prefix, after, closed)
        except OSError as error:
            raise _failed("list", prefix, error) from error
        for key, reason in closed.items():
            raise UnreadableError(f"could not list. {key=} {reason=!s}", *closed) from reason

    def _walk(
        self, folder: str, prefix: str, after: str, closed: dict[str, OSError]
    ) -> Iterator[str]:
        for name in self._names_in(folder, closed):
            key = folder + name
            if not (key.startswith(prefix) or prefix.startswith(key)) or key == ASIDE + "/":
                continue
            if not name.endswith("/"):
                if key > after and key.startswith(prefix):
                    yield key
            # Keys below sort right after the folder's own name, so one comparison skips it. What
            # is deeper than any key of ours is a link that leads back.
            elif (key >= after or after.startswith(key)) and key.count("/") < _DEEPEST:
                yield from self._walk(key, prefix, after, closed)

    def _names_in(self, folder: str, closed: dict[str, OSError]) -> Sequence[str]:
        """Return what is in `folder`, in order; note in `closed` when that cannot be read."""
        try:
            with os.scandir(self._path(folder)) as found:
                return sorted(name for entry in found if (name := _listed_name(entry)))
        except _NOT_THERE:
            pass
        except OSError as error:
            if error.errno not in _ITS_OWN:
                raise
            closed[folder] = error
        return ()

    @override
    def delete(self, key: str) -> None:
        try:
            os.unlink(self._path(key))
        except _NOT_THERE:
            return
        except OSError as error:
            raise _failed("delete", key, error) from error

    def _path(self, key: str) -> str:
        return self._prefix + key


def _failed(verb: str, key: str, error: OSError) -> StorageError:
    text = f"could not {verb}. {key=} reason={error}"
    if verb == "read" and error.errno in _ITS_OWN:
        return UnreadableError(text, key)
    return StorageError(text)


def _listed_name(entry: os.DirEntry[str]) -> str:
    """Return the name, with a slash if it is a folder's; "" for a link that leads nowhere."""
    if entry.is_symlink():
        try:
            entry.stat()
        except _NOT_THERE:
            return ""
        except OSError:  # what it leads to is closed to us; to open it as a folder will tell
            return entry.name + "/"
    return entry.name + "/" if entry.is_dir() else entry.name


def _make_durable(folder: str, key: str) -> None:
    """See to it that what stands in a folder survives a crash of the machine.

    Raises:
        NotDurableError: nobody knows whether it does.
    """
    try:
        with suppress(*_NOT_THERE):  # deleted since, and its folder, too
            _fsync_folder(folder)
    except OSError as error:
        raise NotDurableError(
            f"written, but the folder could not be made durable. {key=} reason={error}"
        ) from error


def _fsync_folder(folder: str) -> None:
    if os.name == "nt":  # Windows cannot open a folder; NTFS journals the entry itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Upload(Upload):
    """A file that is written aside, and given its name at the end."""

    def __init__(self, store: LocalStore, key: str) -> None:
        self._store = store
        self._key = key
        self._aside: Aside | None = None

    @override
    def whole(self, body: bytes) -> None:
        self.begin()
        self.add(body)
        self.finish()

    @override
    def begin(self) -> None:
        self._aside = self._store._open_aside(self._key)

    @override
    def add(self, part: bytes) -> None:
        self._write(lambda aside: aside.write(part))

    @override
    def finish(self) -> None:
        aside = self._write(Aside.sync)
        self._aside = None
        self._store._publish(aside, self._key)

    def _write(self, write: Callable[[Aside], None]) -> Aside:
        """Write to the file, which is there; it goes when that fails."""
        aside = self._aside
        assert aside is not None
        try:
            write(aside)
        except BaseException as error:
            self.abort()
            if isinstance(error, OSError):
                raise _failed("write", self._key, error) from error
            raise
        return aside

    @override
    def abort(self) -> None:
        if self._aside is not None:
            self._aside.remove()
            self._aside = None
