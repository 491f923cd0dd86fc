"""Checks manifests, packs and runs as objects: there, whole, sorted, and known to be needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pyarrow as pa

from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import ARTIFACTS, ERASED, EVENTS, FOLDED, KEYED, PREVIOUS, Kind
from lakestore.jobs.findings import COPY, Finding, Look, Severity
from lakestore.jobs.origins import Origins
from lakestore.log.keys import (
    app_manifests,
    app_packs,
    app_runs,
    is_packed,
    parse_manifest_name,
    run_key,
    table_of,
)
from lakestore.log.manifests import Manifest, StoredFile, decode
from lakestore.storage import StoredObject, UnreadableError
from lakestore.tables.parquet import open_parquet

_ALL: tuple[Kind[Any], ...] = (EVENTS, ARTIFACTS, ERASED, FOLDED, PREVIOUS, *KEYED)
_KINDS = {kind.name: kind for kind in _ALL}


class FileCheck:
    """Checks the manifests of one app, and what the newest one names."""

    def __init__(self, look: Look) -> None:
        self._look = look

    def run(self) -> Manifest | None:
        """Return the newest manifest; None when it cannot be read, so that nothing else can be.

        Raises:
            StorageError: the store failed.
        """
        try:
            manifest = self._look.archive.newest(app_manifests(self._look.app))
        except (FormatError, UnreadableError) as error:
            self._add(
                "lost",
                "damaged manifest",
                app_manifests(self._look.app),
                str(error),
                "nothing that is packed of the app can be read, so none of its sessions",
                COPY,
            )
            return None
        self._check_superseded(manifest)
        self._check_named(replace(manifest, app_name=self._look.app))
        return manifest

    def _add(
        self, severity: Severity, kind: str, key: str, problem: str, cost: str, remedy: str
    ) -> None:
        self._look.findings.add(Finding(severity, kind, key, problem, cost, remedy))

    def _check_superseded(self, newest: Manifest) -> None:
        prefix, store = app_manifests(self._look.app), self._look.env.store
        for key in list(store.names(prefix)):
            number = parse_manifest_name(key.removeprefix(prefix))
            if number is None:
                self._look.findings.stray(key)
                continue
            if number >= newest.number:
                continue
            try:
                decode(key, store.get(key))
            except NotFoundError:  # swept just now
                continue
            except (FormatError, UnreadableError) as error:
                cost, remedy = "nothing: it is superseded", "a sweep deletes it when its time comes"
                self._add("note", "damaged manifest", key, str(error), cost, remedy)
            self._look.objects += 1

    def _check_named(self, manifest: Manifest) -> None:
        listed = self._listed()
        named = dict(manifest.files())
        total, done = sum(file.size for file in named.values()), 0
        for key, file in named.items():
            self._look.progress("packs and runs", done, total)
            self._look.objects += 1
            problem = self._problem(key, file, listed.get(key))
            if problem and self._is_needed(key):
                self._damaged(key, problem)
            done += file.size
        self._look.progress("packs and runs", done, total)
        self._check_unnamed(manifest, listed)

    def _listed(self) -> dict[str, StoredObject]:
        """Return what lies where packs and runs do, by key."""
        app, store = self._look.app, self._look.env.store
        prefixes = (app_packs(app), app_runs(app))
        return {one.key: one for prefix in prefixes for one in store.list(prefix)}

    def _has_lost(self, manifest: Manifest, unnamed: Iterable[str]) -> bool:
        """Tell whether a newer manifest is lost that has named some of these packs and runs."""
        look = self._look
        try:
            run = Origins(look.env, look.archive, manifest).without(unnamed)
        except (FormatError, NotFoundError, UnreadableError):  # it is told of what is named
            return False
        if not run or self._is_known(run):
            return False
        self._add(
            "lost",
            "missing manifest",
            app_manifests(look.app),
            "the newest one is not there: no older one, and no log, holds all that a run tells of."
            f" {run=}",
            "what only that one has named cannot be read; sweeps leave the app's packs and runs",
            "run no other job on the app; restore the newest manifest from a copy of the store",
        )
        return True

    def _problem(self, key: str, file: StoredFile, stored: StoredObject | None) -> str:
        if stored is None:
            return "it is not there"
        if stored.size != file.size:
            return f"it has {stored.size} bytes instead of {file.size}"
        try:
            body = self._look.env.store.get(key)
            if sha256(body).hexdigest() != file.digest:
                return "its bytes are not those that were stored: the digest differs"
            return self._misfit(key, file, body)
        except (FormatError, NotFoundError, UnreadableError) as error:
            return str(error)

    def _misfit(self, key: str, file: StoredFile, body: bytes) -> str:
        """Return what the manifest says of a whole object that is not so."""
        found = open_parquet(body, pa.schema([])).file.metadata.num_rows
        if found != file.rows:
            return f"it has {found} rows instead of {file.rows}"
        kind = _KINDS.get(key.split("/")[2])
        if kind is None or key != run_key(self._look.app, kind.name, file.id):
            return ""
        last, firsts = None, {group.first for group in file.groups}
        for row in self._look.archive.rows_in(kind, self._look.app, [file]):
            place = kind.place(row)
            if last is not None and place <= last:
                return "its rows are not sorted"
            last = place
            firsts.discard((place[0] or None, place[1]))
        return "its row groups begin elsewhere than its manifest says" if firsts else ""

    def _is_needed(self, key: str) -> bool:
        """Tell whether the newest manifest, as it is by now, still names the object."""
        newest = self._look.archive.newest(app_manifests(self._look.app))
        return key in dict(newest.files())

    def _is_known(self, key: str) -> bool:
        """Tell whether the newest manifest, as it is by now, names the object in any way."""
        newest = self._look.archive.newest(app_manifests(self._look.app))
        return key in dict(newest.files()) or key in {each.key for each in newest.doomed}

    def _damaged(self, key: str, problem: str) -> None:
        self._look.damaged.add(key)
        if table_of(key) == FOLDED.name:
            cost, remedy = "compaction reads some entries again", "compaction writes it anew"
            self._add("note", "damaged run", key, problem, cost, remedy)
            return
        is_pack = key.startswith(app_packs(self._look.app))
        cost = (
            "the rows in it; sessions that suffer are named one by one"
            if is_pack
            else "nothing of the app that it tells of can be read"
        )
        self._add("lost", f"damaged {'pack' if is_pack else 'run'}", key, problem, cost, COPY)

    def _check_unnamed(self, manifest: Manifest, listed: Mapping[str, StoredObject]) -> None:
        known = {key for key, _ in manifest.files()} | {each.key for each in manifest.doomed}
        oldest = max((one.modified for one in listed.values()), default=0.0)
        oldest -= self._look.env.limits.grace
        unnamed = [one for key, one in listed.items() if is_packed(key) and key not in known]
        old = [one.key for one in unnamed if one.modified <= oldest]
        lost = self._has_lost(manifest, old if manifest.number else [one.key for one in unnamed])
        for key in listed:
            if not is_packed(key):
                self._look.findings.stray(key)
        for key in old if not lost else ():
            if not self._is_known(key):
                self._add(
                    "note",
                    "orphan",
                    key,
                    "no manifest names it: the job that stored it has died, or lost",
                    "its bytes",
                    "a sweep deletes it when its time comes",
                )


def is_readable(look: Look, manifest: Manifest, kind: Kind[Any]) -> bool:
    """Tell whether all runs that say what is packed of a table, and what was erased, are whole."""
    return not any(
        run_key(look.app, name, run.id) in look.damaged
        for name in (kind.name, ERASED.name)
        for run in manifest.table(name).runs
    )
