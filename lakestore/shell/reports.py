"""What jobs report, as lines for people and as JSON for programs. Counts nothing by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any

import click

from lakestore.jobs import AppStats, CheckReport, Figures, Finding, LakeStats, SweepReport
from lakestore.shell.text import byte_size, clip, plural, visible, width, wrap

_SEVERITIES = {"lost": ("LOST", "red"), "mendable": ("MENDABLE", "yellow"), "note": ("note", None)}
_FIGURE_HEADS = (
    *("user", "sessions", "packed events", "fresh commits"),
    *("packed", "fresh", "to sweep"),
)


def to_json(report: object) -> str:
    """Return a report as one JSON object, whose names are those of its fields."""
    plain = asdict(report) if is_dataclass(report) and not isinstance(report, type) else report
    return json.dumps(plain, ensure_ascii=False, indent=2, default=str)


def compact_lines(report: Any) -> Iterator[str]:
    """Yield what a compaction did, in the order of it."""
    for pruned in getattr(report, "pruned", ()):
        yield from prune_lines(pruned)
    if report.dry_run:
        return
    yield (
        f"packed {plural(report.events, 'row')} of {plural(report.sessions, 'session')}"
        f" into {byte_size(report.packed_bytes)}  ({report.elapsed_ms / 1_000:.1f} s)"
    )
    artifacts = getattr(report, "artifacts", 0)
    if artifacts:
        yield f"packed what is new of {plural(artifacts, 'artifact')}"
    repacked = getattr(report, "repacked_bytes", 0)
    if repacked:
        yield f"rewrote {byte_size(repacked)} of older packs"


def prune_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was pruned, or would be."""
    things = {
        "state": ("key",),
        "telemetry": ("measurement",),
        "memory": ("memory", "memories"),
        "artifacts": ("version of artifacts", "versions of artifacts"),
    }
    thing = things.get(report["table"], (report["table"].removesuffix("s"),))
    verb = "would prune" if report["dry_run"] else "pruned"
    yield (
        f"{verb} {plural(report['deleted_count'], *thing)}, {byte_size(report['deleted_bytes'])}"
        f"  ({report['elapsed_ms'] / 1_000:.1f} s)"
    )


def erase_lines(receipt: Any, grace: float) -> Iterator[str]:
    """Yield what was erased, and what is left to do in a lake of that grace."""
    if receipt.is_empty:
        yield f"nothing of this user is there: no session, file, state or memory; {receipt.status}"
    else:
        yield _erased(receipt)
    if receipt.left:
        yield f"{plural(len(receipt.left), 'object')} could not go yet"
    if receipt.pending:
        yield f"pending: what was under way may still land; {second_look(receipt, grace)}"
    yield "a lake cannot see:"
    yield from (f"  {visible(place)}" for place in receipt.not_seen)


def second_look(receipt: Any, grace: float) -> str:
    """Return from when on what an eraser has left is to be looked for, and how."""
    due = datetime.fromtimestamp(receipt.removed_at + grace, UTC)
    return f"from {due:%Y-%m-%d %H:%M:%S} UTC on the same command looks once more"


def _erased(receipt: Any) -> str:
    return (
        f"erased {plural(len(receipt.sessions), 'session')}"
        f" and {plural(len(receipt.artifacts), 'artifact')}, deleted ones too;"
        f" {plural(len(receipt.removed), 'object')} deleted; {receipt.status}"
    )


def sweep_lines(report: SweepReport) -> Iterator[str]:
    """Yield what a sweep deleted, or would."""
    verb = "would delete" if report.dry_run else "deleted"
    if report.deleted:
        heads = ("kind", "objects", "bytes")
        rows = [
            (kind, f"{it.objects:,}", byte_size(it.bytes)) for kind, it in report.deleted.items()
        ]
        total = ("all", f"{report.objects:,}", byte_size(report.bytes))
        yield f"{verb}:"
        yield from _columns(heads, [*rows, total])
    else:
        yield f"{verb} nothing: all that is there is needed, or too young"
    if report.named:
        yield (
            f"{plural(report.named, 'object')} that nothing refers to"
            f" {'would be' if report.dry_run else 'are'} named, a later sweep deletes them"
        )
    if report.failures:
        heading = f"{plural(report.failures, 'thing')} could not be done; the rest was:"
        yield click.style(heading, fg="red")
        for reason in report.reasons:
            yield f"  {visible(reason)}"
    yield _cost(report.requests, report.elapsed_ms)


def check_lines(report: CheckReport, room: int) -> Iterator[str]:
    """Yield what a check found, worst first."""
    order = list(_SEVERITIES)
    for finding in sorted(report.findings, key=lambda it: (it.repaired, order.index(it.severity))):
        yield from _finding(finding, room)
        yield ""
    more = sum(report.counts.values()) + report.repaired - len(report.findings)
    if more:
        yield f"and {more:,} more"
    yield (
        f"read {plural(report.objects, 'object')}: {plural(report.apps, 'app')},"
        f" {plural(report.sessions, 'session')}, {plural(report.events, 'row')}"
        + (f", {plural(report.artifacts, 'artifact')}" if report.artifacts else "")
    )
    yield _cost(report.requests, report.elapsed_ms)
    found = [f"{report.counts[name]:,} {name}" for name in order[:2] if report.counts.get(name)]
    found += [plural(report.counts["note"], "note")] if report.counts.get("note") else []
    found += [f"{report.repaired:,} repaired"] if report.repaired else []
    words = ", ".join(found) or "nothing is wrong"
    yield click.style(words, fg="green" if report.healthy else "red", bold=True)


def _finding(finding: Finding, room: int) -> Iterator[str]:
    word, colour = _SEVERITIES[finding.severity]
    mark = click.style("repaired" if finding.repaired else word, fg=colour, bold=True)
    yield f"{mark}  {finding.kind}"
    yield f"  {visible(finding.key)}"  # whole: it is to be copied
    problem = finding.problem.replace(f". key={finding.key!r}", "")
    for name, text in (("what", problem), ("cost", finding.cost), ("mend", finding.remedy)):
        for number, line in enumerate(wrap(text, max(room - 8, 20))):
            yield f"  {name if number == 0 else '    '}  {line}"


def stats_lines(report: LakeStats, url: str, room: int) -> Iterator[str]:
    """Yield what a lake has."""
    for app in report.apps:
        yield from _app_lines(app, room)
        if app.is_due:
            why = f"{app.objects:,} objects where {app.objects_packed:,} would do"
            due = f"  compaction is due, {why}: lakestore compact {visible(url)}"
            yield click.style(due, bold=True)
        yield ""
    yield (
        f"{plural(len(report.apps), 'app')}, {plural(report.objects, 'object')},"
        f" {byte_size(report.bytes)}"
    )
    yield _cost(report.requests)


def _app_lines(app: AppStats, room: int) -> Iterator[str]:
    total, name = app.total, click.style(visible(app.app_name), bold=True)
    if app.damaged:
        yield f"{name}  {click.style('cannot be counted', fg='red')}"
        yield f"  {visible(app.damaged)}; see `lakestore check`"
        return
    yield (
        f"{name}  {plural(total.sessions, 'session')} of {plural(app.user_count, 'user')},"
        f" {plural(app.objects, 'object')}, {byte_size(app.bytes)}"
    )
    dead = f", {100 * app.dead_rows // app.rows} % of the rows dead" if app.dead_rows else ""
    yield (
        f"  packed    {plural(total.events, 'event')}, {byte_size(total.packed_bytes)}"
        f" in {plural(app.packs, 'pack')} and {plural(app.runs, 'run')}{dead}"
    )
    if total.artifacts:
        yield f"  files     {plural(total.artifacts, 'artifact')}"
    if total.payloads:
        size = byte_size(total.payload_bytes)
        yield f"  payloads  {plural(total.payloads, 'object')}, {size}, of artifacts and events"
    yield f"  fresh     {_fresh(app) if total.fresh_objects else 'nothing: all is packed'}"
    yield (
        f"  to sweep  {plural(total.covered_objects, 'object')},"
        f" {byte_size(total.covered_bytes)}: needed no more once the grace is over"
    )
    yield (
        f"  a new process opens a session with about {app.requests_now:,} requests,"
        f" and begins SQL with {app.sql_now:,}"
    )
    yield (
        f"  compacted and swept: {app.requests_packed:,} and {app.sql_packed:,},"
        f" {plural(app.objects_packed, 'object')} in all"
    )
    rows = [_figures(user, figures) for user, figures in app.users.items()]
    if rows:
        yield ""
        for line in _columns(_FIGURE_HEADS, rows, min(40, room // 3)):
            yield f"  {line}"
    if app.user_count > len(rows):
        yield f"  and {plural(app.user_count - len(rows), 'user')} more"


def _fresh(app: AppStats) -> str:
    """Return what is not packed yet."""
    commits = plural(app.total.fresh_commits, "commit")
    others = plural(app.other_entries, "entry", "entries")
    parts = [
        (app.total.fresh_commits, f"{commits} of {plural(app.fresh_sessions, 'session')}"),
        (app.entries, f"{plural(app.entries, 'entry', 'entries')} of state"),
        (app.other_entries, f"{others} of memory, telemetry"),
        (app.fresh_artifacts, f"commits of {plural(app.fresh_artifacts, 'artifact')}"),
    ]
    told = ", ".join(text for count, text in parts if count) or parts[0][1]
    return f"{told}, not packed yet: {byte_size(app.total.fresh_bytes)}"


def _figures(user: str, it: Figures) -> tuple[str, ...]:
    return (
        visible(user),
        f"{it.sessions:,}",
        f"{it.events:,}",
        f"{it.fresh_commits:,}",
        byte_size(it.packed_bytes),
        byte_size(it.fresh_bytes),
        byte_size(it.covered_bytes),
    )


def _columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]], widest: int = 40
) -> Iterator[str]:
    """Yield a table whose first column is text, of at most `widest`, and whose others are not."""
    cells = [heads, *([clip(row[0], widest), *row[1:]] for row in rows)]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        first = row[0] + " " * (widths[0] - width(row[0]))
        rest = (
            " " * (columns - width(cell)) + cell
            for cell, columns in zip(row[1:], widths[1:], strict=True)
        )
        yield "  ".join([first, *rest])
        if number == 0:
            yield "  ".join("─" * columns for columns in widths)


def _cost(requests: Mapping[str, int], elapsed_ms: int | None = None) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(requests.items()))
    spent = "" if elapsed_ms is None else f", {elapsed_ms / 1_000:.1f} s"
    return click.style(f"{plural(sum(requests.values()), 'request')} ({kinds}){spent}", dim=True)
