"""What `import lakestore` offers, and how little it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from types import ModuleType

import pytest

import lakestore

MAX_IMPORT_CPU_SECONDS = 0.3

_MEASURED_IMPORT = """
import json, sys, time
before = time.process_time()
import lakestore
spent = time.process_time() - before
print(json.dumps({"seconds": spent, "modules": sorted(sys.modules)}))
"""


def _import_in_a_fresh_process() -> tuple[float, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED_IMPORT], check=True, capture_output=True, text=True
    )
    answer = json.loads(done.stdout)
    return answer["seconds"], set(answer["modules"])


def _is_ours(value: object) -> bool:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return home.split(".")[0] == "lakestore"


def test_every_public_name_is_there_and_ours() -> None:
    """Every name in `__all__` can be had from the package, and is defined in it."""
    assert [name for name in lakestore.__all__ if not _is_ours(getattr(lakestore, name))] == []


def test_what_is_exported_is_listed() -> None:
    """No class or function of ours is visible in the package without standing in `__all__`."""
    for name in lakestore.__all__:
        getattr(lakestore, name)  # a lazy name may appear only now
    visible = {
        name
        for name, value in vars(lakestore).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and _is_ours(value)
    }
    assert visible <= set(lakestore.__all__)


def test_the_promised_names_are_listed_once() -> None:
    """`Lake` and `LakeSessionService` are public, and no name is listed twice."""
    assert {"Lake", "LakeSessionService"} <= set(lakestore.__all__)
    assert len(lakestore.__all__) == len(set(lakestore.__all__))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as on any module, naming the module and itself."""
    misspelt = "Lakes"
    with pytest.raises(AttributeError, match=r"lakestore.*Lakes"):
        getattr(lakestore, misspelt)


def test_import_waits_with_the_heavy_libraries() -> None:
    """`import lakestore` loads neither google.adk nor DuckDB."""
    _, modules = _import_in_a_fresh_process()
    assert modules.isdisjoint({"google.adk", "duckdb", "_duckdb"})


def test_import_is_quick() -> None:
    """`import lakestore` takes less than 0.3 s of CPU time, the quickest of three tries."""
    assert min(_import_in_a_fresh_process()[0] for _ in range(3)) < MAX_IMPORT_CPU_SECONDS
