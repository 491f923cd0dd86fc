"""Whether the packs and runs of an app without a manifest can be made again from its logs.

They can where its first job has died. Where they cannot, its manifest is lost: sweeps had deleted
what was packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import EVENTS, FOLDED, KEYED
from lakestore.history.environment import Environment
from lakestore.log.keys import Scope, SessionKey, app_runs, commit_key, entry_key, table_of
from lakestore.storage import UnreadableError
from lakestore.tables.parquet import open_parquet, read_groups


def without_origin(environment: Environment, app_name: str, keys: Iterable[str]) -> str:
    """Return the first run among `keys` that tells of what is in no log and no entry; "" for none.

    Packs without a run never counted: a job puts its runs after them. A run that cannot be read may
    tell of anything.

    Raises:
        StorageError: the store failed.
    """
    runs = (key for key in keys if key.startswith(app_runs(app_name)))
    return next((key for key in runs if not _has_origin(environment, key)), "")


def _has_origin(environment: Environment, run: str) -> bool:
    if table_of(run) == FOLDED.name:  # it only saves work
        return True
    try:
        origins = _origins(run, environment.store.get(run))
        if origins is None:
            return False
        return all(keys <= set(environment.store.names(folder)) for folder, keys in origins)
    except NotFoundError:  # swept just now
        return True
    except (FormatError, UnreadableError):
        return False


def _origins(run: str, body: bytes) -> Iterator[tuple[str, set[str]]] | None:
    """Return what a run was made of, folder by folder; None when the keys do not follow from it."""
    if table_of(run) == EVENTS.name:
        sessions = EVENTS.from_table(read_groups(open_parquet(body, EVENTS.schema)))
        logs = (
            (SessionKey(row.app_name, row.user_id, row.session_id).log, row.version)
            for row in sessions
        )
        return (
            (log, {commit_key(log, version) for version in range(1, last + 1)})
            for log, last in logs
        )
    kind = next((kind for kind in KEYED if table_of(run) == kind.name), None)
    if kind is None:
        return None
    folders: dict[str, set[str]] = {}
    for row in kind.from_table(read_groups(open_parquet(body, kind.schema))):
        folder = Scope(row.app_name, row.user_id).entries_in(kind.entries)
        folders.setdefault(folder, set()).add(entry_key(folder, row.stamp, fold=False))
    return iter(folders.items())
