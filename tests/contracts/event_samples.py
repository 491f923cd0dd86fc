"""One event for each thing that an ADK event can carry.

Owns the samples only; what becomes of them is in `session_contract_events`. Values are chosen so
that a field that is dropped, defaulted or coerced on the way makes the event differ.
"""

from __future__ import annotations

from typing import Any

from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events import Event, EventActions
from google.adk.events.event import NodeInfo
from google.adk.events.event_actions import EventCompaction
from google.adk.events.ui_widget import UiWidget
from google.adk.models.cache_metadata import CacheMetadata
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

JSON = {"text": "a", "int": 10**20, "float": 0.1 + 0.2, "list": [1, "2", {"three": False}], "e": {}}
BYTES = bytes(range(256))


def _part(**fields: Any) -> Event:
    content = types.Content(role="model", parts=[types.Part(**fields)])
    return Event(author="agent", invocation_id="turn-1", content=content)


def _event(**fields: Any) -> Event:
    return Event(author="agent", invocation_id="turn-1", **fields)


def _actions(**fields: Any) -> Event:
    return _event(actions=EventActions(**fields))


def _auth_config() -> AuthConfig:
    # The loose types of the scheme are parsed by AuthConfig itself.
    scheme: Any = {"type": "apiKey", "in": "header", "name": "X-Key"}
    return AuthConfig(
        auth_scheme=scheme,
        credential_key="made up",  # else ADK derives one, and warns that it does
        raw_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.API_KEY, api_key="not a real key"
        ),
    )


PARTS = {
    "text": _part(text="hello"),
    "empty-text": _part(text=""),
    "thought": _part(text="hm", thought=True, thought_signature=BYTES),
    "function-call": _part(function_call=types.FunctionCall(id="c1", name="f", args=JSON)),
    "function-call-without-args": _part(function_call=types.FunctionCall(name="f", args={})),
    "function-response": _part(
        function_response=types.FunctionResponse(id="c1", name="f", response=JSON)
    ),
    "inline-bytes": _part(
        inline_data=types.Blob(data=BYTES, mime_type="image/png", display_name="a.png")
    ),
    "no-bytes": _part(inline_data=types.Blob(data=b"", mime_type="text/plain")),
    "file": _part(file_data=types.FileData(file_uri="gs://b/x.png", mime_type="image/png")),
    "code": _part(
        executable_code=types.ExecutableCode(code="print(1)", language=types.Language.PYTHON)
    ),
    "code-result": _part(
        code_execution_result=types.CodeExecutionResult(
            outcome=types.Outcome.OUTCOME_OK, output="1\n"
        )
    ),
    "video": _part(
        file_data=types.FileData(file_uri="gs://b/v.mp4", mime_type="video/mp4"),
        video_metadata=types.VideoMetadata(start_offset="1s", end_offset="2.5s", fps=0.5),
    ),
    "part-metadata": _part(text="x", part_metadata=JSON),
    "many-parts": _event(
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="a"),
                types.Part(function_call=types.FunctionCall(id="1", name="f", args={"x": 1})),
                types.Part(function_call=types.FunctionCall(id="2", name="g", args={"x": [2]})),
                types.Part(text="b"),
            ],
        )
    ),
}

ACTIONS = {
    "state-delta": _actions(state_delta={"k": JSON, "user:p": 1, "app:q": [None]}),
    "artifact-delta": _actions(artifact_delta={"a.png": 0, "user:b/c.csv": 7}),
    "transfer": _actions(transfer_to_agent="other", transfer_reason="knows more"),
    "escalate": _actions(escalate=True),
    "escalate-false": _actions(escalate=False),
    "skip-summarization": _actions(skip_summarization=True),
    "auth": _actions(requested_auth_configs={"c1": _auth_config()}),
    "confirmation": _actions(
        requested_tool_confirmations={
            "c1": ToolConfirmation(hint="sure?", confirmed=True, payload=JSON)
        }
    ),
    # R092
    "compaction": _actions(
        compaction=EventCompaction(
            start_timestamp=1000.0000001,
            end_timestamp=1700000000.1234567,
            compacted_content=types.Content(role="model", parts=[types.Part(text="in short")]),
        )
    ),
    "rewind": _actions(rewind_before_invocation_id="turn-1"),
    "agent-state": _actions(agent_state=JSON, end_of_agent=False),
    "empty-agent-state": _actions(agent_state={}),
    "end-of-agent": _actions(end_of_agent=True),
    "route": _actions(route=["a", 1, True]),
    "one-route": _actions(route=False),
    "widgets": _actions(render_ui_widgets=[UiWidget(id="w1", provider="mcp", payload=JSON)]),
    "model-response": _actions(set_model_response=JSON),
}

RESPONSES = {
    "usage": _event(
        model_version="gemini-x",
        finish_reason=types.FinishReason.STOP,
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10,
            candidates_token_count=0,
            thoughts_token_count=3,
            cached_content_token_count=4,
            total_token_count=17,
            prompt_tokens_details=[
                types.ModalityTokenCount(modality=types.MediaModality.TEXT, token_count=10)
            ],
            traffic_type=types.TrafficType.ON_DEMAND,
        ),
    ),
    "grounding": _event(
        grounding_metadata=types.GroundingMetadata(
            web_search_queries=["weather"],
            grounding_chunks=[
                types.GroundingChunk(web=types.GroundingChunkWeb(uri="https://a.test", title="A"))
            ],
            search_entry_point=types.SearchEntryPoint(rendered_content="<b>", sdk_blob=BYTES),
        )
    ),
    "citations": _event(
        citation_metadata=types.CitationMetadata(
            citations=[types.Citation(uri="https://a.test", start_index=0, end_index=5)]
        )
    ),
    "logprobs": _event(
        avg_logprobs=-0.1234567890123,
        logprobs_result=types.LogprobsResult(
            chosen_candidates=[
                types.LogprobsResultCandidate(token="a", token_id=1, log_probability=-1e-9)
            ]
        ),
    ),
    "error": _event(error_code="SAFETY", error_message="no\x00t that"),
    "custom-metadata": _event(custom_metadata=JSON),
    "empty-custom-metadata": _event(custom_metadata={}),
    "cache": _event(
        cache_metadata=CacheMetadata(
            cache_name="projects/1/caches/2",
            expire_time=1700000000.1234567,
            fingerprint="f",
            invocations_used=0,
            contents_count=3,
        )
    ),
    "interaction": _event(interaction_id="i1", environment_id="e1"),
    "live": _event(
        live_session_id="l1",
        live_session_resumption_update=types.LiveServerSessionResumptionUpdate(
            new_handle="h", resumable=False
        ),
        go_away=types.LiveServerGoAway(time_left="5s"),
        input_transcription=types.Transcription(text="he", finished=False),
        output_transcription=types.Transcription(text="hello", finished=True),
        interrupted=False,
        turn_complete=True,
        turn_complete_reason=types.TurnCompleteReason.NEED_MORE_INPUT,
        interaction_status=types.InteractionStatus.IDLE,
    ),
    "not-partial": _event(partial=False),
}

WORKFLOW = {
    "branch": _event(branch="root.sub.leaf"),
    "isolation-scope": _event(isolation_scope="fc-1"),
    "long-running": _event(long_running_tool_ids={"c2", "c1"}),
    "no-long-running": _event(long_running_tool_ids=set()),
    "node": _event(
        node_info=NodeInfo(path="wf@1/a@2", output_for=["wf@1"], message_as_output=True)
    ),
    "output": _event(output=JSON),
    "output-list": _event(output=[1, [2, {"x": "y"}]]),
    "output-text": _event(output=""),
    "output-zero": _event(output=0),
    "output-false": _event(output=False),
    "own-id": Event(id="an id/with odd: [signs]", author="o'brien", invocation_id=""),
}

EVENTS: dict[str, Event] = {**PARTS, **ACTIONS, **RESPONSES, **WORKFLOW}

# R038 R046: what a writer that leaves out nulls would lose.
NULLS: dict[str, Event] = {
    "state-delta": _actions(state_delta={"k": None, "deep": {"x": None}}),
    "call-args": _part(function_call=types.FunctionCall(name="f", args={"x": None})),
    "tool-answer": _part(
        function_response=types.FunctionResponse(name="f", response={"result": None})
    ),
    "custom-metadata": _event(custom_metadata={"x": None}),
    "output": _event(output={"x": None}),
    "agent-state": _actions(agent_state={"x": None}),
}
