"""The command `search`: what was found, as people read it or as programs do. Owns no search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from lakestore.errors import InputError
from lakestore.lake import Lake
from lakestore.shell.ending import reports_errors
from lakestore.shell.options import Moment
from lakestore.shell.services import open_named
from lakestore.shell.tables import cell_text, render
from lakestore.shell.text import terminal_width, visible, wrap

_INDENT = "    "


def hit_lines(found: Sequence[Mapping[str, Any]], room: int) -> Iterator[str]:
    """Yield what was found, each as where and when it was said, and below it the snippet."""
    if not found:
        yield "nothing found"
    for hit in found:
        ids = [("user", hit["user_id"]), ("session", hit["session_id"]), ("memory", hit.get("id"))]
        where = [f"{name} {visible(value)}" for name, value in ids if value is not None]
        if hit.get("scope") == "app":
            where.insert(0, "app-wide")
        by = [visible(cell_text(hit[name])) for name in ("author", "event_time")]
        said = "  ".join(part for part in by if part)
        yield click.style(f"{hit['score']:.2f}", bold=True) + f"  {said}" + _dim("  ".join(where))
        for line in wrap(hit["snippet"], max(room - len(_INDENT), 20)):
            yield _INDENT + line


def _dim(text: str) -> str:
    return click.style(f"  {text}", dim=True) if text else ""


def _remembers(lake: Lake, app_name: str) -> bool:
    query = "select 1 from memory where app_name = ? limit 1"
    return bool(lake.sql(query, [app_name]).fetchall())


def _narrowing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say among what to search."""
    several: dict[str, Any] = {"multiple": True, "callback": lambda _, __, given: given or None}
    for option in (
        click.option("--author", "authors", help="Only by this one; may be repeated.", **several),
        click.option("--session", "session_ids", help="Only this one; may be repeated.", **several),
        click.option(
            "--until", type=Moment(ends=True), help="Only to the end of this day, or to a time."
        ),
        click.option("--since", type=Moment(), help="Only from this day or time on."),
        click.option("--user", "user_id", help="Only this user; of memory also what all share."),
        click.option("--app", "app_name", required=True, help="The app."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("url")
@click.argument("query")
@_narrowing
@click.option(
    "--over",
    type=click.Choice(("events", "memory")),
    default="events",
    show_default=True,
    help="events: what was said. memory: what agents remember.",
)
@click.option(
    "--ranking",
    type=click.Choice(("bm25", "overlap")),
    default="bm25",
    show_default=True,
    help="bm25: rare words count more, endings of words do not. overlap: as ADK in memory.",
)
@click.option("--language", default="english", show_default=True, help="Whose endings; or none.")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="At most.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with all that is known.")
@reports_errors
def search(url: str, query: str, language: str, *, as_json: bool, **how: Any) -> None:
    """Find what was said, or is remembered, about QUERY in the lake at URL.

    The best comes first, with its score, who said it and when. `lakestore show URL SESSION` prints
    the conversation around it.
    """
    with open_named(url, read_only=True) as lake:
        app_name = how["app_name"]
        if app_name not in lake.sessions.apps() and not _remembers(lake, app_name):
            raise InputError(f"there is no app {app_name!r} in this lake")
        answer = lake.search(query, language=None if language == "none" else language, **how)
        columns, rows = answer.columns, answer.fetchall()
    room = terminal_width()
    if as_json:
        lines = render(columns, rows, "json", room)
    else:
        lines = hit_lines([dict(zip(columns, row, strict=True)) for row in rows], room)
    for line in lines:
        click.echo(line)
