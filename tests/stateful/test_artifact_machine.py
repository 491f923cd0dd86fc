"""Random histories of artifacts, against lists of parts: two processes, and jobs in between."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakestore import Lake, LakeArtifactService
from lakestore.adk.sync_artifacts import SyncArtifactService
from lakestore.jobs import check, compact, sweep
from lakestore.storage import MemoryStore
from tests.contracts.artifact_building import TOMBSTONE, image, pointer, text
from tests.support.artifacts import APP
from tests.support.clocks import ManualClock
from tests.support.histories import GRACE, LIMIT

Name = tuple[str | None, str]
"""A session, or None, and a name as ADK is given it."""

NAMES: list[Name] = [("s1", "a"), ("s1", "a/b"), ("s2", "a"), ("s1", "user:a"), (None, "b")]
PARTS = st.one_of(
    st.sampled_from([b"", b"x", b"y"]).map(image),
    st.sampled_from(["", "x", "é"]).map(text),
    st.just(pointer("gs://b/x", "image/png")),
    st.just(TOMBSTONE),
)


class ArtifactMachine(RuleBasedStateMachine):
    """Artifacts of one user, in two sessions and in none."""

    @initialize()
    def begin(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore("artifacts", clock=self.clock)
        self.lakes: list[Lake] = []
        self.services = [self.opened(), self.opened()]
        self.model: dict[Name, list[types.Part]] = {}

    def opened(self) -> SyncArtifactService:
        self.lakes.append(Lake(self.store, clock=self.clock))
        return LakeArtifactService(self.lakes[-1]).sync

    @property
    def service(self) -> SyncArtifactService:
        self.services.reverse()
        return self.services[0]

    def _versions(self, name: Name) -> list[types.Part]:
        session, filename = name
        shared = session is None or filename.startswith("user:")
        known = f"user:{filename.removeprefix('user:')}" if shared else filename
        return self.model.setdefault((None if shared else session, known), [])

    @rule(name=st.sampled_from(NAMES), part=PARTS, piecewise=st.booleans())
    def save(self, name: Name, part: types.Part, piecewise: bool) -> None:
        versions = self._versions(name)
        whose: Any = {"app_name": APP, "user_id": "ana", "session_id": name[0], "filename": name[1]}
        if piecewise and part.inline_data and part.inline_data.data is not None:
            data, mime = part.inline_data.data, part.inline_data.mime_type
            saved = self.service.save_file(**whose, source=[data[:1], data[1:]], mime_type=mime)
        else:
            saved = self.service.save_artifact(**whose, artifact=part)
        assert saved == len(versions)
        versions.append(part)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: Name) -> None:
        self.service.delete_artifact(
            app_name=APP, user_id="ana", session_id=name[0], filename=name[1]
        )
        self._versions(name).clear()

    @rule()
    def compact(self) -> None:
        compact(self.lakes[-1])

    @rule()
    def sweep(self) -> None:
        self.clock.advance(GRACE)
        assert sweep(self.lakes[-1]).failures == 0

    @rule()
    def begin_a_process(self) -> None:
        self.services[0] = self.opened()

    @rule()
    def wait(self) -> None:
        self.clock.advance(LIMIT)

    @invariant()
    def all_is_as_it_was_saved(self) -> None:
        service = self.service
        for (session, filename), parts in self.model.items():
            whose: Any = {"app_name": APP, "user_id": "ana", "session_id": session or "s1"}
            whose["filename"] = filename
            assert service.list_versions(**whose) == list(range(len(parts)))
            for number, part in enumerate(parts):
                expected = None if part == TOMBSTONE else part
                assert service.load_artifact(**whose, version=number) == expected
        for session in ("s1", "s2", None):
            there = (name for name, parts in self.model.items() if parts)
            names = sorted(name for its, name in there if its in (session, None))
            listed = service.list_artifact_keys(app_name=APP, user_id="ana", session_id=session)
            assert listed == names

    def teardown(self) -> None:
        if self.lakes:
            found = check(self.lakes[-1], deep=True).findings
            assert [it for it in found if it.kind != "orphan"] == []  # of what was deleted
        for lake in self.lakes:
            lake.close()


# Making a failing history short takes hypothesis minutes.
TestArtifacts = pytest.mark.timeout(4 * 3600)(ArtifactMachine.TestCase)
TestArtifacts.settings = settings(max_examples=settings().max_examples * 2 // 3)
