"""Runs the demo: a real ADK runner on a lake, then what landed where, then SQL over it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.platform import time as adk_time
from google.adk.runners import Runner
from google.genai import types

from lakestore.adk.sessions import LakeSessionService
from lakestore.clock import Clock, SystemClock
from lakestore.demo.agent import APP_NAME, build_agent
from lakestore.demo.histories.sample import sample_lake
from lakestore.demo.landed import tree
from lakestore.demo.visits import Visit, visits
from lakestore.lake import Lake
from lakestore.shell.tables import table
from lakestore.shell.text import DEFAULT_WIDTH, byte_size, plural, shown_url
from lakestore.storage import open_store

if TYPE_CHECKING:
    from google.adk.sessions import Session

Echo = Callable[[str], object]

SESSIONS = 9
_SEED = 14
_DAY = 86_400.0
_BETWEEN_EVENTS = 1.3


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask the lake."""

    title: str
    sql: str
    params: tuple[Any, ...] = ()


QUESTIONS = (
    Question(
        "Tokens per day and model",
        """\
select event_time::date as day, model, count(*) as calls,
       sum(prompt_tokens) as prompt, sum(output_tokens) as output, sum(total_tokens) as total
from llm_calls where event_time > now() - interval 4 days
group by all order by day, model""",
    ),
    Question(
        "Which tool is called most, and which one fails",
        """\
select tool_name as tool, count(*) as calls, count(error) as failed
from tool_calls group by tool order by calls desc, tool""",
    ),
    Question(
        "What one user said, across all sessions",
        """\
select event_time, session_id, text
from messages where user_id = ? and role = 'user'
order by event_time limit 15""",
        ("ana",),
    ),
)


def run_demo(url: str, echo: Echo, history: int, clock: Clock | None = None) -> None:
    """Let a plant shop's agent talk to its customers, keep it all in a lake, and ask the lake.

    Run it again on the same lake and there are more sessions.

    Args:
        url: Where the lake is, or will be.
        echo: Prints a line.
        history: How many sessions of twelve weeks before are written first, into a new lake.
        clock: Says what today is.

    Raises:
        LakeError: the lake could not be opened or written.
    """
    now = clock or SystemClock()
    _tell_history(url, echo, history, now)
    with Lake.open(url) as lake:
        echo("A plant shop's agent talks to its customers. Its model answers from a script, so no")
        echo(f"key and no network is needed. Every event goes into the lake at {shown_url(url)}")
        echo("")
        asyncio.run(_talk(lake, echo, now.wall()))
        _print_landed(url, echo)
        for question in QUESTIONS:
            _print_answer(lake, question, echo)
        for line in _next_steps(url):
            echo(line)


def _tell_history(url: str, echo: Echo, sessions: int, now: Clock) -> None:
    with Lake.open(url) as lake:
        is_new = not lake.sessions.apps()
    if is_new and sessions:
        echo("A new lake gets something to look back at first: twelve weeks of")
        echo(f"{plural(sessions, 'session')} that might have happened.")
        echo("")
        sample_lake(url, sessions, now)


async def _talk(lake: Lake, echo: Echo, now: float) -> None:
    async with LakeSessionService(lake) as service:
        for visit in visits(SESSIONS, _SEED):
            # The visits are spread over three days, so that there is a history to ask about.
            adk_time.set_time_provider(_StoryClock(now - visit.days_ago * _DAY - 3_600.0))
            session = await _new_session(service, visit.user_id)
            await _converse(service, session, visit)
            stored = await service.get_session(
                app_name=APP_NAME, user_id=visit.user_id, session_id=session.id
            )
            events = len(stored.events) if stored else 0
            turns = plural(len(visit.lines), "turn")
            echo(f"  {session.id:<10}{turns:>8} {plural(events, 'event'):>10}  {visit.model_name}")


async def _new_session(service: LakeSessionService, user_id: str) -> Session:
    number = 1
    while True:
        try:
            return await service.create_session(
                app_name=APP_NAME, user_id=user_id, session_id=f"{user_id}-{number}"
            )
        except AlreadyExistsError:
            number += 1


async def _converse(service: LakeSessionService, session: Session, visit: Visit) -> None:
    runner = Runner(app_name=APP_NAME, agent=build_agent(visit.model_name), session_service=service)
    async with runner:
        for line in visit.lines:
            message = types.UserContent(line)
            async for _ in runner.run_async(
                user_id=session.user_id, session_id=session.id, new_message=message
            ):
                pass


class _StoryClock:
    """A clock of ADK's that moves on by a little at every look."""

    def __init__(self, start: float) -> None:
        self._now = start

    def __call__(self) -> float:
        self._now += _BETWEEN_EVENTS
        return self._now


def _print_landed(url: str, echo: Echo) -> None:
    objects = [(stored.key, stored.size) for stored in open_store(url).list("")]
    size = byte_size(sum(size for _, size in objects))
    _print_title(f"What landed where: {plural(len(objects), 'object')}, {size}", echo)
    echo("events/log: each event as it was appended; state/entries: `user:` and `app:` state")
    echo("")
    echo(shown_url(url))
    for line in tree(objects, DEFAULT_WIDTH):
        echo(line)


def _print_answer(lake: Lake, question: Question, echo: Echo) -> None:
    _print_title(question.title, echo)
    for line in question.sql.splitlines():
        echo(f"  {line}")
    if question.params:
        echo(f"  with ? = {', '.join(map(repr, question.params))}")
    echo("")
    answer = lake.sql(question.sql, list(question.params))
    rows: Sequence[Sequence[Any]] = answer.fetchall()
    for line in table(answer.columns, rows, DEFAULT_WIDTH):
        echo(line)


def _print_title(title: str, echo: Echo) -> None:
    echo("")
    echo(f"── {title} ".ljust(DEFAULT_WIDTH, "─"))


def _next_steps(url: str) -> Iterator[str]:
    if url.startswith("memory://"):
        return
    lake = shlex.quote(url)
    yield ""
    yield "── Next ".ljust(DEFAULT_WIDTH, "─")
    command = _command()
    yield f"  {command} show {lake} ana-1"
    yield f'  {command} sql {lake} "select app_name, count(*) from sessions group by all"'
    yield f"  {command} report {lake} -o report.html    then open it in a browser"


def _command() -> str:
    """Return what a shell here must call the command: its name, or where it is."""
    if shutil.which("lakestore"):
        return "lakestore"
    beside = Path(sys.executable).with_name("lakestore")
    return shlex.quote(os.path.relpath(beside)) if beside.exists() else "lakestore"
