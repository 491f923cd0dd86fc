"""Uploads into a folder when the process, or the disk, gives way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestore.errors import AlreadyExistsError
from lakestore.storage import LocalStore
from lakestore.storage.uploads import send

PNG = "image/png"
GRACE = 3600.0

# Uploads what comes in parts; argument 2 says what happens after the second of them.
_UPLOAD = """
import os, signal, sys
from lakestore.storage import PART, LocalStore

def source():
    yield bytes(PART)
    yield bytes(PART)
    yield bytes(PART)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2] == "full":
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 * PART + 100, 3 * PART + 100))
    yield bytes(PART)

try:
    LocalStore(sys.argv[1]).upload("folder/new.png", source(), content_type="image/png")
    print("stored")
except Exception as error:
    print(type(error).__name__, error)
"""


def upload(root: Path, what: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a process of its own."""
    command = [sys.executable, "-c", _UPLOAD, str(root), what]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_killed_upload_goes_after_the_grace(tmp_path: Path) -> None:
    """What a killed process wrote is nobody's object, and goes with a write after the grace."""
    assert upload(tmp_path, "killed").returncode == -9
    store = LocalStore(tmp_path)
    assert [*store.names("")] == []
    (left,) = (tmp_path / ".tmp").iterdir()
    assert left.stat().st_size > 0

    store.clear_leftovers(GRACE)
    store.upload("a", [b"x"], content_type=PNG)
    assert left.exists()
    then = left.stat().st_mtime - GRACE - 60
    os.utime(left, (then, then))
    store.clear_leftovers(GRACE)
    store.upload("b", [b"x"], content_type=PNG)
    assert [*(tmp_path / ".tmp").iterdir()] == []
    assert [*store.names("")] == ["a", "b"]


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """When a part fits no more, all of them go."""
    done = upload(tmp_path, "full")

    assert done.stdout.startswith("StorageError")
    assert "folder/new.png" in done.stdout
    assert [*LocalStore(tmp_path).names("")] == []
    assert os.listdir(tmp_path / ".tmp") == []


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Also what no store may catch, such as Ctrl-C, ends with the parts removed."""

    def interrupted() -> Iterator[bytes]:
        yield b"12345678"
        raise KeyboardInterrupt

    store = LocalStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        send(store, "folder/new.png", interrupted(), PNG, part_bytes=3)
    assert [*store.names("")] == []
    assert os.listdir(tmp_path / ".tmp") == []


def test_a_taken_name_is_refused_in_parts_too(tmp_path: Path) -> None:
    """A folder links each payload exclusively, and a refusal leaves no part."""
    store = LocalStore(tmp_path)
    store.upload("a", [b"first"], content_type=PNG)
    with pytest.raises(AlreadyExistsError):
        send(store, "a", [b"second"], PNG, part_bytes=3)

    assert os.listdir(tmp_path / ".tmp") == []
    assert store.get("a") == b"first"
