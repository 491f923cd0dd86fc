"""Which store a URL means, whatever characters are in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakestore import Lake
from lakestore.errors import InputError, LakeError, StorageError, UnsupportedStoreError
from lakestore.history.sessions import Sessions
from lakestore.log.keys import SessionKey
from lakestore.storage import LocalStore, MemoryStore, open_store
from tests.support.histories import ids, said

ODD_NAMES = [
    "plain",
    "with a space",
    " blanks around ",
    "#fragment",
    "a?b=c&d",
    "[set]",
    "star*",
    "{brace,s}",
    "o'brien",
    'quo"te',
    "a::b",
    "100%",
    "a%20b",
    "a+b",
    "a;b:c",
    "back\\slash",
    "-rf",
    ".hidden",
    "~",
    "über-日本",
    "e\u0301",
    "line\nbreak",
    "$HOME",
    "memory:",
    "s3:bucket",
    "a" * 200,
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_path_is_taken_as_it_stands(tmp_path: Path, name: str) -> None:
    """No character of a folder's name means anything, as a path, as a text or after file://."""
    root = tmp_path / name
    open_store(root).put_if_absent("some/key", b"x")

    assert (root / "some" / "key").read_bytes() == b"x"
    for given in [str(root), f"file://{root}", f"{root}/", f"file://{root}///"]:
        assert open_store(given).get("some/key") == b"x"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["with a space", "#a?b*[c]", "o'brien", "a::b", "100%25", "日本"])
def test_a_lake_works_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    """Creating, appending, listing and reading work wherever the lake is."""
    key = SessionKey("app", "user", "s")
    with Lake.open(tmp_path / name) as lake:
        sessions: Sessions = lake.sessions
        marker = sessions.create(key, {"user:k": 1}, generated=False).marker
        sessions.append(key, marker, [said("e1", {"app:k": 2})])
    with Lake.open(f"{tmp_path}/{name}/", read_only=True) as lake:
        found = lake.sessions.read(key)
        assert found is not None
        assert ids(found[0]) == ["e1"]
        assert [fold.values() for fold in found[1].values()] == [{"k": 1}, {"k": 2}]
        assert [view.key for view in lake.sessions.read_all("app", None)] == [key]


@pytest.mark.parametrize("relative", ["lake", "./lake", "sub/../lake", "lake/", "file://lake"])
def test_a_relative_folder_is_found_when_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: str
) -> None:
    """A relative path counts from where the process was when it opened the store."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    store = open_store(relative)
    monkeypatch.chdir(elsewhere)
    store.put_if_absent("some/key", b"x")

    assert (tmp_path / "lake" / "some" / "key").exists()
    assert os.listdir(elsewhere) == []


@pytest.mark.parametrize("given", ["~/my lake", "file://~/my lake"])
def test_a_tilde_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """`~` at the start is the home folder, which shells do not put in after `=` or in quotes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    open_store(given).put_if_absent("some/key", b"x")

    assert (tmp_path / "my lake" / "some" / "key").exists()


def test_one_folder_by_many_names_is_one_store(tmp_path: Path) -> None:
    """What is written under one way to write a URL is read under every other."""
    open_store(tmp_path / "lake").put_if_absent("some/key", b"first")
    for given in [f"{tmp_path}/lake", f"file://{tmp_path}/lake/", f"{tmp_path}/./x/../lake"]:
        assert open_store(given).get("some/key") == b"first"


def test_the_url_of_a_store_opens_it_again(tmp_path: Path) -> None:
    """`url` can be handed to another process."""
    store = open_store(f"{tmp_path}/a b#c/")
    store.put_if_absent("some/key", b"x")

    assert open_store(store.url).get("some/key") == b"x"
    memory = open_store("memory://a b#c/")
    assert open_store(memory.url) is memory


def test_opening_creates_nothing(tmp_path: Path) -> None:
    """A folder is made when something is stored in it, not when it is named."""
    store = open_store(tmp_path / "none" / "at all")

    assert [*store.list("")] == []
    assert os.listdir(tmp_path) == []


def test_memory_is_shared_by_name() -> None:
    """One name is one store in this process, and two names are two."""
    one, two = open_store("memory://urls-one"), open_store("memory://urls-two")
    one.put_if_absent("k", b"x")

    assert open_store("memory://urls-one/") is one
    assert [*two.list("")] == []
    assert isinstance(one, MemoryStore)


@pytest.mark.parametrize(
    "url",
    [
        "http://lake.test/",
        "sqlite:///lake.db",
        "abfss://x",
        "zip://a.zip",
        "FILE:///tmp/x",
        "://x",
    ],
)
def test_an_unknown_protocol_is_refused_by_name(url: str) -> None:
    """What has no known exclusive creation is refused before anything is asked of it."""
    with pytest.raises(UnsupportedStoreError, match=url.partition("://")[0] + "://"):
        open_store(url)


def test_a_refusal_keeps_credentials_to_itself() -> None:
    """A URL that is refused may hold a password."""
    with pytest.raises(UnsupportedStoreError) as caught:
        open_store("https://ana:secret@lake.test/x?token=secret")

    assert "secret" not in str(caught.value)


def test_a_path_may_hold_a_colon_and_slashes(tmp_path: Path) -> None:
    """`://` makes a URL only after a protocol's name, not deep in a path."""
    open_store(f"{tmp_path}/odd://lake").put_if_absent("some/key", b"x")

    assert (tmp_path / "odd:" / "lake" / "some" / "key").exists()


@pytest.mark.parametrize("url", ["", "a\x00b", "/tmp/\x00", "file://", "memory://", "file://\x00"])
def test_a_url_that_names_nothing_is_refused(url: str) -> None:
    """An empty URL, or one with NUL, names no place."""
    with pytest.raises(InputError):
        open_store(url)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """A file where the folder should be is refused by its path."""
    file = tmp_path / "notes.txt"
    file.write_text("mine")

    for given in [str(file), f"{file}/", f"file://{file}"]:
        with pytest.raises(InputError, match=r"notes\.txt"):
            open_store(given)
    assert file.read_text() == "mine"


def test_a_folder_below_a_file_is_an_error_of_ours(tmp_path: Path) -> None:
    """A path through a file cannot be written to, and says so as a LakeError."""
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(LakeError, match=r"notes\.txt"):
        Lake.open(tmp_path / "notes.txt" / "lake")


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3_000], ids=["name", "path"])
def test_a_name_too_long_is_an_error_of_ours(tmp_path: Path, name: str) -> None:
    """What the system cannot name is refused as a LakeError."""
    with pytest.raises(LakeError):
        Lake.open(f"{tmp_path}/{name}")


_AT_ROOT = """
import os, sys
from lakestore.storage import LocalStore
os.chroot(sys.argv[1])
store = LocalStore("/")
store.put_if_absent("lakestore.json", b"x")
store.put_if_absent("some/key", b"x")
print(*(stored.key for stored in store.list("")))
"""


@pytest.mark.skipif(not hasattr(os, "chroot"), reason="there is no chroot here")
def test_the_root_of_the_file_system_is_a_folder(tmp_path: Path) -> None:
    """A lake may be at `/`, as in a container with a volume there."""
    if os.geteuid() != 0:
        pytest.skip("only root can change what / is")
    told = subprocess.run(
        [sys.executable, "-c", _AT_ROOT, tmp_path],
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    assert told.stdout.split() == ["lakestore.json", "some/key"]


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    """A folder and memory take no options, so a misspelt one is not ignored."""
    for url in [str(tmp_path), "memory://options"]:
        with pytest.raises(InputError, match="regoin"):
            open_store(url, {"regoin": "eu"})
        assert open_store(url, {}).near


def test_a_store_that_cannot_be_reached_is_a_storage_error(tmp_path: Path) -> None:
    """Errors of the system come out as StorageError, naming the key."""
    store = LocalStore(tmp_path)
    key = "k" * 300
    for request in (
        lambda: store.put_if_absent(key, b"x"),
        lambda: store.get(key),
        lambda: store.get_range(key, 0, 1),
        lambda: store.size(key),
        lambda: store.delete(key),
        lambda: list(store.list(key + "/")),
    ):
        with pytest.raises(StorageError, match="kkk"):
            request()
