"""A folder as a store. Owns exclusive creation and durability on a local file system.

fsspec's local `mode="create"` lets several racers win and its `xb` shows half-written files, so
this store calls the operating system itself: write aside, fsync, link, fsync the folder.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from typing_extensions import override

from lakestore.clock import NewToken, new_token
from lakestore.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    UnknownOutcomeError,
    UnsupportedStoreError,
)
from lakestore.storage.store import (
    ObjectStore,
    StoredObject,
    UnreadableError,
    check_body,
    check_range,
)

logger = logging.getLogger(__name__)

_ASIDE = ".tmp"
_ASIDE_NAME = re.compile(r"[0-9]+-[0-9a-f]+")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_CANNOT_LINK = (errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK)
_ITS_OWN = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.EIO)
"""Errors that tell something of one file or folder, and nothing of the others."""
_FOLDERS_REMEMBERED = 16_384
_DEEPEST = 16


class LocalStore(ObjectStore):
    """Objects as files below a folder, which is made when the first object is.

    Folders are never removed and half-written files live in `.tmp/`, which no listing shows; those
    of killed writers go when a later process first writes.
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
        path = self._path(key)
        try:
            aside = self._write_aside(body)
        except OSError as error:
            raise _failed("write", key, error) from error
        try:
            self._link(aside, path, key)
        finally:
            _tidy(aside)
        try:
            _fsync_folder(os.path.dirname(path))
        except OSError as error:
            raise UnknownOutcomeError(
                f"written, but the folder could not be made durable. {key=} reason={error}"
            ) from error
        if self._grace is not None:
            grace, self._grace = self._grace, None
            self._sweep_aside(path, grace)

    @override
    def clear_leftovers(self, grace: float) -> None:
        self._grace = grace

    def _sweep_aside(self, created: str, grace: float) -> None:
        """Remove files written aside more than `grace` seconds before `created` was.

        A writer that still holds one has stalled for longer than it may, and fails when it links.
        """
        try:
            latest = os.stat(created).st_mtime - grace
            with os.scandir(self._prefix + _ASIDE) as found:
                for entry in found:
                    ours = _ASIDE_NAME.fullmatch(entry.name)
                    if ours and entry.stat(follow_symlinks=False).st_mtime < latest:
                        with suppress(OSError):  # another process was quicker, or it is not ours
                            os.unlink(entry.path)
        except OSError as error:  # what was to be written stands; another process will try again
            logger.info("leftovers could not be removed. url=%r reason=%s", self.url, error)

    def _write_aside(self, body: bytes) -> str:
        folder = self._prefix + _ASIDE
        path = os.path.join(folder, f"{os.getpid()}-{self._new_token()}")
        try:
            descriptor = os.open(path, _CREATE, 0o666)
        except FileNotFoundError:
            self._make_folder(folder)
            descriptor = os.open(path, _CREATE, 0o666)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                rest = memoryview(body)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(descriptor)
        except BaseException:
            os.unlink(path)
            raise
        return path

    def _link(self, aside: str, path: str, key: str) -> None:
        folder = os.path.dirname(path)
        try:
            if folder not in self._durable or not os.path.isdir(folder):
                self._make_folder(folder)
        except OSError as error:
            raise _failed("make the folder of", key, error) from error
        try:
            os.link(aside, path)
        except FileExistsError:
            # Who believes in what is there acknowledges it, perhaps before its creator has.
            _fsync_folder(folder)
            raise AlreadyExistsError(f"the name is taken. {key=}") from None
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
            yield StoredObject(key, found.st_size, found.st_mtime)

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
            if not (key.startswith(prefix) or prefix.startswith(key)) or key == _ASIDE + "/":
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


def _tidy(aside: str) -> None:
    try:
        os.unlink(aside)
    except OSError:  # the object stands all the same
        logger.warning("a file that was written aside could not be removed. path=%r", aside)


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


def _fsync_folder(folder: str) -> None:
    if os.name == "nt":  # Windows cannot open a folder; NTFS journals the entry itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
