"""A lake whose ids, names and messages are what nobody should show unescaped."""

from __future__ import annotations

from google.adk.events.event import Event
from google.genai import types

from lakestore import Lake, LakeSessionService

MARKUP = "<script>document.title='run'</script><img src=x onerror=alert(1)>"
QUOTED = "\"'><b onclick='alert(1)'>&amp;"
NOON = 1_700_049_600.0  # 2023-11-15 12:00 UTC
_USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=1_200, candidates_token_count=34, total_token_count=1_234
)


def fill_oddly(lake: Lake) -> None:
    """Write two sessions of one week in which every name and message is markup."""
    service = LakeSessionService(lake).sync
    for number, name in enumerate((MARKUP, QUOTED)):
        session = service.create_session(app_name=name, user_id=name, session_id=name)
        call = types.FunctionCall(id="1", name=name, args={})
        answer = types.FunctionResponse(id="1", name=name, response={"error": name})
        parts = [
            ("user", types.Part(text=name)),
            (name, types.Part(function_call=call)),
            (name, types.Part(function_response=answer)),
        ]
        for second, (author, part) in enumerate(parts):
            event = Event(
                author=author,
                invocation_id="i1",
                timestamp=NOON + number * 86_400 + second,
                content=types.Content(role="user" if author == "user" else "model", parts=[part]),
                model_version=None if author == "user" else f"{name} {'long ' * 30}",
                usage_metadata=None if author == "user" else _USAGE,
                error_code=name if second == 2 else None,
            )
            service.append_event(session, event)
