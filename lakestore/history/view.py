"""A session as its log folds to at one version. Owns the fold; asks no store for anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakestore.history.rollup import Rollup
from lakestore.log.commits import Marker
from lakestore.log.keys import SessionKey
from lakestore.tables.events import EventRow, delta_of
from lakestore.tables.state import split_scopes

_ROW_OVERHEAD = 400


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
    rollup: Rollup | None = None
    created: EventRow | None = None
    """The `create` row, None when a rollup holds it."""
    tail: tuple[EventRow, ...] = ()
    """Event rows above the rollup, in commit order."""
    newest: tuple[EventRow, ...] = ()
    """All rows of the newest commit, empty when it was read as part of a rollup."""
    nbytes: int = 0
    """About how many bytes of memory it holds."""

    @property
    def marker(self) -> Marker:
        """The last commit and when it was confirmed."""
        return Marker(self.version, self.token, self.seen)

    @property
    def rolled_version(self) -> int:
        """The version up to which a rollup was read, 0 without one."""
        return self.rollup.checkpoint.version if self.rollup else 0

    def on_rollup(self, rollup: Rollup) -> SessionView:
        """Return the view of what `rollup` holds, and of what this one has above it.

        What this view has below, if anything, must be what the rollup was made of.
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
            rollup=rollup,
            created=None,
            tail=tail,
            newest=(),
            nbytes=nbytes,
        )

    def is_above(self, rollup: Rollup) -> bool:
        """Tell whether `rollup` holds a part of the life that this view shows."""
        version = rollup.checkpoint.version
        begun = self.created.version if self.created else self.rolled_version
        return self.alive and begun <= version <= self.version

    def follow(self, rows: Sequence[EventRow]) -> SessionView:
        """Return the view after the commit with `rows`, confirmed when this one was."""
        first = rows[0]
        nbytes = sum(_nbytes(row) for row in rows)
        after = replace(self, version=first.version, token=first.token, newest=tuple(rows))
        if first.kind == "event":
            state = dict(self.state)
            for row in rows:
                state.update(session_part(row))
            return replace(
                after, state=state, tail=(*self.tail, *rows), nbytes=self.nbytes + nbytes
            )
        # A `create` or `delete` row: of what was before, nothing stays.
        begins = first.kind == "create"
        return replace(
            after,
            alive=begins,
            state=session_part(first) if begins else {},
            rollup=None,
            created=first if begins else None,
            tail=(),
            nbytes=nbytes,
        )

    def confirmed(self, seen: float) -> SessionView:
        """Return the same view, confirmed at `seen`."""
        return replace(self, seen=seen)

    def rows(self) -> list[EventRow]:
        """Return the `create` row and all event rows, in commit order."""
        if self.rollup is not None:
            return [*self.rollup.rows(), *self.tail]
        return [*([self.created] if self.created else []), *self.tail]

    def events(self, last: int | None = None) -> list[EventRow]:
        """Return the last `last` event rows (None: all), in commit order."""
        if last is not None and last <= len(self.tail):
            return list(self.tail[len(self.tail) - last :])
        if self.rollup is None:
            return list(self.tail)
        if last is not None:
            return [*self.rollup.last_events(last - len(self.tail)), *self.tail]
        return [row for row in self.rows() if row.kind == "event"]

    def stamps(self) -> list[str]:
        """Return the stamps of the commits it was folded from; of a rollup only the latest."""
        rolled = self.rollup.checkpoint if self.rollup else None
        return [row.stamp for row in (rolled, self.created, *self.tail) if row and row.stamp]

    def holds(self, version: int, token: str) -> bool:
        """Tell whether the commit of that version is the one with `token`."""
        if (version, token) == (self.version, self.token):
            return True
        return any(row.version == version and row.token == token for row in self.rows())


def _nbytes(row: EventRow) -> int:
    return len(row.event_json or "") + len(row.state_delta or "") + _ROW_OVERHEAD


def session_part(row: EventRow) -> dict[str, Any]:
    """Return the session's own keys of what the row sets."""
    return split_scopes(delta_of(row))[0] if row.state_delta else {}
