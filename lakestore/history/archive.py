"""What jobs have packed: the newest manifest of an app, and rows from the runs and packs it names.

Owns which ranges of which objects are read. An object that a manifest names may be swept once that
manifest is superseded and old: reading it then raises `NotFoundError`, and the reader begins again
with a newer one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.history.erased import is_erased, stand_in
from lakestore.log.keys import Scope, SessionKey, log_digest, pack_key, parse_log, run_key
from lakestore.log.manifests import Manifest, StoredFile, newest_manifest
from lakestore.tables import erased, events, runs, state
from lakestore.tables.erased import ErasedRow
from lakestore.tables.events import EventRow
from lakestore.tables.parquet import (
    Footer,
    Pieces,
    TypedFile,
    open_parquet,
    read_footer,
    read_groups,
)
from lakestore.tables.runs import Segment, SessionRow
from lakestore.tables.state import StateRow

R = TypeVar("R")

Place = tuple[str, str]
"""Where a row is in the order of a run: user ("" for none) and session, or key."""

_READ_BYTES = 8 * 2**20
_FIRST = ("", "")
_LAST = "\U0010ffff" * 8
LAST: Place = (_LAST, _LAST)
"""After every row of a run."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[R]):
    """A table whose runs are sorted by user and one more text."""

    name: str
    schema: pa.Schema
    to_table: Callable[[Sequence[R]], pa.Table]
    from_table: Callable[[pa.Table], list[R]]
    place: Callable[[R], Place]


EVENTS = Kind(
    "events",
    runs.SCHEMA,
    runs.to_table,
    runs.from_table,
    lambda row: (row.user_id, row.session_id),
)
"""Sessions: its runs say what is packed of each, its packs hold the rows."""
STATE = Kind(
    "state",
    state.SCHEMA,
    state.to_table,
    state.from_table,
    lambda row: (row.user_id or "", row.key),
)
"""Shared state: runs only."""
ERASED = Kind(
    "erased", erased.SCHEMA, erased.to_table, erased.from_table, lambda row: ("", row.digest)
)
"""Sessions that were erased: runs only, without names."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What is packed of one session, and the manifest that says so."""

    row: SessionRow
    """Without user and session where a digest in a key is all that is known of an erased one."""
    manifest: Manifest
    erased: bool = False
    """Whether runs know it by a digest only: then it is as a deleted one."""

    @property
    def key(self) -> SessionKey:
        """The session."""
        return SessionKey(self.row.app_name, self.row.user_id, self.row.session_id)


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """Neighbouring row groups of a run; `count` is 0 when it is to be read whole."""

    file: StoredFile
    first: int
    count: int

    @property
    def data(self) -> tuple[int, int]:
        """Start and length of the row groups, or of the whole object."""
        if not self.count:
            return 0, self.file.size
        begin, last = (self.file.groups[i] for i in (self.first, self.first + self.count - 1))
        return begin.start, last.start + last.length - begin.start

    @property
    def groups(self) -> range | None:
        """The row groups, None for all."""
        return range(self.first, self.first + self.count) if self.count else None


@dataclass(frozen=True, slots=True)
class _Part:
    """What is to be read of one object."""

    key: str
    file: StoredFile
    data: Sequence[tuple[int, int]]
    """Start and length of each range."""

    @property
    def is_whole(self) -> bool:
        """Whether all of it is read, the footer too."""
        return list(self.data) == [(0, self.file.size)]

    @property
    def footer(self) -> tuple[int, int]:
        """Start and length of the footer."""
        return self.file.size - self.file.footer, self.file.footer


class Archive:
    """Reads what jobs have packed; safe to use from many threads."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        # By the prefix of the app's manifests, with the time at which the newest was asked for.
        self._manifests: dict[str, tuple[Manifest, float]] = {}
        self._footers: ByteCache[str, Footer] = ByteCache(environment.cache_bytes // 8)
        self._groups: ByteCache[tuple[str, int], pa.Table] = ByteCache(environment.cache_bytes)
        # By app, as of the runs that are named with it.
        self._erased: dict[str, tuple[tuple[StoredFile, ...], dict[str, ErasedRow]]] = {}

    def look(self, manifests: str) -> Future[Manifest]:
        """Begin to ask for the newest manifest of an app: 1 LIST, and 1 GET when it is a new one.

        Args:
            manifests: The prefix of the app's manifests.

        Returns:
            The manifest; its number is 0 when no job has worked on the app.
        """
        return self._env.pool.start(lambda: self.newest(manifests), near=self._env.store.near)

    def newest(self, manifests: str) -> Manifest:
        """Return the newest manifest of an app, see `look`.

        Raises:
            FormatError: it is damaged.
            StorageError: the store failed.
        """
        known, _ = self._manifests.get(manifests, (None, 0.0))
        started = self._env.clock.elapsed()
        found = newest_manifest(self._env.store, manifests, known)
        self._manifests[manifests] = (found, started)
        return found

    def recent(self, manifests: str) -> Future[Manifest]:
        """As `look`, without a request if the process has looked within the view age limit.

        What a newer manifest has packed meanwhile is still where it was: nothing is swept so soon.
        """
        if not self.is_recent(manifests):
            return self.look(manifests)
        answer: Future[Manifest] = Future()
        answer.set_result(self._manifests[manifests][0])
        return answer

    def seen(self, manifests: str) -> float:
        """Return `Clock.elapsed` when the newest manifest was last asked for; it was before."""
        return self._manifests[manifests][1]

    def is_recent(self, manifests: str) -> bool:
        """Tell whether the newest manifest was asked for within the view age limit."""
        return manifests in self._manifests and self._env.is_young(self.seen(manifests))

    def known(self, manifests: str) -> Manifest:
        """Return the manifest that `newest` returned last; number 0 if it was never called."""
        return self._manifests.get(manifests, (Manifest("", 0), 0.0))[0]

    def erased(self, manifest: Manifest) -> Mapping[str, ErasedRow]:
        """Return the sessions that were erased, by the digests of their logs.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        files = manifest.table(ERASED.name).runs
        if not files:
            return {}
        known = self._erased.get(manifest.app_name)
        if known is None or known[0] != files:
            rows = self.rows_in(ERASED, manifest.app_name, files)
            known = self._erased[manifest.app_name] = (files, {row.digest: row for row in rows})
        return known[1]

    def has_erased(self, manifest: Manifest, row: StateRow) -> bool:
        """Tell whether what set `row` was erased, so that it counts for nobody."""
        erased = self.erased(manifest)
        return bool(erased) and is_erased(erased, row)

    def erased_log(self, manifest: Manifest, log: str) -> Packed | None:
        """Return what stands for the session whose log has the prefix `log` if it was erased."""
        row = self.erased(manifest).get(log_digest(log))
        if row is None:
            return None
        key = parse_log(log) or SessionKey(manifest.app_name, "", "")
        return Packed(stand_in(key, row), manifest, erased=True)

    def of_log(self, manifest: Manifest, log: str, key: SessionKey | None = None) -> Packed | None:
        """Return what is packed of the session whose log has the prefix `log`; see `session`.

        Args:
            manifest: Says what is packed.
            log: The prefix.
            key: The session, if it is known: of a long id only a digest is left in the prefix.
        """
        if not manifest.number:
            return None
        key = key or parse_log(log)
        if key is not None:
            return self.session(manifest, key)
        found = next((each for each in self.sessions(manifest) if each.key.log == log), None)
        return found or self.erased_log(manifest, log)

    def session(self, manifest: Manifest, key: SessionKey) -> Packed | None:
        """Return what is packed of one session, None when nothing is.

        Raises:
            NotFoundError: an object was swept: begin with a newer manifest.
            FormatError: an object is damaged.
            StorageError: the store failed.
        """
        place = (key.user_id, key.session_id)
        spans = _spans(manifest.table(EVENTS.name).runs, place, place)
        for table in self._read_runs(EVENTS, manifest.app_name, spans):
            same = pc.and_(
                pc.equal(table["user_id"], place[0]), pc.equal(table["session_id"], place[1])
            )
            found = runs.from_table(table.filter(same))
            if found:
                return Packed(found[0], manifest)
        gone = self.erased(manifest).get(log_digest(key.log))
        return None if gone is None else Packed(stand_in(key, gone), manifest, erased=True)

    def sessions(
        self, manifest: Manifest, user_id: str | None = None, after: Place | None = None
    ) -> Iterator[Packed]:
        """Yield what is packed of all sessions, or of those of one user, by user and session.

        Args:
            manifest: Says what is packed.
            user_id: The user, None for all.
            after: Only sessions after this one, a user and a session.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        low = _FIRST if user_id is None else (user_id, "")
        if after is not None:
            low = max(low, (after[0], after[1] + "\0"))
        high = (_LAST if user_id is None else user_id, _LAST)
        files = manifest.table(EVENTS.name).runs
        return (
            Packed(row, manifest)
            for row in self.rows_in(EVENTS, manifest.app_name, files, low, high)
        )

    def rows_in(
        self,
        kind: Kind[R],
        app_name: str,
        files: Sequence[StoredFile],
        low: Place = _FIRST,
        high: Place = LAST,
    ) -> Iterator[R]:
        """Yield the rows of some runs from `low` to `high`, ascending, one a place.

        Args:
            kind: What the runs hold.
            app_name: The app.
            files: The runs, newest first: what a newer one says replaces what older ones say.
            low: The first place.
            high: The last place.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        streams = [
            self._stream(kind, app_name, file, age, low, high) for age, file in enumerate(files)
        ]
        in_order = merge(*streams, key=lambda entry: entry[:2])
        for _, same in groupby(in_order, key=lambda entry: entry[0]):
            yield next(same)[2]

    def _stream(
        self, kind: Kind[R], app_name: str, file: StoredFile, age: int, low: Place, high: Place
    ) -> Iterator[tuple[Place, int, R]]:
        for span in _spans([file], low, high):
            for part in _in_reads(span):
                (table,) = self._read_runs(kind, app_name, [part])
                for row in kind.from_table(table):
                    place = kind.place(row)
                    if low <= place <= high:
                        yield place, age, row

    def state(self, manifest: Manifest, scopes: Sequence[Scope]) -> dict[Scope, list[StateRow]]:
        """Return what is packed of the state of some scopes, of each key the latest row.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        files = manifest.table(STATE.name).runs
        users = {scope: scope.user_id or "" for scope in scopes}
        spans = {s: _spans(files, (user, ""), (user, _LAST)) for s, user in users.items()}
        wanted = [span for each in spans.values() for span in each]
        tables = self._read_runs(STATE, manifest.app_name, wanted)
        read = dict(zip(wanted, tables, strict=True))
        found = {}
        for scope, each in spans.items():
            rows = [row for span in each for row in state.from_table(_of(scope, read[span]))]
            found[scope] = list(state.latest(rows).values())
        return found

    def _read_runs(self, kind: Kind[Any], app_name: str, spans: Sequence[_Span]) -> list[pa.Table]:
        """Return the rows of some spans of runs, all that they need read side by side."""
        parts = [
            _Part(run_key(app_name, kind.name, span.file.id), span.file, [span.data])
            for span in spans
        ]
        opened = self._open(parts, kind.schema)
        return [read_groups(file, span.groups) for span, file in zip(spans, opened, strict=True)]

    def rows(self, packed: Packed, last: int | None = None) -> list[EventRow]:
        """Return the packed rows of a session in commit order, its `create` row included.

        Args:
            packed: The session.
            last: Only as many, the last ones.

        Raises:
            NotFoundError, FormatError, StorageError: see `session`.
        """
        (found,) = self.rows_of([packed], last)
        return found

    def rows_of(
        self, packed: Sequence[Packed], last: int | None = None, after: float | None = None
    ) -> list[list[EventRow]]:
        """Return the packed rows of many sessions of one app; see `rows`.

        What lies side by side in a pack is read together. Where all events of a segment are before
        `after`, in seconds since 1970 UTC, it is not read.
        """
        segments = [
            [one for one in _last_segments(each.row.segments, last) if _reaches(one, after)]
            for each in packed
        ]
        groups = self._read_packs(
            [
                (each.manifest, one)
                for each, some in zip(packed, segments, strict=True)
                for one in some
            ]
        )
        found = []
        for each in segments:
            rows = [row for segment in each for row in _rows_of(segment, groups)]
            found.append(rows if last is None else rows[max(0, len(rows) - last) :])
        return found

    def _read_packs(
        self, segments: Iterable[tuple[Manifest, Segment]]
    ) -> dict[tuple[str, int], pa.Table]:
        """Return the row groups that hold segments which manifests name, by pack and number."""
        found: dict[tuple[str, int], pa.Table] = {}
        missing: dict[str, list[Segment]] = {}
        named: dict[str, Manifest] = {}
        for manifest, segment in segments:
            named[segment.pack] = manifest
            places = [(segment.pack, group) for group in _groups(segment)]
            known = {place: self._groups.get(place) for place in places}
            found.update({place: table for place, table in known.items() if table is not None})
            if None in known.values():
                missing.setdefault(segment.pack, []).append(segment)
        parts = [
            _Part(
                pack_key(named[pack].app_name, EVENTS.name, pack),
                named[pack].table(EVENTS.name).pack(pack),
                _joined([(segment.start, segment.length) for segment in wanted]),
            )
            for pack, wanted in missing.items()
        ]
        opened = self._open(parts, events.COMMIT_SCHEMA, events.RESERVED)
        for (pack, wanted), file in zip(missing.items(), opened, strict=True):
            for group in sorted({group for segment in wanted for group in _groups(segment)}):
                if (pack, group) not in found:
                    found[pack, group] = read_groups(file, [group])
                    self._groups.put((pack, group), found[pack, group])
        return found

    def _open(
        self, parts: Sequence[_Part], schema: pa.Schema, refused: Sequence[str] = ()
    ) -> list[TypedFile]:
        """Read what is not known of `parts`, footers too, side by side."""
        footers = {part.key: self._footers.get(part.key) for part in parts if not part.is_whole}
        unknown = [part for part in parts if footers.get(part.key, part) is None]
        ranges = [(part.key, *part.footer) for part in unknown]
        ranges += [(part.key, *each) for part in parts for each in part.data]
        bodies = self._fetch(list(dict.fromkeys(ranges)))
        for part in unknown:
            footer = read_footer(bodies[(part.key, *part.footer)])
            footers[part.key] = footer
            self._footers.put(part.key, footer)
        opened = []
        for part in parts:
            pieces = {start: bodies[part.key, start, length] for start, length in part.data}
            known = footers.get(part.key)
            body = pieces[0] if known is None else Pieces(part.file.size, known, pieces)
            opened.append(open_parquet(body, schema, refused))
        return opened

    def _fetch(self, wanted: Sequence[tuple[str, int, int]]) -> dict[tuple[str, int, int], bytes]:
        store = self._env.store
        bodies = self._env.pool.map(lambda it: store.get_range(*it), wanted, near=store.near)
        return dict(zip(wanted, bodies, strict=True))


def _spans(files: Sequence[StoredFile], low: Place, high: Place) -> list[_Span]:
    """Return what to read of each of `files`, in their order, for the rows from `low` to `high`."""
    found = []
    for file in files:
        firsts = [(group.first[0] or "", group.first[1]) for group in file.groups]
        if not firsts:
            found.append(_Span(file, 0, 0))
            continue
        begin, end = max(0, bisect_right(firsts, low) - 1), bisect_right(firsts, high)
        if begin < end:
            found.append(_Span(file, begin, end - begin))
    return found


def _in_reads(span: _Span) -> Iterator[_Span]:
    """Yield `span` in pieces of about `_READ_BYTES`."""
    if not span.count:
        yield span
        return
    begin, held = span.first, 0
    for number in range(span.first, span.first + span.count):
        length = span.file.groups[number].length
        if held and held + length > _READ_BYTES:
            yield _Span(span.file, begin, number - begin)
            begin, held = number, 0
        held += length
    yield _Span(span.file, begin, span.first + span.count - begin)


def _of(scope: Scope, table: pa.Table) -> pa.Table:
    user = table["user_id"]
    if scope.user_id is None:
        return table.filter(pc.is_null(user))
    return table.filter(pc.equal(user, scope.user_id))


def _groups(segment: Segment) -> range:
    return range(segment.group, segment.group + segment.groups)


def _reaches(segment: Segment, after: float | None) -> bool:
    return after is None or segment.last_time is None or segment.last_time >= after


def _last_segments(segments: Sequence[Segment], last: int | None) -> list[Segment]:
    """Return those of `segments`, from the end, that hold the last `last` rows."""
    if last is None:
        return list(segments)
    found: list[Segment] = []
    for segment in reversed(segments):
        if last <= 0:
            break
        found.append(segment)
        last -= segment.rows
    return found[::-1]


def _rows_of(segment: Segment, groups: Mapping[tuple[str, int], pa.Table]) -> list[EventRow]:
    table = pa.concat_tables([groups[segment.pack, group] for group in _groups(segment)])
    return events.from_table(table.slice(segment.skip, segment.rows))


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return `ranges` (start and length) with those that touch as one, ascending."""
    found: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if found and start <= sum(found[-1]):
            before = found[-1][0]
            found[-1] = (before, max(sum(found[-1]), start + length) - before)
        else:
            found.append((start, length))
    return found
