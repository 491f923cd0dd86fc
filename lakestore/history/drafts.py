"""From what a caller wants to commit to rows. Owns tokens, stamps and when two events are equal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from lakestore.errors import AlreadyExistsError
from lakestore.history.environment import Environment
from lakestore.log.commits import Marker
from lakestore.log.keys import Scope, SessionKey
from lakestore.log.stamps import Stamper
from lakestore.tables.events import EventRow, Kind, event_id, event_of
from lakestore.tables.inline import InlineTexts, decoded
from lakestore.tables.state import split_scopes, to_json


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is to be appended."""

    event_id: str = field(repr=False)
    event_json: str = field(repr=False)
    """The whole event, without `temp:` keys."""
    delta: dict[str, Any] = field(repr=False)
    """What it sets in the state, of JSON types, prefixes kept."""
    shown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What it sets as it was given, `temp:` keys too; nothing that is stored depends on it."""

    def stands_in(self, row: EventRow) -> bool:
        """Tell whether `row` holds this very event: the same id and the same content."""
        if row.event_json is None or event_id(row) != self.event_id:
            return False
        text = self._as_in(row)
        return text == row.event_json or (text is not None and event_of(row) == json.loads(text))

    def is_text_of(self, row: EventRow) -> bool:
        """Tell whether `row` holds this very event, byte by byte."""
        if not row.payloads:
            return row.event_json == self.event_json
        encoded = sum(-(-it.size // 3) * 4 for it in row.payloads)
        if len(self.event_json) != len(row.event_json or "") + encoded:
            return False
        return event_id(row) == self.event_id and self._as_in(row) == row.event_json

    def _as_in(self, row: EventRow) -> str | None:
        """Return the event without the bytes that were moved out of the one in `row`.

        None if it has others.
        """
        if not row.payloads:
            return self.event_json
        try:
            places = InlineTexts(self.event_json)
        except (ValueError, RecursionError):  # nothing can have been moved out of it
            return None
        for payload in row.payloads:
            found = decoded(places.text_at(payload.path) or "", payload.size - 1)
            if found is None or sha256(found[0]).hexdigest() != payload.sha256:
                return None
        return places.with_texts(dict.fromkeys((it.path for it in row.payloads), ""))

    def stands_in_any(self, rows: Sequence[EventRow]) -> bool:
        """Tell whether one of `rows` holds this very event."""
        return any(self.stands_in(row) for row in rows)


def not_in(rows: Sequence[EventRow], drafts: Sequence[Draft]) -> list[Draft]:
    """Return those of `drafts` that `rows`, a commit with one of them, do not hold.

    Raises:
        AlreadyExistsError: `rows` hold another event with the id of one of them.
    """
    ids = {event_id(row) for row in rows}
    missing = [draft for draft in drafts if not draft.stands_in_any(rows)]
    if any(draft.event_id in ids for draft in missing):
        raise AlreadyExistsError(
            "the session holds another event with the id of one that was to be appended; nothing"
            f" was written. version={rows[0].version:020}"
        )
    return missing


def bodies_of(rows: Sequence[EventRow], drafts: Sequence[Draft]) -> dict[str, bytes]:
    """Return the bytes that `rows` refer to, by key, of those that hold one of `drafts`."""
    found: dict[str, bytes] = {}
    for row in rows:
        draft = next((it for it in drafts if row.payloads and it.stands_in(row)), None)
        places = InlineTexts(draft.event_json) if draft else None
        for payload in row.payloads if places else ():
            text = places.text_at(payload.path) if places else None
            body = decoded(text or "", payload.size - 1)
            if body is not None:
                found[payload.key] = body[0]
    return found


@dataclass(frozen=True, slots=True)
class Landed:
    """What an append came to."""

    marker: Marker
    """The last commit with something of it."""
    found: tuple[EventRow, ...]
    """Rows of commits that were there already, in commit order; they come before what was new."""


class RowMaker:
    """Makes the rows of commits, each with a token and, if it needs one, a stamp of its own."""

    def __init__(self, environment: Environment, stamper: Stamper) -> None:
        self._env = environment
        self._stamper = stamper

    def create(self, key: SessionKey, marker: Marker, delta: dict[str, Any]) -> list[EventRow]:
        """Return the commit that begins a session with the initial state `delta`."""
        return [self._row(key, marker, "create", self._stamp(key, [delta]), delta)]

    def delete(self, key: SessionKey, marker: Marker) -> list[EventRow]:
        """Return the commit that ends a session."""
        return [self._row(key, marker, "delete", None, {})]

    def events(self, key: SessionKey, marker: Marker, drafts: Sequence[Draft]) -> list[EventRow]:
        """Return the commit that appends `drafts`, in that order."""
        stamp = self._stamp(key, [draft.delta for draft in drafts])
        first = self._row(key, marker, "event", stamp, drafts[0].delta, drafts[0].event_json)
        rest = [
            EventRow(
                first.version,
                ordinal,
                first.kind,
                first.app_name,
                first.user_id,
                first.session_id,
                first.committed_at,
                first.token,
                first.previous,
                stamp,
                to_json(draft.delta) if draft.delta else None,
                draft.event_json,
            )
            for ordinal, draft in enumerate(drafts[1:], start=1)
        ]
        return [first, *rest]

    def _row(
        self,
        key: SessionKey,
        marker: Marker,
        kind: Kind,
        stamp: str | None,
        delta: dict[str, Any],
        event_json: str | None = None,
    ) -> EventRow:
        return EventRow(
            version=marker.version + 1,
            ordinal=0,
            kind=kind,
            app_name=key.app_name,
            user_id=key.user_id,
            session_id=key.session_id,
            committed_at=int(self._env.clock.wall() * 1_000_000),
            token=self._env.new_token(),
            previous=marker.token,
            stamp=stamp,
            state_delta=to_json(delta) if delta else None,
            event_json=event_json,
        )

    def _stamp(self, key: SessionKey, deltas: Sequence[dict[str, Any]]) -> str | None:
        """Return a stamp for a commit that touches shared state, None for one that does not."""
        parts = [split_scopes(delta) for delta in deltas if delta]
        scopes = []
        if any(user for _, user, _ in parts):
            scopes.append(Scope(key.app_name, key.user_id))
        if any(app for _, _, app in parts):
            scopes.append(Scope(key.app_name, None))
        return self._stamper.stamp(scopes) if scopes else None
