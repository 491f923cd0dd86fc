"""Objects that are damaged, and objects that are not ours: what they cost, and what they do not."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from lakestore.errors import FormatError
from lakestore.log.keys import SessionKey, commit_key, rollup_key
from lakestore.tables import events
from tests.support.faulty_store import PlaceholderStore
from tests.support.histories import KEY, OTHER, World, said, several

LOG = KEY.log


class TestDamage:
    """A damaged object is named and costs its own session only (R068)."""

    @pytest.fixture
    def damaged(self, world: World) -> World:
        """Two sessions, one of which lost its second commit to a crash of something."""
        host = world.host()
        for key in (KEY, OTHER):
            host.append_each(host.create(key), *several(2), key=key)
        self.spoil(world, commit_key(LOG, 2), b"PAR1 half a file")
        return world

    def spoil(self, world: World, key: str, body: bytes) -> None:
        """Put other bytes under a key."""
        world.store.delete(key)
        world.store.put_if_absent(key, body)

    def test_its_session_says_which_object(self, damaged: World) -> None:
        """Loading and reading fail with the key of what is damaged."""
        host = damaged.host()
        for read in (host.sessions.load, host.sessions.read):
            with pytest.raises(FormatError, match=r"session=s1/0{19}2\.parquet"):
                read(KEY)

    def test_other_sessions_are_whole(
        self, damaged: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A list passes the damaged one over with a logged error."""
        host = damaged.host()
        with caplog.at_level(logging.ERROR, "lakestore"):
            views = [*host.sessions.read_all("travel", "ana")]

        assert [view.key for view in views] == [OTHER]
        assert host.events(OTHER) == ["e1", "e2"]
        assert "00000000000000000002.parquet" in caplog.text

    def test_a_damaged_rollup_is_passed_over(self, world: World) -> None:
        """What it was made of answers in its place, and when that is gone it is named."""
        host = world.host()
        host.append_each(host.create(), *several(2))
        host.sessions.roll_up(KEY, force=True)
        self.spoil(world, rollup_key(LOG, 3), world.store.get(rollup_key(LOG, 3))[:-9])
        assert world.host().events() == ["e1", "e2"]

        for version in (1, 2):
            world.store.delete(commit_key(LOG, version))
        with pytest.raises(FormatError, match="00000000000000000003"):
            world.host().sessions.load(KEY)

    @pytest.mark.parametrize("text", ['{"k": ', "[7]"])
    def test_json_that_is_none_is_damage(self, world: World, text: str) -> None:
        """A commit whose JSON rotted costs its own session only, like any other damage."""
        host = world.host()
        for key in (KEY, OTHER):
            host.append_each(host.create(key), *several(2), key=key)
        row = events.decode(world.store.get(commit_key(LOG, 2)))[0]
        rotten = events.encode_commit([replace(row, state_delta=text)])
        self.spoil(world, commit_key(LOG, 2), rotten)

        reader = world.host()
        assert [view.key for view in reader.sessions.read_all("travel", "ana")] == [OTHER]
        with pytest.raises(FormatError, match="00000000000000000002"):
            reader.sessions.load(KEY)

    def test_an_object_in_the_wrong_place_is_damage(self, world: World) -> None:
        """A commit that was copied from elsewhere is not believed: its rows say whose it is."""
        host = world.host()
        for key in (KEY, OTHER):
            host.append_each(host.create(key), *several(2), key=key)
        for version, source in ((2, commit_key(OTHER.log, 2)), (3, commit_key(LOG, 2))):
            good = world.store.get(commit_key(LOG, version))
            self.spoil(world, commit_key(LOG, version), world.store.get(source))
            with pytest.raises(FormatError, match=f"{version:020}"):
                world.host().sessions.load(KEY)
            self.spoil(world, commit_key(LOG, version), good)

    def test_a_damaged_next_commit_is_no_refusal(self, world: World) -> None:
        """A writer whose next version holds something unreadable says so, and wrote nothing."""
        host = world.host()
        marker = host.create()
        world.store.put_if_absent(commit_key(LOG, 2), b"PAR1 half a file")

        with pytest.raises(FormatError, match="00000000000000000002"):
            host.append(marker, said("e1", {"user:k": 1}))
        assert world.entries() == []


# R070
class TestStrays:
    """Files of others, and empty objects that consoles make, disturb nothing and stay."""

    STRAYS = (
        "events/log/.DS_Store",
        "events/log/app=travel/_SUCCESS",
        "events/log/app=travel/user=ana/README.md",
        f"{LOG}README.md",
        f"{LOG}.00000000000000000003.parquet.crc",
        f"{LOG}00000000000000000003 (1).parquet",
        f"{LOG}backup/00000000000000000009.parquet",
        "events/log/app=travel/user=ana/session=s3/notes.txt",
        "state/entries/app=travel/user=ana/_SUCCESS",
        "state/entries/app=travel/user=ana/00000000000000000001.parquet",
        "telemetry/unknown.parquet",
    )

    def test_all_that_is_done_is_done_as_without(self, world: World) -> None:
        """Create, append, read, list, roll up, sweep and delete work beside strays."""
        for stray in self.STRAYS:
            world.store.put_if_absent(stray, b"a stray")
        host = world.host(PlaceholderStore(world.store))
        marker = host.append_each(host.create(delta={"user:k": 1}), *several(3))
        world.roll_up_twice_and_sweep(host, marker)

        reader = world.host(PlaceholderStore(world.store))
        assert reader.events() == ["e1", "e2", "e3", "after 4"]
        assert [view.key for view in reader.sessions.read_all("travel", None)] == [KEY]
        assert reader.state() == {"k": 1}
        assert reader.sessions.read(SessionKey("travel", "ana", "s3")) is None
        assert world.versions() == ([4, 5], [4, 5])
        reader.sessions.delete(KEY)
        assert reader.events() == []
        assert set(self.STRAYS) <= set(world.stored())
