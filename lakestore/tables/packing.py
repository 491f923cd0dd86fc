"""Packs: large Parquet objects with rows of many sessions. Owns their row groups; no I/O.

Rows are sorted by user, session, version and ordinal, so that a session is a few neighbouring row
groups, and so is a user.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakestore.tables import events
from lakestore.tables.parquet import GroupPlace, GroupWriter, footer_size
from lakestore.tables.runs import Segment

GROUP_ROWS = 4_096
_GROUP_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of one session, as they were added."""

    first_row: int
    """How many rows of the pack come before."""
    rows: int
    first_version: int
    last_version: int
    last_time: float | None


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack that is complete."""

    body: bytes
    footer: int
    """Bytes of the footer."""
    rows: int
    groups: tuple[GroupPlace, ...]

    def segment(self, pack_id: str, part: Part) -> Segment:
        """Return where a part is in the pack, which is stored as `pack_id`."""
        before, first = 0, 0
        while before + self.groups[first].rows <= part.first_row:
            before += self.groups[first].rows
            first += 1
        count, end = 1, before + self.groups[first].rows
        while end < part.first_row + part.rows:
            end += self.groups[first + count].rows
            count += 1
        begin, last = self.groups[first], self.groups[first + count - 1]
        return Segment(
            pack=pack_id,
            group=first,
            groups=count,
            start=begin.start,
            length=last.start + last.length - begin.start,
            skip=part.first_row - before,
            rows=part.rows,
            first_version=part.first_version,
            last_version=part.last_version,
            last_time=part.last_time,
        )


class PackBuilder:
    """Collects rows of sessions, in the order of the pack, into row groups."""

    def __init__(self) -> None:
        self._writer = GroupWriter(events.SCHEMA)
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.rows = 0
        """Rows so far."""

    @property
    def nbytes(self) -> int:
        """About how many bytes the pack has so far."""
        return self._writer.nbytes + self._pending_bytes // 8

    def add(self, table: pa.Table, last_time: float | None) -> Part:
        """Add rows of one session in `events.SCHEMA`; at least one, in commit order."""
        versions = pc.min_max(table["version"]).as_py()
        part = Part(self.rows, table.num_rows, versions["min"], versions["max"], last_time)
        self.rows += table.num_rows
        while table.num_rows:
            fitting = max(1, table.num_rows * _GROUP_BYTES // max(1, table.nbytes))
            taken = min(fitting, GROUP_ROWS - self._pending_rows)
            self._hold(table.slice(0, taken))
            table = table.slice(taken)
        return part

    def _hold(self, table: pa.Table) -> None:
        self._pending.append(table)
        self._pending_rows += table.num_rows
        self._pending_bytes += table.nbytes
        if self._pending_rows >= GROUP_ROWS or self._pending_bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write(pa.concat_tables(self._pending).combine_chunks())
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def finish(self) -> Pack:
        """Return the pack."""
        self._flush()
        body = self._writer.close()
        return Pack(body, footer_size(body), self.rows, tuple(self._writer.groups))
