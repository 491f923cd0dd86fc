"""Large lakes as jobs leave them, and the same events in the file of ADK's SqliteSessionService.

    python -m tests.benchmarks.archive FOLDER SQL

Owns how a lake is written packed, without the commits that it would have been packed from: by the
product's own builder of packs and its publisher. And how a new process asks one.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from google.adk.sessions.sqlite_session_service import CREATE_SCHEMA_SQL

from lakestore import Lake
from lakestore.jobs.changes import Change, Changes, Publisher
from lakestore.jobs.packing import store_pack
from lakestore.log.keys import SessionKey
from lakestore.tables.events import EventRow, Kind, to_table
from lakestore.tables.packing import PackBuilder, Part
from lakestore.tables.runs import SessionRow
from tests.benchmarks.histories import APP, events
from tests.benchmarks.large import ROOT, SESSION, peak
from tests.benchmarks.measuring import Stopwatch

MODELS = ("gemini-2.5-flash", "gemini-2.5-pro", "gemini-2.0-flash-lite")
DAYS = 90

_PACK_BYTES = 128 * 2**20
_BEGIN = 1_760_000_000
_AT_ONCE = 1_000
_WORDS = [f"{number * 2_654_435_761 % 2**32:x}"[: 3 + number % 6] for number in range(5_000)]
"""Texts of agents take about 145 bytes an event when they are packed, and so do such words."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One event."""

    event_id: str
    turn: str
    at: float
    ours: str
    """Its JSON as ours has it."""
    adks: str
    """Its JSON as ADK's SqliteSessionService has it."""


def session(number: int, length: int) -> list[Stored]:
    """Return the events of a session, some of them by models; sessions begin on all days alike."""
    found, random = [], Random(number)
    for place, (event_id, turn, ours, adks) in enumerate(_pattern(length)):
        at = _BEGIN + number * 7_919 % (DAYS * 86_400) + place * 7.5
        model = MODELS[(number + place) % len(MODELS)]
        named, words = f"{number:07}-{event_id}", " ".join(random.choices(_WORDS, k=24))
        ours, adks = (
            text.replace("AN-ID", named)
            .replace("A-MODEL", model)
            .replace("123456.5", repr(at))
            .replace(" A-TEXT", f" {words}")
            for text in (ours, adks)
        )
        found.append(Stored(named, turn, at, ours, adks))
    return found


_patterns: dict[int, list[tuple[str, str, str, str]]] = {}


def _pattern(length: int) -> list[tuple[str, str, str, str]]:
    if length not in _patterns:
        made = []
        for event in events(length):
            event_id, event.id, event.timestamp = event.id, "AN-ID", 123456.5
            if event.usage_metadata is not None:
                event.model_version = "A-MODEL"
            for part in (event.content and event.content.parts) or ():
                if part.text:
                    part.text += " A-TEXT"
                elif part.function_call and part.function_call.args:
                    part.function_call.args["note"] = "about A-TEXT"
                elif part.function_response and part.function_response.response:
                    part.function_response.response["note"] = "about A-TEXT"
            texts = [event.model_dump_json(exclude_none=True, by_alias=it) for it in (True, False)]
            made.append((event_id, event.invocation_id, texts[0], texts[1]))
        _patterns[length] = made
    return _patterns[length]


def rows_of(key: SessionKey, made: Sequence[Stored]) -> list[EventRow]:
    """Return the rows of a session, each event's a commit of its own."""
    begun = int(made[0].at * 1_000_000) if made else _BEGIN * 1_000_000
    rows = [_row(key, 1, "create", begun, None)]
    for version, event in enumerate(made, start=2):
        rows.append(_row(key, version, "event", int(event.at * 1_000_000), event.ours))
    return rows


def _row(key: SessionKey, version: int, kind: Kind, at: int, text: str | None) -> EventRow:
    previous = f"{version - 1:016x}" if version > 1 else ""
    ids = (key.app_name, key.user_id, key.session_id)
    return EventRow(*(version, 0, kind, *ids, at, f"{version:016x}", previous), event_json=text)


def user(number: int) -> str:
    """Return the name of a user."""
    return f"user-{number:07}"


class Archive:
    """A lake that is being written, packed."""

    def __init__(self, folder: Path) -> None:
        """Begin one in a folder."""
        self._lake = Lake.open(folder)
        self._changes = Changes()
        self._builder = PackBuilder()
        self._waiting: list[tuple[SessionRow, Part]] = []

    def add(self, sessions: Sequence[tuple[SessionKey, Sequence[Stored]]]) -> None:
        """Add sessions, in the order of their users."""
        logs = [(key, made, rows_of(key, made)) for key, made in sessions]
        table, start = to_table([row for *_, rows in logs for row in rows]), 0
        for key, made, rows in logs:
            part = self._builder.add(table.slice(start, len(rows)), 1_000)
            self._waiting.append((_said(key, made, rows), part))
            start += len(rows)
        if self._builder.nbytes >= _PACK_BYTES:
            self._store()

    def _store(self) -> None:
        stored = store_pack(self._lake.environment, APP, self._builder)
        if stored is not None:
            self._changes.packs.append(stored.file)
            for row, part in self._waiting:
                self._changes.add(Change(None, replace(row, segments=stored.segments(part))))
        self._waiting, self._builder = [], PackBuilder()

    def close(self) -> None:
        """Publish all."""
        self._store()
        Publisher(self._lake.environment, self._lake.sessions.archive, APP).publish(self._changes)
        self._lake.close()


def _said(key: SessionKey, made: Sequence[Stored], rows: Sequence[EventRow]) -> SessionRow:
    """Return what a run says of a session, but for where its rows are."""
    last = made[-1] if made else None
    return SessionRow(
        app_name=key.app_name,
        user_id=key.user_id,
        session_id=key.session_id,
        version=rows[-1].version,
        token=rows[-1].token,
        alive=True,
        state="{}",
        stamp=None,
        created_at=rows[0].committed_at,
        active_at=rows[-1].committed_at,
        last_event_time=last.at if last else None,
        last_event_id=last.event_id if last else None,
        events=len(made),
        segments=(),
    )


def write_archive(folder: Path, users: int, length: int, sqlite: Path | None = None) -> None:
    """Write a lake in which each user has one session, all of it packed; and a file of ADK's."""
    archive, database = Archive(folder), sqlite3.connect(sqlite or ":memory:")
    database.executescript(CREATE_SCHEMA_SQL)
    for first in range(0, users, _AT_ONCE):
        numbers = range(first, min(users, first + _AT_ONCE))
        made = [(SessionKey(APP, user(n), SESSION), session(n, length)) for n in numbers]
        archive.add(made)
        if sqlite is not None:
            for key, stored in made:
                _insert(database, key, stored)
    archive.close()
    database.commit()
    database.close()


def _insert(database: sqlite3.Connection, key: SessionKey, made: Sequence[Stored]) -> None:
    ids = (key.app_name, key.user_id, key.session_id)
    database.execute(
        "insert into sessions values (?, ?, ?, '{}', ?, ?)", (*ids, made[0].at, made[-1].at)
    )
    database.executemany(
        "insert into events (app_name, user_id, session_id, id, invocation_id, timestamp,"
        " event_data) values (?, ?, ?, ?, ?, ?, ?)",
        [(*ids, each.event_id, each.turn, each.at, each.adks) for each in made],
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """What the first question of a new process took."""

    rows: list[list[object]]
    opened: float
    """Seconds from the lake's opening to where a query can be asked."""
    seconds: float
    """Seconds of the query itself."""
    again: float
    """Seconds of the same query once more."""
    peak: int
    """Most bytes of memory that the process had, and `before` when it had imported all."""
    before: int
    requests: dict[str, int]
    bytes_read: int

    def __str__(self) -> str:
        return (
            f"open {self.opened:.2f} s, then {self.seconds:.2f} s, again {self.again:.2f} s;"
            f" {self.requests}, {self.bytes_read / 1e6:,.1f} MB read;"
            f" peak {self.peak / 1e6:,.0f} MB ({self.before / 1e6:,.0f} MB before)"
        )


def ask(folder: Path, query: str) -> Asked:
    """Ask a lake in a new process."""
    command = [sys.executable, "-m", "tests.benchmarks.archive", str(folder), query]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return Asked(**json.loads(done.stdout))


def main(folder: Path, query: str) -> None:
    """Ask a lake."""
    Lake.open("memory://warm").sql("select 1").fetchall()  # imports
    before = peak()
    with Lake.open(folder, read_only=True) as lake:
        with Stopwatch() as opened:
            lake.sql("select 1").fetchall()
        with Stopwatch() as watch:
            rows = lake.sql(query).fetchall()
        with Stopwatch() as again:
            assert lake.sql(query).fetchall() == rows
        requests, read = lake.metrics.requests, lake.metrics.bytes_read
    found = Asked(
        [list(map(str, row)) for row in rows],
        *(opened.seconds, watch.seconds, again.seconds, peak(), before, requests, read),
    )
    print(json.dumps({name: getattr(found, name) for name in Asked.__slots__}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
