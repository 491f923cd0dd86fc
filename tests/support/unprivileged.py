"""A folder, and a user whom permissions bind: tests may run as root, whom they do not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be a user whom permissions bind."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def public_folder() -> Iterator[Path]:
    """Make a folder that another user can reach, which one below pytest's own is not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        for path, _, _ in os.walk(folder):
            os.chmod(path, 0o755)
