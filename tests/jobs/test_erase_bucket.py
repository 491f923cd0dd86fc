"""Erasing a user from a bucket: what real servers list and hold afterwards."""

from __future__ import annotations

from contextlib import closing

import pytest

from lakestore.jobs import compact, sweep
from lakestore.log.keys import Scope
from lakestore.storage import open_store
from tests.support.aging import APP, AgingLake
from tests.support.clocks import ManualClock
from tests.support.erasures import SECRET, USER, erase, mentions, others_answers, peopled
from tests.support.servers import Bucket


@pytest.fixture(params=["moto", "seaweedfs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A server that speaks S3."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("compactions", [0, 2])
def test_nothing_of_the_user_is_left_in_a_bucket(bucket: Bucket, compactions: int) -> None:
    """No byte of any object that the server lists holds an id or a word of the user.

    Others, whose rows lay in the same packs, runs and folds, keep all they had.
    """
    with closing(open_store(bucket.fresh(), bucket.storage_options)) as store:
        aging = AgingLake(store, ManualClock())
        peopled(aging, compactions=compactions)
        aging.lake.sessions.shared.fold_entries(Scope(APP, None))
        before = others_answers(aging)
        assert mentions(store, f"{SECRET}-{USER}", USER)
        receipt = erase(aging).finish(aging.open())
        assert (receipt.status, receipt.left) == ("done", ())
        assert mentions(store, f"{SECRET}-{USER}", USER) == []
        assert receipt.verify(aging.open(read_only=True)) == ()
        assert others_answers(aging) == before
        compact(aging.open())
        sweep(aging.open(), grace=0)
        assert mentions(store, f"{SECRET}-{USER}", USER) == []
        assert others_answers(aging) == before
