"""Packs: large Parquet objects with rows of many sessions. Owns their row groups; no I/O.

Rows are sorted by user, session, version and ordinal, so that a session is a few neighbouring row
groups, and so is a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lakestore.tables import events
from lakestore.tables.footers import footer_size
from lakestore.tables.groups import GroupPlace, GroupWriter
from lakestore.tables.runs import Segment

GROUP_ROWS = 2_048
_GROUP_BYTES = 16 * 2**20
_LARGE_GROUP = 2**20
_SMALL_GROUP = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one session in one row group."""

    group: int
    """The row group, from 0."""
    skip: int
    """Rows of the group that come before."""
    rows: int
    first_version: int
    last_version: int
    last_time: float | None


Part = tuple[Piece, ...]
"""Consecutive rows of one session, as they were added."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Consecutive rows of a table."""

    table: pa.Table
    start: int
    rows: int

    def cut(self) -> pa.Table:
        """Return them."""
        return self.table.slice(self.start, self.rows)


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack that is complete."""

    body: bytes
    footer: int
    """Bytes of the footer."""
    rows: int
    groups: tuple[GroupPlace, ...]

    def segments(self, pack_id: str, part: Part) -> tuple[Segment, ...]:
        """Return where a part is in the pack, which is stored as `pack_id`; one a row group.

        So the last events of a long session are a small range.
        """
        return tuple(
            Segment(
                pack=pack_id,
                group=piece.group,
                groups=1,
                start=self.groups[piece.group].start,
                length=self.groups[piece.group].length,
                skip=piece.skip,
                rows=piece.rows,
                first_version=piece.first_version,
                last_version=piece.last_version,
                last_time=piece.last_time,
            )
            for piece in part
        )


class PackBuilder:
    """Collects rows of sessions, in the order of the pack, into row groups."""

    def __init__(self, group_rows: int = GROUP_ROWS) -> None:
        """Begin a pack with row groups of at most `group_rows` rows."""
        self._group_rows = group_rows
        self._writer = GroupWriter(events.SCHEMA)
        self._pending: list[_Span] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.rows = 0
        """Rows so far."""

    @property
    def nbytes(self) -> int:
        """About how many bytes the pack has so far."""
        return self._writer.nbytes + self._pending_bytes // 8

    def add(self, table: pa.Table, row_bytes: int | None = None) -> Part:
        """Add rows of one session in `events.SCHEMA`; at least one, in commit order.

        Args:
            table: The rows.
            row_bytes: About how many bytes of memory each has, if that is known.
        """
        row_bytes = max(1, row_bytes or table.nbytes // table.num_rows)
        return self.add_some(table, 0, table.num_rows, row_bytes)

    def add_some(
        self,
        table: pa.Table,
        start: int,
        rows: int,
        row_bytes: int,
        known: Segment | None = None,
    ) -> Part:
        """Add some rows of a table that may have many sessions.

        Args:
            table: Where they are.
            start: Rows before them.
            rows: How many they are: of one session, in commit order.
            row_bytes: About how many bytes of memory each has, at least 1.
            known: What is known of all of them.
        """
        self.rows += rows
        end, pieces = start + rows, []
        while start < end:
            fitting = max(1, (_GROUP_BYTES - self._pending_bytes) // row_bytes)
            taken = min(fitting, self._group_rows - self._pending_rows, end - start)
            span = _Span(table, start, taken)
            pieces.append(self._hold(span, row_bytes, known if taken == rows else None))
            start += taken
        return tuple(pieces)

    def copy(self, body: bytes, rows: int) -> int | None:
        """Add a row group of another pack as it is; return its number, None if it cannot be.

        Small ones, and those that would leave a small one before them, are better written anew; one
        that lacks a column of those before it must be.
        """
        is_large = 2 * rows >= self._group_rows or len(body) >= _LARGE_GROUP
        if not is_large or 0 < self._pending_rows * _SMALL_GROUP < self._group_rows:
            return None
        self._flush()
        if not self._writer.copy(body, rows):
            return None
        self.rows += rows
        return len(self._writer.groups) - 1

    def _hold(self, span: _Span, row_bytes: int, known: Segment | None) -> Piece:
        group, skip = len(self._writer.groups), self._pending_rows
        if known is None:
            rows = span.cut()
            versions = rows["version"][0].as_py(), rows["version"][span.rows - 1].as_py()
            piece = Piece(group, skip, span.rows, *versions, latest_time(rows))
        else:
            piece = piece_of(known, group, skip)
        self._pending.append(span)
        self._pending_rows += span.rows
        self._pending_bytes += span.rows * row_bytes
        if self._pending_rows >= self._group_rows or self._pending_bytes >= _GROUP_BYTES:
            self._flush()
        return piece

    def _flush(self) -> None:
        if self._pending:
            self._writer.write(_unchained(_together(self._pending)))
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def finish(self) -> Pack:
        """Return the pack."""
        self._flush()
        body = self._writer.close()
        return Pack(body, footer_size(body), self.rows, tuple(self._writer.groups))


def _together(spans: Sequence[_Span]) -> pa.Table:
    """Return all rows of some spans, in the order given, each column in one piece.

    Of a few tables they are gathered: as many slices as there are sessions cost more than the rows.
    """
    bounds: dict[int, tuple[int, int]] = {}
    for span in spans:
        first, last = bounds.get(id(span.table), (span.start, 0))
        bounds[id(span.table)] = min(first, span.start), max(last, span.start + span.rows)
    if len(bounds) == len(spans):
        return pa.concat_tables([span.cut() for span in spans]).combine_chunks()
    tables = {id(span.table): span.table for span in spans}
    parts, shift, before = [], {}, 0
    for name, (first, last) in bounds.items():
        parts.append(tables[name].slice(first, last - first))
        shift[name] = before - first
        before += last - first
    at = (
        range(it.start + shift[id(it.table)], it.start + shift[id(it.table)] + it.rows)
        for it in spans
    )
    return (
        pa.concat_tables(parts).combine_chunks().take(pa.array(chain.from_iterable(at), pa.int64()))
    )


def _unchained(table: pa.Table) -> pa.Table:
    """Return rows without the tokens of the commits before, of which logs alone are asked."""
    place = table.schema.get_field_index("previous")
    empty = pa.repeat(pa.scalar(""), table.num_rows)
    return table.set_column(place, table.schema.field(place), empty)


def piece_of(segment: Segment, group: int, skip: int) -> Piece:
    """Return the rows of a segment where they are now: in a row group, after `skip` others."""
    return Piece(
        group,
        skip,
        segment.rows,
        segment.first_version,
        segment.last_version,
        segment.last_time,
    )


def joined_segments(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return segments of one session, those that have become neighbours in a row group as one."""
    found: list[list[Segment]] = []
    for each in segments:
        if found and _touch(found[-1][-1], each):
            found[-1].append(each)
        else:
            found.append([each])
    return tuple(map(_as_one, found))


def _as_one(some: Sequence[Segment]) -> Segment:
    first, last = some[0], some[-1]
    if first is last:
        return first
    times = [each.last_time for each in some if each.last_time is not None]
    return replace(
        first,
        rows=sum(each.rows for each in some),
        last_version=last.last_version,
        last_time=max(times, default=None),
    )


def _touch(one: Segment, other: Segment) -> bool:
    return (
        one.skip + one.rows == other.skip
        and one.group == other.group
        and one.groups == other.groups == 1
        and one.pack == other.pack
    )


def latest_time(table: pa.Table) -> float | None:
    """Return a time that no event in `table` is after, in seconds since 1970 UTC."""
    newest = pc.max(table["event_time"]).value
    # A microsecond more than what was rounded to one.
    return None if newest is None else (newest + 1) / 1e6
