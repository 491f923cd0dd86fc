"""The `folded` table of runs: entries of shared state that are in the runs of it already.

Arrow and Parquet; no I/O, no ADK.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

SCHEMA = pa.schema([pa.field("entry", pa.string(), nullable=False)])
"""One row an entry, ascending: what `name_of` in `lakestore.log.entries` says of it."""


def to_table(names: Sequence[str]) -> pa.Table:
    """Return `names` as a table in `SCHEMA`, in the order given."""
    return pa.table([pa.array(names, pa.string())], SCHEMA)


def from_table(table: pa.Table) -> list[str]:
    """Return the names in a table in `SCHEMA`, in its order."""
    names: list[str] = table["entry"].to_pylist()
    return names
