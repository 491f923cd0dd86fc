"""What commands do alike: open a lake that must be there, and run a job that is watched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from lakestore.errors import InputError
from lakestore.lake import Lake
from lakestore.shell.executors import Where
from lakestore.shell.services import open_named


@contextmanager
def opened(url: str, *, read_only: bool = False) -> Iterator[Lake]:
    """Open a lake that must exist: a job on a URL that was mistyped shall not make one."""
    if not read_only:
        open_named(url, read_only=True).close()
    lake, closes = open_named(url, read_only=read_only, rollups=False), True
    try:
        yield lake
    except KeyboardInterrupt:
        closes = False  # that would wait for requests under way, and the process ends
        raise
    finally:
        if closes:
            lake.close()


def require(lake: Lake, app_name: str | None, user_id: str | None = None) -> None:
    """Refuse the name of an app, or of a user of it, that has nothing there: it was mistyped."""
    from lakestore.jobs.apps import chosen_apps
    from lakestore.shell.finding import has_user

    if app_name is None:
        return
    if app_name not in chosen_apps(lake, None):
        raise InputError(f"there is no app {app_name!r} in this lake")
    if user_id is not None and not has_user(lake, app_name, user_id):
        raise InputError(f"there is no user {user_id!r} of the app {app_name!r} in this lake")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text."""
    for line in lines:
        click.echo(line)


@contextmanager
def watched(lake: Lake, where: Where | None = None) -> Iterator[dict[str, Any]]:
    """Yield how a job is run: in which executor, its progress shown."""
    # PyArrow takes a while to import, which whoever asks for help need not wait for.
    from lakestore.shell.progress import ProgressLine

    with where.open() if where else nullcontext() as executor, ProgressLine(lake) as progress:
        yield {"progress": progress, **({"executor": executor} if where else {})}
