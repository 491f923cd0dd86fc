"""Packing the fresh part of some sessions. Owns what a session's row says after it.

A task is a plain value that any process can run; what it returns is plain too, and only who
publishes it makes it count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby

from lakestore.history.archive import EVENTS, STATE
from lakestore.history.entries import shared_rows
from lakestore.history.environment import Environment
from lakestore.history.sessions import Sessions
from lakestore.history.view import SessionView
from lakestore.jobs.changes import Change, Changes
from lakestore.jobs.running import Tell, unheard
from lakestore.lake import Lake
from lakestore.log.keys import pack_key
from lakestore.log.manifests import StoredFile
from lakestore.tables.events import EventRow
from lakestore.tables.packing import Pack, PackBuilder, Part
from lakestore.tables.payloads import contents_of
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
    size: int = 0
    """How many commits are listed of them."""

    def run(self, lake: Lake, tell: Tell = unheard) -> list[Changes]:
        """Store packs, and return what each makes of its sessions; tell of commits."""
        return list(Packer(lake.environment, lake.sessions, self, tell).run())


class Packer:
    """Packs the fresh part of sessions of one app."""

    def __init__(
        self, environment: Environment, sessions: Sessions, task: PackTask, tell: Tell = unheard
    ) -> None:
        self._env = environment
        self._sessions = sessions
        self._task = task
        self._tell = tell
        self._state: list[StateRow] = []
        self._builder = PackBuilder()
        self._waiting: list[tuple[SessionRow | None, SessionRow, Part]] = []

    def run(self) -> Iterator[Changes]:
        """Store packs, and yield what each makes of its sessions.

        Raises:
            StorageError: the store failed; what was stored already is nobody's, and swept.
        """
        task = self._task
        for view, before in self._sessions.fresh(task.app_name, task.first, task.last):
            rows = view.rows()
            self._state += shared_of(rows)
            part = self._builder.add(view.table()) if rows else ()
            # Not the view itself, which holds all the rows.
            self._waiting.append((before, row_of(view, before), part))
            self._tell(view.version - (before.version if before else 0))
            if self._builder.nbytes >= task.pack_bytes:
                yield self._store()
        if self._waiting:
            yield self._store()

    def _store(self) -> Changes:
        """Store the pack as it is so far, if there is anything in it."""
        changes, waiting = Changes(keyed={STATE.name: self._state}), self._waiting
        stored = store_pack(self._env, self._task.app_name, self._builder)
        self._state, self._builder, self._waiting = [], PackBuilder(), []
        if stored is not None:
            changes.packs.append(stored.file)
        for before, row, part in waiting:
            segments = (*row.segments, *(stored.segments(part) if stored else ()))
            changes.add(Change(before, replace(row, segments=segments)))
        return changes


@dataclass(frozen=True, slots=True)
class StoredPack:
    """A pack that is stored, and that nobody refers to yet."""

    pack: Pack
    file: StoredFile

    def segments(self, part: Part) -> tuple[Segment, ...]:
        """Return where a part is."""
        return self.pack.segments(self.file.id, part)


def store_pack(environment: Environment, app_name: str, builder: PackBuilder) -> StoredPack | None:
    """Store what a builder holds as a pack of the app; None when that is nothing.

    Raises:
        StorageError: the store failed.
    """
    if not builder.rows:
        return None
    pack, name = builder.finish(), environment.new_token()
    environment.put_new(pack_key(app_name, EVENTS.name, name), pack.body)
    digest = sha256(pack.body).hexdigest()
    file = StoredFile(name, len(pack.body), pack.footer, pack.rows, digest, dead=pack.rows)
    return StoredPack(replace(pack, body=b""), file)


def shared_of(rows: list[EventRow]) -> Iterator[StateRow]:
    """Yield what the commits of `rows` set in shared state: their entries may be missing."""
    for _, commit in groupby(rows, key=lambda row: row.version):
        for found in shared_rows(list(commit)).values():
            yield from found


def row_of(view: SessionView, before: SessionRow | None) -> SessionRow:
    """Return what a session's row says when all of it is packed, but for the new segments.

    Args:
        view: The session.
        before: What its row said.
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
        segments=packed.segments if packed else (),
        payloads=contents_of(
            (payload for row in rows for payload in row.payloads), packed.payloads if packed else ()
        ),
    )
