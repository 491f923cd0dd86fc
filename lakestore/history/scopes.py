"""The state of one scope as its entries fold, and entries that are being listed. Asks no store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from lakestore.history.ranges import Answer
from lakestore.log.entries import Entry
from lakestore.log.keys import Scope
from lakestore.log.manifests import Manifest
from lakestore.tables.state import StateRow, from_json, latest

_ROW_OVERHEAD = 400


@dataclass(frozen=True, slots=True)
class ScopeFold:
    """The state of one scope as a listing of its entries folds to. Never changes."""

    scope: Scope
    rows: Mapping[str, StateRow] = field(default_factory=dict)
    """The latest row of each key."""
    read: frozenset[str] = frozenset()
    """The keys of the entries that were read."""
    seen: float = 0.0
    """`Clock.elapsed` when the listing began."""
    packed: tuple[int, str] = (0, "")
    """Number and token of the manifest whose runs were read."""
    packed_seen: float | None = None
    """`Clock.elapsed` when that was the newest one."""

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it holds."""
        rows = self.rows.values()
        values = sum(len(row.key) + len(row.value or "") + _ROW_OVERHEAD for row in rows)
        return values + sum(len(key) + 200 for key in self.read)

    def values(self) -> dict[str, Any]:
        """Return the state, keys without prefix; fresh objects at each call."""
        rows = self.rows.items()
        return {key: from_json(row.value) for key, row in rows if row.value is not None}

    def with_entry(self, key: str, rows: Sequence[StateRow]) -> ScopeFold:
        """Return the fold that has read one more entry."""
        return replace(self, rows=latest([*self.rows.values(), *rows]), read=self.read | {key})

    def lacks(self, key: str, rows: Iterable[StateRow]) -> bool:
        """Tell whether entry `key`, which would hold `rows`, is neither read nor overtaken."""
        if key in self.read:
            return False
        return any(row.key not in self.rows or self.rows[row.key].stamp < row.stamp for row in rows)


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries of some scopes that are being listed."""

    scopes: Sequence[Scope]
    prefixes: Sequence[str]
    """What is listed: all entries of `scopes`, and perhaps others."""
    started: float
    """`Clock.elapsed` when the first began."""
    answers: Sequence[Future[list[tuple[str, Entry]]]]
    """For each prefix (prefix of the scope, entry)."""
    manifest: Future[Manifest] | None
    """The newest manifest of the app; None while what was packed is known well enough."""
    packed: Answer[dict[Scope, list[StateRow]]] | None = None
    """What is packed of `scopes`, if it was asked for already."""

    def entries(self) -> dict[str, list[Entry]]:
        """Return the entries of each scope, by its prefix, when all are listed.

        Raises:
            StorageError: the store failed.
        """
        listed: dict[str, list[Entry]] = {scope.entries: [] for scope in self.scopes}
        for answer in self.answers:
            for folder, entry in answer.result():
                if folder in listed:
                    listed[folder].append(entry)
        return listed
