"""The contract of pointers and references: kept as they are, followed within one user alone."""

from __future__ import annotations

import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService

from tests.contracts.artifact_building import (
    S1,
    S2,
    SHARED,
    image,
    keys,
    load,
    pointer,
    reference,
    said,
    save,
)

OUT_OF_SCOPE = {
    "another user": reference("a", user="ben"),
    "another session": reference("a", session="s2"),
    "another app": pointer("artifact://apps/bank/users/ana/sessions/s1/artifacts/a/versions/0"),
}
MALFORMED = {
    "nothing": pointer("artifact://"),
    "no version": pointer("artifact://apps/travel/users/ana/sessions/s1/artifacts/a"),
    "no number": pointer("artifact://apps/travel/users/ana/artifacts/a/versions/x"),
    "more digits than numbers have": pointer(
        f"artifact://apps/travel/users/ana/artifacts/a/versions/{9:05000}"
    ),
}


# R031
class ArtifactReferenceContract:
    """What `file_data` promises."""

    async def test_reference_loads_what_it_refers_to(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """It is that very version, whatever becomes the latest; of the session or of the user."""
        await save(artifacts, "a", image(b"zero"))
        await save(artifacts, "a", image(b"one"))
        await save(artifacts, "user:b", "shared", S2)
        for name, part in {
            "to a": reference("a", 0),
            "to b": reference("user:b", session=None),
            "user:to b": reference("user:b", session=None),
        }.items():
            await save(artifacts, name, part)

        assert await load(elsewhere, "to a") == image(b"zero")
        assert await said(elsewhere, "to b") == "shared"
        assert await said(elsewhere, "user:to b", None, S2) == "shared"

    async def test_reference_may_be_to_its_own_artifact(
        self, artifacts: BaseArtifactService
    ) -> None:
        """Version 2 may refer to version 0: so a rewind brings an artifact back."""
        for said_before in ("zero", "one"):
            await save(artifacts, "a", said_before)
        assert await save(artifacts, "a", reference("a", 0)) == 2

        assert await said(artifacts, "a") == "zero"
        found = await artifacts.get_artifact_version(**S1, filename="a")
        assert found is not None
        assert (found.version, found.mime_type) == (2, None)

    @pytest.mark.parametrize("what", OUT_OF_SCOPE)
    async def test_reference_out_of_scope_is_refused(
        self, artifacts: BaseArtifactService, refusal: type[Exception], what: str
    ) -> None:
        """It may be of the same user of the same app, and of the same session or of none."""
        with pytest.raises(refusal):
            await save(artifacts, "a", OUT_OF_SCOPE[what])
        assert await keys(artifacts) == []

    @pytest.mark.parametrize("what", MALFORMED)
    async def test_malformed_reference_is_refused(
        self, artifacts: BaseArtifactService, refusal: type[Exception], what: str
    ) -> None:
        """One that cannot be taken apart is not saved."""
        with pytest.raises(refusal):
            await save(artifacts, "a", MALFORMED[what])
        assert await keys(artifacts) == []

    async def test_shared_reference_into_a_session_is_for_that_session(
        self,
        artifacts: BaseArtifactService,
        elsewhere: BaseArtifactService,
        refusal: type[Exception],
    ) -> None:
        """Another session that follows it is refused, when it loads."""
        await save(artifacts, "a")
        await save(artifacts, "user:to a", reference("a"))

        assert await said(elsewhere, "user:to a") == "one"
        for whose in (S2, SHARED):
            with pytest.raises(refusal):
                await load(elsewhere, "user:to a", None, whose)

    async def test_chains_end(
        self, artifacts: BaseArtifactService, refusal: type[Exception]
    ) -> None:
        """Five references are followed, and not a sixth; a loop is as long as any."""
        await save(artifacts, "a0")
        for number in range(1, 7):
            await save(artifacts, f"a{number}", reference(f"a{number - 1}"))
        assert await said(artifacts, "a5") == "one"
        with pytest.raises(refusal):
            await load(artifacts, "a6")
        await save(artifacts, "loop", reference("loop"))
        with pytest.raises(refusal):
            await load(artifacts, "loop")

    async def test_reference_to_what_is_gone_is_none(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """A target that was deleted, or never was, loads as nothing."""
        await save(artifacts, "a")
        await save(artifacts, "to a", reference("a"))
        await save(artifacts, "to b", reference("b"))
        assert await said(elsewhere, "to a") == "one"
        await artifacts.delete_artifact(**S1, filename="a")

        for name in ("to a", "to b"):
            assert await load(elsewhere, name) is None
        assert await keys(elsewhere) == ["to a", "to b"]
