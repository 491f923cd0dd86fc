"""Session logs written row by row, as FORMAT.md has them, for tests of those that read them.

Owns what is in a commit; asks nothing of the code under test but how bytes and keys are spelled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakestore.log.keys import SessionKey, commit_key, rollup_key
from lakestore.storage import ObjectStore
from lakestore.tables.events import EventRow, Kind, encode_commit, encode_rollup
from lakestore.tables.state import split_scopes

COMMITTED_AT = 1_700_000_000_000_000
"""Microseconds since 1970 at which version 0 would have been committed; a second a version."""


def event_json(event_id: str, *, at: float | None = 1_700_000_000.0, **fields: Any) -> str:
    """Return an event as ADK writes it, with the text "said" unless `fields` say otherwise."""
    event = {
        "id": event_id,
        "invocation_id": "turn-1",
        "author": "user",
        "content": {"role": "user", "parts": [{"text": "said"}]},
        "actions": {"state_delta": {}, "artifact_delta": {}},
        **({} if at is None else {"timestamp": at}),
        **fields,
    }
    return json.dumps(event, ensure_ascii=False)


@dataclass
class LogBuilder:
    """The log of one session; each method writes one object."""

    store: ObjectStore
    key: SessionKey
    version: int = 0
    rows: list[EventRow] = field(default_factory=list)
    """All rows of the session's present life."""

    def create(self, state: Mapping[str, Any] | None = None) -> LogBuilder:
        """Begin the session."""
        self.rows.clear()
        return self.commit([self.row("create", state)])

    def say(self, *texts: str, delta: Mapping[str, Any] | None = None, **fields: Any) -> LogBuilder:
        """Append one commit with an event for each text, whose id is the text."""
        made = [
            self.row("event", delta, event_json(text, **fields), ordinal=i)
            for i, text in enumerate(texts)
        ]
        return self.commit(made)

    def delete(self) -> LogBuilder:
        """End the session."""
        self.commit([self.row("delete")])
        self.rows.clear()
        return self

    def row(
        self,
        kind: Kind,
        delta: Mapping[str, Any] | None = None,
        event: str | None = None,
        *,
        ordinal: int = 0,
    ) -> EventRow:
        """Return a row of the next commit."""
        version = self.version + 1
        return EventRow(
            version=version,
            ordinal=ordinal,
            kind=kind,
            app_name=self.key.app_name,
            user_id=self.key.user_id,
            session_id=self.key.session_id,
            committed_at=COMMITTED_AT + version * 1_000_000,
            token=f"{version:016x}",
            previous=f"{version - 1:016x}" if version > 1 else "",
            state_delta=json.dumps(delta, ensure_ascii=False) if delta else None,
            event_json=event,
        )

    def commit(self, rows: Sequence[EventRow]) -> LogBuilder:
        """Write `rows` as the next commit."""
        self.version = rows[0].version
        self.rows += rows
        self.store.put_if_absent(self.commit_key(), encode_commit(rows))
        return self

    def roll_up(self) -> LogBuilder:
        """Write the rollup of all that was committed."""
        state: dict[str, Any] = {}
        for row in self.rows:
            state.update(split_scopes(json.loads(row.state_delta or "{}"))[0])
        last = replace(
            self.rows[-1],
            ordinal=self.rows[-1].ordinal + 1,
            kind="checkpoint",
            state_delta=json.dumps(state),
            event_json=None,
        )
        body = encode_rollup([*self.rows, last])
        self.store.put_if_absent(rollup_key(self.key.log, self.version), body)
        return self

    def sweep(self, below: int) -> LogBuilder:
        """Delete commits and rollups below a version."""
        for version in range(1, below):
            self.store.delete(self.commit_key(version))
            self.store.delete(rollup_key(self.key.log, version))
        return self

    def commit_key(self, version: int | None = None) -> str:
        """Return the key of a commit, the last one's by default."""
        return commit_key(self.key.log, version or self.version)


def a_log(
    store: ObjectStore, session_id: str = "s1", *, user_id: str = "ana", app_name: str = "travel"
) -> LogBuilder:
    """Return the log of a session, empty as yet."""
    return LogBuilder(store, SessionKey(app_name, user_id, session_id))
