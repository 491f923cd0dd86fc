"""Many savers of one name at once: each gets a version of its own, with its own payload."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakestore import Lake, LakeArtifactService
from tests.contracts.artifact_building import S1, said, save, versions
from tests.support.artifacts import REPORT, payloads
from tests.support.artifacts import save as put
from tests.support.processes import PROCESSES, at_once, race
from tests.support.servers import Bucket

EACH = 5


def save_some(url: str, options: Mapping[str, Any], writer: int) -> dict[int, bytes]:
    """Save some versions in a process; return what each number was told to be."""
    with Lake.open(url, storage_options=options) as lake:
        at_once()
        bodies = [b"%d-%d" % (writer, number) for number in range(EACH)]
        return {put(lake, body).artifact_version: body for body in bodies}


def check_race(url: str, options: Mapping[str, Any]) -> None:
    """Twenty saves from four processes are versions 0 to 19, and twenty payloads."""
    Lake.open(url, storage_options=options).close()
    told = race(save_some, [(url, options, writer) for writer in range(PROCESSES)])
    expected = {number: body for each in told for number, body in each.items()}
    assert sorted(expected) == list(range(PROCESSES * EACH))
    assert len(set(expected.values())) == PROCESSES * EACH
    with Lake.open(url, storage_options=options) as lake:
        assert payloads(lake) == expected
        saves = lake.artifacts.load(REPORT).saves
        assert len({saved.payload for saved in saves}) == PROCESSES * EACH


# R014
def test_four_processes_on_a_folder(tmp_path: Path) -> None:
    """Nothing is skipped, doubled or overwritten."""
    check_race(str(tmp_path / "lake"), {})


# R014 R109
def test_four_processes_on_seaweedfs(seaweedfs: Bucket) -> None:
    """Nor is it where the store is a real distributed one."""
    check_race(seaweedfs.fresh(), seaweedfs.storage_options)


async def test_tasks_and_services_at_once(tmp_path: Path) -> None:
    """Tasks of one loop, on two services, each get the number that others then load theirs by."""
    with Lake.open(tmp_path / "lake") as one, Lake.open(tmp_path / "lake") as two:
        services = [LakeArtifactService(one), LakeArtifactService(two)]

        async def work(number: int) -> None:
            service = services[number % 2]
            version = await save(service, "a", f"text {number}")
            assert await said(services[1 - number % 2], "a", version) == f"text {number}"
            if number % 5 == 0:
                assert version in await versions(service, "a")

        await asyncio.gather(*(work(number) for number in range(30)))
        assert await versions(services[0], "a") == list(range(30))
        assert len(await services[0].list_artifact_versions(**S1, filename="a")) == 30


@pytest.mark.parametrize("deleter", [0, 1])
def test_saving_and_deleting_at_once(tmp_path: Path, deleter: int) -> None:
    """A version that was saved after a delete lives, and counts from 0."""
    lakes = [Lake.open(tmp_path / "lake") for _ in range(2)]

    def saver() -> list[int]:
        return [put(lakes[0], b"%d" % number).artifact_version for number in range(30)]

    def delete() -> None:
        for _ in range(10):
            lakes[deleter].artifacts.delete(REPORT)

    with ThreadPoolExecutor(2) as threads:
        saved, deleted = threads.submit(saver), threads.submit(delete)
        numbers = saved.result()
        deleted.result()
    begun = max(place for place, number in enumerate(numbers) if number == 0)
    found = payloads(lakes[1])
    assert list(found.values()) == [b"%d" % place for place in range(30)][30 - len(found) :]
    assert len(found) <= 30 - begun
    assert numbers[begun:] == list(range(30 - begun))
    for lake in lakes:
        lake.close()
