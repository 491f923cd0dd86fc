"""Rows of telemetry as a plugin would have measured them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from lakestore import Lake
from lakestore.history.telemetry import put_telemetry
from lakestore.log.stamps import stamp_text
from lakestore.tables.telemetry import TelemetryRow

APP, USER = "travel", "ana"
_numbers = count(1)


def measured(
    user_id: str = USER, session_id: str = "s1", version: int = 1, **fields: Any
) -> TelemetryRow:
    """Return a row that is another one each time."""
    number = next(_numbers)
    row = TelemetryRow(
        app_name=APP,
        user_id=user_id,
        id=stamp_text(number, 0, f"{number:016x}"),
        stamp="",
        kind="model",
        session_id=session_id,
        version=version,
        invocation_id="i",
        started_at=number,
        duration_us=1_000,
    )
    return replace(row, **fields)


def put(lake: Lake, *rows: TelemetryRow) -> list[str]:
    """Store rows, as one batch; return their ids."""
    put_telemetry(lake.environment, rows)
    return [row.id for row in rows]


def shown(lake: Lake) -> list[str]:
    """Return the ids that SQL shows now, each as often as it does."""
    return [name for (name,) in lake.sql("select id from telemetry order by id").fetchall()]
