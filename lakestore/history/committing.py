"""Creating the next commit of a session, with its entries. Owns when it must be confirmed.

What took long is confirmed after it, by a load that must contain it: what a stalled process takes
for a free name may be one that was swept.
"""

from __future__ import annotations

from lakestore.errors import UnknownOutcomeError
from lakestore.history.archive import Archive
from lakestore.history.environment import Environment
from lakestore.history.folding import decode_commit
from lakestore.history.loading import Loader
from lakestore.history.shared import SharedState
from lakestore.history.view import SessionView
from lakestore.log.commits import Marker, put_commit, standing
from lakestore.log.keys import SessionKey, commit_key
from lakestore.tables import events
from lakestore.tables.events import EventRow


class Commits:
    """Puts commits into logs; safe to use from many threads."""

    def __init__(
        self, environment: Environment, loader: Loader, archive: Archive, shared: SharedState
    ) -> None:
        self._env = environment
        self._loader = loader
        self._archive = archive
        self._shared = shared

    def put(self, key: SessionKey, marker: Marker, rows: list[EventRow]) -> list[EventRow] | None:
        """Create the next commit, then its entries; return the rows that stand there instead.

        Raises:
            FormatError: what stands there is damaged.
            StorageError: nothing was stored, or (`UnknownOutcomeError`) it may have been.
        """
        first = rows[0]
        started = self._env.clock.elapsed()
        taken = put_commit(
            self._env.store,
            commit_key(key.log, first.version),
            events.encode_commit(rows),
            is_ours=lambda body: (
                decode_commit(key.log, first.version, body)[0].token == first.token
            ),
            clock=self._env.clock,
            metrics=self._env.metrics,
        )
        if taken is not None:
            return decode_commit(key.log, first.version, taken)
        since = started if marker.seen is None else min(started, marker.seen)
        with standing(commit_key(key.log, first.version)):
            if not self._env.is_young(since):
                self.confirm(key, first)
            self._shared.write(rows)
        return None

    def confirm(self, key: SessionKey, commit: EventRow) -> None:
        """Make sure, by loading, that readers see a commit that took long.

        Raises:
            UnknownOutcomeError: they do not.
            StorageError: the store failed.
        """
        view = self._loader.load(key)
        if not self.holds(view, commit):
            raise UnknownOutcomeError(
                "the commit took longer than the view age limit and cannot be found any more:"
                f" reload the session. key={commit_key(key.log, commit.version)!r}"
            )

    def holds(self, view: SessionView, commit: EventRow) -> bool:
        """Tell whether a commit is part of the log as `view` shows it."""
        packed = view.packed
        if packed is None or commit.version > packed.row.version:
            return view.holds(commit.version, commit.token)
        return any(row.token == commit.token for row in self._archive.rows(packed))
