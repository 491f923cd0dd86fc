"""The plugin that measures what events lack: how long models, tools and runs take, what they raise.

Owns which of ADK's callbacks say what. No callback waits for anything or raises, and none looks at
what is said: names, ids, times, counts of tokens and what was raised are all that is recorded.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from typing_extensions import override

from lakestore.adk.appending import session_key
from lakestore.adk.measures import Measure, Run, Runs, current_task, failed
from lakestore.adk.outbox import Outbox
from lakestore.checks import check_number
from lakestore.errors import InputError
from lakestore.history.telemetry import put_telemetry
from lakestore.lake import Lake
from lakestore.log.stamps import stamp_text
from lakestore.tables.telemetry import RowKind, TelemetryRow

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 3.0
"""How long a runner that is closed waits for rows to be stored."""


class LakeTelemetryPlugin(BasePlugin):
    """Measures what a `Runner` does, as rows in the lake: see `telemetry` in VIEWS.md.

    `App(..., plugins=[LakeTelemetryPlugin(lake)])`; put it first: ADK asks no plugin after one that
    answers itself. One may serve many runners. Rows wait in memory and are stored at the end of a
    run, by a thread of its own; closing the lake, or the runner, stores what waits. A store that is
    slow or fails delays no run: rows that find no room are dropped and counted.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        name: str = "lake_telemetry",
        max_waiting: int = 10_000,
        batch_rows: int = 1_000,
        error_characters: int = 1_000,
    ) -> None:
        """Measure into `lake`, which is open for writing.

        Args:
            lake: The lake; best that of the runner's session service.
            name: ADK's name for the plugin, another for each of a runner.
            max_waiting: How many rows may wait to be stored; more are dropped.
            batch_rows: How many are stored together, and at the latest when that many wait.
            error_characters: How much of the message of what was raised is kept. It may quote what
                was said or asked; 0 leaves messages out.

        Raises:
            InputError: an argument makes no sense, or the lake is closed or read-only.
        """
        super().__init__(name)
        if not isinstance(lake, Lake):
            raise InputError(
                "the plugin needs an open lake: LakeTelemetryPlugin(Lake.open(...))."
                f" type={type(lake).__name__}"
            )
        if lake.closed:
            raise InputError(f"the lake is closed. url={lake.url!r}")
        if lake.read_only:
            raise InputError("a lake that was opened with read_only=True takes no telemetry")
        self.lake = lake
        self._most = check_number("max_waiting", max_waiting, least=1)
        self._batch = check_number("batch_rows", batch_rows, least=1)
        self._characters = check_number("error_characters", error_characters)
        self._begin()
        lake.before_close(self._write_all)
        lake.after_fork(self._begin)

    def _begin(self) -> None:
        """Hold nothing: what a forked process inherits is its parent's."""
        self._lock = RLock()
        self._runs = Runs()
        self._has_missed = False
        self._outbox = Outbox(self._put, self._most, self._batch)

    def _put(self, rows: Sequence[TelemetryRow]) -> None:
        if self.lake.closed:
            raise InputError("the lake is closed")
        put_telemetry(self.lake.environment, rows)

    @property
    def dropped(self) -> int:
        """How many rows were dropped, since the process began or was forked.

        Those of what is measured once the lake is closed are among them.
        """
        return self._outbox.dropped

    def flush(self) -> bool:
        """Store what waits now; return whether that was done. Blocking; raises nothing."""
        return self._outbox.flush()

    def _write_all(self) -> None:
        self._quietly(self._end_all)
        self._outbox.close()

    @override
    async def close(self) -> None:
        self._quietly(self._end_here)
        done = asyncio.wrap_future(self._outbox.begin_flush())
        await asyncio.wait([done], timeout=_CLOSE_SECONDS)
        done.cancel()

    def _end_all(self) -> None:
        with self._lock:
            runs = self._runs.end_all()
        self._abandon(runs)

    def _end_here(self) -> None:
        """End the runs that are over, and those of this task: their runner is being closed."""
        with self._lock:
            runs = self._runs.end_over(asyncio.current_task())
        self._abandon(runs)

    def _quietly(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call, and log what is raised: whoever is measured must not suffer."""
        try:
            call(*arguments)
        except Exception:
            level = logging.DEBUG if self._has_missed else logging.ERROR
            self._has_missed = True
            logger.log(level, "telemetry missed something", exc_info=True)

    @override
    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        self._quietly(self._run_begins, invocation_context)

    def _run_begins(self, context: InvocationContext) -> None:
        agent = context.agent
        measure = self._measure("run", context.session, context.invocation_id, None)
        measure.row = replace(measure.row, agent=agent.name if agent else None)
        with self._lock:
            run = Run(measure, current_task(), weakref.ref(context))
            gone = self._runs.begin(context.invocation_id, run)
        self._abandon(gone)

    def _abandon(self, runs: Iterable[Run]) -> None:
        for row in (row for run in runs for row in run.abandoned()):
            self._outbox.add(row)

    @override
    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        self._quietly(self._run_ends, invocation_context, None)

    @override
    async def on_run_error_callback(
        self, *, invocation_context: InvocationContext, error: Exception
    ) -> None:
        self._quietly(self._run_ends, invocation_context, error)

    def _run_ends(self, context: InvocationContext, error: Exception | None) -> None:
        now = self.lake.clock.elapsed()
        with self._lock:
            run = self._runs.end(context.invocation_id)
            is_within = self._runs.is_in_tool(context.session.app_name, context.session.user_id)
        if run is None:
            return
        for row in run.left():
            self._outbox.add(row)
        if run.measure is not None:
            row = replace(run.measure.row, duration_us=run.measure.micros(now))
            if error is not None:
                row = failed(row, error, self._characters)
                cause = next((name for raised, name in run.raised if raised is error), None)
                row = replace(row, cause_id=cause)
            self._outbox.add(row)
        if not is_within:  # agents that are tools run within another run of the user
            self._outbox.flush_soon()

    @override
    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        self._quietly(self._model_begins, callback_context, llm_request)

    def _model_begins(self, context: CallbackContext, request: LlmRequest) -> None:
        measure = self._measure("model", context.session, context.invocation_id, context.actions)
        measure.row = replace(measure.row, agent=context.agent_name, model=request.model)
        self._open(context.invocation_id, measure)

    @override
    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        self._quietly(self._model_answers, callback_context, llm_response)

    def _model_answers(self, context: CallbackContext, response: LlmResponse) -> None:
        now = self.lake.clock.elapsed()
        with self._lock:
            run = self._runs.get(context.invocation_id)
            measure = run.calls.get(id(context.actions)) if run else None
            if run is None or measure is None:  # a live run, or another answer to one request
                return
            if response.partial:
                if measure.row.first_token_us is None:
                    measure.row = replace(measure.row, first_token_us=measure.micros(now))
                return
            del run.calls[id(context.actions)]
            measure.row = _answered(measure, response, now)
            run.answered[id(context.actions)] = measure

    @override
    async def on_event_callback(
        self, *, invocation_context: InvocationContext, event: Event
    ) -> None:
        self._quietly(self._event_comes, invocation_context, event)

    def _event_comes(self, context: InvocationContext, event: Event) -> None:
        if event.partial:
            return
        with self._lock:
            run = self._runs.get(context.invocation_id)
            if run is None:
                return
            # An event of a call that has not ended: another callback has answered for the model.
            run.calls.pop(id(event.actions), None)
            measure = run.answered.pop(id(event.actions), None)
        if measure is not None:
            self._outbox.add(replace(measure.row, event_id=event.id))

    @override
    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        self._quietly(
            self._call_ends, callback_context.invocation_id, callback_context.actions, error
        )

    @override
    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        self._quietly(self._tool_begins, tool, tool_context)

    def _tool_begins(self, tool: BaseTool, context: ToolContext) -> None:
        measure = self._measure("tool", context.session, context.invocation_id, context)
        measure.row = replace(
            measure.row,
            agent=context.agent_name,
            call_id=context.function_call_id,
            tool_name=tool.name,
        )
        self._open(context.invocation_id, measure)

    @override
    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: dict[str, Any],
    ) -> None:
        self._quietly(self._call_ends, tool_context.invocation_id, tool_context, None)

    @override
    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: Exception,
    ) -> None:
        self._quietly(self._call_ends, tool_context.invocation_id, tool_context, error)

    def _call_ends(self, invocation_id: str, subject: object, error: BaseException | None) -> None:
        now = self.lake.clock.elapsed()
        with self._lock:
            run = self._runs.get(invocation_id)
            measure = run.calls.pop(id(subject), None) if run else None
            if run is None or measure is None:  # its error has ended it
                return
            row = measure.row
            # Who is cancelled has not failed, and did not end either.
            if not isinstance(error, asyncio.CancelledError):
                row = replace(row, duration_us=measure.micros(now))
                if error is not None:
                    row = failed(row, error, self._characters)
                    run.raised.append((error, row.id))
        self._outbox.add(row)

    def _open(self, invocation_id: str, measure: Measure) -> None:
        with self._lock:
            run, gone = self._runs.get(invocation_id), []
            if run is None:  # its begin was not seen
                run = Run()
                gone = self._runs.begin(invocation_id, run)
            run.calls[id(measure.subject)] = measure
        self._abandon(gone)

    def _measure(
        self, kind: RowKind, session: Session, invocation_id: str, subject: object
    ) -> Measure:
        """Return the measure of something that begins now."""
        key = session_key(session.app_name, session.user_id, session.id)
        marker = None
        if not self.lake.closed:  # else the row is dropped, and counted
            confirmations = self.lake.sessions.confirmations
            marker = confirmations.parse(key.log, session._storage_update_marker)
        clock = self.lake.clock
        micros = max(0, int(clock.wall() * 1_000_000))
        row = TelemetryRow(
            app_name=key.app_name,
            user_id=key.user_id,
            id=stamp_text(micros, 0, self.lake.environment.new_token()),
            stamp="",
            kind=kind,
            session_id=key.session_id,
            version=marker.version if marker else 0,
            invocation_id=invocation_id,
            started_at=micros,
        )
        return Measure(row, clock.elapsed(), subject)


def _answered(measure: Measure, response: LlmResponse, now: float) -> TelemetryRow:
    usage = response.usage_metadata
    return replace(
        measure.row,
        duration_us=measure.micros(now),
        model=response.model_version or measure.row.model,
        prompt_tokens=usage.prompt_token_count if usage else None,
        output_tokens=usage.candidates_token_count if usage else None,
        total_tokens=usage.total_token_count if usage else None,
    )
