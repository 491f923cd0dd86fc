"""Logs: dense sequences of commits, each created exclusively under the next version.

Owns how a commit is created and how a log's names are read. What rows mean, and when a commit must
be confirmed by loading, is decided above.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from threading import Lock
from typing import Literal

from lakestore.clock import Clock
from lakestore.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    UnknownOutcomeError,
)
from lakestore.log.keys import (
    ARTIFACT_LOGS,
    commit_key,
    is_log_folder,
    log_of,
    may_hold_logs,
    parse_log_name,
)
from lakestore.storage import Metrics, NotDurableError, ObjectStore, UnreadableError

logger = logging.getLogger(__name__)

_MARKER = re.compile(r"([0-9]{1,20}):([0-9a-f]+)")
_MARKERS_REMEMBERED = 65_536
_ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Marker:
    """The last commit that a caller knows, and when that was last confirmed."""

    version: int
    """0 before the first commit."""
    token: str
    """The commit's random token, empty before the first."""
    seen: float | None
    """`Clock.elapsed` when it was known to be the last; None when that cannot be told."""


class Confirmations:
    """When each marker that was handed out was last confirmed, by this process's clock.

    A marker travels as a text, `<version>:<token>`, that is the same for everyone who holds it.
    What is not remembered here, having come from elsewhere or long ago, counts as old.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: OrderedDict[tuple[str, int, str], float] = OrderedDict()

    def text(self, log: str, marker: Marker) -> str:
        """Return the marker of the log with prefix `log` as a text, and remember its time."""
        if marker.seen is not None:
            place = (log, marker.version, marker.token)
            with self._lock:
                self._seen[place] = max(marker.seen, self._seen.get(place, 0.0))
                self._seen.move_to_end(place)
                if len(self._seen) > _MARKERS_REMEMBERED:
                    self._seen.popitem(last=False)
        return f"{marker.version}:{marker.token}"

    def parse(self, log: str, text: object) -> Marker | None:
        """Return the marker that `text` holds, None when it is not one of ours."""
        match = _MARKER.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            return None
        version, token = int(match[1]), match[2]
        # A session that was copied under other ids has a marker of another log: it is not known.
        return Marker(version, token, self._seen.get((log, version, token)))

    def forget(self) -> None:
        """Let every marker count as old."""
        with self._lock:
            self._seen.clear()


@dataclass(slots=True)
class LogFiles:
    """The versions that a listing of one log shows, ascending."""

    commits: list[int] = field(default_factory=list)
    rollups: list[int] = field(default_factory=list)
    unreadable: UnreadableError | None = field(default=None, compare=False)
    """Why it is not known what the log holds."""

    def without_rollups(self, versions: Collection[int]) -> LogFiles:
        """Return the same without some rollups."""
        return LogFiles(self.commits, [v for v in self.rollups if v not in versions])

    @property
    def newest_rollup(self) -> int | None:
        """The newest rollup that counts: one whose commit is still there."""
        there = set(self.commits)
        return next((version for version in reversed(self.rollups) if version in there), None)

    def above(self, version: int) -> tuple[list[int], bool]:
        """Return the versions that follow `version` without a gap, and whether one comes after."""
        later = [commit for commit in self.commits if commit > version]
        dense = [v for offset, v in enumerate(later, start=1) if v == version + offset]
        return dense, len(dense) < len(later)


def list_logs(
    store: ObjectStore, prefix: str, after: str = "", last: str = ""
) -> Iterator[tuple[str, LogFiles]]:
    """Yield (prefix of the log, its files) for each log under `prefix`, by one listing.

    Only files whose keys come after `after`, and logs up to `last`, if it is given. A log that
    cannot be listed is yielded too, and says so: it must not hide the others.

    Raises:
        UnreadableError: a folder of many logs cannot be listed, so that nobody knows which.
        StorageError: the store failed.
    """
    closed: list[UnreadableError] = []
    keys = _names(store, prefix, after, closed)
    if last:
        keys = takewhile(lambda key: key.startswith(last) or key < last, keys)
    logs = dict(_logs(keys))
    for error in closed:
        for key in error.keys:
            log = log_of(key)
            if log is None and may_hold_logs(key):
                raise error
            if log is not None and (key == log or _is_in_log(key.removeprefix(log))):
                logs.setdefault(log, LogFiles()).unreadable = error
    return iter(logs.items())


def _is_in_log(below: str) -> bool:
    """Tell whether a commit or rollup is at a path below a log's prefix, or was to be."""
    return parse_log_name(below.split("/")[0]) is not None


def first_log(store: ObjectStore, prefix: str) -> str | None:
    """Return the prefix of the first log under `prefix`, None when there is none.

    Raises:
        StorageError: the store failed.
    """
    return next((log for log, _ in _logs(store.names(prefix))), None)


def count_commits(store: ObjectStore, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield (prefix of the log, number of commits) for each session log, by one listing.

    Log by log, however many there are; what is in folders that are closed to us is left out.

    Raises:
        UnreadableError: a folder of many logs cannot be listed, so that nobody knows which.
        StorageError: the store failed.
    """
    closed: list[UnreadableError] = []
    for log, files in _logs(_names(store, prefix, "", closed)):
        yield log, len(files.commits)
    for error in closed:
        if any(log_of(key) is None and may_hold_logs(key) for key in error.keys):
            raise error


def _names(
    store: ObjectStore, prefix: str, after: str, closed: list[UnreadableError]
) -> Iterator[str]:
    try:
        yield from store.names(prefix, after)
    except UnreadableError as error:
        closed.append(error)


def _logs(keys: Iterable[str]) -> Iterator[tuple[str, LogFiles]]:
    current, files = "", LogFiles()
    for key in keys:
        folder, _, name = key.rpartition("/")
        if folder != current:
            if is_log_folder(current + "/") and folder.startswith(current + "/"):
                continue  # a stray's folder within a log
            if files.commits or files.rollups:
                yield current + "/", files
            current, files = folder, LogFiles()
        parsed = parse_log_name(name) if is_log_folder(folder + "/") else None
        if parsed is not None:
            version, is_rollup = parsed
            (files.rollups if is_rollup else files.commits).append(version)
    if files.commits or files.rollups:
        yield current + "/", files


def list_log(store: ObjectStore, log: str, above: int = 0) -> LogFiles:
    """Return the files of the log with prefix `log`, none when there is no such log.

    Those below version `above` are left out, its commit too.

    Raises:
        StorageError: the store failed, or what the log holds cannot be told.
    """
    listed = list_logs(store, log, commit_key(log, above) if above else "")
    files = next((files for found, files in listed if found == log), LogFiles())
    if files.unreadable is not None:
        raise files.unreadable
    return files


def put_commit(
    store: ObjectStore,
    key: str,
    body: bytes,
    *,
    is_ours: Callable[[bytes], bool],
    clock: Clock,
    metrics: Metrics,
) -> bytes | None:
    """Create the commit `key`; return None when it stands, else the other writer's bytes under it.

    A refusal is believed only after reading the object back: clients resend, and collide with
    themselves. When the outcome is not known and nothing is there, the same bytes are sent again
    under the same key, with a growing pause.

    Raises:
        UnknownOutcomeError: the commit may have landed, or may still.
        StorageError: it did not land.
    """
    in_doubt = False
    for _ in attempts(clock, metrics):
        outcome = _send(store, key, body, in_doubt=in_doubt)
        if outcome == "created":
            return None
        in_doubt = in_doubt or outcome == "unknown"
        there = _read_back(store, key)
        if there is not None and is_ours(there):
            return None
        if there is not None:
            metrics.add("conflicts")
            return there
    raise unknown(key)


def attempts(clock: Clock, metrics: Metrics) -> Iterator[None]:
    """Yield as often as what may have landed is sent again, with growing pauses between."""
    yield
    for number in range(_ATTEMPTS - 1):
        metrics.add("retries")
        clock.sleep(_FIRST_PAUSE_SECONDS * 4**number)
        yield


def _send(
    store: ObjectStore, key: str, body: bytes, *, in_doubt: bool
) -> Literal["created", "refused", "unknown"]:
    try:
        store.put_if_absent(key, body)
    except AlreadyExistsError:
        return "refused"
    except NotDurableError:  # to read it back tells nothing
        raise
    except UnknownOutcomeError:
        logger.warning("outcome of a commit is not known, reading it back. key=%r", key)
        return "unknown"
    except StorageError as error:
        if not in_doubt:
            raise
        raise unknown(key) from error
    return "created"


def _read_back(store: ObjectStore, key: str) -> bytes | None:
    """Return what stands under a key that was refused or is in doubt, None when nothing does."""
    try:
        return store.get(key)
    except NotFoundError:
        return None
    except StorageError as error:
        raise unknown(key) from error


def unknown(key: str) -> UnknownOutcomeError:
    """Return the error for a commit of which nobody can tell now whether it stands as a whole."""
    again = "to send the same once more is safe, and it is stored once"
    if key.startswith(ARTIFACT_LOGS):
        again = "list the versions that there are before saving it once more"
    return UnknownOutcomeError(
        f"the store failed, and the commit may have landed or may still: {again}. {key=}"
    )


@contextmanager
def standing(key: str) -> Iterator[None]:
    """Say of whatever fails once a commit was created that its outcome is not known."""
    try:
        yield
    except UnknownOutcomeError:
        raise
    except StorageError as error:  # the commit stands, and is more than nothing
        raise unknown(key) from error


def probe(store: ObjectStore, log: str, version: int) -> bytes | None:
    """Return the bytes of the commit of that version, None when it is not there."""
    try:
        return store.get(commit_key(log, version))
    except NotFoundError:
        return None
