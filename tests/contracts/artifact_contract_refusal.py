"""The contract of refusal: bad input gets one error, and nothing is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.genai import types

from tests.contracts.artifact_building import S1, image, keys, pointer, save, text, versions
from tests.contracts.building import ANA

NAMES = {
    "empty": "",
    "blank": "  ",
    "nothing after user": "user:",
    "blank after user": "user: ",
    "rooted": "/etc/passwd",
    "rooted by the other separator": "\\x",
    "rooted after a blank": " /x",
    "drive": "C:x",
    "drive with a root": "c:\\x",
    "above": "../x",
    "above by the other separator": "..\\x",
    "above from within": "a/b/../../../x",
    "above within": "a/../b",
    "two dots alone": "..",
    "above after user": "user:../x",
    "NUL": "a\0b",
    "half a character": "a\ud800",
}

IDS = {
    "empty": "",
    "blank": " ",
    "rooted": "/x",
    "above": "..",
    "above within": "a/../b",
    "drive": "C:x",
    "NUL": "a\0b",
    "layout words": "kim/sessions/9",
}

PARTS: dict[str, Any] = {
    "function call": types.Part(function_call=types.FunctionCall(name="f", args={})),
    "nothing": types.Part(),
    "no data": types.Part(inline_data=types.Blob(mime_type="image/png")),
    "pointer at nothing": pointer(None, "image/png"),
    "dict of something else": {"picture": "x"},
    "text": "only a text",
    "number": 1,
}


class ArtifactRefusalContract:
    """What is refused."""

    @pytest.mark.parametrize("what", NAMES)
    async def test_names_that_are_refused(
        self, artifacts: BaseArtifactService, refusal: type[Exception], what: str
    ) -> None:
        """A name that some system would take for a place of its own choosing is none."""
        with pytest.raises(refusal):
            await save(artifacts, NAMES[what])
        assert await keys(artifacts) == []
        with pytest.raises(refusal):
            await artifacts.load_artifact(**S1, filename=NAMES[what])

    @pytest.mark.parametrize("what", IDS)
    @pytest.mark.parametrize("field", ["app_name", "user_id", "session_id"])
    async def test_ids_that_are_refused(
        self, artifacts: BaseArtifactService, refusal: type[Exception], field: str, what: str
    ) -> None:
        """Ids that none of ADK's artifact services takes are refused by all calls."""
        whose = {**S1, field: IDS[what]}
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: save(artifacts, "a", "one", whose),
            lambda: artifacts.load_artifact(**whose, filename="a"),
            lambda: artifacts.list_artifact_keys(**whose),
            lambda: artifacts.delete_artifact(**whose, filename="a"),
            lambda: versions(artifacts, "a", whose),
            lambda: artifacts.list_artifact_versions(**whose, filename="a"),
            lambda: artifacts.get_artifact_version(**whose, filename="a"),
        ]
        for call in calls:
            with pytest.raises(refusal):
                await call()

    @pytest.mark.parametrize("what", PARTS)
    async def test_parts_that_are_refused(
        self, artifacts: BaseArtifactService, refusal: type[Exception], what: str
    ) -> None:
        """Only bytes, texts and pointers are artifacts; another version is not made."""
        await save(artifacts, "a")
        with pytest.raises(refusal):
            await artifacts.save_artifact(**S1, filename="a", artifact=PARTS[what])
        assert await versions(artifacts, "a") == [0]

    async def test_metadata_that_is_refused(
        self, artifacts: BaseArtifactService, refusal: type[Exception]
    ) -> None:
        """Metadata has texts as keys, and no value that holds itself."""
        endless: dict[str, Any] = {}
        endless["self"] = endless
        for metadata in ({1: "x"}, endless):
            with pytest.raises(refusal):
                await save(artifacts, "a", image(), custom_metadata=metadata)
        assert await keys(artifacts) == []

    async def test_half_a_character_is_refused(
        self, artifacts: BaseArtifactService, refusal: type[Exception]
    ) -> None:
        """A text that UTF-8 cannot hold is no artifact."""
        with pytest.raises(refusal):
            await save(artifacts, "a", types.Part.model_construct(text="a\ud800"))
        part = text("x")
        part.text = "a\ud800"
        with pytest.raises(refusal):
            await save(artifacts, "a", part)
        assert await keys(artifacts) == []

    async def test_a_version_is_a_number(
        self, artifacts: BaseArtifactService, refusal: type[Exception]
    ) -> None:
        """A version that is no whole number is a mistake of the caller's."""
        await save(artifacts, "a")
        version: Any
        for version in ("0", 0.5, True):
            with pytest.raises(refusal):
                await artifacts.load_artifact(**S1, filename="a", version=version)

    async def test_other_users_are_out_of_reach(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """No name or id spells the way into another scope."""
        await save(artifacts, "secret", "own", {**ANA, "session_id": "s1", "user_id": "victim"})
        for name in ("../../user=victim/session=s1/name=secret", "..%2f..%2fvictim", "%2e%2e/x"):
            for user in ("ana", "victim%2f..", "ana/../victim", "victim/s1"):
                whose = {**S1, "user_id": user}
                try:
                    assert await artifacts.load_artifact(**whose, filename=name) is None
                    await save(artifacts, name, "mine", whose)
                except ValueError:
                    continue
        victim = {**S1, "user_id": "victim"}
        assert await keys(elsewhere, victim) == ["secret"]
        found = await elsewhere.load_artifact(**victim, filename="secret")
        assert found == text("own")
