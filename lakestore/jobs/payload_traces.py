"""Bytes beside events of a user that are left of sessions which were erased. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection

from lakestore.history.needless import Age
from lakestore.jobs.sweep_payloads import by_log
from lakestore.lake import Lake
from lakestore.log.keys import app_manifests, log_digest, user_objects


def payload_traces(lake: Lake, app_name: str, user_id: str, erased: Collection[str]) -> list[str]:
    """Return the keys of what no session of the user can refer to any more.

    Where nothing lives, nothing can: what is stored for a session comes after its first commit. Of
    one that began anew what is young may be about to be referred to.

    Args:
        lake: The lake.
        app_name: The app.
        user_id: The user.
        erased: The digests of the logs of sessions that were erased.

    Raises:
        StorageError: the store failed.
    """
    store = lake.environment.store
    # Before the logs: what comes later is of what began by then.
    listed = list(store.list(user_objects(app_name, user_id)))
    if not listed:
        return []
    manifests = store.list(app_manifests(app_name))
    # The store's time is that or later.
    now = max(one.modified for one in (*listed, *manifests))
    age = Age.of(now, lake.environment.limits.grace)
    views = {view.key.log: view for view in lake.sessions.read_all(app_name, user_id, ended=True)}
    found = []
    for log, some in by_log(iter(listed)):
        view = views.get(log)
        if view is not None and view.alive:
            kept = {content.key for _, content in view.contents()}
            some = [it for it in some if it.key not in kept and age.reaches(it)]
            found += [it.key for it in some if log_digest(log) in erased]
        elif view is not None or not any(store.names(log)):
            found += [one.key for one in some]  # else it is one that cannot be read
    return found
