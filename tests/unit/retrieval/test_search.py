"""`lake.search`: what was said and what is remembered, found as the lake is now."""

from __future__ import annotations

import asyncio
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lakestore import Lake, LakeMemoryService, LakeSessionService
from lakestore.adk.sync import SyncSessionService
from lakestore.errors import InputError
from lakestore.jobs import compact, erase_user, prune_events, sweep
from lakestore.storage import MemoryStore
from lakestore.tables.words import query_words, searchable_words
from tests.support.clocks import ManualClock
from tests.support.searching import hashed

APP = "a"
GRACE = 3_601.0


def said(text: str, at: float = 1.0, **fields: Any) -> Event:
    """Return an event with that text."""
    content = types.Content(parts=[types.Part(text=text)])
    return Event(**{"author": "user", "timestamp": at, "content": content, **fields})


@pytest.fixture
def lake() -> Iterator[Lake]:
    """An empty lake."""
    with Lake(MemoryStore("searched")) as made:
        yield made


def talk(lake: Lake, user_id: str, session_id: str, *events: Event, app_name: str = APP) -> Session:
    """Store a session with these events."""
    service = LakeSessionService(lake).sync
    session = service.create_session(app_name=app_name, user_id=user_id, session_id=session_id)
    service.append_events(session, list(events))
    return session


def texts(lake: Lake, query: str, **options: Any) -> list[str]:
    """Return the texts that are found, in order."""
    found = lake.search(query, **{"app_name": APP, **options})
    return [text for (text,) in found.select("text").fetchall()]


SCRIPTS = [
    ("東京でJavaを学ぶ", "Java"),
    ("東京でJavaを学ぶ", "東京"),
    ("부산에 살아요", "부산"),
    ("مرحبا بك", "مرحبا"),
    ("Die Straße nach Faro", "straße"),
    (unicodedata.normalize("NFD", "ein café in Faro"), "CAFÉ"),
    ("ein café in Porto", unicodedata.normalize("NFD", "café")),
    ("สวัสดีครับ", "สวัสดี"),
]


@pytest.mark.parametrize("over", ["events", "memory"])
def test_every_script_is_found(lake: Lake, over: str) -> None:
    """Each line by its word, by every ranking; a part of a word finds nothing; packed as fresh."""
    memory = LakeMemoryService(lake).sync
    session = talk(lake, "u", "s", *(said(text) for text in dict(SCRIPTS)))
    memory.add_session_to_memory(session)
    for _ in range(2):
        for ranking in ("bm25", "overlap"):
            for text, query in SCRIPTS:
                found = texts(lake, query, over=over, ranking=ranking, language=None, user_id="u")
                assert text in found
            assert texts(lake, "ava", over=over, ranking=ranking) == []
        compact(lake)


@pytest.mark.parametrize("ranking", ["bm25", "overlap"])
def test_the_best_come_first(lake: Lake, ranking: Any) -> None:
    """Of a thousand that share a word those with more of the query, as many as are asked for."""
    rows = [said(f"the refund of order {n} for the guest", n) for n in range(200)]
    talk(lake, "u", "s", *rows)
    query = "the refund for order 77"
    found = lake.search(query, app_name=APP, ranking=ranking)
    assert len(found) == 20
    best = found.fetchall()[0]
    assert best[found.columns.index("text")] == "the refund of order 77 for the guest"
    assert [score for (score,) in found.select("score").fetchall()] == sorted(
        (score for (score,) in found.select("score").fetchall()), reverse=True
    )
    first, more = texts(lake, query, limit=3), texts(lake, query, limit=5)
    assert (len(first), more[:3]) == (3, first)


def test_an_answer_tells_where_it_was_found(lake: Lake) -> None:
    """Ids, time and author in columns with types, as pandas, polars, Arrow and rows have them."""
    at = 1_700_000_000.25
    empty = lake.search("refund", app_name=APP)
    long = said("lorem " * 60 + "a refund " + "ipsum " * 60, at, id="e1", author="guide")
    talk(lake, "ana", "s1", long)
    found = lake.search("refunds", app_name=APP)
    assert (found.columns, found.types) == (empty.columns, empty.types)
    assert empty.fetchall() == []
    (row,) = found.pl().to_dicts()
    assert (row["user_id"], row["session_id"], row["event_id"]) == ("ana", "s1", "e1")
    assert (row["author"], row["event_time"].timestamp()) == ("guide", at)
    assert "a refund" in row["snippet"]
    assert len(row["snippet"]) < 170
    assert found.df()["version"].tolist() == [2]
    assert found.to_arrow_table().num_rows == 1
    joined = found.filter("score > 0").project("user_id")
    assert joined.fetchall() == [("ana",)]


def test_where_nothing_is_nothing_is_found(lake: Lake) -> None:
    """In an empty lake, of a session that was deleted, of an app and user that nobody knows."""

    def nothing() -> None:
        for over in ("events", "memory"):
            for user_id in (None, "u"):
                assert texts(lake, "tea", over=over, user_id=user_id) == []

    nothing()
    service = LakeSessionService(lake).sync
    talk(lake, "u", "s", said("tea"))
    talk(lake, "u", "s", said("tea"), app_name="other")
    assert texts(lake, "tea") == ["tea"]
    service.delete_session(app_name=APP, user_id="u", session_id="s")
    nothing()
    compact(lake)
    nothing()
    assert texts(lake, "", app_name="other") == texts(lake, "?!", app_name="other") == []


def test_filters_come_before_the_cut(lake: Lake) -> None:
    """Time, sessions, authors and metadata confine what the best are taken from."""
    talk(lake, "u", "s1", *(said("refund refund", n) for n in range(5)))
    one = said("a refund", 7, author="guide", custom_metadata={"kind": "late", "n": 1})
    talk(lake, "u", "s2", one)
    for narrow in (
        {"since": 4.0},
        {"session_ids": ["s2"]},
        {"authors": ["guide"]},
        {"metadata": {"kind": "late", "n": 1.0}},
    ):
        assert texts(lake, "refund", limit=1, **narrow) == ["a refund"], narrow
    assert len(texts(lake, "refund", until=2.0)) == 3


def test_over_memory_a_user_is_shown_the_apps_too(lake: Lake) -> None:
    """As LakeMemoryService finds them; of all users once none is named; never another app's."""
    service = LakeMemoryService(lake).sync

    def add(user_id: str, text: str, scope: Any = "user", app_name: str = APP) -> None:
        entry = MemoryEntry(id=text, content=types.Content(parts=[types.Part(text=text)]))
        memories = [entry]
        service.add_memory(app_name=app_name, user_id=user_id, memories=memories, scope=scope)

    add("ben", "tea in the afternoon", "app")
    add("ana", "tea in the morning")
    add("ben", "tea at night")
    add("ana", "tea elsewhere", app_name="other")
    for ranking in ("overlap", "bm25"):
        own = LakeMemoryService(lake, ranking=ranking).sync
        expected = own.search_memory(app_name=APP, user_id="ana", query="tea").memories
        found = texts(lake, "tea", over="memory", user_id="ana", ranking=ranking, limit=10)
        assert found == [entry.id for entry in expected]
        assert found == ["tea in the morning", "tea in the afternoon"]
    everyone = lake.search("tea", app_name=APP, over="memory").project("scope, user_id, id")
    assert set(everyone.fetchall()) == {
        ("app", None, "tea in the afternoon"),
        ("user", "ana", "tea in the morning"),
        ("user", "ben", "tea at night"),
    }
    service.delete_memory(app_name=APP, user_id="ana", memory_id="tea in the morning")
    assert texts(lake, "tea", over="memory", user_id="ana") == ["tea in the afternoon"]


def test_hybrid_takes_vectors_from_memory_and_makes_those_of_events(lake: Lake) -> None:
    """What has none of the words is found by what it means; each text is embedded once."""
    asked: list[str] = []

    def embedder(given: Any) -> list[list[float]]:
        asked.extend(given)
        return hashed(given)

    session = talk(lake, "u", "s", said("green tea"), said("black coffee"))
    LakeMemoryService(lake, ranking="hybrid", embedder=embedder).sync.add_session_to_memory(session)
    for over in ("memory", "events"):
        asked.clear()
        for _ in range(2):
            found = texts(lake, "tea", over=over, ranking="hybrid", embedder=embedder, user_id="u")
            assert found == ["green tea", "black coffee"]
        assert asked.count("green tea") == (over == "events")


BAD: list[dict[str, Any]] = [
    {"query": 1},
    {"app_name": ""},
    {"user_id": ""},
    {"over": "sessions"},
    {"ranking": "best"},
    {"ranking": "hybrid"},
    {"embedder": "minilm"},
    {"language": "klingon"},
    {"limit": 0},
    {"since": "yesterday"},
    {"session_ids": "s1"},
    {"authors": [1]},
    {"metadata": {"k": object()}},
]


@pytest.mark.parametrize("bad", BAD, ids=[next(iter(one)) for one in BAD])
def test_bad_arguments_are_refused_first(lake: Lake, bad: dict[str, Any]) -> None:
    """One error that names the argument, and no request is made."""
    before = lake.metrics.requests
    with pytest.raises(InputError):
        lake.search(**{"query": "tea", "app_name": APP, **bad})
    assert not any(lake.metrics.requests_since(before).values())


async def test_it_works_in_a_running_loop(lake: Lake) -> None:
    """As in a notebook, without await; and in a thread beside it."""
    talk(lake, "u", "s", said("green tea"))
    assert texts(lake, "tea") == ["green tea"]
    assert await asyncio.to_thread(texts, lake, "tea") == ["green tea"]


def test_a_lake_that_is_read_only_can_be_searched() -> None:
    """Nothing is written, and a small cache keeps no index and changes no answer."""
    store = MemoryStore("shared")
    with Lake(store) as lake:
        talk(lake, "u", "s", said("green tea"))
    with Lake(store, read_only=True, cache_bytes=0) as lake:
        assert texts(lake, "tea") == texts(lake, "tea") == ["green tea"]


def test_while_others_write_and_compact(tmp_path: Path) -> None:
    """Each answer has all that was said before it was asked, once, whatever is packed."""
    folder = tmp_path / "lake"
    Lake.open(folder).close()
    with Lake.open(folder) as lake, Lake.open(folder, read_only=True) as reader:
        service, done, landed = LakeSessionService(lake).sync, threading.Event(), [0]

        def write() -> None:
            try:
                for number in range(60):
                    session = service.create_session(app_name=APP, user_id=f"u{number % 3}")
                    service.append_event(session, said(f"cup {number} of tea", number))
                    landed[0] = number + 1
                    if number % 7 == 6:
                        compact(lake)
            finally:
                done.set()

        writer = threading.Thread(target=write)
        writer.start()
        sizes = []
        while not done.is_set():
            before = landed[0]
            found = texts(reader, "tea", limit=1_000)
            assert len(found) == len(set(found))
            assert {f"cup {number} of tea" for number in range(before)} <= set(found)
            sizes.append(len(found))
        writer.join()
        assert len(texts(reader, "tea", limit=1_000)) == 60
        assert sizes == sorted(sizes)


WORDS = ("tea", "milk", "order", "refund")


class SearchMachine(RuleBasedStateMachine):
    """Sessions come, go on and end, all is packed, pruned and erased; one process searches.

    The model is what each session says, in plain Python: `overlap` counts words.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        store = MemoryStore("machine", clock=self.clock)
        self.lake = Lake(store, clock=self.clock)
        self.reader = Lake(store, clock=self.clock, read_only=True)
        self.said: dict[tuple[str, str], list[tuple[float, str]]] = {}

    @property
    def service(self) -> SyncSessionService:
        return LakeSessionService(self.lake).sync

    @rule(
        user=st.sampled_from(["ana", "ben"]),
        session=st.sampled_from(["s1", "s2"]),
        words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
    )
    def say(self, user: str, session: str, words: list[str]) -> None:
        """A session says something more, and begins with it where there is none."""
        self.clock.advance(1)
        ids: dict[str, Any] = {"app_name": APP, "user_id": user, "session_id": session}
        if (user, session) not in self.said:
            self.service.create_session(**ids)
        found = self.service.get_session(**ids)
        assert found is not None
        text, now = f"{' '.join(words)} {self.clock.wall():.0f}", self.clock.wall()
        self.service.append_event(found, said(text, now))
        self.said.setdefault((user, session), []).append((now, text))

    @rule(user=st.sampled_from(["ana", "ben"]), session=st.sampled_from(["s1", "s2"]))
    def delete(self, user: str, session: str) -> None:
        """A session ends."""
        if self.said.pop((user, session), None) is not None:
            self.service.delete_session(app_name=APP, user_id=user, session_id=session)

    @rule(swept=st.booleans())
    def pack(self, swept: bool) -> None:
        """What is fresh is packed, and what that made needless perhaps swept."""
        compact(self.lake)
        if swept:
            self.clock.advance(GRACE)
            sweep(self.lake)

    @rule()
    def prune(self) -> None:
        """Events of a while ago are cut; each session keeps its last one."""
        self.clock.advance(20 * 86_400)
        prune_events(self.lake, older_than_days=30)
        kept = self.clock.wall() - 30 * 86_400
        for key, events in self.said.items():
            recent = {at for at, _ in events if at >= kept}
            packed = [each for each in events if each[0] in recent]
            self.said[key] = packed

    @rule(user=st.sampled_from(["ana", "ben"]))
    def erase(self, user: str) -> None:
        """All of a user goes."""
        erase_user(self.lake, APP, user, wait=False)
        self.said = {key: told for key, told in self.said.items() if key[0] != user}

    @rule(
        user=st.none() | st.sampled_from(["ana", "ben"]),
        query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=2),
    )
    def search(self, user: str | None, query: list[str]) -> None:
        """What is found is what is there now, with the score that its words give."""
        found = self.reader.search(
            " ".join(query), app_name=APP, user_id=user, ranking="overlap", limit=1_000
        ).project("score, user_id, session_id, text")
        wanted = query_words(" ".join(query))
        expected = [
            (float(score), owner, session, text)
            for (owner, session), told in self.said.items()
            for _, text in told
            if user in (None, owner) and (score := len(wanted & searchable_words(text)))
        ]
        assert sorted(found.fetchall()) == sorted(expected)

    def teardown(self) -> None:
        """Free what was made."""
        self.lake.close()
        self.reader.close()


TestSearch = SearchMachine.TestCase
# Each history makes two lakes.
TestSearch.settings = settings(max_examples=settings().max_examples // 5)
