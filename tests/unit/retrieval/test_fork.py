from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

ROOT = Path(__file__).parents[3]

SCRIPT = """
import gc, os, sys
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from lakestore import Lake, LakeMemoryService
from tests.support.searching import hashed

lake = Lake.open(sys.argv[1])
service = LakeMemoryService(lake, ranking="hybrid", embedder=hashed).sync
memories = [
    MemoryEntry(content=types.Content(parts=[types.Part(text=f"tea {number}")]))
    for number in range(5_000)
]
service.add_memory(app_name="a", user_id="u", memories=memories)

def found():
    asked = dict(app_name="a", user_id="u", query="tea")
    remembered = service.search_memory(**asked).memories
    how = dict(over="memory", ranking="hybrid", embedder=hashed)
    return len(remembered), len(lake.search(**asked, **how, limit=10))

assert found() == (10, 10)
pid = os.fork()
if pid == 0:
    assert found() == (10, 10)
    del service, lake
    gc.collect()
    print("child is done", flush=True)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert found() == (10, 10)
print("parent is done")
"""


def test_a_forked_process_makes_indexes_of_its_own(tmp_path: Path) -> None:
    """Vectors are in DuckDB, whose threads a fork loses: both processes search, and both end."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "lake")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["child is done", "parent is done"], done.stderr
