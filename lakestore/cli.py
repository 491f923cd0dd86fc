"""The command line: arguments in, one call, text or JSON out. No logic of lakes lives here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path

import click

from lakestore.errors import InputError
from lakestore.shell.commands import COMMANDS
from lakestore.shell.conversation import conversation_lines
from lakestore.shell.ending import reports_errors
from lakestore.shell.finding import find_session, read_conversation
from lakestore.shell.memory_commands import COMMANDS as MEMORY_COMMANDS
from lakestore.shell.options import Moment, app_option
from lakestore.shell.searching import search
from lakestore.shell.services import (
    Placement,
    agent_folders,
    lake_url,
    open_named,
    plan_services,
    service_uri,
    services_yaml,
    write_services,
)
from lakestore.shell.tables import FORMATS, render
from lakestore.shell.text import byte_size, terminal_width, visible

DEMO_URL = "demo-lake"


_EXAMPLES = """\b
Examples:
  lakestore sql ./lake "describe events"
  lakestore sql ./lake "select text from events where user_id = ?" --param ana"""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="lakestore")
def main() -> None:
    """Sessions of ADK agents in a lake: demo, SQL, search, report, upkeep, and how ADK finds it.

    URL is a folder (./lake), s3://bucket/prefix, gs://bucket/prefix, or what ADK is given as
    --session_service_uri. Credentials and addresses of buckets come from the environment, as in
    AWS_PROFILE or AWS_ENDPOINT_URL. Commands end with 0 when all is well, with 1 on an error or
    when a check or sweep met something wrong, with 2 on wrong arguments.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot write a letter shall show its number, not end the command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@main.command()
@click.argument("url", default=DEMO_URL)
@click.option(
    "--history",
    type=click.IntRange(min=0),
    default=400,
    show_default=True,
    metavar="SESSIONS",
    help="How many sessions of twelve weeks before a new lake gets first.",
)
@reports_errors
def demo(url: str, history: int) -> None:
    """Run an agent on a lake, then ask the lake in SQL.

    URL is where the lake is made; without it, the folder ./demo-lake. The agent's model answers
    from a script, so no key and no network is needed. Run again, it adds more sessions.
    """
    # ADK takes a second to import, which no other command needs.
    from lakestore.demo.run import run_demo

    run_demo(url, click.echo, history)


@main.command(epilog=_EXAMPLES)
@click.argument("url")
@click.argument("query")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="VALUE",
    help="The value of the next ? in QUERY, as text (?::int makes it a number); may be repeated.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="table shortens what does not fit the terminal; json and csv are for programs.",
)
@reports_errors
def sql(url: str, query: str, params: tuple[str, ...], form: str) -> None:
    """Run QUERY over the lake at URL.

    Views: events, sessions, messages, turns, llm_calls, tool_calls, state_changes, errors, costs,
    telemetry, memory, artifacts. The SQL is DuckDB's; `describe turns` shows columns. The lake
    stays as it is.
    """
    # DuckDB takes a while to import, which the other commands need not wait for.
    from lakestore.catalog import QueryError

    with open_named(url, read_only=True) as lake:
        try:
            answer = lake.sql(query, list(params))
            columns, rows = answer.columns, answer.fetchall()
        except QueryError as error:
            raise InputError(str(error)) from None
    # Programs get what is stored, byte by byte; a terminal would obey it.
    shown = visible if sys.stdout.isatty() else str
    for line in render(columns, rows, form, terminal_width()):
        click.echo(shown(line))


@main.command()
@click.argument("url")
@click.argument("session_id")
@click.option("--app", "app_name", help="The app, if sessions of several have this id.")
@click.option("--user", "user_id", help="The user, if sessions of several have this id.")
@click.option("--full", is_flag=True, help="Show arguments and answers of tools at full length.")
@reports_errors
def show(url: str, session_id: str, app_name: str | None, user_id: str | None, full: bool) -> None:
    """Print a session as a conversation.

    SESSION_ID is looked for in the lake at URL, among all apps and users unless told which.
    """
    with open_named(url, read_only=True) as lake:
        talk = read_conversation(lake, find_session(lake, session_id, app_name, user_id))
    for line in conversation_lines(talk, terminal_width(), full=full):
        click.echo(line)


@main.command()
@click.argument("url")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The file to write, or to write anew.",
)
@app_option
@click.option("--since", type=Moment(), help="Only from this day or time on, as 2026-11-01.")
@click.option("--until", type=Moment(ends=True), help="Only to the end of this day, or to a time.")
@click.option("--title", help="The heading of the page.")
@click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.toml|json",
    help="What models cost for a million tokens, as above.",
)
@reports_errors
def report(
    url: str,
    output: Path,
    app_name: str | None,
    since: datetime | None,
    until: datetime | None,
    title: str | None,
    prices: Path | None,
) -> None:
    r"""Write what the agents did as one page, for people who do not open notebooks.

    Activity, tokens and cost, how long turns take, tools, errors, returning users and the largest
    sessions, as pictures and tables. The page needs no network and runs no script. Times are UTC.

    \b
    A file of prices, per million tokens (JSON: {"gpt-5.1": {"prompt": 1.25, "output": 10}}):
      ["gpt-5.1"]        # in quotes; "gpt-5*" is for all names that begin so
      prompt = 1.25
      output = 10.0      # also cached, thought, tool_use, since = 2026-03-01
    """
    # Only this command needs what draws, which is an extra and takes a second to import.
    try:
        from lakestore.report import Selection, read_prices, report_page
    except ImportError as error:
        raise InputError(str(error)) from None

    costs = read_prices(prices) if prices else None
    with open_named(url, read_only=True) as lake:
        if app_name is not None and app_name not in lake.sessions.apps():
            raise InputError(f"there is no app {app_name!r} in this lake")
        page = report_page(lake, Selection(app_name, since, until), title=title, prices=costs)
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}") from None
    click.echo(visible(f"wrote {output}, {byte_size(len(page.encode()))}"))


@main.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--url", help="Where the lake is or will be.  [default: DIR/.lake]")
@reports_errors
def init(folder: Path, url: str | None) -> None:
    """Let ADK find lakestore from DIR.

    DIR is the folder of your agents, or that of one. Writes services.yaml into DIR, where adk web
    and adk api_server look, and into each agent's folder, where adk run looks. A services.yaml that
    stands there is never changed.
    """
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    uri = service_uri(url or str(folder.absolute() / ".lake"))
    placements = plan_services(folder)
    incomplete = [place for place in placements if place.existing and place.missing]
    if incomplete:
        raise InputError("".join(_to_add(place) for place in incomplete).rstrip())
    for place in placements:
        if place.existing:
            click.echo(visible(f"kept   {place.target}  (has the entries)"))
        else:
            write_services(place)
            click.echo(visible(f"wrote  {place.target}"))
    for line in _next_steps(folder, uri):
        click.echo(visible(line))


def _to_add(place: Placement) -> str:
    lines = services_yaml(place.missing).removeprefix("services:\n")
    return f"{place.target} is yours and stays as it is; add under `services:`\n{lines}\n"


def _next_steps(folder: Path, uri: str) -> Iterator[str]:
    options = (f"--{kind}_service_uri={uri}" for kind in ("session", "memory", "artifact"))
    option = " ".join(map(shlex.quote, options))
    yield ""
    yield "Start ADK on the lake:"
    yield f"  adk web {option} {shlex.quote(str(folder))}"
    yield f"  adk api_server {option} {shlex.quote(str(folder))}"
    for agent in agent_folders(folder):
        yield f"  adk run {option} {shlex.quote(str(agent))}"
    yield ""
    if uri.startswith("lakestore+memory:"):
        yield "A lake in memory is gone when ADK stops."
    else:
        lake = shlex.quote(lake_url(uri))
        yield "Then ask it:"
        yield f'  lakestore sql {lake} "select * from sessions"'


for _command in (search, *COMMANDS, *MEMORY_COMMANDS):
    main.add_command(_command)


if __name__ == "__main__":
    main(prog_name="lakestore")
