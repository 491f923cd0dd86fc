"""Which of the rows that a job brings are new beside what is packed, and what they end.

Of tables of keyed rows. Reads runs, and decides nothing of what is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from lakestore.history.archive import LAST, Archive, Keyed, Place
from lakestore.history.keyed import KeyedRow
from lakestore.log.manifests import Manifest

K = TypeVar("K", bound=KeyedRow)


class NewRows:
    """Compares rows of keyed tables with what the newest manifest of an app says."""

    def __init__(self, archive: Archive, newest: Manifest) -> None:
        self._archive = archive
        self._newest = newest

    def new(self, kind: Keyed[K], given: Sequence[K]) -> dict[Place, K]:
        """Return those rows that are later than what is packed of their keys, one a key."""
        # Another job may have packed their entries first, and pruned what it had packed.
        packed = self._archive.folded(self._newest) if kind.is_final and given else frozenset()
        found: dict[Place, K] = {}
        for row in given:
            place = kind.place(row)
            if self._archive.has_erased(self._newest, row) or kind.name_of(row) in packed:
                continue
            found[place] = kind.merge(found[place], row) if place in found else row
        for place, known in self._archive.rows_at(kind, self._newest, found).items():
            found[place] = kind.merge(known, found[place])
            if found[place] == known:
                del found[place]
        return self._unended(kind, found)

    def _unended(self, kind: Keyed[K], rows: dict[Place, K]) -> dict[Place, K]:
        """Return those of `rows` that nothing ends, neither of them nor of what is packed."""
        if kind.ending is None:
            return rows
        endings = {place: kind.ending(row) for place, row in rows.items()}
        wanted = {place for place in endings.values() if place is not None}
        ends = rows.keys() | self._archive.rows_at(kind, self._newest, wanted - rows.keys()).keys()
        return {place: row for place, row in rows.items() if endings[place] not in ends}

    def ends(self, kind: Keyed[K], rows: Mapping[Place, K]) -> set[Place]:
        """Return those of the new `rows` that end something that is packed."""
        if kind.ending is None:
            return set()
        ends = {place for place, row in rows.items() if kind.ending(row) is None}
        packed = (
            row
            for each in (kind, kind.beside)
            for user in {user for user, _ in ends}
            if each is not None
            for row in self._archive.rows_in(
                each,
                self._newest.app_name,
                self._newest.table(each.name).runs,
                (user, ""),
                (user, LAST[1]),
            )
        )
        return {ending for row in packed if (ending := kind.ending(row)) in ends}
