"""How SQL reads an event's JSON: macros of the schema `internal`, used by the views.

Owns how ADK spells what the views open the JSON for. Fields may stand by alias or by name, as in
`lakestore.tables.thin`; JSON that DuckDB cannot read, and fields of another type, count as missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakestore.catalog.views.view import literal


def _alias(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _both(**fields: Any) -> dict[str, Any]:
    """Return `fields`, each by its name and by its alias."""
    return {spelled: kind for name, kind in fields.items() for spelled in (_alias(name), name)}


def _either(of: str, name: str) -> str:
    """Return the field `name` of the struct `of`, however it is spelled."""
    return f"coalesce(({of}).{_alias(name)}, ({of}).{name})"


def _read(**fields: Any) -> str:
    """Return what reads `fields` of `event_json`, null where it cannot be read."""
    return f"TRY(json_transform(event_json, {literal(json.dumps(fields))}))"


_TOOLS = _read(
    content={
        "parts": [
            _both(
                function_call={"id": "VARCHAR", "name": "VARCHAR", "args": "JSON"},
                function_response={"id": "VARCHAR", "name": "VARCHAR", "response": "JSON"},
            )
        ]
    },
    actions=_both(requested_tool_confirmations="JSON", requested_auth_configs="JSON"),
    **_both(long_running_tool_ids=["VARCHAR"]),
)
_USAGE = _read(**_both(usage_metadata=_both(tool_use_prompt_token_count="BIGINT")))
_ARTIFACTS = _read(actions=_both(artifact_delta="JSON"))
_SAVED_FILES = _read(actions=_both(artifact_delta="MAP(VARCHAR, BIGINT)"))
_REWIND = _read(actions=_both(rewind_before_invocation_id="VARCHAR"))
_COMPACTION = _read(
    actions={
        "compaction": _both(
            start_timestamp="DOUBLE", end_timestamp="DOUBLE", compacted_content="JSON"
        )
    }
)

_CALL = _either("part", "function_call")
_ANSWER = _either("part", "function_response")

# ADK's FunctionTool and MCP tools say so by `error` and `isError`, its environment tools and its
# documentation by `status`; tools that answer with a text mostly let it begin with the word.
_ERROR_OF = """CASE
  WHEN internal.is_true(json_extract(given, 'error')) THEN given ->> 'error'
  WHEN internal.is_true(coalesce(json_extract(given, 'isError'), json_extract(given, 'is_error')))
    THEN coalesce(given ->> '$.content[0].text', given ->> 'message', 'isError')
  WHEN lower(given ->> 'status') = 'error'
    THEN coalesce(given ->> 'error_message', given ->> 'message', 'status: error')
  WHEN starts_with(given ->> 'result', 'Error:') THEN given ->> 'result'
END"""

# Events of older versions do not list the ids of the last two.
_CALLS = f"""list_filter(
  list_transform(read.content.parts, lambda part, place: {{
    'place': place, 'call': {_CALL}, 'is_long_running':
      coalesce(list_contains({_either("read", "long_running_tool_ids")}, ({_CALL}).id), false)
      OR ({_CALL}).name IN ('adk_request_input', 'adk_request_credential')
  }}),
  lambda one: one.call.name IS NOT NULL
)"""

_ASKED = f"""list_concat(
  json_keys({_either("actions", "requested_tool_confirmations")}),
  json_keys({_either("actions", "requested_auth_configs")})
)"""

# A tool that waits for a confirmation or a login answers with an error, but has not failed.
_ANSWERS = f"""list_filter(
  list_transform(read.content.parts, lambda part, place: {{
    'place': place, 'answer': {_ANSWER},
    'is_asking': coalesce(list_contains(internal.asked(read.actions), ({_ANSWER}).id), false),
    'error': internal.error_of(({_ANSWER}).response)
  }}),
  lambda one: one.answer IS NOT NULL
)"""

_FAILED = """list_filter(internal.answers(read), lambda one:
  one.error IS NOT NULL AND NOT one.is_asking)"""

_COMPACTED = f"""{{
  'first': internal.microseconds({_either("found", "start_timestamp")}),
  'last': CASE WHEN {_either("found", "compacted_content")} IS NOT NULL
    THEN internal.microseconds({_either("found", "end_timestamp")}) END
}}"""

_WITHIN = """coalesce(
  len(list_filter(ranges, lambda one: place BETWEEN one.first AND one.last)) > 0, false
)"""

# Backslashes that stand for themselves are put aside meanwhile; runs never have them as \u005c.
_IN_UTF8 = r"""CASE WHEN contains(text, '\ud') THEN replace(
  regexp_replace(replace(text, '\\', '\u005c'), '\\ud[89a-f][0-9a-f]{2}', chr(65533), 'g'),
  '\u005c', '\\'
) ELSE text END"""

_MACROS: Mapping[str, str] = {
    "position(version, ordinal)": "version::HUGEINT * 4294967296 + ordinal",
    "is_within(ranges, place)": _WITHIN,
    "total(counts)": "TRY_CAST(sum(counts) AS BIGINT)",
    "positive(number)": "CASE WHEN number > 0 THEN number WHEN number IS NOT NULL THEN 0 END",
    "microseconds(seconds)": "TRY_CAST(round_even(seconds * 1000000, 0) AS BIGINT)",
    "in_utf8(text)": _IN_UTF8,
    "is_true(value)": "value::VARCHAR NOT IN ('null', 'false', '0', '0.0', '\"\"', '{}', '[]')",
    "error_of(given)": _ERROR_OF,
    "asked(actions)": _ASKED,
    "calls(read)": _CALLS,
    "answers(read)": _ANSWERS,
    "failed(read)": _FAILED,
    "tools(event_json)": _TOOLS,
    "tool_errors(event_json)": "CASE WHEN contains(event_json, '\"function') THEN"
    " len(internal.failed(internal.tools(event_json))) END",
    "tool_use(read)": _either(_either("read", "usage_metadata"), "tool_use_prompt_token_count"),
    "tool_use_tokens(event_json)": f"internal.tool_use({_USAGE})",
    "files(read)": f"len(json_keys({_either('read.actions', 'artifact_delta')}))",
    "artifacts(event_json)": f"internal.files({_ARTIFACTS})",
    "saved(read)": f"map_entries({_either('read.actions', 'artifact_delta')})",
    "saved_files(event_json)": f"internal.saved({_SAVED_FILES})",
    "rewinds(read)": _either("read.actions", "rewind_before_invocation_id"),
    "rewind_target(event_json)": f"internal.rewinds({_REWIND})",
    "compacted(found)": _COMPACTED,
    "summary(read)": "internal.compacted(read.actions.compaction)",
    # Each database puts the root of its lake before it.
    "uri(key)": "key",
    "summary_range(event_json)": f"internal.summary({_COMPACTION})",
}


def macros() -> Iterator[str]:
    """Yield the statements that make the macros, each after those that it needs."""
    for signature, body in _MACROS.items():
        yield f"CREATE MACRO internal.{signature} AS {body}"
