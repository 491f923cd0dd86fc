"""A conversation in the making: the events that ADK's runner would have appended, with times.

Owns how a turn looks in events: calls and their answers, hand-overs, failures, waiting, rewinds and
summaries. What is talked about is not its business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.genai import types

LETTERS_PER_TOKEN = 4
_INSTRUCTION_TOKENS = 420


class Talk:
    """Collects the events of one session. Each method goes on from where the last one ended."""

    def __init__(self, chance: Random, name: str, at: float, model: str, thinks: bool) -> None:
        """Begin at the time `at`; `name` makes the ids, and a model that `thinks` says so."""
        self.events: list[Event] = []
        self.now = at
        self._chance = chance
        self._name = name
        self._model = model
        self._thinks = thinks
        self._turn = 0
        self._calls = 0
        self._context = _INSTRUCTION_TOKENS
        self._seen = 0

    @property
    def turn_id(self) -> str:
        """The id of the turn that goes on."""
        return f"e-{self._name}-{self._turn}"

    def wait(self, seconds: float) -> None:
        """Let time pass, about so long."""
        self.now += seconds * self._chance.lognormvariate(0.0, 0.4)

    def ask(self, text: str) -> None:
        """Begin a turn with what the user says."""
        self._turn += 1
        self._add("user", [types.Part(text=text)])

    def say(self, agent: str, text: str, state: Mapping[str, Any] | None = None) -> None:
        """Let an agent answer, which ends a turn."""
        self.wait(1.4)
        self._add(agent, [types.Part(text=text)], state=state, by_model=True)

    def call(
        self, agent: str, calls: Sequence[tuple[str, Mapping[str, Any]]], *, waits: bool = False
    ) -> list[tuple[str, str]]:
        """Let an agent call tools side by side; return the id and name of each call."""
        self.wait(0.9)
        made = []
        for name, args in calls:
            self._calls += 1
            made.append((f"call-{self._name}-{self._calls}", name, dict(args)))
        parts = [
            types.Part(function_call=types.FunctionCall(id=id_, name=name, args=args))
            for id_, name, args in made
        ]
        self._add(agent, parts, by_model=True)
        if waits:
            self.events[-1].long_running_tool_ids = {id_ for id_, _, _ in made}
        return [(id_, name) for id_, name, _ in made]

    def answer(
        self,
        agent: str,
        answers: Sequence[tuple[tuple[str, str], Mapping[str, Any]]],
        *,
        transfer_to: str | None = None,
    ) -> None:
        """Let tools answer calls, in one event as ADK merges it."""
        parts = [
            types.Part(
                function_response=types.FunctionResponse(id=id_, name=name, response=dict(said))
            )
            for (id_, name), said in answers
        ]
        self._add(agent, parts)
        self.events[-1].actions.transfer_to_agent = transfer_to

    def resume(self, called: tuple[str, str], said: Mapping[str, Any]) -> None:
        """Begin a turn in which people answer a call that waited for them."""
        self._turn += 1
        self.answer("user", [(called, said)])

    def fail(self, agent: str, code: str, message: str) -> None:
        """Let the model fail."""
        self.wait(4.0)
        self._add(agent, [])
        self.events[-1].error_code, self.events[-1].error_message = code, message

    def rewind(self, restored: Mapping[str, Any]) -> None:
        """Undo the last turn; `restored` is the state from before."""
        undone = self.turn_id
        self._turn += 1
        self.wait(20.0)
        self._add("user", [], state=restored)
        self.events[-1].content = None
        self.events[-1].actions.rewind_before_invocation_id = undone

    def summarise(self, text: str) -> None:
        """Replace all so far, for models, by a summary."""
        self._turn += 1
        times = [event.timestamp for event in self.events]
        summary = types.Content(role="model", parts=[types.Part(text=text)])
        self._add("user", [], by_model=True)
        event = self.events[-1]
        event.content = event.model_version = event.finish_reason = None
        event.actions.compaction = EventCompaction(
            start_timestamp=min(times), end_timestamp=max(times), compacted_content=summary
        )
        self._context, self._seen = _INSTRUCTION_TOKENS + len(text) // LETTERS_PER_TOKEN, 0

    def _add(
        self,
        author: str,
        parts: list[types.Part],
        *,
        state: Mapping[str, Any] | None = None,
        by_model: bool = False,
    ) -> None:
        self.now += 0.002 + self._chance.random() / 50
        size = sum(_letters(part) for part in parts) // LETTERS_PER_TOKEN + 1
        event = Event(
            id=f"{self._name}-{len(self.events):04}",
            invocation_id=self.turn_id,
            author=author,
            timestamp=round(self.now, 6),
            content=types.Content(role="model" if by_model else "user", parts=parts),
            actions=EventActions(state_delta=dict(state or {})),
        )
        if by_model:
            event.model_version = self._model
            event.finish_reason = types.FinishReason.STOP
            event.usage_metadata = self._usage(size)
        self._context += size
        self.events.append(event)

    def _usage(self, output: int) -> types.GenerateContentResponseUsageMetadata | None:
        if self._chance.random() < 0.01:
            return None  # some answers come without counts
        cached = self._seen if self._seen > 600 else None
        thoughts = self._chance.randrange(40, 400) if self._thinks else None
        self._seen = self._context
        return types.GenerateContentResponseUsageMetadata(
            prompt_token_count=self._context,
            candidates_token_count=output,
            thoughts_token_count=thoughts,
            cached_content_token_count=cached,
            total_token_count=self._context + output + (thoughts or 0),
        )


def _letters(part: types.Part) -> int:
    if part.function_call is not None:
        return len(str(part.function_call.args)) + 20
    if part.function_response is not None:
        return len(str(part.function_response.response)) + 20
    return len(part.text or "")
