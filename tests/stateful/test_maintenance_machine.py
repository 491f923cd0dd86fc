"""Random histories with jobs in between: compaction, and deletion of what it made needless.

The rules of sessions are in `tests.support.session_rules`; no answer may differ from the model's.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from typing_extensions import override

from lakestore.jobs import compact
from lakestore.storage import MemoryStore, ObjectStore
from tests.support.archives import delete_packed
from tests.support.session_rules import SIDES, SessionRules

GRACE = 4_000.0


class MaintenanceMachine(SessionRules):
    """Over memory, with two hosts of which each may compact at any time."""

    @override
    def open_store(self) -> ObjectStore:
        return MemoryStore("maintenance", clock=self.clock)

    @rule(side=SIDES, pack_bytes=st.sampled_from([1, 2_000, 2**20]))
    def compact(self, side: int, pack_bytes: int) -> None:
        """Pack what is fresh, into one pack or many."""
        compact(self.lakes[side], pack_bytes=pack_bytes, slice_commits=5)

    @rule(side=SIDES, pack_bytes=st.sampled_from([1, 2**20]))
    def compact_and_sweep(self, side: int, pack_bytes: int) -> None:
        """Pack what is fresh, outlive the grace, and delete what that made needless."""
        compact(self.lakes[side], pack_bytes=pack_bytes)
        self.clock.advance(GRACE)
        for app in {ids[0] for ids in self.model.logs}:
            delete_packed(self.lakes[side], self.store, app)
        self.model.swept.update(self.model.logs)  # what is sent again may not be recognised


# Making a failing history short takes hypothesis minutes, and the nightly profile takes hours.
_PATIENT = pytest.mark.timeout(4 * 3600)

TestMaintenance = _PATIENT(MaintenanceMachine.TestCase)
