"""Storing what plugins have measured: rows of many users, one entry a user."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from lakestore.history.environment import Environment
from lakestore.history.keyed import TELEMETRY
from lakestore.log.entries import put_entry
from lakestore.log.keys import Scope
from lakestore.log.stamps import stamp_text
from lakestore.tables.telemetry import TelemetryRow, encode


def put_telemetry(environment: Environment, rows: Iterable[TelemetryRow]) -> None:
    """Put `rows`, each user's in one entry under a new stamp: they get that stamp.

    Putting rows again is safe: their ids tell that they are the same.

    Raises:
        StorageError: some may be missing.
    """
    by_scope: dict[Scope, list[TelemetryRow]] = {}
    for row in rows:
        by_scope.setdefault(Scope(row.app_name, row.user_id), []).append(row)
    put = partial(_put, environment)
    environment.pool.map(put, list(by_scope.items()), near=environment.store.near)


def _put(environment: Environment, entry: tuple[Scope, list[TelemetryRow]]) -> None:
    scope, rows = entry
    now = max(0, int(environment.clock.wall() * 1_000_000))
    stamp = stamp_text(now, 0, environment.new_token())
    put_entry(
        environment.store,
        scope.entries_in(TELEMETRY.entries),
        stamp,
        encode([replace(row, stamp=stamp) for row in rows]),
        fold=False,
        clock=environment.clock,
        metrics=environment.metrics,
    )
