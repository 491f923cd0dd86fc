"""All views by name, and the statements that create them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakestore.catalog.views.artifacts import ARTIFACT_EVENTS, ARTIFACTS, uri_macro
from lakestore.catalog.views.costs import COSTS
from lakestore.catalog.views.errors import ERRORS
from lakestore.catalog.views.events import EVENTS
from lakestore.catalog.views.llm_calls import LLM_CALLS
from lakestore.catalog.views.macros import macros
from lakestore.catalog.views.marks import internal_views
from lakestore.catalog.views.memory import MEMORY
from lakestore.catalog.views.messages import MESSAGES
from lakestore.catalog.views.sessions import sessions
from lakestore.catalog.views.state_changes import STATE_CHANGES
from lakestore.catalog.views.telemetry import MEASURED, TELEMETRY, answers
from lakestore.catalog.views.tool_calls import TOOL_CALLS
from lakestore.catalog.views.turns import TURNS
from lakestore.catalog.views.view import View, literal, quoted


def views_with(state_columns: Sequence[str] = ()) -> Mapping[str, View]:
    """Return all views by name, `sessions` with a column for each of these state keys."""
    return {
        "events": EVENTS,
        "sessions": sessions(state_columns),
        "messages": MESSAGES,
        "turns": TURNS,
        "llm_calls": LLM_CALLS,
        "tool_calls": TOOL_CALLS,
        "state_changes": STATE_CHANGES,
        "errors": ERRORS,
        "costs": COSTS,
        "telemetry": TELEMETRY,
        "memory": MEMORY,
        "artifacts": ARTIFACTS,
    }


VIEWS = views_with()
"""All views by name."""


def definitions(views: Mapping[str, View] = VIEWS) -> Iterator[str]:
    """Yield the statements that create `views`, each with its meaning as a comment."""
    yield from macros()
    yield from internal_views()
    for name, query in MEASURED.items():
        yield f"CREATE VIEW internal.{name} AS {query}"
    yield answers(False)
    yield uri_macro("")
    yield f"CREATE VIEW internal.artifact_events AS {ARTIFACT_EVENTS}"
    for name, view in views.items():
        yield f"CREATE VIEW {quoted(name)} AS {view.query}"
        yield f"COMMENT ON VIEW {quoted(name)} IS {literal(view.meaning)}"
        for column, (_, meaning) in view.columns.items():
            target = f"{quoted(name)}.{quoted(column)}"
            yield f"COMMENT ON COLUMN {target} IS {literal(meaning)}"
