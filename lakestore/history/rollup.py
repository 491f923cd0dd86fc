"""One rollup as it was read: all rows of a log up to a version, and what they fold to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakestore.errors import FormatError
from lakestore.tables import events
from lakestore.tables.events import EventRow, delta_of
from lakestore.tables.payloads import Payload
from lakestore.tables.state import to_json


class Rollup:
    """Decodes only what is asked for; immutable, safe to share between threads."""

    def __init__(self, body: bytes) -> None:
        """Take the bytes of a rollup.

        Raises:
            FormatError: the bytes are not one.
        """
        self._body = body
        self._groups = events.count_groups(body)
        self._last_group = self._read(self._groups - 1)
        checkpoint = self._last_group[-1]
        if checkpoint.kind != "checkpoint":
            raise FormatError("a rollup ends with a checkpoint row")
        self.checkpoint = checkpoint
        self.state: dict[str, Any] = delta_of(checkpoint)

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it holds."""
        rows = self._last_group
        texts = sum(len(row.event_json or "") + len(row.state_delta or "") + 400 for row in rows)
        # The state as objects takes about four times as much as its text.
        return len(self._body) + texts + 4 * len(self.checkpoint.state_delta or "")

    @cached_property
    def _first(self) -> EventRow:
        return self._read(0)[0]

    @cached_property
    def payloads(self) -> list[tuple[int, Payload]]:
        """What its rows refer to, each with its row's version."""
        return events.payloads_by_version(self._body)

    def begins_after(self, version: int) -> bool:
        """Tell whether it is of a life that began after `version`."""
        return self._first.kind == "create" and self._first.version > version

    def follows(self, version: int) -> bool:
        """Tell whether with all up to `version` it makes a log without a gap."""
        return self._first.kind == "create" or self._first.version <= version + 1

    def rows(self) -> list[EventRow]:
        """Return all rows but the checkpoint: the `create` row, then events in commit order.

        What was packed when it was written may be left out.
        """
        return events.decode(self._body)[:-1]

    def table(self) -> pa.Table:
        """Return all rows but the checkpoint in `events.SCHEMA`."""
        try:
            table = events.decode_rollup_table(self._body)
        except FormatError:
            return events.to_table(self.rows())
        return table.slice(0, table.num_rows - 1)

    def last_events(self, count: int) -> list[EventRow]:
        """Return the last `count` event rows, in commit order; fewer when there are fewer."""
        found, group = self._last_group, self._groups - 1
        while sum(row.kind == "event" for row in found) < count and group > 0:
            group -= 1
            found = [*self._read(group), *found]
        chosen = [row for row in found if row.kind == "event"]
        return chosen[max(0, len(chosen) - count) :]

    def _read(self, group: int) -> list[EventRow]:
        return events.decode_group(self._body, group)


def encode(
    rows: Sequence[EventRow],
    state: Mapping[str, Any],
    now: int,
    base: Rollup | None = None,
    stamps: Sequence[str] = (),
) -> bytes:
    """Return the rollup of what `base` holds and of `rows`, in this order.

    Args:
        rows: The `create` row, unless `base` or a pack has it, then events in commit order; at
            least one.
        state: What all of the session folds to, session keys only.
        now: The writer's clock in microseconds since 1970 UTC.
        base: An older rollup of the same life; its thin columns are not computed again.
        stamps: Those of what is packed.
    """
    last = rows[-1]
    stamps = [*stamps, *(row.stamp for row in rows if row.stamp)]
    if base is not None and base.checkpoint.stamp:
        stamps.append(base.checkpoint.stamp)
    checkpoint = EventRow(
        version=last.version,
        ordinal=last.ordinal + 1,
        kind="checkpoint",
        app_name=last.app_name,
        user_id=last.user_id,
        session_id=last.session_id,
        committed_at=now,
        token=last.token,
        previous=last.previous,
        stamp=max(stamps, default=None),
        state_delta=to_json(state),
    )
    above = events.to_table([*rows, checkpoint])
    if base is None:
        return events.encode_rollup_table(above)
    return events.encode_rollup_table(pa.concat_tables([base.table(), above]))
