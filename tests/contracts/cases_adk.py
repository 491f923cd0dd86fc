"""ADK 2.13's own session services as cases, and what each of them does differently, and why.

Owns the exemptions. Where ADK's services agree the contract is what they do; where they differ it
follows the one that keeps ADK's documented promise, and the others are exempted here.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pydantic
import sqlalchemy.exc
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from tests.contracts.cases import FAILED_CHECK, RACES, Difference, SessionCase

Differences = dict[str, Difference]


def _memory(_folder: Path) -> BaseSessionService:
    return InMemorySessionService()


def _sqlite(folder: Path) -> BaseSessionService:
    return SqliteSessionService(str(folder / "adk.db"))


def _database(folder: Path) -> BaseSessionService:
    url = f"sqlite+aiosqlite:///{folder / 'adk.db'}"
    return DatabaseSessionService(url, connect_args={"timeout": 30})


async def _close_sqlite(service: SqliteSessionService) -> None:
    await service.close()


async def _close_database(service: DatabaseSessionService) -> None:
    await service.close()


def _differs(
    reason: str,
    *tests: str,
    variants: str = "",
    raises: tuple[type[BaseException], ...] = FAILED_CHECK,
) -> Differences:
    """Return one difference for all these tests, or for these variants of the one test."""
    names = [f"{test}[{each}]" for test in tests for each in variants.split()] or list(tests)
    return dict.fromkeys(names, Difference(reason, raises))


NO_ID_CHECK = "checks no id: what its storage accepts is an id"
SCOPE = "test_impossible_scope_is_refused"
SESSION_ID = "test_impossible_session_id_is_refused"

KEY_IS_TEXT = _differs(
    "takes for granted that keys are texts, and fails before it writes",
    "test_state_key_that_is_no_text_is_refused",
    raises=(AttributeError,),
)

MEMORY: Differences = {
    **KEY_IS_TEXT,
    **_differs("takes any float for a time", "test_event_without_a_finite_time_is_refused"),
    **_differs(
        NO_ID_CHECK,
        SCOPE,
        variants="empty-app_name empty-user_id nul-app_name nul-user_id "
        "surrogate-app_name surrogate-user_id",
    ),
    **_differs(
        "refuses a number as user id, but only after it wrote the app's state",
        f"{SCOPE}[number-user_id]",
    ),
    **_differs(NO_ID_CHECK, SESSION_ID, variants="nul surrogate"),
    **_differs(NO_ID_CHECK, f"{SESSION_ID}[number]", raises=(AttributeError,)),
    **_differs(
        "keeps the caller's own objects: what it holds changes with them",
        "test_stored_state_is_not_the_callers_object",
        "test_stored_event_is_not_the_callers_object",
    ),
    **_differs(
        "stores Python objects as they are: nothing needs a JSON form, nothing is refused",
        "test_rich_value_is_stored_in_its_json_form",
        "test_rich_initial_value_is_stored_in_its_json_form",
        "test_function_is_stored_as_text",
        "test_what_is_not_finite_is_stored_as_text",
        "test_unstorable_value_leaves_all_as_it_was",
        "test_unstorable_initial_state_creates_nothing",
        "test_handle_appends_after_a_refusal",
        "test_refusal_names_the_key",
        "test_refused_event_leaves_temp_state_alone",
        "test_tool_answer_without_a_json_form_is_refused",
        "test_text_with_half_a_character_is_refused",
    ),
    **_differs(
        "cuts everything before the last event that is too old, and so some that are not",
        "test_window_is_by_each_events_own_time",
    ),
    **_differs(
        "compares a retry with the stored event, which has lost its `temp:` keys",
        "test_retry_may_still_carry_temp_state",
    ),
    **_differs(
        "takes the event once but leaves the second handle without it",
        "test_handle_takes_over_what_another_delivered",
    ),
    **_differs(
        "looks for the id only in what the handle shows",
        "test_retry_through_a_handle_that_shows_nothing_is_stored_once",
    ),
    **_differs(
        "keeps two different events under one id",
        "test_another_event_under_a_taken_id_is_refused",
    ),
}

# What both SQL services have in common.
SQL: Differences = {
    **KEY_IS_TEXT,
    **_differs(
        NO_ID_CHECK, SCOPE, variants="empty-app_name empty-user_id nul-app_name nul-user_id"
    ),
    **_differs(NO_ID_CHECK, SESSION_ID, variants="nul"),
    **_differs(
        "orders by the events' times, so clocks that disagree reorder a conversation",
        "test_order_is_that_of_the_appends",
        "test_last_events_of_a_window_are_the_last_appended",
        "test_stale_is_a_matter_of_commits_not_of_times[earlier]",
    ),
    **_differs(
        "asks whether after_timestamp is true, so 0.0 is taken for no limit",
        "test_after_zero_leaves_out_what_was_before_1970",
    ),
    **_differs(
        "tells revisions apart by time: an event of the same time is no new revision",
        "test_stale_is_a_matter_of_commits_not_of_times[same]",
    ),
    **_differs(
        "inserts every delivery and lets the database's key error out",
        "test_same_event_twice_is_stored_once",
        "test_equal_copy_is_stored_once",
        "test_retry_may_still_carry_temp_state",
        "test_retry_of_an_older_event_changes_nothing",
        "test_retry_does_not_undo_another_sessions_write",
        "test_retry_through_a_new_handle_is_stored_once",
        "test_retry_through_a_handle_that_shows_nothing_is_stored_once",
        "test_retry_does_not_make_the_handle_stale",
        "test_another_event_under_a_taken_id_is_refused",
        raises=(sqlite3.IntegrityError, sqlalchemy.exc.IntegrityError),
    ),
    **_differs(
        "calls a handle stale that is behind by the very event it delivers",
        "test_handle_takes_over_what_another_delivered",
        raises=(StaleSessionError,),
    ),
    **_differs("raises pydantic's error, which names no key", "test_refusal_names_the_key"),
    **_differs(
        "puts `temp:` keys into the handle, and out of the event, before it checks anything",
        "test_refused_event_leaves_temp_state_alone",
    ),
    **_differs(
        "writes an initial state with half a character, escaped, though JSON readers refuse it",
        "test_unstorable_initial_state_creates_nothing[surrogate]",
    ),
    **_differs(
        "writes events by field name, and the auth schemes can only be read by alias",
        "test_event_comes_back_equal[auth]",
        "test_all_samples_make_one_session",
    ),
    **_differs(
        "writes the event's own JSON, in which a model's null is left out and bytes are base64",
        "test_stored_event_and_state_agree_on_a_rich_value",
        variants="model utf8-bytes",
    ),
    **_differs(
        "refuses a field that it does not know, and with it the whole session",
        "test_event_of_a_newer_adk_does_not_hide_its_session",
        raises=(pydantic.ValidationError,),
    ),
}

SQLITE: Differences = {
    **SQL,
    **_differs(
        "lets a database's error out",
        "test_event_without_a_finite_time_is_refused[nan]",
        raises=(sqlite3.IntegrityError,),
    ),
    **_differs(
        "stores an infinite time, after which every handle is stale",
        "test_event_without_a_finite_time_is_refused[infinity]",
    ),
    **_differs(
        "stores a session of the user '7' when it is given the number 7",
        f"{SCOPE}[number-user_id]",
    ),
    **_differs(NO_ID_CHECK, f"{SESSION_ID}[number]", raises=(AttributeError,)),
    **_differs(
        "orders by the events' times: an append with an earlier one goes unnoticed",
        "test_stale_is_a_matter_of_commits_not_of_times[earlier]",
    ),
    **_differs(
        "tells a handle without a time from a current one by its time alone",
        "test_current_copy_of_a_handle_appends",
        variants="by-hand-0 by-hand-1 by-hand-3",
        raises=(StaleSessionError,),
    ),
    **_differs(
        "merges state in SQL, where NUL ends a text",
        "test_nul_in_a_value_is_kept[text]",
        "test_any_state_survives",
        "test_any_event_survives",
    ),
    **_differs(
        "merges state in SQL, where NUL ends a key",
        "test_odd_state_key_is_a_key[nul]",
    ),
    **_differs(
        "merges state in SQL, which prints some floats with a digit too few",
        "test_json_value_is_kept_exactly",
        variants="minus-zero huge",
    ),
    **_differs(
        "merges state in SQL, which refuses NaN and infinities as malformed JSON",
        "test_what_is_not_finite_is_stored_as_text",
        raises=(sqlite3.OperationalError,),
    ),
}

DATABASE: Differences = {
    **SQL,
    **_differs(
        "takes session ids as they are, blanks included; the other two strip them",
        "test_session_id_is_stripped",
        "test_existing_id_is_refused_with_blanks_around",
        "test_delete_strips_the_id",
    ),
    **_differs(
        "takes a blank session id for an id; the other two generate one",
        "test_blank_id_means_a_generated_one",
        raises=(AlreadyExistsError,),
    ),
    **_differs(
        "two services that create the tables at the same time fail with the database's error",
        "test_one_of_fifty_creators_of_an_id_wins",
    ),
    **_differs(
        "two services that create the tables at the same time fail with the database's error",
        "test_fifty_first_creators_of_an_app_all_succeed",
        raises=(sqlalchemy.exc.OperationalError,),
    ),
    **_differs(
        "reads the shared state, changes it and writes it back whole: one of thirty keys survives",
        "test_thirty_concurrent_shared_keys_are_all_kept",
    ),
    **_differs(
        "puts times into calendar dates, which end in the year 9999",
        "test_time_beyond_the_calendar_is_kept",
        raises=(ValueError,),
    ),
    **_differs(
        "takes any marker for one of its own",
        "test_current_copy_of_a_handle_appends",
        variants="foreign-0 foreign-1 foreign-3",
        raises=(StaleSessionError,),
    ),
    **_differs(
        "lets an error of the calendar out",
        "test_event_without_a_finite_time_is_refused[infinity]",
        raises=(OverflowError,),
    ),
    **_differs("breaks ties by event id", "test_equal_times_keep_their_order"),
    **_differs(
        "rounds times to microseconds",
        "test_last_update_time_is_the_last_events",
        variants="tenth-of-a-microsecond seven-digits",
    ),
    **_differs("rounds times to microseconds", "test_window_of_events[from-just-after-1002]"),
    **_differs(
        "stores the float itself, which JSON readers refuse",
        "test_what_is_not_finite_is_stored_as_text",
    ),
    **_differs(
        "stores half a character, escaped, which JSON readers refuse",
        "test_text_with_half_a_character_is_refused",
    ),
    **_differs(
        "stores half a character, escaped, which JSON readers refuse",
        "test_unstorable_value_leaves_all_as_it_was",
        variants="surrogate-session surrogate-user surrogate-app",
    ),
}

ADK_CASES = [
    SessionCase(
        name="adk-memory",
        open=_memory,
        guards_stale=False,
        guards_races=False,
        differs=MEMORY,
    ),
    SessionCase(
        name="adk-sqlite",
        open=_sqlite,
        reopen=_sqlite,
        close=_close_sqlite,
        guards_races=False,
        differs=SQLITE,
    ),
    SessionCase(
        name="adk-database",
        # In `make test` what its transactions decide; the rest in `make test-slow`.
        parts=RACES,
        open=_database,
        reopen=_database,
        close=_close_database,
        guards_races=False,
        differs=DATABASE,
    ),
]
