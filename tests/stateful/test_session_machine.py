"""Random histories of sessions, on each store against the model.

The rules are in `tests.support.session_rules`; here is which store they run on.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from typing_extensions import override

from lakestore.storage import LocalStore, MemoryStore, ObjectStore
from tests.support.faulty_store import AgeingStore
from tests.support.session_rules import SessionRules


class MemoryMachine(SessionRules):
    """Over memory, whose objects are as old as the machine's clock says."""

    @override
    def open_store(self) -> ObjectStore:
        return MemoryStore("machine", clock=self.clock)


class FolderMachine(SessionRules):
    """Over a folder, whose files are told to be older than they are."""

    @override
    def open_store(self) -> ObjectStore:
        self.folder = Path(tempfile.mkdtemp(prefix="lakestore-"))
        self.ageing = AgeingStore(LocalStore(self.folder))
        return self.ageing

    @override
    def age_store(self, seconds: float) -> None:
        self.ageing.age(seconds)

    @override
    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.folder)


# Making a failing history short takes hypothesis minutes, and the nightly profile takes hours.
_PATIENT = pytest.mark.timeout(4 * 3600)

TestSessionsInMemory = _PATIENT(MemoryMachine.TestCase)
TestSessionsInFolder = _PATIENT(FolderMachine.TestCase)
# The same rules as in memory, of which a folder's files take four times as long.
TestSessionsInFolder.settings = settings(max_examples=settings().max_examples // 2)
