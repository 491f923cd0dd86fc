"""The contract of saving and loading: what goes in comes out, version by version."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.genai import types

from tests.contracts.artifact_building import (
    S1,
    TOMBSTONE,
    image,
    keys,
    load,
    pointer,
    said,
    save,
    text,
    versions,
)
from tests.contracts.cases import needs

PARTS = {
    "bytes": image(),
    "bytes that are named": image(b"\x00\xff" * 500, display_name="my picture"),
    "bytes without a type": image(b"abc", None),
    "no bytes": image(b""),
    "text": text("résumé 🙂\r\n\x00"),
    "no text": text(""),
    "pointer": pointer("gs://bucket/x.png", "image/png"),
    "pointer without a type": pointer("https://example.org/a%20b.pdf"),
    "pointer that is named": pointer("gs://bucket/x.png", "image/png", display_name="my picture"),
    "thought": types.Part(text="hm", thought=True, thought_signature=b"\x00\xff"),
    "all that goes with a text": types.Part(
        text="x",
        part_metadata={"a": [1.5, None, {"b": True}], "c": None},
        media_resolution=types.PartMediaResolution(num_tokens=5),
        executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON),
        function_call=types.FunctionCall(name="f", args={"x": 1}),
    ),
    "part of a video": types.Part(
        inline_data=types.Blob(data=b"abc", mime_type="video/mp4"),
        video_metadata=types.VideoMetadata(start_offset="1s", fps=2.5),
    ),
}


class ArtifactSaveContract:
    """What `save_artifact` and `load_artifact` promise."""

    @pytest.mark.parametrize("kind", PARTS)
    async def test_what_goes_in_comes_out(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService, kind: str
    ) -> None:
        """A part is loaded as it was saved: the same kind, with all its fields."""
        assert await save(artifacts, "a", PARTS[kind].model_copy(deep=True)) == 0

        assert await load(elsewhere, "a") == PARTS[kind]

    @pytest.mark.parametrize(
        "given",
        [
            {"inlineData": {"data": "iVBO", "mimeType": "image/png"}},
            {"inline_data": {"data": b"\x89PN", "mime_type": "image/png"}},
        ],
        ids=["camel", "snake"],
    )
    async def test_dicts_are_parts(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService, given: dict[str, Any]
    ) -> None:
        """A part may be given as a dict, by the names of ADK's REST API or of Python."""
        await save(artifacts, "a", given)

        assert await load(elsewhere, "a") == types.Part.model_validate(given)

    async def test_versions_count_from_zero(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """Each save, by whatever handle, is the next version; the last one is the latest."""
        for number in range(4):
            service = (artifacts, elsewhere)[number % 2]
            assert await save(service, "a", f"text {number}") == number

        for service in (artifacts, elsewhere):
            assert await versions(service, "a") == [0, 1, 2, 3]
            assert [await said(service, "a", n) for n in range(4)] == [
                f"text {n}" for n in range(4)
            ]
            assert await said(service, "a") == "text 3"

    async def test_kinds_may_change(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """A version may be of another kind than the one before."""
        parts = [text("one"), image(b"one"), text("one")]
        for part in parts:
            await save(artifacts, "a", part)

        assert [await load(elsewhere, "a", n) for n in range(3)] == parts

    async def test_unknown_version_is_none(self, artifacts: BaseArtifactService) -> None:
        """There is no version that was not saved, nor one of an artifact that was not."""
        await save(artifacts, "a")

        assert [await load(artifacts, "a", n) for n in (1, 99, -1)] == [None] * 3
        assert await load(artifacts, "b") is None
        assert await load(artifacts, "b", 0) is None

    async def test_what_the_caller_changes_is_not_saved(
        self, artifacts: BaseArtifactService
    ) -> None:
        """Neither the part that was given, nor one that was loaded, is the stored one."""
        given = image(b"one", display_name="name")
        await save(artifacts, "a", given)
        for part in (given, await load(artifacts, "a")):
            assert part is not None
            assert part.inline_data is not None
            part.inline_data.data = b"two"
            part.inline_data.display_name = "other"

        assert await load(artifacts, "a") == image(b"one", display_name="name")

    async def test_rewind_tombstone_is_none(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """What a rewind saves where there was nothing loads as nothing, and is a version."""
        await save(artifacts, "a")
        await save(artifacts, "a", TOMBSTONE)

        assert await load(elsewhere, "a") is None
        assert await said(elsewhere, "a", 0) == "one"
        assert await versions(elsewhere, "a") == [0, 1]
        assert await keys(elsewhere) == ["a"]

    @needs("guards_races")
    # R014
    async def test_parallel_saves_get_a_version_each(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """Twenty at once are versions 0 to 19, each with its own payload."""
        saves = [save((artifacts, elsewhere)[n % 2], "a", f"text {n}") for n in range(20)]
        numbers = await asyncio.gather(*saves)

        assert sorted(numbers) == list(range(20))
        found = {n: await said(elsewhere, "a", n) for n in range(20)}
        assert found == {number: f"text {n}" for n, number in enumerate(numbers)}

    async def test_a_version_says_what_it_is(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """Its number, when it was saved, its type, metadata and place are told."""
        begun = time.time()
        await save(artifacts, "a", image())
        metadata = {"count": 3, "ratio": 0.5, "done": True, "none": None, "tags": ["x", {"y": 1}]}
        await save(artifacts, "a", image(b"two", "image/jpeg"), custom_metadata=metadata)

        first, second = await elsewhere.list_artifact_versions(**S1, filename="a")
        assert (first.version, second.version) == (0, 1)
        assert (first.mime_type, second.mime_type) == ("image/png", "image/jpeg")
        assert (first.custom_metadata, second.custom_metadata) == ({}, metadata)
        for each in (first, second):
            assert begun - 10 < each.create_time < time.time() + 10
        assert first.canonical_uri != second.canonical_uri
        assert await elsewhere.get_artifact_version(**S1, filename="a") == second
        assert await elsewhere.get_artifact_version(**S1, filename="a", version=0) == first

    @pytest.mark.parametrize(
        ("part", "mime_type"),
        [
            (text("one"), "text/plain"),
            (pointer("gs://b/x", "image/png"), "image/png"),
            (image(b"x", None), None),
        ],
        ids=["text", "pointer", "none"],
    )
    async def test_types_of_versions(
        self, artifacts: BaseArtifactService, part: types.Part, mime_type: str | None
    ) -> None:
        """A text is text/plain, a pointer has the type that it was given, and none is none."""
        await save(artifacts, "a", part)

        found = await artifacts.get_artifact_version(**S1, filename="a")
        assert found is not None
        assert found.mime_type == mime_type

    async def test_nothing_is_known_of_what_is_not_there(
        self, artifacts: BaseArtifactService
    ) -> None:
        """Asking for an artifact that was never saved, or for a version, is no error."""
        assert await versions(artifacts, "a") == []
        assert await artifacts.list_artifact_versions(**S1, filename="a") == []
        assert await artifacts.get_artifact_version(**S1, filename="a") is None
        await save(artifacts, "a")
        for number in (1, -1):
            found = await artifacts.get_artifact_version(**S1, filename="a", version=number)
            assert found is None
