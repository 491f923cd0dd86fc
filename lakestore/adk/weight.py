"""How much work it is to encode events, told without doing it. Owns what an event loop can bear."""

from __future__ import annotations

from collections.abc import Sequence

from google.adk.events.event import Event
from pydantic import BaseModel

_LIGHT = 64 * 1024
_PER_VALUE = 32


def is_heavy(events: Sequence[Event]) -> bool:
    """Tell whether encoding `events` takes much longer than handing them to a thread.

    Looks at no more of them than about a millisecond allows.
    """
    left = _LIGHT - _PER_VALUE * len(events)
    waiting: list[object] = [*events] if left >= 0 else []
    while waiting and left >= 0:
        value = waiting.pop()
        left -= _PER_VALUE
        if isinstance(value, str | bytes):
            left -= len(value)
        elif isinstance(value, BaseModel):
            waiting += [each for each in vars(value).values() if each is not None]
        elif isinstance(value, dict | list | tuple):
            # Before they are taken, which is work too.
            left -= _PER_VALUE * len(value)
            if left >= 0:
                waiting += [*value, *value.values()] if isinstance(value, dict) else value
    return left < 0
