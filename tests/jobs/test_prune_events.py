from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.errors._invocation_not_found_error import InvocationNotFoundError
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.sessions import Session
from google.genai import types

from lakestore import LakeSessionService
from lakestore.jobs import compact, prune_events
from lakestore.jobs.cutting import AUTHOR, PRUNED
from lakestore.storage import MemoryStore
from tests.adk.running import APP as RUNNER_APP
from tests.adk.running import USER as RUNNER_USER
from tests.adk.running import runner_of
from tests.support.aging import AgingLake, answer, call, texts
from tests.support.clocks import ManualClock
from tests.support.faulty_store import InterruptedStore, Nth


def _with_history(aging: AgingLake, **created: Any) -> Session:
    """Two old turns, then 100 days, then a young one."""
    session = aging.create("s1", **created)
    for number in range(2):
        delta = {"k": number, f"k{number}": [number], "user:u": number, "app:a": number}
        aging.say(session, f"old {number}", f"old-{number}", delta=delta, artifacts={"f": number})
        aging.say(session, f"reply {number}", f"old-{number}", author="agent")
    aging.pass_days(100)
    aging.say(session, "young", "young-0", delta={"y": 1})
    return session


def _load(aging: AgingLake, session: Session) -> Session:
    found = aging.load(session)
    assert found is not None
    return found


def test_old_turns_leave_one_event_without_content(aging: AgingLake) -> None:
    """What went stands in one event that is known by its author and sets what they set."""
    session = _with_history(aging, state={"first": 1})
    before = _load(aging, session)
    report = prune_events(aging.lake)
    after = _load(aging, session)
    assert (report["table"], report["deleted_count"]) == ("events", 4)
    assert report["deleted_bytes"] > 4 * 100
    assert texts(after.events) == ["young"]
    placeholder = after.events[0]
    assert (placeholder.author, placeholder.content) == (AUTHOR, None)
    assert placeholder.custom_metadata == {PRUNED: {"events": 4, "version": 5}}
    assert placeholder.actions.state_delta == {"k": 1, "k0": [0], "k1": [1]}
    assert placeholder.actions.artifact_delta == {"f": 1}
    assert after.state == before.state
    assert after.last_update_time == before.last_update_time
    assert after.events[1:] == before.events[4:]


def test_a_placeholder_is_what_adk_would_have_written(aging: AgingLake) -> None:
    """Its JSON is that of ADK's own event: reading and writing it again changes nothing."""
    session = _with_history(aging)
    prune_events(aging.lake)
    (stored,) = aging.lake.sql(
        "select event_json from events where author = ?", [AUTHOR]
    ).fetchall()
    parsed = Event.model_validate_json(stored[0])
    assert json.loads(parsed.model_dump_json(exclude_none=True, by_alias=True)) == json.loads(
        stored[0]
    )
    assert _load(aging, session).events[0] == parsed


def test_sql_and_counts_show_the_placeholder_as_an_event(aging: AgingLake) -> None:
    """`events` counts it, and the views show it with its author and no text."""
    _with_history(aging)
    fresh = aging.open(read_only=True)
    assert fresh.sql("select events from sessions").fetchall() == [(5,)]
    prune_events(aging.lake)
    for lake in (fresh, aging.lake, aging.open(read_only=True)):
        assert lake.sql("select events, version from sessions").fetchall() == [(2, 6)]
        assert lake.sql("select version, author, text from events order by version").fetchall() == [
            (5, AUTHOR, None),
            (6, "user", "young"),
        ]
        assert json.loads(lake.sql("select state from sessions").fetchall()[0][0]) == {
            "k": 1, "k0": [0], "k1": [1], "y": 1
        }  # fmt: skip


def test_appending_goes_on(aging: AgingLake) -> None:
    """A handle from before appends after it, and versions, order and state go on."""
    session = _with_history(aging)
    prune_events(aging.lake)
    aging.say(session, "more", "young-1", delta={"k": 9})
    found = _load(aging, session)
    assert texts(found.events) == ["young", "more"]
    assert (found.state["k"], found.state["k0"], found.state["user:u"]) == (9, [0], 1)
    compact(aging.lake)
    assert _load(aging, session) == found


def test_pruning_again_folds_the_placeholder_too(aging: AgingLake) -> None:
    """One placeholder remains, which counts all; with nothing more to cut nothing changes."""
    session = _with_history(aging)
    assert prune_events(aging.lake)["deleted_count"] == 4
    assert prune_events(aging.lake)["deleted_count"] == 0
    aging.pass_days(100)
    aging.say(session, "last", "last-0")
    assert prune_events(aging.lake)["deleted_count"] == 1
    first, *rest = _load(aging, session).events
    assert first.custom_metadata == {PRUNED: {"events": 5, "version": 6}}
    assert first.actions.state_delta == {"k": 1, "k0": [0], "k1": [1], "y": 1}
    assert texts(rest) == ["last"]
    assert prune_events(aging.lake)["deleted_count"] == 0


def test_a_session_of_which_all_is_old_stays(aging: AgingLake) -> None:
    """The session and its state are kept, whatever is cut."""
    session = _with_history(aging)
    before = _load(aging, session)
    aging.pass_days(100)
    assert prune_events(aging.lake)["deleted_count"] == 5
    after = _load(aging, session)
    assert [event.author for event in after.events] == [AUTHOR]
    assert (after.state, after.last_update_time) == (before.state, before.last_update_time)


@pytest.mark.parametrize("packed", [False, True])
def test_a_dry_run_tells_what_a_run_does(aging: AgingLake, packed: bool) -> None:
    """A dry run writes nothing and reports what the run then does, compacted or not."""
    _with_history(aging)
    if packed:
        compact(aging.lake)
    keys = [stored.key for stored in aging.store.list("")]
    dry = prune_events(aging.open(read_only=True), dry_run=True)
    assert [stored.key for stored in aging.store.list("")] == keys
    real = prune_events(aging.lake)
    assert real == {**dry, "dry_run": False, "elapsed_ms": real["elapsed_ms"]}
    assert prune_events(aging.lake, dry_run=True)["deleted_count"] == 0


def test_an_invocation_is_cut_whole_or_not_at_all(aging: AgingLake) -> None:
    """A turn that went on when it was young stays from its first event, and all after it."""
    session = aging.create()
    aging.say(session, "a", "t1")
    aging.say(session, "b", "t2")
    aging.say(session, "c", "t3")
    aging.pass_days(100)
    aging.say(session, "b too", "t2")
    assert prune_events(aging.lake)["deleted_count"] == 1
    assert texts(_load(aging, session).events) == ["b", "c", "b too"]


def test_a_cut_through_one_commit(aging: AgingLake) -> None:
    """Events of one commit may be cut and kept: the ordinal tells them apart."""
    session = aging.create()
    aging.say(session, "old", "t1")
    aging.service.append_events(session, [aging.event("a", "t2"), aging.event("b", "t3")])
    aging.pass_days(100)
    aging.say(session, "more", "t3")
    assert prune_events(aging.lake)["deleted_count"] == 2
    assert texts(_load(aging, session).events) == ["b", "more"]
    assert aging.lake.sql("select version, ordinal from events order by all").fetchall() == [
        (3, 0),
        (3, 1),
        (4, 0),
    ]


def test_a_call_that_waits_for_its_answer_stays(aging: AgingLake) -> None:
    """Unanswered calls stay with their invocation; what is around them goes."""
    session = aging.create()
    aging.say(session, "a", "t1", delta={"k": 1})
    aging.say(session, "ask", "t2")
    aging.say(session, None, "t2", author="agent", parts=[call("book", "c1")], delta={"k": 2})
    aging.say(session, "b", "t3", delta={"k": 3})
    aging.pass_days(100)
    aging.say(session, "young", "t4")
    assert prune_events(aging.lake)["deleted_count"] == 2
    found = _load(aging, session)
    assert texts(found.events) == ["ask", "young"]
    assert [event.author for event in found.events] == [AUTHOR, "user", "agent", AUTHOR, "user"]
    assert [e.actions.state_delta for e in found.events] == [{"k": 1}, {}, {"k": 2}, {"k": 3}, {}]
    assert found.state["k"] == 3
    aging.say(session, None, "t5", parts=[answer("book", "c1")])
    aging.pass_days(100)
    assert prune_events(aging.lake)["deleted_count"] == 4
    assert len(_load(aging, session).events) == 1


def test_a_long_running_call_waits_for_the_user(aging: AgingLake) -> None:
    """The tool's own first reply is no answer to a long-running call; the user's is."""
    session = aging.create()
    asked: dict[str, Any] = {"author": "agent", "long_running_tool_ids": {"c1"}}
    aging.say(session, "ask", "t1")
    aging.say(session, None, "t1", parts=[call("approve", "c1")], **asked)
    aging.say(session, None, "t1", author="agent", parts=[answer("approve", "c1")])
    aging.pass_days(100)
    assert prune_events(aging.lake)["deleted_count"] == 0
    aging.say(session, None, "t2", parts=[answer("approve", "c1")])
    assert prune_events(aging.lake)["deleted_count"] == 0, "the other half of an answer that stays"
    aging.pass_days(100)
    assert prune_events(aging.lake)["deleted_count"] == 4


def test_summaries_of_what_was_cut_still_load(aging: AgingLake) -> None:
    """An event with ADK's own compaction stays as it is when what it sums up is cut."""
    session = aging.create()
    aging.say(session, "a", "t1")
    start = aging.clock.wall()
    aging.pass_days(100)
    summary = EventCompaction(
        start_timestamp=start,
        end_timestamp=start + 1,
        compacted_content=types.Content(role="model", parts=[types.Part(text="they said a")]),
    )
    made = Event(author="user", invocation_id="t2", actions=EventActions(compaction=summary))
    aging.service.append_event(session, made)
    assert prune_events(aging.lake)["deleted_count"] == 1
    assert _load(aging, session).events[1].actions.compaction == summary


def test_what_a_rewind_has_undone_stays_undone(aging: AgingLake) -> None:
    """A turn to which a kept rewind goes back stays, so that nothing it hides comes alive."""
    from google.adk.events._rewind_events import _apply_rewinds

    session = aging.create()
    for turn in ("t1", "t2"):
        aging.say(session, turn, turn)
    aging.say(session, None, "t3", parts=[call("book", "c1")], author="agent")
    aging.say(session, None, "r1", rewind="t2")
    aging.pass_days(50)
    aging.say(session, "after", "t4")
    aging.pass_days(50)
    assert prune_events(aging.lake)["deleted_count"] == 4, "an undone call waits for nobody"
    assert texts(_apply_rewinds(_load(aging, session).events)) == ["after"]


def test_a_warm_writers_rollup_brings_nothing_back(aging: AgingLake) -> None:
    """P2: a rollup by a process that knew all from before holds what was cut; nobody reads it."""
    writer = aging.open()
    service = aging.service_of(writer)
    session = service.create_session(app_name="travel", user_id="ana", session_id="s1")
    service.append_event(session, aging.event("old", "t1", delta={"k": 1}))
    aging.pass_days(100)
    service.append_event(session, aging.event("young", "t2"))
    writer.sessions.load(next(iter(writer.sessions.find("s1"))))
    assert prune_events(aging.open())["deleted_count"] == 1
    service.append_event(session, aging.event("more", "t3"))
    writer.sessions.roll_up(writer.sessions.find("s1")[0], force=True)
    assert any(stored.key.endswith("r.parquet") for stored in aging.store.list("events/"))
    assert texts(_load(aging, session).events) == ["young", "more"]
    compact(aging.open())
    found = _load(aging, session)
    assert (texts(found.events), found.state) == (["young", "more"], {"k": 1})
    shown = aging.open().sql("select text from events order by version").fetchall()
    assert shown == [(None,), ("young",), ("more",)]


@pytest.mark.parametrize("moment", ["packs/", "runs/", "manifests/"])
def test_a_rebased_compaction_brings_nothing_back(aging: AgingLake, moment: str) -> None:
    """P3: a compaction that packed the session, and publishes after the prune, changes nothing."""
    session = _with_history(aging)
    picked = Nth("put", holding=moment)
    store = InterruptedStore(aging.store, picked, lambda: prune_events(aging.open()))
    compact(aging.open(store))
    assert texts(_load(aging, session).events) == ["young"]
    assert texts(_load(aging, session).events) == ["young"]
    compact(aging.open())
    assert len(_load(aging, session).events) == 2


@pytest.mark.parametrize("moment", ["packs/", "runs/", "manifests/"])
def test_a_compaction_between_judge_and_publish_loses_nothing(
    aging: AgingLake, moment: str
) -> None:
    """What is appended and packed while a prune is on its way stays; the prune looks again."""
    session = _with_history(aging)
    compact(aging.lake)

    def others() -> None:
        aging.say(session, "meanwhile", "young-1", delta={"k": 7})
        compact(aging.open())

    store = InterruptedStore(aging.store, Nth("put", holding=moment), others)
    assert prune_events(aging.open(store))["deleted_count"] == 4
    found = _load(aging, session)
    assert texts(found.events) == ["young", "meanwhile"]
    assert found.state["k"] == 7


async def _rewound(
    aging: AgingLake, session: Session, artifacts: InMemoryArtifactService, to: str
) -> tuple[dict[str, Any], Any]:
    runner = runner_of(LakeSessionService(aging.open()))
    runner.artifact_service = artifacts
    await runner.rewind_async(
        user_id=session.user_id, session_id=session.id, rewind_before_invocation_id=to
    )
    found = aging.load(session)
    assert found is not None
    loaded = await artifacts.load_artifact(
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        filename="plan",
    )
    return found.state, loaded


async def _played(aging: AgingLake) -> tuple[Session, InMemoryArtifactService]:
    artifacts = InMemoryArtifactService()
    session = aging.create("s1", app_name=RUNNER_APP, user_id=RUNNER_USER, state={"first": 1})
    deltas: Sequence[dict[str, Any]] = [
        {"k": 1, "gone": 1, "user:u": 1},
        {"k": 2, "gone": None, "more": [1]},
        {"k": 3, "late": True},
        {"k": 4, "more": None},
    ]
    for number, delta in enumerate(deltas):
        version = await artifacts.save_artifact(
            app_name=RUNNER_APP,
            user_id=RUNNER_USER,
            session_id="s1",
            filename="plan",
            artifact=types.Part(text=f"plan {number}"),
        )
        aging.say(session, f"turn {number}", f"t{number}", delta=delta, artifacts={"plan": version})
        aging.pass_days(60)
    return session, artifacts


@pytest.mark.parametrize("to", ["t2", "t3"])
async def test_rewind_restores_state_and_artifacts(aging: AgingLake, to: str) -> None:
    """`Runner.rewind_async` to a turn that stays gives what it gives where nothing was pruned."""
    whole = AgingLake(MemoryStore(clock=ManualClock()))
    expected = await _rewound(whole, *await _played(whole), to)
    session, artifacts = await _played(aging)
    assert prune_events(aging.lake, older_than_days=150)["deleted_count"] == 2
    assert await _rewound(aging, session, artifacts, to) == expected


async def test_rewind_to_what_was_cut_finds_no_invocation(aging: AgingLake) -> None:
    """Going back to a turn that was pruned raises ADK's own error."""
    session, artifacts = await _played(aging)
    prune_events(aging.lake, older_than_days=150)
    with pytest.raises(InvocationNotFoundError):
        await _rewound(aging, session, artifacts, "t0")


def test_what_is_packed_in_part_meanwhile_is_cut_whole(aging: AgingLake) -> None:
    """Old events that another job has not packed yet, when this one cuts, go in the same call."""
    session = _with_history(aging)
    moment = Nth("put", holding="manifests/")
    store = InterruptedStore(
        aging.store, moment, lambda: aging.say(session, "old, too", "old-2"), when="after"
    )
    report = prune_events(aging.open(store), older_than_days=1, now=aging.now + timedelta(days=9))
    assert report["deleted_count"] == 6
    assert texts(_load(aging, session).events) == []
