"""What the views must show of given histories, counted in plain Python, event by event.

Owns no SQL and no JSON of ours: it reads ADK's own objects, and asks ADK itself what a rewind hides
and what a summary stands for. Times are microseconds since 1970, JSON is parsed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.adk.apps.compaction import _get_compaction_ranges
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event import Event
from google.genai import types

Row = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """One session: all that was given to the service, in order."""

    app_name: str
    user_id: str
    session_id: str
    state: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    @property
    def ids(self) -> Row:
        """Return what names it."""
        return {
            "app_name": self.app_name,
            "user_id": self.user_id,
            "session_id": self.session_id,
        }


def micros(seconds: float) -> int:
    """Return seconds as whole microseconds."""
    return round(seconds * 1_000_000)


def marks(told: Told) -> dict[str, tuple[bool, bool]]:
    """Return, by event id, whether the event was rewound and whether it is summarised."""
    live = _apply_rewinds(told.events)
    kept = {event.id for event in live}
    ranges = [(micros(a), micros(b)) for _, a, b in _get_compaction_ranges(live)]
    return {
        event.id: (
            event.id not in kept,
            event.actions.compaction is None
            and any(first <= micros(event.timestamp) <= last for first, last in ranges),
        )
        for event in told.events
    }


def _marked(told: Told) -> Iterator[tuple[Event, Row]]:
    known = marks(told)
    for event in told.events:
        rewound, summarised = known[event.id]
        yield event, {"is_rewound": rewound, "is_summarised": summarised}


def _parts(event: Event) -> list[types.Part]:
    return list(event.content.parts or []) if event.content else []


def text_of(event: Event) -> str | None:
    """Return what the event says."""
    texts = [part.text for part in _parts(event) if part.text is not None and not part.thought]
    return "\n".join(texts) if texts else None


def _place(told: Told, event: Event) -> Row:
    return {**told.ids, "event_id": event.id, "invocation_id": event.invocation_id}


def messages(told: Told) -> Iterator[Row]:
    """Yield what `messages` shows, in order."""
    for event, marked in _marked(told):
        if text_of(event):
            yield {
                **_place(told, event),
                "event_time": micros(event.timestamp),
                "role": "user" if event.author == "user" else "agent",
                "author": event.author,
                "text": text_of(event),
                "model": event.model_version,
                "is_final_response": event.is_final_response(),
                **marked,
            }


def _tokens(event: Event) -> dict[str, int | None]:
    usage = event.usage_metadata or types.GenerateContentResponseUsageMetadata()
    return {
        "prompt_tokens": usage.prompt_token_count,
        "output_tokens": usage.candidates_token_count,
        "thought_tokens": usage.thoughts_token_count,
        "cached_tokens": usage.cached_content_token_count,
        "total_tokens": usage.total_token_count,
    }


def is_llm_call(event: Event) -> bool:
    """Tell whether a model answered, as far as the event says."""
    counted = any(count is not None for count in _tokens(event).values())
    return event.model_version is not None or counted


def _calls(event: Event) -> list[str]:
    return [call.name for call in event.get_function_calls() if call.name]


def llm_calls(told: Told) -> Iterator[Row]:
    """Yield what `llm_calls` shows, in order."""
    for event, marked in _marked(told):
        if not is_llm_call(event):
            continue
        tokens = _tokens(event)
        usage, prompt = event.usage_metadata, tokens["prompt_tokens"]
        yield {
            **_place(told, event),
            "event_time": micros(event.timestamp),
            "agent": event.author,
            "branch": event.branch,
            "model": event.model_version,
            **tokens,
            "tool_use_tokens": usage.tool_use_prompt_token_count if usage else None,
            "cache_hit_rate": (tokens["cached_tokens"] or 0) / prompt if prompt else None,
            "finish_reason": event.finish_reason.value if event.finish_reason else None,
            "tool_names": _calls(event),
            "error_code": event.error_code,
            "error_message": event.error_message,
            "is_final_response": event.is_final_response(),
            "is_compaction": event.actions.compaction is not None,
            **marked,
        }


def failure(event: Event, answer: types.FunctionResponse) -> bool:
    """Tell whether a tool says that it failed."""
    asked = {*event.actions.requested_tool_confirmations, *event.actions.requested_auth_configs}
    if answer.id in asked:
        return False
    said = answer.response or {}
    status, result = said.get("status"), said.get("result")
    return bool(
        said.get("error")
        or said.get("isError")
        or said.get("is_error")
        or (isinstance(status, str) and status.lower() == "error")
        or (isinstance(result, str) and result.startswith("Error:"))
    )


def errors(told: Told) -> Iterator[Row]:
    """Yield what `errors` shows, without a tool's message."""
    for event, marked in _marked(told):
        place = {**_place(told, event), "author": event.author, **marked}
        if event.error_code is not None or event.error_message is not None:
            yield {**place, "source": "event", "tool_name": None, "call_id": None}
        for answer in event.get_function_responses():
            if failure(event, answer):
                yield {
                    **place,
                    "source": "tool",
                    "tool_name": answer.name,
                    "call_id": answer.id,
                }


def _is_spoken(event: Event) -> bool:
    said = (
        text_of(event)
        or not event.is_final_response()
        or _calls(event)
        or event.model_version is not None
        or event.error_code is not None
        or _tokens(event)["total_tokens"] is not None
    )
    kept = event.actions.compaction is None and event.actions.rewind_before_invocation_id is None
    return bool(said) and kept and event.invocation_id != ""


def _counts(events: Sequence[Event]) -> Row:
    sums: dict[str, int | None] = {}
    for name in _tokens(events[0]) if events else ():
        counted = [count for each in events if (count := _tokens(each)[name]) is not None]
        sums[name] = sum(counted) if counted else None
    return {
        "llm_calls": sum(map(is_llm_call, events)),
        **sums,
        "tool_calls": sum(len(_calls(event)) for event in events),
        "tools": sorted({name for event in events for name in _calls(event)}),
        "agents": sorted({event.author for event in events} - {"user"}),
        "errors": sum(
            each.error_code is not None or each.error_message is not None for each in events
        ),
        "tool_errors": sum(
            failure(event, answer) for event in events for answer in event.get_function_responses()
        ),
    }


def turns(told: Told) -> Iterator[Row]:
    """Yield what `turns` shows, in order."""
    known = marks(told)
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in told.events:
        groups[event.invocation_id].append(event)
    spoken = [events for events in groups.values() if any(map(_is_spoken, events))]
    for number, events in enumerate(spoken, 1):
        times = [micros(event.timestamp) for event in events]
        texts = [text_of(each) for each in events if each.author == "user" and text_of(each)]
        finals = [
            text_of(each)
            for each in events
            if each.is_final_response() and each.author != "user" and text_of(each)
        ]
        yield {
            **told.ids,
            "turn": number,
            "invocation_id": events[0].invocation_id,
            "started_at": min(times),
            "ended_at": max(times),
            "duration_seconds": (max(times) - min(times)) / 1e6,
            "user_text": "\n".join(text or "" for text in texts) if texts else None,
            "final_answer": finals[-1] if finals else None,
            "events": len(events),
            **_counts(events),
            "is_rewound": all(known[event.id][0] for event in events),
            "is_summarised": all(known[event.id][1] for event in events),
        }


def sessions(told: Told) -> Row:
    """Return what `sessions` shows of a session with events, but its times of storing."""
    times = [micros(event.timestamp) for event in told.events]
    return {
        **told.ids,
        "last_update_time": times[-1],
        "events": len(times),
        "turns": len(list(turns(told))),
        "first_activity": min(times),
        "last_activity": max(times),
        "user_messages": sum(each.author == "user" and bool(text_of(each)) for each in told.events),
        **_counts(told.events),
        "models": sorted({each.model_version for each in told.events if each.model_version}),
        "artifacts": sum(len(event.actions.artifact_delta) for event in told.events),
        "rewinds": sum(
            each.actions.rewind_before_invocation_id is not None for each in told.events
        ),
        "compactions": sum(each.actions.compaction is not None for each in told.events),
    }


@dataclass
class _Call:
    event: Event
    call: types.FunctionCall
    answers: list[tuple[Event, types.FunctionResponse]] = field(default_factory=list)


def _calls_of(events: Sequence[Event]) -> Iterator[tuple[int, Event, types.FunctionCall]]:
    parts = [(event, part) for event in events for part in _parts(event)]
    for place, (event, part) in enumerate(parts):
        if part.function_call is not None and part.function_call.name is not None:
            yield place, event, part.function_call


def _answers_of(events: Sequence[Event]) -> Iterator[tuple[int, Event, types.FunctionResponse]]:
    parts = [(event, part) for event in events for part in _parts(event)]
    for place, (event, part) in enumerate(parts):
        if part.function_response is not None:
            yield place, event, part.function_response


def _matched(events: Sequence[Event]) -> list[_Call]:
    made = [(place, _Call(event, call)) for place, event, call in _calls_of(events)]
    seen: Counter[tuple[str, str | None]] = Counter()
    for place, event, answer in _answers_of(events):
        if answer.id:
            fitting = [one for at, one in made if one.call.id == answer.id and at < place][-1:]
        else:
            key = (event.invocation_id, answer.name)
            named = [one for _, one in made if not one.call.id and _named(one) == key]
            fitting = named[seen[key] : seen[key] + 1]
            seen[key] += 1
        for one in fitting:
            one.answers.append((event, answer))
    return [one for _, one in made]


def _named(one: _Call) -> tuple[str, str | None]:
    return one.event.invocation_id, one.call.name


def tool_calls(told: Told) -> Iterator[Row]:
    """Yield what `tool_calls` shows, in order."""
    known = marks(told)
    for made in _matched(told.events):
        event, call = made.event, made.call
        long = call.id in (event.long_running_tool_ids or ()) or call.name in (
            "adk_request_input",
            "adk_request_credential",
        )
        settled = [
            (each, answer)
            for each, answer in made.answers
            if answer.id
            not in {
                *each.actions.requested_tool_confirmations,
                *each.actions.requested_auth_configs,
            }
            and (not long or each.author == "user" or failure(each, answer))
        ][-1:]
        status, gap = "pending", None
        for each, answer in settled:
            status = "error" if failure(each, answer) else "ok"
            gap = (micros(each.timestamp) - micros(event.timestamp)) / 1e6
        last = made.answers[-1] if made.answers else None
        yield {
            **_place(told, event),
            "called_at": micros(event.timestamp),
            "agent": event.author,
            "branch": event.branch,
            "call_id": call.id,
            "tool_name": call.name,
            "arguments": call.args,
            "is_long_running": long,
            "status": status,
            "answers": len(made.answers),
            "answered_at": micros(last[0].timestamp) if last else None,
            "answer_event_id": last[0].id if last else None,
            "result": last[1].response if last else None,
            "gap_seconds": gap,
            "is_rewound": known[event.id][0],
            "is_summarised": known[event.id][1],
        }


ABSENT = "there was none"
"""Stands for no value before; JSON's null is None."""


def state_changes(histories: Iterable[Told]) -> Iterator[Row]:
    """Yield what `state_changes` shows of sessions that came one after the other, in order."""
    held: dict[tuple[str | None, ...], Any] = {}
    for told in histories:
        known = marks(told)
        steps = [(None, told.state), *((each, each.actions.state_delta) for each in told.events)]
        for event, delta in steps:
            for name, value in delta.items():
                scope, key = _scoped(name)
                if scope == "temp":
                    continue
                place = (
                    told.app_name,
                    None if scope == "app" else told.user_id,
                    told.session_id if scope == "session" else None,
                    scope,
                    key,
                )
                yield {
                    **told.ids,
                    "event_id": event.id if event else None,
                    "author": event.author if event else None,
                    "scope": scope,
                    "key": key,
                    "before": held.get(place, ABSENT),
                    "after": value,
                    "is_rewound": known[event.id][0] if event else False,
                }
                held[place] = value


def _scoped(name: str) -> tuple[str, str]:
    for scope in ("app", "user", "temp"):
        if name.startswith(f"{scope}:"):
            return scope, name[len(scope) + 1 :]
    return "session", name
