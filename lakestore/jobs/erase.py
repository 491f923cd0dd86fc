"""Erasing a user: sessions, artifacts, what they set, and every byte of it. Owns the receipt.

What is erased counts for nobody from the moment that it is published; the bytes go after readers
have had the time to notice, and are looked for once more after the grace, since a request that was
under way may have landed since.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Literal

from lakestore.errors import ReadOnlyError
from lakestore.jobs.erasing import Eraser
from lakestore.jobs.progress import Watch, unwatched
from lakestore.jobs.running import Running, check_lake
from lakestore.lake import Lake
from lakestore.log.ids import check_id
from lakestore.tables.erased import ErasedRow

Status = Literal["published", "pending", "done"]

NOT_SEEN = (
    "older versions of objects, where the bucket keeps them (versioning)",
    "deleted objects that the store still holds (soft delete)",
    "objects that a retention lock or a legal hold keeps from being deleted",
    "backups, replicas and access logs of the store",
    "packs and runs that are damaged, so that nobody can read them",
    "what other programs have copied, logged or cached",
)
"""What no receipt can speak of: the lake sees the objects under its root, as they are now."""


@dataclass(frozen=True, slots=True)
class EraseReceipt:
    """What was erased of one user. It names the user: keep it as you keep such names."""

    app_name: str
    user_id: str = field(repr=False)
    status: Status
    """`published`: nothing of it is read any more; `pending`: the bytes were removed, and are to be
    looked for again after the grace; `done`: that was done, and nothing was left."""
    sessions: tuple[ErasedRow, ...]
    """Which sessions, by digests, and up to which versions."""
    artifacts: tuple[ErasedRow, ...] = ()
    """Which artifacts, in the same way."""
    memory: ErasedRow | None = None
    """Up to when what was remembered, its version: microseconds since 1970 UTC; None: nothing."""
    removed: tuple[str, ...] = field(default=(), repr=False)
    """The keys of the objects that were deleted."""
    left: tuple[str, ...] = field(default=(), repr=False)
    """Those that could not go yet; `finish` tries again."""
    removed_at: float = 0.0
    """When they were removed, by the eraser's clock in seconds since 1970 UTC."""
    not_seen: tuple[str, ...] = NOT_SEEN
    """Where copies may be that a lake knows nothing of."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the user was found."""
        found = self._gone or self.artifacts or self.removed or self.left
        return not (found or self.status == "published")

    @property
    def _gone(self) -> tuple[ErasedRow, ...]:
        return self.sessions if self.memory is None else (*self.sessions, self.memory)

    @property
    def pending(self) -> bool:
        """Whether `finish` is still to be called."""
        return self.status != "done"

    def finish(
        self,
        lake: Lake,
        *,
        wait: bool = True,
        executor: Executor | None = None,
        progress: Watch | None = None,
    ) -> EraseReceipt:
        """Do what is still to be done, and return the receipt that says so. Blocking.

        Args:
            lake: The lake, open for writing, in any process.
            wait: Wait until it is time; if not, return the same receipt when it is too early.
            executor: Where to pack what is not packed yet, see `compact`.
            progress: Is called now and then.

        Raises:
            StorageError: the store failed; call it again.
        """
        if self.status == "done":
            return self
        running = Running(executor, progress or unwatched)
        eraser = self._eraser(lake, running)
        if self.status == "published":
            if not wait:
                return self
            eraser.name_late()
            eraser.pack()
            eraser.publish()
            return _remove(lake, eraser, self)
        early = self.removed_at + lake.environment.limits.grace - lake.clock.wall()
        if early > 0 and not wait:
            return self
        if early > 0:
            eraser.pause(early, "waiting until what was under way has landed")
        eraser.name_late()
        eraser.pack()
        eraser.publish()
        eraser.wait()
        removed, left = eraser.remove()
        lake.environment.store.clear_leftovers(lake.environment.limits.grace)
        return replace(
            self,
            status="pending" if left else "done",
            artifacts=eraser.artifacts,
            removed=(*self.removed, *removed),
            left=left,
        )

    def verify(self, lake: Lake) -> tuple[str, ...]:
        """Read all objects of the app and return the keys of those with a trace; () proves absence.

        What the user began after it was erased is no trace.
        """
        return self._eraser(lake).found()

    def _eraser(self, lake: Lake, running: Running | None = None) -> Eraser:
        gone, artifacts = self._gone, self.artifacts
        return Eraser(lake, self.app_name, self.user_id, gone, artifacts, running)


def erase_user(
    lake: Lake,
    app_name: str,
    user_id: str,
    *,
    wait: bool = True,
    executor: Executor | None = None,
    progress: Watch | None = None,
) -> EraseReceipt:
    """Erase all sessions and artifacts of a user of an app, and the user's state. Blocking.

    An append that was acknowledged before is erased; later ones get `SessionNotFoundError`. A
    version of an artifact that was saved before is erased; later ones begin at 0. The user may
    begin again at any time, under the same ids too. What the user's sessions set of the app's own
    state stays, without a word of where it came from. Running it again after a crash does the rest.
    Of a user of whom nothing is there it waits for nothing: what is created at that moment was
    begun after.

    Args:
        lake: The lake, open for writing.
        app_name: The app.
        user_id: The user.
        wait: Wait twice the lake's view age limit, then remove the objects; if not, return when
            nothing is read any more, and leave the rest to the receipt's `finish`.
        executor: Where to pack what is not packed yet, see `compact`.
        progress: Is called now and then.

    Returns:
        A receipt that is pending until its `finish` was called after the lake's grace; or done,
        where nothing of the user is there and nobody of the app was erased within the grace.

    Raises:
        InputError: an id makes no sense.
        ReadOnlyError: the lake was opened with `read_only=True`.
        ConflictError: other jobs keep publishing.
        StorageError: the store failed; run it again.
    """
    check_lake(lake)
    check_id("app_name", app_name)
    check_id("user_id", user_id)
    if lake.read_only:
        raise ReadOnlyError("nothing can be erased from a lake opened with read_only=True")
    running = Running(executor, progress or unwatched)
    eraser = Eraser(lake, app_name, user_id, running=running)
    eraser.end()
    eraser.pack()
    eraser.note_sources()
    eraser.publish()
    found = (eraser.sessions, eraser.artifacts, eraser.memory)
    receipt = EraseReceipt(app_name, user_id, "published", *found)
    if eraser.knows_nothing():
        eraser.clear_folders()
        status: Status = "pending" if eraser.may_be_under_way() else "done"
        return replace(receipt, status=status, removed_at=lake.clock.wall())
    return _remove(lake, eraser, receipt) if wait else receipt


def _remove(lake: Lake, eraser: Eraser, receipt: EraseReceipt) -> EraseReceipt:
    eraser.wait()
    removed, left = eraser.remove()
    return replace(
        receipt,
        status="pending",
        artifacts=eraser.artifacts,
        removed=(*receipt.removed, *removed),
        left=left,
        removed_at=lake.clock.wall(),
    )
