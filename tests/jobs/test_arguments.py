"""What jobs refuse before they begin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lakestore.errors import InputError
from lakestore.jobs import (
    check,
    compact,
    erase_user,
    prune_events,
    prune_sessions,
    prune_user_state,
    stats,
    sweep,
)
from tests.support.sites import APP, USERS, Site

erase: Callable[..., Any] = partial(erase_user, app_name=APP, user_id=USERS[0])
PACKING: list[Callable[..., Any]] = [compact, prune_events, prune_user_state, erase]
JOBS: list[Callable[..., Any]] = [*PACKING, prune_sessions, sweep, check, stats]


@pytest.mark.parametrize("job", JOBS)
def test_what_is_no_lake(job: Callable[..., Any]) -> None:
    """A path, which the command line takes, is no lake, and the refusal says how one is opened."""
    for wrong in ("./lake", None):
        with pytest.raises(InputError, match=r"lake is a Lake, as Lake\.open"):
            job(wrong)


@pytest.mark.parametrize("job", PACKING)
def test_what_is_no_executor(job: Callable[..., Any]) -> None:
    """The command line's words for one are refused, in an empty lake too, and not passed over."""
    with pytest.raises(InputError, match=r"executor is a concurrent\.futures\.Executor"):
        job(Site().lake, executor="threads:2")
