"""Every key of a lake, spelled here and nowhere else. Owns names, not what is stored under them.

An id becomes part of a key by one rule, see `lakestore.log.ids`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from lakestore.log.ids import decode_id, encode_id

MARKER_KEY = "lakestore.json"
"""The format marker of the lake."""

EVENT_LOGS = "events/log/"
ARTIFACT_LOGS = "artifacts/log/"
ARTIFACT_OBJECTS = "artifacts/objects/"
"""Payloads of artifacts."""
STATE_ENTRIES = "state/entries/"
TELEMETRY_ENTRIES = "telemetry/entries/"
MEMORY_ENTRIES = "memory/entries/"
MEMORY_DRAFTS = "memory/drafts/"
"""What rebuilds have made, and not published."""
MANIFESTS = "manifests/"
PACKS = "packs/"
RUNS = "runs/"
PROOFS = "proof-"
"""Objects that tell something of the store; nobody needs them later."""
APPS = (
    *(EVENT_LOGS, ARTIFACT_LOGS, ARTIFACT_OBJECTS),
    *(STATE_ENTRIES, TELEMETRY_ENTRIES, MEMORY_ENTRIES),
    *(MANIFESTS, PACKS, RUNS),
)
"""Under each of these is a folder for each app."""

PACK_ENDING = ".parquet"
"""What follows the id in the key of a pack."""

NONE = "-"
"""Stands where there is no user or no session; no id is ever encoded so."""

_LEVELS = {
    EVENT_LOGS: ("app=", "user=", "session="),
    ARTIFACT_LOGS: ("app=", "user=", "session=", "name="),
}
"""What the names of folders on the way to a log begin with."""
_LOG_NAME = re.compile(r"([0-9]{20})(r?)\.parquet")
_MANIFEST_NAME = re.compile(r"([0-9]{20})\.json")
_FILE_NAME = re.compile(r"[^/]+\.parquet")
_STAMP = re.compile(r"[0-9]{17}-[0-9]{6}-[0-9a-f]{16}")
_ENTRY_NAME = re.compile(r"([0-9]{17}-[0-9]{6}-[0-9a-f]{16})(f?)\.parquet")
_PACKED = re.compile(r"(?:packs|runs)/app=[^/]+/[a-z]+/[0-9a-f]{16}\.parquet")
_PROOF = re.compile(r"proof-[0-9a-f]{16}\.json")


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """Names one session."""

    app_name: str
    user_id: str
    session_id: str

    @property
    def log(self) -> str:
        """The prefix of the session's log."""
        return f"{user_logs(self.app_name, self.user_id)}session={encode_id(self.session_id)}/"

    def __repr__(self) -> str:
        return f"SessionKey({self.log!r})"


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """What entries belong to: a user of an app, or (`user_id` None) the app."""

    app_name: str
    user_id: str | None

    @property
    def entries(self) -> str:
        """The prefix of the scope's state entries."""
        return self.entries_in(STATE_ENTRIES)

    def entries_in(self, entries: str) -> str:
        """Return the prefix of the scope's entries among all `entries` of a table."""
        user = NONE if self.user_id is None else encode_id(self.user_id)
        return f"{app_entries(self.app_name, entries)}user={user}/"

    def __repr__(self) -> str:
        return f"Scope({self.entries!r})"


@dataclass(frozen=True, slots=True, order=True)
class ArtifactKey:
    """Names one artifact; `session_id` is None for one that all sessions of the user share."""

    app_name: str
    user_id: str
    session_id: str | None
    filename: str
    """As it is listed and loaded: with `user:` before it where `session_id` is None."""

    @property
    def log(self) -> str:
        """The prefix of the artifact's log."""
        return self._below(ARTIFACT_LOGS)

    @property
    def objects(self) -> str:
        """The prefix of the artifact's payloads."""
        return self._below(ARTIFACT_OBJECTS)

    def _below(self, root: str) -> str:
        folder = artifacts_of(root, self.app_name, self.user_id, self.session_id)
        return f"{folder}name={encode_id(self.filename)}/"

    def __repr__(self) -> str:
        return f"ArtifactKey({self.log!r})"


def artifacts_of_app(root: str, app_name: str) -> str:
    """Return the prefix of all of an app's artifacts below `root`, their logs or payloads."""
    return f"{root}app={encode_id(app_name)}/"


def artifacts_of_user(root: str, app_name: str, user_id: str) -> str:
    """Return the prefix of all of a user's artifacts below `root`, their logs or payloads."""
    return f"{artifacts_of_app(root, app_name)}user={encode_id(user_id)}/"


def artifacts_of(root: str, app_name: str, user_id: str, session_id: str | None) -> str:
    """Return the prefix of the artifacts of a session, or (None) that a user's sessions share."""
    session = NONE if session_id is None else encode_id(session_id)
    return f"{artifacts_of_user(root, app_name, user_id)}session={session}/"


def parse_artifact(folder: str) -> ArtifactKey | None:
    """Return whose log or payloads are in `folder`, None when only a digest of an id is left."""
    parts = folder.split("/")[2:6]
    session = parts[2].partition("=")[2]
    app, user, name = (decode_id(parts[at].partition("=")[2]) for at in (0, 1, 3))
    session_id = None if session == NONE else decode_id(session)
    if app is None or user is None or name is None or (session_id is None and session != NONE):
        return None
    return ArtifactKey(app, user, session_id, name)


def payload_key(folder: str, token: str, name: str) -> str:
    """Return the key of a payload in `folder`, under a token that was just drawn.

    Args:
        folder: `ArtifactKey.objects`.
        token: Makes it unique.
        name: What people recognise it by, see `readable_name`.
    """
    return f"{folder}{token}/{name}"


def proof_key(token: str) -> str:
    """Return the key that a creator of a lake proves its store with."""
    return f"{PROOFS}{token}.json"


def is_proof(key: str) -> bool:
    """Tell whether `key` is one that `proof_key` returns."""
    return _PROOF.fullmatch(key) is not None


def app_drafts(app_name: str) -> str:
    """Return the prefix of all that rebuilds of an app's memories have made and not published."""
    return f"{MEMORY_DRAFTS}app={encode_id(app_name)}/"


def draft_key(app_name: str, name: str) -> str:
    """Return the key of one part of what a rebuild has made."""
    return f"{app_drafts(app_name)}{name}.parquet"


def app_logs(app_name: str) -> str:
    """Return the prefix of all session logs of an app."""
    return f"{EVENT_LOGS}app={encode_id(app_name)}/"


def user_logs(app_name: str, user_id: str) -> str:
    """Return the prefix of all session logs of a user."""
    return f"{app_logs(app_name)}user={encode_id(user_id)}/"


def app_entries(app_name: str, entries: str = STATE_ENTRIES) -> str:
    """Return the prefix of an app's and its users' part of all `entries` of a table."""
    return f"{entries}app={encode_id(app_name)}/"


def commit_key(log: str, version: int) -> str:
    """Return the key of a commit of the log with prefix `log`."""
    return f"{log}{version:020}.parquet"


def rollup_key(log: str, version: int) -> str:
    """Return the key of the rollup of a log up to `version`."""
    return f"{log}{version:020}r.parquet"


def parse_log_name(name: str) -> tuple[int, bool] | None:
    """Return version and whether it is a rollup for a name in a log, None for a stray."""
    match = _LOG_NAME.fullmatch(name)
    return None if match is None else (int(match[1]), bool(match[2]))


def app_manifests(app_name: str) -> str:
    """Return the prefix of all manifests of an app."""
    return f"{MANIFESTS}app={encode_id(app_name)}/"


def manifest_name(number: int) -> str:
    """Return the name of a manifest below its app's prefix."""
    return f"{number:020}.json"


def manifest_key(app_name: str, number: int) -> str:
    """Return the key of a manifest of an app."""
    return app_manifests(app_name) + manifest_name(number)


def manifests_beside(key: str) -> str:
    """Return the prefix of the manifests of the app that a log or an entry belongs to."""
    return f"{MANIFESTS}{key.split('/', 3)[2]}/"


def parse_log(log: str) -> SessionKey | None:
    """Return the session whose log has the prefix `log`, None when only a digest of it is left."""
    parts = log.removeprefix(EVENT_LOGS).split("/")
    ids = [decode_id(part.partition("=")[2]) for part in parts[:3]]
    return None if None in ids else SessionKey(*(each or "" for each in ids))


def user_in(folder: str) -> str:
    """Return the user whose log or entries `folder` holds, "" when they are the app's.

    Where only a digest of the id is left, it is the part of the key that stands for it.
    """
    part = folder.split("/")[3].removeprefix("user=")
    return "" if part == NONE else decode_id(part) or part


def is_of_app(folder: str) -> bool:
    """Tell whether `folder` is of what all users of an app share."""
    return folder.split("/", 4)[3] == f"user={NONE}"


@lru_cache(maxsize=4096)
def log_digest(log: str) -> str:
    """Return what is left of a session's ids when it was erased: a digest of its log's prefix."""
    return sha256(log.encode()).hexdigest()


def parse_manifest_name(name: str) -> int | None:
    """Return the number of a manifest for its name, None for a stray."""
    match = _MANIFEST_NAME.fullmatch(name)
    return None if match is None else int(match[1])


def app_packs(app_name: str) -> str:
    """Return the prefix of all packs of an app."""
    return f"{PACKS}app={encode_id(app_name)}/"


def pack_key(app_name: str, table: str, pack_id: str) -> str:
    """Return the key of a pack of one of an app's tables."""
    return f"{app_packs(app_name)}{table}/{pack_id}{PACK_ENDING}"


def app_runs(app_name: str) -> str:
    """Return the prefix of all runs of an app."""
    return f"{RUNS}app={encode_id(app_name)}/"


def run_key(app_name: str, table: str, run_id: str) -> str:
    """Return the key of a run of one of an app's tables."""
    return f"{app_runs(app_name)}{table}/{run_id}.parquet"


def is_packed(key: str) -> bool:
    """Tell whether `key` is that of a pack or run, of whatever table; strays are not."""
    return _PACKED.fullmatch(key) is not None


def table_of(key: str) -> str | None:
    """Return the table of which `key`, below packs or runs, holds a part; None for a stray."""
    parts = key.split("/")
    return parts[2] if len(parts) == 4 and _FILE_NAME.fullmatch(parts[3]) else None


def is_stamp(text: str) -> bool:
    """Tell whether `text` is a stamp."""
    return _STAMP.fullmatch(text) is not None


def entry_key(entries: str, stamp: str, *, fold: bool) -> str:
    """Return the key of an entry in the scope with prefix `entries`, or of a fold of many."""
    return f"{entries}{stamp}{'f' if fold else ''}.parquet"


def parse_entry_name(name: str) -> tuple[str, bool] | None:
    """Return stamp and whether it is a fold for a name among entries, None for a stray."""
    match = _ENTRY_NAME.fullmatch(name)
    return None if match is None else (match[1], bool(match[2]))


def log_of(key: str) -> str | None:
    """Return the prefix of the log that `key` is in, or is itself; None above all logs."""
    root = _logs_around(key)
    if root is None:
        return None
    folder = "/".join(key.split("/")[: root.count("/") + len(_LEVELS[root])]) + "/"
    return folder if is_log_folder(folder) else None


def may_hold_logs(folder: str) -> bool:
    """Tell whether logs can be below `folder`, by its name; strays hold none."""
    root = _logs_around(folder)
    if root is None:
        return any(each.startswith(folder) for each in _LEVELS)
    parts = folder.removeprefix(root).rstrip("/").split("/")
    levels = _LEVELS[root]
    named = zip(parts, levels, strict=False)
    return folder == root or (
        len(parts) < len(levels) and all(part.startswith(name) for part, name in named)
    )


@lru_cache(maxsize=16)
def is_log_folder(folder: str) -> bool:
    """Tell whether `folder` is the prefix of a log, of a session's or an artifact's."""
    root = _logs_around(folder)
    if root is None:
        return False
    parts, levels = folder.removeprefix(root).split("/"), _LEVELS[root]
    named = zip(parts, levels, strict=False)
    return (
        len(parts) == len(levels) + 1 and not parts[-1] and all(p.startswith(n) for p, n in named)
    )


def _logs_around(key: str) -> str | None:
    return next((root for root in _LEVELS if key.startswith(root)), None)


EVENT_OBJECTS = "events/objects/"
"""Bytes that were moved out of events."""


def app_objects(app_name: str) -> str:
    """Return the prefix of all bytes that were moved out of events of an app."""
    return f"{EVENT_OBJECTS}app={encode_id(app_name)}/"


def user_objects(app_name: str, user_id: str) -> str:
    """Return the prefix of all bytes that were moved out of events of a user."""
    return f"{app_objects(app_name)}user={encode_id(user_id)}/"


def user_prefixes(app_name: str, user_id: str) -> list[str]:
    """Return the prefixes of all that is a user's alone."""
    roots = (EVENT_LOGS, EVENT_OBJECTS, ARTIFACT_LOGS, ARTIFACT_OBJECTS)
    entries = (STATE_ENTRIES, TELEMETRY_ENTRIES, MEMORY_ENTRIES)
    return [artifacts_of_user(root, app_name, user_id) for root in (*roots, *entries)]


def objects_beside(log: str) -> str:
    """Return the prefix of the bytes that were moved out of the events of a session's log."""
    return EVENT_OBJECTS + log.removeprefix(EVENT_LOGS)


def object_key(objects: str, token: str, name: str) -> str:
    """Return the key of bytes that were moved out of an event.

    Args:
        objects: The prefix of the session's.
        token: Was just drawn.
        name: What people recognise them by, see `lakestore.log.ids.readable_name`.
    """
    return f"{objects}{token}/{name}"


def log_of_object(key: str) -> str | None:
    """Return the prefix of the log of the session whose bytes `key` holds, None for a stray."""
    if _OBJECT.fullmatch(key) is None:
        return None
    return EVENT_LOGS + "/".join(key.split("/")[2:5]) + "/"


_OBJECT = re.compile(
    r"events/objects/app=[^/]+/user=[^/]+/session=[^/]+/[0-9a-f]{16}/[^/]+", re.DOTALL
)
