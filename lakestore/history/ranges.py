"""Ranges of objects that never change, asked for side by side. Owns no meaning of what is in them.

Asking and waiting are two steps, so that others can be asked for in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import TypeVar

import pyarrow as pa

from lakestore.errors import FormatError
from lakestore.history.environment import Environment
from lakestore.log.manifests import StoredFile
from lakestore.tables.groups import group_places, split_groups
from lakestore.tables.parquet import open_parquet, read_groups

R = TypeVar("R")

Answer = Callable[[], R]
"""Waits for what was asked for, and raises what went wrong; to be called once."""

Range = tuple[str, int, int]
"""Key, start and length."""

READ_BYTES = 8 * 2**20
"""About how much one request asks for, where much is to be read."""
_STREAM_BYTES = 2**20
"""The same where many objects are read side by side."""


def ask(environment: Environment, ranges: Sequence[Range]) -> Answer[list[bytes]]:
    """Begin to read `ranges`; the answer has their bytes, in their order."""
    store, pool = environment.store, environment.pool
    wanted = list(dict.fromkeys(ranges))
    asked = {each: pool.start(partial(store.get_range, *each), near=store.near) for each in wanted}
    return lambda: [asked[each].result() for each in ranges]


def whole(key: str, file: StoredFile) -> Range:
    """Return all of an object."""
    return key, 0, file.size


def tables_of(
    asked: Range, body: bytes, schema: pa.Schema, *, is_whole: bool
) -> Iterator[pa.Table]:
    """Yield the rows of a whole object, or of each row group of a range of one, as they are asked.

    Raises:
        FormatError: it is damaged; the error names the key.
    """
    key, _, length = asked
    with naming(key):
        if len(body) < length:
            raise FormatError("an object is shorter than its manifest says")
        files = [body] if is_whole else split_groups(body)
        for file in files:
            yield read_groups(open_parquet(file, schema))


def group_bodies(environment: Environment, key: str, file: StoredFile) -> Iterator[bytes]:
    """Yield the row groups of a whole object in their order, each a file, with few in memory.

    Raises:
        NotFoundError: it was swept.
        FormatError: it is damaged; it may be raised after the last group only.
        StorageError: the store failed.
    """
    (footer,) = ask(environment, [(key, file.size - file.footer, file.footer)])()
    with naming(key):
        places = group_places(footer, file.size)
    digest = sha256()
    for start, length in joined(places, _STREAM_BYTES):
        (body,) = ask(environment, [(key, start, length)])()
        digest.update(body)
        with naming(key):
            groups = split_groups(body)
        yield from groups
    digest.update(footer[len(footer) - (file.size - sum(places[-1])) :])
    if digest.hexdigest() != file.digest:
        raise FormatError(f"an object is not what its manifest says. {key=}")


@contextmanager
def naming(key: str) -> Iterator[None]:
    """Say of which object it is that something is damaged."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{str(error).rstrip('.')}. {key=}") from error


def joined(ranges: Sequence[tuple[int, int]], most: int = READ_BYTES) -> list[tuple[int, int]]:
    """Return `ranges` (start and length) with those that touch as one of up to `most` bytes."""
    found: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if found and start <= sum(found[-1]) and length + found[-1][1] <= most:
            before = found[-1][0]
            found[-1] = (before, max(sum(found[-1]), start + length) - before)
        else:
            found.append((start, length))
    return found
