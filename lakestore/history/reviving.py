"""Beginning a deleted session anew after its log was found empty. Owns how its row is kept.

Such a row goes some day, and versions then begin again at 1. Whoever builds on it says so first in
a manifest, and whoever drops it does so in one: of the two, the number of the manifest decides.
"""

from __future__ import annotations

from dataclasses import replace

from lakestore.errors import ConflictError, NotFoundError
from lakestore.history.archive import Archive, Packed
from lakestore.history.environment import Environment
from lakestore.log.keys import app_manifests, log_digest
from lakestore.log.manifests import publish

_ATTEMPTS = 8


def may_go(packed: Packed) -> bool:
    """Tell whether the row of a session may be dropped before anything new of it is packed."""
    return packed.row.emptied_at is not None


def keep_row(environment: Environment, archive: Archive, packed: Packed) -> bool:
    """Publish that the row of a deleted session stays; tell whether it is still there to stay.

    Raises:
        ConflictError: jobs keep publishing.
        FormatError: what is packed is damaged.
        StorageError: nothing was published, or (`UnknownOutcomeError`) it may have been.
    """
    key, digest = packed.key, log_digest(packed.key.log)
    manifests = app_manifests(key.app_name)
    for _ in range(_ATTEMPTS):
        seen = environment.clock.elapsed()
        newest = archive.newest(manifests)
        try:
            found = archive.session(newest, key)
            if found is None or found.row != packed.row:
                return False
            if digest in newest.revived:
                return True
            now = int(environment.clock.wall() * 1_000_000)
            following = newest.following(environment.new_token(), now, {})
            publish(
                environment.store,
                replace(following, revived=(*newest.revived, digest)),
                seen=seen,
                limits=environment.limits,
                clock=environment.clock,
                metrics=environment.metrics,
            )
        except (ConflictError, NotFoundError):  # a job was first, and may have swept what was named
            continue
        return True
    raise ConflictError(f"jobs keep publishing. key={manifests!r}")
