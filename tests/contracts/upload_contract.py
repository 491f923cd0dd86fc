"""The contract of uploads: how every `ObjectStore` takes payloads, whatever is below it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from lakestore.errors import AlreadyExistsError, InputError, NotFoundError
from lakestore.storage import PART, ObjectStore

PNG = "image/png"
NAMES = ["Rechnung_März.pdf", "naïve.csv", "ñ", "Ω-1.txt", "отчёт.txt", "資料.pdf", "𠮷.txt"]
"""In the order of their bytes."""


def broken_off(after: int) -> Iterator[bytes]:
    """Yield so many bytes, and fail."""
    yield os.urandom(after)
    raise OSError("the source is gone")


class UploadContract:
    """What `ObjectStore.upload`, `uri` and `sign` say in their docstrings, as tests."""

    @pytest.mark.parametrize(
        "size",
        [
            pytest.param(0, id="nothing"),
            pytest.param(3, id="little"),
            pytest.param(PART, id="one-part"),
            pytest.param(2 * PART + 5, id="parts"),
        ],
    )
    def test_bytes_come_back_as_they_were(self, store: ObjectStore, size: int) -> None:
        """A payload of any size, also none, is read back as it was, however it is cut."""
        body = os.urandom(size)
        cut = 3_000_001
        parts = [body[start : start + cut] for start in range(0, size, cut)]

        assert store.upload("t/token/sized.png", iter([*parts, b""]), content_type=PNG) == size
        assert store.size("t/token/sized.png") == size
        assert store.get("t/token/sized.png") == body
        assert store.get_range("t/token/sized.png", size // 2, 4) == body[size // 2 :][:4]
        assert [(each.key, each.size) for each in store.list("t/")] == [("t/token/sized.png", size)]

    @pytest.mark.parametrize("after", [3, PART, 2 * PART + 1])
    def test_a_source_that_breaks_off_leaves_nothing(self, store: ObjectStore, after: int) -> None:
        """What the source raises is passed on; no object is there, and no part of one."""
        with pytest.raises(OSError, match="the source is gone"):
            store.upload("t/token/broken.png", broken_off(after), content_type=PNG)

        assert [*store.names("")] == []
        with pytest.raises(NotFoundError):
            store.size("t/token/broken.png")
        assert self.parts_left(store) == []

    def parts_left(self, store: ObjectStore) -> list[Any]:
        """Return what the server, or the disk, keeps of uploads that did not end."""
        raise NotImplementedError

    def test_names_may_be_in_any_script(self, store: ObjectStore) -> None:
        """Word characters of any script are taken, listed in byte order, read and deleted."""
        keys = [f"t/{name}" for name in NAMES]
        for key in reversed(keys):
            store.upload(key, [key.encode()], content_type="text/plain")

        assert sorted(keys, key=str.encode) == keys
        assert [each.key for each in store.list("t/")] == [*store.names("t/")] == keys
        for key in keys:
            after = keys[keys.index(key) + 1 :]
            assert [*store.names("t/", key)] == after
            assert [*store.names(key)] == [key]
            assert store.get(key) == key.encode()
        store.delete(keys[2])
        assert [*store.names("")] == [*keys[:2], *keys[3:]]

    def test_a_taken_name_is_refused(self, store: ObjectStore) -> None:
        """Where something else stands a short payload is refused, and what stands stays."""
        store.upload("t/taken", [b"first"], content_type=PNG)

        with pytest.raises(AlreadyExistsError, match="t/taken"):
            store.upload("t/taken", [b"other"], content_type=PNG)
        assert store.get("t/taken") == b"first"

    def test_what_is_no_bytes_is_refused(self, store: ObjectStore) -> None:
        """Text, a number and a content type that is no line of ASCII are refused, unwritten."""
        with pytest.raises(InputError, match="bytes"):
            store.upload("t/a", ["text"], content_type=PNG)  # type: ignore[list-item]
        with pytest.raises(InputError, match="bytes"):
            store.upload("t/a", b"not in parts", content_type=PNG)  # type: ignore[arg-type]
        for odd in ("", " ", "image/png\r\nX-Other: 1", "bild/größe"):
            with pytest.raises(InputError, match="content type"):
                store.upload("t/a", [b"x"], content_type=odd)
        assert [*store.names("")] == []

    def test_other_kinds_of_bytes_are_taken(self, store: ObjectStore) -> None:
        """What is like bytes is taken as bytes."""
        parts: list[Any] = [bytearray(b"ab"), memoryview(b"cd"), b"", b"ef"]

        assert store.upload("t/a", parts, content_type=PNG) == 6
        assert store.get("t/a") == b"abcdef"

    @pytest.mark.parametrize("expires", [0, -1, 0.5, 7 * 24 * 3600 + 1, float("nan")])
    def test_no_address_is_signed_for_long(self, store: ObjectStore, expires: float) -> None:
        """An address holds for a second at least, and for a week at most."""
        with pytest.raises(InputError):
            store.sign("t/a", expires)
