"""A process is killed at every request, and at every system call, of saving or deleting a file.

Elsewhere, then: each version that was acknowledged is there with its bytes, another one at most
once; whoever saves next gets the next number, and needs no repair.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestore import Lake, LakeArtifactService, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.log.keys import ARTIFACT_OBJECTS, artifacts_of_app
from tests.support.processes import elsewhere

if not hasattr(os, "fork"):
    pytest.skip("only POSIX has processes that can be killed so", allow_module_level=True)

from tests.support.crashing import FILE, Death, Step, Where, begin, run_and_kill

MOST_PLACES = 60
PLACES = ["before", "after", pytest.param("in a system call", marks=pytest.mark.slow)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SyncSessionService]:
    """A service that was there before the others died, and lives on."""
    with Lake.open(tmp_path) as lake:
        yield LakeSessionService(lake).sync


def deaths(
    service: SyncSessionService, what: Step, where: Where
) -> Iterator[tuple[str, Death, dict[int, str | None]]]:
    """Kill a process at the first place, the second and so on, each in an app of its own.

    Yields the app, how it ended, and the texts of the versions that others see then.
    """
    artifacts = LakeArtifactService(service.lake).sync
    for nth in range(1, MOST_PLACES):
        app = f"app{nth}"
        begin(service, app)
        artifacts.save_artifact(**FILE, app_name=app, artifact={"text": "old"})
        death = elsewhere(run_and_kill, service.lake.url, app, what, where, nth)
        with Lake.open(service.lake.url, read_only=True) as lake:
            yield app, death, texts(lake, app)
        if not death.killed:
            assert death.acknowledged
            assert nth > 2
            return
    raise AssertionError(f"more than {MOST_PLACES} places to die at")


def texts(lake: Lake, app: str) -> dict[int, str | None]:
    """Return the text of each version."""
    sync = LakeArtifactService(lake).sync
    found = {}
    for version in sync.list_versions(**FILE, app_name=app):
        part = sync.load_artifact(**FILE, app_name=app, version=version)
        assert part is not None
        found[version] = part.text
    return found


@pytest.mark.parametrize("where", PLACES)
def test_save(service: SyncSessionService, where: Where) -> None:
    """Between payload and commit, or anywhere, it leaves the version whole or none of it."""
    artifacts = LakeArtifactService(service.lake).sync
    left = 0
    for app, death, seen in deaths(service, "save", where):
        assert seen == {0: "old", 1: "new"} or (seen == {0: "old"} and not death.acknowledged)
        stored = list(service.lake.environment.store.names(artifacts_of_app(ARTIFACT_OBJECTS, app)))
        left += len(stored) - len(seen)
        again = artifacts.save_artifact(**FILE, app_name=app, artifact={"text": "next"})
        assert again == len(seen)
        assert texts(service.lake, app) == {**seen, again: "next"}
    assert left > 0


@pytest.mark.parametrize("where", PLACES)
def test_delete(service: SyncSessionService, where: Where) -> None:
    """It leaves the file as it was, or gone."""
    artifacts = LakeArtifactService(service.lake).sync
    for app, death, seen in deaths(service, "delete file", where):
        assert seen == {} or (seen == {0: "old"} and not death.acknowledged)
        artifacts.delete_artifact(**FILE, app_name=app)
        assert artifacts.save_artifact(**FILE, app_name=app, artifact={"text": "next"}) == 0
        assert texts(service.lake, app) == {0: "next"}
