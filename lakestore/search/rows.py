"""Which rows an index holds, what order equals come in, and which of them a filter lets through.

Owns the fold of adds and forgets, in any order; what ranks rows is other modules'.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakestore.search.filters import Filter, as_json
from lakestore.search.order import Order
from lakestore.search.postings import Numbers, Postings, encoded
from lakestore.tables.memory import place_of

Mask = npt.NDArray[np.bool_]
Key = tuple[str | None, str]
"""Session and id of a memory."""
Session = tuple[str | None, str] | None
"""User and id of the session that a memory is from; None for none."""

COLUMNS = (
    *("id", "kind", "stamp", "ordinal", "place", "session_id", "author", "event_time"),
    *("text", "words", "custom_metadata", "embedding", "content", "event_id", "invocation_id"),
    *("tool_call_id", "source_user_id", "version"),
)
"""What indexes are made of: columns of `lakestore.tables.memory.SCHEMA`."""
SHOWN = (
    *("content", "text", "author", "event_time", "custom_metadata", "event_id", "invocation_id"),
    *("tool_call_id", "source_user_id", "version"),
)
"""What is kept of each row for those who find it; times in microseconds since 1970 UTC."""

_NO_TIME = -(2**63)


class Rows:
    """Rows by number, from 0, in the order they came; those that went keep theirs a while."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self._sessions: list[Session] = []
        self._shown: list[tuple[Any, ...]] = []
        self._shown_nbytes = 0
        self._versions: list[str] = []
        self._live = bytearray()
        self._times = array("q")
        self._facets = Postings()
        self._order = Order()
        self._numbers: dict[str, tuple[int, ...]] = {}
        self._forgotten: set[str] = set()
        self.latest = ""
        """The latest stamp of all rows and forgets that came; "" for none did."""
        self.dead = 0
        """How many numbers are of rows that went."""

    def __len__(self) -> int:
        return len(self.keys) - self.dead

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        facts = 1_000 * len(self.keys) + 100 * len(self._forgotten)
        return facts + self._shown_nbytes + self._facets.nbytes

    @property
    def ranks(self) -> npt.NDArray[np.int64]:
        """The places of all rows as numbers, of which the lower comes first among equals."""
        return self._order.ranks()

    @property
    def live(self) -> Mask:
        """Which numbers are of rows that are there."""
        return np.array(self._live, np.bool_)

    def fold(self, table: pa.Table) -> pa.RecordBatch:
        """Take adds and forgets, and return the rows that got the next numbers, in that order.

        A forget wins over every add of its id, earlier or later. Of two adds of one key the one
        with the later stamp counts, in the place of the earlier.
        """
        batch = _one_batch(table)
        names = ("id", "source_user_id", "session_id", "kind", "stamp", "ordinal", "place")
        columns = (batch.column(name).to_pylist() for name in names)
        taken: list[int] = []
        for number, row in enumerate(zip(*columns)):  # noqa: B905 - of one batch
            name, user, session_id, kind, stamp, ordinal, place = row
            session = session_of(user, session_id)
            self.latest = max(self.latest, stamp)
            if kind == "forget":
                self._forget(name, session, place)
            elif self._add(session, name, place_of(stamp, ordinal), place):
                taken.append(number)
        if len(taken) < batch.num_rows:
            batch = batch.take(pa.array(taken, pa.int64()))
        self._note(batch, len(self.keys) - len(taken))
        return batch

    def shown(self, number: int) -> dict[str, Any]:
        """Return the `SHOWN` values of a row."""
        return dict(zip(SHOWN, self._shown[number], strict=True))

    def numbers(self) -> list[int]:
        """Return the numbers of the rows that are there."""
        return [number for number, is_live in enumerate(self._live) if is_live]

    def is_forgotten(self, name: str) -> bool:
        """Tell whether memories of that id are forgotten, those that are still to come too."""
        return name in self._forgotten

    def find(self, name: str) -> list[int]:
        """Return the rows that are there of that id, of one session each."""
        return list(self._numbers.get(name, ()))

    def at(self, session: Session, name: str) -> int | None:
        """Return the row that is there of that session and id; None for none is."""
        numbers = self._numbers.get(name, ())
        return next((it for it in numbers if self._sessions[it] == session), None)

    def place(self, number: int) -> str:
        """Return what orders a row among equals."""
        return self._order.place(number)

    def remove(self, keys: Iterable[Key]) -> None:
        """Take rows away, of which nothing is remembered; keys that are not there are no matter."""
        for session_id, name in keys:
            for number in self._numbers.get(name, ()):
                if self.keys[number][0] == session_id:
                    self._drop(number)

    def allowed(self, where: Filter) -> Mask:
        """Return which rows are there and meet all that `where` asks for."""
        found = self.live
        if where.after is not None or where.upto is not None:
            times = np.array(self._times, np.int64)
            found &= times != _NO_TIME
            found &= times > (_NO_TIME if where.after is None else where.after)
            found &= times <= (2**63 - 1 if where.upto is None else where.upto)
        for name, values in (("session", where.session_ids), ("author", where.authors)):
            if values is not None:
                found &= self._having(name, values)
        for name, value in where.metadata:
            found &= self._having("metadata", [(name, value)])
        return found

    def renumber(self) -> Numbers:
        """Number the rows anew, without those that went; return the new numbers, -1 for those."""
        live = self.live
        numbers = np.where(live, np.cumsum(live) - 1, -1).astype(np.int32)
        kept = np.flatnonzero(live).tolist()
        self.keys = [self.keys[number] for number in kept]
        self._sessions = [self._sessions[number] for number in kept]
        self._shown = [self._shown[number] for number in kept]
        self._shown_nbytes = sum(map(_nbytes, self._shown))
        self._versions = [self._versions[number] for number in kept]
        self._times = array("q", np.array(self._times, np.int64)[live].tobytes())
        self._live, self.dead = bytearray(b"\1" * len(kept)), 0
        self._numbers = {
            name: tuple(int(numbers[number]) for number in found)
            for name, found in self._numbers.items()
        }
        self._facets.renumber(numbers)
        self._order.renumber(kept)
        return numbers

    def _add(self, session: Session, name: str, version: str, place: str | None) -> bool:
        place = version if place is None else min(place, version)
        if name in self._forgotten:
            self._order.begin(session, place)
            return False
        known = self.at(session, name)
        if known is not None:
            place = min(place, self._order.place(known))
            if version <= self._versions[known]:
                self._order.move(known, place)
                return False
            self._drop(known)
        self._numbers[name] = (*self._numbers.get(name, ()), len(self.keys))
        self.keys.append((session and session[1], name))
        self._sessions.append(session)
        self._versions.append(version)
        self._live.append(1)
        self._order.append(session, place)
        return True

    def _forget(self, name: str, session: Session, place: str | None) -> None:
        self._forgotten.add(name)
        if place is not None:
            self._order.begin(session, place)
        for number in self._numbers.get(name, ()):
            self._drop(number)

    def _drop(self, number: int) -> None:
        _, name = self.keys[number]
        rest = tuple(other for other in self._numbers[name] if other != number)
        if rest:
            self._numbers[name] = rest
        else:
            del self._numbers[name]
        self._live[number] = 0
        self.dead += 1

    def _note(self, batch: pa.RecordBatch, first: int) -> None:
        """Remember what filters ask for of rows whose numbers begin with `first`."""
        times = batch.column("event_time").view(pa.int64())
        columns = [times if it == "event_time" else batch.column(it) for it in SHOWN]
        shown = list(zip(*(column.to_pylist() for column in columns), strict=True))
        self._shown += shown
        self._shown_nbytes += sum(map(_nbytes, shown))
        times = times.fill_null(_NO_TIME)
        self._times.frombytes(times.to_numpy(zero_copy_only=False).tobytes())
        for name, column in (("session", "session_id"), ("author", "author")):
            values = batch.column(column)
            rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            terms, codes = encoded(values.drop_null())
            self._facets.add([(name, term) for term in terms], codes, rows + first)
        for row, text in enumerate(batch.column("custom_metadata").to_pylist(), first):
            if text is not None:
                self._note_metadata(row, text)

    def _note_metadata(self, row: int, text: str) -> None:
        terms = [("metadata", field) for field in _fields(text)]
        here = np.full(len(terms), row)
        self._facets.add(terms, np.arange(len(terms)), here)

    def _having(self, name: str, values: Collection[object]) -> Mask:
        found = np.zeros(len(self.keys), np.bool_)
        for value in values:
            found[self._facets.rows((name, value))] = True
        return found


def session_of(user_id: str | None, session_id: str | None) -> Session:
    """Return the session that a memory is from."""
    return None if session_id is None else (user_id, session_id)


def _nbytes(values: tuple[Any, ...]) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


def _fields(text: str) -> list[tuple[str, str]]:
    """Return names and values of a JSON object, none of what is no object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(found, dict):
        return []
    return [(name, as_json(value)) for name, value in found.items()]


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    table = table.select(COLUMNS)
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in table.schema], schema=table.schema
    )
