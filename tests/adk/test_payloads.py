"""Large bytes of events are stored beside them, and events come back as they were."""

from __future__ import annotations

import asyncio
import base64
import logging
from dataclasses import replace
from typing import Any

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestore import Lake, LakeSessionService
from lakestore.errors import StorageError
from lakestore.jobs import History, compact, rebuild_memory
from lakestore.log.keys import SessionKey, commit_key
from lakestore.storage import MemoryStore
from lakestore.tables.events import decode, encode_commit
from tests.support import strategies
from tests.support.aging import APP, USER
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FailingStore, LostReplyStore, Nth
from tests.support.payloads import OBJECTS, THRESHOLD, PayloadLake, bytes_of, image

KEY = SessionKey(APP, USER, "s1")


@pytest.fixture
def lake() -> PayloadLake:
    """A lake in memory whose services move bytes out of events."""
    clock = ManualClock()
    return PayloadLake(MemoryStore(clock=clock), clock)


def stored(lake: PayloadLake) -> int:
    """Return how many bytes of logs there are."""
    return sum(one.size for one in lake.store.list("events/log/"))


def nested() -> st.SearchStrategy[dict[str, Any]]:
    """Generate what a tool may answer: inline data anywhere, of both alphabets, and odd texts."""
    bodies = st.binary(max_size=60)
    data = st.one_of(
        bodies.map(lambda it: base64.b64encode(it).decode()),
        bodies.map(lambda it: base64.urlsafe_b64encode(it).decode()),
        bodies.map(lambda it: base64.b64encode(it).decode().rstrip("=")),
        st.text(max_size=20),
    )
    holders = st.fixed_dictionaries({"data": data, "mime_type": st.just("audio/wav")})
    names = st.sampled_from(["inlineData", "inline_data", "a/b", "~"])
    return st.dictionaries(names, holders | st.lists(holders, max_size=2), max_size=3)


class TestEvents:
    """What is stored beside events is in them when they are read."""

    @settings(max_examples=40)
    @given(
        st.lists(strategies.events(), min_size=1, max_size=4),
        nested(),
        st.integers(0, 45),
        st.booleans(),
    )
    def test_generated_sessions_come_back_equal(
        self, events: list[Event], answer: dict[str, Any], threshold: int, packs: bool
    ) -> None:
        """Whatever they hold, wherever the threshold is, by services with and without one."""
        lake = PayloadLake(MemoryStore())
        lake.threshold = threshold
        service = lake.service_of(lake.lake)
        response = types.FunctionResponse(name="f", response=answer)
        content = types.Content(parts=[types.Part(function_response=response)])
        events = [*events, Event(author="agent", content=content)]
        session = service.create_session(app_name=APP, user_id=USER)
        service.append_events(session, events)
        if packs:
            compact(lake.lake)
        found = lake.loaded(session)
        assert found.events == session.events
        plain = LakeSessionService(lake.open(read_only=True)).sync
        assert plain.get_user_events(app_name=APP, user_id=USER) == sorted(
            session.events, key=lambda event: event.timestamp
        )

    @pytest.mark.parametrize("size", [0, 1, THRESHOLD, THRESHOLD + 1, 100_000])
    def test_only_more_than_the_threshold_is_moved(self, lake: PayloadLake, size: int) -> None:
        """As many bytes stay, and an empty image does."""
        session = lake.create()
        lake.show(session, image(size=size))
        assert len(lake.objects) == (size > THRESHOLD)
        assert lake.loaded(session).events == session.events
        assert stored(lake) < 10_000

    def test_the_object_is_the_bytes_under_a_name_that_people_know(self, lake: PayloadLake) -> None:
        """Its folder names the session, its name what was shown."""
        session = lake.create()
        lake.show(session, image(1, display_name="Ausflug nach/Köln 1.JPG"), image(2))
        lake.show(session, image(3, mime_type="audio/mpeg"), image(4, mime_type="x/unknown"))
        prefix = f"{OBJECTS}app={APP}/user={USER}/session=s1/"
        names = {
            lake.store.get(key): key.removeprefix(prefix).partition("/")[2] for key in lake.objects
        }
        assert names == {
            bytes_of(1): "Köln_1.JPG",
            bytes_of(2): "image.png",
            bytes_of(3): "audio.mp3",
            bytes_of(4): "x.bin",
        }

    def test_an_answer_of_a_tool_and_what_stands_deeper_is_moved_too(
        self, lake: PayloadLake
    ) -> None:
        """Inline data of a function response's parts, and of what a tool answers."""
        session = lake.create()
        text = base64.b64encode(bytes_of(2)).decode()
        blob = types.FunctionResponseBlob(data=bytes_of(1), mime_type="image/png")
        response = types.FunctionResponse(
            name="paint",
            response={"deep": [{"inline_data": {"data": text}}], "data": text},
            parts=[types.FunctionResponsePart(inline_data=blob)],
        )
        lake.say(session, None, parts=[types.Part(function_response=response)])
        assert {lake.store.get(key) for key in lake.objects} == {bytes_of(1), bytes_of(2)}
        assert lake.loaded(session).events == session.events

    def test_a_turn_that_is_held_is_moved_when_it_is_written(self, lake: PayloadLake) -> None:
        """With `durability="turn"` nothing is stored before, and then all of it."""
        service = LakeSessionService(lake.lake, durability="turn", payload_threshold=THRESHOLD).sync
        session = lake.create()
        service.append_event(session, lake.event("look", parts=[image(1)]))
        assert lake.objects == []
        service.flush()
        assert len(lake.objects) == 1
        assert lake.loaded(session).events == session.events

    def test_the_async_service_does_the_same(self, lake: PayloadLake) -> None:
        """What is awaited is stored by the same code."""

        async def talk() -> None:
            service = LakeSessionService(lake.lake, payload_threshold=THRESHOLD)
            session = await service.create_session(app_name=APP, user_id=USER, session_id="s1")
            await service.append_event(session, lake.event("look", parts=[image(1)]))
            found = await service.get_session(app_name=APP, user_id=USER, session_id="s1")
            assert found is not None
            assert found.events == session.events

        asyncio.run(talk())
        assert len(lake.objects) == 1

    def test_few_events_fetch_few_bytes(self, lake: PayloadLake) -> None:
        """Of events that are not asked for nothing is fetched, and nothing twice."""
        session = lake.create()
        for number in range(5):
            lake.show(session, image(number))
        reader = lake.open(read_only=True)
        service = lake.service_of(reader)
        named = {"app_name": APP, "user_id": USER, "session_id": "s1"}
        service.get_session(**named, config=GetSessionConfig(num_recent_events=0))
        before = reader.metrics.requests
        service.get_session(**named, config=GetSessionConfig(num_recent_events=2))
        assert reader.metrics.requests_since(before)["GET"] == 1 + 2
        before = reader.metrics.requests
        service.get_session(**named, config=GetSessionConfig(num_recent_events=2))
        assert reader.metrics.requests_since(before)["GET"] == 1


class TestStoredOnce:
    """The same bytes are stored once a session."""

    def test_ten_times_in_ten_events(self, lake: PayloadLake) -> None:
        """Also in one event, in one commit, and by another alphabet or type."""
        session = lake.create()
        for _ in range(8):
            lake.show(session, image(1), image(1))
        events = [lake.event("more", parts=[image(1, mime_type="image/gif")]) for _ in range(2)]
        lake.service.append_events(session, events)
        assert len(lake.objects) == 1
        assert lake.loaded(session).events == session.events

    def test_what_it_costs(self, lake: PayloadLake) -> None:
        """A request for new bytes; for known ones a look at manifests, at most once a view age."""
        session, costs = lake.create(), []
        for seed in (1, 2, 1, 2, 1):
            lake.clock.advance(200)
            before = lake.lake.metrics.requests
            lake.show(session, image(seed))
            costs.append(dict(lake.lake.metrics.requests_since(before)))
        new, known, looked = {"PUT": 2}, {"PUT": 1}, {"PUT": 1, "LIST": 1}
        assert costs == [new, new, looked, known, looked]

    def test_by_a_process_that_has_read_the_session(self, lake: PayloadLake) -> None:
        """What it has read tells it where they are."""
        session = lake.create()
        lake.show(session, image(1))
        service = lake.service_of(lake.open())
        found = service.get_session(app_name=APP, user_id=USER, session_id="s1")
        assert found is not None
        service.append_event(found, lake.event("again", parts=[image(1)]))
        assert len(lake.objects) == 1

    def test_sessions_share_nothing(self, lake: PayloadLake) -> None:
        """Each goes with all that is its own."""
        for name in ("s1", "s2"):
            lake.show(lake.create(name), image(1))
        assert len(lake.objects) == 2

    def test_a_life_after_a_deletion_shares_nothing_with_it(self, lake: PayloadLake) -> None:
        """What the former one refers to goes with it."""
        lake.show(lake.create(), image(1))
        lake.service.delete_session(app_name=APP, user_id=USER, session_id="s1")
        again = lake.create()
        lake.show(again, image(1))
        assert len(lake.objects) == 2
        assert lake.loaded(again).events == again.events

    def test_two_writers_store_their_own(self, lake: PayloadLake) -> None:
        """One of them is stale; what it has stored is nobody's, and the other's event is whole."""
        session, process = lake.create(), lake.open()
        other = lake.loaded(session, process)
        lake.show(session, image(1))
        with pytest.raises(StaleSessionError):
            lake.service_of(process).append_event(other, lake.event("late", parts=[image(1)]))
        assert len(lake.objects) == 2
        assert lake.loaded(session).events == session.events


class TestRedelivery:
    """An event that is sent again is the same event, wherever its bytes are."""

    @pytest.mark.parametrize("again", [THRESHOLD, None, 10_000])
    @pytest.mark.parametrize("first", [THRESHOLD, None])
    def test_it_is_recognised_by_every_setting(
        self, lake: PayloadLake, first: int | None, again: int | None
    ) -> None:
        """A copy of a session that has not seen the reply sends it again."""
        session = lake.create()
        copies = [lake.loaded(session, lake.open()) for _ in range(2)]
        event = lake.event("look", parts=[image(1)])
        for threshold, copy in zip((first, again), copies, strict=True):
            lake.threshold = threshold
            lake.service_of(lake.open()).append_event(copy, event.model_copy(deep=True))
        assert len(lake.loaded(session).events) == 1
        assert copies[0].events == copies[1].events == lake.loaded(session).events

    def test_the_last_event_is_recognised_in_a_session_without_events(
        self, lake: PayloadLake
    ) -> None:
        """By what is cached of the last commit."""
        session = lake.create()
        event = lake.show(session, image(1))
        session.events.clear()
        lake.service.append_event(session, event.model_copy(deep=True))
        assert len(lake.loaded(session).events) == 1

    def test_other_bytes_are_another_event(self, lake: PayloadLake) -> None:
        """Of the same length too."""
        session = lake.create()
        copy = lake.loaded(session, lake.open())
        event, late = lake.event("look", parts=[image(1)]), lake.event("and", parts=[image(3)])
        lake.service.append_events(session, [event, late])
        other = event.model_copy(update={"content": types.Content(parts=[image(2)])}, deep=True)
        service = lake.service_of(lake.open())
        with pytest.raises(StaleSessionError):
            service.append_event(copy, other)
        with pytest.raises(AlreadyExistsError):
            service.append_events(copy, [late, other])

    def test_events_of_the_commit_that_was_found_show_with_their_bytes(
        self, lake: PayloadLake
    ) -> None:
        """Also those that the caller has not sent again."""
        session = lake.create()
        copy = lake.loaded(session, lake.open())
        events = [lake.event("look", parts=[image(number)]) for number in (1, 2)]
        lake.service.append_events(session, events)
        lake.service_of(lake.open()).append_event(copy, events[0].model_copy(deep=True))
        assert copy.events == session.events

    @pytest.mark.parametrize("outcome", ["landed", "resent"])
    @pytest.mark.parametrize("holding", [OBJECTS, "events/log/"])
    def test_lost_replies_store_one_event(self, outcome: Any, holding: str) -> None:
        """Of the bytes and of the commit; a retry of a failed one too."""
        store = MemoryStore()
        nth = Nth("put", nth=1 if holding == OBJECTS else 2, holding=holding)
        lake = PayloadLake(LostReplyStore(store, nth, outcome))
        session = lake.create()
        event = lake.event("look", parts=[image(1)])
        try:
            lake.service.append_event(session, event)
        except StorageError:
            lake.service.append_event(session, event)
        assert [it.events for it in [lake.loaded(session)]] == [[event]]


class TestFailures:
    """What fails leaves no event without its bytes."""

    def test_nothing_is_committed_without_the_bytes(self) -> None:
        """A store that refuses them refuses the event, and the next try stores both."""
        store = MemoryStore()
        lake = PayloadLake(FailingStore(store, Nth("put", holding=OBJECTS)))
        session = lake.create()
        with pytest.raises(StorageError):
            lake.show(session, image(1))
        assert session.events == lake.loaded(session).events == []
        lake.show(session, image(1))
        assert lake.loaded(session).events == session.events

    @pytest.mark.parametrize("damage", ["gone", "other bytes"])
    def test_what_is_lost_is_left_out_and_takes_nothing_along(
        self, lake: PayloadLake, damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The event comes back without these bytes, with one error that names the object."""
        session = lake.create()
        lake.show(session, image(1), image(2))
        lost = next(key for key in lake.objects if lake.store.get(key) == bytes_of(1))
        lake.store.delete(lost)
        if damage == "other bytes":
            lake.store.put_if_absent(lost, bytes_of(3))
        with caplog.at_level(logging.ERROR):
            found = lake.loaded(session)
        parts = found.events[0].content.parts or []  # type: ignore[union-attr]
        data = [part.inline_data.data for part in parts if part.inline_data]
        assert data == [b"", bytes_of(2)]
        (record,) = caplog.records
        assert lost in record.getMessage()

    def test_a_reference_that_leads_nowhere_takes_nothing_along(
        self, lake: PayloadLake, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As another program may have written it."""
        session = lake.create()
        lake.show(session, image(1))
        key = commit_key(KEY.log, 2)
        (row,) = decode(lake.store.get(key))
        (payload,) = row.payloads
        lake.store.delete(key)
        odd = replace(row, payloads=(replace(payload, path="/nowhere"),))
        lake.store.put_if_absent(key, encode_commit([odd]))
        with caplog.at_level(logging.ERROR):
            assert len(lake.loaded(session).events) == 1
        assert payload.key in caplog.text

    def test_an_extractor_gets_events_with_empty_data(self, lake: PayloadLake) -> None:
        """A rebuild of memory reads what people said, and none of the bytes."""
        seen: list[Event] = []

        def extract(history: History) -> list[MemoryEntry]:
            seen.extend(history.events)
            return []

        lake.show(lake.create(), image(1))
        process = lake.open()
        rebuild_memory(process, APP, extractor=extract)
        parts = seen[0].content.parts or []  # type: ignore[union-attr]
        assert [part.inline_data.data for part in parts if part.inline_data] == [b""]
        assert any(part.text == "look" for part in parts)


def test_the_lake_answers_with_rows_as_they_are_stored(lake: PayloadLake) -> None:
    """`Lake.user_events` tells where the bytes are, and has none of them."""
    session = lake.create()
    lake.show(session, image(1, 90_000))
    reader: Lake = lake.open(read_only=True)
    table = reader.user_events(APP, USER)
    ((payload,),) = table["payloads"].to_pylist()
    assert [payload["key"], payload["size"]] == [lake.objects[0], 90_000]
    assert len(table["event_json"][0].as_py()) < 1_000
