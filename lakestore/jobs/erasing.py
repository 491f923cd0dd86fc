"""The steps of erasing a user. Owns what may be deleted, and when.

Each step may be done again at any time; what they add up to is `lakestore.jobs.erase`'s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

from lakestore.errors import NotFoundError, StorageError
from lakestore.history.archive import EVENTS, KEYED, LAST, STATE, Kind, Packed, Place
from lakestore.history.erased import Sourced, newest_of, origin_digest
from lakestore.history.view import SessionView
from lakestore.jobs.artifact_erasing import ArtifactEraser
from lakestore.jobs.changes import Changes, Publisher
from lakestore.jobs.compact import pack_fresh
from lakestore.jobs.payload_traces import payload_traces
from lakestore.jobs.progress import Progress, counted
from lakestore.jobs.rewriting import Rewriter
from lakestore.jobs.running import Running, check_lake
from lakestore.jobs.traces import Traces
from lakestore.lake import Lake
from lakestore.log.commits import list_logs
from lakestore.log.entries import name_of
from lakestore.log.keys import (
    Scope,
    SessionKey,
    app_manifests,
    log_digest,
    pack_key,
    parse_log,
    run_key,
    user_logs,
    user_prefixes,
)
from lakestore.log.manifests import Manifest, StoredFile
from lakestore.tables.erased import ErasedRow
from lakestore.tables.events import EventRow
from lakestore.tables.runs import Segment

_ATTEMPTS = 8
_TOLD_EVERY = 1.0


class Eraser:
    """Erases one user of one app."""

    def __init__(
        self,
        lake: Lake,
        app_name: str,
        user_id: str,
        gone: Iterable[ErasedRow] = (),
        artifacts: Iterable[ErasedRow] = (),
        running: Running | None = None,
    ) -> None:
        """Take the user, and what is known to be ended already."""
        check_lake(lake)
        self._running = running or Running()
        self._lake = lake
        self._app = app_name
        self._user = user_id
        self._store = lake.environment.store
        self._archive = lake.sessions.archive
        self._gone = {row.digest: row for row in gone}
        self._artifacts = ArtifactEraser(lake, app_name, user_id, artifacts)
        self._whole = origin_digest(app_name, user_id, "")
        self._clean: set[str] = set()
        self._published = Manifest(app_name, 0)
        """The newest manifest when all was published."""

    @property
    def sessions(self) -> tuple[ErasedRow, ...]:
        """The sessions that were ended, by their digests."""
        return tuple(self._gone[digest] for digest in sorted(self._gone) if digest != self._whole)

    @property
    def memory(self) -> ErasedRow | None:
        """Up to when all goes that was remembered of the user; None where nothing was."""
        return self._gone.get(self._whole)

    @property
    def artifacts(self) -> tuple[ErasedRow, ...]:
        """The artifacts that were ended, by their digests."""
        return tuple(self._artifacts.gone[digest] for digest in sorted(self._artifacts.gone))

    @property
    def _ended(self) -> dict[str, ErasedRow]:
        """All logs that were ended."""
        return {**self._gone, **self._artifacts.gone}

    def tell(self, doing: str) -> None:
        """Tell whoever watches what is done now."""
        self._running.watch(Progress(doing, self._app, 0, None, ""))

    def end(self) -> None:
        """End every session and artifact of the user, damaged ones too, by a `delete` commit."""
        sessions = self._lake.sessions
        views = sessions.read_all(self._app, self._user, ended=True)
        for view in counted(views, self._running.watch, "ending", self._app, "session"):
            ended = self._end(view)
            self._note(view.key.log, ended.version, ended.token)
        for log, files in list_logs(self._store, user_logs(self._app, self._user)):
            if log_digest(log) not in self._gone:
                key, last = parse_log(log), max([*files.commits, *files.rollups], default=0)
                marker = sessions.end_unread(key, last) if key else None
                self._note(log, marker.version if marker else last, marker.token if marker else "")
        self._artifacts.end()

    def _end(self, view: SessionView) -> SessionView:
        """End a session, and what is begun anew in its log meanwhile; return it as it is then."""
        sessions = self._lake.sessions
        for _ in range(_ATTEMPTS):
            if view.alive:
                sessions.end(view)  # refused where others were quicker
            view = sessions.load(view.key)
            if not view.alive:
                return view
        raise StorageError(f"others keep writing this session. log={view.key.log!r}")

    def name_late(self) -> None:
        """Name what has landed of artifacts since they were ended, before it is removed."""
        self._artifacts.name_late()
        self._clean.clear()

    def _note(self, log: str, version: int, token: str) -> None:
        digest, now = log_digest(log), int(self._lake.clock.wall() * 1_000_000)
        self._gone[digest] = ErasedRow(digest, version, token, now)
        self._clean.clear()

    def pack(self) -> None:
        """Pack what is fresh: the app's own state, which the user's sessions may have set, stays.

        Raises:
            ConflictError: other jobs keep publishing.
            StorageError: the store failed.
        """
        pack_fresh(self._lake, self._app, self._running)

    def note_sources(self) -> None:
        """Note sessions that are known from nothing but what they have left outside of logs."""
        last: dict[SessionKey, int] = {}
        for row in self._rows_of_user():
            for session_id, version in row.origins if row.source_user_id == self._user else ():
                key = SessionKey(self._app, self._user, session_id)
                last[key] = max(version, last.get(key, 0))
        self._note_memory(last.pop(SessionKey(self._app, self._user, ""), 0))
        for key, version in last.items():
            # One that lives was begun since: what it has set is not to be erased.
            if log_digest(key.log) not in self._gone and not self._lake.sessions.load(key).alive:
                self._note(key.log, version, "")

    def _note_memory(self, latest: int) -> None:
        """Note that all goes that was remembered up to now, by clocks that may be ahead of ours."""
        if latest or self._gone:
            now = int(self._lake.clock.wall() * 1_000_000)
            self._note(SessionKey(self._app, self._user, "").log, max(now, latest), "")

    def _rows_of_user(self) -> Iterator[Sourced]:
        """Yield all keyed rows of the user and of the app itself that are packed, or put aside."""
        newest = self._newest()
        tables: list[Kind[Any]] = [*KEYED, *(kind.beside for kind in KEYED if kind.beside)]
        for kind, user in product(tables, ("", self._user)):
            files = newest.table(kind.name).runs
            yield from self._archive.rows_in(kind, self._app, files, (user, ""), (user, LAST[1]))

    def publish(self) -> None:
        """Publish that the sessions are erased, and packs and runs without them.

        Raises:
            ConflictError: other jobs keep publishing.
            StorageError: the store failed, or others keep packing what is to go.
        """
        self.tell("looking into packs")
        for _ in range(_ATTEMPTS):
            if not self._publish_rest():
                self._published = self._newest()
                return
        raise StorageError(f"other jobs keep packing what is to be erased. app={self._app!r}")

    def _publish_rest(self) -> bool:
        """Publish the next thing that is still to be said; tell whether there was any."""
        traces, newest = self._traces(), self._newest()
        known = self._archive.erased(newest)
        packs = {pack_key(self._app, EVENTS.name, f.id): f for f in _packs_of(newest)}
        runs = _runs_of(newest)
        dirty_runs = list(traces.runs())
        # Somebody else may have erased more since: that stays.
        later = newest_of(known, self._ended)
        if later != known or runs & set(dirty_runs):
            return self._say(Changes(erased=self._ended))
        # Of a pack that is named, only dead rows can be of sessions that were erased.
        dirty_packs = list(traces.packs(besides=[key for key in packs if not packs[key].dead]))
        again = {packs[key].id for key in dirty_packs if key in packs}
        if again:
            self._pack_again(newest, again)
            return True
        doomed = {each.key for each in newest.doomed}
        orphans = {*dirty_runs, *dirty_packs} - runs - packs.keys() - doomed
        return bool(orphans) and self._say(Changes(doomed=sorted(orphans)))

    def _say(self, changes: Changes) -> bool:
        Publisher(self._lake.environment, self._archive, self._app).publish(changes)
        return True

    def _pack_again(self, newest: Manifest, packs: Set[str]) -> None:
        """Put what others have in some packs into new ones."""
        rewriter = Rewriter(self._lake, self._app)
        with suppress(NotFoundError):  # another job was quicker: look again
            for packed in self._archive.sessions(newest):
                segments = packed.row.segments
                if any(segment.pack in packs for segment in segments):
                    content = [
                        self._rows_in(packed, one) if one.pack in packs else one for one in segments
                    ]
                    rewriter.add(packed.row, packed.row, content)
                if rewriter.is_full:
                    rewriter.publish()
        rewriter.publish()

    def _rows_in(self, packed: Packed, segment: Segment) -> list[EventRow]:
        row = replace(packed.row, segments=(segment,))
        return self._archive.rows(Packed(row, packed.manifest))

    def wait(self) -> None:
        """Wait until nobody decides any more on what was read before `publish`."""
        self.pause(2 * self._lake.environment.limits.view_age, "waiting until readers have noticed")

    def pause(self, seconds: float, doing: str) -> None:
        """Let some time pass, and tell how much of it has."""
        clock, total = self._lake.clock, math.ceil(seconds)
        until = clock.elapsed() + seconds
        while (rest := until - clock.elapsed()) > 0:
            done = int(total - rest)
            self._running.watch(Progress(doing, self._app, max(done, 0), total, "second"))
            clock.sleep(min(rest, _TOLD_EVERY))

    def knows_nothing(self) -> bool:
        """Tell whether there is nothing to erase: no session was ended, and no trace is left."""
        return not self._ended and not self.found()

    def may_be_under_way(self) -> bool:
        """Tell whether what an erased session of the app has sent may still land.

        Nothing says whose it was: digests have no names.
        """
        limits = self._lake.environment.limits
        since = (self._lake.clock.wall() - limits.grace - 2 * limits.view_age) * 1_000_000
        return any(row.erased_at > since for row in self._archive.erased(self._newest()).values())

    def remove(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Delete what nobody needs, after `publish` and `wait`; return it, and what is left."""
        self.tell("looking for what to delete")
        removed, needless = [], self._removable()
        for key in counted(needless, self._running.watch, "deleting", self._app, "object"):
            with suppress(StorageError):  # it is among what is left
                self._store.delete(key)
                removed.append(key)
        self.clear_folders()
        return tuple(removed), self.found()

    def clear_folders(self) -> None:
        """Remove the folders of the user that are empty: their names tell of sessions and files."""
        for prefix in user_prefixes(self._app, self._user):
            self._store.clear_folders(prefix)

    def _removable(self) -> list[str]:
        traces, newest = self._traces(), self._newest()
        covered, folded = self._covered(), self._archive.folded(self._published)
        doomed = {each.key for each in newest.doomed}
        named = _runs_of(newest)
        named |= {pack_key(self._app, EVENTS.name, f.id) for f in _packs_of(newest)}
        files = {*traces.packs(), *traces.runs()}
        return [
            *traces.logs(),
            *(
                key
                for kind, key, others in traces.entries()
                if (kind.is_final and name_of(key) in folded)
                or all(covered.get(STATE.place(row), "") >= row.stamp for row in others)
            ),
            *sorted((files & doomed) - named),
            *traces.drafts(),
            *self._payloads(),
            *self._artifacts.removable(),
            # A number that was superseded only now may still be created by a slow job.
            *traces.manifests(self._published),
        ]

    def _covered(self) -> dict[Place, str]:
        """Return the stamps of what was packed of shared state before `wait`."""
        scopes = [Scope(self._app, self._user), Scope(self._app, None)]
        try:
            packed = self._archive.state(self._published, scopes)
        except NotFoundError:  # swept already: the next time, then
            return {}
        return {STATE.place(row): row.stamp for rows in packed.values() for row in rows}

    def found(self) -> tuple[str, ...]:
        """Return the keys of all objects with a trace of what was erased."""
        traces = self._traces()
        entries = (key for _, key, _ in traces.entries())
        manifests = traces.manifests(self._newest())
        files = (*traces.packs(), *traces.runs(), *traces.drafts(), *self._artifacts.found())
        found = {*traces.logs(), *entries, *files, *manifests, *self._payloads()}
        return tuple(sorted(found))

    def _payloads(self) -> list[str]:
        return payload_traces(self._lake, self._app, self._user, self._erased())

    def _erased(self) -> dict[str, ErasedRow]:
        # What an earlier attempt erased too, of which nothing but digests is left.
        return newest_of(self._archive.erased(self._newest()), self._ended)

    def _traces(self) -> Traces:
        return Traces(self._store, self._app, self._user, self._erased(), self._clean)

    def _newest(self) -> Manifest:
        return replace(self._archive.newest(app_manifests(self._app)), app_name=self._app)


def _packs_of(manifest: Manifest) -> Sequence[StoredFile]:
    return manifest.table(EVENTS.name).packs


def _runs_of(manifest: Manifest) -> set[str]:
    tables = manifest.tables.items()
    return {run_key(manifest.app_name, name, f.id) for name, table in tables for f in table.runs}
