"""Commits: what a refusal and a lost reply mean, and how a log's names are read."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import StorageError, UnknownOutcomeError
from lakestore.log.commits import (
    Confirmations,
    LogFiles,
    Marker,
    list_log,
    list_logs,
    probe,
    put_commit,
)
from lakestore.log.keys import SessionKey, commit_key, rollup_key
from lakestore.storage import MemoryStore, Metrics, ObjectStore
from tests.support.clocks import ManualClock
from tests.support.faulty_store import (
    FailingStore,
    InterruptedStore,
    LateStore,
    LostReplyStore,
    Nth,
    PlaceholderStore,
)

LOG = SessionKey("app", "ana", "s1").log
KEY = commit_key(LOG, 1)
OURS, THEIRS = b"ours", b"theirs"


class Commit:
    """One commit and what it cost."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.clock = ManualClock()
        self.metrics = Metrics()

    def put(self, body: bytes = OURS) -> bytes | None:
        """Create the commit."""
        return put_commit(
            self.store,
            KEY,
            body,
            is_ours=lambda there: there == body,
            clock=self.clock,
            metrics=self.metrics,
        )


class TestPutCommit:
    """One commit is created, or it is known who was first, or nobody knows."""

    def test_an_uncontended_commit_is_one_request(self) -> None:
        """Nothing is read, and nobody waits."""
        inner = MemoryStore()
        gets = Nth("get")
        commit = Commit(FailingStore(inner, gets))

        assert commit.put() is None
        assert inner.get(KEY) == OURS
        assert (gets.met, commit.clock.slept) == (0, [])
        assert (commit.metrics.retries, commit.metrics.conflicts) == (0, 0)

    def test_the_winner_is_returned_to_the_loser(self) -> None:
        """A refused writer gets what stands there, and a conflict is counted."""
        store = MemoryStore()
        store.put_if_absent(KEY, THEIRS)
        commit = Commit(store)

        assert commit.put() == THEIRS
        assert store.get(KEY) == THEIRS
        assert (commit.metrics.conflicts, commit.clock.slept) == (1, [])

    @pytest.mark.parametrize("outcome", ["landed", "resent"])
    def test_ones_own_commit_is_recognised(self, outcome: Literal["landed", "resent"]) -> None:
        """A writer that meets itself has won, whether the reply was lost or came to a resend."""
        inner = MemoryStore()
        commit = Commit(LostReplyStore(inner, Nth("put"), outcome))

        assert commit.put() is None
        assert inner.get(KEY) == OURS
        assert (commit.metrics.conflicts, commit.metrics.retries) == (0, 0)

    def test_what_never_arrived_is_sent_again(self) -> None:
        """The same bytes go to the same key, with growing pauses."""
        inner = MemoryStore()
        commit = Commit(LostReplyStore(inner, Nth("put", times=3), "dropped"))

        assert commit.put() is None
        assert inner.get(KEY) == OURS
        assert commit.metrics.retries == 3
        assert commit.clock.slept == sorted(set(commit.clock.slept))
        assert sum(commit.clock.slept) < 5

    def test_another_writer_may_win_while_one_waits(self) -> None:
        """What was dropped is refused when it is sent again after somebody else's."""
        inner = MemoryStore()
        dropped = LostReplyStore(inner, Nth("put"), "dropped")
        store = InterruptedStore(
            dropped, Nth("put", nth=2), lambda: inner.put_if_absent(KEY, THEIRS)
        )

        assert Commit(store).put() == THEIRS

    def test_trying_is_bounded(self) -> None:
        """When no reply ever comes, the outcome is unknown, and that is said soon."""
        inner = MemoryStore()
        puts = Nth("put", times=100)
        commit = Commit(LostReplyStore(inner, puts, "dropped"))

        with pytest.raises(UnknownOutcomeError, match="00000001"):
            commit.put()
        assert puts.met == 4
        assert sum(commit.clock.slept) < 5

    def test_what_arrives_late_is_one_of_ours(self) -> None:
        """A request that lands after its writer sent it again changes nothing."""
        inner = MemoryStore()
        late = LateStore(inner, Nth("put"))

        assert Commit(late).put() is None
        assert late.release() == [False]
        assert inner.get(KEY) == OURS

    def test_a_reply_that_cannot_be_checked_is_unknown(self) -> None:
        """When reading back fails too, nobody knows."""
        inner = MemoryStore()
        lost = LostReplyStore(inner, Nth("put"), "landed")
        store = FailingStore(lost, Nth("get", times=100))

        with pytest.raises(UnknownOutcomeError):
            Commit(store).put()

    def test_a_refusal_that_cannot_be_checked_is_unknown(self) -> None:
        """A refused writer that cannot read the other's commit may be that other."""
        inner = MemoryStore()
        inner.put_if_absent(KEY, THEIRS)

        with pytest.raises(UnknownOutcomeError):
            Commit(FailingStore(inner, Nth("get"))).put()

    def test_a_plain_failure_is_known(self) -> None:
        """A store that says it did not write is believed, and asked once."""
        inner = MemoryStore()
        puts = Nth("put")
        with pytest.raises(StorageError) as caught:
            Commit(FailingStore(inner, puts)).put()

        assert not isinstance(caught.value, UnknownOutcomeError)
        assert puts.met == 1
        assert [*inner.list("")] == []

    def test_a_failure_after_a_lost_reply_is_unknown(self) -> None:
        """That the second request failed says nothing about the first, which may still land."""
        inner = MemoryStore()
        late = LateStore(inner, Nth("put"))
        with pytest.raises(UnknownOutcomeError):
            Commit(FailingStore(late, Nth("put", nth=2))).put()

        assert late.release() == [True]

    def test_a_name_that_comes_free_is_taken(self) -> None:
        """What was there at the refusal may be gone when it is read."""
        inner = MemoryStore()
        inner.put_if_absent(KEY, THEIRS)
        store = InterruptedStore(inner, Nth("get"), lambda: inner.delete(KEY))

        assert Commit(store).put() is None
        assert inner.get(KEY) == OURS


def test_probing_finds_the_next_version() -> None:
    """A commit is asked for by its version, and None says that it is not there."""
    store = MemoryStore()
    store.put_if_absent(commit_key(LOG, 3), b"three")

    assert probe(store, LOG, 3) == b"three"
    assert probe(store, LOG, 4) is None
    with pytest.raises(StorageError):
        probe(FailingStore(store, Nth("get")), LOG, 3)


@pytest.mark.parametrize(
    ("commits", "version", "dense", "gap"),
    [
        ([], 0, [], False),
        ([1], 0, [1], False),
        ([1, 2, 3], 0, [1, 2, 3], False),
        ([1, 2, 3], 2, [3], False),
        ([1, 2, 3], 3, [], False),
        ([1, 2, 3], 9, [], False),
        ([2, 3], 0, [], True),
        ([1, 2, 4, 5], 0, [1, 2], True),
        ([1, 2, 4, 5], 2, [], True),
        ([1, 2, 4, 5], 3, [4, 5], False),
        ([3, 4, 6, 8], 2, [3, 4], True),
        ([10**19], 0, [], True),
    ],
)
def test_versions_follow_without_a_gap(
    commits: list[int], version: int, dense: list[int], gap: bool
) -> None:
    """Only what follows densely is the log; what stands above a gap is told of."""
    assert LogFiles(commits, []).above(version) == (dense, gap)


@given(st.sets(st.integers(1, 30)), st.integers(0, 30))
def test_dense_is_what_counting_finds(commits: set[int], version: int) -> None:
    """The dense versions are those that counting up from the last one finds."""
    found, gap = LogFiles(sorted(commits), []).above(version)
    counted = version
    while counted + 1 in commits:
        counted += 1

    assert found == list(range(version + 1, counted + 1))
    assert gap == any(commit > counted for commit in commits)


@pytest.mark.parametrize(
    ("commits", "rollups", "newest"),
    [
        ([1, 2], [], None),
        ([1, 2, 3], [2], 2),
        ([1, 2, 3], [1, 3], 3),
        ([1, 2], [2, 7], 2),
        ([], [4], None),
        ([5], [4], None),
        ([4, 6], [2, 4, 5], 4),
    ],
)
def test_a_rollup_counts_beside_its_commit(
    commits: list[int], rollups: list[int], newest: int | None
) -> None:
    """A rollup whose commit is gone was swept, and is no base to read from."""
    assert LogFiles(commits, rollups).newest_rollup == newest


def test_a_listing_becomes_logs() -> None:
    """One listing of many sessions gives each log its versions and leaves strays out."""
    store = MemoryStore()
    logs = [SessionKey("app", user, f"s{n}").log for user in ("a", "a-b", "b") for n in (1, 2)]
    for log in logs:
        for version in (1, 2, 3):
            store.put_if_absent(commit_key(log, version), b"x")
        store.put_if_absent(rollup_key(log, 2), b"x")
        store.put_if_absent(log + ".DS_Store", b"x")
        store.put_if_absent(log + "00000000000000000004.parquet.tmp", b"x")
        store.put_if_absent(log + "old/00000000000000000009.parquet", b"x")
    store.put_if_absent("events/log/README.md", b"x")
    store.put_if_absent("events/log/app=app/00000000000000000001.parquet", b"x")

    expected = {log: LogFiles([1, 2, 3], [2]) for log in logs}
    for listed in (store, PlaceholderStore(store)):
        assert dict(list_logs(listed, "events/log/")) == expected
        assert list_log(listed, logs[3]) == LogFiles([1, 2, 3], [2])


def test_a_log_that_is_not_there_is_empty() -> None:
    """Neither a missing log nor a longer name that begins alike has files here."""
    store = MemoryStore()
    store.put_if_absent(commit_key(SessionKey("app", "ana", "s12").log, 1), b"x")

    assert list_log(store, SessionKey("app", "ana", "s1").log) == LogFiles()
    assert [*list_logs(store, "events/log/app=none/")] == []


class TestConfirmations:
    """Markers travel as texts; when they were confirmed stays in the process."""

    def test_a_marker_comes_back(self) -> None:
        """Version, token and the time of its confirmation are found again by the text."""
        confirmations = Confirmations()
        text = confirmations.text(LOG, Marker(7, "00ff", 12.5))

        assert text == "7:00ff"
        assert confirmations.parse(LOG, text) == Marker(7, "00ff", 12.5)

    def test_a_marker_from_elsewhere_is_old(self) -> None:
        """What another process handed out was confirmed at no time that is known here."""
        text = Confirmations().text(LOG, Marker(7, "00ff", 12.5))

        assert Confirmations().parse(LOG, text) == Marker(7, "00ff", None)

    def test_the_latest_confirmation_counts(self) -> None:
        """A marker that was handed out again earlier or later keeps the later time."""
        confirmations = Confirmations()
        for seen in (12.5, 20.0, 3.0, None):
            confirmations.text(LOG, Marker(7, "00ff", seen))

        assert confirmations.parse(LOG, "7:00ff") == Marker(7, "00ff", 20.0)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "7",
            "7:",
            ":00ff",
            "x:00ff",
            "7:xyz",
            "7:00ff ",
            "7:00ff\n",
            "-1:00ff",
            "7:00FF",
            "1700000000.5",
            "2024-01-05T00:00:00+00:00",
            "7:00ff:1",
        ],
    )
    def test_what_is_not_ours_is_no_marker(self, text: str) -> None:
        """Markers of ADK's other services, or made up, are not taken for ours."""
        assert Confirmations().parse(LOG, text) is None

    def test_memory_is_bounded(self) -> None:
        """Of very many markers the oldest count as old again; none is lost as a marker."""
        confirmations = Confirmations()
        first = confirmations.text(LOG, Marker(1, "aa", 5.0))
        for number in range(66_000):
            last = confirmations.text(LOG, Marker(2, f"{number:x}", 6.0))

        assert confirmations.parse(LOG, first) == Marker(1, "aa", None)
        assert confirmations.parse(LOG, last) == Marker(2, f"{65_999:x}", 6.0)
