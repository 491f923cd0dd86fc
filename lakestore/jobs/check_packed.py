"""Checks what is packed: every segment holds what its run says, and folds to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import EVENTS, Packed, Place
from lakestore.history.view import session_part
from lakestore.jobs.batches import batches
from lakestore.jobs.check_payloads import PayloadCheck
from lakestore.jobs.check_state import StateCheck
from lakestore.jobs.cutting import is_placeholder
from lakestore.jobs.findings import Finding, Look
from lakestore.log.keys import app_manifests, pack_key
from lakestore.log.manifests import Manifest
from lakestore.storage import UnreadableError
from lakestore.tables.events import EventRow, event_id, event_time
from lakestore.tables.payloads import contents_of
from lakestore.tables.runs import SessionRow
from lakestore.tables.state import from_json

_ROWS_AT_ONCE = 8_192
_SESSIONS_AT_ONCE = 256
_ATTEMPTS = 8


class PackedCheck:
    """Checks the sessions of one app that are in its runs."""

    def __init__(self, look: Look, state: StateCheck, payloads: PayloadCheck) -> None:
        self._look = look
        self._state = state
        self._payloads = payloads

    def run(self, manifest: Manifest) -> None:
        """Check each session that `manifest` names.

        Raises:
            StorageError: the store failed.
        """
        after: Place | None = None
        live: Counter[str] | None = Counter()
        total = sum(run.rows for run in manifest.table(EVENTS.name).runs)
        for attempt in range(_ATTEMPTS):
            if attempt:
                # All that was packed so far was checked; the rest is where a newer one says.
                manifest, live = self._newest(), None
            try:
                for batch in _batches(self._look.archive.sessions(manifest, after=after)):
                    for some in batches(batch, lambda each: (each, 0), _SESSIONS_AT_ONCE):
                        self._check_some(some, live)
                    self._state.settle(manifest)
                    last = batch[-1].row
                    after = (last.user_id, last.session_id)
                    self._look.progress("packed sessions", self._look.sessions, total)
                break
            except NotFoundError:
                continue
        if live is not None:
            self._check_dead(manifest, live)

    def _newest(self) -> Manifest:
        return self._look.archive.newest(app_manifests(self._look.app))

    def _check_some(self, batch: Sequence[Packed], live: Counter[str] | None) -> None:
        try:
            found: Sequence[list[EventRow] | None] = self._look.archive.rows_of(batch)
        except (FormatError, NotFoundError, UnreadableError):
            found = [None] * len(batch)
        for packed, rows in zip(batch, found, strict=True):
            self._look.sessions += 1
            for segment in packed.row.segments:
                if live is not None:
                    live[segment.pack] += segment.rows
            read = self._read(packed) if rows is None else rows
            if read is not None:
                self._check(packed, read)

    def _read(self, packed: Packed) -> list[EventRow] | None:
        try:
            return self._look.archive.rows(packed)
        except NotFoundError:
            if self._newest() != packed.manifest:
                raise
            problem = "a pack that its run refers to is not there"
        except (FormatError, UnreadableError) as error:
            problem = str(error)
        self._look.findings.add(
            Finding(
                "lost",
                "unreadable session",
                packed.key.log,
                problem,
                "the session cannot be read; no other one suffers",
                "restore the pack from a copy of the store",
            )
        )
        return None

    def _check(self, packed: Packed, rows: Sequence[EventRow]) -> None:
        self._look.events += len(rows)
        try:
            problems = [*_misplaced(packed.row, rows), *_misfolded(packed.row, rows)]
            self._state.expect(rows)
            if rows:
                self._payloads.check(rows[0], (it for row in rows for it in row.payloads))
        except (FormatError, ValueError) as error:
            problems = [str(error)]
        if problems:
            self._look.findings.add(
                Finding(
                    "mendable",
                    "wrong row of a run",
                    packed.key.log,
                    "; ".join(problems),
                    "the session may show another state or other events than were stored",
                    "its events are in its packs: export it, and import it under a new id",
                )
            )

    def _check_dead(self, manifest: Manifest, live: Counter[str]) -> None:
        for pack in manifest.table(EVENTS.name).packs:
            if live[pack.id] != pack.rows - pack.dead:
                self._look.findings.add(
                    Finding(
                        "note",
                        "wrong count",
                        pack_key(self._look.app, EVENTS.name, pack.id),
                        f"{live[pack.id]} of its rows count, its manifest says"
                        f" {pack.rows - pack.dead}",
                        "the pack may be rewritten too early or too late",
                        "compaction counts anew when it rewrites the pack",
                    )
                )


def _batches(sessions: Iterator[Packed]) -> Iterator[list[Packed]]:
    batch: list[Packed] = []
    rows = 0
    for each in sessions:
        batch.append(each)
        rows += sum(segment.rows for segment in each.row.segments)
        if rows >= _ROWS_AT_ONCE or len(batch) >= _SESSIONS_AT_ONCE:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _misplaced(row: SessionRow, rows: Sequence[EventRow]) -> Iterator[str]:
    """Yield what is wrong with where rows are."""
    if not row.alive and (row.segments or row.state is not None):
        yield "a deleted session has rows, or a state"
    ids = (row.app_name, row.user_id, row.session_id)
    if any((each.app_name, each.user_id, each.session_id) != ids for each in rows):
        yield "a segment has rows of another session"
    places = [(each.version, each.ordinal) for each in rows]
    if any(a >= b for a, b in pairwise(places)):
        yield "its rows are not in commit order"
    first = 0
    for segment in row.segments:
        some = rows[first : first + segment.rows]
        first += segment.rows
        found = (some[0].version, some[-1].version) if some else (0, 0)
        if len(some) != segment.rows or found != (segment.first_version, segment.last_version):
            yield f"a segment has other versions than its run says. pack={segment.pack!r}"
    # Pruning may cut the end off, and leave nothing for a stretch that set nothing.
    ends_early = any(map(is_placeholder, rows)) and rows[-1].version < row.version
    if rows and not ends_early and (rows[-1].version, rows[-1].token) != (row.version, row.token):
        yield "its last commit is another one than its run says"


def _misfolded(row: SessionRow, rows: Sequence[EventRow]) -> Iterator[str]:
    """Yield what of a row is not what its session folds to."""
    if not row.alive:
        return
    state: dict[str, object] = {}
    for each in rows:
        state.update(session_part(each))
    if state != from_json(row.state or "null"):
        yield "its state is not what its events give"
    events = [each for each in rows if each.kind == "event"]
    if len(events) != row.events:
        yield f"it has {len(events)} events, its run says {row.events}"
    last = (event_time(events[-1]), event_id(events[-1])) if events else (None, None)
    if last != (row.last_event_time, row.last_event_id):
        yield "its last event is another one than its run says"
    if contents_of(payload for each in rows for payload in each.payloads) != row.payloads:
        yield "its bytes beside events are others than its run says"
    if max((each.stamp for each in rows if each.stamp), default="") > (row.stamp or ""):
        yield "its stamp is earlier than that of a commit"
