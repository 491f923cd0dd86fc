"""What `import lakestore` costs a program that may never use ADK."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.measuring import OURS, Figures, Scale, take_turns

ROOT = Path(__file__).parents[2]

_PROGRAM = """
import json, sys, time
before = set(sys.modules)
started = time.perf_counter()
import lakestore
seconds = time.perf_counter() - started
new = sorted({name.split(".")[0] for name in set(sys.modules) - before})
print(json.dumps({"seconds": seconds, "adk": "google.adk" in sys.modules, "new": new}))
"""


async def test_import(scale: Scale, figures: Figures) -> None:
    """`import lakestore` imports neither google.adk nor what SQL or buckets need."""

    async def work(_number: int) -> float:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], cwd=ROOT, check=True, capture_output=True, text=True
        )
        found = json.loads(done.stdout)
        assert not found["adk"]
        assert not {"duckdb", "fsspec", "s3fs", "gcsfs", "pandas"} & set(found["new"])
        return float(found["seconds"])

    samples = await take_turns(scale.import_rounds, {OURS: work})
    figures.add("import lakestore", samples, limit=0.3)
