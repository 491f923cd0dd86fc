"""What a search is confined to, before the best are taken. Owns no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakestore.checks import check_options, check_texts, check_time
from lakestore.errors import InputError
from lakestore.tables.state import to_json

_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows count; each field that is given narrows, None does not."""

    after: int | None = None
    """Microseconds since 1970 UTC: only what happened after it."""
    upto: int | None = None
    """Microseconds since 1970 UTC: only what happened at it or before."""
    session_ids: frozenset[str] | None = field(default=None, repr=False)
    authors: frozenset[str] | None = field(default=None, repr=False)
    metadata: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Fields that the custom metadata must have, and their values as JSON; see `as_json`."""


EVERYTHING = Filter()


def filter_of(
    since: datetime | float | None = None,
    until: datetime | float | None = None,
    session_ids: Iterable[str] | None = None,
    authors: Iterable[str] | None = None,
    metadata: Mapping[str, object] | None = None,
) -> Filter:
    """Return the filter that these arguments of a public call ask for.

    What has no time is left out where a time is asked for.

    Args:
        since: Only what happened after this time (exclusive).
        until: Only what happened up to this time (inclusive).
        session_ids: Only what came from these sessions.
        authors: Only what is by these.
        metadata: Only what has all these fields in its custom metadata, with equal values.

    Raises:
        InputError: one of them is of another kind.
    """
    return Filter(
        _microseconds("since", since),
        _microseconds("until", until),
        None if session_ids is None else frozenset(check_texts("session_ids", session_ids)),
        None if authors is None else frozenset(check_texts("authors", authors)),
        _fields(check_options("metadata", metadata)),
    )


def as_json(value: object) -> str:
    """Return `value` as metadata compare: keys in order, 1 and 1.0 alike."""
    return to_json(_plain(value))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _fields(metadata: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    try:
        return tuple((name, as_json(value)) for name, value in metadata.items())
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"metadata has a value that JSON lacks. reason={error}") from error


def _microseconds(name: str, value: object) -> int | None:
    seconds = check_time(name, value)
    if seconds is None:
        return None
    return round(max(-_LIMIT, min(_LIMIT, seconds * 1_000_000)))
