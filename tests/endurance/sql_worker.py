"""One process that writes, packs or asks: `python -m tests.endurance.sql_worker KIND URL FOLDER`.

Works until its standard input ends. A writer tells how many events were acknowledged, whoever asks
what it was told, each a line of JSON in the folder, with the monotonic times before and after.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

from google.adk.events.event import Event as AdkEvent
from google.genai import types

from lakestore import Lake, LakeSessionService
from lakestore.jobs import compact, sweep

ALIKE = """select (select count(*) from events), (select sum(events) from sessions),
  (select count(*) from messages), (select sum(events) from turns)"""


def _write(lake: Lake, name: str) -> Iterator[int]:
    service = LakeSessionService(lake).sync
    count = 0
    while True:
        session = service.create_session(app_name="app", user_id=name)
        for _ in range(12):
            content = types.Content(role="user", parts=[types.Part(text=f"{name} {count}")])
            event = AdkEvent(author="user", invocation_id=f"turn-{count // 4}", content=content)
            service.append_event(session, event)
            count += 1
            yield count


def _pack(lake: Lake) -> Iterator[int]:
    while True:
        yield compact(lake, pack_bytes=20_000).events
        sweep(lake)


def _asked(query: Callable[[], list[tuple[int, ...]]]) -> Iterator[int]:
    while True:
        ((*counts,),) = query()
        if len(set(counts)) != 1:
            raise AssertionError(f"views disagree: {counts}")
        yield counts[0]


def _notebook(lake: Lake) -> Iterator[int]:
    connection = lake.connect()

    def query() -> list[tuple[int, ...]]:
        lake.refresh(connection)
        return connection.sql(ALIKE).fetchall()

    return _asked(query)


def main(kind: str, url: str, folder: Path, name: str) -> None:
    """Work until standard input ends."""
    over = Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    Thread(target=wait, daemon=True).start()
    cache = folder / "cache" if kind == "cached" else None
    with Lake.open(url, catalog_cache=cache) as lake:
        work = {
            "write": lambda: _write(lake, name),
            "pack": lambda: _pack(lake),
            "notebook": lambda: _notebook(lake),
            "cached": lambda: _asked(lambda: lake.sql(ALIKE).fetchall()),
        }[kind]()
        with (folder / f"{kind}-{name}.jsonl").open("a", encoding="utf-8") as journal:
            while not over.is_set():
                before = time.monotonic()
                found = next(work)
                journal.write(json.dumps([before, time.monotonic(), found]) + "\n")
                journal.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
