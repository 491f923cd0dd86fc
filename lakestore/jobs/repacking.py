"""Packing packs again: many small ones into a large one, and those with much that is dead.

Owns which packs are worth it. A row group whose rows are all alive and remain neighbours is copied
byte by byte; other rows are moved as they are, thin columns and all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import EVENTS, Archive, Packed, Place
from lakestore.history.ranges import group_bodies, naming
from lakestore.jobs.changes import Change, Changes
from lakestore.jobs.packing import StoredPack, store_pack
from lakestore.jobs.running import Tell, unheard
from lakestore.lake import Lake
from lakestore.log.keys import app_manifests, pack_key
from lakestore.log.manifests import Manifest, StoredFile
from lakestore.storage import UnreadableError
from lakestore.tables import events
from lakestore.tables.packing import PackBuilder, Part, joined_segments, piece_of
from lakestore.tables.parquet import open_parquet, read_groups
from lakestore.tables.runs import Segment, SessionRow

logger = logging.getLogger(__name__)

_TIER = 8
_SMALL = 4
_SESSIONS_AT_ONCE = 512
_GROUP_WEIGHT = 16
"""A group takes as much memory as so many sessions."""
_IDS = ("user_id", "session_id", "version")
_ID_SCHEMA = pa.schema([events.SCHEMA.field(name) for name in _IDS])


def plan_repacks(manifest: Manifest, pack_bytes: int) -> list[RepackTask]:
    """Return which packs of events should be packed again, together or by themselves.

    Small ones when there are eight within a factor of eight in size, so that a row is written again
    as often as its pack grows eight times; and those of which more than half is dead.
    """
    packs = manifest.table(EVENTS.name).packs
    chosen = [[pack] for pack in packs if 2 * pack.dead > pack.rows]
    tiers: dict[int, list[StoredFile]] = {}
    for pack in packs:
        if pack.size * _SMALL < pack_bytes and 2 * pack.dead <= pack.rows:
            tiers.setdefault(_tier(pack.size), []).append(pack)
    chosen += [tier for tier in tiers.values() if len(tier) >= _TIER]
    app = manifest.app_name
    return [RepackTask(app, tuple(it.id for it in some), pack_bytes) for some in chosen]


def _tier(size: int) -> int:
    tier = 0
    while size >= _TIER:
        size //= _TIER
        tier += 1
    return tier


@dataclass(frozen=True, slots=True)
class RepackTask:
    """Packs of one app that are to be packed again, in the order of sessions."""

    app_name: str
    packs: tuple[str, ...]
    """Their ids."""
    pack_bytes: int
    """How large a pack should become."""

    @property
    def size(self) -> int:
        """How many packs they are."""
        return len(self.packs)

    def run(self, lake: Lake, tell: Tell = unheard) -> list[Changes]:
        """Store packs, and return what each makes of its sessions.

        One that cannot be read is logged, and all stay as they are. So they do when one was swept:
        another job has packed it again.

        Raises:
            StorageError: the store failed; what was stored already is nobody's, and swept.
        """
        manifest = lake.sessions.archive.newest(app_manifests(self.app_name))
        there = {pack.id: pack for pack in manifest.table(EVENTS.name).packs}
        packs = [there[name] for name in self.packs if name in there]
        try:
            return list(_Repacker(lake, manifest, packs, self.pack_bytes).run())
        except NotFoundError:
            return []
        except (FormatError, UnreadableError) as error:
            logger.error("packs cannot be packed again and were passed over: %s", error)
            return []


class _Span(NamedTuple):
    """Neighbouring rows of one session in one row group of a pack."""

    start: int
    """Rows of the group before them."""
    rows: int
    place: Place
    version: int
    """Of the first of them."""

    @property
    def order(self) -> tuple[Place, int]:
        """Where it is in the order of a pack."""
        return self.place, self.version


class _Group:
    """One row group of a pack."""

    def __init__(self, key: str, pack: str, number: int, body: bytes) -> None:
        self.pack = pack
        self.number = number
        self.body = body
        self._key = key
        self._table: pa.Table | None = None
        self.row_bytes = 0
        self.spans = list(_sessions_in(self._read(_ID_SCHEMA)))
        self.rows = sum(span.rows for span in self.spans)

    def _read(self, schema: pa.Schema) -> pa.Table:
        with naming(self._key):
            return read_groups(open_parquet(self.body, schema))

    @property
    def table(self) -> pa.Table:
        """All its rows."""
        if self._table is None:
            self._table = self._read(events.SCHEMA)
            self.row_bytes = max(1, self._table.nbytes // self.rows)
        return self._table

    def holds(self, segment: Segment, span: _Span) -> bool:
        """Tell whether the rows of a segment are all among those of a span."""
        if (self.pack, self.number, 1) != (segment.pack, segment.group, segment.groups):
            return False
        begins = segment.skip - span.start
        return begins >= 0 and begins + segment.rows <= span.rows


@dataclass(frozen=True, slots=True)
class _Unit:
    """Some neighbouring spans of a group, between which no other pack has a session."""

    group: _Group
    spans: Sequence[_Span]


@dataclass(frozen=True, slots=True)
class _Moving:
    """A session of which some segments get into the new pack."""

    row: SessionRow
    parts: dict[Segment, Part] = field(default_factory=dict)

    def change(self, stored: StoredPack) -> Change[SessionRow]:
        """Return what the session becomes with the pack that was stored."""
        segments = [
            new
            for old in self.row.segments
            for new in (stored.segments(self.parts[old]) if old in self.parts else (old,))
        ]
        return Change(self.row, replace(self.row, segments=joined_segments(segments)))


class _Repacker:
    """Streams sessions of some packs into new ones."""

    def __init__(
        self, lake: Lake, manifest: Manifest, packs: Sequence[StoredFile], pack_bytes: int
    ) -> None:
        self._lake = lake
        self._archive: Archive = lake.sessions.archive
        self._manifest = manifest
        self._packs = packs
        self._pack_bytes = pack_bytes
        self._builder = PackBuilder()
        self._moving: dict[Place, _Moving] = {}

    def run(self) -> Iterator[Changes]:
        """Store packs, and yield what each makes of its sessions."""
        for batch in _batches(_in_order([self._groups(pack) for pack in self._packs])):
            places = {span.place for unit in batch for span in unit.spans}
            packed = self._archive.sessions_at(self._manifest, places)
            for unit in batch:
                is_full = self._builder.nbytes >= self._pack_bytes
                if is_full and unit.spans[0].place not in self._moving:
                    yield from self._store()
                self._move(unit, packed)
        yield from self._store()

    def _groups(self, pack: StoredFile) -> Iterator[_Group]:
        key = pack_key(self._manifest.app_name, EVENTS.name, pack.id)
        for number, body in enumerate(group_bodies(self._lake.environment, key, pack)):
            yield _Group(key, pack.id, number, body)

    def _move(self, unit: _Unit, packed: Mapping[Place, Packed]) -> None:
        """Put what is alive of a unit into the new pack: as it is, if that is all of a group."""
        group = unit.group
        alive = [
            (packed[span.place].row, segment)
            for span in unit.spans
            if span.place in packed
            for segment in packed[span.place].row.segments
            if group.holds(segment, span)
        ]
        is_whole = sum(segment.rows for _, segment in alive) == group.rows
        copied = self._builder.copy(group.body, group.rows) if is_whole else None
        for row, segment in alive:
            if copied is None:
                place = group.table, segment.skip, segment.rows
                part = self._builder.add_some(*place, group.row_bytes, segment)
            else:
                part = (piece_of(segment, copied, segment.skip),)
            self._moving.setdefault(EVENTS.place(row), _Moving(row)).parts[segment] = part

    def _store(self) -> Iterator[Changes]:
        stored = store_pack(self._lake.environment, self._manifest.app_name, self._builder)
        moving, self._moving, self._builder = self._moving, {}, PackBuilder()
        if stored is None:
            return
        changes = Changes(packs=[stored.file])
        for each in moving.values():
            changes.add(each.change(stored))
        yield changes


def _in_order(packs: Sequence[Iterator[_Group]]) -> Iterator[_Unit]:
    """Yield all spans of some packs ascending, of a group as many at once as follow each other.

    Of each pack one group is in memory.
    """
    heap: list[tuple[tuple[Place, int], int, int]] = []
    groups: list[_Group | None] = [next(pack, None) for pack in packs]
    for number, group in enumerate(groups):
        if group is not None:
            heappush(heap, (group.spans[0].order, number, 0))
    while heap:
        _, number, at = heappop(heap)
        group = groups[number]
        assert group is not None, "what is in the heap has a group"
        end = at + 1
        while end < len(group.spans) and (not heap or group.spans[end].order < heap[0][0]):
            end += 1
        yield _Unit(group, group.spans[at:end])
        if end == len(group.spans):
            groups[number] = group = next(packs[number], None)
            end = 0
        if group is not None:
            heappush(heap, (group.spans[end].order, number, end))


def _batches(units: Iterable[_Unit]) -> Iterator[list[_Unit]]:
    """Yield units in lists, so that what is packed of their sessions is looked up together."""
    batch: list[_Unit] = []
    groups: set[int] = set()  # which are in memory as long as the batch is
    spans = 0
    for unit in units:
        batch.append(unit)
        groups.add(id(unit.group))
        spans += len(unit.spans)
        if spans + len(groups) * _GROUP_WEIGHT >= _SESSIONS_AT_ONCE:
            yield batch
            batch, groups, spans = [], set(), 0
    if batch:
        yield batch


def _sessions_in(table: pa.Table) -> Iterator[_Span]:
    """Yield the neighbouring rows of each session."""
    start = 0
    places = zip(table["user_id"].to_pylist(), table["session_id"].to_pylist(), strict=True)
    versions = table["version"].to_pylist()
    for place, same in groupby(places):
        rows = sum(1 for _ in same)
        yield _Span(start, rows, place, versions[start])
        start += rows
