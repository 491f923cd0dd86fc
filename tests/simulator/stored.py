"""Whether what is stored in the end, by a second reader, is what readers were shown.

Imports nothing of the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.simulator.raw import Stored
from tests.simulator.record import Call, agree


def check_stored(calls: Sequence[Call], stored: Stored) -> Iterator[str]:
    """Yield where what is stored differs from what readers were shown in the end."""
    yield from (f"a manifest names what is not there: {key}" for key in stored.missing)
    for call in calls:
        if call.final and call.is_ok:
            for seen in call.seen:
                there = stored.events.get(seen.session)
                if seen.life is None and there is not None:
                    yield f"{call.where} {call.kind}: shows no session, but stored is {there}"
                elif seen.events is not None and not agree(there or (), seen.events):
                    yield f"{call.where} {call.kind}: shows {seen.events}, but stored is {there}"
            for key, value in (call.shared or {}).items():
                if stored.shared.get(key) != value:
                    known = stored.shared.get(key)
                    yield f"{call.where}: shows {key} {value}, but stored is {known}"
