"""What SQL shows while nobody knows what is packed of an app."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from lakestore import Lake, LakeSessionService
from lakestore.catalog import inspection
from lakestore.errors import FormatError
from lakestore.jobs import compact, erase_user
from lakestore.log.keys import manifest_key, run_key
from lakestore.log.manifests import Manifest
from tests.support.archives import Site, event, newest
from tests.support.damage import Harm, change, cut, flipped, mend
from tests.support.measured import measured, put

SOUND = "sound"
HARMED = "harmed/" + "x" * 150
"""Of so long an id only a digest is in keys."""
SHOWN = (
    "select app_name, user_id, session_id, version, event_id from events order by all",
    "select app_name, user_id, session_id, version, events, state from sessions order by all",
    "select app_name, user_id, session_id, version, key, after from state_changes order by all",
    "select app_name, user_id, session_id, id from telemetry order by all",
)


def shown(lake: Lake) -> list[list[Any]]:
    """Return what views of each kind show."""
    return [lake.sql(query).fetchall() for query in SHOWN]


def of_sound(answers: list[list[Any]]) -> list[list[Any]]:
    """Return what is said of the other app."""
    return [[row for row in rows if row[0] == SOUND] for rows in answers]


def said(lake: Lake, app: str, number: int) -> None:
    """Add to the session that every app has."""
    service = LakeSessionService(lake).sync
    session = service.get_session(app_name=app, user_id="ana", session_id="s")
    assert session is not None
    service.append_event(session, event(number, k=number))


@pytest.fixture
def site() -> Site:
    """Two apps with packed and fresh rows, one user erased in each."""
    made = Site()
    lake = made.lake()
    service = LakeSessionService(lake).sync
    for app in (SOUND, HARMED):
        for user in ("ana", "ben"):
            service.create_session(app_name=app, user_id=user, session_id="s", state={"k": 0})
        said(lake, app, 1)
        service.create_session(app_name=app, user_id="zoe", session_id="s", state={"user:z": 0})
        erase_user(lake, app, "zoe")
        put(lake, measured("ana", "s", app_name=app))
        compact(lake, app_name=app)
        put(lake, measured("ana", "s", app_name=app))
        said(lake, app, 2)
    return made


def run_of(table: str) -> Callable[[Manifest], str]:
    """Return what names the run of a table."""
    return lambda manifest: run_key(HARMED, table, manifest.table(table).runs[0].id)


def itself(manifest: Manifest) -> str:
    """Return the manifest's own key."""
    return manifest_key(HARMED, manifest.number)


def newer(body: bytes) -> bytes:
    """Of a version to come."""
    return body.replace(b'"format_version": 1', b'"format_version": 2')


DAMAGE: dict[str, tuple[Callable[[Manifest], str], Harm | None]] = {
    "sessions": (run_of("events"), flipped),
    "no sessions": (run_of("events"), None),
    "erased": (run_of("erased"), cut),
    "manifest": (itself, cut),
    "newer manifest": (itself, newer),
    "other JSON": (itself, lambda _: b"{}"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_it_hides_its_own_app_until_it_is_mended(
    site: Site, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """Other apps answer as before; the key is logged once for each database; then all is back.

    Nothing of the app is shown meanwhile: fresh rows could be those of a session's packed past.
    """
    key_of, harm = DAMAGE[damage]
    reader = site.lake()
    before = shown(site.lake())
    assert all(before)
    key = key_of(newest(reader, HARMED))
    body = change(site.store, key, harm)
    with caplog.at_level(logging.ERROR):
        assert shown(reader) == of_sound(before)
        assert shown(reader) == of_sound(before)
        with reader.connect() as connection:
            assert connection.sql(SHOWN[0]).fetchall() == of_sound(before)[0]
    told = [one.getMessage() for one in caplog.records if one.name == "lakestore.catalog.packs"]
    assert len(told) == 2
    assert all(key in each for each in told)
    mend(site.store, key, body)
    assert shown(reader) == before


@pytest.mark.parametrize("damage", ["sessions", "erased", "manifest"])
def test_old_processes_hide_it_when_there_is_a_newer_manifest(site: Site, damage: str) -> None:
    """Until then they go on with what they have read."""
    key_of, harm = DAMAGE[damage]
    reader, writer = site.lake(), site.lake()
    before = shown(reader)
    known = key_of(newest(writer, HARMED))
    body = change(site.store, known, harm)
    assert shown(reader) == before
    mend(site.store, known, body)
    said(writer, HARMED, 3)
    erase_user(writer, HARMED, "ben")
    compact(writer, app_name=HARMED)
    before = shown(site.lake())
    key = key_of(newest(writer, HARMED))
    body = change(site.store, key, harm)
    assert shown(reader) == of_sound(before)
    mend(site.store, key, body)
    assert shown(reader) == before


def test_what_came_meanwhile_is_shown_with_the_rest(site: Site) -> None:
    """What writers added and deleted while the app was hidden is there at once."""
    writer, reader = site.lake(), site.lake()
    shown(reader)
    service = LakeSessionService(writer).sync
    session = service.get_session(app_name=HARMED, user_id="ana", session_id="s")
    assert session is not None
    key = run_of("events")(newest(writer, HARMED))
    body = change(site.store, key, flipped)
    shown(reader)
    service.append_event(session, event(3, k=3))
    shown(reader)
    service.create_session(app_name=HARMED, user_id="new", state={"k": 9})
    said(site.lake(), SOUND, 4)
    shown(reader)
    mend(site.store, key, body)
    service.delete_session(app_name=HARMED, user_id="ben", session_id="s")
    assert shown(reader) == shown(site.lake())


def test_the_first_manifest_may_be_damaged() -> None:
    """Rows that were shown before there was any go too: by now they may be packed."""
    site = Site()
    writer, reader = site.lake(), site.lake()
    service = LakeSessionService(writer).sync
    for app in (SOUND, HARMED):
        service.create_session(app_name=app, user_id="ana", session_id="s", state={"k": 0})
    before = shown(reader)
    compact(writer, app_name=HARMED)
    key = manifest_key(HARMED, 1)
    body = change(site.store, key, cut)
    assert shown(reader) == of_sound(before)
    mend(site.store, key, body)
    assert shown(reader) == before


def test_reads_by_id_say_what_is_wrong(site: Site) -> None:
    """What is asked of the app alone is an error that names the key; other apps are read."""
    key = run_of("events")(newest(site.lake(), HARMED))
    change(site.store, key, cut)
    service = LakeSessionService(site.lake()).sync
    with pytest.raises(FormatError, match=key):
        service.get_session(app_name=HARMED, user_id="ana", session_id="s")
    assert service.get_session(app_name=SOUND, user_id="ana", session_id="s")


def test_runs_that_sql_does_not_read_cost_it_nothing(site: Site) -> None:
    """The state in `sessions` is in runs of sessions and in logs."""
    lake = site.lake()
    service = LakeSessionService(lake).sync
    for number in range(10):
        service.create_session(app_name=HARMED, user_id="u", state={f"user:{number}": number})
    compact(lake, app_name=HARMED)
    before = shown(site.lake())
    for table in ("state", "folded"):
        change(site.store, run_of(table)(newest(lake, HARMED)), cut)
    assert shown(site.lake()) == before


@pytest.mark.parametrize("harm", [flipped, None])
def test_large_runs_are_looked_at_whole(
    site: Site, harm: Harm | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage in the midst of a run of any size hides its app, and fails no query."""
    monkeypatch.setattr(inspection, "WHOLE_BYTES", 0)
    before = shown(site.lake())
    change(site.store, run_of("events")(newest(site.lake(), HARMED)), harm)
    assert shown(site.lake()) == of_sound(before)


def test_a_hidden_app_costs_two_requests_a_refresh(site: Site) -> None:
    """Its manifest and what is damaged are asked for again, and nothing else."""
    change(site.store, run_of("events")(newest(site.lake(), HARMED)), flipped)
    reader = site.lake()
    shown(reader)
    before = reader.metrics.requests
    reader.sql("select 1").fetchall()
    asked = reader.metrics.requests_since(before)
    assert asked == {"LIST": 7, "GET": 2}
