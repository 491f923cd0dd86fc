"""Bytes under keys, exclusive creation, counting; the only importer of fsspec."""

from lakestore.storage.local import LocalStore
from lakestore.storage.memory import MemoryStore
from lakestore.storage.metrics import Metrics
from lakestore.storage.pool import Pool
from lakestore.storage.store import ObjectStore, StoredObject, UnreadableError
from lakestore.storage.urls import open_store
from lakestore.storage.wrappers import CountingStore, ReadOnlyStore

__all__ = [
    "CountingStore",
    "LocalStore",
    "MemoryStore",
    "Metrics",
    "ObjectStore",
    "Pool",
    "ReadOnlyStore",
    "StoredObject",
    "UnreadableError",
    "open_store",
]
