"""The format marker, `lakestore.json`: that a lake is here, and the two times all its users keep.

Owns how it is created, and the proof that the store refuses a second creation.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass

from lakestore.checks import check_seconds
from lakestore.clock import Clock, NewToken
from lakestore.errors import (
    AlreadyExistsError,
    FormatError,
    InputError,
    NotFoundError,
    StorageError,
    UnknownOutcomeError,
    UnsupportedStoreError,
)
from lakestore.log.keys import MARKER_KEY, proof_key
from lakestore.storage import ObjectStore

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Two times that are chosen once per lake."""

    view_age: float = 300.0
    """Seconds for which what was read of a log counts as current."""
    grace: float = 3600.0
    """Seconds for which objects that are no longer needed are kept."""

    def __post_init__(self) -> None:
        check_seconds("view_age", self.view_age)
        check_seconds("grace", self.grace)
        if not 0 < self.view_age * 2 < self.grace < math.inf:
            raise InputError(
                "the grace must be more than twice the view age limit, and both above 0."
                f" view_age={self.view_age} grace={self.grace}"
            )


def read_limits(store: ObjectStore) -> Limits:
    """Return the limits of the lake in `store`.

    Raises:
        NotFoundError: there is no lake.
        FormatError: its format is newer than this version, or the marker is damaged.
    """
    body = store.get(MARKER_KEY)
    try:
        marker = json.loads(body)
        version = marker["format_version"]
        if version != FORMAT_VERSION:
            raise FormatError(
                f"the lake's format is {version}, and this version of lakestore reads"
                f" {FORMAT_VERSION}: upgrade lakestore. url={store.url!r}"
            )
        if marker["format"] != "lakestore":
            raise ValueError("another format")
        return Limits(float(marker["view_age_seconds"]), float(marker["grace_seconds"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise FormatError(f"{MARKER_KEY} is damaged. url={store.url!r}") from error


def create_lake(store: ObjectStore, limits: Limits, clock: Clock, new_token: NewToken) -> Limits:
    """Prove the store, then create the marker, or read the one that another process created first.

    The marker is created last, so that whoever finds one need not prove the store again.

    Raises:
        UnsupportedStoreError: the store does not refuse to create an object twice.
    """
    _prove(store, proof_key(new_token()))
    try:
        store.put_if_absent(MARKER_KEY, _marker(limits, clock, new_token()))
    except AlreadyExistsError:
        return read_limits(store)
    return limits


def _prove(store: ObjectStore, key: str) -> None:
    """Create an object twice: a store that lets the second through ignores the condition."""
    with suppress(AlreadyExistsError):  # the request was sent twice
        try:
            store.put_if_absent(key, b"the first")
        except UnknownOutcomeError:
            raise
        except StorageError as error:
            raise StorageError(f"cannot create a lake here. url={store.url!r} {error}") from error
    try:
        store.put_if_absent(key, b"the second")
    except AlreadyExistsError:
        return
    finally:
        store.delete(key)
    raise UnsupportedStoreError(
        "the store let an object be created twice, so writers would overwrite each other;"
        f" use one that honours create-only writes. url={store.url!r}"
    )


def open_lake(
    store: ObjectStore, limits: Limits | None, clock: Clock, new_token: NewToken, *, read_only: bool
) -> Limits:
    """Return the limits of the lake in `store`, creating it where there is none.

    Args:
        store: Where the lake is.
        limits: What a new lake shall have; None for the defaults. An existing lake keeps its own.
        clock: Dates the marker.
        new_token: Names the marker.
        read_only: Never create.

    Raises:
        NotFoundError: there is no lake, and `read_only`.
        FormatError: see `read_limits`.
        UnsupportedStoreError: see `create_lake`.
    """
    try:
        return read_limits(store)
    except NotFoundError:
        if read_only:
            raise NotFoundError(
                f"there is no lake here (no {MARKER_KEY}). url={store.url!r}"
            ) from None
    return create_lake(store, limits or Limits(), clock, new_token)


def _marker(limits: Limits, clock: Clock, token: str) -> bytes:
    content = {
        "format": "lakestore",
        "format_version": FORMAT_VERSION,
        "created_at": clock.wall(),
        "token": token,
        "view_age_seconds": limits.view_age,
        "grace_seconds": limits.grace,
    }
    return json.dumps(content, indent=2).encode() + b"\n"
