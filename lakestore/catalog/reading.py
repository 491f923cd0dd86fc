"""Reading what is new in the lake's session logs. Owns when what was read counts.

What a listing means for one log is decided in `lakestore.catalog.plan`; where the rows go is the
caller's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix

import pyarrow as pa

from lakestore.catalog.decoding import complete, decode
from lakestore.catalog.packs import Packs
from lakestore.catalog.plan import Tail, Wanted, in_chunks, tail_of
from lakestore.catalog.source import Source
from lakestore.errors import FormatError, LakeError, NotFoundError, StorageError
from lakestore.log.commits import list_logs
from lakestore.log.keys import EVENT_LOGS
from lakestore.storage import UnreadableError

logger = logging.getLogger(__name__)

_ATTEMPTS = 8
_CHUNK_WEIGHT = 1024


@dataclass(slots=True)
class Known:
    """What earlier passes found, by log."""

    versions: dict[str, int] = field(default_factory=dict)
    """Up to which all rows are in."""
    gaps: dict[str, int] = field(default_factory=dict)
    """The version that the last listing missed below others."""
    damaged: set[str] = field(default_factory=set)
    """Logs that could not be listed, or whose next object could not be read."""


class Reading:
    """One pass over all logs, from the versions that are known to the newest."""

    def __init__(
        self, source: Source, packs: Packs, known: Known, take: Callable[[pa.Table], None]
    ) -> None:
        """Begin a pass.

        Args:
            source: Where the logs are.
            packs: Brings what jobs have packed up to date.
            known: What earlier passes found; the pass keeps gaps and damage up to date, and
                leaves the versions to the caller.
            take: Is given all new rows, each log's in its order.
        """
        self._source = source
        self._packs = packs
        self._known = known
        self._take = take
        self._reached: dict[str, int] = {}
        self._suspects = set(known.damaged)
        self._objects = 0
        known.damaged.clear()

    def run(self) -> dict[str, int]:
        """Read everything that is new; return the versions that were reached, by log.

        Raises:
            StorageError: the store failed, or logs changed faster than they could be read.
        """
        unsettled: set[str] | None = None
        failures = 0
        while failures < _ATTEMPTS:
            before = self._objects
            unsettled = self._round(unsettled)
            if not unsettled:
                return self._reached
            self._source.metrics.add("retries")
            failures = 0 if self._objects > before else failures + 1
        raise StorageError(
            f"logs changed faster than they could be read. one={min(unsettled or ())!r}"
        )

    def _round(self, only: set[str] | None) -> set[str]:
        """List logs (None: all) and read what is new; return those that must be listed again."""
        started = self._source.clock.elapsed()
        tails = self._list(only)
        again = self._note_gaps(tails)
        wanted = [one for tail in tails.values() for one in tail.wanted]
        vanished: set[str] = set()
        for chunk in in_chunks(wanted, _CHUNK_WEIGHT):
            stopped = vanished | self._known.damaged
            todo = [one for one in chunk if one.log not in stopped]
            read = self._source.pool.map(self._fetch, todo, near=self._source.store.near)
            if self._source.clock.elapsed() - started >= self._source.limits.view_age:
                # Commits may have been swept, and others have landed late under their versions.
                return again | {one.log for one in wanted if self._is_unread(one)}
            vanished |= self._accept(list(zip(todo, read, strict=True)))
        recovered = self._suspects & self._reached.keys()
        self._suspects -= recovered
        return again | vanished | recovered

    def _list(self, only: set[str] | None) -> dict[str, Tail]:
        # One listing for all of them, however much of it is others'.
        prefix = EVENT_LOGS if only is None else commonprefix(sorted(only))  # noqa: RUF071
        logs = list(list_logs(self._source.store, prefix))
        # Only now: what is packed and swept between the two is in the newer one.
        self._packs.follow()
        listed = [(log, files) for log, files in logs if not self._packs.hides(log)]
        self._forget_hidden()
        ahead = [log for log, files in listed if files.commits[-1:] > [self._version(log)]]
        self._reached.update(
            (log, version)
            for log, version in self._packs.versions(ahead).items()
            if version > self._version(log)
        )
        tails = {}
        for log, files in listed:
            if files.unreadable is not None:
                if log not in self._known.damaged:
                    self._note_damage(log, log, files.unreadable)
            elif only is None or log in only:
                tail = tail_of(log, files, self._version(log))
                if tail is not None:
                    # What was damaged mostly still is: what follows it is not fetched in vain.
                    few = tail.wanted[:1] if log in self._suspects else tail.wanted
                    tails[log] = Tail(few, tail.gap)
        return tails

    def _forget_hidden(self) -> None:
        """Begin anew with the logs of apps of which nothing is shown, once they are shown again."""
        if self._packs.hidden:
            for log in {*self._known.versions, *self._reached}:
                if self._packs.hides(log):
                    self._reached[log] = 0
            self._suspects = {log for log in self._suspects if not self._packs.hides(log)}

    def _note_gaps(self, tails: Mapping[str, Tail]) -> set[str]:
        """Return the logs with a gap that the listing before did not show.

        Such a gap may be a sweep's doing. What is above one that is still there was refused.
        """
        new = set()
        for log, tail in tails.items():
            if tail.gap is None:
                self._known.gaps.pop(log, None)
            elif self._known.gaps.get(log) != tail.gap:
                self._known.gaps[log] = tail.gap
                new.add(log)
        return new

    def _fetch(self, one: Wanted) -> pa.Table | NotFoundError | FormatError | UnreadableError:
        try:
            return decode(one, self._source.store.get(one.key))
        except (NotFoundError, FormatError, UnreadableError) as error:
            return error

    def _accept(self, read: Sequence[tuple[Wanted, pa.Table | LakeError]]) -> set[str]:
        """Hand on what was read; return the logs of which an object was not there any more."""
        vanished: set[str] = set()
        good: list[tuple[Wanted, pa.Table]] = []
        for one, found in read:
            if one.log in vanished or one.log in self._known.damaged:
                continue
            if isinstance(found, NotFoundError):
                vanished.add(one.log)
            elif isinstance(found, FormatError | UnreadableError):
                self._note_damage(one.log, one.key, found)
            else:
                good.append((one, found))
        if good:
            self._hand_on(good)
        return vanished

    def _hand_on(self, good: Sequence[tuple[Wanted, pa.Table]]) -> None:
        try:
            rows = complete(good)
        except FormatError:
            good = [pair for pair in good if self._is_sound(*pair)]
            if not good:
                return
            rows = complete(good)
        self._take(rows)
        self._objects += len(good)
        for one, _ in good:
            self._reached[one.log] = one.version

    def _is_sound(self, one: Wanted, table: pa.Table) -> bool:
        if one.log in self._known.damaged:
            return False
        try:
            complete([(one, table)])
        except FormatError as error:
            self._note_damage(one.log, one.key, error)
            return False
        return True

    def _note_damage(self, log: str, key: str, error: FormatError | UnreadableError) -> None:
        known = log in self._suspects
        self._known.damaged.add(log)
        logger.log(
            logging.DEBUG if known else logging.ERROR,
            "a session cannot be read; what it has from here on is not shown. key=%r reason=%s",
            key,
            error,
        )

    def _is_unread(self, one: Wanted) -> bool:
        return one.log not in self._known.damaged and self._version(one.log) < one.version

    def _version(self, log: str) -> int:
        return self._reached.get(log, self._known.versions.get(log, 0))
