"""Packing the fresh part of some sessions. Owns what a session's row says after it.

A task is a plain value that any process can run; what it returns is plain too, and only who
publishes it makes it count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from lakestore.history.archive import EVENTS
from lakestore.history.environment import Environment
from lakestore.history.sessions import Sessions
from lakestore.history.shared import shared_rows
from lakestore.history.view import SessionView
from lakestore.jobs.changes import Change, Changes
from lakestore.log.keys import pack_key
from lakestore.log.manifests import StoredFile
from lakestore.tables import events
from lakestore.tables.events import EventRow
from lakestore.tables.packing import PackBuilder, Part
from lakestore.tables.runs import Segment, SessionRow
from lakestore.tables.state import StateRow, to_json


@dataclass(frozen=True, slots=True)
class PackTask:
    """Sessions of one app whose fresh part is to be packed."""

    app_name: str
    first: str
    """The prefix of the first log, in the order of keys."""
    last: str
    """That of the last."""
    pack_bytes: int
    """How large a pack should become."""


class Packer:
    """Packs the fresh part of sessions of one app."""

    def __init__(self, environment: Environment, sessions: Sessions, task: PackTask) -> None:
        self._env = environment
        self._sessions = sessions
        self._task = task
        self._changes = Changes()
        self._builder = PackBuilder()
        self._waiting: list[tuple[SessionView, SessionRow | None, Part | None]] = []

    def run(self) -> Changes:
        """Store packs and return what they make of the sessions.

        Raises:
            StorageError: the store failed; what was stored already is nobody's, and swept.
        """
        task = self._task
        for view, before in self._sessions.fresh(task.app_name, task.first, task.last):
            rows = view.rows()
            self._changes.state += shared_of(rows)
            part = None
            if rows:
                table = events.to_table(rows)
                part = self._builder.add(table, latest_time(table))
            self._waiting.append((view, before, part))
            if self._builder.nbytes >= task.pack_bytes:
                self._store()
        self._store()
        return self._changes

    def _store(self) -> None:
        """Store the pack as it is so far, if there is anything in it."""
        builder, waiting = self._builder, self._waiting
        self._builder, self._waiting = PackBuilder(), []
        if not builder.rows:
            for view, before, _ in waiting:
                self._changes.add(Change(before, row_of(view, before, ())))
            return
        pack, name = builder.finish(), self._env.new_token()
        self._env.store.put_if_absent(pack_key(self._task.app_name, EVENTS.name, name), pack.body)
        digest = sha256(pack.body).hexdigest()
        self._changes.packs.append(
            StoredFile(name, len(pack.body), pack.footer, pack.rows, digest, dead=pack.rows)
        )
        for view, before, part in waiting:
            segments = (pack.segment(name, part),) if part else ()
            self._changes.add(Change(before, row_of(view, before, segments)))


def latest_time(table: pa.Table) -> float | None:
    """Return a time that no event in `table` is after, in seconds since 1970 UTC."""
    newest = pc.max(table["event_time"]).cast("int64").as_py()
    # A microsecond more than what was rounded to one.
    return None if newest is None else (newest + 1) / 1e6


def shared_of(rows: list[EventRow]) -> Iterator[StateRow]:
    """Yield what the commits of `rows` set in shared state: their entries may be missing."""
    for _, commit in groupby(rows, key=lambda row: row.version):
        for found in shared_rows(list(commit)).values():
            yield from found


def row_of(
    view: SessionView, before: SessionRow | None, segments: tuple[Segment, ...]
) -> SessionRow:
    """Return what a session's row says when all of it is packed.

    Args:
        view: The session.
        before: What its row said.
        segments: Where its fresh rows are.
    """
    key, packed = view.key, view.packed.row if view.packed else None
    rows = view.rows()
    stamps = view.stamps() + ([before.stamp] if before and before.stamp else [])
    return SessionRow(
        app_name=key.app_name,
        user_id=key.user_id,
        session_id=key.session_id,
        version=view.version,
        token=view.token,
        alive=view.alive,
        state=to_json(view.state) if view.alive else None,
        stamp=max(stamps, default=None),
        created_at=view.created_at if view.alive else None,
        active_at=(view.newest or rows)[-1].committed_at,
        last_event_time=view.last_event_time if view.alive else None,
        last_event_id=view.last_event_id if view.alive else None,
        events=(packed.events if packed else 0) + sum(row.kind == "event" for row in rows),
        segments=(*(packed.segments if packed else ()), *segments),
    )
