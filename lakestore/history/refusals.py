"""Why sessions and artifacts refuse. Owns what is said; never ids, only where the log is."""

from __future__ import annotations

from lakestore.errors import ConflictError, NotFoundError, StorageError
from lakestore.log.keys import ArtifactKey, SessionKey


def missing(key: SessionKey) -> NotFoundError:
    """Return the error for a session that does not exist."""
    return NotFoundError(f"there is no such session. log={key.log!r}")


def stale(key: SessionKey) -> ConflictError:
    """Return the error for an append that another writer came before."""
    return ConflictError(
        "another writer has appended to this session since it was loaded: reload it, then"
        f" append. log={key.log!r}"
    )


def contended(key: SessionKey | ArtifactKey) -> StorageError:
    """Return the error for a log that never holds still."""
    return StorageError(f"others keep writing to this log. log={key.log!r}")
