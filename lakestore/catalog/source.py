"""Where a catalog reads from."""

from __future__ import annotations

from dataclasses import dataclass

from lakestore.clock import Clock
from lakestore.log.marker import Limits
from lakestore.storage import Metrics, ObjectStore, Pool


@dataclass(frozen=True, slots=True)
class Source:
    """Where logs are read from, and with what."""

    store: ObjectStore
    pool: Pool
    clock: Clock
    metrics: Metrics
    limits: Limits
