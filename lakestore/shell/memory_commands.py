"""The commands that rebuild memory, and bring back what was there before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from lakestore.shell.ending import stops_with
from lakestore.shell.executors import Where
from lakestore.shell.lakes import opened, print_lines, require, watched
from lakestore.shell.options import (
    Moment,
    dry_run_option,
    executor_option,
    json_option,
    url_argument,
)
from lakestore.shell.text import plural, visible

_MOST_FAILURES = 5


class Function(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A function as `package.module:name`, also of a file in the folder that one is in."""

    name = "function"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Callable[..., Any]:
        """Return the function of that name."""
        if callable(value):
            return value  # type: ignore[no-any-return]
        module, _, name = str(value).partition(":")
        if not module or not name:
            self.fail("a function is written as package.module:name", param, ctx)
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            found: Any = import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            self.fail(f"there is no {value}: {error}", param, ctx)
        except Exception as error:  # noqa: BLE001 - whatever the module does when it is imported
            self.fail(f"importing {module} raised {type(error).__name__}: {error}", param, ctx)
        if not callable(found):
            self.fail(f"{value} is no function", param, ctx)
        return found  # type: ignore[no-any-return]


@click.command("rebuild-memory")
@url_argument
@click.option("--app", "app_name", required=True, help="Whose memories.")
@click.option("--user", "user_id", help="Only this user's.")
@click.option(
    "--extractor",
    type=Function(),
    metavar="MODULE:NAME",
    help="What makes memories of a session: a Python function.  [default: each event with text]",
)
@click.option(
    "--per",
    type=click.Choice(["session", "user"]),
    default="session",
    show_default=True,
    help="What the extractor is given at a time.",
)
@click.option("--batch-size", type=click.IntRange(min=1), help="Give it lists of so many.")
@click.option("--since", type=Moment(), help="Only what happened after this day or time.")
@click.option(
    "--embedder",
    type=Function(),
    metavar="MODULE:NAME",
    help="Gives them vectors, from texts, for the ranking hybrid.  [default: they have none]",
)
@click.option("--thoughts", is_flag=True, help="Let the model's thoughts be searched, too.")
@click.option("--tools", is_flag=True, help="Let what tools were asked and answered be searched.")
@click.option("--resume", is_flag=True, help="Go on where one that did not end has stopped.")
@executor_option
@dry_run_option
@json_option
@stops_with("no memory was changed; the same command with --resume goes on where this has stopped")
def rebuild_memory(
    url: str,
    app_name: str,
    user_id: str | None,
    where: Where | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Make the memories of an app anew from all its history.

    They take the place of what was remembered from events, at once, also of sessions that were
    deleted or pruned since; facts that were added by hand stay, and what was forgotten stays
    forgotten. restore-memory goes back. Ends with 1 if some sessions failed: these keep the
    memories that they had.
    """
    from lakestore.jobs import rebuild_memory as run
    from lakestore.shell.reports import to_json

    if asked["batch_size"] is not None and asked["extractor"] is None:
        raise click.UsageError("--batch-size is for an --extractor: give one")
    with opened(url) as lake, watched(lake, where) as how:
        require(lake, app_name, user_id)
        report = run(lake, app_name, user_id, **asked, **how)
    print_lines([to_json(report)] if as_json else _rebuilt(report))
    sys.exit(1 if report.failures else 0)


@click.command("restore-memory")
@url_argument
@click.option("--app", "app_name", required=True, help="Whose memories.")
@click.option("--user", "user_id", help="Only this user's.")
@executor_option
@json_option
@stops_with("the memories are as they were, or all brought back; the same command tells")
def restore_memory(
    url: str, app_name: str, user_id: str | None, where: Where | None, as_json: bool
) -> None:
    """Bring back the memories that the last rebuild-memory has replaced.

    What was added since stays. Sweeps drop what was replaced 30 days after the rebuild.
    """
    from lakestore.jobs import restore_memory as run
    from lakestore.shell.reports import to_json

    with opened(url) as lake, watched(lake, where) as how:
        require(lake, app_name, user_id)
        report = run(lake, app_name, user_id, **how)
    found = report.comparison
    line = f"brought back {memories(found.after)} in place of {found.before:,}"
    print_lines([to_json(report)] if as_json else [line])


def _rebuilt(report: Any) -> Iterator[str]:
    """Yield what a rebuild did, or would do."""
    found = report.comparison
    verb = "would make" if report.dry_run else "made"
    yield (
        f"{verb} {memories(found.after)} of {plural(report.events, 'event')} in"
        f" {plural(report.sessions, 'session')}, in place of {found.before:,}"
        f"  ({report.elapsed_ms / 1_000:.1f} s)"
    )
    same = found.after - found.appeared - found.changed
    yield (
        f"  {same:,} as before, {found.changed:,} changed,"
        f" {found.appeared:,} appeared, {found.vanished:,} vanished"
    )
    if report.failures:
        kind = "user" if report.failures[0].session_id is None else "session"
        yield click.style(
            f"{plural(report.failed, kind)} failed, and kept the memories there were:", fg="red"
        )
        for failure in report.failures[:_MOST_FAILURES]:
            named = "/".join(part for part in (failure.user_id, failure.session_id) if part)
            yield visible(f"  {named}: {failure.error}")
        if report.failed > _MOST_FAILURES:
            yield f"  and {report.failed - _MOST_FAILURES:,} more, see --json"


def memories(count: int) -> str:
    """Return the count with its noun."""
    return plural(count, "memory", "memories")


COMMANDS = (rebuild_memory, restore_memory)
