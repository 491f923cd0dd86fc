"""Artifacts without ADK: words to write a history in, and what jobs do to a log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakestore import Lake
from lakestore.history.archive import ARTIFACTS
from lakestore.history.artifact_loading import key_of
from lakestore.history.artifact_uploads import Draft
from lakestore.jobs.run_files import RunWriter
from lakestore.log.commits import list_log
from lakestore.log.keys import ArtifactKey, app_manifests, commit_key
from lakestore.log.manifests import TableFiles, publish
from lakestore.storage import ObjectStore
from lakestore.tables.artifacts import Saved

APP = "travel"
REPORT = ArtifactKey(APP, "ana", "s1", "report.pdf")
OTHER = ArtifactKey(APP, "ana", "s1", "other.txt")
SHARED = ArtifactKey(APP, "ana", None, "user:notes.txt")


def save(lake: Lake, body: Any = b"one", key: ArtifactKey = REPORT, **fields: Any) -> Saved:
    """Save a version; `body` may be parts."""
    return lake.artifacts.save(key, Draft("{}", **fields), body)


def payloads(lake: Lake, key: ArtifactKey = REPORT) -> dict[int, bytes]:
    """Return the payload of each version that lives, by the number that ADK knows."""
    found = {}
    for saved in lake.artifacts.load(key).saves:
        there = lake.artifacts.read_payload(key, saved.artifact_version)
        assert there is not None
        found[saved.artifact_version] = there[1]
    return found


def pack(lake: Lake) -> None:
    """Publish runs with all artifacts that have something fresh, as a compaction does."""
    environment, archive = lake.environment, lake.sessions.archive
    seen = lake.clock.elapsed()
    newest = replace(archive.newest(app_manifests(APP)), app_name=APP)
    rows = sorted((view.row() for view, _ in lake.artifacts.fresh(APP)), key=ARTIFACTS.place)
    runs = RunWriter(environment, archive, APP).runs(ARTIFACTS, newest, rows)
    publish(
        environment.store,
        newest.following(environment.new_token(), 0, {ARTIFACTS.name: TableFiles(runs.files)}),
        seen=seen,
        limits=environment.limits,
        clock=lake.clock,
        metrics=lake.metrics,
    )
    archive.newest(app_manifests(APP))


def delete_packed(lake: Lake, store: ObjectStore) -> None:
    """Delete all commits that the newest manifest makes needless, grace or not."""
    archive = lake.sessions.archive
    manifest = archive.newest(app_manifests(APP))
    for row in archive.rows_in(ARTIFACTS, APP, manifest.table(ARTIFACTS.name).runs):
        log = key_of(row).log
        for version in list_log(store, log).commits:
            if version <= row.version:
                store.delete(commit_key(log, version))


def delete_below(store: ObjectStore, key: ArtifactKey = REPORT) -> None:
    """Delete all commits of a log below its newest, as a sweep does when that is old."""
    for version in list_log(store, key.log).commits[:-1]:
        store.delete(commit_key(key.log, version))


def objects(store: ObjectStore, key: ArtifactKey = REPORT) -> list[str]:
    """Return the keys of the payloads of an artifact."""
    return list(store.names(key.objects))
