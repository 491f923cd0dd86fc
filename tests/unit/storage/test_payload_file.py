"""A payload as a file: what programs do with files works, in few requests."""

from __future__ import annotations

import io
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lakestore.errors import FormatError, NotFoundError
from lakestore.storage import (
    PART,
    CountingStore,
    MemoryStore,
    Metrics,
    open_object,
    open_store,
)
from tests.support.servers import Bucket

KIB = 1024
LARGE = os.urandom(3 * PART + 12_345)


class Counted:
    """A payload in memory, and how many requests reading it took."""

    def __init__(self, body: bytes) -> None:
        self.metrics = Metrics()
        store = MemoryStore()
        store.upload("t/payload", [body], content_type="application/octet-stream")
        self.file = open_object(CountingStore(store, self.metrics), "t/payload", len(body))

    @property
    def requests(self) -> int:
        """How many so far."""
        return sum(self.metrics.requests.values())


SEEKS = st.tuples(
    st.just("seek"),
    st.integers(-20, 700_000),
    st.sampled_from([io.SEEK_SET, io.SEEK_CUR, io.SEEK_END]),
)
READS = st.tuples(st.just("read"), st.integers(-1, 600_000), st.just(0))
BODY = os.urandom(600_000)


@given(st.lists(SEEKS | READS, max_size=12), st.integers(0, len(BODY)))
def test_it_is_a_file(steps: list[tuple[str, int, int]], size: int) -> None:
    """Any steps give the bytes and places that a file in memory gives."""
    found, expected = Counted(BODY[:size]).file, io.BytesIO(BODY[:size])
    for step, number, whence in steps:
        if step == "read":
            assert found.read(number) == expected.read(number)
        elif whence == io.SEEK_SET and number < 0:
            with pytest.raises(ValueError, match=r"negative|before"):
                found.seek(number)
        elif whence == io.SEEK_SET or expected.tell() + number >= 0:
            assert found.seek(number, whence) == expected.seek(number, whence)
        assert found.tell() == expected.tell()


def test_places_that_a_file_has_not() -> None:
    """What Linux offers for files with holes is refused as Python refuses it elsewhere."""
    with pytest.raises(io.UnsupportedOperation):
        Counted(BODY[:10]).file.seek(0, 3)


def test_going_on_fetches_more_each_time() -> None:
    """Read in small pieces, a payload is fetched in parts that double up to 8 MB."""
    counted = Counted(LARGE)
    read = b"".join(iter(lambda: counted.file.read(10_000), b""))

    assert read == LARGE
    assert counted.requests == 7  # 0.5, 1, 2, 4, 8, 8 MB and what is left
    assert counted.metrics.bytes_read == len(LARGE)


def test_read_at_once_it_is_fetched_in_parts() -> None:
    """All of it takes a request a part, and each byte is fetched once."""
    counted = Counted(LARGE)

    assert counted.file.read() == LARGE
    assert counted.requests == 4
    assert counted.metrics.bytes_read == len(LARGE)


def test_a_jump_fetches_little() -> None:
    """What is read here and there costs a request and 256 KiB each."""
    counted = Counted(LARGE)
    for place in (PART, 5_000, 2 * PART, PART):
        counted.file.seek(place)
        assert counted.file.read(100) == LARGE[place : place + 100]

    assert counted.requests == 4
    assert counted.metrics.bytes_read == 4 * 256 * KIB


def test_nothing_is_asked_before_the_first_read() -> None:
    """Opening costs nothing, nor does an empty payload or what is past the end."""
    counted = Counted(b"")
    assert counted.file.read() == b""
    counted.file.seek(10)
    assert counted.file.read(5) == b""

    assert counted.requests == 0


def test_a_payload_that_is_gone_or_cut_says_so() -> None:
    """Bytes that are not there are an error, never an early end."""
    store = MemoryStore()
    store.upload("t/cut", [b"12345"], content_type="text/plain")
    with pytest.raises(FormatError, match=r"shorter.*t/cut"):
        open_object(store, "t/cut", 6).read()
    with pytest.raises(NotFoundError, match="t/none"):
        open_object(store, "t/none", 6).read(1)


def test_threads_may_share_it() -> None:
    """Each of many reads gets bytes that nobody else gets."""
    file = Counted(LARGE).file
    with ThreadPoolExecutor(8) as threads:
        pieces = [*threads.map(lambda _: file.read(1_000), range(2_000))]

    assert sorted(pieces) == sorted(LARGE[n * 1_000 : n * 1_000 + 1_000] for n in range(2_000))


class TestPrograms:
    """What people open payloads with."""

    def test_a_table_of_text(self) -> None:
        """Pandas reads CSV."""
        frame = pd.DataFrame({"a": range(50_000), "b": ["größe"] * 50_000})
        counted = Counted(frame.to_csv(index=False).encode())

        pd.testing.assert_frame_equal(pd.read_csv(counted.file), frame)
        assert counted.requests <= 2

    def test_an_archive(self) -> None:
        """A member of a large archive takes its directory and its bytes."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("large.bin", LARGE)
            archive.writestr("words.txt", "wörter")
        counted = Counted(packed.getvalue())
        with zipfile.ZipFile(counted.file) as archive:
            assert archive.namelist() == ["large.bin", "words.txt"]
            assert archive.read("words.txt").decode() == "wörter"

        assert counted.requests == 1

    def test_an_image(self) -> None:
        """Pillow opens a picture by its file."""
        drawn = io.BytesIO()
        Image.new("RGB", (300, 200), "red").save(drawn, "PNG")
        with Image.open(Counted(drawn.getvalue()).file) as opened:
            assert opened.size == (300, 200)
            assert opened.getpixel((5, 5)) == (255, 0, 0)

    def test_columns(self) -> None:
        """Arrow reads Parquet, of which only what it asks for is fetched."""
        stored = io.BytesIO()
        pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), stored)
        found = pq.read_table(Counted(stored.getvalue()).file, columns=["b"])
        assert found.to_pydict() == {"b": ["x", "y", "z"]}

    def test_lines_of_text(self) -> None:
        """With a text layer around it lines are read."""
        file = Counted("zeile 1\nzweite ä\n".encode()).file
        assert io.TextIOWrapper(file, "utf-8").readlines() == ["zeile 1\n", "zweite ä\n"]


def test_from_a_bucket(seaweedfs: Bucket) -> None:
    """Ranges of a payload in parts are those that were uploaded."""
    store = open_store(seaweedfs.fresh(), seaweedfs.storage_options)
    store.upload("t/large", [LARGE], content_type="application/octet-stream")
    file = open_object(store, "t/large", len(LARGE))
    file.seek(PART - 5)

    assert file.read(10) == LARGE[PART - 5 : PART + 5]
    assert file.seek(-7, io.SEEK_END) == len(LARGE) - 7
    assert file.read() == LARGE[-7:]
    store.close()
