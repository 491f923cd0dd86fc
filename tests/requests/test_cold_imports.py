"""What a new process pays for its first read besides requests: what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from lakestore import Lake, LakeSessionService
from lakestore.jobs import compact, sweep
from tests.support.archives import APP, event

_READ = """
import json, sys
from lakestore import Lake, LakeSessionService
with Lake.open(sys.argv[1]) as lake:
    service = LakeSessionService(lake).sync
    before = set(sys.modules)
    found = service.get_session(app_name=sys.argv[2], user_id="ana", session_id="s")
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    slow = "pyarrow.compute" in sys.modules
    print(json.dumps({"events": len(found.events), "new": sorted(new), "slow": slow}))
"""


def test_a_first_read_imports_nothing_heavy(tmp_path: Path) -> None:
    """Of a packed session with shared state: no pandas and no pyarrow.compute, half a second."""
    with Lake.open(tmp_path) as lake:
        service = LakeSessionService(lake).sync
        session = service.create_session(
            app_name=APP, user_id="ana", session_id="s", state={"user:a": 1, "app:b": 2, "c": 3}
        )
        service.append_events(session, [event(number) for number in range(20)])
        compact(lake)
        sweep(lake, grace=0)
    command = [sys.executable, "-c", _READ, str(tmp_path), APP]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert found["events"] == 20
    assert not found["slow"]
    assert "pandas" not in found["new"]
