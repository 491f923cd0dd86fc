"""The `erased` table of runs: sessions of which nothing may be read again, without their names.

Arrow and Parquet; no I/O, no ADK.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("digest", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("token", pa.string(), nullable=False),
        pa.field("erased_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""One row a session, ascending by `digest`."""

_FIRST_TIME = 10**14
"""In microseconds, of 1973: no log has so many versions."""


@dataclass(frozen=True, slots=True)
class ErasedRow:
    """One session that was erased."""

    digest: str
    """Of the prefix of its log, see `lakestore.log.keys.log_digest`."""
    version: int
    """Nothing at or below it is ever read again: from a log, a pack or shared state."""
    token: str
    """The token of the commit of that version, empty where it is not known."""
    erased_at: int
    """The eraser's clock in microseconds since 1970 UTC: informative."""

    @property
    def is_of_time(self) -> bool:
        """Whether the version is a time: all goes that was remembered of a user up to then."""
        return self.version >= _FIRST_TIME


def to_table(rows: Sequence[ErasedRow]) -> pa.Table:
    """Return `rows` as a table in `SCHEMA`, in the order given."""
    return pa.Table.from_arrays(
        [pa.array([getattr(row, field.name) for row in rows], field.type) for field in SCHEMA],
        schema=SCHEMA,
    )


def from_table(table: pa.Table) -> list[ErasedRow]:
    """Return the rows of a table in `SCHEMA`, in its order."""
    if not table.num_rows:
        return []
    times = pa.concat_arrays(table["erased_at"].chunks).view(pa.int64()).to_pylist()
    columns = [table[name].to_pylist() for name in SCHEMA.names[:-1]]
    return [ErasedRow(*values) for values in zip(*columns, times, strict=True)]
