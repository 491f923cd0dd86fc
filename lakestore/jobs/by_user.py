"""Figures by user, of which there may be millions: kept in a file, of which a few are held.

SQLite's own temporary file: no other process sees it, and it goes with the process.
"""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass, fields


@dataclass(slots=True)
class Figures:
    """What a user, or a whole app, has."""

    sessions: int = 0
    """Living sessions, as far as they are packed, and all of which nothing is."""
    events: int = 0
    """Events that are packed; how many are in commits is told by none of their names."""
    packed_bytes: int = 0
    """Bytes of packs; of a user, the share of its rows."""
    fresh_commits: int = 0
    """Commits that are not packed: each has an event or more, or begins or ends a session."""
    fresh_objects: int = 0
    """Commits, rollups and entries that are not packed."""
    fresh_bytes: int = 0
    """Their bytes."""
    covered_objects: int = 0
    """Commits, rollups and entries that are packed, of artifacts also commits below a newer one and
    payloads to which nothing refers, and of the app old packs, runs and manifests, too: a sweep
    deletes them in its time."""
    covered_bytes: int = 0
    """Their bytes."""
    artifacts: int = 0
    """Living artifacts."""
    payloads: int = 0
    """Objects with the bytes of living versions of artifacts, or of events, beside which they are
    stored."""
    payload_bytes: int = 0
    """Their bytes."""

    @property
    def bytes(self) -> int:
        """All bytes."""
        return self.packed_bytes + self.fresh_bytes + self.covered_bytes + self.payload_bytes


_NAMES = [field.name for field in fields(Figures)]
_CREATE = f"""
CREATE TABLE users (name TEXT PRIMARY KEY, {", ".join(f"{name} INTEGER" for name in _NAMES)})
WITHOUT ROWID
"""
_ADD = f"""
INSERT INTO users VALUES (?, {", ".join("?" * len(_NAMES))})
ON CONFLICT (name) DO UPDATE
SET {", ".join(f"{name} = {name} + excluded.{name}" for name in _NAMES)}
"""
_LARGEST = f"""
SELECT name, {", ".join(_NAMES)} FROM users
ORDER BY packed_bytes + fresh_bytes + covered_bytes + payload_bytes DESC, name LIMIT ?
"""


class Users:
    """Adds up figures of the users of one app, those of one user after the other."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("")
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute(_CREATE)
        self._name: str | None = None
        self._figures = Figures()

    def of(self, name: str) -> Figures:
        """Return the figures of a user, to be added to until another one is asked for."""
        if name != self._name:
            self._flush()
            self._name, self._figures = name, Figures()
        return self._figures

    def _flush(self) -> None:
        if self._name is not None:
            self._file.execute(_ADD, (self._name, *astuple(self._figures)))
        self._name = None

    def count(self) -> int:
        """Return how many users there are."""
        self._flush()
        (found,) = self._file.execute("SELECT count(*) FROM users").fetchone()
        return int(found)

    def largest(self, most: int) -> dict[str, Figures]:
        """Return those with the most bytes, the largest first, up to so many."""
        self._flush()
        return {name: Figures(*row) for name, *row in self._file.execute(_LARGEST, (most,))}

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
