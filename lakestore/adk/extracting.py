"""From the history of sessions to memories, by anybody's extractor or as adding would do it.

Owns what an extractor is given, what it may return, and what becomes of one that fails.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from pydantic_core import from_json

from lakestore.adk.convert import to_event
from lakestore.adk.memory_entries import check_memories, row_of
from lakestore.errors import InputError
from lakestore.history.recollecting import Source, Taste, of_event
from lakestore.log.keys import SessionKey
from lakestore.log.stamps import stamp_text
from lakestore.search.embedding import Embedder, embed
from lakestore.tables.events import EventRow, event_time
from lakestore.tables.memory import MemoryRow, place_of, vector
from lakestore.tables.thin import microseconds

R = TypeVar("R")

Per = Literal["session", "user"]

_AT_ONCE = 16
"""How many calls of an async extractor are under way at once."""
_FAILURES = (Exception, asyncio.CancelledError)
"""What fails one session; clients of models cancel what took them too long."""


@dataclass(frozen=True, slots=True)
class History:
    """What an extractor is given: a session, or all sessions of a user."""

    app_name: str
    user_id: str = field(repr=False)
    session_id: str | None = field(repr=False)
    """The session; None where it is all of a user."""
    events: list[Event] = field(repr=False)
    """In commit order; of a user session by session, ordered by id."""
    session_ids: list[str] = field(repr=False)
    """The session of each event."""


Extractor = Callable[[Any], Any]
"""Takes a `History` and returns ADK's `MemoryEntry` objects; or takes a list of histories and
returns a list of them for each, where it is called in batches. It may be async. An entry whose id
is that of an event is the memory of that event, as adding the session would make it; one without an
id is named by a digest of what it says."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A session, or a user, of which an extractor made nothing."""

    user_id: str = field(repr=False)
    session_id: str | None = field(repr=False)
    """None where it was given all of the user."""
    error: str = field(repr=False)
    """What was raised; it may quote what was said."""


@dataclass(frozen=True, slots=True)
class Told:
    """One session as it is packed."""

    key: SessionKey
    version: int
    rows: Sequence[EventRow] = field(repr=False)
    """Its events."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """How memories are made of history. A plain value, if its functions are."""

    extractor: Extractor | None = None
    """None: each event with text becomes a memory, as `add_session_to_memory` makes it."""
    per: Per = "session"
    batch_size: int | None = None
    """How many histories it is given at once; None: one, and not in a list."""
    embedder: Embedder | None = None
    taste: Taste = field(default_factory=Taste)

    @property
    def name(self) -> str:
        """What tells it from others, as far as names do."""
        named = [
            f"{getattr(one, '__module__', '')}.{getattr(one, '__qualname__', type(one).__name__)}"
            for one in (self.extractor, self.embedder)
        ]
        return repr((*named, self.per, self.taste))

    def run(self, sessions: Sequence[Told]) -> tuple[list[MemoryRow], list[Failure]]:
        """Return the memories of some sessions, of each user's all if it is `per` user.

        They have neither stamp nor time yet; of two with one key the first is returned.
        """
        failures: list[Failure] = []
        if self.extractor is None:
            rows = [row for told in sessions for row in _as_added(told, self.taste)]
        else:
            rows = list(self._extracted(sessions, failures))
        found: dict[tuple[str | None, str], MemoryRow] = {}
        for row in rows:
            found.setdefault((row.user_id, row.key), row)
        return self._embedded(list(found.values())), failures

    def _embedded(self, rows: list[MemoryRow]) -> list[MemoryRow]:
        if self.embedder is None:
            return rows
        vectors = embed(self.embedder, [row.text or "" for row in rows])
        return [replace(row, embedding=vector(one)) for row, one in zip(rows, vectors, strict=True)]

    def _extracted(self, sessions: Sequence[Told], failures: list[Failure]) -> Iterator[MemoryRow]:
        groups = [[told] for told in sessions] if self.per == "session" else _by_user(sessions)
        histories = [_history(group, self.per) for group in groups]
        answers = self._answers(histories)
        for group, history, answer in zip(groups, histories, answers, strict=True):
            try:
                if isinstance(answer, _FAILURES):
                    raise answer
                yield from list(_rows_of(group, history, answer, self.taste))
            except _FAILURES as error:  # one session shall not fail the others
                told = f"{type(error).__name__}: {error}"
                failures.append(Failure(history.user_id, history.session_id, told))

    def _answers(self, histories: Sequence[History]) -> list[Any]:
        """Return what the extractor returns of each, or the exception that it raised."""
        if self.batch_size is None:
            return self._call(histories)
        size = self.batch_size
        given = [list(histories[at : at + size]) for at in range(0, len(histories), size)]
        answers: list[Any] = []
        for batch, answer in zip(given, self._call(given), strict=True):
            answers += _one_each(batch, answer)
        return answers

    def _call(self, arguments: Sequence[Any]) -> list[Any]:
        assert self.extractor is not None
        if inspect.iscoroutinefunction(self.extractor):
            return _finish(_gather(self.extractor, arguments))
        answers: list[Any] = []
        for argument in arguments:
            try:
                answer = self.extractor(argument)
                answers.append(_finish(_whole(answer)) if inspect.isawaitable(answer) else answer)
            except _FAILURES as error:  # one session shall not fail the others
                answers.append(error)
        return answers


def _as_added(told: Told, taste: Taste) -> Iterator[MemoryRow]:
    """Yield what adding the session would remember."""
    source = _source(told.key, told.version)
    for row in told.rows:
        made = of_event(source, _parsed(row), taste, place=_place(row), extracted=True)
        if made is not None:
            yield made


def _parsed(row: EventRow) -> Any:
    """Return the event as JSON types, in half of the time that Python's parser takes."""
    text = row.event_json or "{}"
    try:
        return from_json(text)
    except ValueError:  # it knows no halves of surrogate pairs, and nests less deep
        return json.loads(text)


def _source(key: SessionKey, version: int) -> Source:
    return Source(key.app_name, key.user_id, key.user_id, key.session_id, version)


def _place(row: EventRow, more: int = 0) -> str:
    """Return where a memory of an event stands among equals that nobody has added before."""
    return place_of(stamp_text(max(0, row.committed_at), 0, row.token), row.ordinal + more)


def _by_user(sessions: Sequence[Told]) -> list[list[Told]]:
    users: dict[str, list[Told]] = {}
    for told in sessions:
        users.setdefault(told.key.user_id, []).append(told)
    return list(users.values())


def _history(group: Sequence[Told], per: Per) -> History:
    key = group[0].key
    return History(
        key.app_name,
        key.user_id,
        key.session_id if per == "session" else None,
        [to_event(row) for told in group for row in told.rows],
        [told.key.session_id for told in group for _ in told.rows],
    )


def _rows_of(
    group: Sequence[Told], history: History, entries: object, taste: Taste
) -> Iterator[MemoryRow]:
    """Yield the rows of what an extractor has returned.

    Raises:
        InputError: it is no list of `MemoryEntry`, or something of one cannot be stored.
    """
    if isinstance(entries, str | bytes | MemoryEntry) or not isinstance(entries, Iterable):
        raise InputError(
            f"an extractor returns a list of MemoryEntry. type={type(entries).__name__}"
        )
    by_id: dict[str, tuple[Told, Event, EventRow]] = {}
    events = iter(history.events)
    for told in group:
        for row in told.rows:
            event = next(events)
            by_id.setdefault(event.id, (told, event, row))
    whole = _source(group[0].key, group[0].version)
    if history.session_id is None:
        whole = replace(whole, session_id=None, version=0)
    last = max((row for told in group for row in told.rows), key=lambda row: row.committed_at)
    for number, entry in enumerate(check_memories(list(entries)), 1):
        known = by_id.get(entry.id or "")
        source = _source(known[0].key, known[0].version) if known else whole
        made = replace(row_of(source, entry, None, {}, taste), extracted=True)
        if known is None:
            time = made.event_time
            yield replace(
                made,
                event_time=_time(last) if time is None else time,
                place=_place(last, number),
            )
        else:
            yield _of_event(made, *known)


def _of_event(made: MemoryRow, told: Told, event: Event, row: EventRow) -> MemoryRow:
    """Return a memory with what is known of the event that it is of."""
    as_added = of_event(
        _source(told.key, told.version), json.loads(row.event_json or "{}"), Taste(True, True)
    )
    return replace(
        made,
        event_id=event.id,
        invocation_id=event.invocation_id or None,
        author=made.author or event.author,
        tool_call_id=as_added.tool_call_id if as_added else None,
        event_time=_time(row) if made.event_time is None else made.event_time,
        place=_place(row),
    )


def _time(row: EventRow) -> int | None:
    """Return when an event happened, in microseconds since 1970 UTC."""
    return microseconds(event_time(row))


def _one_each(batch: Sequence[History], answer: object) -> list[object]:
    """Return what a batch returned of each of its histories."""
    if isinstance(answer, _FAILURES):
        return [answer] * len(batch)
    found = list(answer) if isinstance(answer, Iterable) else []
    if len(found) != len(batch):
        wrong = InputError(
            "an extractor in batches returns one list for each history."
            f" histories={len(batch)} lists={len(found)}"
        )
        return [wrong] * len(batch)
    return found


async def _gather(call: Callable[[Any], Awaitable[R]], arguments: Sequence[Any]) -> list[Any]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(argument: object) -> R:
        async with gate:
            return await call(argument)

    return await asyncio.gather(*map(one, arguments), return_exceptions=True)


async def _whole(answer: Awaitable[R]) -> R:
    return await answer


def _finish(work: Coroutine[Any, Any, R]) -> R:
    """Return what `work` returns, also where a loop is running in this thread, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
