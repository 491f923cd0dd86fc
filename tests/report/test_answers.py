"""What a report counts, against the same counted in plain Python over the stories told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from statistics import quantiles

import pytest
from google.adk.events.event import Event

from lakestore import Lake, LakeSessionService
from lakestore.demo.histories import Story, history, write_history
from lakestore.report import Selection
from lakestore.report.answers import Answers
from lakestore.storage import MemoryStore

END = datetime(2026, 3, 30, 12, tzinfo=UTC)
STORIES = list(history(sessions=60, seed=5, days=50, until=END))
PRICES = {"scripted-*": {"prompt": 1.0, "output": 3.0}}


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    """A lake with a history of fifty days."""
    with Lake(MemoryStore()) as lake:
        write_history(lake, STORIES)
        lake.set_prices(PRICES)
        yield lake


@pytest.fixture(scope="module")
def answers(lake: Lake) -> Iterator[Answers]:
    """What the whole lake has."""
    asked = Answers(lake, Selection())
    yield asked
    asked.close()


def told(stories: list[Story] = STORIES) -> Iterator[tuple[Story, Event]]:
    """Each event with its story."""
    return ((story, event) for story in stories for event in story.events)


def day_of(event: Event) -> datetime:
    """The day of an event in UTC."""
    moment = datetime.fromtimestamp(event.timestamp, UTC)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def week_of(event: Event) -> datetime:
    """The Monday before an event, or on its day."""
    day = day_of(event)
    return day - timedelta(days=day.weekday())


def test_the_overview(answers: Answers) -> None:
    """Sessions, users, events, turns, calls and tokens are those that were told."""
    has = answers.overview()
    events = [event for _, event in told()]
    assert has["sessions"] == len(STORIES)
    assert has["users"] == len({(story.app_name, story.user_id) for story in STORIES})
    assert has["events"] == len(events)
    assert has["tool_calls"] == sum(len(event.get_function_calls()) for event in events)
    used = [event.usage_metadata for event in events if event.usage_metadata]
    assert has["tokens"] == sum(usage.total_token_count or 0 for usage in used)
    assert has["first"].timestamp() == pytest.approx(min(event.timestamp for event in events))


def test_activity_has_each_day(answers: Answers) -> None:
    """Each day from the first to the last has a row; its users are those of its events."""
    users: dict[datetime, set[str]] = {}
    for story, event in told():
        users.setdefault(day_of(event), set()).add(f"{story.app_name}/{story.user_id}")
    rows = answers.activity()
    days = [row["day"] for row in rows]
    assert days == [days[0] + timedelta(days=n) for n in range((days[-1] - days[0]).days + 1)]
    assert {row["day"]: row["users"] for row in rows if row["users"]} == {
        day: len(found) for day, found in users.items()
    }
    assert sum(row["turns"] for row in rows) == answers.overview()["turns"]


def test_tokens_of_days_and_models(answers: Answers) -> None:
    """Tokens add up by day and model, and to the same in all as by model alone."""
    expected: Counter[tuple[datetime, str]] = Counter()
    for _, event in told():
        if event.usage_metadata:
            model = event.model_version or "(not named)"
            expected[day_of(event), model] += event.usage_metadata.total_token_count or 0
    assert {(row["day"], row["model"]): row["tokens"] for row in answers.tokens()} == expected
    assert sum(row["tokens"] or 0 for row in answers.models()) == sum(expected.values())


def test_the_cost_is_that_of_the_view(lake: Lake, answers: Answers) -> None:
    """Costs of models add up to the overview's, and to what the view says."""
    (of_view,) = lake.sql("select sum(cost), count(*) - count(cost) from costs").fetchall()
    has = answers.overview()
    assert (has["cost"], has["unpriced"]) == (pytest.approx(of_view[0]), of_view[1])
    assert sum(row["cost"] or 0 for row in answers.models()) == pytest.approx(of_view[0])


def test_models_beyond_the_first_share_a_name(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that have no colour of their own are the others, and none of their tokens is lost."""
    monkeypatch.setattr("lakestore.report.answers.MODELS", 1)
    asked = Answers(lake, Selection())
    rows = asked.tokens()
    assert {row["model"] for row in rows} == {asked.models()[0]["model"], "others"}
    assert sum(row["tokens"] for row in rows) == asked.overview()["tokens"]
    asked.close()


def test_percentiles_leave_out_turns_that_wait(answers: Answers) -> None:
    """Half of the turns in which nobody waits for people are as long as the figure says."""
    waiting = {event.invocation_id for _, event in told() if event.long_running_tool_ids}
    times: dict[str, list[float]] = {}
    for _, event in told():
        if event.invocation_id not in waiting and not event.actions.compaction:
            times.setdefault(event.invocation_id, []).append(event.timestamp)
    rewinds = {e.invocation_id for _, e in told() if e.actions.rewind_before_invocation_id}
    lengths = [max(found) - min(found) for name, found in times.items() if name not in rewinds]
    has = answers.overview()
    assert has["turns"] - has["waiting"] == len(lengths)
    assert has["p50"] == pytest.approx(quantiles(lengths, n=2)[0], abs=1e-5)


def test_tools(answers: Answers) -> None:
    """Calls and failures of a tool are those that were told, and so are its failures by day."""
    calls = Counter(call.name for _, event in told() for call in event.get_function_calls())
    failed = Counter(
        answer.name
        for _, event in told()
        for answer in event.get_function_responses()
        if (answer.response or {}).get("error")
    )
    rows = answers.tools()
    assert {row["tool"]: row["calls"] for row in rows} == calls
    assert {row["tool"]: row["failures"] for row in rows if row["failures"]} == failed
    assert [row["calls"] for row in rows] == sorted(calls.values(), reverse=True)
    assert sum(row["failures"] for row in answers.failures()) == failed.total()


def test_errors(answers: Answers) -> None:
    """Errors are counted by what they say, the most frequent first."""
    codes = Counter(event.error_code for _, event in told() if event.error_code)
    rows = answers.errors()
    assert sum(row["times"] for row in rows if row["code"]) == codes.total()
    assert [row["times"] for row in rows] == sorted((row["times"] for row in rows), reverse=True)


def test_returning_users(answers: Answers) -> None:
    """A user belongs to the week of the first event, and counts once in each week with another."""
    weeks: dict[tuple[str, str], set[datetime]] = {}
    for story, event in told():
        weeks.setdefault((story.app_name, story.user_id), set()).add(week_of(event))
    expected: Counter[tuple[datetime, int]] = Counter()
    for found in weeks.values():
        expected.update((min(found), (week - min(found)).days // 7) for week in found)
    rows = answers.cohorts()
    assert {(row["cohort"], row["weeks_later"]): row["users"] for row in rows if row["users"]} == {
        key: users for key, users in expected.items() if key[1]
    }
    assert all(row["cohort_users"] == expected[row["cohort"], 0] for row in rows)


def test_the_largest_sessions(answers: Answers) -> None:
    """The sessions with the most events come first."""
    sizes = sorted((len(story.events) for story in STORIES), reverse=True)
    assert [row["events"] for row in answers.largest_sessions()] == sizes[:20]


def test_a_selection_counts_what_is_in_it(lake: Lake) -> None:
    """Of an app and a time only that counts: the beginning does, the end does not."""
    events = sorted(event.timestamp for story, event in told() if story.app_name == "travel_desk")
    first, last = (datetime.fromtimestamp(events[place], UTC) for place in (10, 40))
    asked = Answers(lake, Selection("travel_desk", first, last))
    assert asked.overview()["events"] == sum(events[10] <= at < events[40] for at in events)
    assert {row["app_name"] for row in asked.largest_sessions()} == {"travel_desk"}
    asked.close()


def test_who_came_before_the_selection_is_not_new_in_it(lake: Lake) -> None:
    """A first week before `since` stays the first: its users are in no cohort of the selection."""
    since = END - timedelta(days=21)
    whole, part = Answers(lake, Selection()), Answers(lake, Selection(since=since))
    monday = since.replace(hour=0) - timedelta(days=since.weekday())
    assert part.cohorts() == [row for row in whole.cohorts() if row["cohort"] >= monday]
    assert part.cohorts()
    whole.close()
    part.close()


@pytest.mark.parametrize(
    ("days", "step"), [(90, "day"), (200, "week"), (1_000, "month"), (2_000_000, "year")]
)
def test_long_times_have_longer_steps(days: int, step: str) -> None:
    """A bar stands for a day, a week, a month or a year, so that no stray time makes too many."""
    with Lake(MemoryStore()) as lake:
        first = datetime(2026, 3, 30, tzinfo=UTC).timestamp()
        _put(lake, [first, first + days * 86_400])
        asked = Answers(lake, Selection())
        assert asked.step == step
        assert sum(row["sessions"] for row in asked.activity()) == 2
        assert len(asked.activity()) <= 100
        asked.close()


def _put(lake: Lake, times: list[float]) -> None:
    service = LakeSessionService(lake).sync
    session = service.create_session(app_name="odd", user_id="ana")
    for time in times:
        service.append_event(session, Event(author="ana", invocation_id=f"{time}", timestamp=time))
