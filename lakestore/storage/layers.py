"""What a lake puts around its store. Owns the order of the layers."""

from __future__ import annotations

from lakestore.clock import Clock, NewToken
from lakestore.storage.gate import Gate
from lakestore.storage.metrics import Metrics
from lakestore.storage.retrying import RetryingStore
from lakestore.storage.store import ObjectStore
from lakestore.storage.wrappers import CountingStore, GatedStore, ReadOnlyStore


def layered(
    store: ObjectStore,
    metrics: Metrics,
    gate: Gate,
    clock: Clock,
    new_token: NewToken,
    *,
    read_only: bool,
) -> ObjectStore:
    """Return a store that counts every request, tries again, and waits outside of `gate`."""
    found: ObjectStore = CountingStore(store, metrics)
    if not found.near:
        found = RetryingStore(found, metrics, clock, new_token)
    found = GatedStore(found, gate)
    return ReadOnlyStore(found) if read_only else found
