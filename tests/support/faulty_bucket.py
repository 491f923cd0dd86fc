"""A store behind a proxy that does wrong, as a lake has it."""

from __future__ import annotations

from lakestore.storage import ClientName, CountingStore, Metrics, RetryingStore, open_store
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import FaultProxy
from tests.support.servers import Bucket


class Parts:
    """A store behind a proxy, as a lake has it, with one object in it."""

    def __init__(self, bucket: Bucket, proxy: FaultProxy, client: ClientName = "fsspec") -> None:
        through = bucket.at(proxy.url)
        self.plain = open_store(through.fresh(), through.storage_options, client=client)
        self.metrics, self.clock = Metrics(), ManualClock()
        counting = CountingStore(self.plain, self.metrics)
        self.store = RetryingStore(counting, self.metrics, self.clock, lambda: "f" * 16)
        self.store.put_if_absent("t/there", b"there")
        proxy.requests.clear()
