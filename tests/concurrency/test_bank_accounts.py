"""A bank in one session's state: whoever is stale reloads, so no money is made or lost."""

from __future__ import annotations

from pathlib import Path

from lakestore import Lake, LakeSessionService
from tests.support.processes import PROCESSES, race
from tests.support.session_writers import APP, move_money

TRANSFERS = 10


def test_money_is_conserved(tmp_path: Path) -> None:
    """After every event the accounts add up to what was there at the start."""
    start = {"a": 100, "b": 100, "c": 100}
    with Lake.open(tmp_path) as lake:
        LakeSessionService(lake).sync.create_session(
            app_name=APP, user_id="u", session_id="bank", state=dict(start)
        )
    moved = race(
        move_money, [(str(tmp_path), "bank", f"w{n}", TRANSFERS) for n in range(PROCESSES)]
    )

    with Lake.open(tmp_path, read_only=True) as lake:
        bank = LakeSessionService(lake).sync.get_session(
            app_name=APP, user_id="u", session_id="bank"
        )
    assert bank is not None
    assert len(bank.events) == PROCESSES * TRANSFERS
    accounts, changes = dict(start), 0
    for event in bank.events:
        before = dict(accounts)
        accounts |= event.actions.state_delta
        changes += sum(max(0, accounts[name] - before[name]) for name in accounts)
        assert sum(accounts.values()) == sum(start.values())
    assert bank.state == accounts
    assert changes == sum(moved)
