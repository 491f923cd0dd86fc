"""Damage of what jobs have packed: it is one clear error with the key, and hides what it must."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from lakestore import Lake, LakeSessionService
from lakestore.errors import FormatError
from lakestore.history.archive import EVENTS
from lakestore.jobs.compact import compact
from lakestore.log.keys import manifest_key, pack_key, run_key
from tests.support.archives import APP, Site, delete_packed, event, newest

USERS = ("ana", "ben", "cleo")


@pytest.fixture
def site() -> Site:
    """A lake with a session a user, each in a pack of its own."""
    made = Site()
    lake = made.lake()
    service = LakeSessionService(lake).sync
    for user in USERS:
        session = service.create_session(app_name=APP, user_id=user, session_id="s")
        service.append_event(session, event(1, **{"user:k": user}))
    compact(lake, pack_bytes=1)
    delete_packed(lake, made.store)
    return made


def cut(site: Site, key: str) -> None:
    """Let an object have lost its end."""
    body = site.store.get(key)
    site.store.delete(key)
    site.store.put_if_absent(key, body[: len(body) // 2])


def flipped(site: Site, key: str) -> None:
    """Let some bytes of an object's rows be others."""
    body = bytearray(site.store.get(key))
    for place in range(150, 200):
        body[place] ^= 0xFF
    site.store.delete(key)
    site.store.put_if_absent(key, bytes(body))


def replaced(site: Site, key: str) -> None:
    """Let an object be no Parquet."""
    size = len(site.store.get(key))
    site.store.delete(key)
    site.store.put_if_absent(key, b"x" * size)


def shown(lake: Lake, user: str) -> list[str]:
    """Return the ids of a user's session's events."""
    found = LakeSessionService(lake).sync.get_session(app_name=APP, user_id=user, session_id="s")
    assert found is not None
    return [one.id for one in found.events]


@pytest.mark.parametrize("harm", [cut, flipped, replaced])
def test_a_pack(
    site: Site, harm: Callable[[Site, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """It hides the events of its sessions; lists, states and all other sessions stay."""
    lake = site.lake()
    packed = {each.row.user_id: each for each in lake.sessions.archive.sessions(newest(lake))}
    key = pack_key(APP, EVENTS.name, packed["ben"].row.segments[0].pack)
    harm(site, key)
    reader = site.lake()
    with pytest.raises(FormatError) as caught:
        shown(reader, "ben")
    assert key in str(caught.value)
    assert "ben" not in str(caught.value)
    assert shown(reader, "ana") == shown(reader, "cleo") == ["e1"]
    service = LakeSessionService(reader).sync
    assert len(service.list_sessions(app_name=APP).sessions) == 3
    assert service.get_user_state(app_name=APP, user_id="ben") == {"k": "ben"}
    with caplog.at_level(logging.ERROR):
        assert service.get_user_events(app_name=APP, user_id="ben") == []
    assert key in caplog.text
    with pytest.raises(FormatError):
        reader.user_events(APP, "ben", session_ids=["s"])


@pytest.mark.parametrize("harm", [cut, flipped, replaced])
@pytest.mark.parametrize("kind", ["manifest", "run"])
def test_a_manifest_or_run(site: Site, kind: str, harm: Callable[[Site, str], None]) -> None:
    """Nobody knows what is packed then: one error with the key, for the sessions of that app."""
    lake = site.lake()
    manifest = newest(lake)
    (run,) = manifest.table(EVENTS.name).runs
    key = (
        manifest_key(APP, manifest.number)
        if kind == "manifest"
        else run_key(APP, EVENTS.name, run.id)
    )
    other = LakeSessionService(lake).sync
    other.create_session(app_name="other", user_id="ana", session_id="s")
    harm(site, key)
    reader = site.lake()
    service = LakeSessionService(reader).sync
    for ask in (
        lambda: shown(reader, "ana"),
        lambda: service.list_sessions(app_name=APP),
        lambda: service.get_user_events(app_name=APP, user_id="ana"),
    ):
        with pytest.raises(FormatError) as caught:
            ask()
        assert key in str(caught.value)
    assert service.get_session(app_name="other", user_id="ana", session_id="s") is not None


def test_rows_of_another_session(site: Site) -> None:
    """A pack that is another's under this name is refused."""
    lake = site.lake()
    packed = {each.row.user_id: each for each in lake.sessions.archive.sessions(newest(lake))}
    ana, ben = (pack_key(APP, EVENTS.name, packed[u].row.segments[0].pack) for u in ("ana", "ben"))
    body = site.store.get(ana)
    site.store.delete(ana)
    site.store.put_if_absent(ana, site.store.get(ben))
    site.store.delete(ben)
    site.store.put_if_absent(ben, body)
    for user, key in (("ana", ana), ("ben", ben)):
        with pytest.raises(FormatError) as caught:
            shown(site.lake(), user)
        assert key in str(caught.value)
