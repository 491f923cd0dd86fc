"""What can go wrong, grouped by what the caller does next.

    LakeError
    ├── ConflictError              another writer committed first: reload, then decide again
    ├── NotFoundError              (also a KeyError) nothing is stored under that name
    ├── AlreadyExistsError         the name is taken: choose another, or read what is there
    ├── InputError                 (also a ValueError) refused before anything is written
    ├── ReadOnlyError              (also a PermissionError) the lake was opened with read_only=True
    ├── FormatError                stored bytes that this version cannot read
    └── StorageError               the store failed: often transient, safe to retry reads
        ├── UnsupportedStoreError  the store cannot hold a lake: choose another
        └── UnknownOutcomeError    a write may have landed: read before retrying

ADK's own errors (`StaleSessionError`, `SessionNotFoundError`) are raised by `lakestore.adk` alone,
each from one of these.
"""

from __future__ import annotations

from collections.abc import Sequence


class LakeError(Exception):
    """Base of everything that lakestore raises on purpose."""


class ConflictError(LakeError):
    """Another writer committed first: reload, then decide again."""


class NotFoundError(LakeError, KeyError):
    """Nothing is stored under that name."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; a message should read as one.
        return Exception.__str__(self)


class AlreadyExistsError(LakeError):
    """The name is taken: choose another, or read what is there."""


class InputError(LakeError, ValueError):
    """Refused before anything was written: mend the input."""


class ReadOnlyError(LakeError, PermissionError):
    """The lake was opened with `read_only=True`."""


class FormatError(LakeError):
    """Stored bytes that this version cannot read."""


class StorageError(LakeError):
    """The store failed: often transient, safe to retry reads."""


class UnsupportedStoreError(StorageError):
    """The store cannot hold a lake: choose another."""


class UnknownOutcomeError(StorageError):
    """A write may have landed: read before retrying."""


def raise_first(failures: Sequence[Exception]) -> None:
    """Raise the first of some errors, if there is any, with the others as its notes."""
    if failures:
        first, *others = failures
        for other in others:
            first.add_note(f"and {type(other).__name__}: {other}")
        raise first
