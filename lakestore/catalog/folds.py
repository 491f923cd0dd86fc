"""How rows of one key come to one, in SQL: of what is fresh, and of runs.

Owns which rows count. Where they lie, and when they are read, is `keyed_tables`'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Fold(ABC):
    """A rule for the rows of one table; its queries take tables, or queries in parentheses."""

    key: tuple[str, ...]
    """The columns that name a row."""

    @abstractmethod
    def new(self, held: str, fresh: str) -> str:
        """Return the query of those rows of `held` that are to be held beside `fresh`."""

    @abstractmethod
    def rows(self, columns: Sequence[str], fresh: str, younger: str, oldest: str) -> str:
        """Return the query of `columns` of the rows that count, one a key.

        Args:
            columns: Of the table.
            fresh: The rows that are held.
            younger: Those of all runs but the oldest of each app.
            oldest: Those of the oldest, mostly the most; one a key.
        """


class Copies(Fold):
    """Rows are never changed: any of one key is as good as another."""

    __slots__ = ()

    @override
    def new(self, held: str, fresh: str) -> str:
        return f"""FROM {held} AS held WHERE {_none(self.key, fresh, "held")}
          QUALIFY row_number() OVER (PARTITION BY {", ".join(self.key)} ORDER BY entry) = 1"""

    @override
    def rows(self, columns: Sequence[str], fresh: str, younger: str, oldest: str) -> str:
        # An entry may be sent again, and land, at any time.
        names = ", ".join(columns)
        return f"""SELECT {names} FROM {fresh}
          UNION ALL SELECT {names} FROM {younger} AS run WHERE {_none(self.key, fresh, "run")}
          UNION ALL SELECT {names} FROM {oldest} AS run WHERE {_none(self.key, fresh, "run")}"""


@dataclass(frozen=True, slots=True)
class Latest(Fold):
    """Of the adds of one key that with the latest stamp and ordinal counts, in the first place."""

    ended_by: tuple[str, ...]
    """The columns that a forget shares with what it ends for good, whenever it comes."""

    @override
    def new(self, held: str, fresh: str) -> str:
        return f"FROM {held}"  # which of them count changes as others are packed or erased

    @override
    def rows(self, columns: Sequence[str], fresh: str, younger: str, oldest: str) -> str:
        names, key = ", ".join(columns), ", ".join(self.key)
        own = "stamp || '/' || lpad(ordinal::VARCHAR, 10, '0')"
        first = f"min(least(place, {own})) OVER (PARTITION BY {key}) AS place"
        folded = ", ".join(first if name == "place" else name for name in columns)
        # What nothing newer touches is streamed; a window holds all that it is about.
        return f"""WITH newer AS NOT MATERIALIZED (
            SELECT {names} FROM {fresh} UNION ALL SELECT {names} FROM {younger}
          ), forgets AS NOT MATERIALIZED (
            SELECT {", ".join(self.ended_by)} FROM newer WHERE kind = 'forget'
            UNION ALL
            SELECT {", ".join(self.ended_by)} FROM {oldest} WHERE kind = 'forget'
          ), several AS NOT MATERIALIZED (
            FROM newer UNION ALL
            SELECT {names} FROM {oldest} AS row WHERE NOT {_none(self.key, "newer", "row")}
          ), one AS NOT MATERIALIZED (
            SELECT {folded} FROM several WHERE kind = 'add' QUALIFY
              row_number() OVER (PARTITION BY {key} ORDER BY stamp DESC, ordinal DESC) = 1
          )
          SELECT {names} FROM one AS row WHERE {_none(self.ended_by, "forgets", "row")}
          UNION ALL
          SELECT {names} FROM {oldest} AS row WHERE kind = 'add'
            AND {_none(self.key, "newer", "row")} AND {_none(self.ended_by, "forgets", "row")}"""


def _none(columns: Sequence[str], table: str, row: str) -> str:
    """Return the condition that no row of `table` has these columns in common with `row`."""
    same = " AND ".join(f"other.{name} IS NOT DISTINCT FROM {row}.{name}" for name in columns)
    return f"NOT EXISTS (FROM {table} AS other WHERE {same})"
