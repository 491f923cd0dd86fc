"""What reads of packed sessions cost: the same however large the lake is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from google.adk.sessions.base_session_service import GetSessionConfig

from lakestore import Lake, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.history.archive import EVENTS, STATE
from lakestore.jobs.changes import Publisher
from lakestore.jobs.compact import PACK_BYTES
from lakestore.jobs.fresh_rows import fresh_changes
from lakestore.jobs.packing import PackTask
from lakestore.log.keys import app_logs
from lakestore.storage import MemoryStore
from tests.support.archives import APP, delete_packed, event, newest
from tests.support.clocks import ManualClock
from tests.support.rounds import RoundsStore

ROUNDS = 4


@dataclass
class Archive:
    """A lake of which all is packed, and everything that jobs made needless is deleted."""

    users: int
    sessions: int
    large: bool
    """Whether runs are so large that they are read by ranges."""
    store: MemoryStore = field(default_factory=lambda: MemoryStore("archive", clock=ManualClock()))

    def __post_init__(self) -> None:
        with self._lake() as lake:
            service = LakeSessionService(lake).sync
            # In two parts, of which one is smaller, so that there are two runs of each table.
            parts = (range(0, self.users, 4), range(self.users))
            for number, part in enumerate(reversed(parts)):
                for user in part:
                    if number == 1 or user % 4:
                        self._begin(service, user, number)
                self._compact(lake)
            delete_packed(lake, self.store)
            manifest = newest(lake)
            for table in (EVENTS, STATE):
                assert len(manifest.table(table.name).runs) == (2 if self.large else 1)

    def _compact(self, lake: Lake) -> None:
        """Compact; if `large`, let the runs be as those of a lake of millions of sessions are."""
        thresholds = {"whole_below": 0, "group_rows": 8} if self.large else {}
        publisher = Publisher(lake.environment, lake.sessions.archive, APP, **thresholds)
        prefix = app_logs(APP)
        for changes in PackTask(APP, prefix, prefix + "~", PACK_BYTES).run(lake):
            publisher.publish(changes)
        for changes in fresh_changes(lake, APP):
            publisher.publish(changes)

    def _begin(self, service: SyncSessionService, user: int, half: int) -> None:
        name = f"user{user:03}"
        for number in range(self.sessions):
            session = service.create_session(
                app_name=APP,
                user_id=name,
                session_id=f"s{number:03}",
                state={"user:name": name, f"user:{number}": 1, "app:half": half, "a": number},
            )
            service.append_events(session, [event(3 * number + n) for n in range(3)])

    def _lake(self) -> Lake:
        return Lake(self.store, clock=ManualClock(self.store._clock.wall()))

    @contextmanager
    def reader(self) -> Iterator[tuple[SyncSessionService, RoundsStore]]:
        """Open the lake from far away, in a process that knows nothing."""
        store = RoundsStore(self.store)
        with Lake(store, read_only=True) as lake:
            store.begin()
            yield LakeSessionService(lake).sync, store


def kinds(store: RoundsStore) -> dict[str, int]:
    """Return how many requests there were of each kind."""
    found = {"list": 0, "get": 0}
    for one in (one for each in store.rounds for one in each):
        found["get" if one[0] in ("get", "get_range") else one[0]] += 1
    return found


SHAPES = [(1, 1, False), (40, 3, False), (40, 3, True), (12, 30, True)]
IDS = ["one session", "small", "read by ranges", "many of each user"]


@pytest.fixture(params=SHAPES, ids=IDS, scope="module")
def archive(request: pytest.FixtureRequest) -> Archive:
    """Lakes of several sizes."""
    return Archive(*request.param)


@pytest.mark.parametrize(
    ("config", "events"),
    [
        (None, 3),
        (GetSessionConfig(num_recent_events=2), 2),
        (GetSessionConfig(num_recent_events=0), 0),
        (GetSessionConfig(after_timestamp=1_000.0), 3),
    ],
    ids=["all", "recent", "none", "after"],
)
def test_get_session_cold(archive: Archive, config: GetSessionConfig | None, events: int) -> None:
    """4 LIST and up to 8 GET, in 4 round trips, whatever the lake's size."""
    for user in (0, archive.users // 2, archive.users - 1):
        with archive.reader() as (service, store):
            found = service.get_session(
                app_name=APP,
                user_id=f"user{user:03}",
                session_id=f"s{archive.sessions - 1:03}",
                config=config,
            )
        assert found is not None
        assert len(found.events) == events
        assert found.state["user:name"] == f"user{user:03}"
        assert kinds(store)["list"] == 4
        assert kinds(store)["get"] <= 8
        assert len(store.rounds) <= ROUNDS, store.rounds


@pytest.mark.parametrize("shape", SHAPES[1:3], ids=IDS[1:3])
def test_get_session_that_goes_on(shape: tuple[int, int, bool]) -> None:
    """Commits above what is packed, and entries above packed state, are one round trip more."""
    archive = Archive(*shape)
    with Lake(archive.store) as lake:
        service = LakeSessionService(lake).sync
        session = service.get_session(app_name=APP, user_id="user000", session_id="s000")
        assert session is not None
        service.append_event(session, event(1_000, **{"user:new": 1, "k": 1}))
    with archive.reader() as (service, store):
        found = service.get_session(app_name=APP, user_id="user000", session_id="s000")
    assert found is not None
    assert found.state["user:new"] == 1
    assert kinds(store)["list"] == 4
    assert len(store.rounds) <= ROUNDS + 1, store.rounds


def test_get_session_warm(archive: Archive) -> None:
    """1 GET and 2 LIST at once; events are kept."""
    with archive.reader() as (service, store):
        for _ in range(2):
            store.begin()
            found = service.get_session(
                app_name=APP, user_id="user000", session_id=f"s{archive.sessions - 1:03}"
            )
    assert found is not None
    assert kinds(store) == {"list": 2, "get": 1}
    assert len(store.rounds) == 1


def test_list_sessions_of_a_user(archive: Archive) -> None:
    """4 LIST and 3 GET; where runs are large there are two, of state with two ranges: 7 GET."""
    user = archive.users - 1
    with archive.reader() as (service, store):
        found = service.list_sessions(app_name=APP, user_id=f"user{user:03}").sessions
    assert len(found) == archive.sessions
    assert kinds(store)["list"] == 4
    assert kinds(store)["get"] <= (7 if archive.large else 3), store.rounds
    assert len(store.rounds) <= ROUNDS + 1, store.rounds


def test_list_sessions_of_an_app(archive: Archive) -> None:
    """As many requests as there are ranges of some megabytes in the runs: here, few."""
    with archive.reader() as (service, store):
        found = service.list_sessions(app_name=APP).sessions
    assert len(found) == archive.users * archive.sessions
    assert kinds(store)["list"] == 3
    assert kinds(store)["get"] <= 2 + 2 + 2 * 2, store.rounds


def test_scan(archive: Archive) -> None:
    """6 LIST, one each of telemetry, memory and artifacts, and a GET for each run and pack."""
    with archive.reader() as (service, store):
        read = service.lake.scan("events", columns=["user_id", "text"]).read_all()
    assert read.num_rows == 3 * archive.users * archive.sessions
    assert kinds(store)["list"] == 6
    assert kinds(store)["get"] <= 1 + 2 + 2, store.rounds


def test_user_events(archive: Archive) -> None:
    """The log's and the manifests' LIST, and a GET for each run and pack, however many sessions."""
    user = archive.users // 2
    with archive.reader() as (service, store):
        found = service.get_user_events(app_name=APP, user_id=f"user{user:03}")
    assert len(found) == 3 * archive.sessions
    assert kinds(store)["list"] == 2
    assert kinds(store)["get"] <= 1 + 2 + 2, store.rounds
