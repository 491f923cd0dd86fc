"""Packing packs again: many small ones into a large one, and those with much that is dead.

Owns which packs are worth it. Rows are moved as they are, thin columns and all; where those of one
session become neighbours, they become one part.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby, islice

import pyarrow as pa

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import EVENTS, Archive, Packed, Place
from lakestore.history.ranges import pack_groups
from lakestore.jobs.changes import Change, Changes
from lakestore.jobs.packing import store_pack
from lakestore.jobs.running import Tell, unheard
from lakestore.lake import Lake
from lakestore.log.keys import app_manifests, pack_key
from lakestore.log.manifests import Manifest, StoredFile
from lakestore.storage import UnreadableError
from lakestore.tables import events
from lakestore.tables.packing import PackBuilder, Part
from lakestore.tables.runs import Segment, SessionRow

logger = logging.getLogger(__name__)

_TIER = 8
_SMALL = 4
_SESSIONS_AT_ONCE = 512


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


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring rows of one session in one row group of a pack."""

    place: Place
    pack: str
    group: int
    skip: int
    """Rows of the group before them."""
    rows: pa.Table

    def part(self, segment: Segment) -> pa.Table | None:
        """Return the rows of a segment, None when they are not all among these."""
        skip = segment.skip - self.skip
        if (self.pack, self.group, 1) != (segment.pack, segment.group, segment.groups):
            return None
        if skip < 0 or skip + segment.rows > self.rows.num_rows:
            return None
        return self.rows.slice(skip, segment.rows)


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
        self._waiting: list[tuple[SessionRow, list[Segment | Part]]] = []

    def run(self) -> Iterator[Changes]:
        """Store packs, and yield what each makes of its sessions."""
        in_order = merge(*map(self._runs, self._packs), key=lambda run: run.place)
        sessions = ((place, list(runs)) for place, runs in groupby(in_order, lambda it: it.place))
        while batch := dict(islice(sessions, _SESSIONS_AT_ONCE)):
            packed = self._archive.sessions_at(self._manifest, batch)
            for place, found in packed.items():
                self._move(found, batch[place])
                if self._builder.nbytes >= self._pack_bytes:
                    yield from self._store()
        yield from self._store()

    def _runs(self, pack: StoredFile) -> Iterator[_Run]:
        """Yield the rows of a pack, a session at a time, in its order."""
        key = pack_key(self._manifest.app_name, EVENTS.name, pack.id)
        groups = pack_groups(self._lake.environment, key, pack, events.SCHEMA, events.RESERVED)
        for number, table in enumerate(groups):
            for start, length, place in _sessions_in(table):
                yield _Run(place, pack.id, number, start, table.slice(start, length))

    def _move(self, packed: Packed, runs: Sequence[_Run]) -> None:
        segments: list[Segment | Part] = []
        moving: list[pa.Table] = []
        for segment in packed.row.segments:
            found = _rows_of(segment, runs)
            if found is not None:
                moving.append(found)
                continue
            segments += self._add(moving)
            segments.append(segment)
            moving = []
        segments += self._add(moving)
        if any(not isinstance(each, Segment) for each in segments):
            self._waiting.append((packed.row, segments))

    def _add(self, moving: Sequence[pa.Table]) -> list[Part]:
        return [self._builder.add(pa.concat_tables(moving))] if moving else []

    def _store(self) -> Iterator[Changes]:
        stored = store_pack(self._lake.environment, self._manifest.app_name, self._builder)
        waiting, self._waiting, self._builder = self._waiting, [], PackBuilder()
        if stored is None:
            return
        changes = Changes(packs=[stored.file])
        for row, segments in waiting:
            after = [
                each
                for one in segments
                for each in ((one,) if isinstance(one, Segment) else stored.segments(one))
            ]
            changes.add(Change(row, replace(row, segments=tuple(after))))
        yield changes


def _rows_of(segment: Segment, runs: Iterable[_Run]) -> pa.Table | None:
    parts = (run.part(segment) for run in runs)
    return next((part for part in parts if part is not None), None)


def _sessions_in(table: pa.Table) -> Iterator[tuple[int, int, Place]]:
    """Yield start and number of the neighbouring rows of each session."""
    start = 0
    places = zip(table["user_id"].to_pylist(), table["session_id"].to_pylist(), strict=True)
    for place, same in groupby(places):
        length = sum(1 for _ in same)
        yield start, length, place
        start += length
