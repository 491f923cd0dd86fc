"""A folder when something goes wrong: killed in the middle, disk full, no permission, strays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakestore import Lake, LakeSessionService, Limits
from lakestore.errors import AlreadyExistsError, NotFoundError, StorageError
from lakestore.storage import LocalStore
from lakestore.storage.aside import sweep_aside
from tests.support.tracing import run_traced
from tests.support.unprivileged import public_folder, unprivileged

_BODY = bytes(range(256)) * 1024

# Tells what became of the second of two creations in one folder.
_PUT = """
import sys
from lakestore.storage import LocalStore
store = LocalStore(sys.argv[1])
store.put_if_absent("folder/old", b"old")
if len(sys.argv) > 2:
    open(sys.argv[2], "w").close()
try:
    store.put_if_absent("folder/new", bytes(range(256)) * 1024)
    print("stored")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How often the script makes each system call before the second creation."""
    folder = tmp_path_factory.mktemp("counted")
    calls = run_traced(folder, _PUT, folder / "lake", folder / "ready").calls
    ready = next(i for i, call in enumerate(calls) if str(folder / "ready") in call.paths)
    return Counter(call.name for call in calls[:ready])


def is_whole(store: LocalStore) -> bool:
    """Tell whether the second object is there, sure that it is whole or absent to every reader."""
    listed = [stored.key for stored in store.list("folder/")]
    try:
        assert store.get("folder/new") == _BODY
    except NotFoundError:
        assert listed == ["folder/old"]
        return False
    assert listed == ["folder/new", "folder/old"]
    return True


# R068
@pytest.mark.parametrize(
    ("call", "nth", "stands"),
    [
        pytest.param("write", 1, False, id="before-the-bytes"),
        pytest.param("fsync", 1, False, id="before-they-are-synced"),
        pytest.param("link", 1, False, id="before-the-name"),
        pytest.param("fsync", 2, True, id="before-the-name-is-synced"),
    ],
)
def test_a_killed_writer_leaves_all_or_nothing(
    tmp_path: Path, before: Counter[str], call: str, nth: int, stands: bool
) -> None:
    """Killed at any moment, a writer leaves the whole object or none, and bars no other."""
    when = before[call] + nth
    killed = run_traced(
        tmp_path, _PUT, tmp_path / "lake", inject=f"{call}:signal=SIGKILL:when={when}"
    )
    store = LocalStore(tmp_path / "lake")

    assert killed.status != 0
    assert killed.output == ""
    assert is_whole(store) is stands
    if stands:
        with pytest.raises(AlreadyExistsError):
            store.put_if_absent("folder/new", b"mine")
    else:
        store.put_if_absent("folder/new", _BODY)
        assert is_whole(store)


@pytest.mark.parametrize(
    ("call", "nth", "error", "told", "stands"),
    [
        pytest.param("write", 1, "ENOSPC", "StorageError", False, id="disk-full"),
        pytest.param("fsync", 1, "EIO", "StorageError", False, id="bytes-not-synced"),
        pytest.param("link", 1, "EIO", "StorageError", False, id="not-named"),
        pytest.param("link", 1, "EPERM", "UnsupportedStoreError", False, id="no-hard-links"),
        pytest.param("fsync", 2, "EIO", "NotDurableError", True, id="name-not-synced"),
        pytest.param("unlink", 1, "EIO", "stored", True, id="not-tidied"),
    ],
)
def test_a_failing_disk_is_reported_for_what_it_is(
    tmp_path: Path,
    before: Counter[str],
    call: str,
    nth: int,
    error: str,
    told: str,
    stands: bool,
) -> None:
    """Stored, not stored and unknown are told apart, and no reader meets a part of an object."""
    root = tmp_path / "lake"
    when = before[call] + nth
    failed = run_traced(tmp_path, _PUT, root, inject=f"{call}:error={error}:when={when}")

    assert failed.status == 0
    assert failed.output.split()[0] == told
    assert told == "stored" or "folder/new" in failed.output or str(root) in failed.output
    assert is_whole(LocalStore(root)) is stands
    if call != "unlink":
        assert os.listdir(root / ".tmp") == []


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    """When the bytes fit in part, none of them stay."""
    limited = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (100_000, 100_000))\n" + _PUT
    done = subprocess.run(
        [sys.executable, "-c", limited, tmp_path], capture_output=True, text=True, check=True
    )

    assert done.stdout.startswith("StorageError")
    assert "folder/new" in done.stdout
    assert not is_whole(LocalStore(tmp_path))
    assert os.listdir(tmp_path / ".tmp") == []


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that another user can reach."""
    with public_folder() as folder:
        yield folder


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="permissions are another matter here")
class TestPermissions:
    """What a user may not do is a StorageError that names the key."""

    def test_a_folder_that_may_only_be_read(self, public: Path) -> None:
        """Nothing can be written or deleted, everything can be read, nothing changes."""
        store = LocalStore(public)
        store.put_if_absent("folder/old", b"old")
        for path in (public, public / "folder", public / ".tmp"):
            path.chmod(0o555)
        with unprivileged():
            for key in ("folder/new", "other/new"):
                with pytest.raises(StorageError, match=key):
                    store.put_if_absent(key, b"x")
            with pytest.raises(StorageError, match="folder/old"):
                store.delete("folder/old")
            assert store.get("folder/old") == b"old"
        assert [stored.key for stored in store.list("")] == ["folder/old"]
        assert os.listdir(public / ".tmp") == []

    def test_a_folder_in_which_nothing_may_be_made(self, public: Path) -> None:
        """The aside file can be written and not linked: it is taken away again."""
        store = LocalStore(public)
        store.put_if_absent("folder/old", b"old")
        (public / "folder").chmod(0o555)
        (public / ".tmp").chmod(0o777)
        with unprivileged(), pytest.raises(StorageError, match="folder/new"):
            store.put_if_absent("folder/new", b"x")

        assert [stored.key for stored in store.list("")] == ["folder/old"]
        assert os.listdir(public / ".tmp") == []

    @pytest.mark.parametrize(
        "read",
        [
            pytest.param(lambda store: store.get("folder/old"), id="get"),
            pytest.param(lambda store: store.get_range("folder/old", 0, 1), id="get_range"),
            pytest.param(lambda store: store.size("folder/old"), id="size"),
            pytest.param(lambda store: list(store.list("folder/")), id="list"),
            pytest.param(lambda store: list(store.list("")), id="list-all"),
            pytest.param(lambda store: list(store.names("folder/")), id="names"),
        ],
    )
    def test_what_may_not_be_read_is_not_missing(
        self, public: Path, read: Callable[[LocalStore], object]
    ) -> None:
        """A forbidden object is an error, never taken for one that is not there."""
        store = LocalStore(public)
        store.put_if_absent("folder/old", b"old")
        (public / "folder").chmod(0o000)
        with unprivileged(), pytest.raises(StorageError, match=r"folder|list"):
            read(store)


class TestLeftovers:
    """What killed writers left in `.tmp/` goes, once nobody can still need it."""

    GRACE = 3600.0

    def leave(self, root: Path, name: str, age: float) -> Path:
        """Leave a half-written file that is so many seconds old."""
        path = root / ".tmp" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))
        return path

    def test_the_first_write_removes_the_old_ones(self, tmp_path: Path) -> None:
        """Older than the lake's grace; what is younger, or not ours, is never touched."""
        Lake.open(tmp_path, limits=Limits(10.0, 60.0)).close()
        old = self.leave(tmp_path, "123-00ff", 90.0)
        kept = {
            self.leave(tmp_path, "123-00fe", 30.0),
            self.leave(tmp_path, "notes.txt", 90.0),
        }
        with Lake.open(tmp_path) as lake:
            assert old.exists()
            LakeSessionService(lake).sync.create_session(app_name="a", user_id="u")
        assert {*(tmp_path / ".tmp").iterdir()} == kept

    def test_only_the_first_write_looks(self, tmp_path: Path) -> None:
        """Later ones cost what they cost."""
        store = LocalStore(tmp_path)
        store.clear_leftovers(self.GRACE)
        store.put_if_absent("a", b"x")
        old = self.leave(tmp_path, "123-00ff", self.GRACE + 60)
        store.put_if_absent("b", b"x")
        assert old.exists()

    def test_time_is_that_of_the_file_system(self, tmp_path: Path) -> None:
        """Ages are counted from a file just written, whatever this machine's clock says."""
        store = LocalStore(tmp_path)
        store.clear_leftovers(self.GRACE)
        young = self.leave(tmp_path, "123-00ff", self.GRACE - 60)
        ahead = self.leave(tmp_path, "123-00fe", -self.GRACE)
        store.put_if_absent("a", b"x")
        assert young.exists()
        assert ahead.exists()

    def test_what_cannot_be_removed_harms_nothing(self, tmp_path: Path) -> None:
        """A leftover that is no file stays, and the write stands."""
        store = LocalStore(tmp_path)
        store.clear_leftovers(self.GRACE)
        folder = tmp_path / ".tmp" / "123-00ff"
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
        store.put_if_absent("a", b"x")
        assert store.get("a") == b"x"

    def test_readers_remove_nothing(self, tmp_path: Path) -> None:
        """A lake that is open for reading leaves even leftovers alone."""
        Lake.open(tmp_path).close()
        old = self.leave(tmp_path, "123-00ff", 7200.0)
        with Lake.open(tmp_path, read_only=True) as lake:
            assert lake.sql("from events").fetchall() == []
        assert old.exists()


# R070
class TestStrays:
    """Files that are not ours, where people and tools put them."""

    @pytest.mark.parametrize("stray", ["events", "events/log", "events/log/app=a"])
    def test_a_file_in_the_place_of_a_folder(self, tmp_path: Path, stray: str) -> None:
        """It is an error of the store, never mistaken for the object that is being created."""
        store = LocalStore(tmp_path)
        (tmp_path / stray).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / stray).write_text("a stray")
        key = "events/log/app=a/1.parquet"

        with pytest.raises(StorageError, match=r"1\.parquet"):
            store.put_if_absent(key, b"x")
        for read in (store.get, store.size):
            with pytest.raises(NotFoundError):
                read(key)
        assert [*store.list(key)] == []
        store.delete(key)
        assert (tmp_path / stray).read_text() == "a stray"
        assert os.listdir(tmp_path / ".tmp") == []

    def test_files_of_others_are_listed_and_kept(self, tmp_path: Path) -> None:
        """A store lists what is there; which names count is decided above."""
        store = LocalStore(tmp_path)
        store.put_if_absent("b/object", b"x")
        for name in (".DS_Store", "b/README.md", "b/Thumbs.db", "a/_SUCCESS"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()

        assert [(stored.key, stored.size) for stored in store.list("")] == [
            (".DS_Store", 0),
            ("a/_SUCCESS", 0),
            ("b/README.md", 0),
            ("b/Thumbs.db", 0),
            ("b/object", 1),
        ]

    def test_names_that_are_no_text_are_listed(self, tmp_path: Path) -> None:
        """A file name in another encoding stops no listing."""
        store = LocalStore(tmp_path)
        store.put_if_absent("b/object", b"x")
        try:
            Path(os.fsdecode(os.fsencode(tmp_path) + b"/b/\xff\xfe")).touch()
        except OSError:
            pytest.skip("this file system takes only Unicode")

        assert "b/object" in [stored.key for stored in store.list("b/")]

    def test_links_that_lead_nowhere_are_no_objects(self, tmp_path: Path) -> None:
        """A dangling link is passed over, and one to a folder is the folder."""
        store = LocalStore(tmp_path / "lake")
        store.put_if_absent("b/object", b"x")
        (tmp_path / "lake" / "b" / "nowhere").symlink_to(tmp_path / "none")
        (tmp_path / "lake" / "c").symlink_to(tmp_path / "lake" / "b")

        assert [stored.key for stored in store.list("")] == ["b/object", "c/object"]

    def test_a_link_as_root_is_the_folder(self, tmp_path: Path) -> None:
        """A lake may be reached through a symbolic link."""
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        LocalStore(tmp_path / "link").put_if_absent("b/object", b"x")

        assert LocalStore(tmp_path / "real").get("b/object") == b"x"

    def test_what_a_dead_writer_left_aside_is_no_object(self, tmp_path: Path) -> None:
        """Half-written files stay out of every listing and disturb no later writer."""
        store = LocalStore(tmp_path)
        (tmp_path / ".tmp").mkdir()
        (tmp_path / ".tmp" / "123-0000").write_bytes(b"half")
        store.put_if_absent("b/object", b"x")

        for prefix in ("", ".", ".tmp"):
            assert [s.key for s in store.list(prefix)] == (["b/object"] if not prefix else [])

    def test_leftovers_that_another_process_removes_are_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of two processes that sweep old ones at once each goes on with the rest."""
        (tmp_path / ".tmp").mkdir()
        for number in range(4):
            old = tmp_path / ".tmp" / f"123-000{number}"
            old.write_bytes(b"half")
            os.utime(old, (0, 0))
        unlink = os.unlink

        def raced(path: str) -> None:
            for each in (tmp_path / ".tmp").glob("123-000[12]"):
                unlink(each)
            unlink(path)

        (tmp_path / "now").touch()
        monkeypatch.setattr(os, "unlink", raced)
        sweep_aside(f"{tmp_path}/", str(tmp_path / "now"), 3_600)

        assert list((tmp_path / ".tmp").iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps no such time")
def test_an_object_is_as_old_as_its_name(tmp_path: Path) -> None:
    """A writer that stalls before it names its bytes makes nothing that is old already."""
    store = LocalStore(tmp_path)
    link = os.link

    def stall(aside: str, path: str) -> None:
        os.utime(aside, (0, 0))
        link(aside, path)

    before = time.time() - 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", stall)
        store.put_if_absent("a", b"1")
    (stored,) = store.list("")
    assert stored.modified >= before
