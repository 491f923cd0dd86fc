"""A payload of any size takes the memory of a few parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakestore.storage import PART, open_store
from tests.support.servers import Bucket

# Peaks are those of this process alone: the system counts what its parent held to the others.
_UPLOAD = """
import json, sys
from lakestore.storage import PART, open_store

def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

url, options, parts = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
store = open_store(url, options, client=sys.argv[4])
store.upload("t/first", [b"x"], content_type="image/png")
before = peak()
source = (bytes([number % 256]) * PART for number in range(parts))
store.upload("t/large", source, content_type="image/png")
print(peak() - before)
store.close()
"""

_LARGE = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the peak")
@pytest.mark.parametrize(
    ("server", "parts"),
    [
        pytest.param("folder", 32, id="folder-256MB"),
        pytest.param("seaweedfs", 16, id="seaweedfs-128MB"),
        pytest.param("fake_gcs", 32, id="fake_gcs-256MB", marks=_LARGE),  # it copies all it has
        pytest.param("folder", 256, id="folder-2GB", marks=_LARGE),
        pytest.param("seaweedfs", 256, id="seaweedfs-2GB", marks=_LARGE),
        pytest.param("obstore", 256, id="obstore-2GB", marks=_LARGE),
    ],
)
def test_memory_is_that_of_a_few_parts(
    request: pytest.FixtureRequest, tmp_path: Path, server: str, parts: int
) -> None:
    """From a generator, memory grows by less than eight parts, and all bytes arrive."""
    url, options, client = str(tmp_path), {}, "fsspec"
    if server != "folder":
        name = "seaweedfs" if server == "obstore" else server
        bucket: Bucket = request.getfixturevalue(name)
        url, options = bucket.fresh(), dict(bucket.storage_options)
        client = "obstore" if server == "obstore" else "fsspec"
    command = [sys.executable, "-c", _UPLOAD, url, json.dumps(options), str(parts), client]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert int(done.stdout) < 8 * PART
    store = open_store(url, options)
    assert store.size("t/large") == parts * PART
    assert store.get_range("t/large", 9 * PART - 2, 4) == bytes([8, 8, 9, 9])
    store.delete("t/large")
    store.close()
