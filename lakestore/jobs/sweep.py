"""Sweeping: deletes what a manifest, rollup or fold that is older than the grace makes needless.

Owns how a lake is gone through. What is needless is decided in `lakestore.history.needless`, and is
so for ever: sweeps may run side by side, stall, and stop anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from lakestore.checks import check_flag, check_seconds
from lakestore.errors import ConflictError, FormatError, InputError, NotFoundError, StorageError
from lakestore.history.needless import Age
from lakestore.jobs.apps import chosen_apps
from lakestore.jobs.artifact_sweep import ArtifactSweep
from lakestore.jobs.aside import ASIDE_KEPT, DRAFTS_KEPT, drop_put_aside
from lakestore.jobs.covered import Covered
from lakestore.jobs.departed import Departed, StoreTime
from lakestore.jobs.fresh_rows import forget_names
from lakestore.jobs.origins import Origins
from lakestore.jobs.progress import Watch, unwatched
from lakestore.jobs.removing import Remover
from lakestore.jobs.running import check_lake
from lakestore.jobs.sweep_payloads import PayloadSweep
from lakestore.lake import Lake
from lakestore.log.keys import (
    PROOFS,
    app_drafts,
    app_manifests,
    app_packs,
    app_runs,
    is_packed,
    is_proof,
    manifest_key,
    parse_manifest_name,
    proof_key,
)
from lakestore.log.manifests import Manifest, decode, publish
from lakestore.storage import StoredObject

_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Swept:
    """What was deleted of one kind."""

    objects: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did, or, in a dry run, would do."""

    deleted: Mapping[str, Swept]
    """By kind: commits, rollups, entries, payloads, drafts, packs, runs, manifests, proofs."""
    named: int
    """Packs and runs of jobs that died, and payloads to which nothing refers, named to be deleted
    by a later sweep."""
    failures: int
    """Objects that could not be deleted, or had to stay since what covers them is damaged."""
    reasons: Sequence[str]
    """Why, of the first hundred."""
    requests: Mapping[str, int]
    """What it asked of the store, by kind of request."""
    elapsed_ms: int
    dry_run: bool

    @property
    def objects(self) -> int:
        """How many objects were deleted."""
        return sum(each.objects for each in self.deleted.values())

    @property
    def bytes(self) -> int:
        """How many bytes they had."""
        return sum(each.bytes for each in self.deleted.values())


def sweep(
    lake: Lake,
    *,
    app_name: str | None = None,
    grace: timedelta | float | None = None,
    dry_run: bool = False,
    progress: Watch | None = None,
) -> SweepReport:
    """Delete what nobody needs any more; no answer changes.

    Safe to run at any time, from any number of processes, and to stop at any time. Age is told by
    the store's clock alone. An object that cannot be deleted is reported, and stops nothing.

    Args:
        lake: The lake, open for writing.
        app_name: Only this app; None for all.
        grace: How old, as a time or in seconds, what makes an object needless must be. None: the
            lake's own. Shorter: you vouch that nobody else has the lake open. 0: all at once.
        dry_run: Only report. One small object is created and deleted all the same, to learn the
            store's time.
        progress: Is called now and then.

    Raises:
        InputError: an argument makes no sense, or the lake is read-only.
        StorageError: the store failed; run it again.
    """
    check_lake(lake)
    if lake.read_only:
        raise InputError("a lake that was opened with read_only=True cannot be swept")
    check_flag("dry_run", dry_run)
    seconds = _grace(lake, grace)
    before, started = lake.metrics.requests, lake.clock.elapsed()
    remover = Remover(lake.environment, dry_run=dry_run, watch=progress or unwatched)
    now = _now(lake)
    try:
        named = _sweep_all(lake, app_name, now, seconds, remover, dry_run=dry_run)
    finally:
        if seconds < lake.environment.limits.grace:
            # What this process itself has read may have been swept before its time.
            lake.sessions.forget()
            lake.artifacts.forget()
    return SweepReport(
        {kind: Swept(count, remover.nbytes[kind]) for kind, count in remover.objects.items()},
        named,
        remover.failures,
        tuple(remover.reasons),
        lake.metrics.requests_since(before),
        int((lake.clock.elapsed() - started) * 1_000),
        dry_run,
    )


def _sweep_all(
    lake: Lake,
    app_name: str | None,
    now: StoreTime,
    grace: float,
    remover: Remover,
    *,
    dry_run: bool,
) -> int:
    named, age = 0, Age.of(now.read, grace)
    for app in chosen_apps(lake, app_name):
        remover.app_name = app
        try:
            named += _AppSweep(lake, app, age, now, remover, dry_run=dry_run).run()
        except (FormatError, NotFoundError, StorageError, ConflictError) as error:
            remover.note(error)  # the other apps' objects are no worse for it
    if app_name is None:
        listed = [one for one in lake.environment.store.list(PROOFS) if is_proof(one.key)]
        remover.remove("proofs", [one for one in listed if age.reaches(one)])
    return named


def _grace(lake: Lake, grace: timedelta | float | None) -> float:
    own = lake.environment.limits.grace
    if grace is None:
        return own
    seconds = grace.total_seconds() if isinstance(grace, timedelta) else grace
    if not check_seconds("grace", seconds) >= 0:
        raise InputError(f"grace is a time of 0 seconds or more. given={seconds}")
    return seconds


def _now(lake: Lake) -> StoreTime:
    """Return the store's time, which a new object tells."""
    store, key = lake.environment.store, proof_key(lake.environment.new_token())
    lake.environment.put_new(key, b"{}\n")
    try:
        # Were it not listed, nothing would count as old.
        read = next((one.modified for one in store.list(key) if one.key == key), 0.0)
        return StoreTime(read, lake.clock.elapsed())
    finally:
        with suppress(StorageError):  # a later sweep deletes it
            store.delete(key)


class _AppSweep:
    """Sweeps one app."""

    def __init__(
        self,
        lake: Lake,
        app_name: str,
        age: Age,
        now: StoreTime,
        remover: Remover,
        *,
        dry_run: bool,
    ) -> None:
        self._lake = lake
        self._env = lake.environment
        self._archive = lake.sessions.archive
        self._app = app_name
        self._age = age
        self._now = now
        self._remover = remover
        self._dry_run = dry_run
        self._listed: dict[str, StoredObject] = {}
        """The packs and runs that there are."""
        self._is_lost = False
        """Whether a newer manifest must have been there: its number is not to be taken."""
        self._payloads = 0
        """How many payloads were named."""

    def run(self) -> int:
        """Do all of it; return how many objects were named to be deleted later.

        Raises:
            FormatError: a manifest or run is damaged: what it covers is not known.
            NotFoundError: other sweeps keep being faster.
            StorageError: the store failed, or what could be read was not all.
            ConflictError: other jobs keep publishing.
        """
        orphans, before = self._name_orphans(), self._remover.objects["entries"]
        self._sweep_often(orphans)
        self._sweep_rebuilds()
        if self._remover.objects["entries"] > before and self._forget() and self._age.reaches_all:
            self._sweep_often(())  # takes what the manifest before has named
        if self._age.reaches_all:
            return 0
        if not self._dry_run and not self._is_lost:
            Departed(self._lake, self._app, self._now).look()
        return len(orphans) + self._payloads

    def _sweep_often(self, orphans: Sequence[StoredObject]) -> None:
        for _ in range(_ATTEMPTS - 1):
            with suppress(NotFoundError):  # another sweep has a later manifest that is old
                return self._sweep(orphans)
        try:
            self._sweep(orphans)
        except NotFoundError:
            if not self._is_erased_from():
                raise

    def _is_erased_from(self) -> bool:
        """Tell whether what the old manifest names and is gone is named by no newer one.

        An erasure takes what it replaces at once: nothing else goes until its manifest is old.
        """
        covering = self._covering(self._age, self._manifests())
        newest = self._archive.newest(app_manifests(self._app))
        gone = {key for key, _ in covering.files()} - {one.key for one in self._packed()}
        return bool(gone) and gone.isdisjoint(key for key, _ in newest.files())

    def _forget(self) -> bool:
        """Let manifests name the entries that went no more; tell whether the newest names fewer."""
        if self._dry_run or self._is_lost:
            return False
        with suppress(NotFoundError, ConflictError):  # of other jobs; the names cost bytes alone
            return forget_names(self._lake, self._app)
        return False

    def _sweep_rebuilds(self) -> None:
        """Delete what rebuilds have drafted and left, and let go what they have put aside."""
        age = self._age.kept(DRAFTS_KEPT)
        drafts = self._env.store.list(app_drafts(self._app))
        self._remover.remove("drafts", [one for one in drafts if age.reaches(one)])
        if not self._dry_run and not self._is_lost:
            drop_put_aside(self._lake, self._app, self._age.kept(ASIDE_KEPT))

    def _sweep(self, orphans: Sequence[StoredObject]) -> None:
        manifests = self._manifests()
        covering = self._covering(self._age, manifests)
        created = manifests[covering.number].modified if covering.number else 0.0
        # Logs first: reading what covers them proves the runs, whose forerunners may go after.
        covered = Covered(self._env, self._archive, covering, created, self._age, self._remover)
        covered.sweep_logs()
        covered.sweep_entries()
        self._sweep_artifacts(covering)
        PayloadSweep(
            self._env,
            self._archive,
            self._app,
            self._age,
            self._now,
            lambda age: self._covering(age, self._manifests()),
            self._remover,
        ).run()
        would_be_named = orphans if self._dry_run and self._age.reaches_all else ()
        self._sweep_doomed(covering, would_be_named)
        last = covering.number + bool(would_be_named)
        self._remover.remove(
            "manifests", [one for number, one in manifests.items() if number < last]
        )

    def _sweep_artifacts(self, covering: Manifest) -> None:
        swept = ArtifactSweep(self._lake, covering, self._age, self._remover, dry_run=self._dry_run)
        try:
            swept.run(with_payloads=not self._is_lost)
        finally:
            self._payloads += swept.named

    def _manifests(self) -> dict[int, StoredObject]:
        prefix = app_manifests(self._app)
        listed = (
            (parse_manifest_name(stored.key.removeprefix(prefix)), stored)
            for stored in self._env.store.list(prefix)
        )
        return {number: stored for number, stored in listed if number is not None}

    def _covering(self, age: Age, manifests: Mapping[int, StoredObject]) -> Manifest:
        """Return the newest of some manifests that is old enough; number 0 for none."""
        old = [number for number, stored in manifests.items() if age.reaches(stored)]
        return self._read(max(old)) if old else Manifest(self._app, 0)

    def _read(self, number: int) -> Manifest:
        newest = self._archive.newest(app_manifests(self._app))
        if newest.number == number:
            return newest
        key = manifest_key(self._app, number)
        return decode(key, self._env.store.get(key))

    def _packed(self) -> Iterator[StoredObject]:
        for prefix in (app_packs(self._app), app_runs(self._app)):
            yield from (one for one in self._env.store.list(prefix) if is_packed(one.key))

    def _name_orphans(self) -> list[StoredObject]:
        """Name for deletion the packs and runs that jobs which died, or lost, have left behind.

        A job that is only slow meets the names in the manifest, and starts over.
        """
        for _ in range(_ATTEMPTS):
            # Listed first: what is published in between is then known to be.
            self._listed = listed = {one.key: one for one in self._packed()}
            seen = self._env.clock.elapsed()
            newest = replace(self._archive.newest(app_manifests(self._app)), app_name=self._app)
            known = {key for key, _ in newest.files()} | {each.key for each in newest.doomed}
            orphans = [
                one for key, one in listed.items() if key not in known and self._age.reaches(one)
            ]
            unnamed = [one.key for one in orphans] if newest.number else listed
            if orphans and self._has_lost(newest, unnamed):
                self._is_lost = True
                return []
            if not orphans or self._dry_run or self._publish(newest, listed, orphans, seen):
                return orphans
        raise ConflictError(f"other jobs keep publishing. key={app_manifests(self._app)!r}")

    def _has_lost(self, newest: Manifest, unnamed: Iterable[str]) -> bool:
        """Tell whether a manifest that is lost has named packs and runs that `newest` does not."""
        run = Origins(self._env, self._archive, newest).without(unnamed)
        if run:
            self._remover.note(
                "the newest manifest of the app is lost: no older one, and no log, holds all that a"
                f" run tells of; packs and runs stay, see what check says. {run=}"
            )
        return bool(run)

    def _publish(
        self,
        newest: Manifest,
        listed: Mapping[str, StoredObject],
        orphans: Sequence[StoredObject],
        seen: float,
    ) -> bool:
        now = int(self._env.clock.wall() * 1_000_000)
        following = newest.keeping(listed).following(self._env.new_token(), now, {})
        try:
            publish(
                self._env.store,
                following.dooming([one.key for one in orphans]),
                seen=seen,
                limits=self._env.limits,
                clock=self._env.clock,
                metrics=self._env.metrics,
            )
        except ConflictError:
            return False
        return True

    def _sweep_doomed(self, covering: Manifest, orphans: Sequence[StoredObject]) -> None:
        """Delete the packs and runs that an old manifest has named."""
        newest = self._archive.newest(app_manifests(self._app))
        named = {each.key for each in newest.doomed if each.named <= covering.number}
        named |= {one.key for one in orphans}
        named -= {key for key, _ in newest.files()}
        for kind, prefix in (("packs", app_packs(self._app)), ("runs", app_runs(self._app))):
            needless = [self._listed[key] for key in sorted(named & self._listed.keys())]
            self._remover.remove(kind, [one for one in needless if one.key.startswith(prefix)])
