"""The `artifacts` table comes back from Parquet as it went in."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import FormatError
from lakestore.tables import artifacts
from lakestore.tables.artifacts import ArtifactRow, Commit, Named, Saved

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_times = st.integers(0, 2**51)
_maybe = st.none() | _texts
_saves = st.builds(
    Saved,
    st.integers(1, 2**40),
    _texts,
    _times,
    st.integers(0, 2**40),
    _texts,
    *[_maybe] * 4,
    st.none() | st.integers(0, 2**50),
    *[_maybe] * 2,
)
_ids = (_texts, _texts, _maybe, _texts)
_many = st.lists(_saves, max_size=40).map(tuple)


def ascending(saves: tuple[Saved, ...]) -> tuple[Saved, ...]:
    """Return versions as commits saved them, one after the other."""
    return tuple(replace(saved, version=number) for number, saved in enumerate(saves, start=1))


@given(
    st.tuples(*_ids),
    st.sampled_from(["save", "delete", "prune", "name"]),
    _many,
    st.none() | st.lists(_texts).map(tuple),
)
def test_commit_comes_back(
    ids: tuple[str, str, str | None, str],
    kind: artifacts.Kind,
    saves: tuple[Saved, ...],
    payloads: tuple[str, ...] | None,
) -> None:
    """A commit of whatever kind is what was encoded."""
    saves = ascending(saves)
    version, token, at = len(saves) + 7, "t", 17
    named = None if payloads is None else Named(len(saves) + 1, "n", 3, payloads)
    if kind == "name":
        named = Named(version, token, at, payloads or ())
    if kind == "save":
        saves = (*saves, Saved(version, token, at, 9, "{}"))
    commit = Commit(*ids, version, kind, token, "p", at, 4, 2, saves, named)
    assert artifacts.decode_commit(artifacts.encode_commit(commit)) == commit


_named = st.lists(_texts, max_size=3).map(tuple)
_rows = st.builds(
    ArtifactRow, _texts, _texts, _maybe, _texts, _times, _texts, _times, _many, _named, _times
)


@given(st.lists(_rows), st.lists(_rows), st.integers(0, 3), st.integers(0, 3))
def test_run_comes_back(
    rows: list[ArtifactRow], others: list[ArtifactRow], first: int, count: int
) -> None:
    """Rows of runs are what was put into a table, also of a part of it, or of two together."""
    tables = [artifacts.to_table(each) for each in (rows, others)]
    assert artifacts.from_table(tables[0]) == rows
    assert artifacts.from_table(pa.concat_tables(tables)) == [*rows, *others]
    part = tables[0].slice(first, count)
    assert artifacts.from_table(part) == rows[first : first + count]


def test_places_differ() -> None:
    """No two artifacts of a user have one place, whatever their names spell."""
    names = [(None, "a"), ("null", "a"), ("", "a"), ('a","b', "c"), ("a", 'b","c'), ("a", "b")]
    assert len({artifacts.place_of(*each) for each in names}) == len(names)


def test_unknown_kind_is_refused() -> None:
    """A commit with a row of a kind that a newer version has is not read."""
    commit = Commit("a", "u", None, "f", 1, "delete", "t", "", 0, 0, 0)
    table = pa.parquet.read_table(pa.BufferReader(artifacts.encode_commit(commit)))
    table = table.set_column(0, artifacts.COMMIT_SCHEMA.field("kind"), pa.array(["split"]))
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    with pytest.raises(FormatError, match="split"):
        artifacts.decode_commit(sink.getvalue().to_pybytes())
