from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

ROOT = Path(__file__).parents[3]

SETUP = """
import gc, os, sys
from lakestore.catalog import Catalog
from lakestore.clock import SystemClock
from lakestore.log.marker import Limits
from lakestore.storage import LocalStore, Metrics, Pool
from tests.support.lake_builder import a_log

store = LocalStore(sys.argv[1])
log = a_log(store).create().say("a")
catalog = Catalog(store, Pool(2, "test"), SystemClock(), Metrics(), Limits())
catalog.refresh()
relation, connection = catalog.sql("from events"), catalog.connection
# So that DuckDB has threads, which a fork loses.
catalog.sql("select count(distinct i) from range(1000000) t(i)").fetchall()

def count():
    catalog.refresh()
    return catalog.sql("select count(*) from events").fetchall()[0][0]

pid = os.fork()
if pid == 0:
    {child}
    print("child is done", flush=True)
    sys.exit(0)
log.say("b")
assert os.waitpid(pid, 0)[1] == 0
assert count() == 2
assert connection.sql("select count(*) from events").fetchall() == [(2,)]
print("parent is done")
"""

CHILDREN = {
    "uses it": "assert count() >= 1 and catalog.connection is not connection",
    "uses it before a refresh": "assert catalog.sql('from events').fetchall() == []",
    "leaves it": "pass",
    "drops it": "del catalog; gc.collect()",
    "drops everything": "del catalog, relation, connection; gc.collect()",
    "drops its connection first": "del connection, relation; gc.collect(); del catalog",
    "closes it": "catalog.close()",
    "uses and closes it": "assert count() >= 1; catalog.close()",
}


@pytest.mark.parametrize("child", CHILDREN.values(), ids=CHILDREN)
def test_a_forked_process_begins_anew(tmp_path: Path, child: str) -> None:
    """After a fork both processes query what is there, and both can end."""
    command = [sys.executable, "-c", SETUP.format(child=child), str(tmp_path / "lake")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == ["child is done", "parent is done"]
