"""Entries: immutable objects with unique, time-ordered names, whose fold is the same in any order.

Owns their names and how they are created and listed; the fold is decided above.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from lakestore.clock import Clock
from lakestore.errors import AlreadyExistsError, UnknownOutcomeError
from lakestore.log.commits import attempts
from lakestore.log.keys import STATE_ENTRIES, entry_key, is_of_app, parse_entry_name
from lakestore.storage import Metrics, ObjectStore


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as a listing shows it."""

    key: str
    stamp: str
    is_fold: bool
    """Whether it holds what a writer folded out of many entries, each row with its own stamp."""


def list_entries(store: ObjectStore, prefix: str, after: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield (prefix of the scope, entry) for every entry under `prefix`, by one listing.

    Only those whose keys come after `after`.
    """
    for key in store.names(prefix, after):
        entry = parse_entry(key)
        if entry is not None:
            yield key[: key.rindex("/") + 1], entry


@lru_cache(maxsize=16_384)  # of a long listing the same ones are asked for each time
def parse_entry(key: str) -> Entry | None:
    """Return the entry that stands under `key`, None for a stray."""
    parsed = parse_entry_name(key.rpartition("/")[2])
    return None if parsed is None else Entry(key, *parsed)


def is_fold(key: str) -> bool:
    """Tell whether the entry under `key` is a fold of others; strays are none."""
    entry = parse_entry(key)
    return entry is not None and entry.is_fold


@lru_cache(maxsize=16_384)
def name_of(key: str) -> str:
    """Return what tells the entry under `key` from all others of its app, without its user.

    A stamp is one commit's, and of its two scopes one is the app's; or it is one fold's. Those of
    other tables than shared state begin with the name of the table.
    """
    name = key.rpartition("/")[2].partition(".")[0]
    of_scope = f"-/{name}" if is_of_app(key) else name
    return of_scope if key.startswith(STATE_ENTRIES) else f"{key.partition('/')[0]}/{of_scope}"


def put_entry(
    store: ObjectStore,
    entries: str,
    stamp: str,
    body: bytes,
    *,
    fold: bool,
    clock: Clock,
    metrics: Metrics,
) -> str:
    """Create the entry with that stamp in the scope with prefix `entries`; return its key.

    A stamp is never used for other content, so an entry that already stands is this one, and one
    whose outcome is not known is simply sent again.

    Raises:
        UnknownOutcomeError: it may be there; putting it again is safe.
        StorageError: it is not there.
    """
    key = entry_key(entries, stamp, fold=fold)
    for _ in attempts(clock, metrics):
        try:
            store.put_if_absent(key, body)
        except AlreadyExistsError:
            return key
        except UnknownOutcomeError as error:
            last = error
        else:
            return key
    raise last
