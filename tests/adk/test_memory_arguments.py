"""A memory service and its calls take what makes sense; URIs say as much as arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.cli.service_registry import get_service_registry, load_services_module
from google.genai import types

from lakestore import Lake, LakeMemoryService
from lakestore.errors import InputError
from lakestore.shell.services import services_yaml
from tests.contracts.building import ANA
from tests.contracts.memory_building import event, fact, found, session
from tests.support.searching import hashed


def odd_fact(**fields: Any) -> Any:
    """Return a memory whose fields were assigned, which nothing checks."""
    made = fact("secret")
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def odd_content() -> types.Content:
    """Return a content with a part that is none."""
    content, odd = types.Content(), ["secret"]
    setattr(content, "parts", odd)  # noqa: B010 - which no type checker lets through
    return content


def odd_session(**fields: Any) -> Any:
    """Return a session whose fields were assigned, which nothing checks."""
    made = session(event("e1", "secret"))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


Ask = Callable[[Any], Awaitable[object]]
ASKED: dict[str, tuple[str, Ask]] = {
    "no session": ("Session", lambda it: it.add_session_to_memory("secret")),
    "session id": ("session_id", lambda it: it.add_session_to_memory(odd_session(id=5))),
    "scope": ("scope", lambda it: it.add_session_to_memory(odd_session(), scope="secret")),
    "no scope": ("scope", lambda it: it.add_session_to_memory(odd_session(), scope=None)),
    "events": ("events", lambda it: it.add_events_to_memory(**ANA, events=None)),
    "an event": ("events", lambda it: it.add_events_to_memory(**ANA, events=event("e", "x"))),
    "a dict": ("events", lambda it: it.add_events_to_memory(**ANA, events=[{"id": "secret"}])),
    "metadata": (
        "metadata",
        lambda it: it.add_events_to_memory(
            **ANA, events=[event("e", "x")], custom_metadata=["secret"]
        ),
    ),
    "metadata key": (
        "metadata",
        lambda it: it.add_memory(**ANA, memories=[fact("x")], custom_metadata={1: "secret"}),
    ),
    "metadata value": (
        "metadata",
        lambda it: it.add_memory(**ANA, memories=[odd_fact(custom_metadata={"a": "\ud800"})]),
    ),
    "memories": ("memories", lambda it: it.add_memory(**ANA, memories=fact("x"))),
    "no memories": ("memories", lambda it: it.add_memory(**ANA, memories=None)),
    "no memory": ("MemoryEntry", lambda it: it.add_memory(**ANA, memories=["secret"])),
    "memory id": ("id", lambda it: it.add_memory(**ANA, memories=[odd_fact(id="")])),
    "number as id": ("id", lambda it: it.add_memory(**ANA, memories=[odd_fact(id=5)])),
    "author": ("author", lambda it: it.add_memory(**ANA, memories=[odd_fact(author=5)])),
    "half an author": (
        "author",
        lambda it: it.add_memory(**ANA, memories=[odd_fact(author="\ud800")]),
    ),
    "timestamp": (
        "timestamp",
        lambda it: it.add_memory(**ANA, memories=[odd_fact(timestamp="secret")]),
    ),
    "number as timestamp": (
        "timestamp",
        lambda it: it.add_memory(**ANA, memories=[odd_fact(timestamp=5.0)]),
    ),
    "early timestamp": (
        "timestamp",
        lambda it: it.add_memory(**ANA, memories=[odd_fact(timestamp="0001-01-01T00:00:00+05:00")]),
    ),
    "odd part": (
        "content",
        lambda it: it.add_memory(**ANA, memories=[odd_fact(content=odd_content())]),
    ),
    "content": ("content", lambda it: it.add_memory(**ANA, memories=[odd_fact(content="secret")])),
    "no content": ("content", lambda it: it.add_memory(**ANA, memories=[odd_fact(content=None)])),
    "half a text": (
        "content",
        lambda it: it.add_memory(
            **ANA,
            memories=[odd_fact(content=types.Content(parts=[types.Part(text="a\ud800")]))],
        ),
    ),
    "query": ("query", lambda it: it.search_memory(**ANA, query=None)),
    "number as query": ("query", lambda it: it.search_memory(**ANA, query=5)),
    "limit": ("limit", lambda it: it.search_memory(**ANA, query="x", limit=0)),
    "limit as a text": ("limit", lambda it: it.search_memory(**ANA, query="x", limit="3")),
    "limit as a flag": ("limit", lambda it: it.search_memory(**ANA, query="x", limit=True)),
    "scope of a search": ("scope", lambda it: it.search_memory(**ANA, query="x", scope="all")),
    "since": ("since", lambda it: it.search_memory(**ANA, query="x", since="secret")),
    "until": (
        "until",
        lambda it: it.search_memory(**ANA, query="x", until=datetime(2026, 1, 1)),  # noqa: DTZ001 - the mistake
    ),
    "sessions": ("session_ids", lambda it: it.search_memory(**ANA, query="x", session_ids="s")),
    "authors": ("authors", lambda it: it.search_memory(**ANA, query="x", authors=[3])),
    "filter": ("metadata", lambda it: it.search_memory(**ANA, query="x", metadata=["secret"])),
    "filter value": (
        "metadata",
        lambda it: it.search_memory(**ANA, query="x", metadata={"a": object()}),
    ),
    "id to delete": ("memory_id", lambda it: it.delete_memory(**ANA, memory_id=5)),
    "scope to delete": (
        "scope",
        lambda it: it.delete_memory(**ANA, memory_id="x", scope="secret"),
    ),
    "session to delete": (
        "session_id",
        lambda it: it.delete_session_memory(**ANA, session_id=""),
    ),
    "user to delete": (
        "user_id",
        lambda it: it.delete_user_memory(app_name="a", user_id=None),
    ),
    "history": ("memory_id", lambda it: it.get_memory_history(**ANA, memory_id=None)),
}


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[LakeMemoryService]:
    """A service on an empty lake."""
    with Lake.open(f"memory://{request.node.name}") as lake:
        yield LakeMemoryService(lake)


@pytest.mark.parametrize("case", ASKED)
async def test_services_take_what_makes_sense(service: LakeMemoryService, case: str) -> None:
    """The argument is named, what was given is not quoted, nothing is written, all goes on."""
    named, ask = ASKED[case]
    await service.add_session_to_memory(session(event("e1", "tea")))
    writes = service.lake.metrics.requests["PUT"]
    with pytest.raises(InputError, match=named) as refusal:
        await ask(service)
    assert "secret" not in str(refusal.value)
    assert service.lake.metrics.requests["PUT"] == writes
    assert await found(service, "tea") == ["e1"]


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ("uri", {"uri": 3}),
        ("either", {}),
        ("ranking", {"lake": None, "ranking": "secret"}),
        ("ranking", {"lake": None, "ranking": 5}),
        ("embedder", {"lake": None, "ranking": "hybrid"}),
        ("embedder", {"lake": None, "embedder": "secret"}),
        ("no async function", {"lake": None, "embedder": asyncio.sleep}),
        ("max_results", {"lake": None, "max_results": 0}),
        ("max_results", {"lake": None, "max_results": "many"}),
        ("language", {"lake": None, "language": "klingon"}),
        ("thoughts", {"lake": None, "thoughts": "no"}),
        ("tools", {"lake": None, "tools": 1}),
        ("options", {"lake": None, "region": "secret"}),
        ("open lake", {"lake": "secret"}),
        ("max_results", {"uri": "lakestore+file:///{folder}?max_results=secret"}),
        ("tools", {"uri": "lakestore+file:///{folder}?tools=secret"}),
        ("given=-5", {"uri": "lakestore+file:///{folder}?max_results=-5"}),
        ('"hybrid"$', {"uri": "lakestore+file:///{folder}?ranking=secret"}),
        ("brackets", {"uri": "lakestore+memory://[secret"}),
    ],
)
def test_a_service_is_made_of_what_makes_sense(
    tmp_path: Path, named: str, options: dict[str, Any]
) -> None:
    """What is wrong is named, without quoting what may be secret."""
    with Lake.open("memory://odd-memories") as lake:
        given: dict[str, Any] = {
            name: lake if value is None else value for name, value in options.items()
        }
        if isinstance(given.get("uri"), str):
            given["uri"] = given["uri"].replace("{folder}", str(tmp_path / "lake"))
        with pytest.raises(InputError, match=named) as refusal:
            LakeMemoryService(**given)
    assert "secret" not in str(refusal.value)


# R100
async def test_uri_says_as_much_as_arguments(tmp_path: Path) -> None:
    """ADK's registry opens a service by its URI, with a ranking, a language and a cap."""
    (tmp_path / "services.yaml").write_text(services_yaml())
    load_services_module(str(tmp_path))
    uri = f"lakestore+file://{tmp_path / 'lake'}?ranking=bm25&max_results=2&language=german"
    uri += "&durability=turn"  # which is for sessions: one URI does for both
    service = get_service_registry().create_memory_service(uri, agents_dir="agents")
    assert isinstance(service, LakeMemoryService)
    events = [event(f"e{number}", f"die Häuser {number}") for number in range(4)]
    await service.add_session_to_memory(session(*events))

    assert await found(service, "Haus") == await found(service, "Häuser") == ["e0", "e1"]
    plain = LakeMemoryService(uri=f"lakestore+file://{tmp_path / 'lake'}", max_results=3)
    assert plain.lake is service.lake
    assert await found(plain, "Häuser") == ["e0", "e1", "e2"]
    thoughtful = LakeMemoryService(uri=f"{uri}&thoughts=true&tools=false")
    musing = event("t")
    musing.content = types.Content(parts=[types.Part(text="Segelboot", thought=True)])
    await thoughtful.add_session_to_memory(session(musing))
    assert await found(thoughtful, "Segelboot") == ["t"]
    words = LakeMemoryService(uri=uri.replace("german", "none"))
    assert (await found(words, "Haus"), await found(words, "Häuser")) == ([], ["e0", "e1"])
    service.lake.close()


@pytest.mark.parametrize("ranking", ["bm25", "hybrid"])
async def test_rankings_go_through_the_service(ranking: Any) -> None:
    """Rare words count more, and endings do not; filters come first here, too."""
    with Lake.open(f"memory://rankings-{ranking}") as lake:
        service = LakeMemoryService(lake, ranking=ranking, embedder=hashed, max_results=3)
        common = [event(f"e{number}", f"the order of day {number}") for number in range(20)]
        rare = event("rare", "he was refunding it", author="agent")
        await service.add_session_to_memory(session(*common, rare))
        await service.add_memory(**ANA, memories=[fact("refunds of the order", "all")], scope="app")

        best = {"bm25": ["rare", "all"], "hybrid": ["all", "e0"]}[ranking]
        assert await found(service, "the refund of an order", limit=2) == best
        only = await found(service, "day order", authors=["agent"])
        assert only in ([], ["rare"])
        assert len(await found(service, "day")) == 3
        await service.delete_memory(**ANA, memory_id="rare")
        assert "rare" not in await found(service, "refund", limit=50)


async def test_embedder_that_fails_adds_nothing() -> None:
    """What an embedder raises goes through, and nothing was written."""

    def broken(texts: Any) -> Any:
        raise ConnectionError("the model is far away")

    with Lake.open("memory://broken-embedder") as lake:
        service = LakeMemoryService(lake, ranking="hybrid", embedder=broken)
        with pytest.raises(ConnectionError):
            await service.add_session_to_memory(session(event("e1", "tea")))
        assert await found(LakeMemoryService(lake), "tea") == []


async def test_thoughts_and_tools_are_searched_when_asked_for() -> None:
    """A service may be told to search thoughts, and what tools were asked and answered."""
    with Lake.open("memory://tastes") as lake:
        service = LakeMemoryService(lake, thoughts=True, tools=True)
        parts = [
            types.Part(text="secretly bored", thought=True),
            types.Part(function_call=types.FunctionCall(name="brew", args={"leaf": "oolong"})),
        ]
        answer = types.FunctionResponse(name="brew", response={"cups": "seven"})
        one, other = event("e1"), event("e2")
        one.content = types.Content(parts=parts)
        other.content = types.Content(parts=[types.Part(function_response=answer)])
        await service.add_session_to_memory(session(one, other))

        for query, names in {"bored": ["e1"], "oolong": ["e1"], "brew": ["e1", "e2"]}.items():
            assert await found(service, query) == names
        assert await found(service, "seven") == ["e2"]
