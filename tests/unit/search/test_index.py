"""What holds for every ranking: folding, filters, ties and scopes."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.catalog.vectors import VectorDatabase
from lakestore.errors import InputError
from lakestore.search.bm25 import Bm25
from lakestore.search.filters import Filter, filter_of
from lakestore.search.hybrid import Hybrid
from lakestore.search.index import Hit, Index, Ranking
from lakestore.search.overlap import Overlap
from lakestore.tables import memory
from lakestore.tables.memory import MemoryRow
from lakestore.tables.memory import vector as pack
from tests.support.memories import forget, row_of
from tests.support.searching import found, hashed, index_of, rows_of_texts, said

DATABASE = VectorDatabase()
RANKINGS: dict[str, Ranking] = {
    "overlap": Overlap(),
    "bm25": Bm25(),
    "hybrid": Hybrid(hashed, DATABASE.table),
}

every_ranking = pytest.mark.parametrize("ranking", RANKINGS.values(), ids=RANKINGS)


def embedded(rows: list[MemoryRow]) -> list[MemoryRow]:
    """Return the rows with vectors."""
    vectors = hashed([row.text or "" for row in rows])
    return [
        replace(row, embedding=None if row.kind == "forget" else pack(vector))
        for row, vector in zip(rows, vectors, strict=True)
    ]


def ranked(ranking: Ranking, index: Index, query: str = "tea") -> list[Hit]:
    """Return all that is found."""
    return ranking.rank([index], query, 100)


@every_ranking
@given(data=st.data())
def test_the_order_of_arrival_does_not_matter(ranking: Ranking, data: st.DataObject) -> None:
    """Adds and forgets in any order, in any batches and again, give the same ids and scores."""
    words = st.lists(st.sampled_from(["tea", "green", "black", "cup"]), min_size=1, max_size=3)
    rows = [
        row_of(
            said(data.draw(st.sampled_from(["e1", "e2", "e3", "e4"])), " ".join(data.draw(words))),
            number,
            data.draw(st.sampled_from([None, "s1", "s2"])),
        )
        for number in range(1, data.draw(st.integers(1, 10)))
    ]
    rows = embedded([*rows, *(forget(row, 50) for row in rows[:1] if data.draw(st.booleans()))])
    other = ranking.index()
    shuffled = data.draw(st.permutations(rows + rows[:2]))
    while shuffled:
        size = data.draw(st.integers(1, len(shuffled)))
        other.add(memory.to_table(shuffled[:size]))
        shuffled = shuffled[size:]
        ranked(ranking, other)

    index = index_of(ranking, rows)
    assert ranked(ranking, other, "black tea") == ranked(ranking, index, "black tea")
    assert len(index) == len(other)


@every_ranking
def test_a_later_add_replaces_an_earlier_one_in_its_place(ranking: Ranking) -> None:
    """Of two adds of one id in one session the later content counts, where the earlier stood."""
    rows = embedded(rows_of_texts("tea", "tea", "tea"))
    changed = replace(rows[0], stamp=rows[2].stamp, ordinal=1)
    index = index_of(ranking, [*rows, changed])
    assert found(ranking, index, "tea") == ["e1", "e2", "e3"]

    coffee = row_of(said("e1", "coffee"), 9, "s")
    index.add(memory.to_table(embedded([coffee])))
    assert found(ranking, index, "coffee")[0] == "e1"
    assert len(index) == 3


@every_ranking
def test_a_forgotten_memory_stays_forgotten(ranking: Ranking) -> None:
    """A forget wins over every add of its id in every session, earlier or later, and no other."""
    rows = embedded(rows_of_texts("tea", "tea"))
    index = index_of(ranking, [*rows, forget(rows[0], 5)])
    assert found(ranking, index, "tea") == ["e2"]

    index.add(memory.to_table([replace(rows[0], stamp=rows[0].stamp + "9", session_id="other")]))
    assert found(ranking, index, "tea") == ["e2"]


@every_ranking
def test_what_is_removed_can_come_again(ranking: Ranking) -> None:
    """Removal leaves no trace; a key that is not there is no matter."""
    rows = embedded(rows_of_texts("tea", "tea"))
    index = index_of(ranking, rows)
    index.remove([("s", "e1"), ("s", "e9"), (None, "e2")])
    assert found(ranking, index, "tea") == ["e2"]

    index.add(memory.to_table(rows[:1]))
    assert found(ranking, index, "tea") == ["e1", "e2"]


@every_ranking
def test_rows_that_went_take_no_memory_for_long(ranking: Ranking) -> None:
    """When most of an index is gone it is made smaller, and answers the same."""
    rows = embedded(rows_of_texts(*("green tea", "東京 cup") * 1_000))
    index = index_of(ranking, rows)
    before = index.nbytes
    index.remove([("s", row.id) for row in rows if int(row.id[1:]) % 20])

    assert len(index) == 100
    assert index.nbytes < before / 4
    again = index_of(ranking, [row for row in rows if not int(row.id[1:]) % 20])
    assert ranked(ranking, index, "tea 東京") == ranked(ranking, again, "tea 東京")
    index.add(memory.to_table(embedded(rows_of_texts("oolong", first=5_000))))
    assert found(ranking, index, "oolong")[0] == "e5000"


MONDAY = datetime(2024, 3, 10, 8, tzinfo=UTC)
FILTERED = [
    row_of(said("e1", "tea", at=MONDAY.timestamp()), 1, "s1", metadata={"topic": "x", "n": 1}),
    row_of(said("e2", "tea", author="agent", at=MONDAY.timestamp() + 60), 2, "s1"),
    row_of(said("e3", "tea", at=MONDAY.timestamp() + 120), 3, "s2", metadata={"topic": ["x"]}),
    replace(row_of(said("e4", "tea"), 4), event_time=None, author=None, custom_metadata="[1]"),
]


@every_ranking
@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (filter_of(), "1234"),
        (filter_of(since=MONDAY), "23"),
        (filter_of(until=MONDAY), "1"),
        (filter_of(MONDAY, MONDAY + timedelta(seconds=60)), "2"),
        (filter_of(since=float("-inf"), until=float("inf")), "123"),
        (filter_of(session_ids=["s2", "s9"]), "3"),
        (filter_of(session_ids=[]), ""),
        (filter_of(authors=["user"]), "13"),
        (filter_of(metadata={"topic": "x"}), "1"),
        (filter_of(metadata={"topic": "x", "n": 1.0}), "1"),
        (filter_of(metadata={"topic": ["x"]}), "3"),
        (filter_of(metadata={"topic": "x", "n": 2}), ""),
        (filter_of(authors=["agent"], session_ids=["s2"]), ""),
    ],
)
def test_filters_narrow(ranking: Ranking, where: Filter, wanted: str) -> None:
    """Each filter lets through what meets it, all together what meets all, before the cut."""
    index = index_of(ranking, embedded(FILTERED))
    hits = ranking.rank([index], "tea", 10, where)
    assert "".join(hit.key[1][1:] for hit in hits) == wanted

    last = ranking.rank([index], "tea", 1, filter_of(session_ids=["s2"]))
    assert [hit.key for hit in last] == [("s2", "e3")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"since": "yesterday"},
        {"until": datetime(2024, 3, 10)},  # noqa: DTZ001 - what is refused
        {"session_ids": "s1"},
        {"authors": [1]},
        {"metadata": ["topic"]},
        {"metadata": {"topic": object()}},
    ],
)
def test_a_wrong_filter_is_refused(wrong: dict[str, object]) -> None:
    """What cannot be meant is an InputError that names the argument."""
    with pytest.raises(InputError, match=next(iter(wrong))):
        filter_of(**wrong)  # type: ignore[arg-type] # the point


@every_ranking
def test_two_scopes_are_searched_as_one(ranking: Ranking) -> None:
    """A user's own memories and the app's compete by score; of equals the former come first."""
    user = index_of(ranking, embedded(rows_of_texts("green tea", "milk", first=1)))
    app = index_of(ranking, embedded(rows_of_texts("green tea", "oolong tea", first=3)))

    hits = ranking.rank([user, app], "green tea")
    assert [(hit.scope, hit.key[1]) for hit in hits[:3]] == [(0, "e1"), (1, "e3"), (1, "e4")]
    assert hits[0].score >= hits[1].score > hits[2].score
    assert len(ranking.rank([user, app], "tea", 2)) == 2


@every_ranking
def test_an_empty_index_finds_nothing(ranking: Ranking) -> None:
    """There is nothing to find before anything was added, nor for an empty query of words."""
    index = ranking.index()
    index.add(memory.to_table([]))
    assert (ranking.rank([index], "tea"), ranking.rank([], "tea"), len(index)) == ([], [], 0)


@every_ranking
def test_threads_may_search_while_others_add(ranking: Ranking) -> None:
    """Every search sees whole adds, and all of those that ended before it began."""
    index = ranking.index()
    counts: list[int] = []
    start = threading.Barrier(2)

    def add() -> None:
        start.wait()
        for number in range(0, 100, 2):
            index.add(memory.to_table(embedded(rows_of_texts("tea", "tea", first=number))))

    adding = threading.Thread(target=add)
    adding.start()
    start.wait()
    while adding.is_alive():
        counts.append(len(ranked(ranking, index)))
    adding.join()
    counts.append(len(ranked(ranking, index)))

    assert counts == sorted(counts)
    assert {count % 2 for count in counts} == {0}
    assert counts[-1] == 100
