"""Looking at packs and runs before SQL scans them: where one is damaged, DuckDB fails as a whole.

Owns what is read of each to know that it is whole, and what can be had of one that is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import pyarrow as pa

from lakestore.errors import FormatError, NotFoundError
from lakestore.log.manifests import StoredFile
from lakestore.storage import ObjectStore, UnreadableError
from lakestore.tables import events
from lakestore.tables.parquet import group_places, open_parquet, read_groups, split_groups

WHOLE_BYTES = 8 * 2**20
"""Objects up to this size are read whole, in one request, and compared with their digest; of larger
packs only the footer is, and what is damaged in their midst fails the query that meets it."""
_PIECE_BYTES = 8 * 2**20

Range = tuple[int, int]
"""Start and length, in bytes."""


def inspect(store: ObjectStore, key: str, file: StoredFile, *, wholly: bool) -> bytes:
    """Return all of a small object, or the footer of a large one, if it is what a manifest says.

    Args:
        store: Where it is.
        key: The object.
        file: What its manifest says of it.
        wholly: Of a large one all is read, too, and compared with its digest.

    Raises:
        NotFoundError: it is not there.
        FormatError: it is damaged; the error names the key.
        StorageError: the store failed, or (`UnreadableError`) it is closed to us.
    """
    if file.size <= WHOLE_BYTES:
        body = _read(store, key, 0, file.size)
        _compare(key, file, sha256(body).hexdigest())
        return body
    end = _read(store, key, file.size - file.footer, file.footer)
    try:
        group_places(end, file.size)
    except FormatError as error:
        raise FormatError(f"{error}. {key=}") from error
    if wholly:
        digest = sha256()
        for start in range(0, file.size, _PIECE_BYTES):
            digest.update(_read(store, key, start, min(_PIECE_BYTES, file.size - start)))
        _compare(key, file, digest.hexdigest())
    return end


def _read(store: ObjectStore, key: str, start: int, length: int) -> bytes:
    body = store.get_range(key, start, length)
    if len(body) < length:
        raise FormatError(f"an object is shorter than its manifest says. {key=}")
    return body


def _compare(key: str, file: StoredFile, digest: str) -> None:
    if digest != file.digest:
        raise FormatError(f"the bytes of an object are not those that were stored. {key=}")


def rescue(store: ObjectStore, key: str, ranges: Iterable[Range]) -> pa.Table:
    """Return the rows of all row groups of a damaged pack that can be read.

    Args:
        store: Where it is.
        key: The pack.
        ranges: Where runs say that row groups are; some may be parts of others.
    """
    found: dict[int, pa.Table] = {}
    # The smallest first: where groups were joined, one that is damaged takes its range along.
    for start, length in sorted(ranges, key=lambda it: it[1]):
        try:
            body = store.get_range(key, start, length)
            groups = split_groups(body) if len(body) == length else []
        except (FormatError, NotFoundError, UnreadableError):
            continue
        for group in groups:
            if start not in found:
                try:
                    found[start] = read_groups(open_parquet(group, events.SCHEMA, events.RESERVED))
                except FormatError:
                    found[start] = events.SCHEMA.empty_table()
            start += len(group)
    return pa.concat_tables([events.SCHEMA.empty_table(), *found.values()])
