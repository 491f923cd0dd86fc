"""Appends, sweeps, prunes and readers that meet over bytes beside events, and stand still."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import pytest
from google.adk.sessions import Session
from typing_extensions import override

from lakestore import LakeSessionService
from lakestore.adk.uris import Durability
from lakestore.errors import AlreadyExistsError, StorageError, UnknownOutcomeError
from lakestore.jobs import prune_events, sweep
from lakestore.log.keys import SessionKey, commit_key
from lakestore.storage import ObjectStore, Upload
from tests.support.aging import APP, USER
from tests.support.faulty_store import AroundStore, FailingStore, InterruptedStore, Kind, Nth
from tests.support.payloads import GRACE, OBJECTS, PayloadLake, image, made_lake

R = TypeVar("R")

LIMIT = 300.0
LOG = SessionKey(APP, USER, "s1").log


@pytest.fixture
def lake() -> Iterator[PayloadLake]:
    """A lake in memory whose services move bytes out of events."""
    made = made_lake()
    yield made
    made.lake.close()


class HeldDeletes(AroundStore):
    """Does what it is asked to delete beside events when `release` is called."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self._held: list[Callable[[], object]] = []

    @override
    def around(self, kind: Kind, key: str, call: Callable[[], R]) -> R:
        if kind == "delete" and key.startswith(OBJECTS):
            self._held.append(call)
            return cast(R, None)
        return call()

    def release(self) -> int:
        """Let the requests arrive; return how many they are."""
        for call in self._held:
            call()
        return len(self._held)


class TellingStore(AroundStore):
    """Notes the content type of each upload."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.content_types: list[str] = []

    @override
    def open_upload(self, key: str, content_type: str) -> Upload:
        self.content_types.append(content_type)
        return super().open_upload(key, content_type)


class TestRaces:
    """An event that was acknowledged has its bytes, whoever stalls."""

    def stalled(
        self, lake: PayloadLake, store: ObjectStore
    ) -> tuple[Session, Callable[[], object]]:
        """Return a session, and what appends an image to it through a store."""
        session, process = lake.create(), lake.open(store)
        found = lake.loaded(session, process)
        event = lake.event("look", parts=[image(1)])
        return found, lambda: lake.service_of(process).append_event(found, event)

    def test_an_append_that_stalls_for_less_than_the_grace_is_safe(self, lake: PayloadLake) -> None:
        """What is younger than that is not looked at."""

        def stall() -> None:
            lake.clock.advance(GRACE - LIMIT - 60)
            sweep(lake.open())

        nth = Nth("put", holding=commit_key(LOG, 2))
        session, append = self.stalled(lake, InterruptedStore(lake.store, nth, stall))
        append()
        assert lake.loaded(session).events == session.events

    def test_an_append_that_stalls_for_longer_is_not_acknowledged(self, lake: PayloadLake) -> None:
        """What was swept is put again as what it was, so that the event is whole all the same."""

        def stall() -> None:
            assert lake.swept() == 1

        nth = Nth("put", holding=commit_key(LOG, 2))
        store = TellingStore(InterruptedStore(lake.store, nth, stall))
        session, append = self.stalled(lake, store)
        with pytest.raises(UnknownOutcomeError, match="reload"):
            append()
        assert store.content_types == ["image/png"] * 2
        assert session.events == []
        (event,) = lake.loaded(session).events
        assert event.content is not None
        assert event.content.parts is not None
        assert event.content.parts[0] == image(1)

    def test_a_stall_that_cannot_be_proven_harmless_is_not_acknowledged(
        self, lake: PayloadLake
    ) -> None:
        """The commit stands, so that it is no failure that stored nothing."""
        nth = Nth("put", holding=commit_key(LOG, 2))
        slow = InterruptedStore(lake.store, nth, lambda: lake.clock.advance(GRACE))
        _, append = self.stalled(lake, FailingStore(slow, Nth("list", holding=OBJECTS)))
        with pytest.raises(UnknownOutcomeError):
            append()

    def test_a_sweep_that_was_overtaken_takes_nothing_acknowledged(self, lake: PayloadLake) -> None:
        """It has seen no commit; its request to delete arrives when the commit has landed."""
        held = HeldDeletes(lake.store)

        def stall() -> None:
            lake.pass_grace()
            sweep(lake.open(held))

        nth = Nth("put", holding=commit_key(LOG, 2))
        session, append = self.stalled(lake, InterruptedStore(lake.store, nth, stall))
        with pytest.raises(UnknownOutcomeError, match="reload"):
            append()
        assert held.release() == 1
        assert session.events == []
        assert len(lake.loaded(session).events) == 1

    def test_an_append_that_refers_to_what_is_pruned_meanwhile(self, lake: PayloadLake) -> None:
        """It is acknowledged only where the older event is still there."""
        for prunes in (True, False):
            lake = made_lake()
            session = lake.create()
            lake.show(session, image(1))
            lake.pass_days(100)
            lake.say(session, "later")

            def stall(lake: PayloadLake = lake, prunes: bool = prunes) -> None:
                if prunes:
                    prune_events(lake.open())
                lake.swept()

            nth = Nth("put", holding=commit_key(LOG, 4))
            process = lake.open(InterruptedStore(lake.store, nth, stall))
            found = lake.loaded(session, process)
            event = lake.event("look", parts=[image(1)])
            if prunes:
                with pytest.raises(UnknownOutcomeError, match="reload"):
                    lake.service_of(process).append_event(found, event)
            else:
                lake.service_of(process).append_event(found, event)
            assert lake.loaded(session).events[-1] == event
            assert len(lake.objects) == 1

    def test_what_was_pruned_is_not_referred_to_again(self, lake: PayloadLake) -> None:
        """Though a process has it cached, which has written nothing since, or goes on writing."""
        session = lake.create()
        lake.show(session, image(1))
        lake.pass_days(100)
        lake.say(session, "later")
        prune_events(lake.open())
        assert lake.swept() == 1
        lake.show(session, image(1))
        assert lake.loaded(session).events[-1] == session.events[-1]
        assert len(lake.objects) == 1

    def test_a_view_that_is_always_young_knows_what_was_pruned(self, lake: PayloadLake) -> None:
        """Of a session that one process keeps warm no manifest is read for hours."""
        session = lake.create()
        lake.show(session, image(1))
        lake.pass_days(100)
        session = lake.reread(session)
        lake.say(session, "later")
        prune_events(lake.open())
        for _ in range(40):
            lake.clock.advance(LIMIT - 100)
            session = lake.reread(session)
        sweep(lake.open())
        assert lake.objects == []
        lake.show(session, image(1))
        assert lake.loaded(session).events[-1] == session.events[-1]

    def test_a_reader_that_finds_them_gone_begins_again(
        self, lake: PayloadLake, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The events were pruned, or the session was deleted: no error is worth telling."""
        session = lake.create()
        lake.show(session, image(1))
        lake.pass_days(100)
        lake.say(session, "later")

        def prune() -> None:
            prune_events(lake.open())
            lake.swept()

        with caplog.at_level(logging.ERROR):
            reader = lake.open(InterruptedStore(lake.store, Nth("get", holding=OBJECTS), prune))
            found = lake.loaded(session, reader)
            assert [event.author for event in found.events] == ["lakestore", "user"]
        assert caplog.records == []


class TestRefusals:
    """Bytes that could not be stored beside an event end nothing but the try."""

    @pytest.mark.parametrize("durability", ["append", "turn"])
    def test_a_name_that_is_taken_is_no_clash_of_events(
        self, lake: PayloadLake, durability: Durability
    ) -> None:
        """A resent request meets itself, and what it stored cannot be read back: try again."""
        taken = Nth("put", holding=OBJECTS)
        process = lake.open(FailingStore(lake.store, taken, AlreadyExistsError))
        service = LakeSessionService(process, durability=durability, payload_threshold=10).sync
        session = service.create_session(app_name=APP, user_id=USER, session_id="s1")
        said = [lake.event("first"), lake.event("look", parts=[image(1)])]
        if durability == "turn":
            for event in said:
                service.append_event(session, event)
            with pytest.raises(StorageError, match="a payload could not be stored"):
                service.flush()
            service.flush()
        else:
            with pytest.raises(StorageError, match="a payload could not be stored"):
                service.append_events(session, said)
            service.append_events(session, said)
        assert [it.id for it in lake.loaded(session).events] == [it.id for it in said]
