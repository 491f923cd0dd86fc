"""The artifact service as a whole: how it is opened, damage, what it says, files of any size."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from google.adk.cli.service_registry import get_service_registry, load_services_module
from google.genai import types

from lakestore import Lake, LakeArtifactService
from lakestore.adk.artifact_parts import prepare
from lakestore.errors import FormatError, InputError, ReadOnlyError
from lakestore.log.keys import ARTIFACT_OBJECTS, ArtifactKey
from lakestore.shell.services import services_yaml
from lakestore.storage import MemoryStore
from tests.contracts.artifact_building import (
    S1,
    SHARED,
    image,
    keys,
    load,
    pointer,
    said,
    save,
    text,
)
from tests.support.damage import change
from tests.support.faulty_store import InterruptedStore, Nth

KEY = ArtifactKey("travel", "ana", "s1", "a")
SECRET = "SECRET\x1b[31m"
"""In capitals, which a key never has as they are."""


@pytest.fixture
def store() -> MemoryStore:
    """A store in memory."""
    return MemoryStore("artifact service")


@pytest.fixture
def service(store: MemoryStore) -> Iterator[LakeArtifactService]:
    """A service on that store."""
    with Lake(store) as lake:
        yield LakeArtifactService(lake)


# R100
async def test_uri_opens_the_shared_lake(tmp_path: Path) -> None:
    """ADK's registry opens a service by its URI; settings of other services may stand in it."""
    (tmp_path / "services.yaml").write_text(services_yaml())
    load_services_module(str(tmp_path))
    uri = f"lakestore+file://{tmp_path / 'lake'}?ranking=bm25&durability=turn"
    service = get_service_registry().create_artifact_service(uri, agents_dir="agents")
    assert isinstance(service, LakeArtifactService)
    await save(service, "a")
    assert LakeArtifactService(uri=uri).lake is service.lake
    found = await service.get_artifact_version(**S1, filename="a")
    assert found is not None
    assert found.canonical_uri.startswith(f"file://{tmp_path}/lake/artifacts/objects/")
    assert Path(found.canonical_uri.removeprefix("file://")).read_text() == "one"
    service.lake.close()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"lake": "x", "uri": "lakestore+memory://x"},
        {"uri": "lakestore+memory://x?secret=1"},
        {"uri": "s3://bucket"},
        {"uri": "lakestore+ftp://x"},
        {"lake": 1},
    ],
    ids=["nothing", "both", "option", "scheme", "protocol", "no lake"],
)
def test_what_is_no_lake_is_refused(given: dict[str, Any]) -> None:
    """A service needs one lake, which it is told in one way."""
    with pytest.raises(InputError):
        LakeArtifactService(**given)


async def test_read_only_lake_takes_nothing(store: MemoryStore) -> None:
    """It loads and lists, and refuses all that would change something."""
    with Lake(store) as lake:
        await save(LakeArtifactService(lake), "a")
    with Lake(store, read_only=True) as lake:
        service = LakeArtifactService(lake)
        assert await load(service, "a") == text("one")
        assert await keys(service) == ["a"]
        for call in (
            save(service, "a"),
            service.delete_artifact(**S1, filename="b"),
            service.save_file(**S1, filename="a", source=[b"x"]),
        ):
            with pytest.raises(ReadOnlyError):
                await call
    with pytest.raises(InputError, match="closed"):
        await load(service, "a")


async def test_what_is_changed_meanwhile_is_not_saved(service: LakeArtifactService) -> None:
    """What an await was given is saved as it was then."""
    part = image(b"one", display_name="before")
    metadata = {"n": [1]}
    saving = asyncio.ensure_future(save(service, "a", part, custom_metadata=metadata))
    await asyncio.sleep(0)
    assert part.inline_data is not None
    part.inline_data.data, part.inline_data.display_name = b"two", "after"
    metadata["n"].append(2)
    await saving
    assert await load(service, "a") == image(b"one", display_name="before")
    found = await service.get_artifact_version(**S1, filename="a")
    assert found is not None
    assert found.custom_metadata == {"n": [1]}


@pytest.mark.parametrize(
    ("part", "path", "value"),
    [
        (image(b"x"), "inline_data", {"data": b"x"}),
        (image(b"x"), "inline_data.mime_type", 5),
        (pointer("gs://b/x", None), "file_data.file_uri", b"gs://b/x"),
        (types.Part(text="x"), "text", 5),
    ],
)
async def test_what_was_set_to_another_kind_is_refused(
    service: LakeArtifactService, part: types.Part, path: str, value: Any
) -> None:
    """A part that was valid when it was made need not be any more."""
    *holders, name = path.split(".")
    setattr(reduce(getattr, holders, part), name, value)
    with pytest.raises(InputError, match=f"{name} is a"):
        await save(service, "a", part)


async def test_keys_of_a_dict_are_texts(service: LakeArtifactService) -> None:
    """A dict with others is no part."""
    wrong: Any = {1: 2}
    with pytest.raises(InputError, match="keys are texts"):
        await save(service, "a", wrong)


@pytest.mark.parametrize("held", ["artifacts/objects", "artifacts/log"])
async def test_a_cancelled_save_is_whole_or_nothing(store: MemoryStore, held: str) -> None:
    """What was under way when its await was cancelled may land; the next save goes on."""
    go_on = Event()
    with Lake(InterruptedStore(store, Nth("put", holding=held), go_on.wait)) as lake:
        service = LakeArtifactService(lake)
        saving = asyncio.ensure_future(save(service, "a", "cancelled"))
        await asyncio.sleep(0.01)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        go_on.set()
        number = await save(service, "a", "next")
        there = [await said(service, "a", n) for n in range(number + 1)]
    with Lake(store) as lake:  # what was under way has ended
        found = [await said(LakeArtifactService(lake), "a", n) for n in range(2)]
    assert there[-1] == "next"
    assert sorted(found, key=str) == ["cancelled", "next"]


async def test_damage_is_of_one_version(service: LakeArtifactService, store: MemoryStore) -> None:
    """A payload that was changed, cut or lost is an error that names it; others load."""
    for words in ("one", "two", "three"):
        await save(service, "a", words)
    first, second, _ = store.names(ARTIFACT_OBJECTS)
    change(store, first, lambda body: b"x" + body[1:])
    store.delete(second)
    found = await service.list_artifact_versions(**S1, filename="a")
    for each in found:
        if each.canonical_uri.endswith((first, second)):
            with pytest.raises(FormatError, match="artifacts/objects"):
                await load(service, "a", each.version)
        else:
            assert await load(service, "a", each.version) is not None
    assert await keys(service) == ["a"]


async def test_fields_of_a_newer_adk(
    service: LakeArtifactService, caplog: pytest.LogCaptureFixture
) -> None:
    """What this ADK does not know is left out with a warning; what it cannot read is an error."""
    draft = prepare(image(b"x"), None, KEY, "s1").draft
    newer = {**json.loads(draft.part), "mood": "good"}
    for part in (newer, {"inlineData": 3}):
        given: Any = {name: getattr(draft, name) for name in ("mime_type", "content_type")}
        service.lake.artifacts.save(KEY, type(draft)(part=json.dumps(part), **given), b"x")
    with caplog.at_level(logging.WARNING):
        assert await load(service, "a", 0) == image(b"x")
    assert "fields=['mood']" in caplog.text
    with pytest.raises(FormatError, match="cannot be parsed"):
        await load(service, "a", 1)


async def test_text_that_is_none(service: LakeArtifactService) -> None:
    """A text whose bytes are no UTF-8 is damaged."""
    draft = prepare(text("x"), None, KEY, "s1").draft
    service.lake.artifacts.save(KEY, draft, b"\xff")
    with pytest.raises(FormatError, match="no UTF-8"):
        await load(service, "a")


async def test_errors_and_reprs_are_quiet(
    service: LakeArtifactService, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """No id, name or content is in what is raised, logged or shown; keys are."""
    whose = {"app_name": SECRET, "user_id": SECRET, "session_id": SECRET}
    part = image(SECRET.encode(), display_name=SECRET)
    await save(service, SECRET, part, whose, custom_metadata={SECRET: SECRET})
    view = service.lake.artifacts.views(SECRET, SECRET, SECRET)[0]
    told = [repr(view), repr(view.saves), repr(prepare(part, {SECRET: 1}, view.key, None))]
    (payload,) = store.names(ARTIFACT_OBJECTS)
    store.delete(payload)
    calls = [
        load(service, SECRET, None, whose),
        save(service, f"../{SECRET}"),
        save(service, "a", "one", {**whose, "user_id": f"../{SECRET}"}),
        save(service, "a", {"inlineData": {"data": SECRET, SECRET: 1}}),
        save(service, "a", image(), custom_metadata={SECRET: SECRET + "\ud800"}),
        save(service, "a", types.Part(file_data=types.FileData(file_uri=f"artifact://{SECRET}"))),
    ]
    for call in calls:
        with pytest.raises((FormatError, InputError)) as raised:
            await call
        told.append(str(raised.value).replace(payload, ""))
    key_of_metadata = told.pop(-2)  # the refusal of an argument may quote its key
    assert repr(SECRET) in key_of_metadata
    assert [text for text in [*told, caplog.text] if "SECRET" in text or "\x1b" in text] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX forks")
async def test_a_forked_process_goes_on(tmp_path: Path) -> None:
    """A child saves and loads through the service that it inherits, and its parent sees it."""
    with Lake.open(tmp_path / "lake") as lake:
        service = LakeArtifactService(lake).sync
        service.save_artifact(**S1, filename="a", artifact=text("parent"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                service.save_artifact(**S1, filename="a", artifact=text("child"))
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert service.load_artifact(**S1, filename="a") == text("child")


_LARGE = """
import sys
from lakestore import Lake, LakeArtifactService

def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

whose = {"app_name": "a", "user_id": "u", "session_id": "s", "filename": "large.bin"}
with Lake.open(sys.argv[1]) as lake:
    service = LakeArtifactService(lake).sync
    service.save_file(**whose, source=[b"x"])
    before = peak()
    pieces = (bytes([n % 251]) * 2**20 for n in range(int(sys.argv[2])))
    assert service.save_file(**whose, source=pieces) == 1
    with lake.open_artifact(**whose) as file:
        file.seek(-2, 2)
        assert file.read() == bytes([(int(sys.argv[2]) - 1) % 251]) * 2
    print(peak() - before)
"""


# R061
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the peak")
@pytest.mark.parametrize(
    "megabytes",
    [
        64,
        pytest.param(300, marks=pytest.mark.slow),
        pytest.param(2048, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_large_files_take_the_memory_of_a_few_parts(tmp_path: Path, megabytes: int) -> None:
    """Whatever its size, a file is saved and read piece by piece."""
    command = [sys.executable, "-c", _LARGE, str(tmp_path / "lake"), str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 48 * 2**20


async def test_shared_without_a_session(service: LakeArtifactService) -> None:
    """The plainest use needs no session at all."""
    assert await save(service, "notes.txt", "hello", SHARED) == 0
    assert await load(service, "notes.txt", None, SHARED) == text("hello")
