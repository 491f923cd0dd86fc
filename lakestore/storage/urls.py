"""Which store a URL means. Owns the list of protocols; the only place that refuses one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakestore.errors import InputError, UnsupportedStoreError
from lakestore.storage.local import LocalStore
from lakestore.storage.memory import MemoryStore
from lakestore.storage.store import ObjectStore

_URL = re.compile(r"([^/]*?)://(.*)", re.DOTALL)

_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")

SUPPORTED = ("file", "memory")
"""Protocols for which an exclusive creation is known."""


def open_store(
    url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> ObjectStore:
    """Return the store that `url` names.

    `url` is a path, relative or not, taken as it stands but for a leading `~`, or
    `file://<path>` or `memory://<name>`, in which nothing is percent-decoded, as in fsspec.

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
        raise UnsupportedStoreError(
            f"this version of lakestore keeps lakes in folders and in memory, not in {protocol}://;"
            f" use a path or one of {', '.join(name + '://' for name in SUPPORTED)}"
        )
    if storage_options:
        raise InputError(
            f"{protocol}:// takes no storage options. unknown={sorted(storage_options)}"
        )
    if not rest:
        raise InputError(f"the URL names no place after {protocol}://")
    return MemoryStore.named(rest.rstrip("/")) if protocol == "memory" else _folder(rest)


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
