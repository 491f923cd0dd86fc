"""Packs and large files: rows come back from ranges, and other readers see plain Parquet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import FormatError
from lakestore.storage import MemoryStore
from lakestore.tables import events
from lakestore.tables.footers import footer_size, joined_footer, moved
from lakestore.tables.groups import GroupWriter, group_places, split_groups
from lakestore.tables.packing import PackBuilder, Part
from lakestore.tables.parquet import filled, open_parquet, read_groups
from lakestore.tables.payloads import Payload
from lakestore.tables.runs import Segment
from tests.support.lake_builder import a_log, event_json

SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("text", pa.string())])


def numbers(first: int, count: int) -> pa.Table:
    """Return a table with some texts, some of them missing."""
    texts = [None if n % 3 == 0 else f"text {n}" * (n % 5) for n in range(first, first + count)]
    return pa.table([pa.array(range(first, first + count)), pa.array(texts)], schema=SCHEMA)


def written(sizes: list[int]) -> tuple[GroupWriter, bytes, pa.Table]:
    """Return a writer of groups of those sizes, its file, and all rows."""
    writer, tables, first = GroupWriter(SCHEMA), [], 0
    for size in sizes:
        tables.append(numbers(first, size))
        writer.write(tables[-1])
        first += size
    return writer, writer.close(), pa.concat_tables(tables)


def session(session_id: str, rows: int, first_time: float | None = 1_000.0) -> pa.Table:
    """Return the rows of one session, a commit each."""
    log = a_log(MemoryStore(), session_id).create({"k": 1})
    for number in range(rows - 1):
        at = None if first_time is None else first_time + number
        log.commit([log.row("event", {"k": number}, event_json(f"e{number}", at=at))])
    return events.to_table(log.rows)


class TestGroups:
    """Each row group is a file within the file."""

    @given(st.lists(st.integers(1, 400), min_size=1, max_size=6))
    def test_it_is_plain_parquet(self, sizes: list[int]) -> None:
        """PyArrow reads all of it, with checksums, and knows each group's statistics."""
        writer, body, rows = written(sizes)
        file = pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True)
        assert file.read().equals(rows)
        assert [place.rows for place in writer.groups] == sizes
        for number, size in enumerate(sizes):
            group = file.metadata.row_group(number)
            assert group.num_rows == size
            assert group.column(0).statistics.min == sum(sizes[:number])

    def test_duckdb_reads_it(self, tmp_path: Path) -> None:
        """With conditions that skip groups, too."""
        _, body, rows = written([100, 200, 300])
        path = tmp_path / "file.parquet"
        path.write_bytes(body)
        query = "select count(*), min(number), max(text) from read_parquet(?) where number >= 250"
        expected = rows.slice(250)["text"].to_pylist()
        assert duckdb.execute(query, [str(path)]).fetchone() == (
            350,
            250,
            max(text for text in expected if text is not None),
        )

    @given(st.lists(st.integers(1, 300), min_size=1, max_size=6), st.data())
    def test_any_range_of_groups_is_read_by_itself(
        self, sizes: list[int], data: st.DataObject
    ) -> None:
        """Without the footer of all."""
        writer, body, rows = written(sizes)
        first = data.draw(st.integers(0, len(sizes) - 1))
        last = data.draw(st.integers(first, len(sizes) - 1))
        end = writer.groups[last].start + writer.groups[last].length
        found = split_groups(body[writer.groups[first].start : end])
        assert len(found) == last - first + 1
        tables = [read_groups(open_parquet(each, SCHEMA)) for each in found]
        begin = sum(sizes[:first])
        assert pa.concat_tables(tables).equals(rows.slice(begin, sum(sizes[first : last + 1])))

    @pytest.mark.parametrize("sizes", [[5, 700, 1, 40], [5]])
    def test_the_footer_tells_where_groups_are(self, sizes: list[int]) -> None:
        """As the writer does."""
        writer, body, _ = written(sizes)
        footer = body[-footer_size(body) :]
        assert group_places(footer, len(body)) == [(it.start, it.length) for it in writer.groups]

    def test_one_group_has_one_footer(self) -> None:
        """Which is the file's; and where a second one follows, both ranges are read."""
        writer, body, rows = written([40])
        assert writer.groups[0].length == len(body)
        end = joined_footer([(0, body[-footer_size(body) :])])
        assert group_places(end, len(body) + len(end)) == [(0, len(body))]
        for file in (body, body + end):
            assert read_groups(open_parquet(file, SCHEMA)).equals(rows)
        assert split_groups(body) == [body]

    @pytest.mark.parametrize("cut", [1, 8, 200])
    def test_a_range_that_is_cut(self, cut: int) -> None:
        """It is damage, at either end, and no row too few."""
        writer, body, _ = written([50, 60])
        both = body[: writer.groups[1].start + writer.groups[1].length]
        for part in (both[:-cut], both[cut:]):
            with pytest.raises(FormatError):
                split_groups(part)

    def test_a_footer_that_is_moved_nowhere_is_the_same(self) -> None:
        """Copying keeps every byte, whatever the fields are."""
        body = events.encode_rollup_table(session("s", 600))
        footer = body[-footer_size(body) : -8]
        assert moved(footer, 0) == footer
        assert moved(moved(footer, 1_000_000), -1_000_000) == footer


def rows_of(body: bytes, part: Part) -> pa.Table:
    """Return the rows of a part as they are in a pack."""
    file = pq.ParquetFile(pa.BufferReader(body))
    groups = (filled(file.read_row_group(it.group), events.SCHEMA) for it in part)
    return pa.concat_tables(
        [it.slice(at.skip, at.rows) for it, at in zip(groups, part, strict=True)]
    )


def referring(table: pa.Table) -> pa.Table:
    """Return rows of which each refers to bytes beside it."""
    payloads = (Payload("/content/parts/0/inlineData/data", "k", "0f", 3, None, "base64"),)
    return events.to_table([replace(row, payloads=payloads) for row in events.from_table(table)])


class TestOptionalColumns:
    """A pack has the column for payloads where a row has any, and then in all row groups."""

    @pytest.mark.parametrize("at", [0, 1, 2, 3, None])
    def test_groups_of_before_are_written_again(self, at: int | None) -> None:
        """Wherever the first such row comes, all rows are there, where parts say."""
        tables = [session(f"s{number}", 10) for number in range(4)]
        if at is not None:
            tables[at] = referring(tables[at])
        builder = PackBuilder(group_rows=10)
        parts = [builder.add(table) for table in tables]
        pack = builder.finish()
        names = pq.read_schema(pa.BufferReader(pack.body)).names
        assert ("payloads" in names) == (at is not None)
        for table, part in zip(tables, parts, strict=True):
            assert rows_of(pack.body, part).drop(["previous"]).equals(table.drop(["previous"]))
            for segment in pack.segments("p", part):
                (group,) = split_groups(pack.body[segment.start : segment.start + segment.length])
                assert pq.read_schema(pa.BufferReader(group)).names == names

    @pytest.mark.parametrize("has_payloads", [True, False])
    def test_a_group_is_copied_where_it_has_the_columns_of_all(self, has_payloads: bool) -> None:
        """One with payloads has those before written again; one without is to be written anew."""
        one, other = session("s1", 10), session("s2", 10)
        one, other = (one, referring(other)) if has_payloads else (referring(one), other)
        source = PackBuilder(group_rows=10)
        source.add(other)
        body = source.finish().body
        builder = PackBuilder(group_rows=10)
        part = builder.add(one)
        copied = builder.copy(body, 10)
        assert copied == (1 if has_payloads else None)
        pack = builder.finish()
        assert rows_of(pack.body, part).drop(["previous"]).equals(one.drop(["previous"]))
        if has_payloads:
            found = pq.ParquetFile(pa.BufferReader(pack.body)).read_row_group(1)
            assert found.drop(["previous"]).equals(other.drop(["previous"]))


class TestPack:
    """Sessions one after the other; each is a few ranges."""

    def test_parts_are_where_they_are_said_to_be(self) -> None:
        """Whether they fill a group, share one, or lie in many."""
        tables = [session(f"s{size}", size) for size in (1, 7, 10, 3, 45, 10, 2)]
        builder = PackBuilder(group_rows=10)
        parts = [builder.add(table) for table in tables]
        pack = builder.finish()
        assert pack.rows == builder.rows == 78
        assert [place.rows for place in pack.groups] == [10] * 7 + [8]
        for table, part in zip(tables, parts, strict=True):
            found = rows_of(pack.body, part)
            assert found.drop(["previous"]).equals(table.drop(["previous"]))
            assert set(found["previous"].to_pylist()) == {""}  # of which logs alone are asked
            for segment in pack.segments("p", part):
                assert segment.groups == 1
                (group,) = split_groups(pack.body[segment.start : segment.start + segment.length])
                found = read_groups(open_parquet(group, events.SCHEMA))
                versions = found.slice(segment.skip, segment.rows)["version"].to_pylist()
                assert (versions[0], versions[-1]) == (segment.first_version, segment.last_version)

    @pytest.mark.parametrize("many", [1, 3])
    def test_rows_of_several_tables_are_woven_together(self, many: int) -> None:
        """As they were added, whatever is known of them; a part that falls apart is looked at."""
        tables = [pa.concat_tables([session(f"s{n}{t}", 6) for n in range(4)]) for t in range(many)]
        first = PackBuilder().add(tables[0].slice(0, 6))
        builder, wanted, parts = PackBuilder(group_rows=20), [], []
        for number in range(4):
            for table in tables:
                rows = table.slice(6 * number, 6)
                known = Segment("old", 0, 1, 0, 0, 6 * number, 6, 1, 6, first[0].last_time)
                parts.append(builder.add_some(table, 6 * number, 6, 100, known))
                wanted.append(rows)
        body = builder.finish().body
        for part, rows in zip(parts, wanted, strict=True):
            assert rows_of(body, part).drop(["previous"]).equals(rows.drop(["previous"]))
            assert (part[0].first_version, part[-1].last_version) == (1, 6)
            assert all(it.last_version - it.first_version == it.rows - 1 for it in part)

    def test_the_last_rows_of_a_long_session_are_a_small_range(self) -> None:
        """There is a segment for each row group."""
        builder = PackBuilder(group_rows=10)
        part = builder.add(session("s", 95))
        segments = builder.finish().segments("p", part)
        assert [segment.rows for segment in segments] == [10] * 9 + [5]

    def test_times_tell_what_need_not_be_read(self) -> None:
        """Never a time before an event's own; none where no event has one."""
        builder = PackBuilder(group_rows=4)
        (only,) = builder.add(session("a", 1))
        (timed,) = builder.add(session("b", 3, first_time=1_700_000_000.123_456_7))
        untimed = builder.add(session("c", 2, first_time=None))
        assert only.last_time is None
        assert timed.last_time is not None
        assert 0 < timed.last_time - 1_700_000_001.123_456_7 < 1e-5
        assert [piece.last_time for piece in untimed] == [None]

    def test_large_rows_make_small_groups(self) -> None:
        """A row group is bounded by bytes too."""
        log = a_log(MemoryStore(), "s").create()
        for number in range(4):
            log.commit([log.row("event", None, event_json(f"{number}", x="y" * 6_000_000))])
        builder = PackBuilder()
        part = builder.add(events.to_table(log.rows))
        pack = builder.finish()
        assert len(pack.groups) > 1
        assert rows_of(pack.body, part)["version"].to_pylist() == [1, 2, 3, 4, 5]
