from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakestore.catalog import Catalog
from lakestore.log.keys import rollup_key
from lakestore.storage import MemoryStore, Metrics, ObjectStore
from lakestore.tables.events import COMMIT_SCHEMA, EventRow, encode_commit, to_table
from tests.support.lake_builder import LogBuilder, a_log, event_json

Follow = Callable[[ObjectStore], Catalog]


def refreshed(catalog: Catalog) -> list[str]:
    """The ids of all events now."""
    catalog.refresh()
    rows = catalog.sql("select event_id from events order by session_id, version, ordinal")
    return [event_id for (event_id,) in rows.fetchall()]


def parquet(table: pa.Table) -> bytes:
    """The bytes of any table."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def stored(row: EventRow) -> pa.Table:
    """The row as a commit stores it."""
    return to_table([row]).select(COMMIT_SCHEMA.names)


def with_bytes(row: EventRow, column: str, text: bytes) -> pa.Table:
    """The row with a text of these bytes, which no check has seen."""
    table = stored(row)
    raw = pa.array([text], pa.binary()).view(pa.string())
    return table.set_column(table.column_names.index(column), column, raw)


BAD: dict[str, Callable[[EventRow], bytes]] = {
    "one byte": lambda _row: b"x",
    "truncated": lambda row: encode_commit([row])[:-8],
    "of another version": lambda row: encode_commit([replace(row, version=row.version + 1)]),
    "of another session": lambda row: encode_commit([replace(row, session_id="s2")]),
    "of another user": lambda row: encode_commit([replace(row, user_id="ben")]),
    "of an unknown kind": lambda row: encode_commit([replace(row, kind="merge")]),  # type: ignore[arg-type]
    "without a column": lambda row: parquet(stored(row).drop_columns(["token"])),
    "with a null id": lambda row: parquet(_without_user(row)),
    "with another type of payloads": lambda row: parquet(
        stored(row).append_column("payloads", [["x"]])
    ),
    "without rows": lambda row: parquet(stored(row).slice(0, 0)),
    "an event not in UTF-8": lambda row: parquet(with_bytes(row, "event_json", b'{"id":"\xff"}')),
    "a state not in UTF-8": lambda row: parquet(with_bytes(row, "state_delta", b'{"k":"\xff"}')),
}


def _without_user(row: EventRow) -> pa.Table:
    table = stored(row)
    nothing = pa.array([None], pa.string())
    return table.set_column(table.column_names.index("user_id"), "user_id", nothing)


@pytest.fixture
def log(store: MemoryStore) -> LogBuilder:
    """A log of three commits beside another one."""
    a_log(store, "s2").create().say("x").say("y")
    return a_log(store).create().say("a")


@pytest.mark.parametrize("body_of", BAD.values(), ids=BAD)
def test_damage_hides_the_rest_of_its_session_only(
    store: MemoryStore,
    catalog: Catalog,
    log: LogBuilder,
    body_of: Callable[[EventRow], bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An object that is not what its key says is named in a warning; other sessions are whole."""
    row = log.row("event", None, event_json("secret"))
    store.put_if_absent(log.commit_key(3), body_of(row))
    log.version = 3
    log.say("c")
    assert refreshed(catalog) == ["a", "x", "y"]
    (warning,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert log.commit_key(3) in warning.getMessage()
    assert warning.name.startswith("lakestore.")
    assert "secret" not in caplog.text


def test_damage_is_looked_at_again(
    store: MemoryStore,
    catalog: Catalog,
    log: LogBuilder,
    metrics: Metrics,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each refresh tries the damaged object, and it alone; when it was mended, all is there."""
    whole = encode_commit([log.row("event", None, event_json("b"))])
    store.put_if_absent(log.commit_key(3), whole[:-9])
    log.version = 3
    log.say("c").say("d")
    assert refreshed(catalog) == ["a", "x", "y"]
    before = metrics.requests
    assert refreshed(catalog) == ["a", "x", "y"]
    assert metrics.requests == {"LIST": before["LIST"] + 5, "GET": before["GET"] + 1}
    assert len(caplog.records) == 1, "what was said once is not said at every query"
    store.delete(log.commit_key(3))
    store.put_if_absent(log.commit_key(3), whole)
    assert refreshed(catalog) == ["a", "b", "c", "d", "x", "y"]


def test_a_damaged_rollup(
    store: MemoryStore, catalog: Catalog, log: LogBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    """A rollup that does not end with its checkpoint is as bad as any damaged object."""
    key = rollup_key(log.key.log, 2)
    store.put_if_absent(key, encode_commit(log.rows))
    assert refreshed(catalog) == ["x", "y"]
    assert key in caplog.text


def test_a_copied_folder_is_not_a_session(
    store: MemoryStore, catalog: Catalog, log: LogBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    """Objects copied under another id don't count twice, and can't end the session they name."""
    copied = log.key.log.replace("session=s1", "session=s1%20(copy)")
    for stored_object in [*store.list(log.key.log)]:
        name = stored_object.key.removeprefix(log.key.log)
        store.put_if_absent(copied + name, store.get(stored_object.key))
    end = encode_commit([log.row("delete")])
    store.put_if_absent(copied + log.commit_key(3).removeprefix(log.key.log), end)
    assert refreshed(catalog) == ["a", "x", "y"]
    assert "(copy)" in caplog.text


@pytest.mark.parametrize(
    ("event", "columns"),
    [
        (event_json("odd", usage_metadata={"total_token_count": 10**30}), ("odd", None)),
        (event_json("odd", author=7, timestamp="never", content=[]), ("odd", None)),
        ('["odd"]', (None, None)),
        ("{'id': 'odd'}", (None, None)),
        ("[" * 100_000, (None, None)),
    ],
    ids=["huge count", "other types", "a list", "no JSON", "too deep"],
)
def test_an_odd_event_degrades_alone(
    catalog: Catalog, log: LogBuilder, event: str, columns: tuple[str | None, int | None]
) -> None:
    """What the columns of an event cannot hold is null in them, and whole in its JSON."""
    log.commit([log.row("event", None, event)]).say("c")
    assert refreshed(catalog) == ["a", columns[0], "c", "x", "y"]
    query = "select event_id, total_tokens, event_json from events where session_id = 's1'"
    assert catalog.sql(f"{query} and version = 3").fetchall() == [(*columns, event)]


def test_half_a_character_is_shown_as_columns_hold_it(catalog: Catalog, log: LogBuilder) -> None:
    """JSON can spell half a surrogate pair, and no text column can hold one."""
    odd = event_json("odd", error_message="half a pair").replace("pair", "\\ud83d")
    log.commit([log.row("event", None, odd)])
    assert refreshed(catalog) == ["a", "odd", "x", "y"]
    query = "select error_message from events where event_id = 'odd'"
    assert catalog.sql(query).fetchall() == [("half a \ufffd",)]


def test_columns_in_another_order(store: MemoryStore, catalog: Catalog, log: LogBuilder) -> None:
    """A commit by another program may order its columns in its own way and have more of them."""
    table = stored(log.row("event", None, event_json("b")))
    table = table.select(table.column_names[::-1]).append_column("colour", [["red"]])
    store.put_if_absent(log.commit_key(3), parquet(table))
    assert refreshed(catalog) == ["a", "b", "x", "y"]
