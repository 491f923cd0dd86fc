"""Stamps: later than all that was read, whatever the clocks say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestore.log.keys import Scope, entry_key, parse_entry_name
from lakestore.log.stamps import Stamper, stamp_text
from tests.support.clocks import ManualClock
from tests.support.racing import in_threads

ANA, BEN, APP = Scope("a", "ana"), Scope("a", "ben"), Scope("a", None)
TOKEN = "00000000000000ff"


def stamper(clock: ManualClock) -> Stamper:
    """Return one whose tokens are all the same, so that nothing else decides."""
    return Stamper(clock, lambda: TOKEN)


def test_a_stamp_tells_the_time() -> None:
    """A first stamp is the wall clock in microseconds, a counter and the token."""
    clock = ManualClock(wall=1_700_000_000.25)

    assert stamper(clock).stamp([ANA]) == f"01700000000250000-000000-{TOKEN}"


def test_stamps_of_one_moment_are_counted() -> None:
    """Within one microsecond the counter orders."""
    made = stamper(ManualClock())
    stamps = [made.stamp([ANA]) for _ in range(100)]

    assert stamps == sorted(set(stamps))
    assert stamps[99].split("-")[1] == "000099"


def test_a_clock_that_goes_back_changes_nothing() -> None:
    """Stamps go on from the latest while the clock is behind it."""
    clock = ManualClock()
    made = stamper(clock)
    first = made.stamp([ANA])
    clock.jump(-3600)
    second, third = made.stamp([ANA]), made.stamp([ANA])
    clock.jump(7200)
    fourth = made.stamp([ANA])

    assert first < second < third < fourth
    assert second.split("-")[0] == first.split("-")[0] != fourth.split("-")[0]


def test_a_stamp_is_later_than_what_was_read() -> None:
    """A writer whose clock is far behind still writes after what it has seen."""
    made = stamper(ManualClock())
    seen = stamp_text(1_800_000_000_000_000, 41, "f" * 16)
    made.see(ANA, seen)

    assert made.stamp([ANA]) == f"01800000000000000-000042-{TOKEN}"


def test_a_scope_is_not_pushed_by_another() -> None:
    """What was read in one scope says nothing about others."""
    clock = ManualClock()
    made = stamper(clock)
    made.see(ANA, stamp_text(1_800_000_000_000_000, 0, TOKEN))

    assert made.stamp([BEN]).startswith("01700000000000000-")


def test_a_stamp_of_two_scopes_is_later_in_both() -> None:
    """A commit that touches user and app state is later than what was read in either."""
    made = stamper(ManualClock())
    made.see(ANA, stamp_text(1_800_000_000_000_000, 0, TOKEN))
    made.see(APP, stamp_text(1_900_000_000_000_000, 0, TOKEN))
    both = made.stamp([ANA, APP])

    assert both > stamp_text(1_900_000_000_000_000, 0, TOKEN)
    assert made.stamp([ANA]) > both


def test_seeing_less_takes_nothing_back() -> None:
    """An older stamp that is read later does not matter."""
    made = stamper(ManualClock())
    made.see(ANA, stamp_text(1_800_000_000_000_000, 0, TOKEN))
    made.see(ANA, stamp_text(5, 0, TOKEN))

    assert made.stamp([ANA]) > stamp_text(1_800_000_000_000_000, 0, TOKEN)


def test_a_forgotten_scope_is_still_later() -> None:
    """Of scopes that are remembered no more, the latest stamp is kept for all of them."""
    made = stamper(ManualClock())
    seen = stamp_text(1_800_000_000_000_000, 7, TOKEN)
    made.see(ANA, seen)
    for number in range(70_000):
        made.see(Scope("a", f"user-{number}"), stamp_text(number, 0, TOKEN))

    assert made.stamp([ANA]) > seen
    assert made.stamp([Scope("never", "seen")]) > seen


def test_a_full_counter_goes_to_the_next_microsecond() -> None:
    """A million writes of one moment still have stamps of the same length, in order."""
    made = stamper(ManualClock())
    full = stamp_text(1_800_000_000_000_000, 999_999, "f" * 16)
    made.see(ANA, full)

    assert made.stamp([ANA]) == f"01800000000000001-000000-{TOKEN}"


@pytest.mark.parametrize("wall", [0.0, -1.0, 1e-7, 1_700_000_000.1234567, 9_999_999_999.0])
def test_a_stamp_names_an_entry_at_any_time(wall: float) -> None:
    """Whatever the clock shows, what is written under the stamp is found again."""
    stamp = stamper(ManualClock(wall=wall)).stamp([ANA])

    assert parse_entry_name(entry_key("", stamp, fold=False)) == (stamp, False)


def test_a_stamp_far_ahead_names_an_entry() -> None:
    """A machine whose clock is set to the year 3000 loses nothing that it writes."""
    made = stamper(ManualClock(wall=32_503_680_000.0))
    one, two = made.stamp([ANA]), made.stamp([ANA])

    assert one < two
    assert parse_entry_name(entry_key("", one, fold=False)) == (one, False)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("stamp"), st.sampled_from([[ANA], [APP], [ANA, APP]])),
        st.tuples(st.just("see"), st.integers(0, 2 * 10**15)),
        st.tuples(st.just("jump"), st.integers(-(10**6), 10**6)),
    ),
    max_size=40,
)


@given(MOVES)
def test_stamps_only_ever_grow(moves: list[tuple[str, object]]) -> None:
    """However reading, writing and jumping clocks are mixed, a stamp is later than all before."""
    clock = ManualClock()
    made = stamper(clock)
    latest = {ANA: "", APP: ""}
    for move, what in moves:
        if move == "stamp":
            assert isinstance(what, list)
            stamp = made.stamp(what)
            assert all(stamp > latest[scope] for scope in what)
            latest.update(dict.fromkeys(what, stamp))
        elif move == "see":
            assert isinstance(what, int)
            seen = stamp_text(what, 5, TOKEN)
            made.see(ANA, seen)
            latest[ANA] = max(latest[ANA], seen)
        else:
            assert isinstance(what, int)
            clock.jump(what)


def test_threads_never_share_a_time() -> None:
    """Stamps made at once in many threads are all different before their tokens are looked at."""
    made = stamper(ManualClock())
    stamps = in_threads([lambda: [made.stamp([ANA, APP]) for _ in range(200)]] * 8)

    assert len({stamp for some in stamps for stamp in some}) == 1600
    assert all(some == sorted(some) for some in stamps)
