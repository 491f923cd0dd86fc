"""Rollups: what the writer of a long log does so that cold opens stay cheap with no job running.

Owns when a rollup is due, what it holds, and which objects it makes needless.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from math import isqrt

from lakestore.errors import AlreadyExistsError
from lakestore.history.environment import Environment
from lakestore.history.needless import Age, needless_by_rollup
from lakestore.history.rollup import Rollup, encode
from lakestore.history.view import SessionView
from lakestore.log.keys import rollup_key

logger = logging.getLogger(__name__)

_AT_LEAST = 64
_PER_ROOT = 4


def rollup_is_due(view: SessionView) -> bool:
    """Tell whether the commits above the newest rollup are more than a cold open should read.

    The limit grows with the square root of the log: so do the reads of a cold open and the times
    that an event is written again, and neither with the log itself.
    """
    log = view.version - view.packed_version
    return view.version - view.rolled_version >= _AT_LEAST + _PER_ROOT * isqrt(log)


def roll_up(environment: Environment, view: SessionView) -> Rollup:
    """Write the rollup of `view`, sweep what an older one covers, and return it.

    The caller has put the shared state of the newest commit before.

    Raises:
        StorageError: the rollup was not written, or not all was swept; both can be done later.
    """
    now = int(environment.clock.wall() * 1_000_000)
    rows = [*([view.created] if view.created else ()), *view.tail]
    body = encode(rows, view.state, now, view.rollup, view.stamps())
    key = rollup_key(view.key.log, view.version)
    with suppress(AlreadyExistsError):  # another writer of this log did the same
        environment.store.put_if_absent(key, body)
    _sweep(environment, view.key.log, key)
    return Rollup(body)


def _sweep(environment: Environment, log: str, ours: str) -> None:
    """Delete what lies below the newest rollup that is older than the grace.

    By the store's own time, which the rollup just written tells.
    """
    store = environment.store
    listed = list(store.list(log))
    now = next((stored.modified for stored in listed if stored.key == ours), 0.0)
    needless = needless_by_rollup(log, listed, Age.of(now, environment.limits.grace))
    for stored in needless:
        store.delete(stored.key)
    if needless:
        logger.debug("swept %d objects of a log. key=%r", len(needless), log)
