"""Bytes beside events under the jobs: packed, pruned, swept, erased, checked, counted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.adk.sessions import Session

from lakestore.errors import StorageError
from lakestore.jobs import check, compact, erase_user, prune_events, stats, sweep
from lakestore.log.keys import SessionKey, commit_key
from lakestore.storage import LocalStore
from tests.support.aging import APP, USER
from tests.support.faulty_store import FailingStore, Nth
from tests.support.payloads import GRACE, OBJECTS, PayloadLake, bytes_of, image, made_lake

LOG = SessionKey(APP, USER, "s1").log


@pytest.fixture
def lake() -> Iterator[PayloadLake]:
    """A lake in memory whose services move bytes out of events."""
    made = made_lake()
    yield made
    made.lake.close()


def key_of(session: Session) -> SessionKey:
    """Return what names a session."""
    return SessionKey(session.app_name, session.user_id, session.id)


class TestCompaction:
    """What is packed refers to the same bytes."""

    def test_nothing_changes_for_readers(self, lake: PayloadLake) -> None:
        """Through compactions, merged packs, sweeps and rollups, among sessions without any."""
        sessions = [lake.create(f"s{number}") for number in range(4)]
        for round_ in range(9):
            for number, session in enumerate(sessions):
                images = [image(round_ % 3)] * (number % 2)
                lake.show(session, *images)
            lake.lake.sessions.roll_up(key_of(sessions[1]), force=True)
            compact(lake.open())
            assert lake.swept() == 0
            sessions = [lake.reread(session) for session in sessions]
        for session in sessions:
            assert lake.loaded(session).events == session.events
            assert len(session.events) == 9
        assert len(lake.objects) == 6
        assert check(lake.open(read_only=True), deep=True).healthy

    def test_the_same_image_is_stored_once_across_it(self, lake: PayloadLake) -> None:
        """By the process that goes on, and by a new one that has read the session."""
        session = lake.create()
        lake.show(session, image(1))
        compact(lake.open())
        lake.swept()
        lake.show(session, image(1))
        service = lake.service_of(process := lake.open())
        found = lake.loaded(session, process)
        service.append_event(found, lake.event("again", parts=[image(1)]))
        lake.lake.sessions.roll_up(key_of(session), force=True)
        service = lake.service_of(process := lake.open())
        found = lake.loaded(session, process)
        service.append_event(found, lake.event("again", parts=[image(1)]))
        assert len(lake.objects) == 1
        assert len(lake.loaded(session).events) == 4

    def test_commits_packs_and_runs_have_the_column_only_where_it_is_needed(
        self, lake: PayloadLake
    ) -> None:
        """An app without payloads has objects that every version reads."""
        for app in ("plain", "pictures"):
            session = lake.create(app_name=app)
            lake.show(session, *([image(1)] if app == "pictures" else []))
            lake.lake.sessions.roll_up(key_of(session), force=True)
        compact(lake.open())
        for one in lake.store.list(""):
            if one.key.endswith(".parquet") and ("events" in one.key):
                names = pq.read_schema(pa.BufferReader(lake.store.get(one.key))).names
                is_create = one.key.endswith("1.parquet") and "log" in one.key
                assert ("payloads" in names) == ("pictures" in one.key and not is_create), one.key


class TestSweep:
    """What nothing refers to goes when it is old, and nothing else."""

    def test_what_is_referred_to_stays(self, lake: PayloadLake) -> None:
        """By a commit, a rollup, a pack; however old."""
        session = lake.create()
        lake.show(session, image(1))
        assert lake.swept() == lake.swept() == 0
        lake.lake.sessions.roll_up(key_of(session), force=True)
        assert lake.swept() == lake.swept() == 0
        compact(lake.open())
        assert lake.swept() == lake.swept() == 0
        assert lake.loaded(session).events == session.events

    def test_what_a_crash_between_payload_and_commit_has_left_goes(self, lake: PayloadLake) -> None:
        """Not before it is older than the grace."""
        session = lake.create()
        process = lake.open(FailingStore(lake.store, Nth("put", holding=commit_key(LOG, 2))))
        with pytest.raises(StorageError):
            lake.service_of(process).append_event(
                lake.loaded(session, process), lake.event("look", parts=[image(1)])
            )
        assert len(lake.objects) == 1
        lake.clock.advance(GRACE - 60)
        assert sweep(lake.open()).objects == 0
        assert lake.swept() == 1
        lake.show(session, image(1))
        assert len(lake.objects) == 1

    def test_what_is_not_ours_stays(self, lake: PayloadLake) -> None:
        """Strays are nobody's."""
        lake.create()
        for key in (f"{OBJECTS}app={APP}/stray", f"{OBJECTS}app={APP}/user=a/session=b/c/d"):
            lake.store.put_if_absent(key, b"x")
        assert lake.swept() == 0

    @pytest.mark.parametrize("packs", [True, False])
    def test_what_a_deleted_session_had_goes(self, lake: PayloadLake, packs: bool) -> None:
        """When its end is old, whether jobs have packed it or not; what began anew stays."""
        session = lake.create()
        lake.show(session, image(1))
        if packs:
            compact(lake.open())
        lake.service.delete_session(app_name=APP, user_id=USER, session_id="s1")
        if packs:
            compact(lake.open())
        lake.clock.advance(GRACE - 60)
        assert sweep(lake.open()).deleted.get("payloads") is None
        again = lake.create()
        lake.show(again, image(2))
        assert lake.swept() == 1
        assert [lake.store.get(key) for key in lake.objects] == [bytes_of(2)]
        assert lake.loaded(again).events == again.events

    def test_what_pruned_events_had_goes_a_grace_later(self, lake: PayloadLake) -> None:
        """Readers of before have the time; what a later event has too stays."""
        session = lake.create()
        lake.show(session, image(1), image(2))
        lake.pass_days(100)
        lake.show(session, image(2))
        assert prune_events(lake.open())["deleted_count"] == 1
        lake.clock.advance(GRACE - 60)
        assert sweep(lake.open()).deleted.get("payloads") is None
        assert len(lake.objects) == 2
        assert lake.swept() == 1
        assert [lake.store.get(key) for key in lake.objects] == [bytes_of(2)]
        assert lake.loaded(session).events[-1] == session.events[-1]
        assert check(lake.open(read_only=True), deep=True).healthy

    def test_a_dry_run_only_counts(self, lake: PayloadLake) -> None:
        """As of all else."""
        lake.show(lake.create(), image(1))
        lake.service.delete_session(app_name=APP, user_id=USER, session_id="s1")
        lake.pass_grace()
        report = sweep(lake.open(), dry_run=True)
        assert report.deleted["payloads"].objects == 1
        assert report.deleted["payloads"].bytes == 500
        assert len(lake.objects) == 1

    def test_without_a_grace_all_goes_at_once(self, lake: PayloadLake) -> None:
        """Who has the lake alone may say so."""
        lake.show(lake.create(), image(1))
        lake.service.delete_session(app_name=APP, user_id=USER, session_id="s1")
        sweep(lake.open(), grace=0)
        assert lake.objects == []

    def test_a_damaged_log_keeps_what_it_may_refer_to(self, lake: PayloadLake) -> None:
        """Nobody can tell."""
        lake.show(lake.create(), image(1))
        lake.store.delete(commit_key(LOG, 2))
        lake.store.put_if_absent(commit_key(LOG, 2), b"damaged")
        lake.pass_grace()
        report = sweep(lake.open())
        assert (report.failures, len(lake.objects)) == (1, 1)


class TestErase:
    """Nothing of a user is left beside events."""

    def test_all_objects_go_and_that_is_proven(self, lake: PayloadLake) -> None:
        """Packed or not, of sessions that were deleted before, and of crashes."""
        for number in range(3):
            lake.show(lake.create(f"s{number}"), image(number))
        other = lake.create(user_id="ben")
        lake.show(other, image(9))
        compact(lake.open())
        lake.service.delete_session(app_name=APP, user_id=USER, session_id="s0")
        lake.store.put_if_absent(f"{OBJECTS}app={APP}/user={USER}/session=x/{'0' * 16}/x", b"x")
        receipt = erase_user(lake.open(), APP, USER)
        assert len([key for key in receipt.removed if key.startswith(OBJECTS)]) == 4
        assert receipt.verify(lake.open(read_only=True)) == ()
        assert [lake.store.get(key) for key in lake.objects] == [bytes_of(9)]
        assert receipt.finish(lake.open()).status == "done"
        assert lake.loaded(other).events == other.events

    def test_what_lands_late_goes_when_it_is_finished(self, lake: PayloadLake) -> None:
        """And what the user began since stays, under the same id too."""
        lake.show(lake.create(), image(1))
        receipt = erase_user(lake.open(), APP, USER)
        late = f"{OBJECTS}app={APP}/user={USER}/session=s1/{'0' * 16}/x"
        lake.store.put_if_absent(late, b"x")
        assert receipt.verify(lake.open(read_only=True)) == (late,)
        again = lake.create()
        lake.show(again, image(2))
        receipt = receipt.finish(lake.open())
        lake.pass_grace()
        sweep(lake.open())
        assert receipt.verify(lake.open(read_only=True)) == ()
        assert [lake.store.get(key) for key in lake.objects] == [bytes_of(2)]
        assert lake.loaded(again).events == again.events


class TestCheckAndStats:
    """What is missing is told, and what is there is counted."""

    @pytest.mark.parametrize("packs", [True, False])
    @pytest.mark.parametrize("damage", ["gone", "shorter", "other bytes"])
    def test_a_check_tells_of_bytes_that_are_lost(
        self, lake: PayloadLake, damage: str, packs: bool
    ) -> None:
        """By their existence and size, and, when asked to, by their digest."""
        lake.show(lake.create(), image(1))
        if packs:
            compact(lake.open())
        (key,) = lake.objects
        lake.store.delete(key)
        if damage != "gone":
            lake.store.put_if_absent(key, bytes_of(2, 499 if damage == "shorter" else 500))
        for deep in (False, True):
            report = check(lake.open(read_only=True), deep=deep)
            found = [(it.kind, it.key) for it in report.findings if it.severity == "lost"]
            is_seen = deep or damage != "other bytes"
            assert found == ([("damaged payload", key)] if is_seen else [])

    def test_what_nobody_needs_is_no_finding(self, lake: PayloadLake) -> None:
        """Of a deleted session nothing has to be there."""
        lake.show(lake.create(), image(1))
        lake.service.delete_session(app_name=APP, user_id=USER, session_id="s1")
        lake.swept()
        assert check(lake.open(read_only=True)).healthy

    def test_stats_count_them(self, lake: PayloadLake) -> None:
        """Of the app and of each user."""
        lake.show(lake.create(), image(1), image(2, 600))
        (app,) = stats(lake.open(read_only=True)).apps
        assert (app.total.payloads, app.total.payload_bytes) == (2, 1_100)
        assert app.users[USER].payload_bytes == 1_100


def test_sql_tells_where_they_are_and_reads_none_of_them(lake: PayloadLake, tmp_path: Path) -> None:
    """Fresh and packed, of apps with and without, in one question; from a cache of rows too."""
    session = lake.create()
    lake.show(session, image(1, 50_000))
    plain = lake.create(app_name="plain")
    lake.say(plain, "nothing to see")
    (key,) = lake.objects
    expected = [("plain", None, None), (APP, f"{lake.store.url}/{key}", 50_000)]
    query = """
        select app_name, payloads[1].uri, payloads[1].size from events order by app_name
    """
    for act in (lambda _lake: None, partial(compact), lambda _lake: lake.say(plain, "more")):
        act(lake.lake)
        for reader in (lake.lake, *(lake.open(catalog_cache=tmp_path) for _ in range(2))):
            found = reader.sql(query).fetchall()
            assert [*dict.fromkeys(found)] == expected
            ((size,),) = reader.sql("select max(strlen(event_json)) from events").fetchall()
            assert size < 1_000
            if reader is not lake.lake:
                reader.close()


def test_a_uri_is_what_fsspec_opens(tmp_path: Path) -> None:
    """Whatever letters the ids, the name and the folder have."""
    lake = PayloadLake(LocalStore(tmp_path / "my lake 100%"))
    lake.show(lake.create("A/b %41", user_id="Änn"), image(1, display_name="Köln %41 #1.png"))
    ((uri,),) = lake.lake.sql("select payloads[1].uri from events").fetchall()
    with fsspec.open(uri) as file:
        assert file.read() == bytes_of(1)
