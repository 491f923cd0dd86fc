"""Looking at packs and runs before SQL scans them: where one is damaged, DuckDB fails as a whole.

Owns what is read of each to know that it is whole, and what can be had of one that is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import pyarrow as pa

from lakestore.errors import FormatError, NotFoundError
from lakestore.log.manifests import StoredFile
from lakestore.storage import ObjectStore, UnreadableError
from lakestore.storage.files import StoreFiles
from lakestore.storage.range_file import Span
from lakestore.tables.footers import footer_size, joined_footer
from lakestore.tables.groups import has_payloads, split_groups
from lakestore.tables.pages import Pages
from lakestore.tables.parquet import open_parquet, read_groups

WHOLE_BYTES = 8 * 2**20
"""Objects up to this size are read whole, in one request, and compared with their digest; of larger
packs only the footer is, and columns are compared with their checksums when they are read."""
_PIECE_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Inspected:
    """An object that was found to be what its manifest says, as far as it was looked at."""

    end: bytes
    """All of a small one, the footer of a large one."""
    pages: Pages
    """Tells of all else when it is read."""
    has_payloads: bool
    """Whether its rows have the column for bytes beside events."""

    def note(self, files: StoreFiles, key: str, file: StoredFile) -> None:
        """Let DuckDB read it."""
        files.know(key, file.size, self.end, self.pages.damage)


def inspect(
    store: ObjectStore, key: str, file: StoredFile, *, wholly: bool, met: Span | None = None
) -> Inspected:
    """Look at all of a small object, or at the footer of a large one.

    Args:
        store: Where it is.
        key: The object.
        file: What its manifest says of it.
        wholly: Of a large one all is read, too, and compared with its digest.
        met: What of it was damaged, or could not be read, the last time.

    Raises:
        NotFoundError: it is not there.
        FormatError: it is damaged; the error names the key.
        StorageError: the store failed, or (`UnreadableError`) it is closed to us.
    """
    read = partial(_read, store, key)
    if is_small(file):
        body = read(0, file.size)
        _compare(key, file, sha256(body).hexdigest())
        footer = body[file.size - file.footer :]
        return Inspected(body, _pages(key, footer), has_payloads(footer))
    end = read(file.size - file.footer, file.footer)
    pages = _pages(key, end)
    if wholly:
        digest = sha256()
        for start in range(0, file.size, _PIECE_BYTES):
            digest.update(read(start, min(_PIECE_BYTES, file.size - start)))
        _compare(key, file, digest.hexdigest())
    elif met is not None and pages.damage(met[0], read(*met), read) is not None:
        raise FormatError(
            "the bytes of an object are not those that were stored."
            f" {key=} start={met[0]} length={met[1]}"
        )
    return Inspected(end, pages, has_payloads(end))


def is_small(file: StoredFile) -> bool:
    """Tell whether `inspect` reads all of an object, which is then kept for queries."""
    return file.size <= WHOLE_BYTES


def _read(store: ObjectStore, key: str, start: int, length: int) -> bytes:
    body = store.get_range(key, start, length)
    if len(body) < length:
        raise FormatError(f"an object is shorter than its manifest says. {key=}")
    return body


def _pages(key: str, footer: bytes) -> Pages:
    try:
        return Pages(footer)
    except FormatError as error:
        raise FormatError(f"{error}. {key=}") from error


def _compare(key: str, file: StoredFile, digest: str) -> None:
    if digest != file.digest:
        raise FormatError(f"the bytes of an object are not those that were stored. {key=}")


def rescue(
    store: ObjectStore, files: StoreFiles, key: str, ranges: Iterable[Span], schema: pa.Schema
) -> tuple[str, bool]:
    """Return the path of a file with all row groups of a damaged object that can be read, or "".

    And whether its rows have the column for bytes beside events.

    Each row group has a footer of its own, so that of the object is not needed. They stay where
    they are: what is made is a footer that names no others.

    Args:
        store: Where it is.
        files: Takes note of it.
        key: The object.
        ranges: Where row groups are; some may be parts of others.
        schema: What they must have.
    """
    found: dict[int, bytes] = {}
    size = 0
    # The smallest first: where groups were joined, one that is damaged takes its range along.
    for start, length in sorted(ranges, key=lambda it: it[1]):
        try:
            groups = split_groups(_read(store, key, start, length))
        except (FormatError, NotFoundError, UnreadableError):
            continue
        for group in groups:
            if start not in found and _is_sound(group, schema):
                found[start] = group[-footer_size(group) :]
                size = max(size, start + len(group))
            start += len(group)
    if not found:
        return "", False
    end = joined_footer(sorted(found.items()))
    return files.add_part(key, size + len(end), end, Pages(end).damage), has_payloads(end)


def _is_sound(group: bytes, schema: pa.Schema) -> bool:
    try:
        read_groups(open_parquet(group, schema))
    except FormatError:
        return False
    return True
