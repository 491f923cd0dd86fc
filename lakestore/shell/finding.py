"""Finds a session that someone names on the command line, and reads it. Never imports ADK."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from lakestore.errors import InputError, NotFoundError
from lakestore.history.artifact_view import ArtifactView
from lakestore.history.environment import Environment
from lakestore.history.reading import ALL, Found
from lakestore.history.runs import ARTIFACTS, LAST
from lakestore.jobs.artifact_listings import list_artifacts
from lakestore.lake import Lake
from lakestore.log.keys import Scope, SessionKey, app_manifests, artifacts_of_user
from lakestore.shell.conversation import LOST, Conversation
from lakestore.shell.text import byte_size, plural
from lakestore.storage import UnreadableError
from lakestore.tables.artifacts import Saved
from lakestore.tables.events import EventRow
from lakestore.tables.state import APP_PREFIX, USER_PREFIX

_TAKEN_AWAY = "application/octet-stream"


def find_session(
    lake: Lake, session_id: str, app_name: str | None, user_id: str | None
) -> SessionKey:
    """Return the one session of that id, among all apps and users where none is given.

    Lists the lake's logs, or the app's, unless both are given.

    Raises:
        NotFoundError: there is none.
        InputError: there are several.
    """
    if app_name is not None and user_id is not None:
        return SessionKey(app_name, user_id, session_id)
    named = lake.sessions.find(session_id, app_name)
    found = sorted(key for key in named if user_id in (None, key.user_id))
    if not found:
        raise NotFoundError(
            f"no such session. {session_id=}{_among(app_name, user_id)}; to see which there are:"
            f' lakestore sql {shlex.quote(lake.url)} "select session_id from sessions"'
        )
    if len(found) > 1:
        choices = "".join(
            f"\n  --app {shlex.quote(key.app_name)} --user {shlex.quote(key.user_id)}"
            for key in found
        )
        raise InputError(f"{len(found)} sessions have the id {session_id!r}; say which:{choices}")
    return found[0]


def has_user(lake: Lake, app_name: str, user_id: str) -> bool:
    """Tell whether anything is known of a user of an app: sessions, deleted or not, files, state.

    Raises:
        StorageError: the store failed.
    """
    scope = Scope(app_name, user_id)
    if any(True for _ in lake.sessions.read_all(app_name, user_id, ended=True)):
        return True
    if lake.sessions.shared.read([scope])[scope].values():
        return True
    below = artifacts_of_user("", app_name, user_id)
    if next(list_artifacts(lake.environment.store, below), None) is not None:
        return True
    archive = lake.sessions.archive
    runs = archive.newest(app_manifests(app_name)).table(ARTIFACTS.name).runs
    span = (user_id, ""), (user_id, LAST[1])
    return any(True for _ in archive.rows_in(ARTIFACTS, app_name, runs, *span))


def _among(app_name: str | None, user_id: str | None) -> str:
    given = {"app_name": app_name, "user_id": user_id}
    return "".join(f" {name}={value!r}" for name, value in given.items() if value is not None)


def read_conversation(lake: Lake, key: SessionKey) -> Conversation:
    """Return the session with all its events, the state of all scopes, and what files it has.

    Raises:
        NotFoundError: there is no such session.
        FormatError: one of its objects is damaged.
        StorageError: the store failed.
    """
    sessions = lake.sessions

    def read() -> tuple[Found | None, Sequence[EventRow]]:
        found = sessions.read_events(key, ALL)
        return found, found.rows if found else []

    found, rows = sessions.payloads.whole(read, lambda: sessions.begin_again(key.app_name, key))
    if found is None:
        raise NotFoundError(
            f"no such session. session_id={key.session_id!r} app_name={key.app_name!r}"
            f" user_id={key.user_id!r}"
        )
    state = dict(found.view.state)
    for scope, prefix in (
        (Scope(key.app_name, None), APP_PREFIX),
        (Scope(key.app_name, key.user_id), USER_PREFIX),
    ):
        if scope in found.folds:
            shared = found.folds[scope].values()
            state |= {prefix + name: value for name, value in shared.items()}
    events = [_event(row) for row in rows]
    return Conversation(
        key.app_name, key.user_id, key.session_id, events, state, _read_files(lake, key)
    )


def _event(row: EventRow) -> Any:
    """Return an event, in which is noted what of its bytes is lost."""
    event = json.loads(row.event_json or "{}")
    for payload in row.payloads:
        with suppress(LookupError, TypeError, ValueError):  # it leads nowhere
            holder = event
            for step in payload.path.split("/")[1:-1]:
                name = step.replace("~1", "/").replace("~0", "~")
                holder = holder[int(name)] if isinstance(holder, list) else holder[name]
            holder[LOST] = payload.size
    return event


def _read_files(lake: Lake, key: SessionKey) -> dict[str, str]:
    """Return what there is to say of the files of a session and its user, by their names."""
    env = lake.environment
    views = lake.artifacts.views(key.app_name, key.user_id, key.session_id)

    def told(view: ArtifactView) -> str:
        last = view.saves[-1]
        return ", ".join(filter(None, (plural(len(view.saves), "version"), *_told(env, last))))

    found = env.pool.map(told, views, near=env.store.near)
    return {view.key.filename: words for view, words in zip(views, found, strict=True)}


def _told(env: Environment, last: Saved) -> Iterator[str | None]:
    """Yield what the last version of an artifact is, and whether it is there."""
    if last.payload is None:
        yield last.file_uri
        yield last.mime_type
        return
    yield byte_size(last.size or 0)
    yield last.mime_type
    try:
        if env.store.size(last.payload) != last.size:
            yield "damaged"
    except (NotFoundError, UnreadableError):
        yield "lost"
    # So does a rewind of ADK's say that there was no such file yet.
    if not last.size and last.mime_type == _TAKEN_AWAY:
        yield "taken away by a rewind, or empty"
