"""Deleting objects: side by side, counted by kind, and never stopped by one that fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lakestore.errors import StorageError
from lakestore.history.environment import Environment
from lakestore.jobs.progress import Progress, Watch, unwatched
from lakestore.storage import StoredObject

_REASONS_KEPT = 100


class Remover:
    """Deletes what it is given, or, in a dry run, only counts it."""

    def __init__(
        self, environment: Environment, *, dry_run: bool, watch: Watch = unwatched
    ) -> None:
        self._env = environment
        self._dry_run = dry_run
        self._watch = watch
        self.app_name = ""
        """The app that is swept now, for those who watch."""
        self.objects: Counter[str] = Counter()
        """How many objects of each kind were deleted."""
        self.nbytes: Counter[str] = Counter()
        """How many bytes they had."""
        self.failures = 0
        """How many could not be deleted, or had to stay for what is wrong elsewhere."""
        self.reasons: list[str] = []
        """Why, of the first ones."""

    def remove(self, kind: str, needless: Sequence[StoredObject]) -> None:
        """Delete objects of one kind."""
        near = self._env.store.near
        errors = self._env.pool.map(lambda stored: self._delete(stored.key), needless, near=near)
        for stored, error in zip(needless, errors, strict=True):
            if error is not None:
                self.note(error)
                continue
            self.objects[kind] += 1
            self.nbytes[kind] += stored.size
        doing = "counting what would go" if self._dry_run else "deleting"
        self._watch(Progress(doing, self.app_name, self.objects.total(), None, "object"))

    def note(self, reason: Exception | str) -> None:
        """Count one thing that failed."""
        self.failures += 1
        if len(self.reasons) < _REASONS_KEPT:
            self.reasons.append(str(reason))

    def _delete(self, key: str) -> StorageError | None:
        if not self._dry_run:
            try:
                self._env.store.delete(key)
            except StorageError as error:
                return error
        return None
