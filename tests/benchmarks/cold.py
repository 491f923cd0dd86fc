"""What a new process needs for its first read: `python -m tests.benchmarks.cold NAME DIR ID LAST`.

Run by `test_recent`, once a sample. Imports and opening are not timed: they are paid once a
process, and most of them are ADK's.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from google.adk.sessions.base_session_service import GetSessionConfig

from tests.benchmarks.contenders import CONTENDERS
from tests.benchmarks.histories import APP, USER
from tests.benchmarks.measuring import Stopwatch


async def first_read(name: str, folder: Path, session_id: str, last: int) -> dict[str, object]:
    """Return the seconds that the first read takes, and which events it found."""
    contender = CONTENDERS[name]
    service = contender.open(folder)
    config = GetSessionConfig(num_recent_events=last)
    with Stopwatch() as watch:
        session = await service.get_session(
            app_name=APP, user_id=USER, session_id=session_id, config=config
        )
    await contender.close(service)
    found = [event.id for event in session.events] if session else []
    return {"seconds": watch.seconds, "events": found}


if __name__ == "__main__":
    name, folder, session_id, last = sys.argv[1:]
    print(json.dumps(asyncio.run(first_read(name, Path(folder), session_id, int(last)))))
