"""What makes histories quick without changing what happens in them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar
from unittest.mock import patch

from lakestore.tables import events, state
from lakestore.tables.events import EventRow

R = TypeVar("R")


@contextmanager
def remembering() -> Iterator[None]:
    """Decode equal bytes once: every process reads the same objects, and rows never change."""
    with (
        patch.object(events, "decode", _listed(events.decode)),
        patch.object(events, "decode_commits", _one_by_one(events.decode_commits)),
        patch.object(events, "decode_group", _listed(events.decode_group)),
        patch.object(events, "count_groups", lru_cache(events.count_groups)),
        patch.object(state, "decode", _listed(state.decode)),
    ):
        yield


def _listed(decode: Callable[..., list[R]]) -> Callable[..., list[R]]:
    @lru_cache(maxsize=4096)
    def remembered(*asked: object) -> tuple[R, ...]:
        return tuple(decode(*asked))

    return lambda *asked: [*remembered(*asked)]


def _one_by_one(
    decode: Callable[[Sequence[bytes]], list[list[EventRow]]],
) -> Callable[[Sequence[bytes]], list[list[EventRow]]]:
    one: Callable[[bytes], list[EventRow]] = _listed(lambda body: decode([body])[0])
    return lambda bodies: [one(body) for body in bodies]


@contextmanager
def quiet() -> Iterator[None]:
    """Let the product say nothing of what is done to it here on purpose."""
    logger = logging.getLogger("lakestore")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
