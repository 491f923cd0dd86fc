"""The contract of names and scopes: whatever an artifact is called, it is nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService

from tests.contracts.artifact_building import (
    BANK_S1,
    BEN_S1,
    S1,
    S2,
    SHARED,
    keys,
    load,
    said,
    save,
    versions,
)
from tests.contracts.building import ANA

# R076
NAMES = [
    "q3/figures.csv",
    "a/b/c/d.txt",
    "metadata.json",
    "my file (1).pdf",
    "résumé.pdf",
    "x.",
    ".hidden",
    "UPPER.TXT",
    "plan/versions/0",
    "versions",
    "100%25 [*]?.txt",
    "x\\y",
    "図" * 60 + ".png",
    "user",
    " blanks ",
]

PAIRS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "a session called user": [({**ANA, "session_id": "user"}, "a"), (S1, "user:a")],
    "a file among versions": [(S1, "plan"), (S1, "plan/versions/0"), (S1, "plan/0")],
    "a folder or a session": [
        ({**ANA, "session_id": "s"}, "n/r.txt"),
        ({**ANA, "session_id": "s/n"}, "r.txt"),
    ],
    "upper and lower case": [(S1, "UPPER.TXT"), (S1, "upper.txt")],
    "with and without dots": [(S1, "x"), (S1, "x."), (S1, "./x"), (S1, "x/.")],
    "with and without blanks": [(S1, "x"), (S1, " x"), (S1, "x ")],
    "two separators": [(S1, "x/y"), (S1, "x\\y"), (S1, "x//y")],
    "two forms of é": [(S1, "caf\u00e9"), (S1, "cafe\u0301")],
    "two users, two apps": [(S1, "a"), (BEN_S1, "a"), (BANK_S1, "a"), (S2, "a")],
    "shared, or so called": [(S1, "user:a"), (S1, "user:user:a"), (S1, "a")],
}
"""Artifacts that must stay apart."""


class ArtifactNameContract:
    """What names and scopes promise."""

    @pytest.mark.parametrize("name", NAMES)
    async def test_names_are_kept(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService, name: str
    ) -> None:
        """A name is listed as it was given, and loads, and can be deleted."""
        assert await save(artifacts, name) == 0
        assert await save(elsewhere, name, "two") == 1

        assert await keys(elsewhere) == [name]
        assert [await said(elsewhere, name, n) for n in (0, 1, None)] == ["one", "two", "two"]
        await elsewhere.delete_artifact(**S1, filename=name)
        assert await keys(artifacts) == []
        assert await load(artifacts, name) is None

    # R013 R050
    @pytest.mark.parametrize("what", PAIRS)
    async def test_artifacts_stay_apart(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService, what: str
    ) -> None:
        """What is similarly called is saved, listed, loaded and deleted by itself."""
        for number, (whose, name) in enumerate(PAIRS[what]):
            assert await save(artifacts, name, f"text {number}", whose) == 0

        for number, (whose, name) in enumerate(PAIRS[what]):
            assert await said(elsewhere, name, None, whose) == f"text {number}"
            assert await versions(elsewhere, name, whose) == [0]
            assert name in await keys(elsewhere, whose)
        for number, (whose, name) in enumerate(PAIRS[what]):
            await elsewhere.delete_artifact(**whose, filename=name)
            there = [await said(artifacts, each, None, its) for its, each in PAIRS[what]]
            assert there == [f"text {n}" if n > number else None for n in range(len(PAIRS[what]))]

    async def test_listing_has_the_session_and_the_user(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """A session lists its own names and the user's, sorted, and nobody else's."""
        for whose in (S1, S2, BEN_S1, BANK_S1):
            for name in ("b", "c/d", "a"):
                await save(artifacts, f"{name}{whose['session_id']}", "one", whose)
        for whose in (S2, BEN_S1):
            await save(artifacts, f"user:{whose['user_id']}", "one", whose)

        assert await keys(elsewhere) == ["as1", "bs1", "c/ds1", "user:ana"]
        assert await keys(elsewhere, SHARED) == ["user:ana"]
        assert await keys(elsewhere, {**ANA, "session_id": "s3"}) == ["user:ana"]

    # R077
    async def test_user_scope_is_of_all_sessions(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """A name with `user:` is the same artifact from every session, and from none."""
        assert await save(artifacts, "user:cfg.json") == 0
        assert await save(elsewhere, "user:cfg.json", "two", S2) == 1
        assert await save(artifacts, "user:cfg.json", "three", SHARED) == 2

        for whose in (S1, S2, SHARED):
            assert await said(elsewhere, "user:cfg.json", None, whose) == "three"
            assert await keys(elsewhere, whose) == ["user:cfg.json"]
        await elsewhere.delete_artifact(**S2, filename="user:cfg.json")
        assert await keys(artifacts) == []

    # R077
    async def test_no_session_means_the_user(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """What is saved without a session is listed with `user:`, and loads by that name."""
        assert await save(artifacts, "cfg.json", "one", SHARED) == 0
        assert await keys(elsewhere) == ["user:cfg.json"]
        assert await save(artifacts, "user:cfg.json", "two", S1) == 1

        assert await said(elsewhere, "cfg.json", None, SHARED) == "two"
        for whose in (SHARED, S2):
            assert await keys(elsewhere, whose) == ["user:cfg.json"]
            assert await said(elsewhere, "user:cfg.json", None, whose) == "two"
        assert await load(elsewhere, "cfg.json", None, S2) is None


class ArtifactDeleteContract:
    """What `delete_artifact` promises."""

    async def test_deleted_is_gone(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """All versions go, for every handle, and the next one is 0 again."""
        for said_before in ("one", "two"):
            await save(artifacts, "a", said_before)
        assert await said(elsewhere, "a") == "two"
        await artifacts.delete_artifact(**S1, filename="a")

        for service in (artifacts, elsewhere):
            assert await load(service, "a") is None
            assert await load(service, "a", 0) is None
            assert await versions(service, "a") == []
            assert await service.list_artifact_versions(**S1, filename="a") == []
            assert await keys(service) == []
        assert await save(elsewhere, "a", "three") == 0
        assert await said(artifacts, "a", 0) == "three"
        assert await load(artifacts, "a", 1) is None

    # R076
    async def test_deleting_a_folder_is_not_deleting_what_is_in_it(
        self, artifacts: BaseArtifactService, elsewhere: BaseArtifactService
    ) -> None:
        """Names with separators are no folders: each is deleted by itself."""
        for name in ("q3", "q3/figures.csv"):
            await save(artifacts, name)
        await artifacts.delete_artifact(**S1, filename="q3")

        assert await keys(elsewhere) == ["q3/figures.csv"]
        assert await said(elsewhere, "q3/figures.csv") == "one"

    async def test_deleting_what_is_not_there(self, artifacts: BaseArtifactService) -> None:
        """Nothing happens, before and after."""
        await artifacts.delete_artifact(**S1, filename="a")
        await save(artifacts, "a")
        for _ in range(2):
            await artifacts.delete_artifact(**S1, filename="a")
        assert await save(artifacts, "a") == 0
