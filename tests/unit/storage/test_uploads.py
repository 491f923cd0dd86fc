"""Uploads when something goes wrong: what is sent again, what is taken back, what is left."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.errors import (
    InputError,
    LakeError,
    ReadOnlyError,
    StorageError,
    UnknownOutcomeError,
)
from lakestore.storage import (
    PART,
    CountingStore,
    MemoryStore,
    Metrics,
    ReadOnlyStore,
)
from lakestore.storage.uploads import in_blocks, send
from tests.support.faulty_store import FailingStore, LostReplyStore, Nth

PNG = "image/png"
LONG = [b"a" * PART, b"b" * PART, b"c" * 17]
"""A payload of three parts."""


@given(st.lists(st.binary(max_size=9)), st.integers(1, 7))
def test_blocks_are_the_same_bytes(parts: list[bytes], size: int) -> None:
    """All blocks are full but the last, and together they are what was given."""
    blocks = [*in_blocks(parts, size)]

    assert b"".join(blocks) == b"".join(parts)
    assert all(len(block) == size for block in blocks[:-1])
    assert all(0 < len(block) <= size for block in blocks)


def test_a_payload_of_too_many_parts_is_refused() -> None:
    """What no server would take ends with one error, and leaves nothing."""
    store = MemoryStore()

    assert send(store, "fits", [b"x" * 12], PNG, part_bytes=4, most_parts=3) == 12
    with pytest.raises(InputError, match="in 3 parts"):
        send(store, "long", [b"x" * 13], PNG, part_bytes=4, most_parts=3)
    assert [*store.names("")] == ["fits"]


@pytest.mark.parametrize("parts", [[b"short"], LONG], ids=["short", "long"])
def test_a_lake_that_is_read_takes_none(parts: list[bytes]) -> None:
    """A store for reading refuses before it asks for anything of the source."""
    source = iter(parts)
    with pytest.raises(ReadOnlyError):
        ReadOnlyStore(MemoryStore()).upload("t/a", source, content_type=PNG)

    assert [*source] == parts


@pytest.mark.parametrize("parts", [[b"short"], LONG], ids=["short", "long"])
@pytest.mark.parametrize("outcome", ["landed", "resent"])
def test_a_lost_reply_is_settled_by_reading(
    parts: list[bytes], outcome: Literal["landed", "resent"]
) -> None:
    """Where the last reply is lost, what stands under the name is the payload."""
    inner = MemoryStore()
    last = 1 if len(parts) == 1 else 1 + len(parts) + 1
    store = LostReplyStore(inner, Nth("put", last), outcome)

    assert store.upload("t/a", parts, content_type=PNG) == sum(map(len, parts))
    assert inner.get("t/a") == b"".join(parts)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_what_did_not_land_is_not_acknowledged(nth: int) -> None:
    """Where a request got lost the error is passed on, once its parts are removed."""
    inner, metrics = MemoryStore(), Metrics()
    store = LostReplyStore(CountingStore(inner, metrics), Nth("put", nth), "dropped")
    with pytest.raises(UnknownOutcomeError):
        store.upload("t/a", LONG, content_type=PNG)

    assert metrics.requests["DELETE"] >= 1
    assert [*inner.names("")] == []
    if nth == 1:
        with pytest.raises(UnknownOutcomeError):
            LostReplyStore(inner, Nth("put"), "dropped").upload("t/a", [b"x"], content_type=PNG)


def test_the_first_error_is_the_one_to_see() -> None:
    """An abort that fails too hides nothing."""
    failing = FailingStore(MemoryStore(), Nth("put", 2), StorageError)
    store = FailingStore(failing, Nth("delete"), LakeError)
    with pytest.raises(StorageError, match="the store failed"):
        store.upload("t/a", LONG, content_type=PNG)
