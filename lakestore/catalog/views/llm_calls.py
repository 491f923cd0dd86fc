"""The view `llm_calls`: what models were asked, one row an answer."""

from lakestore.catalog.views.view import (
    COUNT,
    EVENT,
    EVENT_TIME,
    FLAG,
    IDS,
    MARKS,
    NUMBER,
    PLACE,
    TEXT,
    TEXTS,
    TOKENS,
    Column,
    View,
)

COLUMNS = {
    **IDS,
    **PLACE,
    **EVENT,
    **EVENT_TIME,
    "agent": Column(TEXT, "the agent that asked; ADK names user where it made a summary"),
    "branch": Column(TEXT, "the path of agents that led to it"),
    "model": Column(TEXT, "the model that answered, null where the event does not say"),
    **TOKENS,
    "tool_use_tokens": Column(COUNT, "tokens of tools' results in the prompt; opens the JSON"),
    "cache_hit_rate": Column(
        NUMBER, "cached_tokens / prompt_tokens, 0 to 1; null without prompt tokens"
    ),
    "finish_reason": Column(TEXT, "why the model stopped"),
    "tool_names": Column(TEXTS, "names of the functions that it calls, in order"),
    "error_code": Column(TEXT, "what went wrong, null when nothing did"),
    "error_message": Column(TEXT, "the same for people"),
    "latency_ms": Column(
        NUMBER, "milliseconds from the request to the whole answer; null without telemetry"
    ),
    "time_to_first_token_ms": Column(
        NUMBER, "milliseconds to the first piece of it; null for an answer that came whole, too"
    ),
    "is_final_response": Column(FLAG, "whether it ends a turn, by ADK's rule"),
    "is_compaction": Column(FLAG, "whether it is the summary of earlier events"),
    **MARKS,
}

LLM_CALLS = View(
    "one row an event with a model version or counted tokens",
    COLUMNS,
    """
SELECT app_name, user_id, session_id, version, ordinal, event_id, invocation_id, event_time,
  author AS agent, branch, model_version AS model,
  prompt_tokens, output_tokens, thought_tokens, cached_tokens, total_tokens,
  internal.tool_use_tokens(event_json) AS tool_use_tokens,
  CASE WHEN prompt_tokens > 0 THEN coalesce(cached_tokens, 0) / prompt_tokens END
    AS cache_hit_rate,
  finish_reason, tool_names, error_code, error_message, latency_ms, time_to_first_token_ms,
  is_final_response, is_compaction, is_rewound, is_summarised
FROM internal.answers
WHERE model_version IS NOT NULL
  OR coalesce(prompt_tokens, output_tokens, thought_tokens, cached_tokens, total_tokens)
    IS NOT NULL
""",
)
