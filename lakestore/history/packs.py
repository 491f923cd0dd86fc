"""Packs as runs refer to them: the rows of sessions. Owns which ranges are read, and the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakestore.errors import FormatError
from lakestore.history.cache import ByteCache
from lakestore.history.environment import Environment
from lakestore.history.ranges import Answer, Range, ask, joined, tables_of
from lakestore.history.runs import EVENTS
from lakestore.log.keys import SessionKey, pack_key
from lakestore.log.manifests import Manifest
from lakestore.tables import events
from lakestore.tables.events import EventRow
from lakestore.tables.runs import Segment, SessionRow


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


_Group = tuple[str, int]
"""The key of a pack and the number of a row group in it."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One segment of one session."""

    packed: Packed
    segment: Segment

    @property
    def pack(self) -> str:
        """The key of its pack."""
        return pack_key(self.packed.row.app_name, EVENTS.name, self.segment.pack)

    @property
    def groups(self) -> list[_Group]:
        """The row groups that hold it."""
        first = self.segment.group
        return [(self.pack, number) for number in range(first, first + self.segment.groups)]


class Packs:
    """Reads rows of packs; safe to use from many threads."""

    def __init__(self, environment: Environment, schema: pa.Schema, cache_bytes: int) -> None:
        """Read the columns of `schema`, and keep up to `cache_bytes` of row groups."""
        self._env = environment
        self._schema = schema
        self._cache: ByteCache[_Group, pa.Table] = ByteCache(cache_bytes)

    def ask(
        self, packed: Sequence[Packed], last: int | None = None, after: float | None = None
    ) -> Answer[list[pa.Table]]:
        """Begin to read the rows of each of `packed`, in commit order; see `Archive.rows_of`."""
        wanted = [
            [
                _Wanted(each, segment)
                for segment in _last_segments(each.row.segments, last)
                if _reaches(segment, after)
            ]
            for each in packed
        ]
        answer = self._ask_groups([one for some in wanted for one in some])

        def tables() -> list[pa.Table]:
            groups = answer()
            return [
                _cut(self._schema, [_rows_of(one, groups) for one in some], last) for some in wanted
            ]

        return tables

    def _ask_groups(self, wanted: Sequence[_Wanted]) -> Answer[dict[_Group, pa.Table]]:
        """Begin to read the row groups that hold some segments, what lies side by side as one."""
        found: dict[_Group, pa.Table] = {}
        missing: dict[str, list[_Wanted]] = {}
        for one in wanted:
            known = {group: self._cache.get(group) for group in one.groups}
            found.update({group: table for group, table in known.items() if table is not None})
            if None in known.values():
                missing.setdefault(one.pack, []).append(one)
        ranges = [
            (pack, start, length)
            for pack, some in missing.items()
            for start, length in joined([(it.segment.start, it.segment.length) for it in some])
        ]
        answer = ask(self._env, ranges)

        def groups() -> dict[_Group, pa.Table]:
            for asked, body in zip(ranges, answer(), strict=True):
                found.update(self._take(missing[asked[0]], asked, body))
            return found

        return groups

    def _take(
        self, wanted: Sequence[_Wanted], asked: Range, body: bytes
    ) -> Iterator[tuple[_Group, pa.Table]]:
        """Yield the row groups in a range of a pack, which some segments were joined to."""
        pack, start, length = asked
        inside = [it.segment for it in wanted if start <= it.segment.start < start + length]
        numbers = sorted(
            {n for each in inside for n in range(each.group, each.group + each.groups)}
        )
        tables = list(tables_of(asked, body, self._schema, is_whole=False))
        if len(tables) != len(numbers):
            raise FormatError(f"a pack has other row groups than a run says. key={pack!r}")
        for number, table in zip(numbers, tables, strict=True):
            self._cache.put((pack, number), table)
            yield (pack, number), table


def _rows_of(one: _Wanted, groups: Mapping[_Group, pa.Table]) -> pa.Table:
    segment, row = one.segment, one.packed.row
    table = pa.concat_tables([groups[group] for group in one.groups])
    found = table.slice(segment.skip, segment.rows)
    if found.num_rows == segment.rows:
        ids = (found["app_name"][0], found["user_id"][0], found["session_id"][0])
        if tuple(each.as_py() for each in ids) == (row.app_name, row.user_id, row.session_id):
            return found
    raise FormatError(f"a pack has other rows than its run says. key={one.pack!r}")


def _cut(schema: pa.Schema, tables: Sequence[pa.Table], last: int | None) -> pa.Table:
    whole = pa.concat_tables(tables) if tables else schema.empty_table()
    return whole if last is None else whole.slice(max(0, whole.num_rows - last))


def rows_in(table: pa.Table) -> list[EventRow]:
    """Return the rows of a table that was read."""
    return events.from_table(table) if table.num_rows else []


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
