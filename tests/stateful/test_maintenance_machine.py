"""Random histories with all jobs in between, of two hosts that may run any of them at any time.

The rules of sessions are in `tests.support.session_rules`. No answer may differ from the model's,
which says by itself what a prune or an erase takes away (`tests.support.forgetting`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from typing_extensions import override

from lakestore import Lake
from lakestore.jobs import (
    PruneReport,
    RetentionPolicy,
    check,
    compact,
    erase_user,
    prune_events,
    prune_sessions,
    prune_user_state,
    sweep,
)
from lakestore.storage import MemoryStore, ObjectStore
from tests.support.forgetting import DAY, ForgettingModel, Scope
from tests.support.lake_against_model import Handle
from tests.support.model import LakeModel
from tests.support.session_rules import SIDES, SessionRules

GRACE = 4_000.0
NOTICED = 301.0
"""When other processes have noticed what was cut, or forgotten of a user's state."""

DAYS = st.sampled_from([1, 1, 1, 2])
LATER = st.sampled_from([0.0, 0.4, 0.7, 1.1])
"""How many days pass before something is pruned: some of it is old then."""
SCOPES = st.sampled_from(["all", "app", "user"])


class MaintenanceMachine(SessionRules):
    """Over memory, with two hosts of which each may run any job at any time."""

    @override
    def open_store(self) -> ObjectStore:
        return MemoryStore("maintenance", clock=self.clock)

    @override
    def new_model(self) -> LakeModel:
        self.forgetting = ForgettingModel(self.clock.wall)
        return self.forgetting

    @override
    def teardown(self) -> None:
        self.check()
        super().teardown()

    # --- what changes no answer ------------------------------------------------------------

    @rule(side=SIDES, pack_bytes=st.sampled_from([1, 2_000, 2**20]))
    def compact(self, side: int, pack_bytes: int) -> None:
        """Pack what is fresh, into one pack or many."""
        compact(self.lakes[side], pack_bytes=pack_bytes, slice_commits=5)

    @rule(side=SIDES, packs=st.booleans())
    def sweep(self, side: int, packs: bool) -> None:
        """Outlive the grace, and delete what is needless, as much as a dry run has told."""
        if packs:
            compact(self.lakes[side])
        self.clock.advance(GRACE)
        told = sweep(self.lakes[side], dry_run=True)
        done = sweep(self.lakes[side])
        assert (told.deleted, told.named) == (done.deleted, done.named)
        assert done.failures == 0, done.reasons
        self.model.swept.update(self.model.logs)  # what is sent again may not be recognised

    @rule()
    def check(self) -> None:
        """Nothing is ever wrong."""
        with Lake(self.store, clock=self.clock, read_only=True) as lake:
            report = check(lake)
        assert report.healthy, report.findings

    # --- what forgets ----------------------------------------------------------------------

    @rule(
        side=SIDES,
        handle=SessionRules.handles,
        later=LATER,
        days=DAYS,
        scope=SCOPES,
        keep_last=st.sampled_from([0, 0, 1, 2]),
    )
    def prune_sessions(
        self, side: int, handle: Handle, later: float, days: int, scope: str, keep_last: int
    ) -> None:
        """Sessions that nobody has added to for that long end."""
        chosen, now = self._scope(scope, handle), self._now(later)
        report = self._prune(
            prune_sessions, side, chosen, idle_days=days, keep_last=keep_last, now=now
        )
        before = now.timestamp() - days * DAY
        count = self.forgetting.prune_sessions(chosen, before, keep_last)
        assert report["deleted_count"] == count

    @rule(side=SIDES, handle=SessionRules.handles, later=LATER, days=DAYS, scope=SCOPES)
    def prune_events(self, side: int, handle: Handle, later: float, days: int, scope: str) -> None:
        """Old invocations go out of living sessions, whose state stays."""
        chosen, now = self._scope(scope, handle), self._now(later)
        report = self._prune(prune_events, side, chosen, older_than_days=days, now=now)
        count = self.forgetting.prune_events(chosen, now.timestamp() - days * DAY)
        assert report["deleted_count"] == count
        self.clock.advance(NOTICED)

    @rule(side=SIDES, handle=SessionRules.handles, later=LATER, days=DAYS, scope=SCOPES)
    def prune_user_state(
        self, side: int, handle: Handle, later: float, days: int, scope: str
    ) -> None:
        """Keys of users that nobody has set for that long go."""
        chosen, now = self._scope(scope, handle), self._now(later)
        report = self._prune(prune_user_state, side, chosen, idle_days=days, now=now)
        count = self.forgetting.prune_user_state(chosen, now.timestamp() - days * DAY)
        assert report["deleted_count"] == count
        self.clock.advance(NOTICED)

    @rule(
        side=SIDES,
        handle=SessionRules.handles,
        later=LATER,
        one_app=st.booleans(),
        sessions=st.none() | DAYS,
        keep_last=st.integers(0, 1),
        events=st.none() | DAYS,
        state=st.none() | DAYS,
    )
    def compact_with_a_policy(
        self,
        side: int,
        handle: Handle,
        later: float,
        one_app: bool,
        sessions: int | None,
        keep_last: int,
        events: int | None,
        state: int | None,
    ) -> None:
        """A policy forgets what it allows, one thing after the other, before anything is packed."""
        policy = RetentionPolicy(sessions, keep_last, events, state)
        app = handle.known.ids[0] if one_app else None
        now, model, scope = self._now(later).timestamp(), self.forgetting, Scope(app)
        report = compact(self.lakes[side], app_name=app, policy=policy)
        expected = []
        if sessions is not None:
            expected.append(model.prune_sessions(scope, now - sessions * DAY, keep_last))
        if events is not None:
            expected.append(model.prune_events(scope, now - events * DAY))
        if state is not None:
            expected.append(model.prune_user_state(scope, now - state * DAY))
        assert [each["deleted_count"] for each in report.pruned] == expected
        self.clock.advance(NOTICED)

    @rule(side=SIDES, handle=SessionRules.handles)
    def erase_user(self, side: int, handle: Handle) -> None:
        """A user goes, every byte, and may begin again."""
        app, user, _ = handle.known.ids
        receipt = erase_user(self.lakes[side], app, user)
        assert receipt.verify(self.lakes[1 - side]) == receipt.left
        self.forgetting.erase(app, user)
        for _ in range(3):
            receipt = receipt.finish(self.lakes[side])
        assert receipt.status == "done"
        assert receipt.verify(self.lakes[1 - side]) == ()

    def _scope(self, scope: str, handle: Handle) -> Scope:
        app, user, _ = handle.known.ids
        return Scope(None if scope == "all" else app, user if scope == "user" else None)

    def _now(self, later: float) -> datetime:
        self.clock.advance(later * DAY)
        return datetime.fromtimestamp(self.clock.wall(), UTC)

    def _prune(
        self, job: Callable[..., PruneReport], side: int, scope: Scope, **options: Any
    ) -> PruneReport:
        """Run it dry, and then for good: both must tell the same."""
        options |= {"app_name": scope.app, "user_id": scope.user}
        told = job(self.lakes[side], dry_run=True, **options)
        done = job(self.lakes[side], **options)
        assert (told["dry_run"], done["dry_run"]) == (True, False)
        for name in ("table", "deleted_count", "deleted_bytes", "deleted_objects"):
            assert told[name] == done[name], name
        return done


# Making a failing history short takes hypothesis minutes, and the nightly profile takes hours.
_PATIENT = pytest.mark.timeout(4 * 3600)

TestMaintenance = _PATIENT(MaintenanceMachine.TestCase)
