"""Packs as SQL sees them: what is asked of the store, and what a damaged one costs."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from lakestore import Lake, LakeSessionService
from lakestore.catalog import inspection
from lakestore.errors import FormatError, NotFoundError
from lakestore.history.archive import EVENTS
from lakestore.jobs import compact
from lakestore.log.keys import pack_key
from lakestore.storage import MemoryStore
from lakestore.storage.files import StoreFiles
from tests.support.archives import APP, Site, delete_packed, event, newest
from tests.support.damage import change, cut, flipped, replaced

USERS = tuple(f"user{number}" for number in range(6))
ALL = "select user_id, count(event_json) from events group by all order by all"


HARM = pytest.mark.parametrize("harm", [cut, flipped, replaced, None])


def lake_of(site: Site, *, pack_bytes: int) -> None:
    """Pack a session a user, and delete what was packed."""
    lake = site.lake()
    service = LakeSessionService(lake).sync
    for user in USERS:
        session = service.create_session(app_name=APP, user_id=user, session_id="s")
        service.append_events(session, [event(number) for number in range(3)])
    compact(lake, pack_bytes=pack_bytes)
    delete_packed(lake, site.store)


def packs_of(lake: Lake) -> dict[str, str]:
    """Return the key of each user's pack."""
    return {
        each.row.user_id: pack_key(APP, EVENTS.name, each.row.segments[0].pack)
        for each in lake.sessions.archive.sessions(newest(lake))
    }


def counted(lake: Lake) -> dict[str, int]:
    """Return how many events SQL shows of each user."""
    return dict(lake.sql(ALL).fetchall())


@pytest.fixture
def site() -> Site:
    """A lake with a pack a user."""
    made = Site()
    lake_of(made, pack_bytes=1)
    return made


@HARM
def test_a_damaged_pack_costs_its_own_sessions(
    site: Site, harm: Callable[[bytes], bytes] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """SQL and scans show all other sessions, in the first query already, and the key is logged."""
    key = packs_of(site.lake())["user2"]
    change(site.store, key, harm)
    reader = site.lake()
    others = {user: 3 for user in USERS if user != "user2"}
    with caplog.at_level(logging.ERROR):
        assert counted(reader) == others
        assert counted(reader) == others
    assert caplog.text.count(key) == 1
    table = reader.scan("events", columns=["user_id"]).read_all()
    assert sorted(set(table["user_id"].to_pylist())) == sorted(others)
    with reader.connect() as connection:
        assert dict(connection.sql(ALL).fetchall()) == others
    sessions = "select count(*) from sessions"
    assert reader.sql(sessions).fetchall() == [(6,)]


@HARM
def test_what_is_mended_is_shown(site: Site, harm: Callable[[bytes], bytes] | None) -> None:
    """A damaged pack is tried again at each refresh, until it was restored; and so is one fresh."""
    key = packs_of(site.lake())["user2"]
    body = change(site.store, key, harm)
    reader = site.lake()
    assert "user2" not in counted(reader)
    if harm is not None:
        site.store.delete(key)
    site.store.put_if_absent(key, body)
    assert counted(reader) == dict.fromkeys(USERS, 3)


@pytest.mark.parametrize("harm", [cut, flipped])
def test_row_groups_that_are_whole_are_shown(harm: Callable[[bytes], bytes]) -> None:
    """Of a pack with many row groups only the sessions in those that are damaged suffer."""
    site = Site()
    lake = site.lake()
    service = LakeSessionService(lake).sync
    for user in USERS:
        session = service.create_session(app_name=APP, user_id=user, session_id="s")
        service.append_events(session, [event(number) for number in range(1_500)])
    compact(lake)
    delete_packed(lake, site.store)
    (key,) = set(packs_of(lake).values())
    change(site.store, key, harm)
    shown = counted(site.lake())
    assert 0 < sum(shown.values()) < 1_500 * len(USERS)
    whole = [user for user in USERS if shown.get(user) == 1_500]
    assert len(whole) >= 2
    readable = []
    for user in USERS:
        try:
            found = LakeSessionService(site.lake()).sync.get_session(
                app_name=APP, user_id=user, session_id="s"
            )
        except FormatError:
            continue
        assert found is not None
        readable.append(user)
    assert whole == readable


def test_a_cold_query_asks_once_for_a_small_pack(site: Site) -> None:
    """No HEAD; of each pack and run of up to some megabytes one GET, and one of the manifest."""
    with site.lake() as lake:
        before = lake.metrics.requests
        assert counted(lake) == dict.fromkeys(USERS, 3)
        made = lake.metrics.requests_since(before)
        assert made == {"GET": len(USERS) + 2, "LIST": 6}
        before = lake.metrics.requests
        counted(lake)
        assert lake.metrics.requests_since(before) == {"LIST": 6}


def test_a_cold_query_asks_of_large_packs_for_what_it_needs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large pack it reads the footer once, and what the query needs; there is no HEAD."""
    monkeypatch.setattr(inspection, "WHOLE_BYTES", 0)
    with site.lake() as lake:
        before = lake.metrics.requests
        assert lake.sql("select count(*) from events").fetchall() == [(18,)]
        made = lake.metrics.requests_since(before)
    assert set(made) == {"GET", "LIST"}
    # The manifest; of each pack and of the run the footer, and a few ranges of columns.
    assert made["GET"] <= 1 + 4 * (len(USERS) + 1)


@pytest.mark.parametrize("harm", [cut, replaced, None])
def test_the_footer_of_a_large_pack_tells(
    site: Site, harm: Callable[[bytes], bytes] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large one that lost its end, or is another object, the other packs are shown too."""
    monkeypatch.setattr(inspection, "WHOLE_BYTES", 0)
    change(site.store, packs_of(site.lake())["user2"], harm)
    assert counted(site.lake()) == {user: 3 for user in USERS if user != "user2"}


def test_what_is_known_of_an_object_is_bounded() -> None:
    """Ends of objects are kept up to some bytes, the latest ones."""
    files = StoreFiles(MemoryStore())
    for number in range(10):
        files.know(f"k{number}", 20 * 2**20, b"x" * 2**24)
    assert files.size("lakestore://k0") == 20 * 2**20
    with files.open("lakestore://k9") as kept, files.open("lakestore://k0") as forgotten:
        for file in (kept, forgotten):
            file.seek(-10, 2)
        assert kept.read() == b"x" * 10
        with pytest.raises(NotFoundError):
            forgotten.read()
