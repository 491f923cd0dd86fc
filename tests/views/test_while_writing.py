"""Views while others write and pack: each answer is of one moment, and none goes back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Semaphore

from lakestore import Lake
from lakestore.demo.histories import history, write_history
from lakestore.jobs import compact
from lakestore.storage import MemoryStore
from tests.support.analytics import Told
from tests.support.shown_views import check_views

_CONSISTENT = """
select (select count(*) from events), (select sum(events) from sessions),
  (select count(*) from turns), (select sum(turns) from sessions),
  (select count(*) from tool_calls), (select sum(tool_calls) from sessions),
  (select count(*) from llm_calls), (select sum(llm_calls) from turns)
    + (select count(*) from llm_calls where is_compaction),
  (select count(*) from errors where source = 'tool'), (select sum(tool_errors) from sessions)
"""


def test_answers_while_others_write_and_pack() -> None:
    """The same thing counted in two views is the same number, at any time; in the end it is all."""
    store = MemoryStore()
    Lake(store).close()  # so that it is there to be read
    stories = list(history(sessions=40, seed=9, days=30, until=datetime(2026, 11, 1, tzinfo=UTC)))
    seen = [0]
    asked = Semaphore(2)

    def write(part: int) -> None:
        with Lake(store) as lake:
            for story in stories[part::2]:
                if story is stories[part] or story.session_id.endswith(("0", "1", "2")):
                    asked.acquire()  # so that queries fall between
                write_history(lake, [story])

    def pack() -> None:
        with Lake(store) as lake:
            while not all(writer.done() for writer in writers):
                compact(lake)

    with ThreadPoolExecutor(3) as threads, Lake(store, read_only=True) as reader:
        writers = [threads.submit(write, part) for part in range(2)]
        packer = threads.submit(pack)
        while not packer.done():
            ((*pairs,),) = reader.sql(_CONSISTENT).fetchall()
            assert [one or 0 for one in pairs[::2]] == [other or 0 for other in pairs[1::2]]
            assert pairs[0] >= seen[-1]
            seen.append(pairs[0])
            asked.release(2)
        for done in (*writers, packer):
            done.result()
        told = [Told(s.app_name, s.user_id, s.session_id, {}, s.events) for s in stories]
        check_views(reader, told, states=False)
    assert len(set(seen)) > 2
