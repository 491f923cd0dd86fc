"""A session as its log folds to at one version. Owns the fold; asks no store for anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakestore.history.packs import Packed
from lakestore.history.rollup import Rollup
from lakestore.log.commits import Marker
from lakestore.log.keys import SessionKey
from lakestore.tables import events
from lakestore.tables.events import EventRow, delta_of, event_id, event_time
from lakestore.tables.payloads import Content
from lakestore.tables.state import from_json, split_scopes

_ROW_OVERHEAD = 400
_PACKED_OVERHEAD = 1_000


@dataclass(frozen=True, slots=True)
class SessionView:
    """What a reader knows of a session. Never changes; `follow` returns the next one."""

    key: SessionKey
    seen: float
    """`Clock.elapsed` when it was confirmed to be the last version."""
    version: int = 0
    """0: no commit has ever been seen."""
    token: str = ""
    """The newest commit's."""
    alive: bool = False
    state: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Session keys only. Shared between views: copy before handing it out."""
    packed: Packed | None = None
    """What jobs have packed of its present life; the rows below are those above it."""
    rollup: Rollup | None = None
    created: EventRow | None = None
    """The `create` row, None when a rollup or a pack holds it."""
    tail: tuple[EventRow, ...] = ()
    """Event rows above the rollup, in commit order."""
    newest: tuple[EventRow, ...] = ()
    """All rows of the newest commit, empty when it was read as part of a rollup."""
    nbytes: int = 0
    """About how many bytes of memory it holds."""
    ended: Packed | None = None
    """What jobs have packed of it, if that is all there is and says that it was deleted."""

    @property
    def marker(self) -> Marker:
        """The last commit and when it was confirmed."""
        return Marker(self.version, self.token, self.seen)

    @property
    def packed_version(self) -> int:
        """The version up to which all is packed, 0 when nothing of this life is."""
        return self.packed.row.version if self.packed else 0

    @property
    def rolled_version(self) -> int:
        """The version up to which a rollup was read or a pack is known, 0 without either."""
        return max(self.packed_version, self.rollup.checkpoint.version if self.rollup else 0)

    @property
    def last_update_time(self) -> float:
        """The time of the last event, or that of creation, in seconds since 1970 UTC."""
        last = self.last_event_time
        return self.created_at / 1_000_000 if last is None else last

    @property
    def last_event_time(self) -> float | None:
        """The time of the last event, None when it has none."""
        newest = self.events(1)
        if newest:
            return event_time(newest[0])
        return self.packed.row.last_event_time if self.packed else None

    @property
    def created_at(self) -> int:
        """When it was created, by its creator's clock in microseconds since 1970 UTC."""
        if self.packed is not None and self.packed.row.created_at is not None:
            return self.packed.row.created_at
        return (self.created or self.rows()[0]).committed_at

    @property
    def last_event_id(self) -> str | None:
        """The id of its last event, None when it has none."""
        newest = self.events(1)
        if newest:
            return event_id(newest[0])
        return self.packed.row.last_event_id if self.packed else None

    def on_packed(self, packed: Packed) -> SessionView:
        """Return the view of what is packed of the session."""
        row = packed.row
        return SessionView(
            self.key,
            self.seen,
            row.version,
            row.token,
            row.alive,
            from_json(row.state) if row.state else {},
            packed if row.alive else None,
            nbytes=4 * len(row.state or "") + _PACKED_OVERHEAD,
            ended=None if row.alive else packed,
        )

    def on_rollup(self, rollup: Rollup) -> SessionView:
        """Return the view of what `rollup` holds, and of what this one has above it.

        What this view has below, if anything, must be what the rollup was made of. Rows at or below
        what is packed are never taken from it.
        """
        last = rollup.checkpoint
        tail = tuple(row for row in self.tail if row.version > last.version)
        nbytes = rollup.nbytes + sum(_nbytes(row) for row in tail)
        if self.version > last.version:
            return replace(self, rollup=rollup, created=None, tail=tail, nbytes=nbytes)
        return replace(
            self,
            version=last.version,
            token=last.token,
            alive=True,
            state=rollup.state,
            packed=None if rollup.begins_after(self.packed_version) else self.packed,
            rollup=rollup,
            created=None,
            tail=tail,
            newest=(),
            nbytes=nbytes,
            ended=None,
        )

    def is_above(self, rollup: Rollup) -> bool:
        """Tell whether `rollup` holds a part of the life that this view shows."""
        version = rollup.checkpoint.version
        begun = self.created.version if self.created else self.rolled_version
        return self.alive and begun <= version <= self.version

    def follow(self, rows: Sequence[EventRow]) -> SessionView:
        """Return the view after the commit with `rows`, confirmed when this one was."""
        return self.follow_all([rows])

    def follow_all(self, commits: Sequence[Sequence[EventRow]]) -> SessionView:
        """Return the view after all of `commits`, confirmed when this one was."""
        view, waiting = self, list[Sequence[EventRow]]()
        for rows in commits:
            if rows[0].kind == "event":
                waiting.append(rows)
                continue
            view, waiting = view._with_events(waiting)._with_end(rows[0]), []
        return view._with_events(waiting)

    def _with_events(self, commits: Sequence[Sequence[EventRow]]) -> SessionView:
        if not commits:
            return self
        rows = [row for commit in commits for row in commit]
        state = dict(self.state)
        for row in rows:
            state.update(session_part(row))
        return replace(
            self,
            version=rows[-1].version,
            token=rows[-1].token,
            newest=tuple(commits[-1]),
            state=state,
            tail=(*self.tail, *rows),
            nbytes=self.nbytes + sum(_nbytes(row) for row in rows),
        )

    def _with_end(self, first: EventRow) -> SessionView:
        """Return the view after a `create` or `delete` row: of what was before, nothing stays."""
        begins = first.kind == "create"
        return replace(
            self,
            version=first.version,
            token=first.token,
            newest=(first,),
            alive=begins,
            state=session_part(first) if begins else {},
            packed=None,
            rollup=None,
            created=first if begins else None,
            tail=(),
            nbytes=_nbytes(first),
            ended=None,
        )

    def confirmed(self, seen: float) -> SessionView:
        """Return the same view, confirmed at `seen`."""
        return replace(self, seen=seen)

    def rows(self) -> list[EventRow]:
        """Return its `create` row and event rows above what is packed, in commit order."""
        created = [self.created] if self.created else []
        rolled = self.rollup.rows() if self.rollup is not None else created
        return [*self._above_packed(rolled), *self.tail]

    def table(self) -> pa.Table:
        """Return `rows` in `events.SCHEMA`; what a rollup has is not computed again."""
        if self.rollup is None:
            return events.to_table(self.rows())
        rolled = self.rollup.table()
        above = [version > self.packed_version for version in rolled["version"].to_pylist()]
        return pa.concat_tables([rolled.filter(pa.array(above)), events.to_table(self.tail)])

    def events(self, last: int | None = None) -> list[EventRow]:
        """Return its event rows above what is packed, the last `last` (None: all)."""
        if last is not None and last <= len(self.tail):
            return list(self.tail[len(self.tail) - last :])
        if self.rollup is None:
            return list(self.tail)
        if last is not None:
            rolled = self.rollup.last_events(last - len(self.tail))
            return [*self._above_packed(rolled), *self.tail]
        return [row for row in self.rows() if row.kind == "event"]

    def _above_packed(self, rows: Sequence[EventRow]) -> Sequence[EventRow]:
        packed = self.packed_version
        return [row for row in rows if row.version > packed] if packed else rows

    def contents(self) -> Iterator[tuple[int, Content]]:
        """Yield the bytes beside events that it refers to, each with a version that does.

        Of what is packed that is the packed version.
        """
        for content in self.packed.row.payloads if self.packed else ():
            yield self.packed_version, content
        for version, payload in self.rollup.payloads if self.rollup else ():
            if version > self.packed_version:
                yield version, payload.content
        for row in self.tail:
            for payload in row.payloads:
                yield row.version, payload.content

    def stamps(self) -> list[str]:
        """Return the stamps of the commits it was folded from; of many only the latest."""
        found = (self.rollup and self.rollup.checkpoint, self.created, *self.tail)
        packed = self.packed.row.stamp if self.packed else None
        return [*([packed] if packed else []), *(row.stamp for row in found if row and row.stamp)]

    def holds(self, version: int, token: str) -> bool:
        """Tell whether the commit of that version, if it is not packed, is the one with `token`."""
        if (version, token) == (self.version, self.token):
            return True
        return any(row.version == version and row.token == token for row in self.rows())


def _nbytes(row: EventRow) -> int:
    return len(row.event_json or "") + len(row.state_delta or "") + _ROW_OVERHEAD


def session_part(row: EventRow) -> dict[str, Any]:
    """Return the session's own keys of what the row sets."""
    return split_scopes(delta_of(row))[0] if row.state_delta else {}
