"""Views: what the commits of a log fold to, with and without a rollup below."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import FormatError
from lakestore.history.rollup import Rollup, encode
from lakestore.history.view import SessionView
from lakestore.log.commits import Marker
from lakestore.tables.events import ROW_GROUP_ROWS, EventRow, Kind, encode_rollup
from tests.support.histories import KEY, ids

EMPTY = SessionView(KEY, seen=5.0)


def commit(
    version: int, kind: Kind = "event", *deltas: dict[str, Any] | None, stamp: str | None = None
) -> list[EventRow]:
    """Return the rows of a commit, one a delta; event ids are `<version>.<ordinal>`."""
    return [
        EventRow(
            version,
            ordinal,
            kind,
            KEY.app_name,
            KEY.user_id,
            KEY.session_id,
            committed_at=0,
            token=f"{version:016x}",
            previous=f"{version - 1:016x}" if version > 1 else "",
            stamp=stamp,
            state_delta=json.dumps(delta) if delta else None,
            event_json=json.dumps({"id": f"{version}.{ordinal}"}) if kind == "event" else None,
        )
        for ordinal, delta in enumerate(deltas or (None,))
    ]


def fold(*commits: list[EventRow]) -> SessionView:
    """Return what commits fold to."""
    view = EMPTY
    for rows in commits:
        view = view.follow(rows)
    return view


def rolled(view: SessionView) -> SessionView:
    """Return the view that a reader of its rollup has."""
    return SessionView(KEY, view.seen).on_rollup(Rollup(encode(view.rows(), dict(view.state), 1)))


def test_nothing_is_no_session() -> None:
    """Before the first commit there is a version 0 that nobody can read."""
    assert (EMPTY.version, EMPTY.alive, EMPTY.events(), EMPTY.rows()) == (0, False, [], [])
    assert EMPTY.marker == Marker(0, "", 5.0)


def test_a_create_row_begins() -> None:
    """Its delta is the state, without the keys that are shared."""
    view = fold(commit(1, "create", {"k": 1, "user:k": 2, "app:k": 3, "n": None}))

    assert view.alive
    assert view.state == {"k": 1, "n": None}
    assert (view.events(), [row.kind for row in view.rows()]) == ([], ["create"])
    assert view.marker == Marker(1, f"{1:016x}", 5.0)


def test_events_update_key_by_key() -> None:
    """Later values win, also within one commit, and null is a value (R038)."""
    view = fold(
        commit(1, "create", {"a": 1, "b": 1, "c": 1}),
        commit(2, "event", {"a": 2}, None, {"a": 3, "b": None}),
        commit(3, "event", {"user:a": 9, "d": {"x": []}}),
    )

    assert view.state == {"a": 3, "b": None, "c": 1, "d": {"x": []}}
    assert ids(view) == ["2.0", "2.1", "2.2", "3.0"]
    assert view.newest == tuple(commit(3, "event", {"user:a": 9, "d": {"x": []}}))


def test_a_delete_row_ends_and_a_create_row_begins_anew() -> None:
    """Nothing of the former life is left, and versions go on (R056)."""
    deleted = fold(commit(1, "create", {"k": 1}), commit(2), commit(3, "delete"))
    again = deleted.follow(commit(4, "create", {"n": 1}))

    assert (deleted.alive, deleted.version, deleted.events(), deleted.state) == (False, 3, [], {})
    assert (again.alive, again.version, again.events(), again.state) == (True, 4, [], {"n": 1})


def test_a_view_never_changes() -> None:
    """Following a commit makes another view, so views can be shared between threads."""
    before = fold(commit(1, "create", {"k": 1}), commit(2))
    after = before.follow(commit(3, "event", {"k": 2}))

    assert (before.version, before.state, ids(before)) == (2, {"k": 1}, ["2.0"])
    assert (after.version, after.state, ids(after)) == (3, {"k": 2}, ["2.0", "3.0"])
    assert after.confirmed(9.0).seen == 9.0
    assert after.seen == before.seen == 5.0


def test_a_commit_is_known_by_version_and_token() -> None:
    """The number alone proves nothing: another commit may have stood there (S4)."""
    view = fold(commit(1, "create"), commit(2), commit(3))
    for known in (view, rolled(view), rolled(view).follow(commit(4))):
        for version in (1, 2, 3):
            assert known.holds(version, f"{version:016x}")
            assert not known.holds(version, "ff")
            assert not known.holds(version + 1, f"{version:016x}")
        assert not known.holds(9, f"{9:016x}")


def test_stamps_are_those_of_all_commits() -> None:
    """A reader knows every stamp it has read, of a rollup the latest."""
    view = fold(
        commit(1, "create", {"user:k": 1}, stamp="3"),
        commit(2, "event", {"user:k": 1}, stamp="7"),
        commit(3),
        commit(4, "event", {"user:k": 1}, stamp="5"),
    )

    assert view.stamps() == ["3", "7", "5"]
    assert rolled(view).stamps() == ["7"]
    assert rolled(view).follow(commit(5, "event", {"app:k": 1}, stamp="8")).stamps() == ["7", "8"]


def test_bytes_grow_with_what_is_held() -> None:
    """A view tells about how much memory it takes, so that the cache can be bounded."""
    small = fold(commit(1, "create"))
    large = small.follow(commit(2, "event", {"k": "x" * 100_000}))

    assert 0 < small.nbytes < 10_000
    assert 100_000 < large.nbytes < 300_000
    assert large.follow(commit(3, "delete")).nbytes < 10_000
    assert rolled(large).nbytes > 0


class TestRollup:
    """A rollup is the log again, and as much of it is read as is asked for."""

    def long(self, events: int) -> SessionView:
        """Return a session with that many events."""
        view = fold(commit(1, "create", {"first": 0}))
        return view.follow(commit(2, "event", *({"last": n} for n in range(events))))

    @pytest.mark.parametrize("events", [1, 254, 255, 256, 600])
    def test_the_last_events_are_found_across_row_groups(self, events: int) -> None:
        """Whatever lies in the last groups, the last events are those of the log (R047)."""
        view = self.long(events)
        read = rolled(view)
        expected = [f"2.{n}" for n in range(events)]

        for last in (0, 1, 2, ROW_GROUP_ROWS - 2, *range(254, 259), 511, 513, events, events + 9):
            assert ids(read, last) == expected[len(expected) - min(last, events) :]
        assert ids(read) == expected
        assert read.rows() == view.rows()
        assert (read.state, read.version, read.token) == (view.state, view.version, view.token)

    def test_few_groups_are_decoded_for_few_events(self) -> None:
        """Reading the end of a long rollup does not decode its beginning."""
        body = encode(self.long(2_000).rows(), {}, 1)
        rollup = Rollup(body)

        assert len(rollup.last_events(5)) == 5
        assert rollup.last_events(0) == []
        assert rollup.nbytes < len(body) + 256 * 600

    def test_a_session_without_events_has_a_rollup(self) -> None:
        """The `create` row and the checkpoint are enough."""
        view = fold(commit(1, "create", {"k": 1}))
        read = rolled(view)

        assert (read.alive, read.state, read.events(), read.events(3)) == (True, {"k": 1}, [], [])
        assert read.rows() == view.rows()

    def test_a_checkpoint_tells_where_the_log_was(self) -> None:
        """It has the version, token and predecessor of the last commit, and the folded state."""
        view = fold(commit(1, "create", {"a": 1}), commit(2, "event", {"b": None}, {"c": 1}))
        checkpoint = Rollup(encode(view.rows(), dict(view.state), 77)).checkpoint

        assert (checkpoint.version, checkpoint.ordinal) == (2, 2)
        assert (checkpoint.token, checkpoint.previous) == (f"{2:016x}", f"{1:016x}")
        assert json.loads(checkpoint.state_delta or "") == {"a": 1, "b": None, "c": 1}
        assert checkpoint.committed_at == 77

    def test_a_checkpoint_without_json_is_damaged(self) -> None:
        """State that is no JSON object is a FormatError, like any other damage."""
        good = encode(fold(commit(1, "create", {"k": "vvvvvvv"})).rows(), {"k": "vvvvvvv"}, 1)
        rows = [*Rollup(good).rows(), Rollup(good).checkpoint]
        for text in ("{", "[1]", "7", '"x"', "null"):
            with pytest.raises(FormatError):
                Rollup(encode_rollup([rows[0], replace(rows[1], state_delta=text)]))


KEYS = st.sampled_from(["a", "b", "user:a", "app:a"])
DELTAS = st.none() | st.dictionaries(KEYS, st.none() | st.integers(0, 3), max_size=3)
LIVES = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.lists(DELTAS, min_size=1, max_size=3)),
        st.tuples(st.just("again"), st.lists(DELTAS, min_size=1, max_size=1)),
        st.tuples(st.just("rollup"), st.just([])),
    ),
    max_size=12,
)


@given(LIVES)
def test_a_view_is_what_its_history_folds_to(
    lives: list[tuple[str, list[dict[str, Any] | None]]],
) -> None:
    """However a history is rolled up on the way, every read gives what a plain fold gives."""
    view = fold(commit(1, "create", {"a": 0}))
    state: dict[str, Any] = {"a": 0}
    events: list[str] = []
    for what, deltas in lives:
        version = view.version + 1
        if what == "rollup":
            view = rolled(view)
            continue
        if what == "again":
            view = view.follow(commit(version, "delete"))
            view = view.follow(commit(version + 1, "create", *deltas))
            state, events = {}, []
        else:
            view = view.follow(commit(version, "event", *deltas))
            events += [f"{version}.{n}" for n in range(len(deltas))]
        for delta in deltas:
            state.update({k: v for k, v in (delta or {}).items() if ":" not in k})
    assert view.state == state
    assert ids(view) == events
    for last in range(len(events) + 2):
        assert ids(view, last) == (events[-last:] if last else [])
