"""Every key of a lake, spelled here and nowhere else. Owns names, not what is stored under them.

An id becomes part of a key by one rule, `encode_id`. Its result is a legal file name everywhere,
also where case is ignored, and reads as itself for the ids people choose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from lakestore.errors import InputError

MARKER_KEY = "lakestore.json"
"""The format marker of the lake."""

EVENT_LOGS = "events/log/"
STATE_ENTRIES = "state/entries/"

NONE = "-"
"""Stands where there is no user or no session; no id is ever encoded so."""

_LITERAL = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
_NEVER_FIRST = frozenset(b"-_.")
_LONGEST = 120
_PREFIX = 80
_LOG_NAME = re.compile(r"([0-9]{20})(r?)\.parquet")
_STAMP = re.compile(r"[0-9]{17}-[0-9]{6}-[0-9a-f]{16}")
_ENTRY_NAME = re.compile(r"([0-9]{17}-[0-9]{6}-[0-9a-f]{16})(f?)\.parquet")


def check_id(what: str, value: object) -> str:
    """Return `value` if it can be an id: a non-empty text without NUL that UTF-8 can hold.

    Args:
        what: Names the id in the error, such as `user_id`.
        value: The id.

    Raises:
        InputError: it cannot.
    """
    if not isinstance(value, str):
        raise InputError(f"{what} must be a text. type={type(value).__name__}")
    if not value:
        raise InputError(f"{what} must not be empty")
    if "\x00" in value:
        raise InputError(f"{what} must not contain NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} must be valid Unicode, without lone surrogates") from None
    return value


@lru_cache(maxsize=4096)
def encode_id(value: str) -> str:
    """Return the key part for an id: lower-case ASCII letters, digits, `-`, `_`, `.`, `%`, `~`.

    Every other byte of its UTF-8 form, upper-case letters among them, is written `%xx` in
    lower-case hexadecimal, and so are a leading `-`, `_` or `.` and a trailing `.`. When that is
    longer than 120 characters, its beginning is kept and `~` and a digest follow.
    """
    raw = value.encode()
    last = len(raw) - 1
    parts = [
        chr(byte)
        if byte in _LITERAL
        and not (i == 0 and byte in _NEVER_FIRST)
        and not (i == last and byte == 0x2E)
        else f"%{byte:02x}"
        for i, byte in enumerate(raw)
    ]
    encoded = "".join(parts)
    if len(encoded) <= _LONGEST:
        return encoded
    kept = re.sub(r"%[0-9a-f]?$", "", encoded[:_PREFIX])
    return f"{kept}~{sha256(raw).hexdigest()[:32]}"


def decode_id(part: str) -> str | None:
    """Return the id that `encode_id` wrote, or None when only a digest of it is left."""
    return None if "~" in part else unquote_to_bytes(part).decode()


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
    """What shared state belongs to: a user of an app, or (`user_id` None) the app."""

    app_name: str
    user_id: str | None

    @property
    def entries(self) -> str:
        """The prefix of the scope's state entries."""
        user = NONE if self.user_id is None else encode_id(self.user_id)
        return f"{app_entries(self.app_name)}user={user}/"

    def __repr__(self) -> str:
        return f"Scope({self.entries!r})"


def proof_key(token: str) -> str:
    """Return the key that a creator of a lake proves its store with."""
    return f"proof-{token}.json"


def app_logs(app_name: str) -> str:
    """Return the prefix of all session logs of an app."""
    return f"{EVENT_LOGS}app={encode_id(app_name)}/"


def user_logs(app_name: str, user_id: str) -> str:
    """Return the prefix of all session logs of a user."""
    return f"{app_logs(app_name)}user={encode_id(user_id)}/"


def app_entries(app_name: str) -> str:
    """Return the prefix of all state entries of an app and its users."""
    return f"{STATE_ENTRIES}app={encode_id(app_name)}/"


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
    """Return the prefix of the session log that `key` is in, or is itself; None above all logs."""
    folder = "/".join(key.split("/")[:5]) + "/"
    return folder if is_log_folder(folder) else None


def may_hold_logs(folder: str) -> bool:
    """Tell whether session logs can be below `folder`, by its name; strays hold none."""
    if EVENT_LOGS.startswith(folder):
        return True
    parts = folder.removeprefix(EVENT_LOGS).rstrip("/").split("/")
    named = zip(parts, ("app=", "user="), strict=False)
    return len(parts) <= 2 and all(part.startswith(name) for part, name in named)


@lru_cache(maxsize=16)
def is_log_folder(folder: str) -> bool:
    """Tell whether `folder` is the prefix of a session log."""
    parts = folder.removeprefix(EVENT_LOGS).split("/")
    named = zip(parts, ("app=", "user=", "session="), strict=False)
    return len(parts) == 4 and not parts[3] and all(p.startswith(n) for p, n in named)
