"""Rules of telemetry, removed one at a time."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from lakestore.catalog import folds
from lakestore.catalog.keyed import KeyedRows
from lakestore.catalog.keyed_tables import KeyedTables
from lakestore.history.archive import Archive
from tests.simulator.mutating import set_, without


@without("telemetry has keys", "a row that is fresh and packed counts once")
def _keys(stack: ExitStack) -> None:
    set_(stack, folds, "_none", lambda *_args: "true")


@without("names of telemetry are binding", "an entry that was packed is never packed again")
def _names(stack: ExitStack) -> None:
    original = Archive.folded

    def folded(self: Archive, manifest: Any) -> Any:
        return frozenset(name for name in original(self, manifest) if "telemetry" not in name)

    set_(stack, Archive, "folded", folded)
    set_(stack, KeyedRows, "_names_in", lambda *_args: frozenset())


@without("telemetry of erased sessions", "what of them is in entries counts for nobody")
def _erased(stack: ExitStack) -> None:
    set_(stack, KeyedTables, "drop_erased", lambda *_args: None)
