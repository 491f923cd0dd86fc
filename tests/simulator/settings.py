"""What of the product is not for small histories: large numbers, and turns that threads take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from lakestore.jobs import departed, fresh_rows
from lakestore.storage import Gate
from tests.simulator.store import GRACE, LONGEST_LIFE

KEPT = LONGEST_LIFE + GRACE
"""Rows of deleted sessions go so many seconds after their logs were seen empty, instead of 30 days:
as there, no request is under way for so long."""


@contextmanager
def small() -> Iterator[None]:
    """Let jobs do early what they do rarely, and fibers go on as they come."""
    with (
        patch.object(departed, "KEPT", int(KEPT * 1_000_000)),
        patch.object(departed, "LOOK_EVERY", int(GRACE * 1_000_000)),
        patch.object(fresh_rows, "_WORTH_NAMING", 1),
        # It knows threads, and all fibers are in one.
        patch.object(Gate, "inside", lambda _gate, call: call()),
    ):
        yield
