"""What is right below a folder, found without listing all that is in it."""

from __future__ import annotations

from collections.abc import Iterator

from lakestore.storage import ObjectStore

_AFTER_ALL = "\x7f"
"""Sorts after every key below a folder."""


def folders(store: ObjectStore, prefix: str) -> Iterator[str]:
    """Yield what is right below the folder `prefix`: names, of folders or of objects.

    A request for each, and one more.

    Raises:
        StorageError: the store failed.
    """
    after = ""
    while (key := next(iter(store.names(prefix, after)), None)) is not None:
        name, slash, _ = key.removeprefix(prefix).partition("/")
        yield name
        after = f"{prefix}{name}/{_AFTER_ALL}" if slash else key
