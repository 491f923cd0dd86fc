"""NaN and infinities that another program stored read as texts, wherever they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakestore import Lake
from lakestore.log.keys import commit_key, entry_key
from lakestore.storage import ObjectStore
from lakestore.tables import events, state
from lakestore.tables.state import from_json, to_json
from tests.support.histories import ANA, KEY, World, said

LITERALS = (
    '{"b":NaN,"a":[Infinity,{"x":-Infinity}],"h":-1e999,"z":1e300,"user:u":NaN,"app:p":1E+400}'
)
OWN = {"b": "NaN", "a": ["Infinity", {"x": "-Infinity"}], "h": "-Infinity", "z": 1e300}


@pytest.fixture
def foreign(world: World) -> World:
    """A session whose second commit another program wrote, without its entries."""
    host = world.host()
    host.append(host.create(), said("e1", {"first": 1, "user:u": 1, "app:p": 1}))
    rows = events.decode(world.store.get(commit_key(KEY.log, 2)))
    world.store.delete(commit_key(KEY.log, 2))
    odd = replace(rows[0], state_delta=LITERALS)
    world.store.put_if_absent(commit_key(KEY.log, 2), events.encode_commit([odd]))
    for scope in ("user=ana", "user=-"):
        for stored in [*world.store.list(f"state/entries/app=travel/{scope}/")]:
            world.store.delete(stored.key)
    return world


def in_sql(store: ObjectStore) -> Any:
    """Return the session's state as SQL shows it."""
    with Lake(store, read_only=True) as lake:
        ((text,),) = lake.sql("select state from sessions").fetchall()
    return from_json(text)


def test_a_session_reads_the_same_everywhere(foreign: World) -> None:
    """From its commits, from a rollup, and in SQL, keys in the order in which they were set."""
    host = foreign.host()
    Lake(foreign.store).close()
    found = host.sessions.read(KEY)
    assert found is not None
    view = found[0]
    assert view.state == OWN
    assert list(view.state) == list(OWN)
    assert in_sql(foreign.store) == OWN

    host.sessions.roll_up(KEY, force=True)
    foreign.store.delete(commit_key(KEY.log, 1))
    rolled = foreign.host().sessions.load(KEY)
    assert rolled.rolled_version == 2
    assert list(rolled.state.items()) == list(OWN.items())
    assert in_sql(foreign.store) == OWN


def test_its_shared_state_is_completed(foreign: World) -> None:
    """The entries that its writer did not put hold texts, and so does what is read of them."""
    host = foreign.host()
    assert host.sessions.read(KEY) is not None
    assert host.state() == {"u": "NaN"}
    for entry in foreign.entries():
        assert [row.value for row in state.decode(foreign.store.get(entry.key))] == ['"NaN"']


def test_an_entry_of_another_program(world: World) -> None:
    """A state entry with a literal reads as a text, and folds."""
    host = world.host()
    host.append(host.create(), said("e1", {"user:u": 1}))
    (entry,) = world.entries()
    (row,) = state.decode(world.store.get(entry.key))
    later = row.stamp.replace("0", "1", 1)
    odd = replace(row, value='{"deep":[NaN]}', stamp=later)
    world.store.put_if_absent(entry_key(ANA.entries, later, fold=False), state.encode([odd]))

    reader = world.host()
    assert reader.state() == {"u": {"deep": ["NaN"]}}
    reader.sessions.shared.fold_entries(ANA)
    assert world.host().state() == {"u": {"deep": ["NaN"]}}


@pytest.mark.parametrize("value", [[], {}, "", 0, [1.5, {"b": 1, "a": None}], "1e999 NaN"])
def test_json_comes_back(value: object) -> None:
    """What is JSON is written as it is, and comes back equal."""
    assert from_json(to_json(value)) == value
