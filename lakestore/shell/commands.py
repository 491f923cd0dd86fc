"""The commands that run jobs: arguments in, one call, text or JSON out.

Exit codes: 0 all is well; 1 an error, or a check that found something lost or mendable, or a sweep
that could not do all; 2 arguments that make no sense; 3 nothing to erase was there; 130 Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from lakestore.shell.ending import now_stands, reports_errors, stops_with
from lakestore.shell.executors import Where
from lakestore.shell.lakes import opened, print_lines, require, watched
from lakestore.shell.options import (
    Duration,
    app_option,
    ask,
    dry_run_option,
    executor_option,
    json_option,
    url_argument,
    yes_option,
)
from lakestore.shell.text import duration, plural, shown_url, terminal_width, visible


@click.command()
@url_argument
@app_option
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.toml",
    help="First prune what this retention policy allows; asks, or needs --yes.",
)
@executor_option
@click.option("--dry-run", is_flag=True, help="Change nothing; tell what the policy would prune.")
@yes_option
@json_option
@stops_with("what was packed stands, no answer has changed; the same command does the rest")
def compact(
    url: str,
    app_name: str | None,
    policy: Path | None,
    where: Where | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Pack what was committed since the last time into large objects.

    No answer changes; reads take fewer requests. Run it as often as you like, from anywhere.
    """
    from lakestore.jobs import RetentionPolicy
    from lakestore.jobs import compact as run
    from lakestore.shell.reports import compact_lines, to_json

    if dry_run and policy is None:
        raise click.UsageError("--dry-run tells what a --policy would prune: give one")
    options: dict[str, Any] = {"app_name": app_name, "dry_run": dry_run}
    if policy is not None:
        options["policy"] = keep = RetentionPolicy.from_toml(policy)
    if policy is not None and not dry_run:
        words = ", ".join(f"{name} = {value}" for name, value in asdict(keep).items() if value)
        ask(f"Prune {shown_url(url)} by {words or 'a policy that keeps all'}?", yes=yes)
    with opened(url, read_only=dry_run) as lake, watched(lake, where) as how:
        require(lake, app_name)
        report = run(lake, **options, **how)
    print_lines([to_json(report)] if as_json else compact_lines(report))


@click.command()
@url_argument
@app_option
@click.option(
    "--grace",
    type=Duration(),
    metavar="TIME",
    help="How old what makes an object needless must be, as 45m or 2h.  [default: the lake's own]"
    " Shorter: only if nobody else has the lake open; asks, or needs --yes.",
)
@dry_run_option
@yes_option
@json_option
@stops_with("what was deleted was needless, no answer has changed; the same command does the rest")
def sweep(
    url: str,
    app_name: str | None,
    grace: timedelta | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete objects that nobody needs any more.

    No answer changes. What is needless, and for how long, is told by the store's own clock. Ends
    with 1 if something could not be deleted.
    """
    from lakestore.jobs import sweep as run
    from lakestore.shell.reports import sweep_lines, to_json

    with opened(url) as lake:
        require(lake, app_name)
        own = timedelta(seconds=lake.environment.limits.grace)
        if grace is not None and grace < own and not dry_run:
            ask(f"Does nobody else have {shown_url(url)} open?", yes=yes)
        with watched(lake) as how:
            report = run(lake, app_name=app_name, grace=grace, dry_run=dry_run, **how)
    print_lines([to_json(report)] if as_json else sweep_lines(report))
    sys.exit(1 if report.failures else 0)


@click.command()
@url_argument
@app_option
@click.option("--repair", is_flag=True, help="Mend what can be mended without losing anything.")
@click.option("--deep", is_flag=True, help="Also read payloads, and compare their digests.")
@json_option
@stops_with("a check changes nothing but what --repair mends; the same command begins again")
def check(url: str, app_name: str | None, repair: bool, deep: bool, as_json: bool) -> None:
    """Read a whole lake and tell what in it is not as it should be.

    Tells of each thing what it costs and how to mend it. Ends with 1 if something is lost or left
    to mend; notes alone end with 0.
    """
    from lakestore.jobs import check as run
    from lakestore.shell.reports import check_lines, to_json

    with opened(url, read_only=not repair) as lake, watched(lake) as how:
        require(lake, app_name)
        report = run(lake, app_name=app_name, repair=repair, deep=deep, **how)
    print_lines([to_json(report)] if as_json else check_lines(report, terminal_width()))
    sys.exit(0 if report.healthy else 1)


@click.command()
@url_argument
@app_option
@click.option(
    "--users",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Of each app figures of so many users, the largest ones, with --json too.",
)
@json_option
@reports_errors
def stats(url: str, app_name: str | None, users: int, as_json: bool) -> None:
    """Tell what a lake has, and what compaction would gain.

    Ends with 1 if an app is damaged, so that it cannot be counted.
    """
    from lakestore.jobs import stats as run
    from lakestore.shell.reports import stats_lines, to_json

    with opened(url, read_only=True) as lake, watched(lake) as how:
        require(lake, app_name)
        report = run(lake, app_name=app_name, users=users, **how)
    shown = stats_lines(report, shown_url(url), terminal_width())
    print_lines([to_json(report)] if as_json else shown)
    sys.exit(1 if any(app.damaged for app in report.apps) else 0)


_PRUNED = {
    "sessions": ("prune_sessions", "idle_days", "sessions that nobody has used for that long"),
    "events": ("prune_events", "older_than_days", "old events of living sessions"),
    "user-state": ("prune_user_state", "idle_days", "user: keys that nobody has set for that long"),
    "telemetry": ("prune_telemetry", "older_than_days", "measurements of calls from before that"),
    "memory": ("prune_memory", "older_than_days", "memories of what happened before that"),
    "artifacts": ("prune_artifacts", "older_than_days", "versions that were saved before that"),
}


_SPECIAL = {"scope": "memory", "keep_last": "artifacts", "latest": "artifacts"}
"""Options that are for one of them."""
_PACKS_NOTHING = ("sessions", "artifacts")


@click.command()
@click.argument("what", type=click.Choice(list(_PRUNED)))
@url_argument
@click.option("--idle-days", type=click.IntRange(min=1), help="For sessions and user-state.")
@click.option("--older-than-days", type=click.IntRange(min=1), help="For the others.")
@app_option
@click.option("--user", "user_id", help="Only this user; needs --app.")
@click.option(
    "--scope",
    type=click.Choice(["user", "app", "all"]),
    help="Of memory: of single users, of what all users of an app share, or both.  [default: user]",
)
@click.option(
    "--keep-last",
    type=click.IntRange(min=1),
    help="Of artifacts: of each never the last this many versions.  [default: 1]",
)
@click.option(
    "--latest", is_flag=True, help="Of artifacts: delete those of which every version is old."
)
@executor_option
@dry_run_option
@yes_option
@json_option
@stops_with("what was pruned stays pruned; the same command does the rest")
def prune(
    what: str,
    url: str,
    idle_days: int | None,
    older_than_days: int | None,
    app_name: str | None,
    user_id: str | None,
    scope: str | None,
    keep_last: int | None,
    latest: bool,
    where: Where | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Forget old sessions, events, telemetry, memories or files, or state that nobody sets.

    Files are artifacts: old versions go, and of each the latest stays unless --latest is given.

    Tells first what would go, and asks. Gone for readers at once; the bytes go with the next
    compact and sweep.
    """
    from lakestore import jobs
    from lakestore.shell.reports import prune_lines, to_json

    name, measure, _ = _PRUNED[what]
    days = _days(what, {"idle_days": idle_days, "older_than_days": older_than_days})
    special = {"scope": scope, "keep_last": keep_last, "latest": latest}
    more = {name: value for name, value in special.items() if value}
    _check_pruned(what, app_name, user_id, list(more), where)
    run = getattr(jobs, name)
    with opened(url) as lake:
        require(lake, app_name, user_id)
        options: dict[str, Any] = {"app_name": app_name, "user_id": user_id, measure: days, **more}
        if dry_run or not yes:
            with watched(lake) as how:
                report = run(lake, **options, dry_run=True, **how)
        if not dry_run:
            if not yes:
                click.echo("\n".join(prune_lines(report)), err=True)
            ask(f"Prune this from {shown_url(url)}?", yes=yes)
            with watched(lake, where) as how:
                report = run(lake, **options, **how)
    print_lines([to_json(report)] if as_json else prune_lines(report))


def _days(what: str, given: dict[str, int | None]) -> int:
    """Return after how many days it is pruned, sure that no other measure is given."""
    _, measure, words = _PRUNED[what]
    days = given.pop(measure)
    ((other, of_another),) = given.items()
    if days is None or of_another is not None:
        option, other = (f"--{name.replace('_', '-')}" for name in (measure, other))
        raise click.UsageError(f"`prune {what}` goes by {option}, not by {other}: {words}")
    return days


def _check_pruned(
    what: str,
    app_name: str | None,
    user_id: str | None,
    special: Sequence[str],
    where: Where | None,
) -> None:
    """Refuse options that make no sense for what is to be pruned."""
    if user_id is not None and not (app_name and user_id):
        raise click.UsageError("--user names a user of an app: give its --app, too")
    if {"keep_last", "latest"} <= set(special):
        raise click.UsageError("--latest deletes whole artifacts, --keep-last keeps some: give one")
    for name in special:
        if what != _SPECIAL[name]:
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} is of {_SPECIAL[name]}, not of {what}")
    if where and what in _PACKS_NOTHING:
        raise click.UsageError(f"`prune {what}` packs nothing, so it takes no --executor")


@click.command()
@url_argument
@click.option("--app", "app_name", required=True, help="The user's app.")
@click.option("--user", "user_id", required=True, help="The user.")
@click.option(
    "--wait", is_flag=True, help="Stay for the lake's grace, an hour as a rule, and look once more."
)
@executor_option
@yes_option
@json_option
@stops_with("nothing was changed")
def erase(
    url: str,
    app_name: str,
    user_id: str,
    wait: bool,
    where: Where | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Erase a user: all sessions, files (artifacts), state and memory, every byte.

    Nothing of it is read from when that is published. Then it waits, twice the lake's view age
    limit, 10 minutes as a rule: until then readers may still need the bytes, which it deletes
    after. Of a user who is not known nothing is waited for.

    Prints a receipt. It is pending until the bytes were looked for once more after the grace, an
    hour as a rule: what was under way may have landed. --wait stays for that; so does the same
    command, run again from the time that the receipt says. Ends with 3 if nothing of the user was
    there: the name was mistyped, or all was erased before.
    """
    from lakestore.jobs import erase_user
    from lakestore.shell.reports import erase_lines, second_look, to_json

    if not app_name or not user_id:
        raise click.UsageError("--app and --user take names that are not empty")
    with opened(url) as lake:
        require(lake, app_name)
        limits = lake.environment.limits
        if not yes:
            known = sum(1 for _ in lake.sessions.read_all(app_name, user_id))
            words = plural(known, "living session") if known else "no living session is known"
            takes = duration(2 * limits.view_age + (limits.grace if wait else 0))
            user = visible(f"{user_id!r} of {app_name!r}")
            what = f"all sessions, files, state and memory of the user {user}"
            ask(f"Erase {what} from {shown_url(url)}: {words}, takes {takes}?", yes=yes)
        with watched(lake, where) as how:
            now_stands("the user may be erased in part; the same command does the rest")
            receipt = erase_user(lake, app_name, user_id, wait=False, **how)
            if receipt.status == "published":
                now_stands(
                    "nothing of the user is read any more, and some bytes are still there;"
                    " the same command removes them"
                )
                receipt = receipt.finish(lake, **how)
            while wait and receipt.pending:
                now_stands("the user is erased; " + second_look(receipt, limits.grace))
                receipt = receipt.finish(lake, **how)
    print_lines([to_json(receipt)] if as_json else erase_lines(receipt, limits.grace))
    sys.exit(3 if receipt.is_empty else 0)


COMMANDS = (compact, sweep, check, stats, prune, erase)
