"""Arguments that the commands of jobs share, and how they ask before they delete."""

from __future__ import annotations

import re
import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

import click

from lakestore.errors import InputError
from lakestore.shell.ending import stop
from lakestore.shell.executors import ExecutorName

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)")

url_argument = click.argument("url")
app_option = click.option("--app", "app_name", help="Only this app.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Change nothing; tell what would be.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
executor_option = click.option(
    "--executor",
    "where",
    type=ExecutorName(),
    metavar="WHERE",
    help="Where to pack: threads:4, processes:2 or dask://host:port, whose workers must reach the"
    " bucket or folder, too.  [default: this process]",
)


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A time such as 45m, 2h, 1d or, in seconds, 90."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return what was written as a time."""
        if isinstance(value, timedelta):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail("a time is written as 90, 45m, 2h or 1d", param, ctx)
        return timedelta(seconds=float(match[1]) * _UNITS[match[2] or "s"])


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A day such as 2026-11-30, or a time such as 2026-11-30T08:00, UTC where no zone is named."""

    name = "time"

    def __init__(self, *, ends: bool = False) -> None:
        self._ends = ends
        """Whether a day stands for its end, and not for its beginning."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return what was written as a time with a zone."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value).strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return moment + timedelta(days=1) if self._ends and _is_day(str(value)) else moment
        except (ValueError, OverflowError):
            self.fail("a time is written as 2026-11-30 or 2026-11-30T08:00", param, ctx)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def ask(question: str, *, yes: bool) -> None:
    """Go on only if that is wanted; where nobody can be asked, only with `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError("this deletes for good, and there is no terminal to ask on; say --yes")
    try:
        wanted = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C
        click.echo(err=True)
        stop("nothing was changed")
    if not wanted:
        raise click.Abort
