"""The contract of the storage seam: what every `ObjectStore` promises, whatever is below it.

A store joins with one class: inherit, and give a fixture `store` that yields an empty one. Every
test keeps to keys of its own, so one bucket serves them all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakestore.errors import AlreadyExistsError, InputError, NotFoundError
from lakestore.log.keys import Scope, SessionKey, commit_key, entry_key
from lakestore.log.stamps import stamp_text
from lakestore.storage import ObjectStore
from tests.support.store_model import Step, check_steps, steps

EVERY_BYTE = bytes(range(256))
LONG_ID = "Ä" * 300
NEIGHBOURS = ["a-b/x", "a.b/x", "a/x", "a/y/z", "a0/x", "ab", "b/x"]
"""Keys in byte order; a walk over folders that forgets the slash has them in another."""

PREFIXES = {
    "t/a": ["t/a-b/x", "t/a.b/x", "t/a/x", "t/a/y/z", "t/a0/x", "t/ab"],
    "t/a/": ["t/a/x", "t/a/y/z"],
    "t/a/y": ["t/a/y/z"],
    "t/a.": ["t/a.b/x"],
    "t/ab": ["t/ab"],
    "t/a/x": ["t/a/x"],
    "t/a/x/": [],
    "t/a/y/z0": [],
    "t/c": [],
    "no/such/folder/": [],
}
RANGES = {
    (0, 10): b"0123456789",
    (0, 3): b"012",
    (3, 4): b"3456",
    (9, 1): b"9",
    (8, 100): b"89",
    (4, 0): b"",
    (0, 0): b"",
    (10, 1): b"",
    (11, 5): b"",
    (2**40, 1): b"",
}

_examples = count()


def listed(store: ObjectStore, prefix: str, after: str = "") -> list[str]:
    """Return the keys that the store lists, without the prefix."""
    return [stored.key.removeprefix(prefix) for stored in store.list(prefix, after)]


class StoreContract:
    """What `ObjectStore` says in its docstrings, as tests."""

    # The clock of the store may be another machine's.
    clock_tolerance = 5.0
    # Some stores stall for seconds when several write to one name.
    races = 12

    @pytest.mark.parametrize("size", [1, 2, 4_096, 70_000, 5_000_000])
    def test_bytes_come_back_as_they_were(self, store: ObjectStore, size: int) -> None:
        """An object of any size is read back byte for byte."""
        body = os.urandom(size)
        store.put_if_absent("t/sized", body)

        assert store.get("t/sized") == body
        assert store.size("t/sized") == size

    def test_every_byte_value_survives(self, store: ObjectStore) -> None:
        """NUL, line ends and bytes that are no text are kept as they are."""
        store.put_if_absent("t/bytes", EVERY_BYTE)

        assert store.get("t/bytes") == EVERY_BYTE

    def test_a_taken_name_is_refused(self, store: ObjectStore) -> None:
        """The second creation is refused by key, and the first object stays as it was."""
        store.put_if_absent("t/taken", b"first")

        with pytest.raises(AlreadyExistsError, match="t/taken"):
            store.put_if_absent("t/taken", b"second, and longer")

        assert store.get("t/taken") == b"first"

    def test_equal_bytes_are_refused_too(self, store: ObjectStore) -> None:
        """Whether an object is one's own is for the caller to find out, not for the store."""
        store.put_if_absent("t/equal", b"same")

        with pytest.raises(AlreadyExistsError):
            store.put_if_absent("t/equal", b"same")

    def test_an_empty_object_is_refused(self, store: ObjectStore) -> None:
        """No bytes are no object: nothing is created."""
        with pytest.raises(InputError, match="t/empty"):
            store.put_if_absent("t/empty", b"")

        assert listed(store, "t/empty") == []
        with pytest.raises(NotFoundError):
            store.get("t/empty")

    def test_an_empty_object_does_not_overwrite(self, store: ObjectStore) -> None:
        """Where something stands, an empty body is refused all the same, and it stays."""
        store.put_if_absent("t/full", b"first")

        with pytest.raises(InputError):
            store.put_if_absent("t/full", b"")

        assert store.get("t/full") == b"first"

    def test_a_deleted_name_is_free_again(self, store: ObjectStore) -> None:
        """After a delete the name can be created once more, with other bytes."""
        store.put_if_absent("t/again", b"first")
        store.delete("t/again")
        store.put_if_absent("t/again", b"second")

        assert store.get("t/again") == b"second"

    @pytest.mark.parametrize(
        "read",
        [
            pytest.param(lambda store, key: store.get(key), id="get"),
            pytest.param(lambda store, key: store.get_range(key, 0, 1), id="get_range"),
            pytest.param(lambda store, key: store.size(key), id="size"),
        ],
    )
    def test_what_is_not_there_is_not_found(
        self, store: ObjectStore, read: Callable[[ObjectStore, str], object]
    ) -> None:
        """A missing key, one below or above an object, or a part of its name, is not found."""
        store.put_if_absent("t/there", b"x")

        for key in ["t/none", "t/there/below", "t/ther", "none/none", "t"]:
            with pytest.raises(NotFoundError, match=f"'{key}'"):
                read(store, key)

    def test_a_range_is_cut_from_the_object(self, store: ObjectStore) -> None:
        """A range ends where the object does; one past it is empty."""
        store.put_if_absent("t/digits", b"0123456789")

        assert {place: store.get_range("t/digits", *place) for place in RANGES} == RANGES

    def test_a_range_may_be_longer_than_any_memory(self, store: ObjectStore) -> None:
        """What is asked beyond the end costs nothing."""
        store.put_if_absent("t/digits", b"0123456789")

        assert store.get_range("t/digits", 7, 2**40) == b"789"

    @pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, -1), (-5, -5)])
    def test_a_range_before_the_start_is_refused(
        self, store: ObjectStore, start: int, length: int
    ) -> None:
        """Negative numbers mean no place from the end."""
        store.put_if_absent("t/digits", b"0123456789")

        with pytest.raises(InputError, match=str(start)):
            store.get_range("t/digits", start, length)

    def test_keys_are_listed_in_byte_order(self, store: ObjectStore) -> None:
        """A listing is in byte order of whole keys, whatever folders they are in."""
        for key in reversed(NEIGHBOURS):
            store.put_if_absent("t/" + key, b"x")

        assert listed(store, "t/") == NEIGHBOURS

    def test_a_prefix_is_a_text_not_a_folder(self, store: ObjectStore) -> None:
        """A prefix may end anywhere in a name, and nothing under it is nothing."""
        for key in NEIGHBOURS:
            store.put_if_absent("t/" + key, b"x")

        found = {prefix: [stored.key for stored in store.list(prefix)] for prefix in PREFIXES}
        assert found == PREFIXES
        assert {prefix: [*store.names(prefix)] for prefix in PREFIXES} == PREFIXES

    def test_a_listing_starts_after_a_key(self, store: ObjectStore) -> None:
        """`after` need not be a key that is there, or one under the prefix, and is left out."""
        keys = ["t/" + key for key in NEIGHBOURS]
        for key in keys:
            store.put_if_absent(key, b"x")

        starts = ["", "t", "t/", "t/a", "t/a-", "t/a.", "t/a/", "t/a/w", "t/a/y", "t/b", "u", *keys]
        for prefix in ["", "t/", "t/a", "t/a/", "t/b"]:
            below = [key for key in keys if key.startswith(prefix)]
            for after in starts:
                found = [stored.key for stored in store.list(prefix, after)]
                assert found == [key for key in below if key > after], (prefix, after)
                assert [*store.names(prefix, after)] == found, (prefix, after)

    def test_a_listing_tells_size_and_time(self, store: ObjectStore) -> None:
        """Each object is listed with its size and when it was created."""
        began = time.time()
        store.put_if_absent("t/one", b"x" * 17)
        ended = time.time()
        (found,) = store.list("t/")

        assert (found.key, found.size) == ("t/one", 17)
        assert began - self.clock_tolerance <= found.modified <= ended + self.clock_tolerance

    def test_reading_changes_no_time(self, store: ObjectStore) -> None:
        """The time of an object is that of its creation for ever."""
        store.put_if_absent("t/one", b"x")
        (before,) = store.list("t/")
        store.get("t/one")
        with pytest.raises(AlreadyExistsError):
            store.put_if_absent("t/one", b"y")

        assert [*store.list("t/")] == [before]

    def test_only_objects_are_listed(self, store: ObjectStore) -> None:
        """What the store keeps for itself is in no listing, also not in one of everything."""
        store.put_if_absent("t/deep/er/one", b"x")
        store.put_if_absent("two", b"x")
        store.put_if_absent("t/deep/gone", b"x")
        store.delete("t/deep/gone")

        assert listed(store, "") == [*store.names("")] == ["t/deep/er/one", "two"]

    def test_a_listing_outlives_deletions(self, store: ObjectStore) -> None:
        """Objects may go while a listing is read, as they do in a sweep."""
        keys = [f"t/{folder}/{name}" for folder in "abc" for name in "123"]
        for key in keys:
            store.put_if_absent(key, b"x")

        met = []
        for stored in store.list("t/"):
            met.append(stored.key)
            store.delete(stored.key)
        assert met == keys
        assert listed(store, "t/") == []

    def test_deleting_nothing_is_no_error(self, store: ObjectStore) -> None:
        """A delete may be repeated, and may meet nothing, or a part of a longer key."""
        store.put_if_absent("t/one/two", b"x")
        for key in ["t/none", "t/one", "t", "t/one/two/three"]:
            store.delete(key)
        assert store.get("t/one/two") == b"x"

        store.delete("t/one/two")
        store.delete("t/one/two")
        assert listed(store, "t/") == []

    def test_deleting_one_leaves_the_others(self, store: ObjectStore) -> None:
        """Only the very key goes, not what begins like it."""
        for key in NEIGHBOURS:
            store.put_if_absent("t/" + key, b"x")
        store.delete("t/a/x")
        store.delete("t/a")

        assert listed(store, "t/") == [key for key in NEIGHBOURS if key != "a/x"]

    def test_the_longest_keys_fit(self, store: ObjectStore) -> None:
        """Keys of three shortened ids, as long as any of a lake, work like others."""
        log = SessionKey(LONG_ID, LONG_ID, LONG_ID).log
        keys = [
            commit_key(log, 1),
            commit_key(log, 10**20 - 1),
            entry_key(Scope(LONG_ID, LONG_ID).entries, stamp_text(1, 0, "f" * 16), fold=True),
        ]
        for key in keys:
            store.put_if_absent(key, key.encode())

        assert [store.get(key).decode() for key in keys] == keys
        assert [stored.key for stored in store.list(log)] == keys[:2]

    def test_encoded_ids_are_plain_letters(self, store: ObjectStore) -> None:
        """What ids are encoded to, `%`, `=` and `~` too, is taken letter by letter."""
        ids = ["a/b", "a b", "A", "a", "a%2fb", "*", "?", "[a]", "é", LONG_ID]
        keys = [commit_key(SessionKey("app", user, "s").log, 1) for user in ids]
        for key in keys:
            store.put_if_absent(key, key.encode())

        assert [store.get(key).decode() for key in keys] == keys
        assert [stored.key for stored in store.list("events/")] == sorted(keys)

    def test_different_keys_at_once(self, store: ObjectStore) -> None:
        """Many threads may create different keys in the same new folders."""
        names = [f"t/{folder}/{n:02}" for n in range(12) for folder in ("a", "b/c")]
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda key: store.put_if_absent(key, key.encode()), names))

        assert listed(store, "") == sorted(names)
        assert all(store.get(key) == key.encode() for key in names)

    def test_one_winner_among_threads(self, store: ObjectStore) -> None:
        """Of threads that create one key at once exactly one returns, and its bytes stand."""
        rounds, racers = self.races, 8
        barrier = Barrier(racers, timeout=30)

        def race(racer: int) -> list[bool]:
            won = []
            for n in range(rounds):
                barrier.wait()
                try:
                    store.put_if_absent(f"t/{n}", b"%d" % racer * 100)
                except AlreadyExistsError:
                    won.append(False)
                else:
                    won.append(True)
            return won

        with ThreadPoolExecutor(racers) as threads:
            by_racer = list(threads.map(race, range(racers)))
        for n in range(rounds):
            winners = [racer for racer in range(racers) if by_racer[racer][n]]
            assert len(winners) == 1
            assert store.get(f"t/{n}") == b"%d" % winners[0] * 100

    def test_the_url_names_the_place(self, store: ObjectStore) -> None:
        """A store says where it is, for messages and logs."""
        assert store.url

    # Each example has a folder of its own, so examples, and classes, can share this.
    @settings(
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ]
    )
    @given(steps=st.lists(steps(), max_size=40))
    def test_a_store_is_a_dictionary(self, store: ObjectStore, steps: list[Step]) -> None:
        """Any sequence of requests has the results that a dictionary gives."""
        check_steps(store, f"example-{next(_examples)}/", steps)
