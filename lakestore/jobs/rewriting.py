"""Packing again what is packed. Owns how rows of packed sessions get into a new pack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakestore.history.archive import Place
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.jobs.compact import PACK_BYTES
from lakestore.jobs.packing import StoredPack, store_pack
from lakestore.lake import Lake
from lakestore.tables import events
from lakestore.tables.events import EventRow
from lakestore.tables.packing import PackBuilder, Part
from lakestore.tables.runs import Segment, SessionRow

Content = Sequence[Segment | Sequence[EventRow]]
"""Where the rows of a session are, or the rows themselves, in commit order."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    before: SessionRow
    after: SessionRow
    content: Sequence[Segment | Part]

    def change(self, stored: StoredPack) -> Change[SessionRow]:
        """Return what the session becomes with the pack that was stored."""
        segments = tuple(
            each
            for one in self.content
            for each in ((one,) if isinstance(one, Segment) else stored.segments(one))
        )
        return Change(self.before, replace(self.after, segments=segments))


class Rewriter:
    """Collects rows of sessions of one app into a pack, and publishes it."""

    def __init__(self, lake: Lake, app_name: str) -> None:
        self._env = lake.environment
        self._archive = lake.sessions.archive
        self._app = app_name
        self._builder = PackBuilder()
        self._waiting: list[_Waiting] = []

    @property
    def is_full(self) -> bool:
        """Whether it is time to publish."""
        return self._builder.nbytes >= PACK_BYTES

    def add(self, before: SessionRow, after: SessionRow, content: Content) -> None:
        """Add a session.

        Args:
            before: What runs say of it.
            after: What they shall say, but for the segments.
            content: Its rows; some of them at least are to be packed anew.
        """
        parts = [each if isinstance(each, Segment) else self._pack(each) for each in content]
        self._waiting.append(_Waiting(before, after, parts))

    def _pack(self, rows: Sequence[EventRow]) -> Part:
        return self._builder.add(events.to_table(rows))

    def publish(self) -> frozenset[Place]:
        """Publish what was added since the last time; return which sessions others left as is.

        Raises:
            ConflictError: others keep publishing, or have named the pack for deletion.
            StorageError: nothing was published, or (`UnknownOutcomeError`) it may have been.
        """
        builder, waiting = self._builder, self._waiting
        self._builder, self._waiting = PackBuilder(), []
        stored = store_pack(self._env, self._app, builder)
        if stored is None:
            return frozenset()
        changes = Changes(packs=[stored.file])
        for each in waiting:
            changes.add(each.change(stored))
        publisher = Publisher(self._env, self._archive, self._app)
        publisher.publish(changes)
        return publisher.published
