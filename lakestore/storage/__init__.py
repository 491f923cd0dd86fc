"""Bytes under keys, exclusive creation, counting; the only importer of fsspec."""

from lakestore.storage.gate import Gate
from lakestore.storage.layers import layered
from lakestore.storage.local import LocalStore
from lakestore.storage.memory import MemoryStore
from lakestore.storage.metrics import Metrics
from lakestore.storage.options import OPTIONS, known_options
from lakestore.storage.payload_file import open_object
from lakestore.storage.pool import Pool
from lakestore.storage.retrying import RetryingStore
from lakestore.storage.store import ObjectStore, StoredObject, UnreadableError
from lakestore.storage.uploads import PART, AroundUpload, NotDurableError, Upload
from lakestore.storage.urls import ClientName, open_store
from lakestore.storage.wrappers import CountingStore, GatedStore, ReadOnlyStore

__all__ = [
    "OPTIONS",
    "PART",
    "AroundUpload",
    "ClientName",
    "CountingStore",
    "Gate",
    "GatedStore",
    "LocalStore",
    "MemoryStore",
    "Metrics",
    "NotDurableError",
    "ObjectStore",
    "Pool",
    "ReadOnlyStore",
    "RetryingStore",
    "StoredObject",
    "UnreadableError",
    "Upload",
    "known_options",
    "layered",
    "open_object",
    "open_store",
]
