"""How many requests each operation of artifacts makes: what users of a bucket pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakestore import Lake, LakeArtifactService
from lakestore.adk.sync_artifacts import SyncArtifactService
from lakestore.storage import LocalStore
from tests.contracts.artifact_building import S1, image, pointer, text
from tests.support.artifacts import APP, delete_packed, pack
from tests.support.clocks import ManualClock

A: dict[str, Any] = {**S1, "filename": "a"}
Open = Callable[[], SyncArtifactService]


@pytest.fixture
def opened(tmp_path: Path, clock: ManualClock) -> Iterator[Open]:
    """Open one more process's service, with nothing known from the others."""
    with ExitStack() as lakes:
        yield (
            lambda: (
                LakeArtifactService(
                    lakes.enter_context(Lake(LocalStore(tmp_path / "lake"), clock=clock))
                ).sync
            )
        )


@contextmanager
def requests_of(service: SyncArtifactService) -> Iterator[dict[str, int]]:
    """Yield a dictionary that holds, after the block, the requests made in it, by kind."""
    before = service.lake.metrics.requests
    made: dict[str, int] = {}
    yield made
    made.update(service.lake.metrics.requests_since(before))


def saved(service: SyncArtifactService, *names: str) -> SyncArtifactService:
    """Return a service that has saved a version of each name."""
    for name in names:
        service.save_artifact(**{**A, "filename": name}, artifact=text(f"text of {name}"))
    return service


def test_save(opened: Open) -> None:
    """Payload and commit; a new name is looked for, and a payload that is known is."""
    service = opened()
    with requests_of(service) as made:
        service.save_artifact(**A, artifact=image(b"0"))
    assert made == {"LIST": 2, "PUT": 2}
    with requests_of(service) as made:
        service.save_artifact(**A, artifact=image(b"1"))
    assert made == {"PUT": 2}
    with requests_of(service) as made:
        service.save_artifact(**A, artifact=image(b"0"))
    assert made == {"HEAD": 1, "PUT": 1}
    with requests_of(service) as made:
        service.save_artifact(**A, artifact=pointer("gs://b/x"))
    assert made == {"PUT": 1}
    with requests_of(service) as made:
        service.save_file(**A, source=[b"new"])
    assert made == {"PUT": 2}


def test_save_after_others(opened: Open) -> None:
    """Who was overtaken reads what stands there, and tries the next version."""
    service, other = saved(opened(), "a"), opened()
    for number in range(3):
        other.save_artifact(**A, artifact=text(f"{number}"))
    with requests_of(service) as made:
        assert service.save_artifact(**A, artifact=text("mine")) == 4
    assert made == {"PUT": 5, "GET": 3}


def test_warm_load(opened: Open) -> None:
    """Whether there is a next version, and the payload."""
    service = saved(opened(), "a")
    with requests_of(service) as made:
        service.load_artifact(**A)
    assert made == {"GET": 2}
    for call in (service.list_versions, service.list_artifact_versions):
        with requests_of(service) as made:
            call(**A)
        assert made == {"GET": 1}
    with requests_of(service) as made:
        service.get_artifact_version(**A, version=0)
    assert made == {"GET": 1}
    saved(opened(), "a")
    with requests_of(service) as made:
        service.list_versions(**A)
    assert made == {"GET": 2}


@pytest.mark.parametrize("packed", [False, True])
def test_cold_load(opened: Open, packed: bool) -> None:
    """Log and manifest are listed; then the commit or what is packed, and the payload."""
    writer = saved(opened(), *"aaaaa")
    if packed:
        pack(writer.lake)
        delete_packed(writer.lake, writer.lake.environment.store)
    service = opened()
    with requests_of(service) as made:
        assert service.load_artifact(**A) == text("text of a")
    assert made == {"LIST": 2, "GET": 3 if packed else 2}


def test_delete(opened: Open) -> None:
    """What there is, and the commit; of what is not there it is looked for."""
    service = saved(opened(), "a")
    with requests_of(service) as made:
        service.delete_artifact(**A)
    assert made == {"GET": 1, "PUT": 1}
    with requests_of(service) as made:
        service.delete_artifact(**A)
    assert made == {"GET": 1}


# R079
def test_list(opened: Open) -> None:
    """Session and user are listed; each name costs a GET until it is packed or cached."""
    names = [f"n{number}" for number in range(5)] + ["user:x"]
    writer = saved(opened(), *names, *names)
    service = opened()
    with requests_of(service) as made:
        assert service.list_artifact_keys(**S1) == names
    assert made == {"LIST": 3, "GET": 6}
    with requests_of(service) as made:
        assert service.list_artifact_keys(**S1) == names
    assert made == {"LIST": 2}
    pack(writer.lake)
    delete_packed(writer.lake, writer.lake.environment.store)
    for service in (opened(), opened()):
        with requests_of(service) as made:
            assert service.list_artifact_keys(**S1) == names
        assert made == {"LIST": 3, "GET": 2}  # a manifest, a run
        with requests_of(service) as made:
            assert service.list_artifact_keys(**S1) == names
        assert made == {"LIST": 2, "GET": 1}


# R079
def test_list_of_many_versions(opened: Open) -> None:
    """Requests do not grow with versions, and payloads are never read."""
    writer = saved(opened(), *("ab" * 30))
    service = opened()
    with requests_of(service) as made:
        assert service.list_artifact_keys(**S1) == ["a", "b"]
        assert len(service.list_artifact_versions(**A)) == 30
    assert made == {"LIST": 3, "GET": 3}
    pack(writer.lake)
    fresh = opened().lake
    before = fresh.metrics.requests
    assert list(fresh.artifacts.fresh(APP)) == []
    assert fresh.metrics.requests_since(before) == {"LIST": 2, "GET": 2}
