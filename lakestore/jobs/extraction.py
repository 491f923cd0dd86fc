"""Making memories of the sessions of some users. Owns what is read, and the drafts that it leaves.

A task is a plain value that any process can run. What it makes it stores as a draft under a name
that follows from what it was made of, so that a rebuild which is run again finds what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from heapq import merge

import pyarrow as pa

from lakestore.adk.extracting import Extraction, Failure, Told
from lakestore.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
)
from lakestore.history.archive import EVENTS, MEMORY, Archive, Packed, Place
from lakestore.history.environment import Environment
from lakestore.jobs.batches import batches
from lakestore.jobs.running import Tell, unheard
from lakestore.lake import Lake
from lakestore.log.keys import SessionKey, app_drafts, app_manifests, draft_key
from lakestore.log.manifests import Manifest
from lakestore.storage import UnreadableError
from lakestore.tables import memory
from lakestore.tables.events import EventRow, event_time
from lakestore.tables.memory import MemoryRow
from lakestore.tables.parquet import open_parquet, read_groups, write_small
from lakestore.tables.runs import SessionRow
from lakestore.tables.thin import microseconds

_ATTEMPTS = 8
_SESSIONS_AT_ONCE = 64
_ROWS_IN_GROUP = 1_024


@dataclass(frozen=True, slots=True)
class Drafted:
    """What a task has made."""

    low: Place
    high: Place
    """Both as the task's."""
    key: str
    """The draft; "" for none, as nothing came of it."""
    sessions: int
    events: int
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractTask:
    """Sessions of one app of which memories are to be made."""

    app_name: str
    low: Place
    """The first session, by user and session."""
    high: Place
    """The last."""
    extraction: Extraction
    since: float | None
    """Only events after this time are looked at, in seconds since 1970 UTC."""
    resume: bool
    """Whether a draft that is there already will do."""
    size: int = 0
    """How many events are packed of them."""

    def run(self, lake: Lake, tell: Tell = unheard) -> Drafted:
        """Store a draft of what the sessions give; tell of events.

        Raises:
            StorageError: the store failed.
        """
        archive = lake.sessions.archive
        for _ in range(_ATTEMPTS):
            manifest = archive.newest(app_manifests(self.app_name))
            with suppress(NotFoundError):  # packed again, and swept: begin anew
                return self._run(lake, manifest, tell)
            lake.metrics.add("retries")
        raise StorageError(f"packs changed faster than they could be read. app={self.app_name!r}")

    def _run(self, lake: Lake, manifest: Manifest, tell: Tell) -> Drafted:
        env, archive = lake.environment, lake.sessions.archive
        files = manifest.table(EVENTS.name).runs
        found = archive.rows_in(EVENTS, self.app_name, files, self.low, self.high)
        rows = [row for row in found if row.alive]
        sessions, events = len(rows), sum(row.events for row in rows)
        name = self._digest(rows)
        if self.resume and (known := _latest_draft(env, self.app_name, name)):
            return Drafted(self.low, self.high, known, sessions, events)
        made: list[MemoryRow] = []
        failures: list[Failure] = []
        for told in self._told(archive, manifest, rows, failures):
            new, failed = self.extraction.run(told)
            made += new
            failures += failed
            tell(sum(len(each.rows) for each in told))
        key = ""
        if made:
            made.sort(key=MEMORY.place)
            # What failed is to be tried again. The token keeps apart what others make of the same.
            name = "partial" if failures else name
            key = draft_key(self.app_name, f"{name}-{env.new_token()}")
            with suppress(AlreadyExistsError):  # a reply was lost
                env.store.put_if_absent(key, _encode(made))
        return Drafted(self.low, self.high, key, sessions, events, tuple(failures))

    def _digest(self, rows: Iterable[SessionRow]) -> str:
        """Return what names a draft of these sessions, as they are, by this extraction."""
        digest = sha256(repr((self.extraction.name, self.since)).encode())
        for row in rows:
            facts = (row.user_id, row.session_id, row.version, row.token, row.events)
            digest.update(repr(facts).encode())
        return digest.hexdigest()[:32]

    def _told(
        self,
        archive: Archive,
        manifest: Manifest,
        rows: Sequence[SessionRow],
        failures: list[Failure],
    ) -> Iterator[list[Told]]:
        """Yield the sessions in portions that fit into memory; a user's at once if it must be.

        One that is damaged is passed over, and noted.
        """
        packed = [Packed(row, manifest) for row in rows]
        users: list[Told] = []
        for batch in batches(packed, lambda one: (one, 0), _SESSIONS_AT_ONCE):
            told = list(self._read(archive, batch, failures))
            if self.extraction.per == "session":
                yield told
                continue
            users += told
            last = users[-1].key.user_id if users else ""
            if whole := [one for one in users if one.key.user_id != last]:
                yield whole
                users = [one for one in users if one.key.user_id == last]
        if users:
            yield users

    def _read(
        self, archive: Archive, batch: Sequence[Packed], failures: list[Failure]
    ) -> Iterator[Told]:
        try:
            answers = archive.rows_of(batch, after=self.since)
        except (FormatError, UnreadableError) as error:
            if len(batch) > 1:
                for one in batch:
                    yield from self._read(archive, [one], failures)
                return
            row = batch[0].row
            failures.append(Failure(row.user_id, row.session_id, f"damaged: {error}"))
            return
        for one, rows in zip(batch, answers, strict=True):
            events = [row for row in rows if row.kind == "event" and self._is_wanted(row)]
            if events:
                key = SessionKey(self.app_name, one.row.user_id, one.row.session_id)
                yield Told(key, one.row.version, events)

    def _is_wanted(self, row: EventRow) -> bool:
        # To know its time the event is taken apart.
        return self.since is None or is_after(microseconds(event_time(row)), self.since)


def is_after(time: int | None, since: float | None) -> bool:
    """Tell whether a time in microseconds is after one in seconds, which is rounded as all are.

    Both since 1970 UTC; nothing is before None, and no unknown time is after another.
    """
    least = None if since is None else microseconds(since)
    return least is None or (time is not None and time > least)


def plan_extraction(
    archive: Archive,
    manifest: Manifest,
    user_id: str | None,
    like: ExtractTask,
    most: int,
) -> list[ExtractTask]:
    """Return tasks that together see every packed session of an app, or of one user, once.

    A user's sessions are in one task, but for very many of them, where sessions are looked at one
    by one. Where a task ends does not depend on those before it, so that a rebuild that is run
    again cuts where it cut before, as far as users are the same.

    Args:
        archive: Reads the manifest's runs.
        manifest: Says what is packed.
        user_id: The user, None for all.
        like: What is to be done with each.
        most: About how many events a task looks at; one user's may be more.
    """
    tasks: list[ExtractTask] = []
    part = _Part()
    for packed in archive.sessions(manifest, user_id):
        row = packed.row
        is_next = row.user_id != part.last[0]
        if part.users and (
            (is_next and part.is_full(most))
            or (like.extraction.per == "session" and part.events >= 4 * most)
        ):
            tasks.append(part.task(like))
            part = _Part()
        part.add(row)
    if part.users:
        tasks.append(part.task(like))
    return tasks


@dataclass(slots=True)
class _Part:
    """Sessions side by side."""

    low: Place = ("", "")
    last: Place = ("", "")
    users: int = 0
    events: int = 0

    def add(self, row: SessionRow) -> None:
        """Take one more."""
        place = (row.user_id, row.session_id)
        if not self.users:
            self.low = place
        self.users += not self.users or row.user_id != self.last[0]
        self.last = place
        self.events += row.events if row.alive else 0

    def is_full(self, most: int) -> bool:
        """Tell whether it ends with its last user: one in four does, if there is enough."""
        ends = sha256(self.last[0].encode()).digest()[0] % 4 == 0
        return self.events >= 4 * most or (ends and self.events >= most // 2)

    def task(self, like: ExtractTask) -> ExtractTask:
        return replace(like, low=self.low, high=self.last, size=self.events)


def drafted_rows(
    environment: Environment, drafts: Iterable[Drafted], stamp: str, now: int
) -> Iterator[MemoryRow]:
    """Yield the rows of drafts, whose sessions are apart, ascending by place.

    Args:
        environment: Where they are.
        drafts: In any order.
        stamp: That of all rows.
        now: When they are added, in microseconds since 1970 UTC.

    Raises:
        NotFoundError: one was deleted meanwhile.
        FormatError: one is damaged.
        StorageError: the store failed.
    """
    read = partial(_rows_in, environment, stamp, now)
    together: list[Drafted] = []
    for drafted in sorted(drafts, key=lambda one: one.low):
        if together and together[-1].high[0] != drafted.low[0]:
            yield from _merged(read, together)
            together = []
        together.append(drafted)
    yield from _merged(read, together)


def check_drafts(environment: Environment, drafts: Iterable[Drafted]) -> None:
    """Refuse to go on where a draft was deleted meanwhile.

    Raises:
        ConflictError: one was, by the erasure of a user, or by a sweep after a week.
        StorageError: the store failed.
    """
    for drafted in drafts:
        try:
            if drafted.key:
                environment.store.size(drafted.key)
        except NotFoundError:
            raise ConflictError(
                "what a rebuild has made was deleted meanwhile, by an erasure or a sweep: run it"
                f" again with resume=True. key={drafted.key!r}"
            ) from None


def _merged(
    read: Callable[[str], Iterator[MemoryRow]], drafts: Sequence[Drafted]
) -> Iterator[MemoryRow]:
    """Yield the rows of drafts that may have rows of one user."""
    streams = [read(drafted.key) for drafted in drafts if drafted.key]
    return streams[0] if len(streams) == 1 else merge(*streams, key=MEMORY.place)


def _rows_in(environment: Environment, stamp: str, now: int, key: str) -> Iterator[MemoryRow]:
    file = open_parquet(environment.store.get(key), memory.SCHEMA)
    for group in range(file.num_row_groups):
        table = read_groups(file, [group])
        for name, value in (("stamp", stamp), ("inserted_at", now)):
            column = pa.array([value] * table.num_rows, memory.SCHEMA.field(name).type)
            number = memory.SCHEMA.get_field_index(name)
            table = table.set_column(number, memory.SCHEMA.field(name), column)
        yield from memory.from_table(table)


def _latest_draft(environment: Environment, app_name: str, name: str) -> str:
    """Return the key of the youngest draft of what a name is a digest of, "" for none."""
    drafts = environment.store.list(f"{app_drafts(app_name)}{name}-")
    return max(((one.modified, one.key) for one in drafts), default=(0.0, ""))[1]


def _encode(rows: Sequence[MemoryRow]) -> bytes:
    """Return a draft, which is read once: nothing is spent on making it small."""
    return write_small(memory.to_table(rows), group_rows=_ROWS_IN_GROUP)
