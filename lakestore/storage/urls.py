"""Which store a URL means. Owns the list of protocols; the only place that refuses one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from lakestore.errors import InputError, UnsupportedStoreError
from lakestore.storage.local import LocalStore
from lakestore.storage.memory import MemoryStore
from lakestore.storage.options import known_options
from lakestore.storage.places import PROTOCOLS, Place
from lakestore.storage.store import ObjectStore

_URL = re.compile(r"([^/]*?)://(.*)", re.DOTALL)

_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")

SUPPORTED = ("file", "memory", *PROTOCOLS)
"""Protocols for which an exclusive creation is known."""

ClientName = Literal["fsspec", "obstore"]
"""Who talks to a bucket: s3fs and gcsfs, or obstore, an extra."""


def open_store(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    read_only: bool = False,
    client: ClientName = "fsspec",
) -> ObjectStore:
    """Return the store that `url` names. Asks nothing of it yet.

    Args:
        url: A path, relative or not, taken as it stands but for a leading `~`, or
            `file://<path>`, `memory://<name>`, `s3://<bucket>/<prefix>` or
            `gs://<bucket>/<prefix>`, in which nothing is percent-decoded, as in fsspec.
        storage_options: What a bucket needs besides, by the names that fsspec gives them.
        read_only: Nothing will be written, so what fsspec can list and read will do as well.
        client: Who talks to a bucket.

    Raises:
        InputError: the URL is empty or names a file, or an option is not known.
        UnsupportedStoreError: no exclusive creation is known for the protocol.
    """
    text = _text(url)
    match = _URL.fullmatch(text)
    protocol, rest = (match[1], match[2]) if match else ("file", text)
    if protocol.startswith("lakestore+"):
        raise InputError(
            f"{protocol}:// is how ADK names a service; a lake's URL is without lakestore+"
        )
    if protocol not in SUPPORTED:
        return _other(protocol, text, storage_options, read_only=read_only)
    options = known_options(PROTOCOLS.get(protocol, protocol), storage_options)
    if not rest:
        raise InputError(f"the URL names no place after {protocol}://")
    if protocol in PROTOCOLS:
        return _bucket(Place.parse(protocol, rest), options, client)
    return MemoryStore.named(rest.rstrip("/")) if protocol == "memory" else _folder(rest)


def _bucket(place: Place, options: dict[str, Any], client: ClientName) -> ObjectStore:
    if client == "obstore":
        from lakestore.storage.obstore import ObstoreStore

        return ObstoreStore(place, options)
    if client != "fsspec":
        raise InputError(f'client is "fsspec" or "obstore". {client=}')
    if place.protocol == "s3":
        from lakestore.storage.s3 import S3Store

        return S3Store(place, options)
    from lakestore.storage.gcs import GcsStore

    return GcsStore(place, options)


def _other(
    protocol: str, url: str, options: Mapping[str, Any] | None, *, read_only: bool
) -> ObjectStore:
    """Return a store that can only be read, of a protocol that only fsspec knows."""
    known = ", ".join(name + "://" for name in SUPPORTED)
    if not read_only:
        raise UnsupportedStoreError(
            f"a lake cannot be written through {protocol}://, for which no exclusive creation is"
            f" known; use a path or one of {known}"
        )
    from lakestore.storage.reader import open_reader

    return open_reader(protocol, url, options or {})


def _text(url: object) -> str:
    text = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(text, str) or not text or "\x00" in text:
        raise InputError(f"a lake's URL is a text or a path, and not empty. {url=}")
    broken = _ONE_SLASH.match(text)
    if broken:
        raise InputError(
            f"a URL has two slashes after its protocol, and a Path cannot hold one: write"
            f" {broken[1]}:// and a text, or ./{broken[1]}:/ if it is a folder"
        )
    return text


def _folder(path: str) -> LocalStore:
    root = Path(os.path.expanduser(path))
    try:
        is_file = root.exists() and not root.is_dir()
    except OSError as error:
        raise InputError(f"this cannot be a folder. path={str(root)!r} reason={error}") from error
    if is_file:
        raise InputError(f"a lake lives in a folder, and this is a file. path={str(root)!r}")
    return LocalStore(root)
