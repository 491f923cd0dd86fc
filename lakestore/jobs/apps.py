"""Which apps a lake has, found without listing all that is in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from lakestore.errors import FormatError
from lakestore.lake import Lake
from lakestore.log.folders import folders
from lakestore.log.ids import check_id, decode_id
from lakestore.log.keys import APPS
from lakestore.storage import UnreadableError

logger = logging.getLogger(__name__)

R = TypeVar("R")


def chosen_apps(lake: Lake, app_name: str | None) -> list[str]:
    """Return the one app, or all that have any object: a few requests for each.

    Raises:
        InputError: the name can be no app's.
        StorageError: the store failed.
    """
    if app_name is not None:
        return [check_id("app_name", app_name)]
    store = lake.environment.store
    parts = {part for prefix in APPS for part in folders(store, prefix)}
    names = [decode_id(part.removeprefix("app=")) for part in parts if part.startswith("app=")]
    if None in names:  # of a long name only a digest is in its keys
        names += lake.sessions.apps()
    return sorted({name for name in names if name is not None})


def for_each(apps: Iterable[str], work: Callable[[str], R]) -> list[R]:
    """Return what `work` does for each app; where one is damaged it goes on with the others.

    Raises:
        FormatError, UnreadableError: of the first app of which something is damaged or closed, when
            all others are done; each was logged.
        LakeError: as `work`.
    """
    done, failed = [], None
    for app in apps:
        try:
            done.append(work(app))
        except (FormatError, UnreadableError) as error:
            logger.error("an app was left as it is: %s", error)
            failed = failed or error
    if failed is not None:
        raise failed
    return done
