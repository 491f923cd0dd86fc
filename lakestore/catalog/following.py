"""What following a table's logs, entries and runs has in common, for SQL.

Owns how often a pass is begun again, and when a run is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from lakestore.catalog.database import Database
from lakestore.catalog.inspection import inspect
from lakestore.catalog.source import Source
from lakestore.errors import FormatError, NotFoundError, StorageError
from lakestore.log.manifests import StoredFile
from lakestore.storage import UnreadableError
from lakestore.storage.files import SCHEME

logger = logging.getLogger(__name__)

_ATTEMPTS = 8

S = TypeVar("S")


def until_shown(source: Source, show: Callable[[], S], renew: Callable[[], object]) -> S:
    """Return what `show` returns, which begins again when something was swept meanwhile.

    Args:
        source: Counts what is begun again.
        show: Raises NotFoundError where something was swept: newer objects tell of it.
        renew: Looks anew at what there is.

    Raises:
        StorageError: the store failed, or jobs were faster.
    """
    for _ in range(_ATTEMPTS):
        try:
            return show()
        except NotFoundError:
            source.metrics.add("retries")
        renew()
    raise StorageError("the lake changed faster than it could be read")


def damage_of(
    source: Source, database: Database, key: str, run: StoredFile, known: Collection[str]
) -> str | None:
    """Return why a run cannot be read, None when it can; one that is `known` costs no request.

    Raises:
        NotFoundError: it was swept.
        StorageError: the store failed.
    """
    met = database.files.unread.spans.get(key)
    if key not in known or met is not None:
        try:
            inspect(source.store, key, run, wholly=False, met=met).note(database.files, key, run)
        except (FormatError, UnreadableError) as error:
            return str(error)
    return None


def paths_by_app(runs: Sequence[str]) -> list[list[str]]:
    """Return the paths of runs, those of each app together, in order."""
    by_app = groupby(runs, key=lambda key: key.rpartition("/")[0])
    return [[f"{SCHEME}://{key}" for key in keys] for _, keys in by_app]


def tell(damaged: Mapping[str, str], told: Collection[str]) -> None:
    """Log what cannot be read, and was not told before."""
    for key, reason in damaged.items():
        if key not in told:
            logger.error("what an object holds is not shown. key=%r reason=%s", key, reason)
