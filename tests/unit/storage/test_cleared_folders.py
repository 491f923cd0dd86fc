"""Empty folders: when they go, and what that means to whoever writes into one just then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lakestore.errors import StorageError
from lakestore.storage import LocalStore

KEY = "log/user=ana/session=s1/1"


def folders(root: Path) -> list[str]:
    """Return all folders of objects, by their paths below the root."""
    found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_dir())
    return sorted(path for path in found if path != ".tmp")


def test_empty_folders_go(tmp_path: Path) -> None:
    """Those below a prefix, with that itself; what holds an object stays, and so do others."""
    store = LocalStore(tmp_path)
    for key in (KEY, "log/user=ana/session=s2/1", "log/user=anab/session=s/1"):
        store.put_if_absent(key, b"x")
    store.delete(KEY)
    store.delete("log/user=anab/session=s/1")

    store.clear_folders("log/user=ana/")
    others = ["log/user=anab", "log/user=anab/session=s"]
    assert folders(tmp_path) == ["log", "log/user=ana", "log/user=ana/session=s2", *others]
    store.delete("log/user=ana/session=s2/1")
    store.clear_folders("log/user=ana/")
    store.clear_folders("log/user=never/")
    assert folders(tmp_path) == ["log", *others]
    store.put_if_absent(KEY, b"y")
    assert store.get(KEY) == b"y"


@pytest.mark.parametrize(("times", "stored"), [(1, True), (2, True), (3, False)])
def test_a_folder_that_goes_before_it_is_written_to(
    tmp_path: Path, times: int, stored: bool
) -> None:
    """It is made again; where it goes each time, the error is the store's and nothing is there."""
    store, link, left = LocalStore(tmp_path), os.link, [None] * times

    def late(aside: str, path: str) -> None:
        if left:
            left.pop()
            shutil.rmtree(tmp_path / "log")
        link(aside, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", late)
        if stored:
            store.put_if_absent(KEY, b"x")
        else:
            with pytest.raises(StorageError, match="session=s1"):
                store.put_if_absent(KEY, b"x")
    assert [one.key for one in store.list("")] == ([KEY] if stored else [])
    assert os.listdir(tmp_path / ".tmp") == []
