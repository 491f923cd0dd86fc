"""Files that are being written beside a folder's objects, in `.tmp/`. Owns their names and ends."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress

from lakestore.clock import NewToken

logger = logging.getLogger(__name__)

ASIDE = ".tmp"
_NAME = re.compile(r"[0-9]+-[0-9a-f]+")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class Aside:
    """One file that is being written, and that no listing shows."""

    def __init__(
        self, root: str, new_token: NewToken, make_folder: Callable[[str], object]
    ) -> None:
        """Create it below `root`, which ends with a separator; `make_folder` makes one durably.

        Raises:
            OSError: it cannot be.
        """
        folder = root + ASIDE
        self.path = os.path.join(folder, f"{os.getpid()}-{new_token()}")
        try:
            descriptor = os.open(self.path, _CREATE, 0o666)
        except FileNotFoundError:
            make_folder(folder)
            descriptor = os.open(self.path, _CREATE, 0o666)
        self._file = open(descriptor, "wb", buffering=0)  # noqa: SIM115 - `sync` or `remove` ends it

    def write(self, body: bytes) -> None:
        """Append to it.

        Raises:
            OSError: the disk is full, or fails.
        """
        rest = memoryview(body)
        while rest:
            rest = rest[self._file.write(rest) :]

    def sync(self) -> None:
        """Make its bytes durable; nothing more can be written.

        Raises:
            OSError: the disk fails.
        """
        with self._file:
            os.fsync(self._file.fileno())

    def remove(self) -> None:
        """Remove it; an object that was linked to it stays."""
        self._file.close()
        try:
            os.unlink(self.path)
        except OSError:  # the object stands all the same
            logger.warning("a file that was written aside could not be removed. path=%r", self.path)


def sweep_aside(root: str, created: str, grace: float) -> None:
    """Remove files that were last written more than `grace` seconds before `created` was.

    A writer that still holds one has stalled for longer than it may, and fails when it links.
    """
    try:
        latest = os.stat(created).st_mtime - grace
        with os.scandir(root + ASIDE) as found:
            for entry in found:
                with suppress(OSError):  # another process was quicker, or it is not ours
                    ours = _NAME.fullmatch(entry.name)
                    if ours and entry.stat(follow_symlinks=False).st_mtime < latest:
                        os.unlink(entry.path)
    except OSError as error:  # what was to be written stands; another process will try again
        logger.info("leftovers could not be removed. url=%r reason=%s", root, error)
